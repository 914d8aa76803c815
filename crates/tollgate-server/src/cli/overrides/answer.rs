//! Overrides as the command reads them from answers, and prints them for people.

use std::fmt::{self, Write as _};

use jiff::Timestamp;
use serde::Deserialize;
use tollgate::{Clock, SystemClock};
use tollgate_policy::Printable;

use crate::cli::time_span;

/// The printed part of an override.
#[derive(Deserialize)]
pub(super) struct ShownOverride {
    pub(super) id: String,
    key: String,
    target: ShownTarget,
    quotas: ShownLimits,
    until: Option<String>,
    pub(super) label: Option<String>,
    note: Option<String>,
    by: Option<String>,
    changed: Option<String>,
    pub(super) version: String,
    state: ShownState,
    reason: Option<String>,
}

#[derive(Deserialize)]
struct ShownTarget {
    attribute: Option<String>,
    is: Option<String>,
    prefix: Option<String>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ShownLimits {
    Word(String),
    Quotas(Vec<String>),
}

#[derive(Deserialize, PartialEq, Eq, Clone, Copy)]
#[serde(rename_all = "lowercase")]
enum ShownState {
    Active,
    Ended,
    Inert,
}

impl ShownOverride {
    /// Returns the limits: `500/1m, 20~in_flight`, `unlimited` or `denied`.
    pub(super) fn limits(&self) -> String {
        match &self.quotas {
            ShownLimits::Word(word) => Printable(word).to_string(),
            ShownLimits::Quotas(quotas) => Printable(quotas.join(", ")).to_string(),
        }
    }

    /// Returns when it ends, and how far away that is by the clock of this machine. The store's decides.
    pub(super) fn until(&self) -> Option<String> {
        let until = self.until.as_deref()?;
        let Ok(time) = until.parse::<Timestamp>() else { return Some(Printable(until).to_string()) };
        let left = time.as_millisecond().saturating_sub(SystemClock.now().as_unix_millis());
        let length = time_span::readable(left.unsigned_abs());
        Some(match self.state {
            _ if left > 0 => format!("{time} (in {length})"),
            ShownState::Ended => format!("{time} ({length} ago)"),
            _ => format!("{time} (now)"),
        })
    }

    /// Returns why it has no effect, if it has none.
    pub(super) fn trouble(&self) -> Option<String> {
        match (self.state, &self.reason) {
            (ShownState::Active, _) => None,
            (ShownState::Ended, _) => Some("it has ended".to_owned()),
            (ShownState::Inert, Some(reason)) => Some(Printable(reason).to_string()),
            (ShownState::Inert, None) => Some("it is inert".to_owned()),
        }
    }

    fn target(&self) -> String {
        let ShownTarget { attribute, is, prefix } = &self.target;
        let attribute = attribute.as_deref().unwrap_or_default();
        let target = match (is, prefix) {
            (Some(text), _) => format!("requests in which `{attribute}` is `{text}`"),
            (_, Some(text)) => format!("requests in which `{attribute}` begins with `{text}`"),
            _ => format!("one key, by `{}`", self.key),
        };
        Printable(target).to_string()
    }
}

/// Prints the id, and then a line for each of its parts.
impl fmt::Display for ShownOverride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changed = self.changed.as_ref().map(|time| match &self.by {
            Some(by) => format!("{} by {}", Printable(time), Printable(by)),
            None => Printable(time).to_string(),
        });
        let printable = |text: &Option<String>| text.as_ref().map(|text| Printable(text).to_string());
        let lines = [
            ("for", Some(self.target())),
            ("limits", Some(self.limits())),
            ("until", Some(self.until().unwrap_or_else(|| "no end".to_owned()))),
            ("label", printable(&self.label)),
            ("note", printable(&self.note)),
            ("changed", changed),
            ("version", Some(Printable(&self.version).to_string())),
            ("no effect", self.trouble()),
        ];
        f.write_str(&Printable(&self.id).to_string())?;
        for (name, value) in lines {
            if let Some(value) = value {
                write!(f, "\n  {name:<9}  {value}")?;
            }
        }
        f.write_char('\n')
    }
}
