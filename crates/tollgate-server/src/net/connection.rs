//! What connections of HTTP and gRPC have alike: the limits of their memory, and the reasons why they end.

use std::error::Error;

use tracing::debug;

use crate::metrics::{Cut, Metrics};

/// The maximum memory for incomplete heads on one connection. A longer head is answered 431.
pub(crate) const MAX_HEAD: usize = 32 * 1024;

/// The maximum number of unread bytes on one HTTP/2 connection. They are read at once, so this bounds what a connection
/// can hold outside the [budget](super::budget::Budget).
pub(crate) const WINDOW: u32 = 64 * 1024;

/// Counts why a connection ended, if it was cut.
pub(crate) fn count_cut(served: Result<Result<(), Box<dyn Error + Send + Sync>>, Cut>, metrics: &Metrics) {
    let cut = match served {
        Ok(Ok(())) => return,
        Ok(Err(error)) => {
            debug!(error, "connection failed");
            cut_by(&*error)
        }
        Err(cut) => cut,
    };
    metrics.cuts().count(cut);
}

/// Returns why HTTP ended a connection.
fn cut_by(error: &(dyn Error + 'static)) -> Cut {
    match error.downcast_ref::<hyper::Error>() {
        Some(error) if error.is_parse_too_large() => Cut::HeadTooLarge,
        Some(error)
            if error.is_incomplete_message()
                || error.is_canceled()
                || error.is_closed()
                // A ping without an answer: the client is gone.
                || error.is_timeout() =>
        {
            Cut::Broken
        }
        Some(error) if error.source().is_some_and(|source| source.is::<std::io::Error>()) => Cut::Broken,
        Some(_) => Cut::Malformed,
        // The connection ended before its version was known.
        None => Cut::Broken,
    }
}
