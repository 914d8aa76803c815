//! Notices when files may have changed.
//!
//! It watches folders, not files: editors replace a file with a new one, and Kubernetes and releases swap a symbolic
//! link. A path is watched in each of its folders, links included, and the watch is set again before each look,
//! because a swapped link or a new folder is another one than before. Some changes cause no event (network folders); a
//! regular look every half minute finds them. The reader finds out whether anything has changed.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode, ModifyKind, RenameMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time;
use tollgate_policy::Sources;
use tracing::warn;

use crate::live::cause::Cause;

/// The required pause between events: a change is several events, and the last one completes it.
const QUIET: Duration = Duration::from_millis(100);

/// After this time, even a folder with constant events is read.
const PATIENCE: Duration = Duration::from_secs(2);

/// The interval at which files are read without any event.
const INTERVAL: Duration = Duration::from_secs(30);

/// How often the watch is set again if folders keep changing meanwhile.
const TRIES: u32 = 3;

/// As in the kernel: a path has no more links.
const MAX_LINKS: u32 = 40;

/// See the [module](self).
pub(crate) struct FolderWatch {
    files: Vec<PathBuf>,
    seen: Arc<WatchEvents>,
    armed: Mutex<ArmedWatcher>,
}

/// The events since the last call.
#[derive(Default)]
struct WatchEvents {
    happened: Notify,
    /// Whether the last event of a file was a rename to its name.
    renamed: AtomicBool,
    /// Whether a folder or link on the way to a file is another one than before.
    rerouted: AtomicBool,
}

/// The folders that are watched now.
#[derive(Default)]
struct ArmedWatcher {
    route: FolderRoute,
    /// Kept alive by this value; `None` if the system cannot watch.
    watcher: Option<RecommendedWatcher>,
    /// Why a folder is not watched.
    failure: Option<notify::Error>,
    /// Whether the log says that changes are noticed late.
    is_delay_logged: bool,
}

/// The folders on the way to files.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct FolderRoute {
    folders: BTreeMap<PathBuf, Folder>,
    /// Every folder, link and file on the way.
    steps: Vec<PathBuf>,
    /// The names of the files.
    names: Vec<OsString>,
    /// Whether all policy files of a folder are read.
    has_folders: bool,
}

/// A folder on the way.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Folder {
    /// Its device and number, which another folder at the same path does not share; `None` if there is no folder.
    identity: Option<(u64, u64)>,
    /// Whether files in it are read.
    is_read: bool,
    /// Whether a link in it is on the way.
    has_link: bool,
}

impl FolderWatch {
    /// Starts to watch these files. The first look comes soon, because they may have changed since they were read.
    pub(crate) fn start<P: AsRef<Path>>(files: &[P]) -> Self {
        let files = files.iter().map(|file| file.as_ref().to_path_buf()).collect();
        let watch = Self { files, seen: Arc::default(), armed: Mutex::default() };
        watch.arm();
        watch.seen.happened.notify_one();
        watch
    }

    /// Waits until a file may have changed and events have stopped. Returns whether a file was replaced, something else
    /// happened, or the interval is over.
    pub(crate) async fn changed(&self) -> Cause {
        let WatchEvents { happened, renamed, .. } = &*self.seen;
        if time::timeout(INTERVAL, happened.notified()).await.is_err() {
            return Cause::Interval;
        }
        let quiet = async { while time::timeout(QUIET, happened.notified()).await.is_ok() {} };
        // Quiet or out of patience, it is time to read.
        let _ = time::timeout(PATIENCE, quiet).await;
        // Relaxed: the notification orders it, and a later rename notifies again.
        if renamed.swap(false, Ordering::Relaxed) { Cause::Rename } else { Cause::Watch }
    }

    /// Watches the folders that are now on the way to the files. Every look comes after it, so that each change is seen
    /// by the look, or is an event after it.
    pub(crate) fn arm(&self) {
        // Nothing under this lock leaves a half-made change.
        let mut armed = self.armed.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..TRIES {
            // Relaxed: the notification orders it. A change that comes later notifies again.
            let is_rerouted = self.seen.rerouted.swap(false, Ordering::Relaxed);
            let route = FolderRoute::to(&self.files);
            if armed.watcher.is_some() && !is_rerouted && armed.route == route {
                break;
            }
            let (watcher, failure) = self.watcher(&route);
            if !armed.replace(route, watcher, failure) {
                // Relaxed, as above.
                self.seen.rerouted.fetch_or(is_rerouted, Ordering::Relaxed);
                break;
            }
        }
        if let (Some(error), false) = (&armed.failure, armed.is_delay_logged) {
            let files = &self.files;
            warn!(?files, %error, "changes are noticed within {INTERVAL:?}, not at once");
        }
        armed.is_delay_logged = armed.failure.is_some();
    }

