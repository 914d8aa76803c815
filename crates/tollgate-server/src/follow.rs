//! Follows a file: has it read again when it may have changed, and not while it is half written.
//!
//! A file that is written in place is looked at twice, and counts once it has stayed the same in between. What an
//! administrator or a signal asks for, and what is renamed into place, counts at once.

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;

use tokio::signal::unix::Signal;
use tokio::time::{self, Sleep};

use crate::look::Look;
use crate::reload::{Cause, Glance, Reloads, Subject};
use crate::watch::Watch;

/// A file that may be half written.
struct Unsettled {
    look: Arc<Look>,
    cause: Cause,
    /// How much longer it has to stay as it is.
    rest: Pin<Box<Sleep>>,
}

/// Reads the file again whenever it has changed, or the signal comes.
pub(crate) async fn keep_in_step<T: Subject>(reloads: Arc<Reloads<T>>, watch: Watch, mut hangup: Signal) {
    let mut unsettled: Option<Unsettled> = None;
    loop {
        let rest = async {
            match &mut unsettled {
                Some(Unsettled { cause, rest, .. }) => {
                    rest.await;
                    *cause
                }
                None => pending().await,
            }
        };
        let (cause, is_over) = tokio::select! {
            cause = watch.changed() => (cause, false),
            _ = hangup.recv() => (Cause::Signal, false),
            cause = rest => (cause, true),
        };
        let (reloads, earlier) = (Arc::clone(&reloads), unsettled.as_ref().map(|it| Arc::clone(&it.look)));
        // A large file takes a while, in which requests are answered.
        let glance = tokio::task::spawn_blocking(move || {
            if cause.is_doubtful() {
                return reloads.glance(earlier.as_deref(), is_over, cause);
            }
            // What came of it is in the log.
            let _ = reloads.reload(cause);
            Glance::Settled
        });
        match glance.await {
            Ok(Glance::Settled) | Err(_) => unsettled = None,
            Ok(Glance::Same) => {}
            Ok(Glance::Changed(look, rest)) => {
                unsettled = Some(Unsettled { look: look.into(), cause, rest: Box::pin(time::sleep(rest)) });
            }
        }
    }
}
