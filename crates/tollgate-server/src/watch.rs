//! Notices when files may have changed.
//!
//! It watches the folders of files, not the files: editors replace a file with a new one, and Kubernetes swaps a
//! symbolic link in the folder. Some changes cause no event (network folders, links into other folders); a regular look
//! every half minute finds them. The reader finds out whether anything has changed.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time;
use tollgate_policy::Sources;
use tracing::warn;

use crate::follow::Cause;

/// The required pause between events: a change is several events, and the last one completes it.
const QUIET: Duration = Duration::from_millis(100);

/// After this time, even a folder with constant events is read.
const PATIENCE: Duration = Duration::from_secs(2);

/// The interval at which files are read without any event.
const INTERVAL: Duration = Duration::from_secs(30);

/// See the [module](self).
pub(crate) struct Watch {
    seen: Arc<Seen>,
    /// Kept alive by this value; `None` if the system cannot watch.
    _watcher: Option<RecommendedWatcher>,
}

/// The events since the last call.
#[derive(Default)]
struct Seen {
    happened: Notify,
    /// Whether the last event of a file was a rename to its name.
    renamed: AtomicBool,
}

impl Watch {
    /// Starts to watch these files.
    pub(crate) fn start<P: AsRef<Path> + fmt::Debug>(files: &[P]) -> Self {
        let seen = Arc::new(Seen::default());
        let watcher = watcher(files.iter().map(AsRef::as_ref), Arc::clone(&seen));
        let watcher = watcher.inspect_err(|error| {
            warn!(?files, %error, "changes are noticed within {INTERVAL:?}, not at once");
        });
        Self { seen, _watcher: watcher.ok() }
    }

    /// Waits until a file may have changed and events have stopped. Returns whether a file was replaced, something else
    /// happened, or the interval is over.
    pub(crate) async fn changed(&self) -> Cause {
        let Seen { happened, renamed } = &*self.seen;
        if time::timeout(INTERVAL, happened.notified()).await.is_err() {
            return Cause::Interval;
        }
        let quiet = async { while time::timeout(QUIET, happened.notified()).await.is_ok() {} };
        // Quiet or out of patience, it is time to read.
        let _ = time::timeout(PATIENCE, quiet).await;
        // Relaxed: the notification orders it, and a later rename notifies again.
        if renamed.swap(false, Ordering::Relaxed) { Cause::Rename } else { Cause::Watch }
    }
}

/// Watches these files, and the policy files in these folders.
fn watcher<'a>(paths: impl Iterator<Item = &'a Path>, seen: Arc<Seen>) -> notify::Result<RecommendedWatcher> {
    let (mut folders, files): (Vec<PathBuf>, Vec<PathBuf>) =
        paths.map(Path::to_path_buf).partition(|path| path.is_dir());
    let has_folders = !folders.is_empty();
    // Writes to a linked file happen at its target.
    let targets: Vec<PathBuf> = files.iter().filter_map(|file| file.canonicalize().ok()).collect();
    let names: Vec<OsString> =
        files.iter().chain(&targets).filter_map(|file| Some(file.file_name()?.to_os_string())).collect();
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
        let Ok(event) = event else { return };
        let is_read = |path: &PathBuf| {
            has_folders && Sources::takes(path)
                || path.file_name().is_some_and(|name| names.iter().any(|file| file == name))
        };
        if is_change(event.kind) {
            if event.paths.last().is_some_and(is_read) {
                // A file that was written after its rename may be half written.
                seen.renamed.store(is_rename(event.kind), Ordering::Relaxed);
            }
            seen.happened.notify_one();
        }
    })?;
    folders.extend(files.iter().chain(&targets).map(|file| folder(file).into()));
    folders.sort();
    folders.dedup();
    folders.iter().try_for_each(|folder| watcher.watch(folder, RecursiveMode::NonRecursive))?;
    Ok(watcher)
}

fn folder(file: &Path) -> &Path {
    match file.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Returns whether a file was renamed, with its new name as the last path of the event.
fn is_rename(kind: EventKind) -> bool {
    matches!(kind, EventKind::Modify(ModifyKind::Name(RenameMode::To | RenameMode::Both)))
}

/// Ignores reads, which the service causes itself.
fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(kind) => kind == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}