    /// Returns a watcher of the folders that can be watched, and why one of the others cannot.
    fn watcher(&self, route: &FolderRoute) -> (Option<RecommendedWatcher>, Option<notify::Error>) {
        let (seen, known) = (Arc::clone(&self.seen), route.clone());
        let watcher = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if let Ok(event) = event {
                seen.note(&event, &known);
            }
        });
        let mut watcher = match watcher {
            Ok(watcher) => watcher,
            Err(error) => return (None, Some(error)),
        };
        let mut failure = None;
        // A missing folder is announced by the one that it comes to.
        for (path, folder) in route.folders.iter().filter(|(_, folder)| folder.identity.is_some()) {
            let watched = watcher.watch(path, RecursiveMode::NonRecursive);
            // Many processes may not read the outer folders, which rarely change.
            if folder.is_read || folder.has_link {
                failure = failure.or(watched.err());
            }
        }
        (Some(watcher), failure)
    }
}

impl ArmedWatcher {
    /// Takes the new watcher, and drops the earlier one only then. If the system refuses a new one, the earlier watcher
    /// stays, because most changes are still in its path. Returns whether there is a new one.
    fn replace(
        &mut self,
        route: FolderRoute,
        watcher: Option<RecommendedWatcher>,
        failure: Option<notify::Error>,
    ) -> bool {
        self.failure = failure;
        let is_new = watcher.is_some();
        if is_new {
            (self.route, self.watcher) = (route, watcher);
        }
        is_new
    }
}

impl WatchEvents {
    fn note(&self, event: &Event, route: &FolderRoute) {
        let is_lost = event.need_rescan();
        if !is_change(event.kind) || !is_lost && !event.paths.iter().any(|path| route.concerns(path)) {
            return;
        }
        // Relaxed, here and below: the notification orders them.
        if is_lost || is_move(event.kind) && event.paths.iter().any(|path| route.has(path)) {
            self.rerouted.store(true, Ordering::Relaxed);
        }
        if event.paths.last().is_some_and(|path| route.is_file(path)) {
            // A file that was written after its rename may be half written.
            self.renamed.store(is_rename(event.kind), Ordering::Relaxed);
        }
        self.happened.notify_one();
    }
}

impl FolderRoute {
    /// Returns the folders that the system goes through to reach these files, and those files of a folder that are
    /// links.
    fn to(files: &[PathBuf]) -> Self {
        let mut route = Self::default();
        for file in files {
            route.add(file);
            let entries = fs::read_dir(file).into_iter().flatten().flatten();
            let links = entries.map(|entry| entry.path()).filter(|it| Sources::takes(it) && it.is_symlink());
            links.for_each(|link| route.add(&link));
        }
        for (path, folder) in &mut route.folders {
            let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_dir);
            folder.identity = metadata.map(|metadata| (metadata.dev(), metadata.ino()));
        }
        route
    }

    /// Adds the folders on the way to one file, or to a folder of files. Links are followed one by one, because each
    /// may be swapped.
    fn add(&mut self, file: &Path) {
        let absolute = std::path::absolute(file).unwrap_or_else(|_| file.into());
        let (mut at, mut links, is_folder) = (PathBuf::new(), 0, file.is_dir());
        // The next step is the last one.
        let mut ahead = steps(&absolute);
        while let Some(step) = ahead.pop() {
            let name = match step {
                PathStep::Root => {
                    at = PathBuf::from("/");
                    continue;
                }
                PathStep::Up => {
                    at.pop();
                    continue;
                }
                PathStep::Down(name) => name,
            };
            let next = at.join(&name);
            let link = fs::read_link(&next).ok().filter(|_| links < MAX_LINKS);
            let is_last = ahead.is_empty() && !is_folder;
            let folder = self.folders.entry(at.clone()).or_default();
            folder.has_link |= link.is_some();
            // Tables lie in the folder of the file that names them, even if that file is a link.
            folder.is_read |= is_last;
            if is_last {
                self.names.push(name);
            }
            self.steps.push(next.clone());
            match link {
                Some(target) => {
                    links += 1;
                    ahead.extend(steps(&target));
                }
                None => at = next,
            }
        }
        if is_folder {
            self.has_folders = true;
            self.folders.entry(at).or_default().is_read = true;
        }
    }

    /// Returns whether an event at this path may be a change of a file, or of the way to one.
    fn concerns(&self, path: &Path) -> bool {
        let folder = path.parent().and_then(|folder| self.folders.get(folder));
        folder.is_some_and(|folder| folder.is_read) || self.has(path)
    }

    /// Returns whether this is a folder, a link or a file on the way.
    fn has(&self, path: &Path) -> bool {
        self.folders.contains_key(path) || self.steps.iter().any(|step| step == path)
    }

    fn is_file(&self, path: &Path) -> bool {
        let is_named = || path.file_name().is_some_and(|name| self.names.iter().any(|known| known == name));
        self.has_folders && Sources::takes(path) || is_named()
    }
}

/// Returns the steps of a path, the first one last.
fn steps(path: &Path) -> Vec<PathStep> {
    let step = |component| match component {
        Component::RootDir | Component::Prefix(_) => Some(PathStep::Root),
        Component::ParentDir => Some(PathStep::Up),
        Component::CurDir => None,
        Component::Normal(name) => Some(PathStep::Down(name.into())),
    };
    path.components().rev().filter_map(step).collect()
}

