//! Vectors of single steps: the quota, the time, what is asked, and every figure of the answer.

use std::time::Duration;

use serde_json::Value;
use tollgate::{
    Charge, Counter, Key, Mark, PolicyQuota, Quota, QuotaState, Reason, Step, Store, Timestamp, WindowLength,
};

use crate::{SettableClock, block_on};

/// Kinds that are not there yet.
const LATER: [&str; 0] = [];

fn vectors() -> Value {
    serde_json::from_str(include_str!("vectors.json")).unwrap()
}

fn list<'v>(all: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    all[name].as_array().unwrap().iter()
}

fn is_implemented(quota: &str) -> bool {
    !LATER.iter().any(|kind| quota.contains(kind))
}

fn time(row: &Value, field: &str) -> Timestamp {
    Timestamp::from_unix_millis(row[field].as_i64().unwrap())
}

/// A time to wait, in milliseconds.
fn millis(duration: Option<Duration>) -> Value {
    duration.map_or(Value::Null, |duration| u64::try_from(duration.as_millis()).unwrap().into())
}

/// The quota of a row: the vector's, with the limit and the burst that rows from there on name.
struct QuotaEdits {
    quota: Quota,
    limit: Option<u64>,
    burst: Option<u64>,
}

impl QuotaEdits {
    fn follow(&mut self, row: &Value) -> Quota {
        self.limit = row["limit"].as_u64().or(self.limit);
        self.burst = row["burst"].as_u64().or(self.burst);
        let quota = self.quota.clone().with_limit(self.limit.unwrap_or(self.quota.limit())).unwrap();
        match self.burst {
            Some(burst) => {
                let WindowLength::Fixed(window) = quota.window() else { panic!("a fixed length") };
                Quota::new(quota.limit(), window).unwrap().with_burst(Some(burst)).unwrap()
            }
            None => quota,
        }
    }
}

async fn take(store: &impl Store, quota: &PolicyQuota, row: &Value) -> (u64, QuotaState) {
    let key = Key::from("alice");
    let cost = u32::try_from(row["cost"].as_u64().unwrap_or(0)).unwrap();
    let (charge, counter) = (Charge::new(quota, &key, cost), Counter::new(quota, &key));
    let (charges, times) = ([charge], row["times"].as_u64().unwrap_or(1));
    let step = match row["op"].as_str().unwrap() {
        "check" => Step::Charge(&charges),
        "peek" => Step::Peek(&charges),
        "record" => Step::Record(charge),
        "refund" => Step::Refund { charge, mark: Mark::at(time(row, "mark_ms")) },
        "reset" => Step::Reset(counter),
        "set" => Step::Set { counter, used: row["used_set"].as_u64().unwrap() },
        op => panic!("an operation {op}"),
    };
    // Equal charges at once, which a shared store may merge into one.
    let steps = vec![step; usize::try_from(times).unwrap()];
    let answers = store.step_each(&steps).await;
    let states: Vec<QuotaState> = answers.into_iter().map(|answer| answer.unwrap()[0]).collect();
    let admitted = states.iter().filter(|state| state.has_room()).count();
    // Equal charges may be taken in any order; the last one taken has the least room.
    let last = states.iter().max_by_key(|state| (!state.has_room(), state.used())).unwrap();
    (u64::try_from(admitted).unwrap(), *last)
}

/// Takes every step of the vectors on stores that are fresh for each of them, and compares every figure of the answers.
///
/// # Panics
///
/// If a figure differs.
pub fn play_vectors<S: SettableClock>(fresh: impl Fn() -> S) {
    let all = vectors();
    for vector in list(&all, "vectors").filter(|vector| is_implemented(vector["quota"].as_str().unwrap())) {
        let subject = fresh();
        let quota: Quota = vector["quota"].as_str().unwrap().parse().unwrap();
        let mut changes = QuotaEdits { quota, limit: None, burst: None };
        for row in list(vector, "rows") {
            subject.set_time(time(row, "now_ms"));
            let quota = PolicyQuota::new("search", changes.follow(row));
            let (admitted, state) = block_on(take(subject.store(), &quota, row));
            compare(row, admitted, &state, &format!("{}: {row}: {state:?}", vector["name"]));
        }
    }
}

fn compare(row: &Value, admitted: u64, state: &QuotaState, place: &str) {
    let is_check = row.get("retry_after_ms").is_some();
    if is_check {
        assert_eq!(Value::from(admitted), row["admitted"], "{place}");
        assert_eq!(millis(state.retry_after()), row["retry_after_ms"], "{place}");
        assert_eq!(millis(state.next_after()), row["next_after_ms"], "{place}");
        let reason = match state.reason() {
            None => Value::Null,
            Some(Reason::QuotaExceeded) => "quota_exceeded".into(),
            Some(Reason::CostExceedsLimit) => "cost_exceeds_limit".into(),
            Some(other) => panic!("{other:?}"),
        };
        assert_eq!(reason, row["reason"], "{place}");
        if admitted > 0 && row.get("mark_ms").is_some() {
            assert_eq!(state.mark(), Mark::at(time(row, "mark_ms")), "{place}");
        }
    }
    if let Some(given) = row.get("given") {
        assert_eq!(Value::from(state.units()), *given, "{place}");
    }
    assert_eq!(state.now(), time(row, "now_ms"), "{place}");
    assert_eq!(Value::from(state.used()), row["used"], "{place}");
    assert_eq!(Value::from(state.remaining()), row["remaining"], "{place}");
    assert_eq!(millis(Some(state.reset_after())), row["reset_after_ms"], "{place}");
}

/// Reads and writes every notation of the vectors, and refuses those that they call invalid.
///
/// # Panics
///
/// If one is read or written otherwise.
pub fn assert_notation() {
    let all = vectors();
    for vector in list(&all["notation"], "valid") {
        let read = vector["read"].as_str().unwrap();
        if is_implemented(read) {
            let quota: Quota = read.parse().unwrap();
            assert_eq!(Value::from(quota.to_string()), vector["written"], "{read}");
            assert_eq!(Value::from(quota.limit()), vector["limit"], "{read}");
            assert_eq!(Value::from(quota.capacity()), vector["capacity"], "{read}");
            assert_eq!(quota.to_string().parse(), Ok(quota), "{read}");
        }
    }
    for vector in list(&all["notation"], "invalid") {
        let read = vector["read"].as_str().unwrap();
        assert!(read.parse::<Quota>().is_err(), "{read}: {}", vector["why"]);
    }
    for vector in list(&all, "reduced") {
        let window = Duration::from_millis(vector["window_ms"].as_u64().unwrap());
        let quota =
            Quota::new(vector["limit"].as_u64().unwrap(), window).unwrap().with_burst(Some(1)).unwrap();
        let bucket = quota.bucket().unwrap();
        let (unit, parts) = (Value::from(bucket.unit()), Value::from(bucket.parts()));
        assert_eq!((&unit, &parts), (&vector["p"], &vector["q"]), "{quota}");
    }
}
