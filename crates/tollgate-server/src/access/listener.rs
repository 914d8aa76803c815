//! A listening address, and the scopes that it grants.

use std::net::{IpAddr, SocketAddr};

use crate::access::principals::SharedPrincipals;
use crate::access::scope::{Scope, Scopes};
use crate::tls::Security;

/// A bound address, and the scopes that it grants.
#[derive(Debug, Clone)]
pub(crate) struct Listener {
    pub(crate) kind: ListenerKind,
    /// Its name in the log, in metrics and in the description of the service.
    pub(crate) name: &'static str,
    /// Its purpose, for the description of the service.
    pub(crate) purpose: &'static str,
    /// The flag that sets its address.
    pub(crate) flag: &'static str,
    pub(crate) address: SocketAddr,
    pub(crate) scopes: Scopes,
    pub(crate) access: Access,
    pub(crate) security: Security,
}

/// What a listener is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListenerKind {
    /// Callers' own checks.
    Checks,
    /// Administrators: operations that read or change more.
    Admin,
    /// Prometheus, which needs no token, no certificate and no operations that change counters.
    Metrics,
    /// Probes, which stay plain when all others demand TLS. Everyone may ask whether the service is alive and ready,
    /// and nothing else.
    Probes,
    /// Checks of proxies over gRPC.
    Grpc,
}

/// The listeners that speak TLS, if there is a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TlsScope {
    /// All but that for probes, which cannot.
    All,
    Only(Box<[ListenerKind]>),
}

/// The callers that may use the scopes of a listener.
#[derive(Debug, Clone)]
pub(crate) enum Access {
    /// Everyone, under any host name. With mutual TLS, these are the clients with a valid certificate, and a page that
    /// rebinds its host name to this address has no certificate for that name.
    Everybody,
    /// Everyone, but guarded scopes only under these host names.
    Hosts(AllowedHosts),
    /// The principals with the scope, under any host name. A page that rebinds its host name to this address has no
    /// token.
    Principals(SharedPrincipals),
}

/// The host names under which guarded scopes may be used.
///
/// A page can rebind its host name to this address (DNS rebinding), and then reaches the service through the operator's
/// browser. But the browser sends the page's host name. No page has an IP address or `localhost` as its host name, so
/// these always pass.
#[derive(Debug, Clone, Default)]
pub(crate) struct AllowedHosts(Box<[Box<str>]>);

impl Listener {
    pub(crate) const fn new(
        kind: ListenerKind,
        address: SocketAddr,
        access: Access,
        security: Security,
    ) -> Self {
        let (name, purpose, flag, scopes) = match kind {
            ListenerKind::Checks => (
                "checks",
                "Checks and counts by callers",
                "--listen",
                Scopes::of([Scope::Check, Scope::Peek, Scope::Count]),
            ),
            ListenerKind::Admin => (
                "admin",
                "Operations that read or change more than the caller's own check",
                "--admin-listen",
                Scopes::of([Scope::Change, Scope::Read, Scope::Metrics, Scope::Policies]),
            ),
            ListenerKind::Metrics => {
                ("metrics", "Only metrics, for everyone", "--metrics-listen", Scopes::of([Scope::Metrics]))
            }
            ListenerKind::Probes => (
                "probes",
                "Only health and readiness, without TLS, for everyone",
                "--plain-probes",
                Scopes::of([]),
            ),
            ListenerKind::Grpc => {
                ("grpc", "Checks of Envoy's rate-limit service", "--grpc", Scopes::of([Scope::Check]))
            }
        };
        Self { kind, name, purpose, flag, address, scopes, access, security }
    }

    /// Returns its URL, without a path.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.security == Security::Plain { "http" } else { "https" };
        format!("{scheme}://{}", self.address)
    }

    /// Returns whether it grants this scope. The caller may need the scope as well.
    pub(crate) const fn grants(&self, scope: Option<Scope>) -> bool {
        match scope {
            Some(scope) => self.scopes.has(scope),
            None => true,
        }
    }

    pub(crate) const fn asks_principals(&self) -> bool {
        matches!(self.access, Access::Principals(_))
    }
}

impl TlsScope {
    pub(crate) fn has(&self, kind: ListenerKind) -> bool {
        match self {
            Self::All => kind != ListenerKind::Probes,
            Self::Only(kinds) => kinds.contains(&kind),
        }
    }
}

impl AllowedHosts {
    pub(crate) fn new(names: &[String]) -> Self {
        Self(names.iter().map(|name| name.as_str().into()).collect())
    }

    /// Returns whether the name in this authority (`HOST[:PORT]`) is allowed.
    pub(crate) fn pass(&self, authority: &str) -> bool {
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => rest.split_once(']').unwrap_or_default(),
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
        let is_known = host.parse::<IpAddr>().is_ok()
            || host.eq_ignore_ascii_case("localhost")
            || self.0.iter().any(|name| host.eq_ignore_ascii_case(name));
        is_known && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_localhost_and_names_that_are_allowed_pass() {
        let hosts = AllowedHosts::new(&["admin.example".to_owned()]);
        for authority in
            ["127.0.0.1", "127.0.0.1:8090", "[::1]", "[::1]:8090", "LOCALHOST:1", "Admin.Example:8090"]
        {
            assert!(hosts.pass(authority), "{authority}");
        }
        for authority in [
            "",
            ":8090",
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "[x]",
            "[::1].evil.example",
            "localhost:80@evil.example",
        ] {
            assert!(!hosts.pass(authority), "{authority}");
        }
        assert!(!AllowedHosts::default().pass("admin.example"));
    }
}
