//! Shared records on servers that are replaced, and over connections that break.

use std::collections::BTreeMap;

use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tollgate_redis::{
    ChangeAnswer, ReadState, RecordChange, RecordEnd, RecordMatch, RecordsUpdate, SharedRecords,
};
use tollgate_testkit::servers::{
    ByteDirection, Cluster, ConnectionEnd, Data, FaultProxy, Sentinels, Server, Software,
};

use crate::sentinel::url;
use crate::support::{PATIENCE, patient_builder, until};

/// More records than any of these tests has.
const MOST: u64 = 1_000_000;

type Texts = BTreeMap<String, String>;

fn set<'a>(name: &'a str, text: &'a str) -> RecordChange<'a> {
    RecordChange::Set { name, text, end: RecordEnd::Never }
}

/// Makes a change that is made at once or certainly not, and gives its number.
async fn make(records: &SharedRecords, change: RecordChange<'_>) -> u64 {
    let answer = until("a change", async || {
        let answer = records.change(change, RecordMatch::Any, MOST, PATIENCE).await;
        answer.map_err(|error| assert!(!error.may_have_charged(), "{error:?}")).ok()
    });
    match answer.await {
        ChangeAnswer::Made { version, .. } => version.number,
        answer => panic!("{answer:?}"),
    }
}

async fn load(records: &SharedRecords) -> (ReadState, Texts) {
    let loaded = until("a load", async || records.load(PATIENCE).await.ok()).await;
    let text = |record: tollgate_redis::Record| (record.name.to_string(), record.text.to_string());
    (loaded.state(), loaded.into_records().map(text).collect())
}

/// Whether a reader has to load again.
async fn reloads(records: &SharedRecords, state: &ReadState) -> bool {
    let update = until("a read", async || records.read(Some(state), PATIENCE).await.ok()).await;
    matches!(update, RecordsUpdate::Reload { .. })
}

/// Runs it in a thread of its own.
fn in_thread<T: Send + 'static>(task: impl AsyncFnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let runtime = Handle::current();
    tokio::task::spawn_blocking(move || runtime.block_on(task()))
}

fn texts<const N: usize>(texts: [(&str, &str); N]) -> Texts {
    texts.map(|(name, text)| (name.to_owned(), text.to_owned())).into()
}

