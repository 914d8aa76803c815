//! Those that change, follow and load records.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fastrand::Rng;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tollgate::StoreError;
use tollgate_redis::{
    ChangeAnswer, ReadState, Record, RecordChange, RecordEnd, RecordMatch, RecordsUpdate, RecordsVersion,
    SharedRecords,
};
use tollgate_testkit::block_on;
use tollgate_testkit::servers::{Data, Server};

use super::PATIENCE;
use super::ledger::{Copies, RecordLedger};
use crate::crowd::{build, patient, spawn};
use crate::fault::Round;

pub(super) const PARTS: [&str; 4] = ["head", "records", "ends", "log"];

/// A key of the records.
pub(super) fn key(part: &str) -> String {
    format!("tollgate:1::~faults.{part}:{{~faults}}")
}

/// Records at the beginning: enough for a load to have some pages.
const FIRST: u64 = 6_000;

/// Processes at work.
pub(super) struct RecordCrowd {
    data: Data,
    shared: Arc<Shared>,
    writers: Vec<JoinHandle<()>>,
    readers: Vec<JoinHandle<Reader>>,
}

struct Shared {
    is_over: AtomicBool,
    texts: AtomicU64,
    ledger: Mutex<RecordLedger>,
}

/// A copy that follows.
struct Reader {
    records: SharedRecords,
    state: Option<ReadState>,
    copy: Copies,
    loads: u64,
}

impl Shared {
    fn ledger(&self) -> MutexGuard<'_, RecordLedger> {
        self.ledger.lock().unwrap()
    }
}

impl RecordCrowd {
    pub(super) fn start(url: &str, data: Data) -> Self {
        let shared = Arc::new(Shared {
            is_over: AtomicBool::new(false),
            texts: AtomicU64::new(0),
            ledger: Mutex::default(),
        });
        let process = || build(patient(url)).records("faults");
        let first = process();
        let filling = (0..FIRST).map(|number| (first.clone(), number));
        let filling: Vec<_> = filling
            .map(|(records, number)| {
                let shared = Arc::clone(&shared);
                spawn(async move { set(&shared, &records, number).await })
            })
            .collect();
        block_on(async {
            for filled in filling {
                filled.await.unwrap();
            }
        });
        let write = |seed| spawn(write(Arc::clone(&shared), process(), Rng::with_seed(seed)));
        let follow = || spawn(follow(Arc::clone(&shared), Reader::new(process())));
        let load = || spawn(load(Arc::clone(&shared), Reader::new(process())));
        Self { writers: vec![write(1), write(2)], readers: vec![follow(), follow(), load()], data, shared }
    }

    /// Ends it. All copies must be what the server has.
    pub(super) fn end(self, round: &mut Round, server: &Server) {
        let Self { data, shared, writers, readers } = self;
        shared.is_over.store(true, Relaxed);
        let readers = block_on(async {
            for writer in writers {
                writer.await.unwrap();
            }
            let mut ended = Vec::new();
            for reader in readers {
                let mut reader = reader.await.unwrap();
                while reader.step(&shared).await {}
                ended.push(reader);
            }
            ended
        });
        let (version, stored) = stored(server);
        let mut ledger = shared.ledger();
        for (place, reader) in readers.iter().enumerate() {
            let read = reader.state.unwrap().version();
            ledger.expect(read == version, || format!("reader {place} is at {read:?}, not at {version:?}"));
            ledger.expect(reader.copy == stored, || format!("reader {place} has another copy"));
        }
        match data {
            Data::Kept => {
                ledger.judge_kept(version);
                for follower in &readers[..2] {
                    ledger.expect(follower.loads == 1, || {
                        format!("a reader loaded {} times, and nothing was lost", follower.loads)
                    });
                }
            }
            Data::Lost => ledger.judge_lost(),
        }
        round.found.violations.extend(ledger.take_violations());
    }
}

