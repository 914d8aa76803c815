//! Opens a journal: finds what it holds, cuts off a torn write, and recovers what is good of a damaged one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tollgate_policy::{OverrideRecord, OverridesVersion};

use super::change::{JournalChange, JournalHead, JournalRecord};
use super::error::JournalError;
use super::folder::{self, JOURNAL, StateFolder, StateFolderError};
use super::journal_file::JournalFile;
use super::line;
use super::lines::{JournalLines, LineContent};
use super::opening_note::{OpeningNote, RecoveredJournal};
use super::snapshot::JournalSnapshot;
use super::survey::Survey;

/// How much is read at once.
const CHUNK: usize = 1 << 20;

/// What to do about a damaged journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnDamage {
    Refuse,
    /// Keep what can be read, and the damaged file next to it.
    Recover,
}

/// A journal whose records are still to be read.
#[derive(Debug)]
pub(crate) struct OpenJournal {
    file: JournalFile,
    /// The offsets of the lines with records.
    live: Vec<u64>,
    note: Option<OpeningNote>,
}

impl OpenJournal {
    /// Opens the journal in this folder. Both are created if there are none.
    ///
    /// # Errors
    ///
    /// If the folder cannot be used, or if the journal is damaged and is not to be recovered.
    pub(crate) fn open(path: &Path, on_damage: OnDamage) -> Result<Self, JournalError> {
        Self::open_in(Arc::new(StateFolder::open(path)?), on_damage)
    }

    fn open_in(folder: Arc<StateFolder>, on_damage: OnDamage) -> Result<Self, JournalError> {
        let path = folder.file(JOURNAL);
        let Some((file, is_writable)) = open_to_write(&folder)? else { return Self::create(folder, &path) };
        let survey = Survey::of(&file).map_err(failed(&path))?;
        if let Some(form) = survey.foreign_form() {
            return Err(JournalError::Form { path, form });
        }
        match (on_damage, survey.damage.split_first()) {
            (OnDamage::Refuse, Some((first, further))) => {
                Err(JournalError::Damaged { path, first: first.clone(), further: further.len() })
            }
            (OnDamage::Recover, Some(_)) => Self::recover(folder, path, file, survey),
            (_, None) => Self::of_sound(folder, path, (file, is_writable), survey, on_damage),
        }
    }

    fn create(folder: Arc<StateFolder>, path: &Path) -> Result<Self, JournalError> {
        let head = JournalHead { epoch: random_epoch(), number: 0, records: 0 };
        let snapshot = JournalSnapshot::write(&folder, head, std::iter::empty()).map_err(failed(path))?;
        snapshot.publish(&folder).and_then(|()| folder.sync()).map_err(failed(path))?;
        let note = Some(OpeningNote::New { path: path.into() });
        Ok(Self { file: JournalFile::of_snapshot(folder, snapshot), live: Vec::new(), note })
    }

    fn of_sound(
        folder: Arc<StateFolder>,
        path: PathBuf,
        (file, is_writable): (File, bool),
        survey: Survey,
        on_damage: OnDamage,
    ) -> Result<Self, JournalError> {
        let Survey { head: Some(head), number, live, live_bytes, end, torn, .. } = survey else {
            // Without a head, there is damage.
            return Err(failed(&path)(io::ErrorKind::InvalidData.into()));
        };
        let mut note =
            (on_damage == OnDamage::Recover).then(|| OpeningNote::Undamaged { path: path.clone() });
        if torn > 0 && is_writable {
            file.set_len(end).and_then(|()| file.sync_data()).map_err(failed(&path))?;
        }
        if torn > 0 {
            note = Some(OpeningNote::Torn { path: path.clone(), end, bytes: torn });
        }
        if !is_writable {
            note = Some(OpeningNote::ReadOnly { path });
        }
        let head = JournalHead { number, ..head };
        let file = is_writable.then_some(file);
        Ok(Self { file: JournalFile::new(folder, file, head, (end, live_bytes)), live, note })
    }

