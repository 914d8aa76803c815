//! The texts of files that are read together.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::error::ConfigError;
use crate::named_file::files_named_in;

/// The texts of one or several files, as they were at one moment.
///
/// Several files mean the same as one file with all their contents. `Debug` shows no text, because it may contain
/// secrets.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Sources {
    files: Vec<SourceText>,
    /// The tables that files name.
    tables: Vec<Table>,
}

/// A text, and the name of its file in messages.
#[derive(Clone, PartialEq, Eq)]
struct SourceText {
    name: Box<str>,
    text: String,
}

/// A table in the folder of the files that name it, or the reason why it cannot be read.
#[derive(Clone, PartialEq, Eq)]
struct Table {
    path: PathBuf,
    text: Result<String, Box<str>>,
}

impl Sources {
    /// The maximum number of files that are read together. More than this suggests the wrong folder, not a set of
    /// policy files.
    pub const MAX_FILES: usize = 1_000;

    /// The maximum size of a file, and of all together: 16 MiB. A larger one is no file of settings, and would fill
    /// the memory when it is read.
    pub const MAX_BYTES: u64 = 16 * 1024 * 1024;

    /// Returns the text of a file that messages call `name`.
    #[must_use]
    pub fn of(name: &str, text: impl Into<String>) -> Self {
        Self::default().and(name, text)
    }

    /// Adds the text of another file.
    #[must_use]
    pub fn and(mut self, name: &str, text: impl Into<String>) -> Self {
        self.files.push(SourceText { name: name.into(), text: text.into() });
        self
    }

    /// Adds the text of a table in the folder of the file with this name, for `values_from: TABLE` and for lists such
    /// as `cidr_from: TABLE`.
    #[must_use]
    pub fn with_table(mut self, file: &str, table: &str, text: impl Into<String>) -> Self {
        self.tables.push(Table { path: beside(file, table), text: Ok(text.into()) });
        self
    }

    /// Reads these files. Of a folder it reads all files that end in `.yaml` or `.yml`, in the order of their names,
    /// without those that begin with a dot.
    ///
    /// # Errors
    ///
    /// If one of them cannot be read or is not text, if a folder contains none, or if they are more than
    /// [`MAX_FILES`](Self::MAX_FILES) or together larger than [`MAX_BYTES`](Self::MAX_BYTES).
    pub fn read<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> Result<Self, ConfigError> {
        Self::read_by(paths, |path| File::open(path))
    }

    /// Reads these files and folders, and opens each file by this function.
    ///
    /// # Errors
    ///
    /// The same as [`read`](Self::read).
    pub fn read_by<P: AsRef<Path>, R: io::Read>(
        paths: impl IntoIterator<Item = P>,
        mut open: impl FnMut(&Path) -> io::Result<R>,
    ) -> Result<Self, ConfigError> {
        let mut sources = Self::default();
        for path in paths {
            for file in files(path.as_ref())? {
                let name = file.display().to_string();
                let reader = open(&file).map_err(|source| ConfigError::unreadable(&name, source))?;
                let text = sources.read_one(&name, reader)?;
                for table in files_named_in(&text) {
                    let path = beside(&name, &table);
                    if sources.tables.iter().any(|known| known.path == path) {
                        continue;
                    }
                    let text = match open(&path) {
                        Ok(reader) => Ok(sources.read_one(&path.display().to_string(), reader)?),
                        Err(error) => Err(error.to_string().into()),
                    };
                    sources.tables.push(Table { path, text });
                }
                sources = sources.and(&name, text);
            }
        }
        Ok(sources)
    }

    /// Returns whether a file of a folder is read, by its name. Kubernetes keeps links that begin with dots next to its
    /// files, and editors keep such files.
    #[must_use]
    pub fn takes(file: &Path) -> bool {
        let is_yaml = file.extension().is_some_and(|extension| extension == "yaml" || extension == "yml");
        is_yaml && file.file_name().is_some_and(|name| !name.as_encoded_bytes().starts_with(b"."))
    }

    /// The text of one file more.
    fn read_one(&self, name: &str, reader: impl io::Read) -> Result<String, ConfigError> {
        if self.files.len() + self.tables.len() == Self::MAX_FILES {
            return Err(ConfigError::TooMany { file: name.into() });
        }
        let text = Self::text_of(name, reader)?;
        if (self.bytes() + text.len()) as u64 > Self::MAX_BYTES {
            return Err(ConfigError::TooLargeTogether { file: name.into() });
        }
        Ok(text)
    }

    /// Returns the text of an open file that messages call `file`. A pipe is waited for until its writer has closed it.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is not text, or is larger than [`MAX_BYTES`](Self::MAX_BYTES).
    pub fn text_of(file: &str, open: impl io::Read) -> Result<String, ConfigError> {
        let unreadable = |source| ConfigError::unreadable(file, source);
        let mut bytes = Vec::new();
        let read = open.take(Self::MAX_BYTES + 1).read_to_end(&mut bytes);
        if read.map_err(unreadable)? as u64 > Self::MAX_BYTES {
            return Err(ConfigError::TooLarge { file: file.into() });
        }
        String::from_utf8(bytes)
            .map_err(|error| unreadable(io::Error::new(io::ErrorKind::InvalidData, error)))
    }

    /// Returns the names of the files in messages.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|source| source.name.as_ref())
    }

    /// Returns the texts of all files, those of tables last.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.policies().chain(self.tables.iter().filter_map(|table| table.text.as_deref().ok()))
    }

    /// Returns the texts of the files without their tables.
    pub fn policies(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|source| source.text.as_str())
    }

    /// Returns the names of all files in messages, those of tables last.
    pub fn all_names(&self) -> impl Iterator<Item = Box<str>> {
        let tables = self.tables.iter().map(|table| table.path.display().to_string().into());
        self.files.iter().map(|source| source.name.clone()).chain(tables)
    }

    /// Returns the table of this name in the folder of a file, with its number among all files.
    ///
    /// # Errors
    ///
    /// If the table cannot be read; the text says why not.
    pub fn table(&self, file: u32, name: &str) -> Result<(u32, &str), Box<str>> {
        let path = beside(self.files.get(file as usize).map_or("", |source| &source.name), name);
        let found = (self.files.len() as u32..).zip(&self.tables).find(|(_, table)| table.path == path);
        let Some((number, table)) = found else {
            return Err("only files that are read from a folder have any".into());
        };
        table.text.as_deref().map(|text| (number, text)).map_err(Clone::clone)
    }

    /// Returns the total length of all texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.texts().map(str::len).sum()
    }
}

/// Returns the path of a table that the file names.
fn beside(file: &str, table: &str) -> PathBuf {
    Path::new(file).with_file_name(table)
}

/// The file itself, or those of a folder.
fn files(path: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    if !path.is_dir() {
        return Ok(vec![path.into()]);
    }
    let name = path.display().to_string();
    let unreadable = |source| ConfigError::unreadable(&name, source);
    let entries: Result<Vec<_>, _> = fs::read_dir(path).map_err(unreadable)?.collect();
    let mut files: Vec<PathBuf> =
        entries.map_err(unreadable)?.into_iter().map(|entry| entry.path()).collect();
    files.retain(|file| Sources::takes(file));
    files.sort();
    if files.is_empty() {
        return Err(ConfigError::NoFile { folder: name.into() });
    }
    Ok(files)
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sources").field(&self.names().collect::<Vec<_>>()).finish()
    }
}
