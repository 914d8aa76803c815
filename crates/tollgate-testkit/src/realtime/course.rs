//! A course: threads that charge keys around the ends of their windows, and others that bring new keys.

use std::thread;
use std::time::Duration;

use super::answer::{Answer, Victim};
use super::charger::Charger;
use super::clock::{Nanos, RealClock};
use super::figures::Figures;
use super::ledger::{Allowance, Ledger};
use super::terms::Plan;

/// A limiter under proof, or a service.
pub trait Target: Sync {
    /// What one thread asks it by.
    type Client<'t>: Client
    where
        Self: 't;

    /// Another client.
    fn client(&self) -> Self::Client<'_>;
}

/// What one thread asks a limiter by.
pub trait Client: Send {
    /// Asks for a unit for each of these keys, and adds the answers in any order. Where a limiter answers that it is
    /// full there is no answer to add.
    fn ask(&mut self, clock: &RealClock, victims: &[Victim], answers: &mut Vec<Answer>);

    /// Charges keys that nobody has charged before, the one with this number and some that follow. Gives the number
    /// that is next.
    fn bring(&mut self, number: u64) -> u64;

    /// The time by the limiter's clock, in Unix milliseconds.
    fn now(&mut self) -> i64;
}

/// How hard a limiter is tried.
#[derive(Debug, Clone, Copy)]
pub struct Course {
    /// Threads that charge the keys of the plan.
    pub chargers: usize,
    /// How long it takes.
    pub length: Duration,
}

/// Answers are judged in batches of so long, while the next are being asked for.
const BATCH: Nanos = 300_000_000;

/// How long those who bring new keys rest after each call, so that the course leaves half a core of two to others.
const REST: Duration = Duration::from_micros(300);

/// Readings of the library's clock and of the oracle's were up to 100 ns apart once both had settled.
const SKEW: Nanos = 1_000_000;

/// A store bears coarse readings that lag by twelve ticks, as `Clock::coarse_resolution` says.
const TICKS_BORNE: Nanos = 12;

/// How long a clock may take to settle: it looks at the wall clock once a second.
const SETTLING: Nanos = 60_000_000_000;

impl Course {
    /// Tries the limiter, and judges it.
    ///
    /// # Panics
    ///
    /// If the limiter's clock is not the system's, or a client fails.
    pub fn run(&self, target: &impl Target, plan: &Plan) -> Figures {
        let mut clock = RealClock::new();
        let mut ledger = Ledger::new(plan, Allowance { skew: SKEW, lag: TICKS_BORNE * RealClock::tick() });
        let mut chargers: Vec<_> = (0..self.chargers)
            .map(|index| (target.client(), Charger::new(plan, index, self.chargers)))
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
                // It is not known by which time these were decided, nor those of the last batch that meet them.
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

/// Waits until the limiter's clock is not behind the oracle's. It may be, for a second, if its thread was paused between
/// two readings of the system's clocks.
fn settle(client: &mut impl Client, clock: &RealClock) {
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
