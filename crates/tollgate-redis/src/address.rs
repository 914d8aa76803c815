//! The address of a server.

use std::fmt;
use std::path::Path;

/// The address of a server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Address {
    /// A name or an IP address, without brackets, and a port.
    Tcp(Box<str>, u16),
    /// A Unix socket.
    Unix(Box<Path>),
}

impl Address {
    /// The address in a redirect or a slot map: `host:port`, where an IPv6 address has no brackets, and the
    /// host may be empty or `?`, which mean the host that answered.
    pub(crate) fn redirected_to(&self, address: &str) -> Option<Self> {
        let (host, port) = address.rsplit_once(':')?;
        self.at(host, port.parse().ok()?)
    }

    /// This host and port, where a host that is empty or `?` means the host of this address.
    pub(crate) fn at(&self, host: &str, port: u16) -> Option<Self> {
        if port == 0 {
            return None;
        }
        match (host.trim_start_matches('[').trim_end_matches(']'), self) {
            ("" | "?", Self::Tcp(own, _)) => Some(Self::Tcp(own.clone(), port)),
            ("" | "?", Self::Unix(_)) => None,
            (host, _) => Some(Self::Tcp(host.into(), port)),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_host_means_the_one_that_answered() {
        let asked = Address::Tcp("10.0.0.1".into(), 7000);
        for (address, meant) in [
            (":7001", Some("10.0.0.1:7001")),
            ("?:7001", Some("10.0.0.1:7001")),
            ("10.0.0.2:7001", Some("10.0.0.2:7001")),
            ("::1:7001", Some("[::1]:7001")),
            ("[::1]:7001", Some("[::1]:7001")),
            ("redis-2.example:7001", Some("redis-2.example:7001")),
            ("10.0.0.2", None),
            ("10.0.0.2:0", None),
            ("10.0.0.2:70000", None),
            ("", None),
        ] {
            assert_eq!(
                asked.redirected_to(address).map(|address| address.to_string()).as_deref(),
                meant,
                "{address}"
            );
        }
        assert_eq!(Address::Unix(Path::new("/run/redis.sock").into()).redirected_to(":7001"), None);
    }
}
