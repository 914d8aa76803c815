//! How much room a memory store has, and which keys get it: promise G8, beyond the rules for every store with a cap.

#![expect(clippy::unwrap_used, reason = "an error here is a failed test")]

use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate::{
    Charge, Full, Key, ManualClock, MemoryError, MemoryStore, MemoryStoreBuilder, PolicyQuota, Step,
};

fn quota(text: &str) -> PolicyQuota {
    PolicyQuota::new("room", text.parse().unwrap())
}

fn charge(store: &MemoryStore<ManualClock>, quota: &PolicyQuota, key: u64) -> Result<bool, MemoryError> {
    store.take(Step::Charge(&[Charge::new(quota, &Key::from(key), 1)])).map(|counted| counted.is_admitted())
}

/// A cap in bytes had no fixed number of counters. Each part of the table refused new ones once it was full, the first
/// at 87 to 90 % of the whole, and `max_counters` returned `usize::MAX`.
#[test]
fn a_cap_in_bytes_is_full_at_its_number_of_counters() {
    let quota = quota("1/1h");
    for bytes in [0, 1 << 20, 8 << 20] {
        let store = MemoryStore::builder().clock(ManualClock::default()).max_bytes(bytes).build();
        let cap = store.max_counters();
        assert!(cap >= bytes / 32 && cap <= bytes.max(24 << 10) / 24, "{cap} counters in {bytes} bytes");
        for key in 0..cap as u64 {
            assert_eq!(charge(&store, &quota, key), Ok(true), "at {key} of {cap}");
        }
        assert_eq!(charge(&store, &quota, cap as u64), Err(Full.into()));
    }
}

/// At its cap, the store only looked for closed counters where the new one belongs in the table, and refused it even if
/// there were some elsewhere.
#[test]
fn every_closed_counter_is_room_for_any_key() {
    const CAP: u64 = 3_000;
    let (minute, hour) = (quota("1/1m"), quota("1/1h"));
    let clock = ManualClock::default();
    let store = MemoryStore::builder().clock(clock.clone()).max_counters(CAP as usize).build();
    for key in 0..CAP - 1 {
        assert_eq!(charge(&store, &hour, key), Ok(true));
    }
    for key in CAP..CAP + 40 {
        assert_eq!(charge(&store, &minute, key), Ok(true), "key {key}");
        assert_eq!(charge(&store, &minute, key + 1), Err(Full.into()));
        clock.advance(Duration::from_secs(60));
    }
}

/// A peek at an unseen key took the room that it asked about, and gave it back. Keys that came in between were refused.
#[test]
fn a_look_takes_no_room() {
    const CAP: u64 = 2_000;
    let quota = quota("9/1h");
    let store = MemoryStore::builder().clock(ManualClock::default()).max_counters(CAP as usize).build();
    assert!((1..CAP).all(|key| charge(&store, &quota, key) == Ok(true)));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let stranger = Key::from("stranger");
            while !done.load(Ordering::Relaxed) {
                let _ = store.take(Step::Peek(&[Charge::new(&quota, &stranger, 1)]));
                let _ = store.take(Step::Charge(&[Charge::new(&quota, &stranger, 0)]));
            }
        });
        let refused = (CAP..100_000).find(|key| {
            let answer = charge(&store, &quota, *key);
            store.take(Step::Reset(Charge::new(&quota, &Key::from(*key), 1).counter())).unwrap();
            answer.is_err()
        });
        done.store(true, Ordering::Relaxed);
        assert_eq!(refused, None);
    });
}

/// Each part of the table had to have room for all counters of a step, although each counter needs room in only one
/// part. So an empty store refused a step with more counters than a part can hold.
#[test]
fn a_step_over_many_quotas_needs_room_for_each_once() {
    let quotas: Vec<_> = (1..=900).map(|length| quota(&format!("1/{length}m"))).collect();
    let store = MemoryStore::builder().clock(ManualClock::default()).max_counters(5_000_000).build();
    let key = Key::from("alice");
    let charges: Vec<_> = quotas.iter().map(|quota| Charge::new(quota, &key, 1)).collect();
    assert!(store.take(Step::Charge(&charges)).unwrap().is_admitted());
    assert_eq!(store.counters(), 900);
}

/// A cap beyond the memory of any machine ended the process, instead of causing the documented panic.
#[test]
fn a_cap_beyond_all_memory_panics_and_says_why() {
    let caps: [fn(MemoryStoreBuilder) -> MemoryStoreBuilder; 4] = [
        |builder| builder.max_counters(usize::MAX),
        |builder| builder.max_counters(1 << 44),
        |builder| builder.max_bytes(usize::MAX),
        |builder| builder.max_counters(usize::MAX).remember_keys(),
    ];
    for (index, cap) in caps.into_iter().enumerate() {
        let panic = catch_unwind(|| cap(MemoryStore::builder()).build()).unwrap_err();
        let text = panic.downcast_ref::<String>().unwrap();
        assert!(text.contains("lower its cap"), "{index}: {text}");
    }
}
