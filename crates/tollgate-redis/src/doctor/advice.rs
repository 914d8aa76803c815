//! Advice for a server that cannot be reached, or that has another problem.

use std::borrow::Cow;
use std::fmt;

use super::server::{MORE_RIGHTS, RIGHTS};
use crate::trouble::{Hint, Refusal, Trouble, Unconnected};

/// Advice about a store, for the operator of the program that uses it.
///
/// Its text mentions the store and its URL. A program with flags or variables for other settings can name them by
/// [`setting`](Self::setting).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    text: Cow<'static, str>,
    setting: Option<Setting>,
}

/// A setting of [`RedisStoreBuilder`](crate::RedisStoreBuilder) that advice can refer to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Setting {
    /// User and password of the servers.
    Login,
    /// User and password of the Sentinels.
    SentinelLogin,
    /// Certificates of TLS.
    Tls,
    /// The deadline of a decision.
    Deadline,
}

impl Advice {
    pub(super) const fn about(setting: Setting, text: &'static str) -> Self {
        Self { text: Cow::Borrowed(text), setting: Some(setting) }
    }

    const fn new(text: &'static str) -> Self {
        Self { text: Cow::Borrowed(text), setting: None }
    }

    /// Returns the setting that probably needs a change, if any.
    #[must_use]
    pub const fn setting(&self) -> Option<Setting> {
        self.setting
    }
}

/// A line for people.
impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<&'static str> for Advice {
    fn from(text: &'static str) -> Self {
        Self::new(text)
    }
}

impl From<String> for Advice {
    fn from(text: String) -> Self {
        Self { text: text.into(), setting: None }
    }
}

pub(super) fn on(trouble: &Trouble) -> Advice {
    match trouble {
        Trouble::Unconnected(unconnected) => on_unconnected(unconnected),
        Trouble::Refused(refusal) => on_refusal(refusal),
        Trouble::Stopped(_) | Trouble::BadReply => {
            Advice::new("make sure that it is Redis 7.0 or Valkey 7.2, or newer")
        }
        Trouble::Late | Trouble::TimedOut | Trouble::Cut => SILENT,
        Trouble::TooSlow => NEARER,
    }
}

/// For a server that answers too late.
pub(crate) const NEARER: Advice = Advice::about(
    Setting::Deadline,
    "move the process nearer to its store, or allow more time for a decision",
);

const SILENT: Advice = Advice::new("check whether it hangs, or the network drops packets");
const LOGIN: Advice =
    Advice::about(Setting::Login, "check the user and the password, in the URL or in a separate setting");
const SENTINEL_LOGIN: Advice = Advice::about(
    Setting::SentinelLogin,
    "Sentinels have their own login, which is not in the URL: check their user and password",
);

pub(crate) fn on_unconnected(trouble: &Unconnected) -> Advice {
    match trouble {
        Unconnected::UnknownHost => {
            Advice::new("check the host in the URL, and whether this machine can resolve it")
        }
        Unconnected::Io(_) => Advice::new(
            "check the host and port or the socket in the URL, and whether the server is running and listens there",
        ),
        Unconnected::TimedOut | Unconnected::HungUp => Advice::new(
            "check the host and port, firewalls, and TLS: use rediss:// for a server with TLS, redis:// for one without",
        ),
        Unconnected::Tls(_) => Advice::about(
            Setting::Tls,
            "configure the certificate that signed the server's (or the server's own), and use a host name in the \
             server's certificate",
        ),
        Unconnected::WrongPassword | Unconnected::PasswordWanted => LOGIN,
        Unconnected::OfOldCredentials { trouble, .. } => on_unconnected(trouble),
        Unconnected::NoRight(_) | Unconnected::MissingRights(_) => on_rights(),
        Unconnected::TooOld { .. } => Advice::new("run a newer one"),
        Unconnected::Unfit(_) => {
            Advice::new("make sure that the URL names the intended server, topology and database")
        }
        Unconnected::Replica => Advice::new(
            "name the primary, or let Sentinels or the Cluster name it: redis+sentinel://, redis+cluster://",
        ),
        Unconnected::NotReady(refusal) => on_refusal(refusal),
        Unconnected::NoPrimary => {
            Advice::new("check the primary's name in the URL, and run SENTINEL MASTERS on the Sentinels")
        }
        Unconnected::OfSentinel(_, trouble) => on_sentinel(trouble),
        Unconnected::SlotUnserved => Advice::new("run `redis-cli --cluster check`"),
        Unconnected::Silent | Unconnected::Untried => SILENT,
    }
}

fn on_sentinel(trouble: &Unconnected) -> Advice {
    match trouble {
        Unconnected::WrongPassword | Unconnected::PasswordWanted => SENTINEL_LOGIN,
        Unconnected::OfOldCredentials { trouble, .. } => on_sentinel(trouble),
        Unconnected::NoRight(_) => {
            Advice::new("allow the user of the Sentinels +hello and +sentinel|get-master-addr-by-name")
        }
        trouble => on_unconnected(trouble),
    }
}

/// For a command that was not answered: this right, only if the server says that it is missing.
pub(super) fn on_no_answer(error: &str, right: &'static str) -> Advice {
    if error.contains("NOPERM") {
        Advice::new(right)
    } else if error.starts_with("it says") {
        Advice::new("see the server's log")
    } else {
        SILENT
    }
}

pub(super) fn on_rights() -> Advice {
    format!(
        "give the user the rights that counting needs, on the keys of the store's prefix or layout: {RIGHTS}; {MORE_RIGHTS}"
    )
    .into()
}

/// The server's text about a script that it stopped is not shown, because it may contain a key. It probably names a
/// missing right.
pub(super) fn on_refused_script() -> Advice {
    let rights = on_rights();
    format!(
        "see the lines above; if a right is missing, {rights}; with +acl|whoami and +acl|dryrun, `rights` names it"
    )
    .into()
}

fn on_refusal(refusal: &Refusal) -> Advice {
    match refusal.meaning().advice {
        Hint::Do(text) => text.into(),
        Hint::CheckLogin => LOGIN,
        Hint::GiveRights => on_rights(),
    }
}
