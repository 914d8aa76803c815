//! The variables of envoyproxy/ratelimit about limits over xDS.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::uri::Authority;
use rustls::pki_types::ServerName;
use tollgate_envoy::SameDomain;
use tonic::metadata::{AsciiMetadataKey, AsciiMetadataValue, MetadataMap};

use super::envoy_variables::{EnvoyVariables, flag, identity};
use super::{ImportError, go_value};
use crate::args::{ServerUrl, parse_server};
use crate::observe::with_sources::WithSources;
use crate::xds::{LimitsAtStart, XdsBackoff, XdsCertificates, XdsNode, XdsServer, XdsSettings};

const SERVER_URL: &str = "CONFIG_GRPC_XDS_SERVER_URL";
const USE_TLS: &str = "CONFIG_GRPC_XDS_SERVER_USE_TLS";
const CLIENT_CERTIFICATE: &str = "CONFIG_GRPC_XDS_CLIENT_TLS_CERT";
const CLIENT_KEY: &str = "CONFIG_GRPC_XDS_CLIENT_TLS_KEY";
const AUTHORITIES: &str = "CONFIG_GRPC_XDS_SERVER_TLS_CACERT";
const SERVER_NAME: &str = "CONFIG_GRPC_XDS_SERVER_TLS_SAN";
const NODE_ID: &str = "CONFIG_GRPC_XDS_NODE_ID";
const NODE_METADATA: &str = "CONFIG_GRPC_XDS_NODE_METADATA";
const HEADERS: &str = "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS";
const CONNECT_RETRY: &str = "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL";
const INITIAL_INTERVAL: &str = "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL";
const MAX_INTERVAL: &str = "XDS_CLIENT_BACKOFF_MAX_INTERVAL";
const FACTOR: &str = "XDS_CLIENT_BACKOFF_RANDOM_FACTOR";
const JITTER: &str = "XDS_CLIENT_BACKOFF_JITTER";
const MAX_MESSAGE: &str = "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES";
const FORCE_START: &str = "FORCE_START_WITHOUT_INITIAL_CONFIG";

/// The variables that have an effect if limits come over xDS.
const KNOWN_VARIABLES: &[&str] = &[
    SERVER_URL,
    USE_TLS,
    CLIENT_CERTIFICATE,
    CLIENT_KEY,
    AUTHORITIES,
    SERVER_NAME,
    NODE_ID,
    NODE_METADATA,
    HEADERS,
    CONNECT_RETRY,
    INITIAL_INTERVAL,
    MAX_INTERVAL,
    FACTOR,
    JITTER,
    MAX_MESSAGE,
    FORCE_START,
];

/// The variables that only have an effect with TLS.
const TLS_VARIABLES: [&str; 4] = [CLIENT_CERTIFICATE, CLIENT_KEY, AUTHORITIES, SERVER_NAME];

/// The default of envoyproxy/ratelimit, as that of the node.
const DEFAULT_SERVER: &str = "localhost:18000";

/// The default of gRPC.
const DEFAULT_MAX_MESSAGE: usize = 4 * 1024 * 1024;

/// A response with as many limits as this would not fit into the memory of most services.
const MAX_MAX_MESSAGE_BYTES: usize = 256 * 1024 * 1024;

/// Longer waits are mistakes.
const MAX_WAIT: Duration = Duration::from_secs(86_400);

const DURATION: &str = "a duration from 1ms to 24h, such as 500ms, 10s or 1m30s";

/// Returns whether a variable is about xDS.
pub(super) fn is_variable(name: &str) -> bool {
    name.starts_with("CONFIG_GRPC_XDS_") || name.starts_with("XDS_CLIENT_") || name == FORCE_START
}

/// Returns whether a variable has an effect if limits come over xDS.
pub(super) fn is_read(name: &str) -> bool {
    KNOWN_VARIABLES.contains(&name)
}

/// Returns what asks for limits over xDS, if something does.
///
/// # Errors
///
/// If `CONFIG_TYPE` is unknown, or asks for files although a flag asks for xDS.
pub(super) fn is_chosen(
    server: Option<&ServerUrl>,
    variables: EnvoyVariables<'_>,
) -> Result<Option<&'static str>, ImportError> {
    const VARIABLE: &str = "CONFIG_TYPE";
    match (variables(VARIABLE).as_deref(), server) {
        (Some("FILE"), Some(_)) => {
            let conflict = "`FILE` conflicts with `--xds`, which asks for limits over xDS";
            Err(ImportError::Conflict { variable: VARIABLE, conflict })
        }
        (None | Some("GRPC_XDS_SOTW"), Some(_)) => Ok(Some("--xds")),
        (Some("GRPC_XDS_SOTW"), None) => Ok(Some("CONFIG_TYPE=GRPC_XDS_SOTW")),
        (None | Some("FILE"), None) => Ok(None),
        (Some(found), _) => {
            let (expected, found) = ("FILE or GRPC_XDS_SOTW", Some(found.into()));
            Err(ImportError::Variable { variable: VARIABLE, expected, found })
        }
    }
}

