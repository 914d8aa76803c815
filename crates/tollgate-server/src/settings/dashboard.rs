//! The live page.

use super::SettingsError;
use crate::args::{DashboardArgs, DashboardChoice, TalkersChoice};
use crate::observe::public_url::PublicUrl;
use crate::talkers::{TalkerNames, TalkerSecret, TalkersSettings};

/// The settings of the live page, if there is one.
#[derive(Debug)]
pub(crate) struct DashboardSettings {
    /// Where operators reach the page, for links in log lines.
    pub(crate) public_url: Option<PublicUrl>,
    /// `None` if none are counted.
    pub(crate) talkers: Option<TalkersSettings>,
}

impl DashboardSettings {
    /// Resolves the flags.
    ///
    /// # Errors
    ///
    /// If keys would be shown where callers are not asked who they are, a flag would have no effect, or the secret cannot
    /// be read.
    pub(super) fn new(args: &DashboardArgs, asks_principals: bool) -> Result<Option<Self>, SettingsError> {
        match args.dashboard {
            DashboardChoice::On => {
                let public_url = args.public_url.clone();
                Ok(Some(Self { public_url, talkers: talkers(args, asks_principals)? }))
            }
            DashboardChoice::Off if args.public_url.is_some() => Err(SettingsError::NeedlessPublicUrl),
            DashboardChoice::Off if args.talkers == TalkersChoice::Plain || args.talkers_secret.is_some() => {
                Err(SettingsError::NeedlessTalkers)
            }
            DashboardChoice::Off => Ok(None),
        }
    }
}

fn talkers(args: &DashboardArgs, asks_principals: bool) -> Result<Option<TalkersSettings>, SettingsError> {
    let names = match args.talkers {
        TalkersChoice::Off if args.talkers_secret.is_some() => {
            return Err(SettingsError::NeedlessTalkersSecret);
        }
        TalkersChoice::Off => return Ok(None),
        TalkersChoice::Plain if !asks_principals => return Err(SettingsError::PlainTalkersForAll),
        TalkersChoice::Plain => TalkerNames::Plain,
        TalkersChoice::Hashed => TalkerNames::Hashed,
    };
    let secret = args.talkers_secret.as_deref().map(TalkerSecret::from_file);
    Ok(Some(TalkersSettings { names, secret: secret.transpose().map_err(SettingsError::TalkersSecret)? }))
}
