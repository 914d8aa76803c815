//! A listening address, and the scopes that it grants.

use std::net::IpAddr;

use crate::access::address::ListenAddress;
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
    pub(crate) address: ListenAddress,
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
pub(crate) struct TlsScope(pub(crate) Box<[ListenerKind]>);

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
        address: ListenAddress,
        access: Access,
        security: Security,
    ) -> Self {
        let (purpose, scopes) = match kind {
            ListenerKind::Checks => {
                ("Checks and counts by callers", Scopes::of([Scope::Check, Scope::Peek, Scope::Count]))
            }
            ListenerKind::Admin => (
                "Operations that read or change more than the caller's own check",
                Scopes::of([Scope::Change, Scope::Read, Scope::Metrics, Scope::Policies, Scope::Overrides]),
            ),
            ListenerKind::Metrics => ("Only metrics, for everyone", Scopes::of([Scope::Metrics])),
            ListenerKind::Probes => ("Only health and readiness, without TLS, for everyone", Scopes::of([])),
            ListenerKind::Grpc => ("Checks of Envoy's rate-limit service", Scopes::of([Scope::Check])),
        };
        Self { kind, name: kind.name(), purpose, address, scopes, access, security }
    }

    /// Returns its URL, without a path. A Unix socket answers under any; this is what clients usually say.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.security == Security::Plain { "http" } else { "https" };
        match &self.address {
            ListenAddress::Tcp(address) => format!("{scheme}://{address}"),
            ListenAddress::Unix(_) => format!("{scheme}://localhost"),
        }
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

impl ListenerKind {
    /// Returns its name in the log, in metrics and in the description of the service.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Checks => "checks",
            Self::Admin => "admin",
            Self::Metrics => "metrics",
            Self::Probes => "probes",
            Self::Grpc => "grpc",
        }
    }

    /// Returns the flag that sets its address.
    pub(crate) const fn flag(self) -> &'static str {
        match self {
            Self::Checks => "--listen",
            Self::Admin => "--admin-listen",
            Self::Metrics => "--metrics-listen",
            Self::Probes => "--plain-probes",
            Self::Grpc => "--grpc",
        }
    }
}

impl TlsScope {
    pub(crate) fn has(&self, kind: ListenerKind) -> bool {
        self.0.contains(&kind)
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
