//! What a store or a journal keeps of an override, next to its name, its version and its end: one JSON object.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, IntoDeserializer as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use tollgate::Timestamp;
use tollgate_policy::{OverrideLimits, OverrideName, OverrideRecord};
use tollgate_redis::Record;

/// The text of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecordText<T = Box<str>> {
    /// The key of the policy, when the override was set.
    pub(crate) key: T,
    pub(crate) limits: LimitsText<T>,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<T>,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<T>,
    /// The principal who made the change.
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<T>,
    /// When, in Unix milliseconds of the process that made the change.
    pub(crate) at: i64,
}

/// Limits as they are written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub(crate) enum LimitsText<T = Box<str>> {
    List(Box<[T]>),
    Word(LimitsWord),
}

/// A text that is checked and not kept.
#[derive(Debug)]
pub(crate) struct CheckedText;

/// Limits without a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LimitsWord {
    Unlimited,
    Denied,
}

/// What a text that is not understood may still say.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct LegibleText {
    key: Box<str>,
    label: Option<Box<str>>,
    note: Option<Box<str>>,
    by: Option<Box<str>>,
    at: i64,
}

/// Without a bound on the type, which `Default` would have.
pub(super) const fn none<T>() -> Option<T> {
    None
}

/// By hand: what serde derives for either of two forms keeps a copy of each text.
impl<'de, T: Deserialize<'de>> Deserialize<'de> for LimitsText<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(LimitsVisitor(PhantomData))
    }
}

struct LimitsVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for LimitsVisitor<T> {
    type Value = LimitsText<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of limits, `unlimited` or `denied`")
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<LimitsText<T>, E> {
        LimitsWord::deserialize(word.into_deserializer()).map(LimitsText::Word)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<LimitsText<T>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list)).map(|list| LimitsText::List(list.into()))
    }
}

impl<'de> Deserialize<'de> for CheckedText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Self)
    }
}

impl Visitor<'_> for CheckedText {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }
}

impl RecordText {
    /// Returns the text of an override.
    pub(crate) fn of(record: &OverrideRecord) -> Self {
        Self {
            key: record.key.clone(),
            limits: match &record.limits {
                OverrideLimits::Limits(limits) => LimitsText::List(limits.clone()),
                OverrideLimits::Unlimited => LimitsText::Word(LimitsWord::Unlimited),
                OverrideLimits::Denied => LimitsText::Word(LimitsWord::Denied),
                // Nobody sets one, and whoever reads one leaves it where it is.
                OverrideLimits::Unreadable(_) => LimitsText::List(Box::default()),
            },
            label: record.label.as_deref().map(Into::into),
            note: record.note.clone(),
            by: record.by.as_deref().map(Into::into),
            at: record.at.as_unix_millis(),
        }
    }

    pub(crate) fn to_json(&self) -> String {
        // Strings and numbers can always be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the override with this text, name, version and end.
    pub(crate) fn into_record(
        self,
        name: OverrideName,
        version: u64,
        until: Option<Timestamp>,
    ) -> OverrideRecord {
        let Self { key, limits, label, note, by, at } = self;
        OverrideRecord {
            name,
            key,
            limits: match limits {
                LimitsText::List(limits) => OverrideLimits::Limits(limits),
                LimitsText::Word(LimitsWord::Unlimited) => OverrideLimits::Unlimited,
                LimitsText::Word(LimitsWord::Denied) => OverrideLimits::Denied,
            },
            until,
            label: label.map(Into::into),
            note,
            by: by.map(Into::into),
            at: Timestamp::from_unix_millis(at),
            version,
        }
    }
}

/// Returns the override of a record in a store. A text that this version does not understand, such as one of a later
/// version, makes the override inert: it must not apply as something else, and it is not lost.
///
/// # Errors
///
/// If its name is not that of an override.
pub(crate) fn read_record(record: Record) -> Result<OverrideRecord, UnknownName> {
    let Record { name, version, until, text } = record;
    let Ok(name) = name.parse::<OverrideName>() else { return Err(UnknownName(name)) };
    let error = match serde_json::from_str::<RecordText>(&text) {
        Ok(text) => return Ok(text.into_record(name, version, until)),
        Err(error) => error,
    };
    let LegibleText { key, label, note, by, at } = serde_json::from_str(&text).unwrap_or_default();
    let limits = LimitsText::List(Box::default());
    let record = RecordText { key, limits, label, note, by, at }.into_record(name, version, until);
    Ok(OverrideRecord { limits: OverrideLimits::Unreadable(error.to_string().into()), ..record })
}

/// A record in the store that is no override.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnknownName(pub(crate) Box<str>);

#[cfg(test)]
mod tests {
    use super::*;

    fn record(text: &str) -> Record {
        let until = Some(Timestamp::from_unix_millis(7));
        Record { name: "search:tenant=acme".into(), version: 3, until, text: text.into() }
    }

    #[test]
    fn an_override_reads_back() {
        for limits in [
            OverrideLimits::of(["500/1m", "20~in_flight"]),
            OverrideLimits::Unlimited,
            OverrideLimits::Denied,
        ] {
            let written = OverrideRecord {
                name: "search:tenant=acme".parse().unwrap(),
                key: "[user]".into(),
                limits,
                until: Some(Timestamp::from_unix_millis(7)),
                label: Some("plan".into()),
                note: Some("\"line\n\u{0}".into()),
                by: Some("billing".into()),
                at: Timestamp::from_unix_millis(5),
                version: 3,
            };
            let json = RecordText::of(&written).to_json();
            assert!(!json.contains(['\n', '\0']), "{json}");
            assert_eq!(read_record(record(&json)), Ok(written));
        }
    }

    #[test]
    fn what_is_not_understood_is_inert_and_keeps_its_label() {
        for text in [
            r#"{"key":"[user]","limits":["5/1m"],"label":"plan","at":5,"weight":2}"#,
            r#"{"key":"[user]","limits":"doubled","label":"plan","at":5}"#,
            r#"{"key":"[user]","label":"plan","at":5}"#,
        ] {
            let read = read_record(record(text)).unwrap();
            assert!(matches!(read.limits, OverrideLimits::Unreadable(_)), "{text}");
            assert_eq!((read.label.as_deref(), &*read.key, read.version), (Some("plan"), "[user]", 3));
        }
        for text in ["", "5", "{", "[]"] {
            let read = read_record(record(text)).unwrap();
            assert!(matches!(read.limits, OverrideLimits::Unreadable(_)), "{text}");
        }
        let foreign = Record { name: "no override".into(), ..record("{}") };
        assert_eq!(read_record(foreign), Err(UnknownName("no override".into())));
    }
}
