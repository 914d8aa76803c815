//! Keys and values that no change has written.

use tollgate::StoreError;
use tollgate_redis::{DamagedRecord, DamagedRecords, RecordChange, RecordEnd, RecordMatch, SharedRecords};
use tollgate_testkit::block_on;
use tollgate_testkit::servers::{Server, Software};

use super::{MOST, Reader, TIME, delete, made, set};
use crate::servers::store;

const PARTS: [&str; 4] = ["head", "records", "ends", "log"];

fn key(part: &str) -> String {
    format!("mine:1::~test.{part}:{{~test}}")
}

fn records_on(server: &Server) -> SharedRecords {
    store(server).prefix("mine").build().unwrap().records("test")
}

/// The text of the error of damaged records.
fn damage<T: std::fmt::Debug>(result: Result<T, StoreError>) -> String {
    let error = result.unwrap_err();
    assert!(!error.may_have_charged() && !error.is_outage());
    error.trouble_of::<DamagedRecords>().unwrap_or_else(|| panic!("{error:?}")).to_string()
}

async fn try_set(records: &SharedRecords) -> Result<(), StoreError> {
    let change = RecordChange::Set { name: "b", text: "", end: RecordEnd::Never };
    records.change(change, RecordMatch::Any, MOST, TIME).await.map(|answer| _ = made(&answer))
}

async fn try_delete(records: &SharedRecords) -> Result<(), StoreError> {
    let change = RecordChange::Delete { name: "a" };
    records.change(change, RecordMatch::Any, MOST, TIME).await.map(|answer| _ = made(&answer))
}

/// All that the server has, except one key.
fn all_but(server: &Server, but: &str) -> Vec<(String, Vec<u8>)> {
    let mut keys: Vec<String> = server.command(["KEYS", "*"]);
    keys.sort();
    keys.retain(|key| key != but);
    keys.into_iter().map(|key| (key.clone(), server.command(["DUMP", &key]))).collect()
}

#[test]
fn a_key_of_another_type_is_named_and_nothing_is_changed() {
    for software in Software::ALL {
        block_on(async {
            for part in PARTS {
                let server = Server::start(software);
                let records = records_on(&server);
                let _ = set(&records, "a", "1").await;
                let state = Reader::of(&records).await.state.unwrap();
                let _ = set(&records, "a", "2").await;
                server.command::<()>(["DEL", &key(part)]);
                server.command::<()>(["RPUSH", &key(part), "foreign"]);
                let before = all_but(&server, "");

                let mut errors = vec![damage(try_set(&records).await), damage(try_delete(&records).await)];
                if part != "ends" {
                    errors.push(damage(records.read(Some(&state), TIME).await));
                }
                if part != "log" {
                    errors.push(if part == "ends" {
                        damage(records.sweep(TIME).await)
                    } else {
                        damage(records.load(TIME).await)
                    });
                }
                for error in errors {
                    assert!(error.starts_with(&format!("the key {} does not hold", key(part))), "{error}");
                    assert!(error.contains("delete all keys that begin with mine:1::~test.,"), "{error}");
                }
                assert_eq!(all_but(&server, ""), before);
            }
        });
    }
}

