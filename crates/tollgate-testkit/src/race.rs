//! Races: many threads on few counters, and what must hold whichever thread wins.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use tollgate::{Charge, Key, PolicyQuota, Store, StoreError, Timestamp};

use crate::{CappedStore, SettableClock, StoreSteps, block_on};

/// G1, G2: if many threads together ask for more than the limit, exactly the limit is admitted, in every round.
///
/// # Panics
///
/// If a round admits one more or one less.
pub fn admits_exactly_the_limit<S: Store>(store: &S, threads: usize, limit: u64, rounds: u64) {
    let quota = quota("hot", limit);
    let asks_each = limit / threads as u64 + 5;
    for round in 0..rounds {
        let key = Key::from(round);
        let admitted = AtomicU64::new(0);
        crowd(threads, |_| {
            for _ in 0..asks_each {
                if takes(store, &[Charge::new(&quota, &key, 1)]) {
                    admitted.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        assert_eq!(admitted.into_inner(), limit, "round {round}");
        assert_eq!(used(store, &quota, &key), limit, "round {round}");
    }
}

/// Rule 8, G1, G2: threads that charge two counters in opposite orders never deadlock, never exceed either limit, and
/// use up the narrower one.
///
/// # Panics
///
/// If a count differs from what was admitted, or a denial was false.
pub fn crosswise_charges_use_up_the_narrower_limit<S: Store>(store: &S, threads: usize, rounds: u64) {
    for round in 0..rounds {
        let quota = if round % 2 == 0 { quota } else { long_quota };
        let (wide, narrow) = (quota("wide", 500), quota("narrow", 300));
        let (a, b) = (Key::from((round, "a")), Key::from((round, "b")));
        let admitted = AtomicU64::new(0);
        crowd(threads, |thread| {
            let (a, b) = (Charge::new(&wide, &a, 1), Charge::new(&narrow, &b, 1));
            let charges = if thread % 2 == 0 { [a, b] } else { [b, a] };
            for _ in 0..300 / threads + 2 {
                if takes(store, &charges) {
                    admitted.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        assert_eq!(admitted.into_inner(), 300, "round {round}");
        assert_eq!((used(store, &wide, &a), used(store, &narrow, &b)), (300, 300), "round {round}");
    }
}

/// Rule 8, G2: a request that one counter denies never takes room on the other from requests that only need that one,
/// not even for an instant.
///
/// # Panics
///
/// If a request that had room was denied.
pub fn denied_pairs_take_no_room<S: Store>(store: &S, threads: usize, rounds: u64) {
    let (shared, full) = (quota("shared", 2 * threads as u64), quota("full", 1));
    for round in 0..rounds {
        let (a, b) = (Key::from((round, "a")), Key::from((round, "b")));
        assert!(takes(store, &[Charge::new(&full, &b, 1)]));
        crowd(2 * threads, |thread| {
            let (a, b) = (Charge::new(&shared, &a, 1), Charge::new(&full, &b, 1));
            for turn in 0..2 {
                match thread % 4 {
                    0 => assert!(!takes(store, &[a, b]), "a pair without room was admitted"),
                    2 => assert!(!takes(store, &[b, a]), "a pair without room was admitted"),
                    _ => assert!(takes(store, &[a]), "round {round}, turn {turn}: a false denial"),
                }
            }
        });
        assert_eq!(used(store, &shared, &a), 2 * threads as u64, "round {round}");
    }
}

/// Rule 8: concurrent pairs and single charges on the same two counters are each counted once.
///
/// # Panics
///
/// If a counter holds more or fewer units than were charged.
pub fn pairs_and_singles_are_counted_once<S: Store>(store: &S, threads: usize, turns: u64) {
    let (first, second) = (quota("first", u64::from(u32::MAX)), quota("second", u64::from(u32::MAX)));
    let key = Key::from("met");
    let (a, b) = (Charge::new(&first, &key, 1), Charge::new(&second, &key, 1));
    let kinds: [&[Charge<'_>]; 4] = [&[a, b], &[a], &[b, a], &[b]];
    crowd(4 * threads, |thread| {
        for _ in 0..turns {
            assert!(takes(store, kinds[thread % 4]), "there is room for all");
        }
    });
    for quota in [&first, &second] {
        assert_eq!(used(store, quota, &key), 3 * threads as u64 * turns, "{}", quota.policy());
    }
}

/// G1, rule 10: while units are taken and given back, no more than the limit are ever out.
///
/// # Panics
///
/// If more are out, or the final count differs from the units that are out.
pub fn refunds_never_let_more_than_the_limit_out<S: Store>(store: &S, threads: usize, turns: usize) {
    const LIMIT: u64 = 7;
    let quota = quota("lease", LIMIT);
    let key = Key::from("lease");
    let out = AtomicI64::new(0);
    crowd(threads, |thread| {
        for turn in 0..turns {
            let charge = Charge::new(&quota, &key, 1 + (thread % 3) as u32);
            let cost = i64::from(charge.cost());
            let counted = block_on(store.charge(&[charge])).unwrap();
            if !counted.is_admitted() {
                continue;
            }
            // Counted after the unit is out and uncounted before it is back, so never more than the true number.
            let before = out.fetch_add(cost, Ordering::SeqCst);
            assert!(before + cost <= LIMIT as i64, "{} units out", before + cost);
            if turn + 1 < turns || thread % 2 == 0 {
                out.fetch_sub(cost, Ordering::SeqCst);
                let refunded = block_on(store.refund(&charge, counted[0].mark())).unwrap();
                assert_eq!(refunded.units(), charge.cost(), "what is out can be given back");
            }
        }
    });
    assert_eq!(used(store, &quota, &key), out.into_inner().unsigned_abs());
}

/// G1, G2, rule 11: while one thread moves the clock from window to window, each window admits exactly the limit, and
/// every step is counted in the window of its own time.
///
/// # Panics
///
/// If a window admits more or less, or counts a step outside its time.
pub fn a_moving_clock_fills_no_window_twice<S: SettableClock>(subject: &S, threads: usize, windows: u32) {
    const LIMIT: u64 = 20;
    /// Requests in each window: enough to fill it twice, if it were forgotten once.
    const ASKS: u64 = 3 * LIMIT;
    let quota = PolicyQuota::new("moving", format!("{LIMIT}/10ms").parse().unwrap());
    let key = Key::from("alice");
    // Begins at the start of a window, so that there are as many windows as moves.
    let start = quota.quota().window_at(&key, block_on(subject.now())).end();
    subject.set_time(start);
    let (asked, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let admitted = Mutex::new(HashMap::<Timestamp, u64>::new());
    crowd(threads, |thread| {
        if thread == 0 {
            for window in 1..=windows {
                // Requests in flight when the clock moved may have hit the previous window.
                let enough = asked.load(Ordering::Relaxed) + ASKS + threads as u64;
                while asked.load(Ordering::Relaxed) < enough {
                    std::thread::yield_now();
                }
                subject.set_time(start + Duration::from_millis(10) * window);
            }
            done.store(true, Ordering::Relaxed);
            return;
        }
        while !done.load(Ordering::Relaxed) {
            let counted = block_on(subject.store().charge(&[Charge::new(&quota, &key, 1)])).unwrap();
            let [quota] = &counted[..] else { panic!("one charge, one quota: {counted:?}") };
            let window = quota.window().unwrap();
            assert!(window.contains(quota.now()), "{counted:?}");
            if quota.has_room() {
                *admitted.lock().unwrap().entry(window.start()).or_default() += 1;
            }
            asked.fetch_add(1, Ordering::Relaxed);
        }
    });
    let mut admitted = admitted.into_inner().unwrap();
    // No thread waited for the last window to fill.
    admitted.retain(|window, _| *window < start + Duration::from_millis(10) * windows);
    assert_eq!(admitted.len(), windows as usize);
    assert!(admitted.values().all(|units| *units == LIMIT), "{admitted:?}");
}

/// G5, G8: in every window, threads bring more new keys than there is room for. They find at least 95 % of the cap and
/// never more than all of it, whatever the previous window held.
///
/// # Panics
///
/// If a window holds more, or is full too early.
pub fn strangers_find_the_room_there_is<S: CappedStore + SettableClock>(threads: u64, windows: u64) {
    const CAP: usize = 100;
    let subject = S::with_max_counters(CAP);
    let quota = PolicyQuota::new("strangers", "1/1m".parse().unwrap());
    for window in 0..windows {
        let held = AtomicUsize::new(0);
        crowd(threads as usize, |thread| {
            for stranger in 0..2 * CAP as u64 / threads {
                let key = Key::from((window, thread as u64, stranger));
                match block_on(subject.store().charge(&[Charge::new(&quota, &key, 1)])) {
                    Ok(counted) => held.fetch_add(usize::from(counted.is_admitted()), Ordering::Relaxed),
                    Err(StoreError::Full) => 0,
                    Err(error) => panic!("{error}"),
                };
            }
        });
        let held = held.into_inner();
        assert!((CAP * 95 / 100..=CAP).contains(&held), "{held} keys in window {window}");
        subject.set_time(block_on(subject.now()) + Duration::from_secs(60));
    }
}

/// Runs this many threads, all from the same moment, and waits for them. A deadlock ends the process, because nothing
/// else would end the test.
fn crowd(threads: usize, run: impl Fn(usize) + Sync) {
    let barrier = Barrier::new(threads);
    let (running, all_done) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if all_done.recv_timeout(Duration::from_secs(120)) == Err(RecvTimeoutError::Timeout) {
                eprintln!("a race is not over after two minutes: do its threads wait for each other?");
                std::process::abort();
            }
        });
        for thread in 0..threads {
            let (barrier, run, running) = (&barrier, &run, running.clone());
            scope.spawn(move || {
                let _running = running;
                barrier.wait();
                run(thread);
            });
        }
        drop(running);
    });
}

fn quota(policy: &str, limit: u64) -> PolicyQuota {
    // Too long for any race to cross a boundary, and below the year and a half that a memory store keeps in one word.
    PolicyQuota::new(policy, format!("{limit}/300d").parse().unwrap())
}

/// The longest possible windows, which a store may keep in another way.
fn long_quota(policy: &str, limit: u64) -> PolicyQuota {
    PolicyQuota::new(policy, format!("{limit}/3653d").parse().unwrap())
}

fn takes(store: &impl Store, charges: &[Charge<'_>]) -> bool {
    block_on(store.charge(charges)).unwrap().is_admitted()
}

fn used(store: &impl Store, quota: &PolicyQuota, key: &Key<'_>) -> u64 {
    block_on(store.peek(&[Charge::new(quota, key, 0)])).unwrap()[0].used()
}
