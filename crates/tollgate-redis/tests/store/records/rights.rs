//! Users with too few rights, and servers without memory.

use tollgate::{Charge, Key, PolicyQuota, Quota, StoreError};
use tollgate_redis::{
    RecordChange, RecordEnd, RecordMatch, RedisError, RedisStore, SharedRecords, StoreServer,
};
use tollgate_testkit::servers::{Server, Settings, Software};
use tollgate_testkit::{StoreSteps, block_on};

use super::{MOST, Reader, TIME, delete, made, set};
use crate::servers::store;

/// The rights that records need and counting does not.
const MORE: [&str; 5] = ["+hget", "+hset", "+hdel", "+hlen", "+hscan"];

fn counting() -> String {
    format!("~test* {}", StoreServer::COUNTING_RIGHTS)
}

/// A store of the user `counter`, and the records of one with every right.
fn stores(server: &Server) -> (RedisStore, SharedRecords) {
    let url = format!("redis://counter:s3cret@{}", server.address());
    let (builder, admin) = (RedisStore::builder(url.parse().unwrap()), store(server).prefix("test"));
    let counter = builder.prefix("test").deadline(TIME).connect_timeout(TIME).build().unwrap();
    (counter, admin.build().unwrap().records("test"))
}

async fn change(records: &SharedRecords, change: RecordChange<'_>) -> Result<(), StoreError> {
    records.change(change, RecordMatch::Any, MOST, TIME).await.map(|answer| _ = made(&answer))
}

/// Sets, deletes, reads and loads; each is made or lacks a right. Returns those that lack one.
async fn refused(records: &SharedRecords, reader: &Reader) -> Vec<&'static str> {
    let set = RecordChange::Set { name: "b", text: "2", end: RecordEnd::After(TIME) };
    let answers = [
        ("set", change(records, set).await),
        ("delete", change(records, RecordChange::Delete { name: "a" }).await),
        ("read", records.read(reader.state.as_ref(), TIME).await.map(drop)),
        ("load", records.load(TIME).await.map(drop)),
    ];
    let mut refused = Vec::new();
    for (operation, answer) in answers {
        let Err(error) = answer else { continue };
        assert_eq!(RedisError::of(&error), Some(&RedisError::AccessDenied), "{operation}: {error:?}");
        assert!(!error.may_have_charged(), "{operation}");
        refused.push(operation);
    }
    refused
}

/// It was taken for a connection that cannot count, and closed.
#[test]
fn a_user_without_the_rights_for_records_goes_on_counting() {
    for software in Software::ALL {
        let server = Settings::new(software).user("counter", "s3cret", &counting()).start();
        block_on(async {
            let (counter, admin) = stores(&server);
            let _ = set(&admin, "a", "1").await;
            let reader = Reader::of(&admin).await;
            let (quota, key) = (PolicyQuota::new("test", Quota::per_day(9)), Key::from("alice"));
            let charge = async || counter.charge(&[Charge::new(&quota, &key, 1)]).await.unwrap();
            charge().await;
            let connections: u64 = server.info("total_connections_received").parse().unwrap();
            let records = counter.records("test");
            assert_eq!(refused(&records, &reader).await, ["set", "delete", "read", "load"]);
            charge().await;
            let since: u64 = server.info("total_connections_received").parse().unwrap();
            // Those of this test.
            assert!(since - connections <= 2, "{connections} and then {since}");
            assert_eq!(Reader::of(&admin).await.records, reader.records);

            let rights = StoreServer::RECORDS_RIGHTS.split(' ');
            let granted = ["ACL", "SETUSER", "counter"].into_iter().chain(rights);
            server.command::<()>(granted);
            assert_eq!(refused(&records, &reader).await, [""; 0]);
            assert_eq!(Reader::of(&records).await.texts(), [("b", "2")]);
        });
    }
}

