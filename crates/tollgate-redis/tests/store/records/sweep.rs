//! Records that have ended.

use std::time::Duration;

use tollgate_redis::{RecordChange, RecordEnd, RecordMatch, SharedRecords, SweptRecords};
use tollgate_testkit::block_on;
use tollgate_testkit::servers::{Server, Settings, Software};

use super::{MOST, Reader, TIME, delete, made, set};
use crate::servers::store;

const MINUTE: Duration = Duration::from_secs(60);

/// A server whose clock stands still until it is moved.
fn steered(software: Software) -> (Server, SharedRecords) {
    let server = Settings::new(software).steered_clock().start();
    server.clock().set(server.time());
    let records = store(&server).build().unwrap().records("test");
    (server, records)
}

async fn set_for(records: &SharedRecords, name: &str, time: Duration) {
    let change = RecordChange::Set { name, text: "", end: RecordEnd::After(time) };
    let _ = made(&records.change(change, RecordMatch::Any, MOST, TIME).await.unwrap());
}

#[test]
fn a_sweep_deletes_what_ended_ten_seconds_ago() {
    for software in Software::ALL {
        block_on(async {
            let (server, records) = steered(software);
            let mut reader = Reader::of(&records).await;
            let none = SweptRecords { deleted: 0, is_more: false };
            assert_eq!(records.sweep(TIME).await.unwrap(), none);
            assert_eq!(Reader::of(&records).await.number(), 0, "it writes nothing");
            for name in ["ends", "is deleted", "is set again", "ends later", "never ends", "is made endless"]
            {
                set_for(&records, name, MINUTE).await;
            }
            let _ = delete(&records, "is deleted").await;
            set_for(&records, "is set again", 2 * MINUTE).await;
            set_for(&records, "ends later", MINUTE + Duration::from_millis(1)).await;
            let _ = set(&records, "never ends", "").await;
            let _ = set(&records, "is made endless", "").await;
            reader.catch_up(&records).await;

            server.clock().step(69_999);
            assert_eq!(records.sweep(TIME).await.unwrap(), none);
            server.clock().step(1);
            assert_eq!(records.sweep(TIME).await.unwrap(), SweptRecords { deleted: 1, is_more: false });
            assert_eq!(records.sweep(TIME).await.unwrap(), none);
            let before = reader.number();
            reader.catch_up(&records).await;
            assert_eq!((reader.number(), reader.loads), (before + 1, 1), "it is a change like any other");
            let names: Vec<_> = reader.records.keys().collect();
            assert_eq!(names, ["ends later", "is made endless", "is set again", "never ends"]);
            assert_eq!(Reader::of(&records).await.records, reader.records);
        });
    }
}

#[test]
fn a_sweep_deletes_a_thousand_at_most() {
    block_on(async {
        let (server, records) = steered(Software::Redis);
        for number in 0..2_050 {
            set_for(&records, &number.to_string(), MINUTE).await;
        }
        let mut reader = Reader::of(&records).await;
        server.clock().step(120_000);
        for (deleted, is_more) in [(1_000, true), (1_000, true), (50, false)] {
            assert_eq!(records.sweep(TIME).await.unwrap(), SweptRecords { deleted, is_more });
            reader.catch_up(&records).await;
        }
        assert_eq!((reader.texts(), reader.loads), (vec![], 1));
        assert_eq!(Reader::of(&records).await.state, reader.state);
    });
}

/// The set of ends and the records can only differ if somebody else has written there.
#[test]
fn an_end_that_no_record_has_is_forgotten_or_corrected() {
    block_on(async {
        let (server, records) = steered(Software::Redis);
        set_for(&records, "ends", MINUTE).await;
        let _ = set(&records, "endless", "").await;
        let keys: Vec<String> = server.command(["KEYS", "*ends*"]);
        for name in ["ends", "endless", "nothing"] {
            server.command::<()>(["ZADD", &keys[0], "1", name]);
        }
        let none = SweptRecords { deleted: 0, is_more: false };
        assert_eq!(records.sweep(TIME).await.unwrap(), none);
        assert_eq!(Reader::of(&records).await.records.len(), 2);
        server.clock().step(120_000);
        assert_eq!(records.sweep(TIME).await.unwrap(), SweptRecords { deleted: 1, is_more: false });
        assert_eq!(Reader::of(&records).await.texts(), [("endless", "")]);
    });
}
