//! A listening address, and the scopes that it grants.

use std::net::{IpAddr, SocketAddr};

use crate::access::principals::SharedPrincipals;
use crate::access::scope::{Scope, Scopes};
use crate::tls::Security;

/// A bound address, and the scopes that it grants.
#[derive(Debug, Clone)]
pub(crate) struct Listener {
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
    /// Creates the listener for callers: their own checks.
    pub(crate) const fn checks(address: SocketAddr, access: Access, security: Security) -> Self {
        Self {
            name: "checks",
            purpose: "Checks by callers",
            flag: "--listen",
            address,
            scopes: Scopes::of([Scope::Check, Scope::Peek]),
            access,
            security,
        }
    }

    /// Creates the listener for proxies: their checks over gRPC.
    pub(crate) const fn grpc(address: SocketAddr, access: Access, security: Security) -> Self {
        Self {
            name: "grpc",
            purpose: "Checks of Envoy's rate-limit service",
            flag: "--grpc",
            address,
            scopes: Scopes::of([Scope::Check]),
            access,
            security,
        }
    }

    /// Creates the listener for administrators, with operations that read or change more.
    pub(crate) const fn admin(address: SocketAddr, access: Access, security: Security) -> Self {
        Self {
            name: "admin",
            purpose: "Operations that read or change more than the caller's own check",
            flag: "--admin-listen",
            address,
            scopes: Scopes::of([Scope::Change, Scope::Read, Scope::Metrics, Scope::Policies]),
            access,
            security,
        }
    }

    /// Creates the listener for Prometheus, which needs no token, no certificate and no operations that change
    /// counters.
    pub(crate) const fn metrics(address: SocketAddr, security: Security) -> Self {
        Self {
            name: "metrics",
            purpose: "Only metrics, for everyone",
            flag: "--metrics-listen",
            address,
            scopes: Scopes::of([Scope::Metrics]),
            access: Access::Everybody,
            security,
        }
    }

    /// Creates the listener for probes, which stays plain when all others demand TLS. Everyone may ask whether the
    /// service is alive and ready, and nothing else.
    pub(crate) const fn probes(address: SocketAddr) -> Self {
        Self {
            name: "probes",
            purpose: "Only health and readiness, without TLS, for everyone",
            flag: "--plain-probes",
            address,
            scopes: Scopes::of([]),
            access: Access::Everybody,
            security: Security::Plain,
        }
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