/// The replica has not received the last change, and makes another one of the same number.
#[tokio::test(flavor = "multi_thread")]
async fn a_failover_that_loses_a_change_makes_readers_load() {
    for software in Software::ALL {
        let sentinels = Sentinels::start(software);
        let records = patient_builder(&url(&sentinels)).build().unwrap().records("test");
        make(&records, set("a", "1")).await;
        let (primary, replica) = (sentinels.primary(), sentinels.replica());
        // Until then, it has the change.
        until("a replica that is up to date", async || {
            (replica.command::<u64>(["DBSIZE"]) == primary.command::<u64>(["DBSIZE"])).then_some(())
        })
        .await;
        replica.command::<()>(["REPLICAOF", "NO", "ONE"]);
        let lost = make(&records, set("a", "lost")).await;
        let (state, loaded) = load(&records).await;
        assert_eq!((state.version().number, loaded), (lost, texts([("a", "lost")])));

        primary.kill();
        let new = sentinels.primary();
        assert_eq!(new.address(), replica.address());
        assert_eq!(make(&records, set("b", "2")).await, lost);
        assert!(reloads(&records, &state).await);
        let (state, loaded) = load(&records).await;
        assert_eq!((state.version().number, loaded), (lost, texts([("a", "1"), ("b", "2")])));
        assert!(!reloads(&records, &state).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn records_move_with_their_slot() {
    for software in Software::ALL {
        let cluster = Cluster::start(software).calm();
        let url = format!("redis+cluster://{}", cluster.nodes()[0].address());
        let store = patient_builder(&url).build().unwrap();
        let records = store.records("test");
        let mut expected = Texts::new();
        let name = |number: u64| format!("{number:04}");
        for number in 0..3_000 {
            make(&records, set(&name(number), "1")).await;
            expected.insert(name(number), "1".to_owned());
        }
        let (state, loaded) = load(&records).await;
        assert_eq!(loaded, expected);
        let slot = cluster.slot_of("tollgate:1::~test.head:{~test}");
        for round in 0..3 {
            let (loading, moving) = (records.clone(), records.clone());
            // Pages of one server do not go with those of another.
            let loads = in_thread(async move || {
                let mut loads = Vec::new();
                for _ in 0..20 {
                    loads.push(load(&loading).await);
                }
                loads
            });
            let changes = in_thread(async move || {
                for number in 0..50 {
                    make(&moving, set(&format!("new {}", number % 7), &format!("{round} {number}"))).await;
                }
            });
            let migration = cluster.migrate(slot, cluster.other_primary(slot));
            while migration.move_keys(1) > 0 {}
            migration.finish();
            changes.await.unwrap();
            for (state, loaded) in loads.await.unwrap() {
                let old: Vec<_> = loaded.range(..name(3_000)).collect();
                assert_eq!(old.len(), 3_000, "at {:?}", state.version());
            }
            for number in 43..50 {
                expected.insert(format!("new {}", number % 7), format!("{round} {number}"));
            }
        }
        assert_eq!(load(&records).await.1, expected);
        assert!(!reloads(&records, &state).await, "nothing was lost");
    }
}

/// It may have been made, and is not made twice. Its caller repeats it with the version that it has seen.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_without_an_answer_is_never_sent_again() {
    for software in Software::ALL {
        let server = Server::start(software);
        let proxy = FaultProxy::before(server.address());
        let behind = patient_builder(&format!("redis://{}", proxy.address())).build().unwrap();
        let (records, direct) = (
            behind.records("test"),
            patient_builder(&format!("redis://{}", server.address())).build().unwrap().records("test"),
        );
        make(&records, set("a", "1")).await;
        let (state, _) = load(&direct).await;
        proxy.cut(ByteDirection::Reply, 3, ConnectionEnd::Close);
        let change = records.change(set("a", "2"), RecordMatch::Any, MOST, PATIENCE).await;
        let error = change.unwrap_err();
        assert!(error.may_have_charged(), "{error:?}");
        proxy.heal();
        let (_, loaded) = load(&direct).await;
        assert_eq!(loaded, texts([("a", "2")]));

        let version = state.version();
        let seen = RecordMatch::Version { epoch: version.epoch, number: version.number };
        let again =
            until("an answer", async || records.change(set("a", "2"), seen, MOST, PATIENCE).await.ok()).await;
        assert!(
            matches!(again, ChangeAnswer::Mismatch { current: Some(current), .. } if &*current.text == "2")
        );
        assert_eq!(load(&direct).await.0.version().number, version.number + 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_has_lost_the_script_gets_it_again() {
    let server = Server::start(Software::Redis);
    let store = patient_builder(&format!("redis://{}", server.address())).build().unwrap();
    let records = store.records("test");
    make(&records, set("a", "1")).await;
    server.command::<()>(["SCRIPT", "FLUSH"]);
    assert_eq!(make(&records, set("a", "2")).await, 2);
    server.command::<()>(["SCRIPT", "FLUSH"]);
    assert_eq!(load(&records).await.1, texts([("a", "2")]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_down_is_an_error_at_once_and_changes_nothing() {
    let server = Server::start(Software::Redis);
    let store = patient_builder(&format!("redis://{}", server.address())).build().unwrap();
    let records = store.records("test");
    make(&records, set("a", "1")).await;
    server.kill();
    let error = until("an error of a change that was not made", async || {
        let error = records.change(set("a", "2"), RecordMatch::Any, MOST, PATIENCE).await.unwrap_err();
        (!error.may_have_charged()).then_some(error)
    })
    .await;
    assert!(error.is_outage());
    server.start_again(Data::Lost);
    assert_eq!(load(&records).await.1, Texts::new());
}
