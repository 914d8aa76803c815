//! Follows files: has them reloaded when they may have changed, but not while they are half written.
//!
//! A file that is written in place is read twice, and counts once both reads agree. A file that was renamed into place
//! takes effect immediately, like a reload by an administrator or a signal.

use std::future::pending;
use std::pin::Pin;
use std::sync::Arc;

use tokio::signal::unix::Signal;
use tokio::time::{self, Sleep};

use super::cause::Cause;
use super::reload::{FileSource, Glance, Reload, Reloads};
use super::target::LiveTarget;
use super::watch::FolderWatch;

/// Files that may be half written.
struct UnsettledFiles<R> {
    reading: Arc<R>,
    cause: Cause,
    /// The rest of the time that they have to stay unchanged.
    wait: Pin<Box<Sleep>>,
}

/// Reloads the files whenever they have changed or the signal comes.
pub(crate) async fn keep_in_step<S: FileSource, T: LiveTarget<Content = S::Content>>(
    reloads: Arc<Reloads<S, T>>,
    mut hangup: Signal,
) {
    let watch = Arc::new(FolderWatch::start(reloads.paths()));
    let mut unsettled: Option<UnsettledFiles<S::Reading>> = None;
    loop {
        let waited = async {
            match &mut unsettled {
                Some(UnsettledFiles { cause, wait, .. }) => {
                    wait.await;
                    *cause
                }
                None => pending().await,
            }
        };
        let (cause, is_over) = tokio::select! {
            cause = watch.changed() => (cause, false),
            _ = hangup.recv() => (Cause::Signal, false),
            cause = waited => (cause, true),
        };
        let earlier = unsettled.as_ref().map(|unsettled| Arc::clone(&unsettled.reading));
        let reader = Arc::clone(&reloads);
        // Reading a large file takes a while; requests are answered meanwhile.
        let armed = Arc::clone(&watch);
        let glance = tokio::task::spawn_blocking(move || {
            armed.arm();
            reader.glance(earlier.as_deref(), is_over, cause)
        });
        match glance.await {
            Ok(Glance::Settled) => unsettled = None,
            // The next look tries again.
            Err(failure) => {
                reloads.log_panic(cause, &failure);
                unsettled = None;
            }
            Ok(Glance::Same) => {}
            Ok(Glance::Changed(reading, wait)) => {
                let (reading, wait) = (reading.into(), Box::pin(time::sleep(wait)));
                unsettled = Some(UnsettledFiles { reading, cause, wait });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::time::Duration;

    use tokio::signal::unix::{SignalKind, signal};

    use super::*;
    use crate::live::captured_log::CapturedLog;
    use crate::live::record::Changes;

    /// Panics at each look.
    struct PanickingFile(PathBuf);

    impl FileSource for PanickingFile {
        type Reading = ();

        type Content = ();

        type Error = &'static str;

        fn name(&self) -> &str {
            "file.yaml"
        }

        fn paths(&self) -> Vec<PathBuf> {
            vec![self.0.clone()]
        }

        fn read(&self) {
            panic!("a bug of ours")
        }

        fn is_same(&self, (): &(), (): &()) -> bool {
            false
        }

        fn is_known(&self, (): &()) -> bool {
            false
        }

        fn are_several(&self) -> bool {
            false
        }

        fn wait(&self, (): &()) -> Duration {
            Duration::ZERO
        }

        fn parse(&mut self, (): ()) -> Result<(), &'static str> {
            Ok(())
        }
    }

    struct Nothing;

    impl LiveTarget for Nothing {
        const NAME: &'static str = "texts";

        type Content = ();

        fn go_live(&mut self, (): (), _: &str) -> Option<Changes> {
            None
        }

        fn version(&self) -> u64 {
            1
        }
    }

    /// A panic in a reload was swallowed: the file stayed "in step", and no line said that it was not read.
    #[tokio::test]
    async fn a_panic_in_a_reload_is_logged_and_the_next_look_is_taken() {
        let captured = CapturedLog::default();
        let _log = captured.start();
        let logged = || captured.text();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file.yaml");
        let hangup = signal(SignalKind::window_change()).unwrap();
        let reloads = Arc::new(Reloads::new(PanickingFile(path.clone()), Nothing));
        let following = keep_in_step(reloads, hangup);
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
