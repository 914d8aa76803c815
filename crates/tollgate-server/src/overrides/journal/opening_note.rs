//! What the log says of a journal that was opened.

use std::path::PathBuf;

use tracing::{info, warn};

use super::error::JournalDamage;

/// How many damaged places the log names.
const NAMED: usize = 20;

/// Something unusual about a journal that was opened.
#[derive(Debug)]
pub(super) enum OpeningNote {
    /// There was none.
    New { path: PathBuf },
    /// Its last write was cut short.
    Torn { path: PathBuf, end: u64, bytes: u64 },
    /// It was damaged.
    Recovered(RecoveredJournal),
    /// It was to be recovered, but is not damaged.
    Undamaged { path: PathBuf },
    /// It cannot be changed.
    ReadOnly { path: PathBuf },
}

/// The good part of a damaged journal.
#[derive(Debug)]
pub(super) struct RecoveredJournal {
    pub(super) path: PathBuf,
    /// The damaged file.
    pub(super) kept: PathBuf,
    pub(super) damage: Vec<JournalDamage>,
    /// How many there are in the good part.
    pub(super) overrides: u64,
}

impl OpeningNote {
    pub(super) fn log(&self) {
        match self {
            Self::New { path } => info!(file = %path.display(), "no overrides yet: the file is new"),
            Self::Torn { path, end, bytes } => warn!(
                file = %path.display(), offset = end, bytes,
                "the last change of the overrides was cut short and never answered: it is left out"
            ),
            Self::Recovered(recovered) => recovered.log(),
            Self::Undamaged { path } => {
                warn!(file = %path.display(), "the overrides are not damaged: leave out `--recover`");
            }
            Self::ReadOnly { path } => {
                warn!(file = %path.display(), "the disk is read-only: overrides cannot be changed");
            }
        }
    }
}

impl RecoveredJournal {
    fn log(&self) {
        let kept = self.kept.display();
        for damage in self.damage.iter().take(NAMED) {
            warn!(file = %kept, "damaged: {damage}");
        }
        warn!(
            file = %self.path.display(), damaged = %kept, places = self.damage.len(), overrides = self.overrides,
            "the overrides were damaged, and those that can be read are live; a damaged line may have set or deleted \
             another: check the list of overrides, and leave out `--recover` at the next start"
        );
    }
}
