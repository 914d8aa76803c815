//! Calls of the script of records, and its replies.

use tollgate::{StoreError, Timestamp};

use super::change::{RecordChange, RecordMatch};
use super::keys::RecordKeys;
use super::log::hexadecimal;
use super::record::RecordEnd;
use super::state::{ReadState, RecordsVersion};
use crate::calls::Calls;
use crate::error::RedisError;
use crate::resp::{Command, RespValue, command};
use crate::script::records::SHA1;
use crate::time::server_time;

/// How many changes the log keeps. A reader that is further behind reads all records again.
pub(super) const LOGGED: u64 = 16_384;

/// The most changes in one reply: what a second of the busiest times brings, and at their longest less than a reply may
/// have.
const PAGE: u64 = 512;

/// For how long a record is kept after its end, in milliseconds: the store's clock may step back a little, and a
/// process that has not read for a while may still apply it.
const KEPT: u64 = 10_000;

/// How many records one call of a sweep deletes: few enough to hold the server up for less than a millisecond.
pub(super) const SWEPT: u64 = 100;

/// The longest time after which a record may end, in milliseconds: 100 years.
const LONGEST: u128 = 100 * 365 * 86_400_000;

/// A reply of the script.
#[derive(Debug, PartialEq)]
pub(super) enum ScriptReply {
    /// The state, and the changes after the one that was known.
    Read {
        now: Timestamp,
        head: ReadState,
        count: u64,
        page: Vec<Vec<u8>>,
    },
    Made {
        now: Timestamp,
        version: RecordsVersion,
        until: Option<Timestamp>,
        existed: bool,
    },
    /// The value of the record, if it exists.
    Mismatch {
        version: RecordsVersion,
        current: Option<Vec<u8>>,
    },
    TooMany,
    EndPassed {
        now: Timestamp,
    },
    /// How many were deleted, and of how many that was considered.
    Swept {
        deleted: u64,
        considered: u64,
    },
    /// The key with this place holds something else.
    Damaged {
        place: i64,
    },
    /// The user lacks a right.
    NoRight,
}

/// A read of the state, and of a page of the changes after the known one.
pub(super) fn read(keys: &RecordKeys, known: Option<ReadState>) -> Calls {
    let RecordsVersion { epoch, number } = known.unwrap_or_default().version;
    let page = if known.is_some() { PAGE } else { 0 };
    let call = begin(keys, "read").arg(format!("{epoch:016x}")).arg(number.to_string());
    Calls::of(&call.arg(page.to_string()))
}

/// A change.
///
/// # Errors
///
/// If its end is further away than ends may be.
pub(super) fn change(
    keys: &RecordKeys,
    change: RecordChange<'_>,
    matching: RecordMatch,
    max_records: u64,
) -> Result<Calls, StoreError> {
    let operation = match change {
        RecordChange::Set { .. } => "set",
        RecordChange::Delete { .. } => "delete",
    };
    let call = with_tail(begin(keys, operation), matching, max_records).arg(change.name());
    let call = match change {
        RecordChange::Delete { .. } => call,
        RecordChange::Set { text, end, .. } => {
            let (kind, millis) = match end {
                RecordEnd::Never => ("never", 0),
                RecordEnd::At(time) => ("at", u128::try_from(time.as_unix_millis()).unwrap_or(0)),
                RecordEnd::After(length) => ("after", length.as_nanos().div_ceil(1_000_000)),
            };
            let is_far = match end {
                RecordEnd::At(time) => {
                    time.as_unix_millis() > 0 && server_time(time.as_unix_millis()).is_none()
                }
                _ => millis > LONGEST,
            };
            if is_far {
                return Err(StoreError::Uncountable("the end of a record is too far away"));
            }
            call.arg(text).arg(kind).arg(millis.to_string())
        }
    };
    Ok(Calls::of(&call))
}

/// A sweep.
pub(super) fn sweep(keys: &RecordKeys) -> Calls {
    let call = with_tail(begin(keys, "sweep"), RecordMatch::Any, 0);
    Calls::of(&call.arg(KEPT.to_string()).arg(SWEPT.to_string()))
}

fn begin(keys: &RecordKeys, operation: &str) -> Command {
    command("EVALSHA").arg(SHA1).arg(keys.all().len().to_string()).args(keys.all()).arg(operation)
}

