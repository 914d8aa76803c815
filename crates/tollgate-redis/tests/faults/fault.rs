//! A fault, its rounds, and what they found.

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fastrand::Rng;
use tokio::task::JoinHandle;
use tollgate_testkit::servers::Software;

use crate::crowd::spawn;

/// How long a decision of a hasty store may take.
pub(crate) const DEADLINE: Duration = Duration::from_millis(20);

/// One kind of trouble.
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    /// Brings it about on servers of its own, at moments that the seed decides.
    pub(crate) round: fn(&mut Round),
}

/// One round of a fault.
pub(crate) struct Round {
    seed: u64,
    pub(crate) rng: Rng,
    pub(crate) found: Found,
}

/// What rounds found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// How often the fault was brought about.
    pub(crate) faults: u64,
    pub(crate) violations: Vec<String>,
    /// How long decisions took while it lasted. Not of those that were refused without asking anybody, which take
    /// microseconds and would hide the others.
    pub(crate) took: Vec<Duration>,
    /// How long after it everything was served again.
    pub(crate) recoveries: Vec<Duration>,
}

/// How long decisions and recoveries may take.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bounds {
    /// What is promised, on a machine that does nothing else.
    Promised,
    /// For a machine that is busy with other tests and stands still now and then. What is over these, and over what
    /// the machine itself was late, waits for no deadline at all.
    Generous,
}

impl Bounds {
    /// Returns the highest p99 for decisions, on a machine that was late by this much.
    fn p99(self, machine: Duration) -> Duration {
        match self {
            Self::Promised => DEADLINE + Duration::from_millis(5),
            Self::Generous => Duration::from_secs(1) + machine,
        }
    }

    fn recovery(self) -> Duration {
        Duration::from_secs(match self {
            Self::Promised => 2,
            Self::Generous => 60,
        })
    }
}

/// One broken promise can break many.
const SHOWN: usize = 10;

impl Fault {
    /// A few rounds, of which every one has the same seed each time.
    pub(crate) fn test(&self, rounds: u64) {
        let found = self.run(0, rounds, Bounds::Generous);
        assert!(found.violations.is_empty(), "{} violations, see above", found.violations.len());
    }

    /// So many rounds, with this seed and those that follow it.
    pub(crate) fn run(&self, seed: u64, rounds: u64, bounds: Bounds) -> Found {
        let mut all = Found::default();
        let timers = Timers::watch();
        for seed in (0..rounds).map(|round| seed.wrapping_add(round)) {
            let mut round = Round { seed, rng: Rng::with_seed(seed), found: Found::default() };
            let ended = catch_unwind(AssertUnwindSafe(|| (self.round)(&mut round)));
            if ended.is_err() {
                round.found.violations.push("a panic, see above".to_owned());
            }
            self.report(seed, &round.found.violations);
            all.add(round.found);
        }
        all.judge_times(bounds, timers.took());
        println!(
            "RESULT prove/redis/{} rounds={rounds} faults={} violations={} p99_ms={:.1} recovery_ms={:.0}",
            self.name,
            all.faults,
            all.violations.len(),
            millis(all.p99()),
            millis(all.longest_recovery()),
        );
        all
    }

    fn report(&self, seed: u64, violations: &[String]) {
        for violation in violations.iter().take(SHOWN) {
            println!("violation: {}, seed {seed}: {violation}", self.name);
        }
        if !violations.is_empty() {
            println!("{} violations in this round; to replay it:", violations.len());
            println!("cargo xtask prove redis --fault {} --rounds 1 --seed {seed}", self.name);
        }
    }
}

impl Round {
    /// Rounds take turns.
    pub(crate) fn software(&self) -> Software {
        self.in_turn(&Software::ALL)
    }

    /// Rounds take turns.
    pub(crate) fn in_turn<T: Copy>(&self, all: &[T]) -> T {
        all[(self.seed % all.len() as u64) as usize]
    }

    /// A random time of so many milliseconds.
    pub(crate) fn millis(&mut self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(self.rng.u64(range))
    }
}

impl Found {
    pub(crate) fn add(&mut self, other: Self) {
        self.faults += other.faults;
        self.violations.extend(other.violations);
        self.took.extend(other.took);
        self.recoveries.extend(other.recoveries);
    }

    /// Notes a broken promise if it is broken.
    pub(crate) fn expect(&mut self, holds: bool, broken: impl FnOnce() -> String) {
        if !holds {
            self.violations.push(broken());
        }
    }

    fn judge_times(&mut self, bounds: Bounds, timers: Vec<Duration>) {
        let longest = timers.iter().max().copied().unwrap_or_default();
        let timers = p99(timers);
        for (what, took, most) in [
            ("decisions took (p99)", self.p99(), bounds.p99(longest)),
            ("recovery took", self.longest_recovery(), bounds.recovery()),
        ] {
            if took > most {
                println!("violation: {what} {took:?}, and {most:?} are allowed");
                println!(
                    "meanwhile this machine let a timer of {DEADLINE:?} wait for {timers:?} (p99), {longest:?} at most"
                );
                self.violations.push(what.to_owned());
            }
        }
    }

    fn p99(&self) -> Duration {
        p99(self.took.clone())
    }

    fn longest_recovery(&self) -> Duration {
        self.recoveries.iter().max().copied().unwrap_or_default()
    }
}

/// Measures how long timers of [`DEADLINE`] take on the stores' runtime: a busy machine delays everything as much.
struct Timers(JoinHandle<()>, Arc<Mutex<Vec<Duration>>>);

impl Timers {
    fn watch() -> Self {
        let took = Arc::new(Mutex::new(Vec::new()));
        let watched = took.clone();
        let watch = async move {
            loop {
                let start = Instant::now();
                tokio::time::sleep(DEADLINE).await;
                watched.lock().unwrap().push(start.elapsed());
            }
        };
        Self(spawn(watch), took)
    }

    fn took(self) -> Vec<Duration> {
        self.0.abort();
        mem::take(&mut self.1.lock().unwrap())
    }
}

/// The longest, where there are fewer than a hundred.
fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    let place = (times.len() * 99).div_ceil(100);
    place.checked_sub(1).map_or(Duration::ZERO, |place| times[place])
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