#[test]
fn a_head_of_foreign_text_and_one_that_does_not_fit_the_records_are_errors() {
    block_on(async {
        let server = Server::start(Software::Redis);
        let records = records_on(&server);
        let _ = set(&records, "a", "1").await;
        let head: String = server.command(["GET", &key("head")]);
        for (part, text) in [
            ("head", ""),
            ("head", "7"),
            ("head", "0123456789abcdef 1 0123456789abcdef"),
            ("head", "0123456789abcdef -1 0123456789abcdef 1"),
            ("head", "0123456789abcdeg 1 0123456789abcdef 1"),
            ("head", "0123456789abcde 1 0123456789abcdef 1"),
            ("head", "0123456789abcdef 1 0123456789abcdef 1 "),
            ("head", "0123456789abcdef 1e3 0123456789abcdef 1"),
            ("head", "0123456789abcdef 9999999999999999 0123456789abcdef 1"),
            ("records", "0123456789abcdef 1 0123456789abcdef 2"),
            ("records", "0123456789abcdef 1 0123456789abcdef 0"),
        ] {
            server.command::<()>(["SET", &key("head"), text]);
            let before = all_but(&server, "");
            for error in [
                damage(try_set(&records).await),
                damage(try_delete(&records).await),
                damage(records.read(None, TIME).await),
                damage(records.load(TIME).await),
            ] {
                assert!(error.starts_with(&format!("the key {} ", key(part))), "{text}: {error}");
            }
            assert_eq!(all_but(&server, ""), before, "{text}");
        }
        // Evicted: then the number of changes is unknown, and with the records all of them.
        server.command::<()>(["DEL", &key("head")]);
        assert!(damage(records.load(TIME).await).contains(&key("head")));
        server.command::<()>(["SET", &key("head"), &head]);
        assert_eq!(Reader::of(&records).await.texts(), [("a", "1")]);
        server.command::<()>(["DEL", &key("records")]);
        assert!(damage(records.read(None, TIME).await).contains(&key("records")));
        for part in PARTS {
            server.command::<()>(["DEL", &key(part)]);
        }
        assert_eq!(Reader::of(&records).await.texts(), []);
        try_set(&records).await.unwrap();
    });
}

#[test]
fn a_value_that_is_no_record_is_listed_and_can_be_replaced() {
    for software in Software::ALL {
        block_on(async {
            let server = Server::start(software);
            let records = records_on(&server);
            for name in ["a", "b", "c", "d"] {
                let _ = set(&records, name, "1").await;
            }
            server.command::<()>(["HSET", &key("records"), "b", "foreign", "c", "7", "d", "0 - x"]);
            let loaded = records.load(TIME).await.unwrap();
            let names: Vec<_> = loaded.damaged().iter().map(|damaged| &*damaged.name).collect();
            assert_eq!(names, ["b", "c", "d"]);
            let text = loaded.damaged()[0].to_string();
            assert_eq!(text, format!("the field b of the key {} does not hold a record", key("records")));
            assert_eq!(
                loaded.into_records().map(|record| record.name.to_string()).collect::<Vec<_>>(),
                ["a"]
            );

            let absent = RecordChange::Set { name: "b", text: "", end: RecordEnd::Never };
            let error = records.change(absent, RecordMatch::Absent, MOST, TIME).await.unwrap_err();
            assert_eq!(&*error.trouble_of::<DamagedRecord>().unwrap().name, "b");
            assert!(!error.may_have_charged());

            let _ = made(&set(&records, "b", "2").await);
            let _ = made(&delete(&records, "c").await);
            let _ = made(&delete(&records, "d").await);
            let reader = Reader::of(&records).await;
            assert_eq!(reader.texts(), [("a", "1"), ("b", "2")]);
        });
    }
}

/// The records tell what the log would.
#[test]
fn an_entry_of_the_log_that_is_no_change_makes_readers_load() {
    block_on(async {
        let server = Server::start(Software::Redis);
        let records = records_on(&server);
        let _ = set(&records, "a", "1").await;
        for damage in 0..3 {
            let mut reader = Reader::of(&records).await;
            let number = reader.number() + 1;
            let _ = set(&records, "a", &damage.to_string()).await;
            let (log, score) = (key("log"), number.to_string());
            match damage {
                0 => server.command::<()>(["ZADD", &log, &score, "foreign"]),
                1 => server.command::<()>(["ZREMRANGEBYSCORE", &log, &score, &score]),
                _ => server.command::<()>(["DEL", &log]),
            }
            reader.catch_up(&records).await;
            assert_eq!((reader.loads, reader.number()), (2, number));
            assert_eq!(reader.texts(), [("a", &*damage.to_string())]);
        }
    });
}
