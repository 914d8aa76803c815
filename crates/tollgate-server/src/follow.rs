//! Follows files: has them read again when they may have changed, and not while they are half written.
//!
//! A file that is written in place is looked at twice, and counts once it has stayed the same in between. What an
//! administrator or a signal asks for, and what is renamed into place, counts at once.

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::Signal;
use tokio::time::{self, Sleep};

use crate::watch::Watch;

/// What is made of a file, or of files that belong together, and is kept in step with them.
pub(crate) trait Followed: Send + Sync + 'static {
    /// The files as they were at one moment.
    type Look: Send + Sync + 'static;

    /// Looks at the files, and takes them as they are unless they may be half written. What comes of it is logged.
    ///
    /// `earlier` is the look before this one, if it called for another, and `is_over` whether the time has passed that
    /// they had to stay the same.
    fn glance(&self, earlier: Option<&Self::Look>, is_over: bool, cause: Cause) -> Glance<Self::Look>;
}

/// Who wants files to be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// Something changed where a file is.
    Watch,
    /// Another file was put in the place of one, whole.
    Rename,
    /// Nothing is known to have changed, and they have not been looked at for a while.
    Interval,
    /// A signal.
    Signal,
    /// An administrator.
    Request,
}

/// What came of a look at files that may be half written.
#[derive(Debug)]
pub(crate) enum Glance<L> {
    /// They were read, or are as they were read last.
    Settled,
    /// They are as they were, and have to stay so for longer.
    Same,
    /// They are to be looked at again after this time.
    Changed(L, Duration),
}

/// How long files have to stay the same that look whole.
pub(crate) const SECOND_LOOK: Duration = Duration::from_millis(100);

/// How long files have to stay the same of which more may be to come.
pub(crate) const SLOW_WRITER: Duration = Duration::from_secs(2);

/// Files that may be half written.
struct Unsettled<L> {
    look: Arc<L>,
    cause: Cause,
    /// How much longer they have to stay as they are.
    rest: Pin<Box<Sleep>>,
}

/// Has the files read again whenever they have changed, or the signal comes.
pub(crate) async fn keep_in_step<F: Followed>(followed: Arc<F>, watch: Watch, mut hangup: Signal) {
    let mut unsettled: Option<Unsettled<F::Look>> = None;
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
        let (followed, earlier) = (Arc::clone(&followed), unsettled.as_ref().map(|it| Arc::clone(&it.look)));
        // A large file takes a while, in which requests are answered.
        let glance = tokio::task::spawn_blocking(move || followed.glance(earlier.as_deref(), is_over, cause));
        match glance.await {
            Ok(Glance::Settled) | Err(_) => unsettled = None,
            Ok(Glance::Same) => {}
            Ok(Glance::Changed(look, rest)) => {
                unsettled = Some(Unsettled { look: look.into(), cause, rest: Box::pin(time::sleep(rest)) });
            }
        }
    }
}

impl Cause {
    /// Whether nobody asked, and the files may be as they were.
    pub(crate) const fn is_guess(self) -> bool {
        matches!(self, Self::Watch | Self::Rename | Self::Interval)
    }

    /// Whether the files may be half written.
    pub(crate) const fn is_doubtful(self) -> bool {
        matches!(self, Self::Watch | Self::Interval)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Watch => "watch",
            Self::Rename => "rename",
            Self::Interval => "interval",
            Self::Signal => "SIGHUP",
            Self::Request => "request",
        }
    }
}
