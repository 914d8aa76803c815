//! The flags that stand for the environment of envoyproxy/ratelimit, if the process is called by its name.
//!
//! Envoy Gateway starts `/bin/ratelimit` without arguments, and everything else is in variables. Under that name, the
//! program listens where envoyproxy/ratelimit does, on all addresses of IPv4 and IPv6. The store and how requests are
//! decided are not here: `envoy_ratelimit` reads these variables, whatever the name.

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::envoy_variables::{EnvoyVariables, flag as boolean};
use super::{ImportError, go_value, variable};
use crate::access::address::UNIX;
use crate::args::{CommandLine, IMPORT_FOLDER, overriding_variable};

/// The name of its program.
const NAME: &str = "ratelimit";

/// The flags, and the variables that they came from.
#[derive(Debug, Default)]
struct ProcessFlags {
    words: Vec<OsString>,
    sources: Vec<(&'static str, &'static str)>,
}

impl CommandLine {
    /// Returns the flags that stand for the environment of envoyproxy/ratelimit, if these are the words of a process
    /// that was called `ratelimit`, without arguments. Otherwise, returns the words as they are.
    ///
    /// # Errors
    ///
    /// If the value of a variable is not valid.
    pub fn of_environment(self) -> Result<Self, ImportError> {
        let [name] = self.words() else { return Ok(self) };
        if Path::new(name).file_name() != Some(NAME.as_ref()) {
            return Ok(self);
        }
        let ProcessFlags { words, sources } = ProcessFlags::read(&variable)?;
        Ok(Self::of_serve(name.clone(), words, NAME, sources))
    }
}

impl ProcessFlags {
    /// The table: each flag, and the variables that set it.
    fn read(variables: EnvoyVariables<'_>) -> Result<Self, ImportError> {
        let mut flags = Self::default();
        flags.add_limits(variables);
        flags.add_listeners(variables)?;
        if boolean(variables, "GRPC_SERVER_USE_TLS")? {
            flags.add_tls(variables)?;
        }
        flags.add_logs(variables)?;
        Ok(flags)
    }

