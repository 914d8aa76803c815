//! Many worlds of holds of each kind, and what their failures look like.

use std::fmt::Write;

#[cfg(not(tollgate_shuttle))]
use super::super::quiet::caught;
#[cfg(tollgate_shuttle)]
use super::super::scheduler;
use super::explain::{BrokenPromise, explain};
use super::system::history;
use super::world::HoldWorld;
use super::{generate, happened::HoldEvent};
use crate::{Clock, SystemClock};

/// A kind of worlds.
pub(in super::super) struct HoldTier {
    pub(in super::super) name: &'static str,
    make: fn(u64) -> HoldWorld,
}

pub(in super::super) const CALM_HOLDS: HoldTier = HoldTier { name: "calm_holds", make: generate::calm };

#[cfg(tollgate_shuttle)]
pub(in super::super) const CROWDED_HOLDS: HoldTier =
    HoldTier { name: "crowded_holds", make: generate::crowded };

impl HoldTier {
    /// Runs the worlds of so many seeds, or up to the first that breaks a promise. Returns its seed and the promise.
    pub(in super::super) fn run(&self, first: u64, schedules: u64) -> Option<(u64, String)> {
        let broken = |seed: u64| Some((seed, look(&(self.make)(seed)).err()?.promise));
        (0..schedules).find_map(|number| broken(first.wrapping_add(number)))
    }

    /// Like [`run`](Self::run), but for as many as the environment says; prints a result, and what it found.
    fn prove(&self, schedules: u64) {
        let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
        let schedules = number("TOLLGATE_SCHEDULES").unwrap_or(schedules);
        let start = SystemClock.now();
        let found = self.run(number("TOLLGATE_SEED").unwrap_or(1), schedules);
        let ran = found.as_ref().map_or(schedules, |(seed, _)| *seed);
        let seconds = SystemClock.now().since(start).as_secs_f64().max(0.001);
        let (name, violations) = (self.name, u8::from(found.is_some()));
        println!(
            "\nRESULT prove/sim/{name} schedules={ran} per_second={:.0} unjudged=0 violations={violations}",
            ran as f64 / seconds
        );
        if let Some((seed, _)) = found {
            panic!("{}", report(seed, (self.make)(seed)));
        }
    }
}

/// Runs a world and judges it. A panic of the store breaks a promise as well.
fn look(world: &HoldWorld) -> Result<Vec<Vec<HoldEvent>>, BrokenPromise> {
    let run = world.clone();
    #[cfg(not(tollgate_shuttle))]
    let ran = caught(|| history(&run));
    #[cfg(tollgate_shuttle)]
    let ran = scheduler::run_in_order(world.order, move || history(&run));
    let threads = ran.map_err(|promise| BrokenPromise { promise, event: None })?;
    explain(world, &threads)?;
    Ok(threads)
}

/// The world without the operations that its failure does not need, and where it fails.
fn report(seed: u64, mut world: HoldWorld) -> String {
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for thread in 0..world.threads.len() {
            for op in (0..world.threads[thread].len()).rev() {
                let mut smaller = world.clone();
                smaller.threads[thread].remove(op);
                if look(&smaller).is_err() {
                    (world, changed) = (smaller, true);
                }
            }
        }
    }
    let mut report = format!("seed {seed} breaks a promise: a store of {} places\n", world.cap);
    let mut line = |text: String| writeln!(report, "{text}").unwrap_or_default();
    world.limits.iter().for_each(|limit| line(format!("{limit:?}")));
    world.quotas.iter().for_each(|quota| line(format!("{quota:?}")));
    for (thread, ops) in world.threads.iter().enumerate() {
        ops.iter().for_each(|op| line(format!("thread {thread}: {op:?}")));
    }
    if let Err(BrokenPromise { promise, event }) = look(&world) {
        line(format!("at {event:?}\n{promise}"));
    }
    report
}

#[test]
fn calm_holds_break_no_promise() {
    CALM_HOLDS.prove(if cfg!(miri) { 5 } else { 1_000 });
}

#[cfg(tollgate_shuttle)]
#[test]
fn crowded_holds_break_no_promise() {
    CROWDED_HOLDS.prove(1_000);
}
