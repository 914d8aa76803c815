//! The environment and the files of [envoyproxy/ratelimit](https://github.com/envoyproxy/ratelimit).

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::HeaderName;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tollgate::OnStoreFailure;
use tollgate_envoy::{ChargingMode, Domains, HeaderNames, NearLimit, SameDomain, Settings};
use tollgate_policy::Sources;
use tollgate_redis::StoreUrl;

use super::envoy_variables::{EnvoyVariables, flag, identity};
use super::{ImportError, envoy_xds};
use crate::args::{Secret, ServerUrl};
use crate::decide::domain_files::{DomainFiles, summary};
use crate::decide::envoy::InitialDomains;
use crate::settings::DomainSource;
use crate::xds::LimitsAtStart;

/// The limits and settings of its files and its environment.
#[derive(Debug)]
pub(crate) struct ImportedDomains {
    pub(crate) initial: InitialDomains,
    /// Where the next limits come from.
    pub(crate) source: DomainSource,
    /// The server that holds its counters, if one is set.
    pub(crate) store: Option<Secret>,
    /// The files for TLS to that server.
    pub(crate) store_tls: ImportedStoreTls,
    /// The prefix of its keys, if it is set.
    pub(crate) prefix: Option<String>,
    /// Notes for the log, one a line.
    pub(crate) notes: Vec<String>,
}

/// The files for TLS to the server of its counters, each if it is set.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ImportedStoreTls {
    pub(crate) authorities: Option<PathBuf>,
    /// A client certificate and its key.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

/// Its variables that have no effect here, because a flag has that setting or Tollgate has no such setting. A name that
/// ends in `_` means all variables that begin with it.
const IGNORED: &[&str] = &[
    "BACKEND_TYPE",
    "DEBUG_",
    "DISABLE_STATS",
    "DOG_STATSD_",
    "EXPIRATION_JITTER_MAX_SECONDS",
    "EXTRA_TAGS",
    "GRPC_CLIENT_TLS_",
    "GRPC_HOST",
    "GRPC_MAX_CONNECTION_AGE",
    "GRPC_MAX_CONNECTION_AGE_GRACE",
    "GRPC_PORT",
    "GRPC_SERVER_",
    "GRPC_UDS",
    "HOST",
    "LOCAL_CACHE_SIZE_IN_BYTES",
    "LOG_FORMAT",
    "LOG_LEVEL",
    "MEMCACHE_",
    "PORT",
    "PROMETHEUS_",
    "REDIS_CLUSTER_PIPELINE_PARALLELISM",
    "REDIS_PERSECOND",
    "REDIS_PERSECOND_",
    "REDIS_PIPELINE_",
    "REDIS_POOL_",
    "REDIS_SENTINEL_AUTH",
    "REDIS_STARTUP_",
    "REDIS_TIMEOUT",
    "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION",
    "RUNTIME_",
    "STATSD_",
    "STATS_FLUSH_INTERVAL",
    "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT",
    "TRACING_",
    "USE_DOG_STATSD",
    "USE_DOG_STATSD_MOGRIFIERS",
    "USE_PROMETHEUS",
    "USE_STATSD",
];

