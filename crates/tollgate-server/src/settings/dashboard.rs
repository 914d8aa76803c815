//! The live page.

use super::SettingsError;
use crate::args::{DashboardArgs, DashboardChoice};
use crate::observe::public_url::PublicUrl;

/// The settings of the live page, if there is one.
#[derive(Debug)]
pub(crate) struct DashboardSettings {
    /// Where operators reach the page, for links in log lines.
    pub(crate) public_url: Option<PublicUrl>,
}

impl DashboardSettings {
    /// Resolves the flags.
    ///
    /// # Errors
    ///
    /// If a flag would have no effect.
    pub(super) fn new(args: &DashboardArgs) -> Result<Option<Self>, SettingsError> {
        let DashboardArgs { dashboard, public_url } = args;
        match dashboard {
            DashboardChoice::On => Ok(Some(Self { public_url: public_url.clone() })),
            DashboardChoice::Off if public_url.is_some() => Err(SettingsError::NeedlessPublicUrl),
            DashboardChoice::Off => Ok(None),
        }
    }
}
