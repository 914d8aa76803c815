//! Readers that follow the changes of others, and lose nothing.

use std::collections::BTreeMap;

use fastrand::Rng;
use tollgate_redis::{
    ChangeAnswer, Record, RecordChange, RecordEnd, RecordMatch, RecordsPage, RecordsVersion, SharedRecords,
};
use tollgate_testkit::block_on;
use tollgate_testkit::servers::{Server, Software};

use super::{MOST, Reader, TIME, delete, fresh, made, set};
use crate::servers::{clustered, store};

/// How many changes the log keeps, and how many a page has.
const LOGGED: u64 = 16_384;
const PAGE: u64 = 512;

/// The text of each record, and the version that wrote it.
type Model = BTreeMap<String, (String, RecordsVersion)>;

/// Makes a random change of one of a few records, which may or may not exist.
async fn change(records: &SharedRecords, rng: &mut Rng, model: &mut Model) {
    let name = format!("record {}", rng.u8(0..40));
    let text = rng.u64(..).to_string();
    let is_deletion = rng.u8(0..3) == 0;
    let change = match is_deletion {
        true => RecordChange::Delete { name: &name },
        false => RecordChange::Set { name: &name, text: &text, end: RecordEnd::Never },
    };
    let matching = match (rng.u8(0..4), model.get(&name)) {
        (0, _) => RecordMatch::Absent,
        (1, Some((_, version))) => {
            RecordMatch::Version { epoch: version.epoch, number: version.number - rng.u64(0..2) }
        }
        _ => RecordMatch::Any,
    };
    let answer = records.change(change, matching, MOST, TIME).await.unwrap();
    let is_there = model.contains_key(&name);
    let is_match = match matching {
        RecordMatch::Any => !is_deletion || is_there,
        RecordMatch::Absent => !is_deletion && !is_there,
        RecordMatch::Version { number, .. } => {
            model.get(&name).is_some_and(|(_, version)| version.number == number)
        }
    };
    if !is_match {
        let ChangeAnswer::Mismatch { current, .. } = answer else { panic!("{matching:?}: {answer:?}") };
        let current = current.map(|record| (record.text.to_string(), record.version));
        assert_eq!(current, model.get(&name).map(|(text, version)| (text.clone(), version.number)));
        return;
    }
    let version = made(&answer);
    assert!(matches!(answer, ChangeAnswer::Made { existed, .. } if existed == is_there));
    if is_deletion {
        model.remove(&name);
    } else {
        model.insert(name, (text, version));
    }
}

fn assert_same(reader: &Reader, model: &Model) {
    let epoch = reader.state.unwrap().version().epoch;
    let version = |number| RecordsVersion { epoch, number };
    let read = |(name, record): (&String, &Record)| {
        (name.clone(), (record.text.to_string(), version(record.version)))
    };
    assert_eq!(&reader.records.iter().map(read).collect::<Model>(), model);
}

/// Two processes read whenever they like.
async fn follow(records: &SharedRecords) {
    let mut rng = Rng::with_seed(7);
    let (mut model, mut readers) = (Model::new(), [Reader::of(records).await, Reader::default()]);
    for _ in 0..2_000 {
        change(records, &mut rng, &mut model).await;
        for (reader, every) in readers.iter_mut().zip([5, 200]) {
            if rng.u8(0..every) == 0 {
                reader.catch_up(records).await;
                assert_same(reader, &model);
            }
        }
    }
    for reader in &mut readers {
        reader.catch_up(records).await;
        assert_same(reader, &model);
        assert_eq!(reader.loads, 1);
    }
    assert!(readers[0].pages > readers[1].pages);
}

#[test]
fn two_readers_follow_random_changes_exactly() {
    for software in Software::ALL {
        block_on(async { follow(&fresh(software).records("test")).await });
    }
}