/// Reads the settings of the client. `server` replaces the variable.
///
/// # Errors
///
/// If the value of a variable is not valid or contradicts another, or the certificates cannot be used.
pub(super) fn read(
    server: Option<ServerUrl>,
    variables: EnvoyVariables<'_>,
    same_domain: SameDomain,
) -> Result<XdsSettings, ImportError> {
    let at_start = match flag(variables, FORCE_START)? {
        true => LimitsAtStart::None,
        false => LimitsAtStart::Awaited,
    };
    let size = |text: &str| text.parse().ok().filter(|size| *size <= MAX_MAX_MESSAGE_BYTES);
    let size_expected = "a number of bytes from 1 to 268435456, or 0 for the default";
    let max_message_bytes = parsed(variables, MAX_MESSAGE, size_expected, size)?.filter(|size| *size > 0);
    Ok(XdsSettings {
        server: self::server(server, variables)?,
        node: XdsNode {
            id: variables(NODE_ID).unwrap_or_else(|| "default".to_owned()),
            metadata: node_metadata(variables)?,
        },
        headers: headers(variables)?,
        backoff: backoff(variables)?,
        connect_retry: parsed(variables, CONNECT_RETRY, DURATION, duration)?,
        max_message_bytes: max_message_bytes.unwrap_or(DEFAULT_MAX_MESSAGE),
        at_start,
        same_domain,
    })
}

fn server(server: Option<ServerUrl>, variables: EnvoyVariables<'_>) -> Result<XdsServer, ImportError> {
    let asks_tls = flag(variables, USE_TLS)?;
    let (authority, has_tls) = match server {
        Some(ServerUrl { tls: false, .. }) if asks_tls => {
            let conflict = "true conflicts with `--xds`: write its URL with https://";
            return Err(ImportError::Conflict { variable: USE_TLS, conflict });
        }
        Some(ServerUrl { tls, authority }) => (authority, tls),
        None => (authority(variables)?, asks_tls),
    };
    if !has_tls {
        if let Some(variable) = TLS_VARIABLES.into_iter().find(|variable| variables(variable).is_some()) {
            let conflict = "it needs TLS: set CONFIG_GRPC_XDS_SERVER_USE_TLS=true, or `--xds` with https://";
            return Err(ImportError::Conflict { variable, conflict });
        }
        return Ok(XdsServer { authority, certificates: None });
    }
    let path = |variable| variables(variable).map(PathBuf::from);
    let client = identity(variables, CLIENT_CERTIFICATE, CLIENT_KEY)?;
    let name = variables(SERVER_NAME);
    let host = name.clone().unwrap_or_else(|| authority.host().trim_matches(['[', ']']).to_owned());
    let server_name = ServerName::try_from(host.clone()).map_err(|_| ImportError::Variable {
        variable: if name.is_some() { SERVER_NAME } else { SERVER_URL },
        expected: "a host name or an address, which the server's certificate has",
        found: Some(host.into()),
    })?;
    let certificates = XdsCertificates::load(path(AUTHORITIES), client, server_name).map_err(|error| {
        let variables = "CONFIG_GRPC_XDS_CLIENT_TLS_CERT, _KEY and CONFIG_GRPC_XDS_SERVER_TLS_CACERT";
        ImportError::XdsCertificates(variables, WithSources(&error).to_string().into())
    })?;
    Ok(XdsServer { authority, certificates: Some(Arc::new(certificates)) })
}

/// Reads the address as gRPC writes it.
fn authority(variables: EnvoyVariables<'_>) -> Result<Authority, ImportError> {
    let text = variables(SERVER_URL).unwrap_or_else(|| DEFAULT_SERVER.to_owned());
    let address = ["dns:///", "passthrough:///"].iter().find_map(|prefix| text.strip_prefix(prefix));
    let address = address.unwrap_or(&text);
    let server = parse_server(address).ok().filter(|_| !address.contains("://"));
    server.map(|server| server.authority).ok_or_else(|| ImportError::Variable {
        variable: SERVER_URL,
        expected: "HOST:PORT, such as envoy-gateway:18001 (CONFIG_GRPC_XDS_SERVER_USE_TLS=true adds TLS)",
        found: None,
    })
}

