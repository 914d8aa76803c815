//! Larger crowds than loom can go through: eight threads in a table of a few slots, whose counters come, go, close
//! and change places meanwhile. Afterwards the sums are exact.
//!
//! `cargo test` runs them on real threads; miri does so too, with the weaker memory of other machines; and with
//! `--cfg tollgate_shuttle` shuttle chooses who goes on at each atomic operation, at random and by PCT
//! (Burckhardt and others, 2010). A schedule that fails is printed and can be replayed.

use std::collections::HashMap;
#[cfg(not(tollgate_shuttle))]
use std::thread;
use std::time::Duration;

#[cfg(tollgate_shuttle)]
use shuttle::thread;

use super::super::slots::{ROW, ROWS};
use super::super::*;
use crate::{Key, ManualClock, PolicyQuota, Quota};

/// Miri takes a thousand times as long.
const THREADS: u64 = if cfg!(miri) { 3 } else { 8 };

/// Steps of each thread.
const TURNS: u64 = if cfg!(miri) { 4 } else { 6 };

/// As many counters as are planned for one shard.
const SHARD: usize = ROW * ROWS * 5 / 8;

/// When windows of all lengths begin.
const START: i64 = 1_700_000_040_000;

/// A store and the quotas under which it is charged.
#[derive(Clone)]
struct Place {
    store: MemoryStore<ManualClock>,
    clock: ManualClock,
    quota: Arc<PolicyQuota>,
    /// Windows that do not end on whole seconds, so that counters enter them under the lock.
    parts: Arc<PolicyQuota>,
}

/// One key under one quota, and what it asks of the store.
struct Caller<'a> {
    place: &'a Place,
    quota: &'a PolicyQuota,
    key: Key<'static>,
}

/// Numbers that look random and are the same for a seed.
struct Dice(u64);

impl Place {
    fn new(limit: u64, max_counters: usize) -> Self {
        let clock = ManualClock::at(Timestamp::from_unix_millis(START));
        let store = MemoryStore::builder().clock(clock.clone()).max_counters(max_counters).build();
        let quota = |millis| {
            let quota = Quota::new(limit, Duration::from_millis(millis)).unwrap();
            Arc::new(PolicyQuota::new("", quota))
        };
        Self { store, clock, quota: quota(1_000), parts: quota(300) }
    }

    fn caller(&self, key: u64) -> Caller<'_> {
        Caller { place: self, quota: &self.quota, key: Key::from(key) }
    }

    fn caller_in_parts(&self, key: u64) -> Caller<'_> {
        Caller { quota: &self.parts, ..self.caller(key) }
    }

    /// Runs this on so many threads at once, each with its number, and gives what they give.
    fn crowd<A: Send + 'static>(
        &self,
        threads: u64,
        run: impl Fn(&Self, u64) -> A + Clone + Send + 'static,
    ) -> Vec<A> {
        let spawn = |number| {
            let (place, run) = (self.clone(), run.clone());
            thread::spawn(move || run(&place, number))
        };
        let threads: Vec<_> = (0..threads).map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    }
}

impl Caller<'_> {
    fn charge(&self, cost: u32) -> Charge<'_> {
        Charge::new(self.quota, &self.key, cost)
    }

    fn takes(&self, cost: u32) -> QuotaStates {
        self.place.store.charge(&[self.charge(cost)]).finish().unwrap()
    }

    fn gives_back(&self, cost: u32) -> u32 {
        let start = self.quota.quota().window_at(&self.key, self.place.clock.now()).start();
        self.place.store.refund(&self.charge(cost), Mark::at(start)).units()
    }

    fn used(&self) -> u64 {
        self.place.store.peek(&[self.charge(0)]).unwrap()[0].used()
    }
}

impl Dice {
    /// A number below `sides`: SplitMix64 (Steele and others, 2014).
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % sides
    }
}

/// Everybody wants the same key, while new keys make the shard grow around it.
fn one_key(seed: u64) {
    let limit = THREADS * TURNS / 2;
    let place = Place::new(limit, SHARD);
    let admitted = place.crowd(THREADS, move |place, thread| {
        let (shared, mut dice) = (place.caller(0), Dice(seed << 8 | thread));
        let turn = |turn| {
            if dice.roll(3) == 0 {
                assert!(place.caller(1 + thread * 2 + turn % 2).takes(1).is_admitted());
            }
            u64::from(shared.takes(1).is_admitted())
        };
        (0..TURNS).map(turn).sum::<u64>()
    });
    assert_eq!(admitted.iter().sum::<u64>(), limit);
    assert_eq!(place.caller(0).used(), limit);
}

