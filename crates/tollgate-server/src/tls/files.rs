//! The files of certificates and keys, and one reading of them.

use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustls::pki_types::ServerName;
use tollgate_redis::SmallFile;

use crate::live::file_stamp::FileStamp;
use crate::observe::secret_file::public_mode;

/// The paths of the service's certificate, its key, and the authorities of its clients.
#[derive(Debug, Clone)]
pub(crate) struct TlsFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    /// Set if clients must show a certificate.
    pub(crate) client_authorities: Option<PathBuf>,
    /// The name that the certificate of each client must have, if any.
    pub(crate) client_name: Option<ServerName<'static>>,
}

/// The files as read at one moment. Not for logs: it holds a key.
pub(crate) struct TlsReading {
    pub(super) certificate: PemFile,
    pub(super) key: PemFile,
    pub(super) client_authorities: Option<PemFile>,
    pub(super) client_name: Option<ServerName<'static>>,
}

/// The text of one file, or the reason why it cannot be read.
pub(super) struct PemFile {
    pub(super) path: Box<Path>,
    pub(super) bytes: io::Result<Vec<u8>>,
    /// Its mode, if every user of this machine can read it.
    pub(super) public_mode: Option<u32>,
    /// `None` if the file cannot be opened.
    stamp: Option<FileStamp>,
}

impl TlsFiles {
    pub(super) fn read(&self) -> TlsReading {
        TlsReading {
            certificate: PemFile::read(&self.certificate),
            key: PemFile::read(&self.key),
            client_authorities: self.client_authorities.as_deref().map(PemFile::read),
            client_name: self.client_name.clone(),
        }
    }

    /// Returns the paths of all files.
    pub(crate) fn paths(&self) -> Vec<&Path> {
        let paths = [Some(&self.certificate), Some(&self.key), self.client_authorities.as_ref()];
        paths.into_iter().flatten().map(PathBuf::as_path).collect()
    }
}

impl TlsReading {
    pub(super) fn all(&self) -> impl Iterator<Item = &PemFile> {
        [&self.certificate, &self.key].into_iter().chain(&self.client_authorities)
    }

    /// Returns whether nothing was written between two readings, as far as the stamps show.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.holds_same(other) && self.all().zip(other.all()).all(|(one, other)| one.stamp == other.stamp)
    }

    /// Returns whether both readings have the same texts.
    pub(super) fn holds_same(&self, other: &Self) -> bool {
        self.all().zip(other.all()).all(|(one, other)| one.bytes.as_ref().ok() == other.bytes.as_ref().ok())
    }

    /// Returns whether a file is shorter than before; the rest may still be coming.
    pub(super) fn is_shorter(&self, before: &Self) -> bool {
        let length = |file: &PemFile| file.bytes.as_ref().map_or(0, Vec::len);
        self.all().zip(before.all()).any(|(now, before)| length(now) < length(before))
    }
}

/// Leaves out the texts, one of which is a key.
impl fmt::Debug for TlsReading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsReading").finish_non_exhaustive()
    }
}

impl PemFile {
    fn read(path: &Path) -> Self {
        let read = |file: &File| SmallFile::read_open(file, SmallFile::MOST_PEM_BYTES);
        match FileStamp::open(path)
            .and_then(|(file, stamp)| Ok((read(&file)?, public_mode(&file.metadata()?), stamp)))
        {
            Ok((bytes, public_mode, stamp)) => {
                Self { path: path.into(), bytes: Ok(bytes), public_mode, stamp: Some(stamp) }
            }
            Err(error) => Self { path: path.into(), bytes: Err(error), public_mode: None, stamp: None },
        }
    }
}
