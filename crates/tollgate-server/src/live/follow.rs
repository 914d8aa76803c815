//! Follows files: has them reloaded when they may have changed, but not while they are half written.
//!
//! A file that is written in place is read twice, and counts once both reads agree. A reload by an administrator or a
//! signal takes effect immediately, and so does a file that was renamed into place.

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::Signal;
use tokio::task::JoinError;
use tokio::time::{self, Sleep};
use tracing::error;

use crate::live::cause::Cause;
use crate::live::watch::Watch;

/// A value that is made from one file, or from several that belong together, and follows their changes.
pub(crate) trait Followed: Send + Sync + 'static {
    /// The files as read at one moment.
    type Look: Send + Sync + 'static;

    /// Reads the files and applies them, unless they may be half written. Logs the result.
    ///
    /// `earlier` is the previous look, if it required another. `is_over` is true if the files have been unchanged for
    /// the required time.
    fn glance(&self, earlier: Option<&Self::Look>, is_over: bool, cause: Cause) -> Glance<Self::Look>;
}

/// The result of a look at files that may be half written.
#[derive(Debug)]
pub(crate) enum Glance<L> {
    /// The files were applied, or have not changed since they were.
    Settled,
    /// The files have not changed since the earlier look, but have to stay unchanged for longer.
    Same,
    /// The files have changed; look again after this time.
    Changed(L, Duration),
}

/// The time for which files that look complete must stay unchanged.
pub(crate) const SECOND_LOOK: Duration = Duration::from_millis(100);

/// The time for which files that look incomplete must stay unchanged.
pub(crate) const SLOW_WRITER: Duration = Duration::from_secs(2);

/// Files that may be half written.
struct Unsettled<L> {
    look: Arc<L>,
    cause: Cause,
    /// The rest of the time that they have to stay unchanged.
    rest: Pin<Box<Sleep>>,
}

/// Reloads the files whenever they have changed or the signal comes.
pub(crate) async fn keep_in_step<F: Followed>(followed: Arc<F>, watch: Watch, mut hangup: Signal) {
    let watch = Arc::new(watch);
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
        // Reading a large file takes a while; requests are answered meanwhile.
        let armed = Arc::clone(&watch);
        let glance = tokio::task::spawn_blocking(move || {
            armed.arm();
            followed.glance(earlier.as_deref(), is_over, cause)
        });
        match glance.await {
            Ok(Glance::Settled) => unsettled = None,
            // The next look tries again.
            Err(failure) => {
                log_panic(cause, &failure);
                unsettled = None;
            }
            Ok(Glance::Same) => {}
            Ok(Glance::Changed(look, rest)) => {
                unsettled = Some(Unsettled { look: look.into(), cause, rest: Box::pin(time::sleep(rest)) });
            }
        }
    }
}

/// Logs that a reload panicked, which is a bug of ours.
pub(crate) fn log_panic(cause: Cause, failure: &JoinError) {
    error!(cause = cause.name(), %failure, "a reload ended unexpectedly: nothing has changed");
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::{self, Write};
    use std::sync::Mutex;

    use tokio::signal::unix::{SignalKind, signal};
    use tracing::subscriber::DefaultGuard;

    use super::*;

    /// Panics at each look.
    struct Broken;

    impl Followed for Broken {
        type Look = ();

        fn glance(&self, _: Option<&()>, _: bool, _: Cause) -> Glance<()> {
            panic!("a bug of ours")
        }
    }

    /// The lines of a log.
    #[derive(Clone, Default)]
    pub(crate) struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Lines {
        /// Collects the lines of this thread until the guard is dropped.
        pub(crate) fn start(&self) -> DefaultGuard {
            let writer = self.clone();
            let log = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
            tracing::subscriber::set_default(log)
        }

        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    impl Write for Lines {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(line)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A panic in a reload was swallowed: the file stayed "in step", and no line said that it was not read.
    #[tokio::test]
    async fn a_panic_in_a_reload_is_logged_and_the_next_look_is_taken() {
        let lines = Lines::default();
        let _log = lines.start();
        let logged = || lines.text();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.yaml");
        let hangup = signal(SignalKind::window_change()).unwrap();
        let following = keep_in_step(Arc::new(Broken), Watch::start(&[&path]), hangup);
        let changing = async {
            for looks in 1..=2 {
                std::fs::write(&path, "text\n").unwrap();
                while logged().matches("a reload ended unexpectedly").count() < looks {
                    time::sleep(Duration::from_millis(10)).await;
                }
            }
        };
        tokio::select! {
            () = following => panic!("it ended"),
            changed = time::timeout(Duration::from_secs(20), changing) => changed.unwrap(),
        }
        assert!(logged().contains("ERROR") && logged().contains("a bug of ours"), "{}", logged());
    }
}