/// Each has counters of its own, which hold what it did with them, whatever the others do in the same shard.
fn own_counters(seed: u64) {
    let place = Place::new(1 << 40 >> 1, SHARD);
    place.crowd(THREADS, move |place, thread| {
        let mut dice = Dice(seed << 8 | thread);
        let callers = [place.caller(thread), place.caller_in_parts(thread)];
        let mut used = [0; 2];
        for turn in 0..TURNS {
            let which = dice.roll(2) as usize;
            let (caller, used) = (&callers[which], &mut used[which]);
            match dice.roll(8) {
                0 => {
                    assert_eq!(place.store.reset(&caller.charge(0).counter()).used(), 0);
                    *used = 0;
                }
                1 => {
                    *used = [1, u64::from(u32::MAX), 1 << 38][dice.roll(3) as usize];
                    assert_eq!(place.store.set(&caller.charge(0).counter(), *used).unwrap().used(), *used);
                }
                2 => {
                    let given = caller.gives_back(2);
                    assert_eq!(u64::from(given), 2.min(*used));
                    *used -= u64::from(given);
                }
                3 => {
                    *used += 3;
                    assert_eq!(place.store.record(&caller.charge(3)).unwrap().used(), *used);
                }
                _ => {
                    *used += 1;
                    assert_eq!(caller.takes(1)[0].used(), *used, "thread {thread}, turn {turn}");
                }
            }
            assert_eq!(caller.used(), *used, "thread {thread}, turn {turn}");
        }
    });
}

/// Two counters are charged together, from either end, and alone, and given back.
fn pairs(seed: u64) {
    const LIMIT: u64 = 10;
    let place = Place::new(LIMIT, SHARD * 2);
    let kept = place.crowd(THREADS, move |place, thread| {
        let mut dice = Dice(seed << 8 | thread);
        // The second is most likely in another shard.
        let callers = [place.caller(0), place.caller_in_parts(1)];
        let mut kept = [0, 0];
        for _ in 0..TURNS {
            match dice.roll(5) {
                both @ (0 | 1) => {
                    let [first, second] = &callers;
                    let mut charges = [first.charge(1), second.charge(1)];
                    charges.rotate_left(both as usize);
                    if place.store.charge(&charges).finish().unwrap().is_admitted() {
                        kept = kept.map(|kept| kept + 1);
                    }
                }
                one @ (2 | 3) => {
                    let one = one as usize - 2;
                    kept[one] += u64::from(callers[one].takes(2).is_admitted()) * 2;
                }
                _ => {
                    let one = dice.roll(2) as usize;
                    if kept[one] > 0 {
                        assert_eq!(callers[one].gives_back(1), 1, "what was taken can be given back");
                        kept[one] -= 1;
                    }
                    place.caller(2 + thread).takes(1);
                }
            }
        }
        kept
    });
    let [first, second] = [0, 1].map(|one| kept.iter().map(|kept: &[u64; 2]| kept[one]).sum::<u64>());
    assert_eq!((place.caller(0).used(), place.caller_in_parts(1).used()), (first, second));
    assert!(first <= LIMIT && second <= LIMIT, "{first} and {second}");
}

/// A denial of two says what is used of both, while both change their places.
fn denied_pairs(seed: u64) {
    const LIMIT: u64 = 3;
    let place = Place::new(LIMIT, SHARD);
    place.caller(0).takes(LIMIT as u32);
    place.caller(1).takes(1);
    place.crowd(THREADS, move |place, thread| {
        let mut dice = Dice(seed << 8 | thread);
        for turn in 0..TURNS {
            if thread % 2 == 0 {
                let stranger = place.caller(2 + thread * 2 + turn % 4);
                stranger.takes(1);
                if dice.roll(3) == 0 {
                    place.store.reset(&stranger.charge(0).counter());
                }
                continue;
            }
            let (full, other) = (place.caller(0), place.caller(1));
            let counted = place.store.charge(&[full.charge(1), other.charge(1)]).finish().unwrap();
            assert_eq!([0, 1].map(|quota| counted[quota].used()), [LIMIT, 1], "thread {thread}, turn {turn}");
        }
    });
}