/// Reads the environment, and the folder if limits do not come over xDS. `names` are the names of all variables that are
/// set.
///
/// # Errors
///
/// If a file or the value of a variable is not valid, a file cannot be read, or there is not one source of limits.
pub(super) fn read(
    folder: Option<PathBuf>,
    xds: Option<ServerUrl>,
    variables: EnvoyVariables<'_>,
    names: impl Iterator<Item = String>,
    charging: Option<ChargingMode>,
    failure: Option<OnStoreFailure>,
) -> Result<ImportedDomains, ImportError> {
    if variables("BACKEND_TYPE").is_some_and(|backend| backend != "redis") {
        let expected = "redis: counters are in memory or in Redis";
        return Err(ImportError::Variable { variable: "BACKEND_TYPE", expected, found: None });
    }
    let flag = |variable| flag(variables, variable);
    let same_domain = if flag("MERGE_DOMAIN_CONFIG")? { SameDomain::Merge } else { SameDomain::Refuse };
    let mut notes = Vec::new();
    let ImportedLimits { rule, domains, name, source, charging } =
        match (folder, envoy_xds::is_chosen(xds.as_ref(), variables)?) {
            (Some(folder), None) => {
                let charging = charging.unwrap_or(ChargingMode::AllOrNothing);
                let limits = ImportedLimits::of_folder(folder, same_domain, charging)?;
                notes.extend(limits.skipped_files());
                limits
            }
            (None, Some(_)) => ImportedLimits::over_xds(xds, variables, same_domain, charging)?,
            (Some(folder), Some(xds)) => return Err(ImportError::TwoSources { folder, xds }),
            (None, None) => return Err(ImportError::NoLimits),
        };
    let headers = headers(variables)?;
    let settings = Settings {
        charging,
        shadow_mode: flag("SHADOW_MODE")?,
        quota_mode: flag("QUOTA_MODE")?,
        headers: flag("LIMIT_RESPONSE_HEADERS_ENABLED")?.then_some(headers),
        dynamic_metadata: flag("RESPONSE_DYNAMIC_METADATA")?,
        hits: Some(near_limit(variables)?),
        max_value_bytes: None,
    };
    let store = store(variables)?;
    let is_tls = flag("REDIS_TLS")?;
    let store_tls = if is_tls { store_tls(variables)? } else { ImportedStoreTls::default() };
    // envoyproxy/ratelimit answers its callers with an error.
    let on_store_failure = failure.unwrap_or(OnStoreFailure::Closed);
    if store.is_none() {
        notes.push("REDIS_URL is not set: without `--store`, counters are in memory".to_owned());
    }
    let is_over_xds = matches!(source, DomainSource::Xds(_));
    let is_ignored = |name: &String| {
        let mut known = IGNORED.iter();
        known.any(|known| name == known || known.ends_with('_') && name.starts_with(known))
            || envoy_xds::is_variable(name) && !(is_over_xds && envoy_xds::is_read(name))
            || !is_tls && name.starts_with("REDIS_TLS_")
    };
    let mut ignored: Vec<String> = names.filter(is_ignored).collect();
    ignored.sort_unstable();
    if !ignored.is_empty() {
        notes.push(format!(
            "variables of envoyproxy/ratelimit that have no effect here: {}",
            ignored.join(", ")
        ));
    }
    Ok(ImportedDomains {
        initial: InitialDomains {
            rule,
            domains,
            source: name,
            settings,
            on_store_failure,
            outage_is_unhealthy: flag("REDIS_HEALTH_CHECK_ACTIVE_CONNECTION")?,
            needs_domains: flag("HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED")?,
        },
        source,
        store,
        store_tls,
        prefix: variables("CACHE_KEY_PREFIX"),
        notes,
    })
}

/// Limits, and where they come from.
struct ImportedLimits {
    /// A summary of the limits, for people.
    rule: String,
    /// `None` if they are still to come.
    domains: Option<Domains>,
    /// The name of the source in messages.
    name: Box<str>,
    source: DomainSource,
    charging: ChargingMode,
}

impl ImportedLimits {
    fn of_folder(
        folder: PathBuf,
        same_domain: SameDomain,
        charging: ChargingMode,
    ) -> Result<Self, ImportError> {
        let (files, domains) = DomainFiles::load(folder, same_domain).map_err(ImportError::File)?;
        Ok(Self {
            rule: format!("{} of {}", summary(&domains), files.name()),
            domains: Some(domains),
            name: files.name().into(),
            source: DomainSource::Files(files),
            charging,
        })
    }

    fn over_xds(
        server: Option<ServerUrl>,
        variables: EnvoyVariables<'_>,
        same_domain: SameDomain,
        charging: Option<ChargingMode>,
    ) -> Result<Self, ImportError> {
        let xds = envoy_xds::read(server, variables, same_domain)?;
        let domains = match xds.at_start {
            LimitsAtStart::Awaited => None,
            LimitsAtStart::None => Some(Domains::default()),
        };
        Ok(Self {
            rule: format!("limits over xDS from {}", xds.server),
            domains,
            name: xds.server.to_string().into(),
            source: DomainSource::Xds(Box::new(xds)),
            // Its users charge after a response, and no field of xDS asks for `overdraft`.
            charging: charging.unwrap_or(ChargingMode::Each),
        })
    }

    /// Returns a note about files of the folder that are not read.
    fn skipped_files(&self) -> Option<String> {
        let folder = &self.name;
        let skipped = skipped(Path::new(folder.as_ref()));
        (!skipped.is_empty()).then(|| {
            format!(
                "files of {folder} that are not read, because their names do not end in .yaml or .yml: {}",
                skipped.join(", ")
            )
        })
    }
}

