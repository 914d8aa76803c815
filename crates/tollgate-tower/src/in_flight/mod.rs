//! Requests in flight: how many of a key the service works on at once.
//!
//! ```text
//! request ─▶ key ─▶ hold ─▶ inner service ─▶ response ─▶ end of its body: the unit is free
//!                   or 429                               (or the client has gone)
//! ```

mod future;
mod layer;
mod service;
mod setup;

pub use self::future::HeldResponseFuture;
pub use self::layer::InFlightLayer;
pub use self::service::LimitInFlight;
