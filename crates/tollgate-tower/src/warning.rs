//! Warnings of a setup that is probably wrong, which shows only once requests come.

use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use http::HeaderName;
use http::header::FORWARDED;
use tollgate::MANUAL;

use crate::head::Head;
use crate::key::Peer;

/// A setup that is probably wrong. A layer gives each warning once.
///
/// Without [a hook](crate::RateLimitLayerBuilder::on_warning), a warning is an event of [`tracing`] with the fields
/// `code` and `help`. Codes stay the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SetupWarning {
    /// `TG1001`: requests are counted for the address of the connection. That address is private, and a proxy has
    /// forwarded the request, so all clients behind the proxy share one limit. [Policies](crate::Rule) that count by
    /// `ip` cause this warning if the source of `ip` is a [`PeerAddress`](crate::key::PeerAddress), or a function that
    /// returns the same address.
    PeerIsProxy,
    /// `TG1002`: requests are counted by the address of the connection, but no request has one. All are answered 500.
    /// With axum, serve `into_make_service_with_connect_info::<SocketAddr>()`.
    NoPeerAddress,
    /// `TG1003`: an extractor needs something that no request has, because a part of the service is missing. All
    /// requests are answered 500.
    NoIdentityBySetup,
    /// `TG1004`: the layer has rules for routes with `{name}`, and a request has no matched route. The rules then match
    /// the path, which clients can spell in several ways. With axum, add the layer with `Router::layer`.
    NoMatchedRoute,
    /// `TG1005`: a reservation was dropped where its units cannot be given back: its store is async, and there is no
    /// Tokio runtime or the feature `tokio` is off. The units count until they come back by themselves. The same
    /// happens if a client disconnects during the call for a reservation.
    RefundNotTaken,
    /// `TG1006`: the store can [never count](tollgate::StoreError::Uncountable) a request, because its quotas do not
    /// fit the store. On a Cluster, they may be in several slots. Such requests are answered 500, and
    /// [`on_trouble`](crate::RateLimitLayerBuilder::on_trouble) gets the reason.
    Uncountable,
    /// `TG1007`: a policy takes a limit from an attribute that clients could invent, such as a header. Such requests
    /// are answered 500. Take the attribute from a claim, or mark it as [verified](crate::AttributeSources::verified).
    UnverifiedLimit,
    /// `TG1008`: a policy has a limit in flight, and its rule has no [keeper](crate::Rule). Such requests are answered 500.
    /// Make a [`HoldKeeper`](tollgate::HoldKeeper), spawn its task, and pass it to `Rule::keeper`.
    NoKeeper,
}

impl SetupWarning {
    /// Returns the code, which stays the same.
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
            Self::NoKeeper => "TG1008",
        }
    }

    /// Returns the place in the manual that explains the code: `docs/warnings.md#tg1001`.
    #[must_use]
    pub fn help(self) -> String {
        format!("{MANUAL}/warnings.md#{}", self.code().to_ascii_lowercase())
    }
}

impl fmt::Display for SetupWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PeerIsProxy => {
                "requests are counted by the address of the connection, which seems to be a proxy's: all clients \
                 behind it share one limit"
            }
            Self::NoPeerAddress => {
                "requests are counted by the address of the connection, but no request has one: \
                 with axum, serve `into_make_service_with_connect_info::<SocketAddr>()`"
            }
            Self::NoIdentityBySetup => {
                "requests are counted by something that none of them has, because a part of the service is missing"
            }
            Self::NoMatchedRoute => {
                "a rule is for routes with parameters, but a request has no matched route: the rule is matched \
                 against its path, which can be written in several ways; with axum, add the layer with \
                 `Router::layer`"
            }
            Self::RefundNotTaken => {
                "the units that a request did not use cannot be given back without a Tokio runtime and the feature \
                 `tokio`"
            }
            Self::Uncountable => {
                "the store can never count some requests, because their quotas do not fit it: they are refused"
            }
            Self::UnverifiedLimit => {
                "a policy takes a limit from an attribute that clients could invent: use one from a verified token"
            }
            Self::NoKeeper => {
                "a policy has a limit in flight, and its rule has no keeper: pass one to `Rule::keeper`"
            }
        })
    }
}

/// Gives warnings, each once.
pub(crate) struct Warnings {
    hook: Box<dyn Fn(SetupWarning) + Send + Sync>,
    given: [AtomicBool; COUNT],
    /// Requests that were examined for signs of a proxy.
    looked_at: AtomicU32,
}

/// The number of warnings.
const COUNT: usize = SetupWarning::NoKeeper as usize + 1;

/// A proxy shows within this many requests. Examining one costs as much as a decision.
const LOOKS: u32 = 1_024;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

impl Warnings {
    pub(crate) fn new(hook: Box<dyn Fn(SetupWarning) + Send + Sync>) -> Self {
        Self { hook, given: Default::default(), looked_at: AtomicU32::new(0) }
    }

    pub(crate) fn give(&self, warning: SetupWarning) {
        // Relaxed: it guards no other memory, and only one of two threads swaps first.
        let given = self.given.get(warning as usize).map(|given| given.swap(true, Ordering::Relaxed));
        if given == Some(false) {
            (self.hook)(warning);
        }
    }

    /// Examines one of the first requests that may be counted by their peer.
    pub(crate) fn look_for_proxy(&self, head: Head<'_>, counts_peers: impl FnOnce() -> bool) {
        // Relaxed: one request more or less does not matter. The load comes first, so that threads do not contend for
        // the line for ever.
        if self.looked_at.load(Ordering::Relaxed) >= LOOKS {
            return;
        }
        self.looked_at.fetch_add(1, Ordering::Relaxed);
        let is_forwarded =
            head.headers().contains_key(&X_FORWARDED_FOR) || head.headers().contains_key(FORWARDED);
        if is_forwarded && Peer::of(head).is_some_and(is_private) && counts_peers() {
            self.give(SetupWarning::PeerIsProxy);
        }
    }
}

impl Default for Warnings {
    fn default() -> Self {
        Self::new(Box::new(|warning| {
            tracing::warn!(code = warning.code(), help = warning.help(), "{warning}")
        }))
    }
}

impl fmt::Debug for Warnings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Warnings").finish_non_exhaustive()
    }
}

/// Returns whether no client on the internet has this address, so that it is probably a proxy's.
fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        // Providers share 100.64.0.0/10 (RFC 6598), and clouds use it internally.
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
        let listed = manual.matches("\n### TG").count();
        assert_eq!(listed, COUNT);
        for number in 1..=COUNT {
            let heading = format!("\n### TG{}\n", 1_000 + number);
            assert!(manual.contains(&heading), "docs/warnings.md lacks {heading}");
        }
        assert_eq!(SetupWarning::UnverifiedLimit.help(), "docs/warnings.md#tg1007");
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
