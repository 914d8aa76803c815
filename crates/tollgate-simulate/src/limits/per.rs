//! What few of are denied: clients, or clients on each day.

use std::str::FromStr;

use serde::Serialize;

/// What the budget is a share of.
///
/// ```
/// use tollgate_simulate::suggest::Per;
///
/// assert_eq!("client-day".parse(), Ok(Per::ClientDay));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Per {
    /// Clients: few of them are ever denied in the period.
    #[default]
    Client,
    /// Clients on each day on which they ask for something: few of them are denied on a day. Days are those of the
    /// zone.
    ClientDay,
}

impl Per {
    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::ClientDay => "client-day",
        }
    }
}

/// `client` or `client-day`.
impl FromStr for Per {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let all = [Self::Client, Self::ClientDay];
        all.into_iter().find(|per| per.words() == text).ok_or("expected client or client-day")
    }
}