#[test]
fn readers_on_a_cluster_follow_as_well() {
    let store = clustered(Software::Redis);
    block_on(follow(&tollgate_testkit::StoreUnderTest::store(&store).records("test")));
}

#[test]
fn a_reader_of_many_changes_gets_pages_and_one_that_is_too_far_behind_loads() {
    block_on(async {
        let records = fresh(Software::Redis).records("test");
        let version = made(&set(&records, "first", "").await);
        let (mut near, mut far) = (Reader::of(&records).await, Reader::of(&records).await);
        for number in 1..=LOGGED {
            if number == LOGGED {
                near.catch_up(&records).await;
                assert_eq!(near.pages, 1 + (LOGGED - 1).div_ceil(PAGE), "it has read it all in pages");
            }
            let _ = made(&set(&records, &format!("{}", number % 10), "x").await);
        }
        far.catch_up(&records).await;
        assert_eq!((near.loads, far.loads), (1, 1), "the log reaches back to its state just so");
        let mut farther = Reader { state: None, ..Reader::default() };
        farther.catch_up(&records).await;
        let state = farther.state.unwrap();
        for number in 0..=LOGGED {
            let _ = made(&set(&records, &format!("{}", number % 10), "y").await);
        }
        farther.catch_up(&records).await;
        assert_eq!(farther.loads, 2, "one change more than the log has");
        let last = RecordsVersion { number: state.version().number + LOGGED + 1, ..version };
        assert_eq!(farther.state.unwrap().version(), last);
        assert_eq!(farther.records.len(), 11);
    });
}

#[test]
fn a_server_that_lost_all_has_another_history() {
    for software in Software::ALL {
        block_on(async {
            let server = Server::start(software);
            let store = store(&server).build().unwrap();
            let records = store.records("test");
            let old = made(&set(&records, "a", "old").await);
            let mut reader = Reader::of(&records).await;
            server.command::<()>(["FLUSHALL"]);
            reader.catch_up(&records).await;
            assert_eq!((reader.loads, reader.texts()), (2, vec![]));
            assert_eq!(reader.state.unwrap().version(), RecordsVersion::default());

            let mut behind = Reader::of(&records).await;
            let _ = set(&records, "b", "new").await;
            let new = made(&set(&records, "b", "newer").await);
            assert_ne!(new.epoch, old.epoch);
            behind.catch_up(&records).await;
            assert_eq!((behind.loads, behind.texts()), (1, vec![("b", "newer")]));
            server.command::<()>(["FLUSHALL"]);
            let _ = set(&records, "c", "1").await;
            let _ = set(&records, "c", "2").await;
            behind.catch_up(&records).await;
            assert_eq!((behind.loads, behind.texts()), (2, vec![("c", "2")]));
        });
    }
}

/// The keys of the records as they were, put back as a failover does that has lost the last changes.
struct Snapshot(Vec<(String, Vec<u8>)>);

impl Snapshot {
    fn of(server: &Server) -> Self {
        let keys: Vec<String> = server.command(["KEYS", "*"]);
        Self(keys.into_iter().map(|key| (key.clone(), server.command(["DUMP", &key]))).collect())
    }

    fn restore(&self, server: &Server) {
        for (key, value) in &self.0 {
            server.command::<()>([b"RESTORE", key.as_bytes(), b"0", value, b"REPLACE"]);
        }
    }
}

