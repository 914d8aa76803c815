//! The store that the service counts in: this process's memory, or a shared one, metered, with a policy above it.
//!
//! ```text
//! engine ──▶ MemoryStore
//! engine ──▶ FallbackStore ──▶ Metered ──▶ a shared store
//!            the policy for    metrics,
//!            its trouble       log lines
//! ```

mod metered;
mod settings;
mod state;

use std::time::Duration;

use tokio::time::Sleep;
use tollgate::{FallbackStore, MemoryStore, OnStoreFailure, Store, SystemClock};

pub(crate) use self::metered::Metered;
pub(crate) use self::settings::{SharedSettings, StoreSettings};
pub(crate) use self::state::{ServedStore, StoreState};

/// A shared store under the service.
pub(crate) type Shared<S> = FallbackStore<Metered<S>, SystemClock, Deadline>;

type Deadline = Box<dyn Fn() -> Sleep + Send + Sync>;

/// What a store's own deadline may be late by, on a machine that is busy.
const LATE: Duration = Duration::from_millis(5);

/// The store with a policy for its trouble, which counts in this memory if it counts. The store has a deadline of its
/// own, after this time; a decision does not depend on that it keeps it.
pub(crate) fn shared<S: Store>(
    store: Metered<S>,
    on_failure: OnStoreFailure,
    memory: MemoryStore,
    timeout: Duration,
) -> Shared<S> {
    let deadline: Deadline = Box::new(move || tokio::time::sleep(timeout + LATE));
    FallbackStore::new(store, on_failure).memory(memory).deadline(deadline)
}
