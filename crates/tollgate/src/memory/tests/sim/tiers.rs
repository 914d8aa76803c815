//! Many worlds of one kind, on all cores.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::answer::History;
#[cfg(tollgate_shuttle)]
use super::holds::tiers::{CALM_HOLDS, CROWDED_HOLDS};
use super::linearize::{Linearization, Violation, linearize};
use super::shrink::shrink;
use super::trace::trace;
use super::world::World;
use super::{execution, generate};
use crate::{Clock, SystemClock};

/// Seeds follow each other from this one on, unless `TOLLGATE_SEED` names another.
const FIRST_SEED: u64 = 1;

/// Of so many schedules, one at most may have too many orders to look at: what is not judged proves nothing.
const UNJUDGED: u64 = 1_000;

/// A kind of worlds.
struct Tier {
    name: &'static str,
    make: fn(u64) -> World,
    /// Orders of its threads in which a smaller world is tried.
    orders: u64,
}

const CALM: Tier = Tier { name: "calm", make: generate::calm, orders: 1 };

#[cfg(not(any(tollgate_shuttle, miri)))]
const BUSY: Tier = Tier { name: "busy", make: generate::busy, orders: 1 };

#[cfg(tollgate_shuttle)]
const CROWDED: Tier = Tier { name: "crowded", make: generate::crowded, orders: 60 };

/// A world that breaks a promise.
struct BrokenWorld {
    seed: u64,
    world: World,
    history: Option<History>,
    violation: Violation,
}

/// What came of running some worlds.
struct TierOutcome {
    schedules: u64,
    /// Histories with too many orders to look at.
    unjudged: u64,
    found: Option<BrokenWorld>,
}

impl Tier {
    /// Runs the worlds of so many seeds, or up to the first that breaks a promise.
    fn run(&self, first: u64, schedules: u64) -> TierOutcome {
        let (next, unjudged, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        let found = Mutex::new(None);
        let work = || {
            while !stop.load(Ordering::Relaxed) {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= schedules {
                    return;
                }
                if number > 0 && number.is_multiple_of((schedules / 10).max(10_000)) {
                    eprintln!("{}: {number} of {schedules} schedules", self.name);
                }
                let seed = first.wrapping_add(number);
                let world = (self.make)(seed);
                match look(&world) {
                    (_, Linearization::Explained) => {}
                    (_, Linearization::Unknown) => drop(unjudged.fetch_add(1, Ordering::Relaxed)),
                    (history, Linearization::Violated(violation)) => {
                        stop.store(true, Ordering::Relaxed);
                        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                        found.get_or_insert(BrokenWorld { seed, world, history, violation });
                    }
                }
            }
        };
        let cores = thread::available_parallelism().map_or(1, usize::from);
        thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(work))));
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        let schedules = next.into_inner().min(schedules);
        TierOutcome { schedules, unjudged: unjudged.into_inner(), found }
    }

    /// Like [`run`](Self::run), but for as many as the environment says; prints a result, and what it found.
    fn prove(&self, schedules: u64) {
        let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
        let schedules = number("TOLLGATE_SCHEDULES").unwrap_or(schedules);
        let start = SystemClock.now();
        let TierOutcome { schedules, unjudged, found } =
            self.run(number("TOLLGATE_SEED").unwrap_or(FIRST_SEED), schedules);
        let seconds = SystemClock.now().since(start).as_secs_f64().max(0.001);
        let (name, violations) = (self.name, u8::from(found.is_some()));
        println!(
            "\nRESULT prove/sim/{name} schedules={schedules} per_second={:.0} unjudged={unjudged} violations={violations}",
            schedules as f64 / seconds
        );
        if let Some(found) = found {
            panic!("{}", self.report(&found));
        }
        assert!(
            unjudged * UNJUDGED <= schedules,
            "too many schedules are not judged: {unjudged} of {schedules}"
        );
    }

    /// The trace of a world that breaks a promise, cut down.
    fn report(&self, found: &BrokenWorld) -> String {
        let BrokenWorld { seed, world, history, violation } = found;
        let small = shrink(world, |candidate| self.failing_order(candidate));
        let trace = match look(&small) {
            (history, Linearization::Violated(violation)) => trace(&small, history.as_ref(), &violation),
            _ => trace(world, history.as_ref(), violation),
        };
        let operations = world.operations();
        format!(
            "seed {seed} of the {} tier breaks a promise; cut down from {operations} operations:\n\n{trace}\n\
             Run it again: cargo xtask prove sim --seed {seed} --schedules 1\n",
            self.name
        )
    }

    /// This world in an order of its threads that breaks a promise.
    fn failing_order(&self, world: &World) -> Option<World> {
        (0..self.orders).find_map(|other| {
            let world = World { order: world.order.wrapping_add(other), ..world.clone() };
            matches!(look(&world), (_, Linearization::Violated(_))).then_some(world)
        })
    }
}

/// Runs a world and judges it.
fn look(world: &World) -> (Option<History>, Linearization) {
    match execution::run(world) {
        Ok(history) => {
            let linearization = linearize(world, &history);
            (Some(history), linearization)
        }
        Err(promise) => (None, Linearization::Violated(Violation { promise, at: None })),
    }
}

#[test]
fn calm_worlds_break_no_promise() {
    CALM.prove(if cfg!(miri) { 5 } else { 300 });
}

/// Shuttle and miri are too slow for it.
#[cfg(not(any(tollgate_shuttle, miri)))]
#[test]
fn busy_worlds_break_no_promise() {
    BUSY.prove(60);
}

#[cfg(tollgate_shuttle)]
#[test]
fn crowded_worlds_break_no_promise() {
    CROWDED.prove(1_000);
}

/// Looks for the bug that was put into the sources, in worlds of all kinds in turn.
#[cfg(tollgate_shuttle)]
#[test]
#[ignore = "no bug is planted: cargo xtask prove sim --planted"]
fn a_planted_bug_is_found() {
    const MOST: u64 = 400_000;
    const TURN: u64 = 500;
    let mut looked = 0;
    for turn in 0..MOST / TURN / 4 {
        for tier in [CALM, CROWDED] {
            let outcome = tier.run(FIRST_SEED + turn * TURN, TURN);
            looked += outcome.schedules;
            if let Some(found) = outcome.found {
                println!("\nFOUND schedules={looked} tier={} by={}", tier.name, found.violation.promise);
                return;
            }
        }
        for tier in [CALM_HOLDS, CROWDED_HOLDS] {
            looked += TURN;
            if let Some((_, promise)) = tier.run(FIRST_SEED + turn * TURN, TURN) {
                println!("\nFOUND schedules={looked} tier={} by={promise}", tier.name);
                return;
            }
        }
    }
    panic!("not found in {looked} schedules");
}