/// Half a change would be found by nobody: its record is there, and its version is not.
#[test]
fn a_change_that_lacks_any_right_changes_nothing() {
    const ALL: [&str; 10] =
        ["hget", "hset", "hdel", "hlen", "hscan", "zadd", "zrem", "zpopmin", "zrange", "zcard"];
    for software in Software::ALL {
        let server = Settings::new(software).user("counter", "s3cret", &counting()).start();
        block_on(async {
            let (counter, admin) = stores(&server);
            let records = counter.records("test");
            server.command::<()>(["ACL", "SETUSER", "counter"].into_iter().chain(MORE));
            for missing in ALL {
                let _ = set(&admin, "a", "1").await;
                let _ = set(&admin, "b", "1").await;
                let reader = Reader::of(&admin).await;
                server.command::<()>(["ACL", "SETUSER", "counter", &format!("-{missing}")]);
                let refused = refused(&records, &reader).await;
                let mut follower = Reader { state: reader.state, ..Reader::default() };
                follower.records = reader.records.clone();
                follower.catch_up(&admin).await;
                assert_eq!(follower.loads, 0, "without {missing}");
                let after = Reader::of(&admin).await;
                assert_eq!(after.records, follower.records, "without {missing}");
                let is_set = after.records.get("b").is_some_and(|record| &*record.text == "2");
                let is_deleted = !after.records.contains_key("a");
                let is_refused = ["set", "delete"].map(|operation| refused.contains(&operation));
                assert_eq!([!is_set, !is_deleted], is_refused, "without {missing}: {refused:?}");
                server.command::<()>(["ACL", "SETUSER", "counter", &format!("+{missing}")]);
            }
        });
    }
}

#[test]
fn a_sweep_that_lacks_any_right_changes_nothing() {
    const ALL: [&str; 8] = ["hget", "hdel", "hlen", "zadd", "zrem", "zpopmin", "zrange", "zcard"];
    let server = Settings::new(Software::Redis).user("counter", "s3cret", &counting()).start();
    block_on(async {
        let (counter, admin) = stores(&server);
        server.command::<()>(["ACL", "SETUSER", "counter"].into_iter().chain(MORE));
        let records = counter.records("test");
        for missing in ALL {
            let version = made(&set(&admin, "old", "1").await);
            // It has ended long ago.
            let [key, ends] = ["records", "ends"].map(|part| format!("test:1::~test.{part}:{{~test}}"));
            server.command::<()>(["HSET", &key, "old", &format!("{} 1 x", version.number)]);
            server.command::<()>(["ZADD", &ends, "1", "old"]);
            server.command::<()>(["ACL", "SETUSER", "counter", &format!("-{missing}")]);
            let error = records.sweep(TIME).await.unwrap_err();
            assert_eq!(RedisError::of(&error), Some(&RedisError::AccessDenied), "without {missing}");
            assert!(!error.may_have_charged(), "without {missing}");
            let after = Reader::of(&admin).await;
            assert_eq!((after.number(), after.records.len()), (version.number, 1), "without {missing}");
            server.command::<()>(["ACL", "SETUSER", "counter", &format!("+{missing}")]);
            assert_eq!(records.sweep(TIME).await.unwrap().deleted, 1);
        }
    });
}

#[test]
fn a_server_without_memory_refuses_new_records_and_lets_old_ones_be_deleted() {
    for software in Software::ALL {
        let server = Server::start(software);
        block_on(async {
            let records = store(&server).build().unwrap().records("test");
            let _ = set(&records, "a", "1").await;
            let mut reader = Reader::of(&records).await;
            server.command::<()>(["CONFIG", "SET", "maxmemory", "1"]);
            let set = RecordChange::Set { name: "b", text: "", end: RecordEnd::Never };
            let error = change(&records, set).await.unwrap_err();
            assert_eq!(RedisError::of(&error), Some(&RedisError::OutOfMemory));
            assert!(!error.may_have_charged());
            let _ = made(&delete(&records, "a").await);
            reader.catch_up(&records).await;
            assert_eq!((reader.texts(), reader.loads), (vec![], 1));
            assert_eq!(Reader::of(&records).await.state, reader.state);
        });
    }
}