/// Both histories have a change of this number, and a reader would have gone on with the other one.
#[test]
fn a_failover_that_replaces_changes_by_others_of_the_same_number_is_found() {
    for software in Software::ALL {
        block_on(async {
            let server = Server::start(software);
            let store = store(&server).build().unwrap();
            let records = store.records("test");
            let _ = set(&records, "a", "1").await;
            let snapshot = Snapshot::of(&server);
            let _ = set(&records, "a", "lost").await;
            let [mut same, mut more, mut fewer] =
                [Reader::of(&records).await, Reader::of(&records).await, Reader::of(&records).await];

            snapshot.restore(&server);
            fewer.catch_up(&records).await;
            assert_eq!((fewer.loads, fewer.texts()), (2, vec![("a", "1")]), "a lower number");
            let _ = set(&records, "b", "2").await;
            same.catch_up(&records).await;
            assert_eq!((same.loads, same.texts()), (2, vec![("a", "1"), ("b", "2")]), "the same number");
            let _ = delete(&records, "a").await;
            more.catch_up(&records).await;
            assert_eq!((more.loads, more.texts()), (2, vec![("b", "2")]), "a chain that is broken");
            fewer.catch_up(&records).await;
            assert_eq!((fewer.loads, fewer.texts()), (2, vec![("b", "2")]));
        });
    }
}

/// Pages had a change that was lost before the end of the load, and nothing else showed it: the number of records was
/// right, and the log had no change since the first page.
#[test]
fn a_load_has_no_change_that_was_lost_meanwhile() {
    for software in Software::ALL {
        block_on(async {
            let server = Server::start(software);
            let store = store(&server).build().unwrap();
            let records = store.records("test");
            let name = |number: u64| format!("{number:04}");
            for number in 0..1_200 {
                let _ = set(&records, &name(number), "1").await;
            }
            let snapshot = Snapshot::of(&server);
            let mut loading = records.loading();
            let RecordsPage::Records(first) = loading.next(TIME).await.unwrap() else { panic!("no records") };
            for number in 0..1_200 {
                let _ = set(&records, &name(number), "lost").await;
            }
            let (mut texts, mut restarts) = (BTreeMap::new(), 0);
            texts.extend(first.into_iter().map(|record| (record.name, record.text)));
            loop {
                match loading.next(TIME).await.unwrap() {
                    RecordsPage::Records(page) => {
                        texts.extend(page.into_iter().map(|record| (record.name, record.text)));
                        // All pages are there, and the log is still to be read.
                        if texts.len() == 1_200 && restarts == 0 {
                            assert!(texts.values().any(|text| &**text == "lost"));
                            snapshot.restore(&server);
                        }
                    }
                    RecordsPage::Changes(changes) => assert_eq!(changes, []),
                    RecordsPage::Again => {
                        restarts += 1;
                        texts.clear();
                    }
                    RecordsPage::End(_) => break,
                }
            }
            assert_eq!((texts.len(), restarts), (1_200, 1));
            assert!(texts.values().all(|text| &**text == "1"));
        });
    }
}

/// Pages that were read before a change and after it are put together.
#[test]
fn a_load_amid_changes_is_exact() {
    for software in Software::ALL {
        block_on(async {
            let records = fresh(software).records("test");
            let name = |number: u64| format!("{number:05}");
            for number in 0..5_000 {
                let _ = set(&records, &name(number), "0").await;
            }
            let writer = tokio::spawn({
                let records = records.clone();
                async move {
                    let mut rng = Rng::with_seed(1);
                    for _ in 0..8_000 {
                        let name = name(rng.u64(0..6_000));
                        let _ = match rng.bool() {
                            true => set(&records, &name, "1").await,
                            false => delete(&records, &name).await,
                        };
                    }
                }
            });
            let (mut follower, mut loads) = (Reader::of(&records).await, 0);
            while !writer.is_finished() {
                let mut loaded = Reader::default();
                loaded.load(&records).await;
                loads += 1;
                while loaded.state != follower.state {
                    let behind =
                        if loaded.number() < follower.number() { &mut loaded } else { &mut follower };
                    let _ = behind.step(&records).await;
                }
                assert_eq!(loaded.records, follower.records);
            }
            writer.await.unwrap();
            follower.catch_up(&records).await;
            let last = Reader::of(&records).await;
            assert_eq!((last.records, follower.loads), (follower.records, 1));
            assert!(loads > 3, "only {loads} loads amid the changes");
        });
    }
}