/// The records on the server, read by other means.
fn stored(server: &Server) -> (RecordsVersion, Copies) {
    let head: Option<String> = server.command(["GET", &key("head")]);
    let head = head.unwrap_or_else(|| "0 0 0 0".to_owned());
    let fields: Vec<&str> = head.split(' ').collect();
    let epoch = u64::from_str_radix(fields[0], 16).unwrap();
    let version = RecordsVersion { epoch, number: fields[1].parse().unwrap() };
    let all: BTreeMap<String, String> = server.command(["HGETALL", &key("records")]);
    let record = |(name, value): (String, String)| {
        let fields: Vec<&str> = value.splitn(3, ' ').collect();
        assert_eq!(fields[1], "-", "none of them ends");
        let (version, text) = (fields[0].parse().unwrap(), fields[2].into());
        (name.clone(), Record { name: name.into(), version, until: None, text })
    };
    (version, all.into_iter().map(record).collect())
}

/// Sets a record to a text that no other change has.
async fn set(shared: &Shared, records: &SharedRecords, number: u64) {
    let (name, text) = (format!("{number:04}"), shared.texts.fetch_add(1, Relaxed).to_string());
    let change = RecordChange::Set { name: &name, text: &text, end: RecordEnd::Never };
    note(
        shared,
        records.change(change, RecordMatch::Any, u64::MAX >> 20, PATIENCE).await,
        &name,
        Some(&text),
    );
}

fn note(shared: &Shared, answer: Result<ChangeAnswer, StoreError>, name: &str, text: Option<&str>) {
    let mut ledger = shared.ledger();
    match answer {
        Ok(ChangeAnswer::Made { version, .. }) => {
            ledger.note_made(version, (name.to_owned(), text.map(str::to_owned)));
        }
        Ok(ChangeAnswer::Mismatch { .. }) if text.is_none() => {}
        Ok(answer) => ledger.expect(false, || format!("{name}: {answer:?}")),
        Err(error) => ledger.unknown += u64::from(error.may_have_charged()),
    }
}

async fn write(shared: Arc<Shared>, records: SharedRecords, mut rng: Rng) {
    while !shared.is_over.load(Relaxed) {
        let number = rng.u64(0..FIRST + 50);
        if rng.u8(0..3) > 0 {
            set(&shared, &records, number).await;
        } else {
            let name = format!("{number:04}");
            let change = RecordChange::Delete { name: &name };
            let answer = records.change(change, RecordMatch::Any, 0, PATIENCE).await;
            note(&shared, answer, &name, None);
        }
        // So few that a reader of a busy machine does not fall behind the log.
        sleep(Duration::from_micros(rng.u64(0..2_000))).await;
    }
}

async fn follow(shared: Arc<Shared>, mut reader: Reader) -> Reader {
    while !shared.is_over.load(Relaxed) {
        let _ = reader.step(&shared).await;
        sleep(Duration::from_millis(fastrand::u64(0..10))).await;
    }
    reader
}

/// Loads again and again, and follows for a moment.
async fn load(shared: Arc<Shared>, mut reader: Reader) -> Reader {
    while !shared.is_over.load(Relaxed) {
        reader.state = None;
        while reader.step(&shared).await {}
        let _ = reader.step(&shared).await;
    }
    reader
}

impl Reader {
    fn new(records: SharedRecords) -> Self {
        Self { records, state: None, copy: Copies::new(), loads: 0 }
    }

    /// Reads a page, or all. Returns whether there is more.
    async fn step(&mut self, shared: &Shared) -> bool {
        match self.records.read(self.state.as_ref(), PATIENCE).await {
            Ok(RecordsUpdate::Changes { state, changes, is_more, .. }) => {
                for change in changes {
                    shared.ledger().note_followed(state.version().epoch, &change);
                    let name = change.name().to_owned();
                    match change {
                        tollgate_redis::LoggedChange::Set(record) => _ = self.copy.insert(name, record),
                        tollgate_redis::LoggedChange::Deleted { .. } => _ = self.copy.remove(&name),
                    }
                }
                if self.state != Some(state) {
                    self.state = Some(state);
                    shared.ledger().note_state(state, &self.copy);
                }
                is_more
            }
            Ok(RecordsUpdate::Reload { .. }) => {
                if let Ok(loaded) = self.records.load(PATIENCE).await {
                    self.state = Some(loaded.state());
                    let named = |record: Record| (record.name.to_string(), record);
                    self.copy = loaded.into_records().map(named).collect();
                    self.loads += 1;
                    shared.ledger().note_state(self.state.unwrap(), &self.copy);
                }
                true
            }
            Err(_) => {
                sleep(Duration::from_millis(1)).await;
                true
            }
        }
    }
}
