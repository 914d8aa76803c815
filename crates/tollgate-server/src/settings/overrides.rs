//! What keeps the overrides, and how many there may be.

use super::SettingsError;
use crate::args::OverrideArgs;
use crate::overrides::{DEFAULT_MAX, OnDamage, OpenJournal};

/// The settings of overrides.
#[derive(Debug)]
pub(crate) struct OverrideSettings {
    pub(crate) keeping: OverridesKeeping,
    pub(crate) max: u32,
}

/// What keeps overrides.
#[derive(Debug)]
pub(crate) enum OverridesKeeping {
    /// Nothing: there are none.
    Off,
    /// Nothing: counters are in memory, and no folder is given.
    Nothing,
    Journal(Box<OpenJournal>),
    Store,
}

impl OverrideSettings {
    /// Those of a service whose domains decide.
    pub(super) const fn none() -> Self {
        Self { keeping: OverridesKeeping::Off, max: 0 }
    }

    /// Resolves the flags. Opens the folder, if one is given.
    ///
    /// # Errors
    ///
    /// If a flag would have no effect, or if the folder cannot be used.
    pub(super) fn new(args: &OverrideArgs, has_store: bool) -> Result<Self, SettingsError> {
        let OverrideArgs { state_dir, recover, max_overrides } = args;
        let max = max_overrides.unwrap_or(DEFAULT_MAX);
        let keeping = match state_dir {
            Some(_) if has_store => return Err(SettingsError::StateDirOfStore),
            Some(_) if max == 0 => return Err(SettingsError::StateDirWithoutOverrides),
            Some(folder) => {
                let on_damage = if *recover { OnDamage::Recover } else { OnDamage::Refuse };
                OverridesKeeping::Journal(OpenJournal::open(folder, on_damage)?.into())
            }
            None if max == 0 => OverridesKeeping::Off,
            None if has_store => OverridesKeeping::Store,
            None if max_overrides.is_some() => return Err(SettingsError::NeedlessMaxOverrides),
            None => OverridesKeeping::Nothing,
        };
        Ok(Self { keeping, max })
    }
}
