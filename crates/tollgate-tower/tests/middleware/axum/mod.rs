//! Limits in front of axum, over real sockets.

mod after;
mod answers;
mod connections;
mod crowd;
mod holds;
mod in_flight;
mod keys;
#[cfg(all(feature = "jwt", feature = "policy", feature = "tonic"))]
mod one_view;
#[cfg(feature = "policy")]
mod outages;
#[cfg(feature = "policy")]
mod overrides;
#[cfg(feature = "policy")]
mod policies;
#[cfg(feature = "policy")]
mod policy_holds;
mod routes;
mod setup;
mod trouble;
#[cfg(feature = "policy")]
mod ways_around;