    /// Adds a flag with the variables that set it, unless its own variable overrides it.
    fn add(&mut self, flag: &'static str, values: &[OsString], from: &[&'static str]) {
        if overriding_variable(flag).is_none() {
            self.set(flag, values, from);
        }
    }

    fn set(&mut self, flag: &'static str, values: &[OsString], from: &[&'static str]) {
        self.words.push(flag.into());
        self.words.extend_from_slice(values);
        self.sources.extend(from.iter().map(|variable| (flag, *variable)));
    }

    fn add_limits(&mut self, variables: EnvoyVariables<'_>) {
        let mut values = vec!["envoy-ratelimit".into()];
        let mut from: &[&str] = &[];
        let asks_xds = overriding_variable("--xds").is_some();
        // Over xDS there is no folder.
        if !asks_xds && variables("CONFIG_TYPE").is_none_or(|kind| kind == "FILE") {
            let part = |variable, default: &str| variables(variable).unwrap_or_else(|| default.to_owned());
            let mut folder = PathBuf::from(part("RUNTIME_ROOT", "/srv/runtime_data/current"));
            for (variable, default) in [("RUNTIME_SUBDIRECTORY", ""), ("RUNTIME_APPDIRECTORY", "config")] {
                // Below the root, even if it begins with a slash.
                folder.push(part(variable, default).trim_start_matches('/'));
            }
            values.push(folder.into());
            from = &["RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY", "RUNTIME_APPDIRECTORY"];
        }
        if overriding_variable("--import").is_none() {
            self.set("--import", &values, &[]);
            // They set the folder alone, so only errors about files name them.
            self.sources.extend(from.iter().map(|variable| (IMPORT_FOLDER, *variable)));
        }
    }

    /// Sets the address of each listener but that for administrators. Variables of our own do not override them, because
    /// the image has some of them, for `tollgate serve`.
    fn add_listeners(&mut self, variables: EnvoyVariables<'_>) -> Result<(), ImportError> {
        match variables("GRPC_UDS") {
            Some(path) => self.set("--grpc", &[format!("{UNIX}{path}").into()], &["GRPC_UDS"]),
            None => {
                let grpc = address(variables, "GRPC_HOST", ("GRPC_PORT", 8081))?;
                self.set("--grpc", &[grpc.to_string().into()], &["GRPC_PORT", "GRPC_HOST"]);
            }
        }
        // Its HTTP listener also decides, for everyone who reaches it. Here it only answers probes.
        let probes = address(variables, "HOST", ("PORT", 8080))?;
        self.set("--plain-probes", &[probes.to_string().into()], &["PORT", "HOST"]);
        self.set("--listen", &["none".into()], &[]);
        if boolean(variables, "USE_PROMETHEUS")? {
            let metrics = metrics_address(variables)?;
            let from = ["PROMETHEUS_ADDR", "USE_PROMETHEUS"];
            self.set("--metrics-listen", &[metrics.to_string().into()], &from);
            self.add("--metric-aliases", &["envoy-ratelimit".into()], &["USE_PROMETHEUS"]);
        } else {
            self.set("--metrics-listen", &["none".into()], &[]);
        }
        match variables("GRPC_MAX_CONNECTION_AGE") {
            None => self.add("--grpc-max-connection-age", &["24h".into()], &[]),
            Some(text) => {
                let age = connection_age(&text)?;
                // Its 0 is no limit.
                if let Some(seconds) = age {
                    let value = format!("{seconds}s").into();
                    self.add("--grpc-max-connection-age", &[value], &["GRPC_MAX_CONNECTION_AGE"]);
                }
            }
        }
        Ok(())
    }

    /// Adds TLS on the gRPC listener alone. Envoy Gateway calls the authorities of clients `GRPC_SERVER_TLS_CA_CERT`,
    /// which envoyproxy/ratelimit does not read.
    fn add_tls(&mut self, variables: EnvoyVariables<'_>) -> Result<(), ImportError> {
        const AUTHORITIES: [&str; 2] = ["GRPC_CLIENT_TLS_CACERT", "GRPC_SERVER_TLS_CA_CERT"];
        let is_overridden = overriding_variable("--tls-cert").is_some();
        for (flag, variable) in [("--tls-cert", "GRPC_SERVER_TLS_CERT"), ("--tls-key", "GRPC_SERVER_TLS_KEY")]
        {
            match variables(variable) {
                Some(file) => self.add(flag, &[file.into()], &[variable]),
                None if is_overridden => {}
                None => {
                    let expected = "the path of a file, because GRPC_SERVER_USE_TLS is set";
                    return Err(ImportError::Variable { variable, expected, found: None });
                }
            }
        }
        let authorities = match AUTHORITIES.map(variables) {
            [Some(one), Some(other)] if one != other => {
                let expected = "the same file as in GRPC_CLIENT_TLS_CACERT";
                return Err(ImportError::Variable {
                    variable: AUTHORITIES[1],
                    expected,
                    found: Some(other.into()),
                });
            }
            [Some(file), _] => Some((file, AUTHORITIES[0])),
            [None, file] => file.map(|file| (file, AUTHORITIES[1])),
        };
        let name = variables("GRPC_CLIENT_TLS_SAN");
        if name.is_some() && authorities.is_none() && overriding_variable("--tls-client-ca").is_none() {
            let expected =
                "nothing, because no certificate of a client is demanded: set GRPC_CLIENT_TLS_CACERT";
            return Err(ImportError::Variable { variable: "GRPC_CLIENT_TLS_SAN", expected, found: None });
        }
        if let Some((file, variable)) = authorities {
            self.add("--tls-client-ca", &[file.into()], &[variable]);
        }
        if let Some(name) = name {
            self.add("--tls-client-name", &[name.into()], &["GRPC_CLIENT_TLS_SAN"]);
        }
        self.add("--tls-on", &["grpc".into()], &["GRPC_SERVER_USE_TLS"]);
        Ok(())
    }

    fn add_logs(&mut self, variables: EnvoyVariables<'_>) -> Result<(), ImportError> {
        if let Some(text) = variables("LOG_LEVEL") {
            let level = match text.to_ascii_lowercase().as_str() {
                "panic" | "fatal" | "error" => "error",
                "warn" | "warning" => "warn",
                "info" => "info",
                "debug" => "debug",
                "trace" => "trace",
                _ => {
                    let expected = "error, warn, info, debug or trace";
                    return Err(invalid("LOG_LEVEL", expected, &text));
                }
            };
            self.add("--log-level", &[level.into()], &["LOG_LEVEL"]);
        }
        if let Some(text) = variables("LOG_FORMAT") {
            let format = text.to_ascii_lowercase();
            if !["text", "json"].contains(&format.as_str()) {
                return Err(invalid("LOG_FORMAT", "text or json", &text));
            }
            self.add("--log-format", &[format.into()], &["LOG_FORMAT"]);
        }
        Ok(())
    }
}

