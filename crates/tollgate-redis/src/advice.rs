//! Advice for operators.

use std::borrow::Cow;
use std::fmt;

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
    pub(crate) const fn about(setting: Setting, text: &'static str) -> Self {
        Self { text: Cow::Borrowed(text), setting: Some(setting) }
    }

    pub(crate) const fn new(text: &'static str) -> Self {
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

/// For a server that answers too late.
pub(crate) const NEARER: Advice = Advice::about(
    Setting::Deadline,
    "move the process nearer to its store, or allow more time for a decision",
);