/// Windows pass, and the slots of those who have left go to others.
fn passing_windows(seed: u64) {
    const LIMIT: u64 = 4;
    let place = Place::new(LIMIT, SHARD);
    let answers = place.crowd(THREADS, move |place, thread| {
        let mut dice = Dice(seed << 8 | thread);
        let mut answers = Vec::new();
        for turn in 0..TURNS {
            if thread == 0 && turn % 2 == 1 {
                place.clock.advance(Duration::from_millis([300, 1_000][dice.roll(2) as usize]));
                continue;
            }
            let visitor = place.caller(2 + dice.roll(THREADS * 2));
            match dice.roll(4) {
                0 => drop(visitor.takes(1)),
                1 => drop(place.store.reset(&visitor.charge(0).counter())),
                which => {
                    let caller = if which == 2 { place.caller(0) } else { place.caller_in_parts(1) };
                    answers.push((which, caller.takes(1)));
                }
            }
        }
        answers
    });
    let mut windows = HashMap::<_, (u64, bool)>::new();
    for (which, counted) in answers.into_iter().flatten() {
        let state = counted[0];
        assert!(state.window().unwrap().contains(state.now()), "{state:?}");
        let (admitted, denied) = windows.entry((which, state.window().unwrap().start())).or_default();
        *admitted += u64::from(state.has_room());
        *denied |= !state.has_room();
    }
    for (admitted, denied) in windows.into_values() {
        assert!(admitted <= LIMIT && (!denied || admitted == LIMIT), "{admitted} admitted, denied: {denied}");
    }
}

/// More keys come than there is room for, and some leave.
fn full(seed: u64) {
    const CAP: usize = 8;
    let place = Place::new(1, CAP);
    let held = place.crowd(THREADS, move |place, thread| {
        let mut dice = Dice(seed << 8 | thread);
        let mut held = 0;
        for turn in 0..TURNS {
            let stranger = place.caller(thread * TURNS + turn);
            match place.store.charge(&[stranger.charge(1)]).finish() {
                Ok(counted) => assert!(counted.is_admitted()),
                Err(error) => {
                    assert_eq!(error, Full);
                    continue;
                }
            }
            held += 1;
            if dice.roll(3) == 0 {
                place.store.reset(&stranger.charge(0).counter());
                held -= 1;
            }
        }
        held
    });
    let held = held.iter().sum::<usize>();
    assert_eq!(place.store.counters(), held);
    assert!(held <= CAP, "{held} keys are held");
    // There is room for exactly the rest.
    let strangers = |at| place.store.charge(&[place.caller(at).charge(1)]).finish().is_ok();
    assert_eq!((1_000..1_000 + CAP as u64).filter(|at| strangers(*at)).count(), CAP - held);
}

/// Runs a scene on real threads, again and again.
#[cfg(not(tollgate_shuttle))]
fn run(scene: fn(u64)) {
    let times = if cfg!(miri) { 1 } else { 300 };
    (0..times).for_each(scene);
}

/// Runs a scene in many orders: as often as `TOLLGATE_SCHEDULES` says, or 500 times.
#[cfg(tollgate_shuttle)]
fn run(scene: fn(u64)) {
    /// Different courses of a scene.
    const SEEDS: usize = 10;
    let schedules = std::env::var("TOLLGATE_SCHEDULES").ok().map_or(500, |times| times.parse().unwrap());
    let start = std::time::Instant::now();
    for seed in 0..SEEDS {
        let scene = move || scene(seed as u64);
        shuttle::check_random(scene, schedules / SEEDS / 2);
        // Orders of that many forced switches.
        shuttle::check_pct(scene, schedules / SEEDS / 2, 3 + seed % 3);
    }
    let name = std::thread::current().name().and_then(|name| name.rsplit("::").next().map(str::to_owned));
    let (name, seconds) = (name.unwrap_or_default(), start.elapsed().as_secs_f64());
    println!("RESULT prove/memory/{name} schedules={schedules} seconds={seconds:.1}");
}

#[test]
fn a_crowd_on_one_key_is_admitted_up_to_the_limit() {
    run(one_key);
}

#[test]
fn a_crowd_of_counters_in_one_shard_are_kept_apart() {
    run(own_counters);
}

#[test]
fn a_crowd_charges_pairs_together_or_not_at_all() {
    run(pairs);
}

#[test]
fn a_crowd_that_is_denied_pairs_is_told_what_is_used() {
    run(denied_pairs);
}

#[test]
fn a_crowd_fills_each_window_once() {
    run(passing_windows);
}

#[test]
fn a_crowd_fills_the_store_to_its_cap() {
    run(full);
}
