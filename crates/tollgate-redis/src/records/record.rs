//! One record, and its form in the store.

use tollgate::{StoreError, Timestamp};

use crate::time::server_time;

/// A record, as a change wrote it. It is kept after its end, until it is [swept](super::SharedRecords::sweep).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its name.
    pub name: Box<str>,
    /// The number of the change that wrote it.
    pub version: u64,
    /// Its end by the store's time, if it has one. Only its readers heed it.
    pub until: Option<Timestamp>,
    /// Its text.
    pub text: Box<str>,
}

/// When a record ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordEnd {
    /// Never.
    Never,
    /// At this time.
    At(Timestamp),
    /// So long after the store's time of the change, in whole milliseconds that are rounded up; at most 100 years.
    After(std::time::Duration),
}

/// The longest name in bytes, and the longest text. A page of changes or of records is one reply, which has a bound.
pub(super) const LONGEST_NAME: usize = 4 << 10;
pub(super) const LONGEST_TEXT: usize = 8 << 10;

/// Refuses names and texts that no record has.
pub(super) fn check(name: &str, text: &str) -> Result<(), StoreError> {
    match (name.len(), text.len()) {
        (1..=LONGEST_NAME, ..=LONGEST_TEXT) => Ok(()),
        (0, _) => Err(StoreError::Uncountable("a record needs a name")),
        (1..=LONGEST_NAME, _) => Err(StoreError::Uncountable("the text of a record is longer than 8 KiB")),
        _ => Err(StoreError::Uncountable("the name of a record is longer than 4 KiB")),
    }
}

/// A value of the hash of records: `NUMBER END TEXT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoredRecord<'a> {
    pub(super) version: u64,
    pub(super) until: Option<Timestamp>,
    pub(super) text: &'a str,
}

impl<'a> StoredRecord<'a> {
    /// `None` if no change has written this.
    pub(super) fn read(value: &'a str) -> Option<Self> {
        let (version, rest) = value.split_once(' ')?;
        let (until, text) = rest.split_once(' ')?;
        let version = number(version).filter(|version| *version > 0)?;
        Some(Self { version, until: end(until)?, text })
    }

    pub(super) fn named(self, name: &str) -> Record {
        Record { name: name.into(), version: self.version, until: self.until, text: self.text.into() }
    }
}

/// Reads a number as the script writes it: digits alone.
pub(super) fn number(digits: &str) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { digits.parse().ok() } else { None }
}

/// Reads an end as the script writes it.
#[expect(clippy::option_option, reason = "an end that is none, and a text that is no end")]
pub(super) fn end(text: &str) -> Option<Option<Timestamp>> {
    if text == "-" {
        return Some(None);
    }
    let millis = i64::try_from(number(text)?).ok()?;
    server_time(millis).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_as_the_script_writes_it() {
        let until = Some(Timestamp::from_unix_millis(1_700_000_000_000));
        for (value, version, end, text) in [
            ("17 - {\"a\": 1}", 17, None, "{\"a\": 1}"),
            ("1 1700000000000 ", 1, until, ""),
            ("1 - - x", 1, None, "- x"),
        ] {
            let expected = StoredRecord { version, until: end, text };
            assert_eq!(StoredRecord::read(value), Some(expected), "{value}");
        }
    }

    #[test]
    fn any_other_value_is_none() {
        for value in [
            "",
            "17",
            "17 -",
            "0 - x",
            "-1 - x",
            "+1 - x",
            "x - y",
            "1 x y",
            "1 +5 y",
            " 1 - x",
            "1  - x",
            "99999999999999999999 - x",
            "1 99999999999999999 x",
        ] {
            assert_eq!(StoredRecord::read(value), None, "{value}");
        }
    }
}