/// Returns the files of the folder that envoyproxy/ratelimit would read and this service does not; a few of them at
/// most.
fn skipped(folder: &Path) -> Vec<String> {
    const SHOWN: usize = 10;
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path()).filter(|path| path.is_file() && !Sources::takes(path));
    let names = files.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort_unstable();
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    if more > 0 {
        names.push(format!("and {more} more"));
    }
    names
}

fn near_limit(variables: EnvoyVariables<'_>) -> Result<NearLimit, ImportError> {
    let Some(text) = variables("NEAR_LIMIT_RATIO") else { return Ok(NearLimit(0.8)) };
    let ratio = text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
    ratio.map(NearLimit).ok_or_else(|| ImportError::Variable {
        variable: "NEAR_LIMIT_RATIO",
        expected: "a number from 0 to 1",
        found: Some(text.into()),
    })
}

/// Returns the names of the headers. Envoy would drop those that no header can have.
fn headers(variables: EnvoyVariables<'_>) -> Result<HeaderNames, ImportError> {
    let HeaderNames { limit, remaining, reset } = HeaderNames::default();
    let named = |variable, default: Arc<str>| match variables(variable) {
        None => Ok(default),
        Some(name) if HeaderName::from_bytes(name.as_bytes()).is_ok() => Ok(name.into()),
        Some(name) => {
            let expected = "the name of a header, such as X-RateLimit-Limit";
            Err(ImportError::Variable { variable, expected, found: Some(name.into()) })
        }
    };
    Ok(HeaderNames {
        limit: named("LIMIT_LIMIT_HEADER", limit)?,
        remaining: named("LIMIT_REMAINING_HEADER", remaining)?,
        reset: named("LIMIT_RESET_HEADER", reset)?,
    })
}

/// Returns the URL of the server that its variables name.
fn store(variables: EnvoyVariables<'_>) -> Result<Option<Secret>, ImportError> {
    let Some(named) = variables("REDIS_URL") else { return Ok(None) };
    let unknown =
        |variable, expected: &'static str| ImportError::Variable { variable, expected, found: None };
    let scheme = if flag(variables, "REDIS_TLS")? { "rediss" } else { "redis" };
    let user = match variables("REDIS_AUTH") {
        None => String::new(),
        Some(auth) => {
            let (user, password) = auth.split_once(':').unwrap_or(("", &auth));
            let encoded = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
            format!("{}:{}@", encoded(user), encoded(password))
        }
    };
    // The default is a Unix socket.
    let socket = variables("REDIS_SOCKET_TYPE").unwrap_or_else(|| "unix".to_owned()).to_ascii_lowercase();
    let kind = variables("REDIS_TYPE").unwrap_or_else(|| "single".to_owned()).to_ascii_lowercase();
    let mut url = String::new();
    let _ = match (kind.as_str(), socket.as_str()) {
        ("single", "unix") if user.is_empty() => write!(url, "unix:{named}"),
        ("single", "unix") => write!(url, "unix://{user}{named}"),
        ("single", "tcp") => write!(url, "{scheme}://{user}{named}"),
        ("single", _) => return Err(unknown("REDIS_SOCKET_TYPE", "tcp or unix")),
        ("cluster", _) => write!(url, "{scheme}+cluster://{user}{named}"),
        ("sentinel", _) => {
            let expected = "the name of the primary and its Sentinels, with commas between them";
            let (primary, sentinels) = named.split_once(',').ok_or_else(|| unknown("REDIS_URL", expected))?;
            write!(url, "{scheme}+sentinel://{user}{sentinels}/{primary}")
        }
        _ => return Err(unknown("REDIS_TYPE", "single, sentinel or cluster")),
    };
    if url.parse::<StoreUrl>().is_err() {
        // The URL is not repeated in the error, because it may hold a password.
        return Err(match (kind.as_str(), socket.as_str()) {
            ("single", _) if named.contains(',') => unknown(
                "REDIS_URL",
                "one server, because REDIS_TYPE is `single` by default; for several, set it to `cluster` or `sentinel`",
            ),
            ("single", "unix") => unknown(
                "REDIS_URL",
                "the absolute path of a socket, because REDIS_SOCKET_TYPE is `unix` by default; for host:port, set it \
                 to `tcp`",
            ),
            ("single", _) => unknown("REDIS_URL", "host:port"),
            _ => unknown("REDIS_URL", "host:port of each server, with commas between them"),
        });
    }
    Ok(Some(url.into()))
}

