//! The threads of a command: they are all there before it begins, or it ends with an error.
//!
//! The system may refuse a thread (`ulimit -u`, a limit of a container). Tokio panics then, and waits in the panic for
//! threads that never end: the process would live on without a listener, and keep signals from ending it.

use std::panic::{self, PanicHookInfo};
use std::process;
use std::time::Duration;

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};
use tokio::task::spawn_blocking;
use tokio::time;

use crate::args::exit_status::FAILURE;
use crate::cli::output;

/// How long a new thread may take to begin on a busy machine.
const THREAD_TIME: Duration = Duration::from_secs(10);

/// What to do if the system refuses a thread.
pub const ADVICE: &str = "allow the process more threads (`ulimit -u`, in systemd `LimitNPROC=` and `TasksMax=`, in \
                      containers the limit of pids)";

/// A thread for work that blocks stays this long without work: for good, because the system may refuse another one.
/// [`MAX_BLOCKING`] bounds how many there are.
const KEEP_ALIVE: Duration = Duration::from_secs(u32::MAX as u64);

/// The most threads for work that blocks. Each reload by a request occupies one until earlier reloads have ended; the
/// rest is for secrets that are read and names that are looked up for new connections to the store.
const MAX_BLOCKING: usize = 64;

/// Starts the threads of a command: one for each processor, and one for work that blocks, such as a reload.
///
/// If Tokio panics over a refused thread, the process ends with an error.
///
/// # Errors
///
/// If the system refuses a thread.
pub fn start() -> anyhow::Result<Runtime> {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(end));
    let mut builder = Builder::new_multi_thread();
    builder.enable_all().thread_keep_alive(KEEP_ALIVE).max_blocking_threads(MAX_BLOCKING);
    let runtime = builder.build().context(ADVICE)?;
    let begun = runtime.block_on(async { time::timeout(THREAD_TIME, spawn_blocking(|| ())).await });
    panic::set_hook(usual);
    // Tokio may also wait for a thread that never comes.
    if begun.is_err() {
        runtime.shutdown_background();
        anyhow::bail!("cannot start a thread for work that blocks: {ADVICE}");
    }
    Ok(runtime)
}

/// Ends the process, because a panic of the runtime's start waits for its threads.
fn end(panic: &PanicHookInfo<'_>) {
    let message = panic.payload();
    let message = message.downcast_ref::<String>().map(String::as_str).or(message.downcast_ref().copied());
    output::complain(format_args!("error: {}: {ADVICE}", message.unwrap_or("cannot start")));
    process::exit(FAILURE.into());
}
