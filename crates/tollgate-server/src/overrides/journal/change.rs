//! The changes that the journal lists, and its first line.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use tollgate::Timestamp;
use tollgate_policy::{OverrideNameError, OverrideRecord};

use super::error::DamageReason;
use super::line::FORM;
use crate::overrides::text::{CheckedText, RecordText, none};

/// The first line of a journal: the state that its next lines give.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JournalHead {
    /// Distinguishes this history of changes from others.
    pub(super) epoch: u64,
    /// The number of the last change before this journal was written.
    pub(super) number: u64,
    /// How many of the next lines are the records of then.
    pub(super) records: u64,
}

/// An override as the journal has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JournalRecord {
    pub(crate) name: Box<str>,
    /// The number of the change that wrote it.
    pub(crate) version: u64,
    pub(crate) until: Option<Timestamp>,
    pub(crate) text: RecordText,
}

/// A line after the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JournalChange {
    Set(JournalRecord),
    Delete { name: Box<str>, version: u64 },
}

/// The part of the first line that every version of the format has.
#[derive(Deserialize)]
struct FormText {
    tollgate_overrides: u32,
}

/// The first line, as JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct HeadText<'a> {
    tollgate_overrides: u32,
    epoch: &'a str,
    number: u64,
    records: u64,
}

/// Another line, as JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChangeText<Name, Text> {
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    set: Option<Name>,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    delete: Option<Name>,
    version: u64,
    #[serde(default = "none", skip_serializing_if = "Option::is_none")]
    until: Option<i64>,
    #[serde(default = "none", rename = "override", skip_serializing_if = "Option::is_none")]
    text: Option<Text>,
}

/// A name as it is in a line.
#[derive(Deserialize)]
struct NameText<'a>(#[serde(borrow)] Cow<'a, str>);

/// What a line changes, without what it sets.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ChangeMark<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) version: u64,
    pub(super) is_set: bool,
}

impl JournalHead {
    pub(super) fn to_json(self) -> String {
        let epoch = format!("{:016x}", self.epoch);
        let (number, records) = (self.number, self.records);
        json(&HeadText { tollgate_overrides: FORM, epoch: &epoch, number, records })
    }

    pub(super) fn parse(json: &[u8]) -> Result<Self, DamageReason> {
        let FormText { tollgate_overrides: form } = serde_json::from_slice(json).map_err(content)?;
        if form != FORM {
            return Err(DamageReason::Form(form));
        }
        let HeadText { epoch, number, records, .. } = serde_json::from_slice(json).map_err(content)?;
        let epoch = u64::from_str_radix(epoch, 16).map_err(content)?;
        Ok(Self { epoch, number, records })
    }
}

impl JournalChange {
    pub(super) fn to_json(&self) -> String {
        match self {
            Self::Set(record) => record.to_json(),
            Self::Delete { name, version } => json(&ChangeText::<&str, &RecordText> {
                set: None,
                delete: Some(name),
                version: *version,
                until: None,
                text: None,
            }),
        }
    }

    pub(super) fn parse(json: &[u8]) -> Result<Self, DamageReason> {
        match ChangeText::<Box<str>, RecordText>::read(json)? {
            ChangeText { set: Some(name), version, until, text: Some(text), .. } => {
                let until = until.map(Timestamp::from_unix_millis);
                Ok(Self::Set(JournalRecord { name, version, until, text }))
            }
            ChangeText { delete: Some(name), version, .. } => Ok(Self::Delete { name, version }),
            _ => Err(neither()),
        }
    }
}

impl<'a> ChangeMark<'a> {
    /// Reads a line as [`JournalChange::parse`] does, in less time.
    pub(super) fn parse(json: &'a [u8]) -> Result<Self, DamageReason> {
        let change = ChangeText::<NameText<'_>, RecordText<CheckedText>>::read(json)?;
        let ChangeText { set, delete, version, .. } = change;
        let is_set = set.is_some();
        let NameText(name) = set.or(delete).ok_or_else(neither)?;
        Ok(Self { name, version, is_set })
    }
}

impl<'a, Name: Deserialize<'a>, Text: Deserialize<'a>> ChangeText<Name, Text> {
    fn read(json: &'a [u8]) -> Result<Self, DamageReason> {
        let change: Self = serde_json::from_slice(json).map_err(content)?;
        match &change {
            Self { set: Some(_), delete: None, text: Some(_), .. }
            | Self { set: None, delete: Some(_), until: None, text: None, .. } => Ok(change),
            _ => Err(neither()),
        }
    }
}

impl JournalRecord {
    pub(crate) fn of(record: &OverrideRecord) -> Self {
        let (version, until) = (record.version, record.until);
        Self { name: record.name.to_string().into(), version, until, text: RecordText::of(record) }
    }

    /// # Errors
    ///
    /// If the name is none of an override.
    pub(crate) fn into_record(self) -> Result<OverrideRecord, OverrideNameError> {
        let Self { name, version, until, text } = self;
        Ok(text.into_record(name.parse()?, version, until))
    }

    pub(super) fn to_json(&self) -> String {
        json(&ChangeText {
            set: Some(&*self.name),
            delete: None,
            version: self.version,
            until: self.until.map(Timestamp::as_unix_millis),
            text: Some(&self.text),
        })
    }
}

/// Strings and numbers can always be written.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn content(error: impl ToString) -> DamageReason {
    DamageReason::Content(error.to_string().into())
}

fn neither() -> DamageReason {
    content("it is neither a set nor a delete")
}