fn node_metadata(variables: EnvoyVariables<'_>) -> Result<Vec<(String, String)>, ImportError> {
    let invalid = || ImportError::Variable {
        variable: NODE_METADATA,
        expected: "KEY=VALUE pairs with commas between them, each key once",
        found: None,
    };
    let mut pairs: Vec<(String, String)> = Vec::new();
    for pair in entries(variables(NODE_METADATA).as_deref()) {
        let (key, value) = pair.split_once('=').ok_or_else(invalid)?;
        if key.is_empty() || pairs.iter().any(|(known, _)| known == key) {
            return Err(invalid());
        }
        pairs.push((key.to_owned(), value.to_owned()));
    }
    Ok(pairs)
}

/// Reads the headers, whose values may be secrets.
fn headers(variables: EnvoyVariables<'_>) -> Result<MetadataMap, ImportError> {
    let invalid = || ImportError::Variable {
        variable: HEADERS,
        expected: "NAME:VALUE pairs with commas between them, each name once and in lower case",
        found: None,
    };
    let mut headers = MetadataMap::new();
    for pair in entries(variables(HEADERS).as_deref()) {
        let (name, value) = pair.split_once(':').ok_or_else(invalid)?;
        let name = AsciiMetadataKey::from_bytes(name.trim().as_bytes()).map_err(|_| invalid())?;
        let mut value: AsciiMetadataValue = value.trim().parse().map_err(|_| invalid())?;
        value.set_sensitive(true);
        if headers.insert(name, value).is_some() {
            return Err(invalid());
        }
    }
    Ok(headers)
}

fn entries(list: Option<&str>) -> impl Iterator<Item = &str> {
    list.unwrap_or_default().split(',').map(str::trim).filter(|entry| !entry.is_empty())
}

fn backoff(variables: EnvoyVariables<'_>) -> Result<XdsBackoff, ImportError> {
    /// The waits by default: envoyproxy/ratelimit waits for 10 seconds, however often it fails.
    const INITIAL: Duration = Duration::from_secs(1);
    const MAX: Duration = Duration::from_secs(30);
    let interval = |variable| parsed(variables, variable, DURATION, duration);
    let (initial, max) = match (interval(INITIAL_INTERVAL)?, interval(MAX_INTERVAL)?) {
        (Some(initial), Some(max)) if initial > max => {
            let conflict = "it must not be longer than XDS_CLIENT_BACKOFF_MAX_INTERVAL";
            return Err(ImportError::Conflict { variable: INITIAL_INTERVAL, conflict });
        }
        (Some(initial), max) => (initial, max.unwrap_or(MAX.max(initial))),
        (None, max) => (INITIAL.min(max.unwrap_or(INITIAL)), max.unwrap_or(MAX)),
    };
    let factor = |text: &str| text.parse().ok().filter(|factor| (0.0..=1_000.0).contains(factor));
    let factor = parsed(variables, FACTOR, "a number from 0 to 1000", factor)?;
    let has_jitter = variables(JITTER).is_none() || flag(variables, JITTER)?;
    Ok(XdsBackoff { initial, max, factor: factor.filter(|factor| *factor > 0.0).unwrap_or(2.0), has_jitter })
}

fn parsed<T>(
    variables: EnvoyVariables<'_>,
    variable: &'static str,
    expected: &'static str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>, ImportError> {
    let Some(text) = variables(variable) else { return Ok(None) };
    let value = read(&text);
    let invalid = || ImportError::Variable { variable, expected, found: Some(text.into()) };
    value.ok_or_else(invalid).map(Some)
}

