//! Golden vectors of windows: where they start and end in every implementation.

#![expect(clippy::unwrap_used, reason = "an error here is a failed test")]

use std::net::IpAddr;
use std::time::Duration;

use serde_json::Value;
use tollgate::{
    Anchor, CalendarUnit, Key, Limiter, ManualClock, MemoryStore, Quota, Timestamp, Window, whole_seconds,
};
use tollgate_testkit::instant;

fn vectors(file: &str, list: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(file).unwrap();
    all[list].as_array().unwrap().clone()
}

fn windows(list: &str) -> Vec<Value> {
    vectors(include_str!("vectors/windows.json"), list)
}

fn millis(vector: &Value, field: &str) -> Duration {
    Duration::from_millis(vector[field].as_u64().unwrap())
}

fn time(vector: &Value, field: &str) -> Timestamp {
    Timestamp::from_unix_millis(vector[field].as_i64().unwrap())
}

fn window(vector: &Value) -> Window {
    Window::new(time(vector, "start_ms"), time(vector, "end_ms"))
}

#[test]
fn aligned_windows_are_those_of_the_vectors() {
    for vector in windows("aligned") {
        let now = time(&vector, "now_ms");
        let found = Window::aligned(now, millis(&vector, "window_ms"), millis(&vector, "offset_ms"));
        assert_eq!(found, window(&vector), "{vector}");
        assert_eq!(found.end().since(now), millis(&vector, "reset_after_ms"), "{vector}");
        assert!(found.contains(now), "{vector}");
    }
}

#[test]
fn a_quota_without_an_offset_has_the_windows_of_the_vectors() {
    let without_offset: Vec<_> =
        windows("aligned").into_iter().filter(|vector| vector["offset_ms"] == 0).collect();
    assert!(!without_offset.is_empty());
    for vector in without_offset {
        let quota = Quota::new(1, millis(&vector, "window_ms")).unwrap();
        assert_eq!(quota.window_at(&"alice".into(), time(&vector, "now_ms")), window(&vector), "{vector}");

        let clock = ManualClock::at(time(&vector, "now_ms"));
        let store = MemoryStore::builder().clock(clock).build();
        let limiter = Limiter::with_store(quota, store);
        assert!(limiter.check("alice").unwrap().is_allowed());
        let denied = limiter.check("alice").unwrap();
        let retry_after = denied.retry_after().unwrap();
        assert_eq!(retry_after, millis(&vector, "reset_after_ms"), "{vector}");
        assert_eq!(whole_seconds(retry_after), vector["retry_after_s"].as_u64().unwrap(), "{vector}");
    }
}

#[test]
fn whole_seconds_are_those_of_the_vectors() {
    for vector in windows("aligned") {
        let seconds = whole_seconds(millis(&vector, "reset_after_ms"));
        assert_eq!(seconds, vector["retry_after_s"].as_u64().unwrap(), "{vector}");
    }
}

#[test]
fn calendar_windows_are_those_of_the_vectors() {
    for vector in windows("calendar") {
        let (name, zone) = (vector["unit"].as_str().unwrap(), vector["zone"].as_str().unwrap());
        let unit = match name {
            "day" => CalendarUnit::Day,
            "week" => CalendarUnit::Week,
            "month" => CalendarUnit::Month,
            "year" => CalendarUnit::Year,
            other => panic!("unknown unit {other}"),
        };
        let quota = Quota::calendar(1, unit, zone).unwrap();
        assert_eq!(quota, format!("1/{name}@{zone}").parse().unwrap());
        let expected = window(&vector);
        assert_eq!(expected.length(), millis(&vector, "length_ms"), "{vector}");
        let millisecond = Duration::from_millis(1);
        let now = instant(vector["now"].as_str().unwrap());
        for now in [expected.start(), now, expected.end() - millisecond] {
            assert_eq!(quota.window_at(&"alice".into(), now), expected, "{vector} at {now:?}");
        }
        assert_eq!(quota.window_at(&"alice".into(), expected.start() - millisecond).end(), expected.start());
        assert_eq!(quota.window_at(&"alice".into(), expected.end()).start(), expected.end());
    }
}

#[test]
fn staggered_windows_are_those_of_the_vectors() {
    for vector in vectors(include_str!("vectors/staggered.json"), "staggered") {
        let key = key(&vector["key"]);
        if let Some(canonical) = vector["canonical"].as_str() {
            assert_eq!(hex(&key.canonical_bytes()), canonical, "{vector}");
        }
        let (length, now) = (millis(&vector, "window_ms"), time(&vector, "now_ms"));
        let quota = Quota::new(1, length).and_then(|quota| quota.with_anchor(Anchor::Staggered)).unwrap();
        assert_eq!(quota.window_at(&key, now), window(&vector), "{vector}");

        // The vector's own offset comes from its hash, and `Window::aligned` agrees with it.
        let hash = u64::from_str_radix(vector["xxh64"].as_str().unwrap(), 16).unwrap();
        let offset = Duration::from_millis(hash % vector["window_ms"].as_u64().unwrap());
        assert_eq!(offset, millis(&vector, "offset_ms"), "{vector}");
        assert_eq!(Window::aligned(now, length, offset), window(&vector), "{vector}");
    }
}

/// Parses a key of the vectors: its type, then its value.
fn key(written: &Value) -> Key<'static> {
    let (kind, value) = written.as_object().unwrap().iter().next().unwrap();
    match kind.as_str() {
        "text" => value.as_str().unwrap().to_owned().into(),
        "repeated" => value[0].as_str().unwrap().repeat(value[1].as_u64().unwrap() as usize).into(),
        "bytes" => Key::from(unhex(value.as_str().unwrap()).as_slice()).into_owned(),
        "number" => value.as_u64().unwrap().into(),
        "address" => value.as_str().unwrap().parse::<IpAddr>().unwrap().into(),
        "parts" => Key::parts(value.as_array().unwrap().iter().map(key)),
        other => panic!("unknown kind {other}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2).map(|pair| str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}