    /// Writes the good part into a new journal, and keeps the damaged one next to it.
    fn recover(
        folder: Arc<StateFolder>,
        path: PathBuf,
        mut damaged: File,
        survey: Survey,
    ) -> Result<Self, JournalError> {
        damaged.rewind().map_err(failed(&path))?;
        let Survey { number, live, damage, .. } = survey;
        // Another history: an old version must name nothing of it.
        let head = JournalHead { epoch: random_epoch(), number, records: live.len() as u64 };
        let records = live_records(damaged, live);
        let snapshot = JournalSnapshot::write(&folder, head, records).map_err(failed(&path))?;
        let kept = keep_damaged(&path).map_err(failed(&path))?;
        snapshot.publish(&folder).and_then(|()| folder.sync()).map_err(failed(&path))?;
        let recovered = Self::open_in(folder, OnDamage::Refuse)?;
        let note = RecoveredJournal { path, kept, damage, overrides: head.records };
        Ok(Self { note: Some(OpeningNote::Recovered(note)), ..recovered })
    }

    /// Logs what was found, unless it is as usual.
    pub(crate) fn log(&self) {
        self.note.iter().for_each(OpeningNote::log);
    }

    /// Returns the journal, and its records, which are still to be read.
    pub(crate) fn into_records(
        self,
    ) -> io::Result<(JournalFile, impl Iterator<Item = io::Result<JournalRecord>>)> {
        let reader = self.file.reader()?;
        Ok((self.file, live_records(reader, self.live)))
    }
}

/// Reads the overrides in this folder one after another, and returns their version. Nothing is locked or changed, so a process may use the folder
/// meanwhile: what it is writing is left out.
///
/// # Errors
///
/// If there is no journal, or if it is damaged.
pub(crate) fn read(
    path: &Path,
    mut read: impl FnMut(OverrideRecord),
) -> Result<OverridesVersion, JournalError> {
    let path = path.join(JOURNAL);
    let file = File::open(&path).map_err(failed(&path))?;
    let survey = Survey::of(&file).map_err(failed(&path))?;
    if let Some(form) = survey.foreign_form() {
        return Err(JournalError::Form { path, form });
    }
    let head = match (survey.head, survey.damage.split_first()) {
        (_, Some((first, further))) => {
            return Err(JournalError::Damaged { path, first: first.clone(), further: further.len() });
        }
        // Without a head, there is damage.
        (None, None) => return Err(failed(&path)(io::ErrorKind::InvalidData.into())),
        (Some(head), None) => head,
    };
    (&file).rewind().map_err(failed(&path))?;
    for record in live_records(file, survey.live) {
        let record = record.and_then(|record| record.into_record().map_err(io::Error::other));
        read(record.map_err(failed(&path))?);
    }
    Ok(OverridesVersion { epoch: head.epoch, number: survey.number })
}

/// Opens the journal, and says whether it can be written; it cannot if its disk is read-only.
fn open_to_write(folder: &StateFolder) -> Result<Option<(File, bool)>, StateFolderError> {
    match folder.open_file(JOURNAL, OpenOptions::new().read(true).write(true)) {
        Err(error) if folder::is_read_only(&error) => {
            let file = folder.open_file(JOURNAL, OpenOptions::new().read(true))?;
            Ok(file.map(|file| (file, false)))
        }
        file => Ok(file?.map(|file| (file, true))),
    }
}

/// Gives the damaged journal a second name, and returns it.
fn keep_damaged(path: &Path) -> io::Result<PathBuf> {
    for number in 1_u32.. {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".damaged.{number}"));
        match fs::hard_link(path, &name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            linked => return linked.map(|()| name.into()),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// Returns the records of the lines at these offsets, which are sorted.
fn live_records(file: File, live: Vec<u64>) -> impl Iterator<Item = io::Result<JournalRecord>> {
    let mut lines = JournalLines::new(BufReader::with_capacity(CHUNK, file));
    live.into_iter().map(move |offset| record_at(&mut lines, offset))
}

fn record_at(lines: &mut JournalLines<impl io::BufRead>, offset: u64) -> io::Result<JournalRecord> {
    while let Some(line) = lines.next()? {
        if line.offset != offset {
            continue;
        }
        let LineContent::Whole(bytes) = line.content else { break };
        let json = line::read(bytes).map(|(_, json)| json).map_err(io::Error::other)?;
        match JournalChange::parse(json).map_err(io::Error::other)? {
            JournalChange::Set(record) => return Ok(record),
            JournalChange::Delete { .. } => break,
        }
    }
    // Something has written it in spite of the lock.
    Err(io::Error::other("the file has changed while it was read"))
}

fn random_epoch() -> u64 {
    fastrand::u64(1..)
}

fn failed(path: &Path) -> impl Fn(io::Error) -> JournalError {
    let failed = folder::failed(path);
    move |error| JournalError::Folder(failed(error))
}