/// One step of a path.
enum PathStep {
    Root,
    Up,
    Down(OsString),
}

impl fmt::Debug for FolderWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FolderWatch").field("files", &self.files).finish_non_exhaustive()
    }
}

/// Returns whether a file was renamed, with its new name as the last path of the event.
fn is_rename(kind: EventKind) -> bool {
    matches!(kind, EventKind::Modify(ModifyKind::Name(RenameMode::To | RenameMode::Both)))
}

/// Returns whether a folder, a link or a file came, went, or was renamed.
fn is_move(kind: EventKind) -> bool {
    matches!(kind, EventKind::Create(_) | EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)))
}

/// Ignores reads, which the service causes itself.
fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(kind) => kind == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::{TempDir, tempdir};

    use super::*;

    /// Less than the interval, so that only an event can be in time.
    const IN_TIME: Duration = Duration::from_secs(20);

    fn write(path: &Path) {
        fs::write(path, "policies: []\n").unwrap();
    }

    /// A folder, and a watch of a path in it that has had its first look.
    async fn watched(file: &str, make: impl FnOnce(&Path)) -> (TempDir, FolderWatch) {
        let folder = tempdir().unwrap();
        make(folder.path());
        let watch = FolderWatch::start(&[folder.path().join(file)]);
        notices(&watch).await;
        (folder, watch)
    }

    async fn notices(watch: &FolderWatch) {
        let cause = time::timeout(IN_TIME, watch.changed()).await;
        assert!(cause.is_ok_and(|cause| cause != Cause::Interval), "no event in time");
        watch.arm();
    }

    /// A process at its limit of watchers lost the one that it had, and noticed every later edit after half a minute.
    #[tokio::test]
    async fn the_earlier_watcher_stays_if_the_system_refuses_a_new_one() {
        let (folder, watch) = watched("file.yaml", |folder| write(&folder.join("file.yaml"))).await;
        let refused = notify::Error::generic("too many watchers");
        assert!(!watch.armed.lock().unwrap().replace(FolderRoute::default(), None, Some(refused)));
        write(&folder.path().join("file.yaml"));
        let cause = time::timeout(IN_TIME, watch.changed()).await;
        assert!(cause.is_ok_and(|cause| cause != Cause::Interval), "no event in time");
    }

    /// A release was a swapped link: it was noticed after half a minute, and so was every later edit of its files, for
    /// ever.
    #[tokio::test]
    async fn a_swapped_link_is_noticed_and_so_are_edits_behind_it() {
        let (folder, watch) = watched("current/file.yaml", |folder| {
            for release in ["r1", "r2"] {
                fs::create_dir(folder.join(release)).unwrap();
                write(&folder.join(release).join("file.yaml"));
            }
            symlink("r1", folder.join("current")).unwrap();
        })
        .await;
        for release in ["r2", "r1", "r2"] {
            symlink(release, folder.path().join("next")).unwrap();
            fs::rename(folder.path().join("next"), folder.path().join("current")).unwrap();
            notices(&watch).await;
            write(&folder.path().join(release).join("file.yaml"));
            notices(&watch).await;
        }
    }

    #[tokio::test]
    async fn a_folder_that_is_removed_and_made_again_is_noticed_and_so_are_edits_in_it() {
        for file in ["outer/inner", "outer/inner/file.yaml"] {
            let make = |folder: &Path| {
                fs::create_dir_all(folder.join("outer/inner")).unwrap();
                write(&folder.join("outer/inner/file.yaml"));
            };
            let (folder, watch) = watched(file, make).await;
            for _ in 0..3 {
                fs::remove_dir_all(folder.path().join("outer")).unwrap();
                notices(&watch).await;
                make(folder.path());
                notices(&watch).await;
                write(&folder.path().join("outer/inner/file.yaml"));
                notices(&watch).await;
            }
        }
    }

    #[tokio::test]
    async fn a_file_of_a_folder_may_be_a_link_into_another_folder() {
        let (folder, watch) = watched("config", |folder| {
            fs::create_dir(folder.join("config")).unwrap();
            fs::create_dir(folder.join("far")).unwrap();
            write(&folder.join("far/file.yaml"));
            symlink("../far/file.yaml", folder.join("config/link.yaml")).unwrap();
        })
        .await;
        write(&folder.path().join("far/file.yaml"));
        notices(&watch).await;
    }

    /// Logs and other files change all the time in folders that are only on the way.
    #[tokio::test]
    async fn other_files_on_the_way_are_no_reason_to_look() {
        let (folder, watch) = watched("outer/file.yaml", |folder| {
            fs::create_dir(folder.join("outer")).unwrap();
            write(&folder.join("outer/file.yaml"));
        })
        .await;
        fs::write(folder.path().join("log"), "a line").unwrap();
        assert!(time::timeout(3 * QUIET, watch.changed()).await.is_err());
        write(&folder.path().join("outer/file.yaml"));
        notices(&watch).await;
    }
}
