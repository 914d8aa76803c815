//! Shared records on a real server.

mod answers;
mod damage;
mod following;
mod reader;
mod rights;
mod size;
mod sweep;

use std::time::Duration;

use tollgate_redis::{
    ChangeAnswer, RecordChange, RecordEnd, RecordMatch, RecordsVersion, RedisStore, SharedRecords,
};
use tollgate_testkit::servers::Software;

use crate::servers::{shared, store};

pub(crate) use self::reader::Reader;

/// Long enough for any machine.
pub(crate) const TIME: Duration = Duration::from_secs(60);

/// More records than any of these tests has.
pub(crate) const MOST: u64 = 1_000_000;

/// A fresh store on a shared server.
fn fresh(software: Software) -> RedisStore {
    store(&shared(software)).build().unwrap()
}

/// Sets a record without an end, whatever it is now.
pub(crate) async fn set(records: &SharedRecords, name: &str, text: &str) -> ChangeAnswer {
    let change = RecordChange::Set { name, text, end: RecordEnd::Never };
    records.change(change, RecordMatch::Any, MOST, TIME).await.unwrap()
}

pub(crate) async fn delete(records: &SharedRecords, name: &str) -> ChangeAnswer {
    records.change(RecordChange::Delete { name }, RecordMatch::Any, MOST, TIME).await.unwrap()
}

/// The version that a change has made.
pub(crate) fn made(answer: &ChangeAnswer) -> RecordsVersion {
    match answer {
        ChangeAnswer::Made { version, .. } => *version,
        other => panic!("it was not made: {other:?}"),
    }
}
