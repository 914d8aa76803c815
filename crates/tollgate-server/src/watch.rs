//! Notices when the file of policies may have changed.
//!
//! It watches the folder and not the file: editors put a new file in the place of the old one, and Kubernetes swaps a
//! symbolic link beside it. What events do not tell of (a folder over the network, links into other folders) is found
//! by looking again every half minute. Whether anything has changed is for the reader to find out.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time;
use tracing::warn;

use crate::reload::Cause;

/// How long nothing has to happen: a change is several events, and the last of them completes it.
const QUIET: Duration = Duration::from_millis(100);

/// After this long a folder in which something happens all the time is looked at all the same.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often the file is looked at whatever is told of it.
const INTERVAL: Duration = Duration::from_secs(30);

/// See the [module](self).
pub(crate) struct Watch {
    happened: Arc<Notify>,
    /// Ends with this value; none where the system has no watch to give.
    _watcher: Option<RecommendedWatcher>,
}

impl Watch {
    /// From now on, changes are noticed.
    pub(crate) fn start(file: &Path) -> Self {
        let happened = Arc::new(Notify::new());
        let watcher = watcher(file, Arc::clone(&happened));
        let watcher = watcher.inspect_err(|error| {
            warn!(%error, "changes of the file of policies are noticed within {INTERVAL:?}, and not at once");
        });
        Self { happened, _watcher: watcher.ok() }
    }

    /// Waits until the file may have changed, and what was happening is over. Says whether something happened or it is
    /// only time to look.
    pub(crate) async fn changed(&self) -> Cause {
        if time::timeout(INTERVAL, self.happened.notified()).await.is_err() {
            return Cause::Interval;
        }
        let quiet = async { while time::timeout(QUIET, self.happened.notified()).await.is_ok() {} };
        // Whether it became quiet or not, it is time to look.
        let _ = time::timeout(PATIENCE, quiet).await;
        Cause::Watch
    }
}

fn watcher(file: &Path, happened: Arc<Notify>) -> notify::Result<RecommendedWatcher> {
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        if event.is_ok_and(|event| is_change(event.kind)) {
            happened.notify_one();
        }
    })?;
    watcher.watch(folder(file), RecursiveMode::NonRecursive)?;
    // Where the file is a link into another folder, it may be written there.
    if let Ok(target) = file.canonicalize()
        && folder(&target) != folder(file)
    {
        watcher.watch(folder(&target), RecursiveMode::NonRecursive)?;
    }
    Ok(watcher)
}

fn folder(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Whoever only reads changes nothing; we do it ourselves.
fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(kind) => kind == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}
