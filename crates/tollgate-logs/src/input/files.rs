//! The files of inputs.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Input, compression, elements};
use crate::error::Error;
use crate::lines::Lines;
use crate::progress::Counts;

/// A file, or something else with lines.
pub(crate) struct Log {
    pub(crate) name: String,
    place: LogPlace,
}

enum LogPlace {
    File(PathBuf),
    /// What can be read only once, and what has been read of it to look at its first lines.
    Once(Option<Box<dyn Read + Send>>),
}

/// The stream of a log, decompressed.
pub(crate) type Stream = Box<dyn Read + Send>;

/// How much of a log is looked at to find its format.
pub(crate) const FIRST_LINES: usize = 1_000;
const FIRST_BYTES: usize = 1 << 20;

/// The logs of the inputs, in their order, each once; and how many bytes they have, if that is known.
pub(crate) fn expand(inputs: Vec<Input>) -> Result<(Vec<Log>, Option<u64>), Error> {
    let mut found = FoundLogs::default();
    for input in inputs {
        match input {
            Input::Path(path) => found.path(&path)?,
            Input::Stdin if found.has_stdin => return Err(Error::StdinTwice),
            Input::Stdin => {
                found.has_stdin = true;
                found.once("standard input".to_owned(), Box::new(io::stdin()));
            }
            Input::Read(name, read) => found.once(name, read),
        }
    }
    Ok((found.logs, (!found.is_endless).then_some(found.bytes)))
}

#[derive(Default)]
struct FoundLogs {
    logs: Vec<Log>,
    bytes: u64,
    known: HashSet<PathBuf>,
    has_stdin: bool,
    /// Whether the size of one is not known.
    is_endless: bool,
}

impl FoundLogs {
    fn once(&mut self, name: String, read: Stream) {
        self.is_endless = true;
        self.logs.push(Log { name, place: LogPlace::Once(Some(read)) });
    }

    fn path(&mut self, path: &Path) -> Result<(), Error> {
        let name = || path.display().to_string();
        let before = (self.logs.len(), self.known.len());
        match fs::metadata(path) {
            Ok(of) if of.is_dir() => self.folder(path)?,
            Ok(_) => self.file(path)?,
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(open_error(&name(), error)),
            Err(_) => {
                let pattern = path.to_str().filter(|text| text.contains(['*', '?', '[']));
                let pattern = pattern.ok_or_else(|| Error::NoFile { name: name() })?;
                let matches =
                    glob::glob(pattern).map_err(|source| Error::Pattern { pattern: name(), source })?;
                let mut count = 0;
                for path in matches {
                    let path = path.map_err(|error| open_error(&name(), error.into()))?;
                    count += 1;
                    if path.is_dir() { self.folder(&path)? } else { self.file(&path)? }
                }
                if count == 0 {
                    return Err(Error::NoFile { name: name() });
                }
            }
        }
        // A folder without files, and not one whose files are known already.
        let is_empty =
            path.is_dir() && before == (self.logs.len(), self.known.len()) && !self.has_any_in(path);
        if is_empty { Err(Error::EmptyFolder { name: name() }) } else { Ok(()) }
    }

    fn has_any_in(&self, folder: &Path) -> bool {
        let whole = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        self.known.iter().any(|known| known.starts_with(&whole))
    }

    /// All files of a folder, in the order of their names. Links to folders are not followed, and hidden files are not
    /// part of a log.
    fn folder(&mut self, folder: &Path) -> Result<(), Error> {
        let wrong = |error| open_error(&folder.display().to_string(), error);
        let entries = fs::read_dir(folder).map_err(wrong)?;
        let mut entries = entries.collect::<io::Result<Vec<_>>>().map_err(wrong)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            if entry.file_name().as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let kind = entry.file_type().map_err(wrong)?;
            if kind.is_dir() {
                self.folder(&entry.path())?;
            } else if fs::metadata(entry.path()).is_ok_and(|of| of.is_file()) {
                self.file(&entry.path())?;
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> Result<(), Error> {
        let name = path.display().to_string();
        let of = fs::metadata(path).map_err(|error| open_error(&name, error))?;
        if !of.is_file() {
            // A pipe, as of a shell's `<(...)`.
            let file = File::open(path).map_err(|error| open_error(&name, error))?;
            self.once(name, Box::new(file));
            return Ok(());
        }
        let whole = fs::canonicalize(path).map_err(|error| open_error(&name, error))?;
        if self.known.insert(whole) {
            self.bytes = self.bytes.saturating_add(of.len());
            self.logs.push(Log { name, place: LogPlace::File(path.to_owned()) });
        }
        Ok(())
    }
}

pub(crate) fn read_error(name: &str, source: io::Error) -> Error {
    Error::Read { name: name.to_owned(), source }
}

fn open_error(name: &str, source: io::Error) -> Error {
    Error::Open { name: name.to_owned(), source }
}

impl Log {
    /// The bytes of its first lines, at least so many. They are read again by [`Log::open`].
    pub(crate) fn first_lines(&mut self, most: usize, counts: &Arc<Counts>) -> Result<Vec<u8>, Error> {
        let result = match &mut self.place {
            LogPlace::File(path) => {
                let file = File::open(path).map_err(|error| open_error(&self.name, error))?;
                plain(file).and_then(|mut stream| begin(&mut stream, most))
            }
            LogPlace::Once(place) => place.take().ok_or_else(gone).and_then(|read| {
                let mut stream = plain(CountedReader { read, counts: Arc::clone(counts) })?;
                let first = begin(&mut stream, most)?;
                *place = Some(Box::new(Cursor::new(first.clone()).chain(stream)));
                Ok(first)
            }),
        };
        result.map_err(|error| read_error(&self.name, error))
    }

    /// All its lines. To be called once.
    pub(crate) fn open(&mut self, counts: &Arc<Counts>) -> Result<Lines<Stream>, Error> {
        let stream = match &mut self.place {
            LogPlace::File(path) => {
                let read = File::open(path).map_err(|error| open_error(&self.name, error))?;
                plain(CountedReader { read, counts: Arc::clone(counts) })
            }
            LogPlace::Once(place) => place.take().ok_or_else(gone),
        };
        Ok(Lines::new(stream.map_err(|error| read_error(&self.name, error))?))
    }
}

/// The lines of a file, decompressed.
fn plain(read: impl Read + Send + 'static) -> io::Result<Stream> {
    compression::plain(read).and_then(elements::as_lines)
}

fn gone() -> io::Error {
    io::Error::other("it can be read only once")
}

/// Reads the first lines, whole ones as far as there are enough.
fn begin(stream: &mut Stream, most: usize) -> io::Result<Vec<u8>> {
    let mut first = Vec::new();
    let mut lines = 0;
    while lines < most && first.len() < FIRST_BYTES {
        let before = first.len();
        stream.take(16 << 10).read_to_end(&mut first)?;
        let new = first.get(before..).unwrap_or_default();
        if new.is_empty() {
            break;
        }
        lines += memchr::memchr_iter(b'\n', new).count();
    }
    Ok(first)
}

/// Counts what is read, for the progress.
struct CountedReader<R> {
    read: R,
    counts: Arc<Counts>,
}

impl<R: Read> Read for CountedReader<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let read = self.read.read(room)?;
        self.counts.add_bytes(read);
        Ok(read)
    }
}