/// What all changes have.
fn with_tail(call: Command, matching: RecordMatch, max_records: u64) -> Command {
    let call = call.arg(random()).arg(random()).arg(LOGGED.to_string()).arg(max_records.to_string());
    match matching {
        RecordMatch::Any => call.args(["any", "-", "-"]),
        RecordMatch::Absent => call.args(["absent", "-", "-"]),
        RecordMatch::Version { epoch, number } => {
            call.arg("version").arg(format!("{epoch:016x}")).arg(number.to_string())
        }
    }
}

/// An epoch or a mark. 0 is that of the empty state.
fn random() -> String {
    format!("{:016x}", fastrand::u64(1..))
}

impl ScriptReply {
    /// Reads a reply. All of it is checked: the server is not trusted.
    pub(super) fn read(reply: RespValue) -> Result<Self, StoreError> {
        let nonsense = || StoreError::from(RedisError::BadReply);
        let RespValue::Array(fields) = reply else { return Err(nonsense()) };
        Self::of_fields(&mut Fields(fields.into_iter())).ok_or_else(nonsense)
    }

    fn of_fields(fields: &mut Fields) -> Option<Self> {
        let outcome = fields.text()?;
        let reply = match &*outcome {
            "read" => {
                let (now, version) = (fields.time()?, fields.version()?);
                let (mark, count) = (hexadecimal(&fields.text()?)?, fields.number()?);
                let page = fields.texts()?;
                let head = ReadState { version, mark };
                let is_empty = head == ReadState::default() && count == 0;
                let is_written = version.epoch > 0 && version.number > 0 && mark > 0;
                (is_empty || is_written).then_some(Self::Read { now, head, count, page })?
            }
            "made" => {
                let (now, version) = (fields.time()?, fields.written_version()?);
                let until = super::record::end(&fields.text()?)?;
                Self::Made { now, version, until, existed: fields.flag()? }
            }
            "mismatch" => {
                fields.time()?;
                Self::Mismatch { version: fields.version()?, current: fields.bytes_or_nil()? }
            }
            "too many" => fields.time().map(|_| Self::TooMany)?,
            "end passed" => Self::EndPassed { now: fields.time()? },
            "swept" => {
                fields.time()?;
                fields.version()?;
                let (deleted, considered) = (fields.number()?, fields.number()?);
                (deleted <= considered && considered <= SWEPT)
                    .then_some(Self::Swept { deleted, considered })?
            }
            "damaged" => Self::Damaged { place: fields.int()? },
            "no right" => Self::NoRight,
            _ => return None,
        };
        fields.0.next().is_none().then_some(reply)
    }
}

/// The fields of a reply that are left.
struct Fields(std::vec::IntoIter<RespValue>);

impl Fields {
    fn int(&mut self) -> Option<i64> {
        match self.0.next()? {
            RespValue::Int(number) => Some(number),
            _ => None,
        }
    }

    fn number(&mut self) -> Option<u64> {
        u64::try_from(self.int()?).ok()
    }

    fn flag(&mut self) -> Option<bool> {
        match self.int()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn time(&mut self) -> Option<Timestamp> {
        server_time(self.int()?)
    }

    fn text(&mut self) -> Option<String> {
        match self.0.next()? {
            RespValue::Bulk(bytes) => String::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    fn texts(&mut self) -> Option<Vec<Vec<u8>>> {
        let RespValue::Array(values) = self.0.next()? else { return None };
        let bytes = |value| match value {
            RespValue::Bulk(bytes) => Some(bytes),
            _ => None,
        };
        values.into_iter().map(bytes).collect()
    }

    #[expect(clippy::option_option, reason = "a value that is none, and a field that is no value")]
    fn bytes_or_nil(&mut self) -> Option<Option<Vec<u8>>> {
        match self.0.next()? {
            RespValue::Bulk(bytes) => Some(Some(bytes)),
            RespValue::Nil => Some(None),
            _ => None,
        }
    }

    fn version(&mut self) -> Option<RecordsVersion> {
        Some(RecordsVersion { epoch: hexadecimal(&self.text()?)?, number: self.number()? })
    }

    fn written_version(&mut self) -> Option<RecordsVersion> {
        self.version().filter(|version| version.epoch > 0 && version.number > 0)
    }
}