fn duration(text: &str) -> Option<Duration> {
    go_value::duration(text).filter(|duration| (Duration::from_millis(1)..=MAX_WAIT).contains(duration))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(given: &[(&str, &str)], server: Option<&str>) -> Result<XdsSettings, String> {
        let variables =
            |name: &str| given.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned());
        let server = server.map(|server| parse_server(server).unwrap());
        read(server, &variables, SameDomain::Refuse).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_those_of_envoyproxy_ratelimit_but_for_the_waits() {
        let settings = settings(&[], None).unwrap();
        assert_eq!(settings.server.to_string(), "http://localhost:18000");
        assert_eq!((settings.node.id.as_str(), settings.node.metadata.len()), ("default", 0));
        assert_eq!(settings.at_start, LimitsAtStart::Awaited);
        assert_eq!((settings.max_message_bytes, settings.connect_retry), (4_194_304, None));
        let XdsBackoff { initial, max, factor, has_jitter } = settings.backoff;
        assert_eq!((initial.as_secs(), max.as_secs(), has_jitter), (1, 30, true));
        assert!((factor - 2.0).abs() < f64::EPSILON);
    }

    #[test]
    fn every_variable_has_its_effect() {
        let given = [
            (SERVER_URL, "dns:///[::1]:18001"),
            (NODE_ID, "envoy-ratelimit"),
            (NODE_METADATA, "a=1,b=x=y,"),
            (HEADERS, "x-key: secret,x-other:2"),
            (CONNECT_RETRY, "3s"),
            (INITIAL_INTERVAL, "1m0.5s"),
            (MAX_INTERVAL, "1h"),
            (FACTOR, "0.5"),
            (JITTER, "false"),
            (MAX_MESSAGE, "1000"),
            (FORCE_START, "true"),
        ];
        let settings = settings(&given, None).unwrap();
        assert_eq!(settings.server.to_string(), "http://[::1]:18001");
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(settings.node.metadata, [pair("a", "1"), pair("b", "x=y")]);
        assert_eq!(settings.headers.get("x-key").unwrap(), "secret");
        assert!(!format!("{settings:?}").contains("secret"));
        assert_eq!(settings.connect_retry, Some(Duration::from_secs(3)));
        let backoff = settings.backoff;
        assert_eq!((backoff.initial.as_millis(), backoff.max.as_secs()), (60_500, 3_600));
        assert!((backoff.factor - 0.5).abs() < f64::EPSILON && !backoff.has_jitter);
        assert_eq!((settings.max_message_bytes, settings.at_start), (1_000, LimitsAtStart::None));
    }

    #[test]
    fn a_flag_overrides_the_address() {
        let server = |given: &[_], flag| settings(given, Some(flag)).map(|xds| xds.server.to_string());
        assert_eq!(server(&[(SERVER_URL, "a:1")], "b:2").unwrap(), "http://b:2");
        assert!(server(&[(USE_TLS, "true")], "http://b:2").unwrap_err().starts_with(USE_TLS));
    }

    #[test]
    fn errors_name_their_variable() {
        for (given, expected) in [
            (&[(SERVER_URL, "http://a:1")][..], "CONFIG_GRPC_XDS_SERVER_URL: expected HOST:PORT"),
            (&[(SERVER_URL, "a")], "CONFIG_GRPC_XDS_SERVER_URL: expected HOST:PORT"),
            (&[(NODE_METADATA, "a")], "CONFIG_GRPC_XDS_NODE_METADATA: expected KEY=VALUE pairs"),
            (&[(NODE_METADATA, "a=1,a=2")], "CONFIG_GRPC_XDS_NODE_METADATA: expected KEY=VALUE pairs"),
            (&[(HEADERS, "secret")], "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS: expected NAME:VALUE pairs"),
            (&[(CONNECT_RETRY, "3")], "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL: expected a duration"),
            (&[(INITIAL_INTERVAL, "0s")], "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: expected a duration"),
            (&[(MAX_INTERVAL, "-1s")], "XDS_CLIENT_BACKOFF_MAX_INTERVAL: expected a duration"),
            (
                &[(INITIAL_INTERVAL, "2s"), (MAX_INTERVAL, "1s")],
                "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: it must not be longer",
            ),
            (&[(FACTOR, "NaN")], "XDS_CLIENT_BACKOFF_RANDOM_FACTOR: expected a number from 0 to 1000"),
            (&[(JITTER, "maybe")], "XDS_CLIENT_BACKOFF_JITTER: expected true or false"),
            (&[(MAX_MESSAGE, "-1")], "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES: expected a number of bytes"),
            (&[(MAX_MESSAGE, "268435457")], "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES: expected a number of bytes"),
            (&[(AUTHORITIES, "ca.crt")], "CONFIG_GRPC_XDS_SERVER_TLS_CACERT: it needs TLS"),
            (
                &[(USE_TLS, "true"), (CLIENT_KEY, "tls.key")],
                "CONFIG_GRPC_XDS_CLIENT_TLS_CERT: expected the path of a file, because its key is set",
            ),
            (
                &[(USE_TLS, "true"), (AUTHORITIES, "/nowhere/ca.crt")],
                "the certificates for the xDS server (CONFIG_GRPC_XDS_CLIENT_TLS_CERT, _KEY and \
                 CONFIG_GRPC_XDS_SERVER_TLS_CACERT): cannot read /nowhere/ca.crt",
            ),
        ] {
            let error = settings(given, None).unwrap_err();
            assert!(error.starts_with(expected) && !error.contains("secret"), "{error}");
        }
    }
}
