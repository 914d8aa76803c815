//! What is wrong with a layer.

use thiserror::Error;

use crate::route::RouteErrorKind;

/// A layer that cannot be. The fault of whoever put it together.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// It is not said whom a rule counts for.
    #[error("the rule for {route} has no key, and neither has the one for all other requests")]
    NoKey {
        /// The route, or `all other requests`.
        route: Box<str>,
    },
    /// Text that is no route.
    #[error("the route `{route}`: {kind}")]
    Route {
        /// As it was written.
        route: Box<str>,
        /// What is wrong.
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
    /// Something was set that can have no effect: policies say it themselves, or something else is set that decides it.
    #[error("the rule for {route}: `{setting}` has no effect")]
    NoEffect {
        /// The route, or `all other requests`.
        route: Box<str>,
        /// The method of the builder or of the rule.
        setting: &'static str,
    },
    /// Two rules count on the same counters by different limits, as limiters over one store do that have the same
    /// name. `Limiter::builder` names a limiter; where one limit is to hold for several routes, they share a clone.
    #[error(
        "the rules for {first} and for {second} count on the same counters by different limits: \
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