/// Returns the address that two variables name.
fn address(
    variables: EnvoyVariables<'_>,
    host: &'static str,
    (port, default): (&'static str, u16),
) -> Result<SocketAddr, ImportError> {
    let ip = match variables(host) {
        None => every_address(),
        Some(text) => read_ip(&text)
            .ok_or_else(|| invalid(host, "an IP address or localhost, such as 0.0.0.0", &text))?,
    };
    let port = match variables(port) {
        None => default,
        Some(text) => read_port(&text).ok_or_else(|| invalid(port, "a port from 0 to 65535", &text))?,
    };
    Ok(SocketAddr::new(ip, port))
}

/// Returns the address of `PROMETHEUS_ADDR`, whose host may be empty.
fn metrics_address(variables: EnvoyVariables<'_>) -> Result<SocketAddr, ImportError> {
    let text = variables("PROMETHEUS_ADDR").unwrap_or_else(|| ":9090".to_owned());
    let parts = text.rsplit_once(':').and_then(|(host, port)| {
        let ip = if host.is_empty() { every_address() } else { read_ip(host)? };
        Some(SocketAddr::new(ip, read_port(port)?))
    });
    parts.ok_or_else(|| invalid("PROMETHEUS_ADDR", "[IP]:PORT, such as :9090", &text))
}

/// Returns the address that stands for all of this machine: those of IPv6 too, where it has any.
fn every_address() -> IpAddr {
    let all = IpAddr::from(Ipv6Addr::UNSPECIFIED);
    let has_ipv6 = TcpListener::bind((all, 0)).is_ok();
    if has_ipv6 { all } else { Ipv4Addr::UNSPECIFIED.into() }
}

/// Reads the address of a listener. As in envoyproxy/ratelimit, `0.0.0.0` stands for all addresses.
fn read_ip(text: &str) -> Option<IpAddr> {
    if text == "localhost" {
        return Some(Ipv4Addr::LOCALHOST.into());
    }
    let ip = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text).parse().ok()?;
    Some(if ip == IpAddr::from(Ipv4Addr::UNSPECIFIED) { every_address() } else { ip })
}

