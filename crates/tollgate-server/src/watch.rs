//! Notices when files may have changed.
//!
//! It watches the folders of files and not the files: editors put a new file in the place of the old one, and Kubernetes swaps
//! a symbolic link beside it. What events do not tell of (a folder over the network, links into other folders) is found
//! by looking again every half minute. Whether anything has changed is for the reader to find out.

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

/// How long nothing has to happen: a change is several events, and the last of them completes it.
const QUIET: Duration = Duration::from_millis(100);

/// After this long a folder in which something happens all the time is looked at all the same.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often the files are looked at whatever is told of them.
const INTERVAL: Duration = Duration::from_secs(30);

/// See the [module](self).
pub(crate) struct Watch {
    seen: Arc<Seen>,
    /// Ends with this value; none where the system has no watch to give.
    _watcher: Option<RecommendedWatcher>,
}

/// What the system has told of since it was asked last.
#[derive(Default)]
struct Seen {
    happened: Notify,
    /// Whether the last that happened to one of them was that a file was renamed to its name.
    renamed: AtomicBool,
}

impl Watch {
    /// From now on, changes are noticed.
    pub(crate) fn start<P: AsRef<Path> + fmt::Debug>(files: &[P]) -> Self {
        let seen = Arc::new(Seen::default());
        let watcher = watcher(files.iter().map(AsRef::as_ref), Arc::clone(&seen));
        let watcher = watcher.inspect_err(|error| {
            warn!(?files, %error, "changes are noticed within {INTERVAL:?}, and not at once");
        });
        Self { seen, _watcher: watcher.ok() }
    }

    /// Waits until a file may have changed, and what was happening is over. Says whether another file was put in its
    /// place, something else happened, or it is only time to look.
    pub(crate) async fn changed(&self) -> Cause {
        let Seen { happened, renamed } = &*self.seen;
        if time::timeout(INTERVAL, happened.notified()).await.is_err() {
            return Cause::Interval;
        }
        let quiet = async { while time::timeout(QUIET, happened.notified()).await.is_ok() {} };
        // Whether it became quiet or not, it is time to look.
        let _ = time::timeout(PATIENCE, quiet).await;
        // Relaxed: the notification orders it, and a rename that comes later is notified of again.
        if renamed.swap(false, Ordering::Relaxed) { Cause::Rename } else { Cause::Watch }
    }
}

/// Watches these files, and folders whose files of policies are read.
fn watcher<'a>(paths: impl Iterator<Item = &'a Path>, seen: Arc<Seen>) -> notify::Result<RecommendedWatcher> {
    let (mut folders, files): (Vec<PathBuf>, Vec<PathBuf>) =
        paths.map(Path::to_path_buf).partition(|path| path.is_dir());
    let has_folders = !folders.is_empty();
    // Where a file is a link, what is written is its target.
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
                // A file that is written after it was renamed may be half written.
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

/// Whether a file has got a name, and the event's last path is that.
fn is_rename(kind: EventKind) -> bool {
    matches!(kind, EventKind::Modify(ModifyKind::Name(RenameMode::To | RenameMode::Both)))
}

/// Only reading changes nothing: the service does it itself.
fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(kind) => kind == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}