/// Returns the files that its variables name. It reads them only if TLS is on.
fn store_tls(variables: EnvoyVariables<'_>) -> Result<ImportedStoreTls, ImportError> {
    let path = |variable| variables(variable).map(PathBuf::from);
    let identity = identity(variables, "REDIS_TLS_CLIENT_CERT", "REDIS_TLS_CLIENT_KEY")?;
    Ok(ImportedStoreTls { authorities: path("REDIS_TLS_CACERT"), identity })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store_of(given: &[(&str, &str)]) -> Result<Option<String>, String> {
        let variables =
            |name: &str| given.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned());
        let store = store(&variables).map_err(|error| error.to_string())?;
        Ok(store.map(|store| store.expose().to_owned()))
    }

    /// The service started, and Envoy dropped every header.
    #[test]
    fn names_that_no_header_can_have_are_refused() {
        for variable in ["LIMIT_LIMIT_HEADER", "LIMIT_REMAINING_HEADER", "LIMIT_RESET_HEADER"] {
            let named = |value: &str| {
                headers(&|name: &str| (name == variable).then(|| value.to_owned()))
                    .map(|names| [names.limit, names.remaining, names.reset].contains(&value.into()))
                    .map_err(|error| error.to_string())
            };
            assert_eq!(named("X-Limit"), Ok(true), "as it is written");
            for value in ["bad header", ":path", "a:", "naïve"] {
                let expected = format!(
                    "{variable}: expected the name of a header, such as X-RateLimit-Limit, found `{value}`"
                );
                assert_eq!(named(value), Err(expected));
            }
        }
    }

    #[test]
    fn builds_the_store_url_from_the_variables() {
        for (given, expected) in [
            (&[][..], None),
            (&[("REDIS_URL", "/run/redis.sock")], Some("unix:/run/redis.sock")),
            (&[("REDIS_URL", "h:1"), ("REDIS_SOCKET_TYPE", "tcp")], Some("redis://h:1")),
            (
                &[
                    ("REDIS_URL", "h:1"),
                    ("REDIS_SOCKET_TYPE", "TCP"),
                    ("REDIS_TLS", "true"),
                    ("REDIS_AUTH", "p@ss/word"),
                ],
                Some("rediss://:p%40ss%2Fword@h:1"),
            ),
            (
                &[("REDIS_URL", "a:1,b:2"), ("REDIS_TYPE", "CLUSTER"), ("REDIS_AUTH", "me:secret")],
                Some("redis+cluster://me:secret@a:1,b:2"),
            ),
            (
                &[("REDIS_URL", "main,a:1,b:2"), ("REDIS_TYPE", "SENTINEL")],
                Some("redis+sentinel://a:1,b:2/main"),
            ),
        ] {
            assert_eq!(store_of(given), Ok(expected.map(ToOwned::to_owned)), "{given:?}");
        }
        for (given, expected) in [
            (
                &[("REDIS_URL", "h:1"), ("REDIS_TYPE", "ring")][..],
                "REDIS_TYPE: expected single, sentinel or cluster",
            ),
            (
                &[("REDIS_URL", "h:1"), ("REDIS_SOCKET_TYPE", "udp")],
                "REDIS_SOCKET_TYPE: expected tcp or unix",
            ),
            (
                &[("REDIS_URL", "h:1"), ("REDIS_TLS", "maybe")],
                "REDIS_TLS: expected true or false, found `maybe`",
            ),
            (
                &[("REDIS_URL", "main"), ("REDIS_TYPE", "sentinel")],
                "REDIS_URL: expected the name of the primary",
            ),
            (&[("REDIS_URL", "a b"), ("REDIS_SOCKET_TYPE", "tcp")], "REDIS_URL: expected host:port"),
            // The hint was the other one, to set REDIS_SOCKET_TYPE, which does not help.
            (
                &[("REDIS_URL", "a:1,b:2")],
                "REDIS_URL: expected one server, because REDIS_TYPE is `single` by default; for several, set it to \
                 `cluster` or `sentinel`",
            ),
            (
                &[("REDIS_URL", "a:1,b:2"), ("REDIS_SOCKET_TYPE", "tcp")],
                "REDIS_URL: expected one server, because REDIS_TYPE is `single` by default",
            ),
            (
                &[("REDIS_URL", "127.0.0.1:1")],
                "REDIS_URL: expected the absolute path of a socket, because REDIS_SOCKET_TYPE is `unix` by default; for \
                 host:port, set it to `tcp`",
            ),
        ] {
            let error = store_of(given).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