fn read_port(text: &str) -> Option<u16> {
    // `parse` accepts a plus sign.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Returns the age of connections in seconds; `None` if there is no limit.
fn connection_age(text: &str) -> Result<Option<u64>, ImportError> {
    const MOST: Duration = Duration::from_secs(365 * 86_400);
    let age = go_value::duration(text).filter(|age| *age <= MOST && age.subsec_nanos() == 0);
    let expected = "0, or whole seconds up to 8760h, such as 24h or 1h30m";
    let age = age.ok_or_else(|| invalid("GRPC_MAX_CONNECTION_AGE", expected, text))?;
    Ok((!age.is_zero()).then_some(age.as_secs()))
}

fn invalid(variable: &'static str, expected: &'static str, found: &str) -> ImportError {
    ImportError::Variable { variable, expected, found: Some(found.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(given: &[(&str, &str)]) -> Result<String, String> {
        let variables =
            |name: &str| given.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned());
        let flags = ProcessFlags::read(&variables).map_err(|error| error.to_string())?;
        let words: Vec<_> = flags.words.iter().map(|word| word.to_str().unwrap()).collect();
        Ok(words.join(" "))
    }

    /// Returns the address that stands for all of this machine.
    fn every(port: u16) -> SocketAddr {
        SocketAddr::new(every_address(), port)
    }

    /// What is listened to without variables, and the folder.
    #[test]
    fn the_defaults_are_those_of_envoyproxy_ratelimit() {
        let [grpc, probes] = [8081, 8080].map(every);
        assert_eq!(
            read(&[]).unwrap(),
            format!(
                "--import envoy-ratelimit /srv/runtime_data/current/config --grpc {grpc} --plain-probes {probes} \
                 --listen none --metrics-listen none --grpc-max-connection-age 24h"
            )
        );
    }

    #[test]
    fn the_environment_of_envoy_gateway_is_written_as_flags() {
        let flags = read(&[
            ("RUNTIME_ROOT", "/data"),
            ("RUNTIME_SUBDIRECTORY", "ratelimit"),
            ("LOG_LEVEL", "info"),
            ("CONFIG_TYPE", "GRPC_XDS_SOTW"),
            ("GRPC_SERVER_USE_TLS", "true"),
            ("GRPC_SERVER_TLS_CERT", "/certs/tls.crt"),
            ("GRPC_SERVER_TLS_KEY", "/certs/tls.key"),
            ("GRPC_SERVER_TLS_CA_CERT", "/certs/ca.crt"),
            ("USE_PROMETHEUS", "true"),
            ("PROMETHEUS_ADDR", "0.0.0.0:19001"),
        ]);
        let [grpc, probes, metrics] = [8081, 8080, 19001].map(every);
        assert_eq!(
            flags.unwrap(),
            format!(
                "--import envoy-ratelimit --grpc {grpc} --plain-probes {probes} --listen none --metrics-listen {metrics} \
                 --metric-aliases envoy-ratelimit --grpc-max-connection-age 24h --tls-cert /certs/tls.crt \
                 --tls-key /certs/tls.key --tls-client-ca /certs/ca.crt --tls-on grpc --log-level info"
            )
        );
    }

    #[test]
    fn each_variable_has_its_flag() {
        for (given, expected) in [
            (&[("GRPC_HOST", "127.0.0.1"), ("GRPC_PORT", "0")][..], "--grpc 127.0.0.1:0 "),
            (&[("GRPC_UDS", "/run/a.sock"), ("GRPC_PORT", "0")], "--grpc unix:/run/a.sock "),
            (&[("HOST", "::1"), ("PORT", "80")], "--plain-probes [::1]:80 "),
            (&[("HOST", "[::]")], "--plain-probes [::]:8080 "),
            (&[("HOST", "localhost")], "--plain-probes 127.0.0.1:8080 "),
            (&[("USE_PROMETHEUS", "1"), ("PROMETHEUS_ADDR", "[::1]:9")], "--metrics-listen [::1]:9 "),
            (&[("LOG_LEVEL", "Warning")], "--log-level warn"),
            (&[("LOG_LEVEL", "panic"), ("LOG_FORMAT", "JSON")], "--log-level error --log-format json"),
            (&[("GRPC_MAX_CONNECTION_AGE", "1h30m")], "--grpc-max-connection-age 5400s"),
            (
                &[
                    ("GRPC_SERVER_USE_TLS", "t"),
                    ("GRPC_SERVER_TLS_CERT", "c"),
                    ("GRPC_SERVER_TLS_KEY", "k"),
                    ("GRPC_CLIENT_TLS_CACERT", "a"),
                    ("GRPC_SERVER_TLS_CA_CERT", "a"),
                    ("GRPC_CLIENT_TLS_SAN", "envoy.example"),
                ],
                "--tls-client-ca a --tls-client-name envoy.example --tls-on grpc",
            ),
            (
                &[
                    ("RUNTIME_ROOT", "/data"),
                    ("RUNTIME_SUBDIRECTORY", "ratelimit"),
                    ("RUNTIME_APPDIRECTORY", "files"),
                ],
                "--import envoy-ratelimit /data/ratelimit/files ",
            ),
        ] {
            let flags = read(given).unwrap();
            assert!(flags.contains(expected), "{given:?}: {flags}");
        }
        let unlimited = read(&[("GRPC_MAX_CONNECTION_AGE", "0"), ("PROMETHEUS_ADDR", "nonsense")]).unwrap();
        assert!(!unlimited.contains("age") && unlimited.ends_with("--metrics-listen none"), "{unlimited}");
        let plain = read(&[("GRPC_SERVER_TLS_CERT", "c"), ("GRPC_SERVER_TLS_KEY", "k")]).unwrap();
        assert!(!plain.contains("tls"), "{plain}");
    }

    #[test]
    fn a_value_that_cannot_be_used_is_an_error_that_names_its_variable() {
        const TLS: (&str, &str) = ("GRPC_SERVER_USE_TLS", "true");
        const CERT: (&str, &str) = ("GRPC_SERVER_TLS_CERT", "c");
        const KEY: (&str, &str) = ("GRPC_SERVER_TLS_KEY", "k");
        for (given, expected) in [
            (
                &[("GRPC_PORT", "tcp://10.0.0.1:1")][..],
                "GRPC_PORT: expected a port from 0 to 65535, found `tcp:",
            ),
            (&[("PORT", "65536")], "PORT: expected a port"),
            (&[("PORT", "+80")], "PORT: expected a port"),
            (&[("HOST", "limits.example")], "HOST: expected an IP address or localhost"),
            (&[("GRPC_HOST", "a b")], "GRPC_HOST: expected"),
            (&[("USE_PROMETHEUS", "maybe")], "USE_PROMETHEUS: expected true or false"),
            (
                &[("USE_PROMETHEUS", "true"), ("PROMETHEUS_ADDR", "9090")],
                "PROMETHEUS_ADDR: expected [IP]:PORT",
            ),
            (&[("GRPC_MAX_CONNECTION_AGE", "1d")], "GRPC_MAX_CONNECTION_AGE: expected 0, or whole seconds"),
            (&[("GRPC_MAX_CONNECTION_AGE", "1.5s")], "GRPC_MAX_CONNECTION_AGE: expected 0, or whole seconds"),
            (
                &[("GRPC_MAX_CONNECTION_AGE", "8761h")],
                "GRPC_MAX_CONNECTION_AGE: expected 0, or whole seconds",
            ),
            (&[("LOG_LEVEL", "loud")], "LOG_LEVEL: expected error, warn, info, debug or trace, found `loud`"),
            (&[("LOG_FORMAT", "xml")], "LOG_FORMAT: expected text or json, found `xml`"),
            (&[TLS], "GRPC_SERVER_TLS_CERT: expected the path of a file"),
            (&[TLS, CERT], "GRPC_SERVER_TLS_KEY: expected the path of a file"),
            (
                &[TLS, CERT, KEY, ("GRPC_CLIENT_TLS_CACERT", "a"), ("GRPC_SERVER_TLS_CA_CERT", "b")],
                "GRPC_SERVER_TLS_CA_CERT: expected the same file as in GRPC_CLIENT_TLS_CACERT, found `b`",
            ),
            (&[TLS, CERT, KEY, ("GRPC_CLIENT_TLS_SAN", "a")], "GRPC_CLIENT_TLS_SAN: expected nothing"),
        ] {
            let error = read(given).unwrap_err();
            assert!(error.starts_with(expected), "{given:?}: {error}");
        }
    }
}
