//! What is probably put together wrong, and shows only once requests come.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use http::HeaderName;
use http::header::FORWARDED;

use crate::Head;
use crate::key::Peer;

/// Something that is probably not meant. A layer gives each of them once.
///
/// Without [a hook](crate::RateLimitLayerBuilder::on_warning) it is an event of [`tracing`], at the level of warnings,
/// with the field `code`. Codes stay the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Warning {
    /// `TG1001`: requests are counted for the address that the connection comes from, and that is a private one while
    /// the request says that a proxy has forwarded it. Then everybody behind the proxy shares one limit. Of
    /// [policies](crate::Rule) that go by `ip` it shows where the source of that is a
    /// [`PeerAddress`](crate::key::PeerAddress), or a function tells this address.
    PeerIsProxy,
    /// `TG1002`: requests are counted for the address that the connection comes from, and no request has it. All
    /// are answered 500. With axum: `into_make_service_with_connect_info::<SocketAddr>()`.
    NoPeerAddress,
    /// `TG1003`: an extractor needs what no request has, because the service is put together without it. All are
    /// answered 500.
    NoIdentityBySetup,
    /// `TG1004`: the layer has rules for routes with `{name}`, and a request comes without its matched route. Its path
    /// is matched instead, which a client can spell in other ways. With axum: add the layer by `Router::layer`.
    NoMatchedRoute,
    /// `TG1005`: a reservation was dropped where its units cannot be given back: over a store that has to be waited
    /// for, outside of a Tokio runtime or without the feature `tokio`. They count until their window ends. So it is
    /// with a client that goes away while the store is asked for one.
    RefundNotTaken,
    /// `TG1006`: the store can [never count](tollgate::StoreError::Uncountable) a request, because of how its quotas
    /// and the store are put together: on a Cluster they may lie in several slots. Such requests are answered 500.
    /// [`on_trouble`](crate::RateLimitLayerBuilder::on_trouble) is told why.
    Uncountable,
    /// `TG1007`: a policy takes a limit from an attribute that clients could invent, such as a header. Such requests are
    /// answered 500. Take the attribute from a claim, or say that it is
    /// [verified](crate::AttributeSources::verified).
    UnverifiedLimit,
}

impl Warning {
    /// The code, which stays the same.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::PeerIsProxy => "TG1001",
            Self::NoPeerAddress => "TG1002",
            Self::NoIdentityBySetup => "TG1003",
            Self::NoMatchedRoute => "TG1004",
            Self::RefundNotTaken => "TG1005",
            Self::Uncountable => "TG1006",
            Self::UnverifiedLimit => "TG1007",
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PeerIsProxy => {
                "requests are counted for the address of the connection, which seems to be a proxy's: \
                 everybody behind it shares one limit"
            }
            Self::NoPeerAddress => {
                "requests are counted for the address of the connection, and none has it: \
                 with axum, serve `into_make_service_with_connect_info::<SocketAddr>()`"
            }
            Self::NoIdentityBySetup => {
                "requests are counted for what none has, because the service is put together without it"
            }
            Self::NoMatchedRoute => {
                "a rule is for routes with parameters, and a request has no matched route: its path is matched, \
                 which can be spelled in other ways; with axum, add the layer by `Router::layer`"
            }
            Self::RefundNotTaken => {
                "what a request did not use cannot be given back without a Tokio runtime and the feature `tokio`"
            }
            Self::Uncountable => {
                "the store can never count some requests, because their quotas do not fit it: they are refused"
            }
            Self::UnverifiedLimit => {
                "a policy takes a limit from an attribute that clients could invent: take it from a verified token"
            }
        })
    }
}

/// Gives warnings, each once.
pub(crate) struct Warnings {
    hook: Box<dyn Fn(Warning) + Send + Sync>,
    given: [AtomicBool; COUNT],
    /// Requests that were looked at for signs of a proxy.
    looked_at: AtomicU32,
}

/// How many warnings there are.
const COUNT: usize = Warning::UnverifiedLimit as usize + 1;

/// After so many requests a proxy in front would have shown, and looking costs as much as a decision.
const LOOKS: u32 = 1_024;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

impl Warnings {
    pub(crate) fn new(hook: Box<dyn Fn(Warning) + Send + Sync>) -> Self {
        Self { hook, given: Default::default(), looked_at: AtomicU32::new(0) }
    }

    pub(crate) fn give(&self, warning: Warning) {
        // Relaxed: nothing is read because of it, and of two threads one swaps first.
        let given = self.given.get(warning as usize).map(|given| given.swap(true, Ordering::Relaxed));
        if given == Some(false) {
            (self.hook)(warning);
        }
    }

    /// Looks at one of the first requests that may be counted for their peers.
    pub(crate) fn look_for_proxy(&self, head: Head<'_>, counts_peers: impl FnOnce() -> bool) {
        // Relaxed: one look more or less does not matter. Read before it is changed, so that threads do not pull the
        // line from each other for ever.
        if self.looked_at.load(Ordering::Relaxed) >= LOOKS {
            return;
        }
        self.looked_at.fetch_add(1, Ordering::Relaxed);
        let is_forwarded =
            head.headers().contains_key(&X_FORWARDED_FOR) || head.headers().contains_key(FORWARDED);
        if is_forwarded && Peer::of(head).is_some_and(is_private) && counts_peers() {
            self.give(Warning::PeerIsProxy);
        }
    }
}

impl Default for Warnings {
    fn default() -> Self {
        Self::new(Box::new(|warning| tracing::warn!(code = warning.code(), "{warning}")))
    }
}

impl fmt::Debug for Warnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Warnings").finish_non_exhaustive()
    }
}

/// Addresses that no client on the internet has: proxies of one's own have them.
fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        // 100.64.0.0/10 is the space that providers share (RFC 6598), and clouds use it inside.
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            let is_shared = first == 100 && second & 0xc0 == 64;
            address.is_private() || address.is_loopback() || address.is_link_local() || is_shared
        }
        IpAddr::V6(address) => {
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_lists_every_code() {
        let manual = include_str!("../../../docs/warnings.md");
        let listed = manual.matches("| `TG").count();
        assert_eq!(listed, COUNT);
        for number in 1..=COUNT {
            let code = format!("| `TG{}` |", 1_000 + number);
            assert!(manual.contains(&code), "docs/warnings.md lacks {code}");
        }
    }

    #[test]
    fn proxies_of_ones_own_have_private_addresses() {
        let is_private = |text: &str| is_private(text.parse().unwrap());
        for private in [
            "10.0.0.1",
            "172.31.0.1",
            "192.168.0.1",
            "127.0.0.1",
            "169.254.0.1",
            "100.64.0.0",
            "100.127.255.255",
            "::1",
            "fd00::1",
            "fe80::1",
            "::ffff:10.0.0.1",
        ] {
            assert!(is_private(private), "{private}");
        }
        for public in ["100.63.255.255", "100.128.0.0", "101.64.0.0", "192.0.2.7", "2001:db8::1"] {
            assert!(!is_private(public), "{public}");
        }
    }
}
