//! The store of the service: this process's memory, or a shared store with metrics. The policies decide what happens
//! when a shared store fails.
//!
//! ```text
//! PolicyLimiter ──▶ ServedStore ──▶ MemoryStore
//!                               └─▶ MeteredStore ──▶ a shared store
//!                                   deadline, metrics,
//!                                   log lines
//! ```

mod advice;
pub(crate) mod fit;
pub(crate) mod joined_values;
mod metered;
mod outage_log;
mod override_fit;
pub(crate) mod readiness;
mod setup;
mod state;
mod store_time;

pub(crate) use self::advice::with_flags;
pub(crate) use self::metered::{MeteredStore, warm_up};
pub(crate) use self::outage_log::OutageLog;
pub use self::setup::StoreSetupError;
pub(crate) use self::setup::{DEFAULT_PREFIX, StoreSetup};
pub(crate) use self::state::{ServedStore, Servers, StoreState};
