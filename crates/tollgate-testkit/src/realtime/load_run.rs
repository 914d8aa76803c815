//! A course: threads that charge keys around the ends of their windows, and others that bring new keys.

use std::thread;
use std::time::Duration;

use super::clock::{Allowance, Nanos, RealClock};
use super::edge_load::EdgeLoad;
use super::figures::OracleFigures;
use super::ledger::Ledger;
use super::load_target::{LoadClient, LoadTarget};
use super::terms::LoadPlan;

/// The load on a limiter.
#[derive(Debug, Clone, Copy)]
pub struct LoadRun {
    /// Threads that charge the keys of the plan.
    pub chargers: usize,
    /// The duration of the course.
    pub length: Duration,
}

/// Answers are judged in batches of this length, while the next batch runs.
const BATCH: Nanos = 300_000_000;

/// The rest after each call that brings new keys, so that a course leaves half a core of two to others.
const REST: Duration = Duration::from_micros(300);

/// Once both had settled, readings of the library's clock and of the oracle's were up to 100 ns apart.
const SKEW: Nanos = 1_000_000;

/// A store tolerates coarse readings that lag by twelve ticks, as `Clock::coarse_resolution` says.
const TICKS_BORNE: Nanos = 12;

/// How long a clock may take to settle: it looks at the wall clock once a second.
const SETTLING: Nanos = 60_000_000_000;

impl LoadRun {
    /// Runs the course, and judges the answers.
    ///
    /// # Panics
    ///
    /// If the limiter's clock is not the system's, or a client fails.
    pub fn run(&self, target: &impl LoadTarget, plan: &LoadPlan) -> OracleFigures {
        let mut clock = RealClock::new();
        let mut ledger = Ledger::new(plan, Allowance { skew: SKEW, lag: TICKS_BORNE * RealClock::tick() });
        let mut chargers: Vec<_> = (0..self.chargers)
            .map(|index| (target.client(), EdgeLoad::new(plan, index, self.chargers)))
            .collect();
        let mut bringer = target.client();
        let mut next_key = 0;
        let mut unjudged = Vec::new();
        settle(&mut bringer, &clock);
        let until = clock.now() + i64::try_from(self.length.as_nanos()).expect("a course ends");
        while clock.now() < until {
            let deadline = clock.now() + BATCH;
            let answers = thread::scope(|scope| {
                scope.spawn(|| ledger.judge(&unjudged));
                let charge = chargers.iter_mut().map(|(client, charger)| {
                    let clock = &clock;
                    scope.spawn(move || charger.charge(client, clock, deadline))
                });
                let charging: Vec<_> = charge.collect();
                while clock.now() < deadline {
                    next_key = bringer.bring(next_key);
                    thread::sleep(REST);
                }
                let answers = charging.into_iter().map(|thread| thread.join().expect("clients do not fail"));
                answers.flatten().collect()
            });
            unjudged = answers;
            if clock.was_set_forward() {
                // The limiter's time for these is unknown, and so it is for those of the last batch that overlap them.
                unjudged.clear();
                ledger.forget();
                clock = RealClock::new();
                settle(&mut bringer, &clock);
            }
        }
        ledger.judge(&unjudged);
        ledger.figures().clone()
    }
}

/// Waits until the limiter's clock is not behind the oracle's. It may be for a second, if its thread was paused between
/// two readings of the system's clocks.
fn settle(client: &mut impl LoadClient, clock: &RealClock) {
    let until = clock.now() + SETTLING;
    loop {
        let before = clock.now();
        if client.now() >= before.div_euclid(1_000_000) {
            return;
        }
        assert!(before < until, "the limiter's clock is behind the system's");
        thread::sleep(Duration::from_millis(1));
    }
}
