//! Errors of layers.

use thiserror::Error;

use crate::route::RouteErrorKind;

/// An invalid layer. The fault of its author.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A rule has no key.
    #[error("the rule for {route} has no key, and neither does the rule for all other requests")]
    NoKey {
        /// The route, or `all other requests`.
        route: Box<str>,
    },
    /// A text is not a route.
    #[error("the route `{route}`: {kind}")]
    Route {
        /// The route as it was written.
        route: Box<str>,
        /// The problem.
        kind: RouteErrorKind,
    },
    /// Two routes match the same requests.
    #[error("the routes `{first}` and `{second}` match the same requests")]
    SameRoute {
        /// The first.
        first: Box<str>,
        /// The second.
        second: Box<str>,
    },
    /// A setting has no effect: policies set it themselves, or another setting overrides it.
    #[error("the rule for {route}: `{setting}` has no effect")]
    NoEffect {
        /// The route, or `all other requests`.
        route: Box<str>,
        /// The method of the builder or of the rule.
        setting: &'static str,
    },
    /// Two rules share counters with different limits: their limiters have the same name and the same store, or stores
    /// that may have the same counters, as on one server. `Limiter::builder` names a limiter. For one limit on several
    /// routes, share a clone.
    #[error(
        "the rules for {first} and for {second} use the same counters with different limits: \
         policy `{policy}`, window {windows}"
    )]
    SameCounters {
        /// The first route, or `all other requests`.
        first: Box<str>,
        /// The second.
        second: Box<str>,
        /// The name of the policy in both limiters.
        policy: Box<str>,
        /// The window in both.
        windows: Box<str>,
    },
}
