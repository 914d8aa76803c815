//! The runtime that all tests of a process share.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Runtime};

/// Runs the future to its end, on a runtime that outlives every test: connections that one test's store has opened are
/// driven whichever thread waits. Any number of threads may call it at once.
///
/// # Panics
///
/// If the future panics, or if no runtime can be started.
pub fn block_on<F: Future>(future: F) -> F::Output {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let start = || Builder::new_multi_thread().worker_threads(2).enable_all().build();
    RUNTIME.get_or_init(|| start().expect("a runtime starts")).handle().block_on(future)
}
