//! Recorded histories, and whether they are linearizable.
//!
//! Eight clients charge, look at, refund and reset one counter, through two stores, while a kind of trouble comes and
//! goes. Each writes down when it asked and what it was told. Afterwards a [model](model) of the counter and
//! [stateright](https://docs.rs/stateright) look for an order of the operations that explains all answers. An operation
//! of unknown outcome may be anywhere after its call, but once.
//!
//! Where a replica takes over that lacks what its primary acknowledged last, the model may go back to an earlier state
//! of the counter, once in a history, and until the history's end both servers may answer. The old one is a replica
//! then, and answers what writes nothing by whatever it has. No charge may be there twice, on either.
//!
//! Histories of [holds] have a model and a search of their own.

mod history;
mod holds;
mod kinds;
mod model;
mod record;

use std::fmt;
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use fastrand::Rng;
use tokio::task::JoinHandle;
use tollgate_testkit::block_on;

use self::history::{History, Operation};
use self::holds::{HoldHistory, HoldRecorder};
use self::model::What;
use self::record::Recorder;
use crate::crowd::spawn;
use crate::fault::Found;

pub(crate) use self::kinds::{KINDS, Kind};

/// Histories that are recorded at the same time.
const AT_ONCE: usize = 12;

/// How often there is trouble at least, while histories are recorded.
const TIMES: u32 = 5;

/// How trouble changes what servers have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loss {
    /// Not at all.
    Nothing,
    /// Once, a replica takes over with an earlier state.
    Failover,
}

/// What the histories of a kind came to.
#[derive(Debug, Default)]
pub(crate) struct Judged {
    pub(crate) histories: u64,
    pub(crate) operations: usize,
    pub(crate) unknown: usize,
    pub(crate) violations: Vec<String>,
}

/// A history of one of the two sorts.
pub(crate) enum Recorded {
    Charges(History),
    Holds(HoldHistory),
}

/// Records about so many histories of charges, and more until the trouble is over. `trouble` is called again and again
/// as long as histories are recorded, or once if a failover is to happen once in a history.
pub(crate) fn record(
    recorder: Recorder,
    rng: &mut Rng,
    count: u64,
    loss: Loss,
    trouble: impl FnMut(&mut Rng),
) -> Vec<Recorded> {
    let recorder = Arc::new(recorder);
    let start = {
        let recorder = recorder.clone();
        move |rng| {
            let recorder = recorder.clone();
            async move { Some(recorder.record(rng).await) }
        }
    };
    let (mut histories, failover) = run(start, rng, count, (loss, &|| recorder.moment()), trouble);
    for history in &mut histories {
        history.operations.extend(failover.map(|invoked| Operation {
            client: usize::MAX,
            what: What::Failover,
            invoked,
            returned: None,
        }));
    }
    histories.into_iter().map(Recorded::Charges).collect()
}

/// Records histories of holds in the same way. No trouble of theirs loses anything.
pub(crate) fn record_holds(
    recorder: HoldRecorder,
    rng: &mut Rng,
    count: u64,
    trouble: impl FnMut(&mut Rng),
) -> Vec<Recorded> {
    let recorder = Arc::new(recorder);
    let start = move |rng| recorder.clone().record(rng);
    run(start, rng, count, (Loss::Nothing, &|| 0), trouble).0.into_iter().map(Recorded::Holds).collect()
}

/// Returns the histories, and the moment of the failover.
fn run<H, F>(
    start: impl Fn(Rng) -> F + Clone + Send + 'static,
    rng: &mut Rng,
    count: u64,
    (loss, moment): (Loss, &dyn Fn() -> u64),
    mut trouble: impl FnMut(&mut Rng),
) -> (Vec<H>, Option<u64>)
where
    H: Send + 'static,
    F: Future<Output = Option<H>> + Send,
{
    let started = Arc::new(AtomicU64::new(0));
    let is_over = Arc::new(AtomicBool::new(false));
    let workers: Vec<JoinHandle<Vec<H>>> = (0..AT_ONCE)
        .map(|_| {
            let (start, started, is_over) = (start.clone(), started.clone(), is_over.clone());
            let mut rng = rng.fork();
            spawn(async move {
                let mut histories = Vec::new();
                while started.fetch_add(1, Relaxed) < count || !is_over.load(Relaxed) {
                    histories.extend(start(rng.fork()).await);
                }
                histories
            })
        })
        .collect();
    let mut failover = None;
    match loss {
        Loss::Failover => {
            // So that some histories are running.
            std::thread::sleep(Duration::from_millis(rng.u64(20..100)));
            failover = Some(moment());
            trouble(rng);
        }
        Loss::Nothing => {
            let mut times = 0;
            let is_more = |times| times < TIMES || started.load(Relaxed) < count;
            while is_more(times) && !workers.iter().all(JoinHandle::is_finished) {
                trouble(rng);
                times += 1;
            }
        }
    }
    is_over.store(true, Relaxed);
    (workers.into_iter().flat_map(|worker| block_on(worker).unwrap()).collect(), failover)
}

impl Recorded {
    fn operations(&self) -> usize {
        match self {
            Self::Charges(history) => history.operations.len(),
            Self::Holds(history) => history.operations(),
        }
    }

    fn unknown_outcomes(&self) -> usize {
        match self {
            Self::Charges(history) => history.unknown_outcomes(),
            Self::Holds(history) => history.unknown_outcomes(),
        }
    }

    fn judge(&self) -> Result<(), String> {
        match self {
            Self::Charges(history) => history.judge(),
            Self::Holds(history) => history.judge(),
        }
    }
}

impl Kind {
    /// Records and judges at least so many histories, up to the first violation. Servers are restarted for some at a
    /// time.
    pub(crate) fn judge(&self, seed: u64, count: u64) -> Judged {
        let mut all = Judged::default();
        for seed in (0..).map(|round: u64| seed.wrapping_add(round)) {
            let left = count.saturating_sub(all.histories);
            if left == 0 || !all.violations.is_empty() {
                break;
            }
            let recorded = catch_unwind(|| self.record(seed, left));
            let Ok(histories) = recorded else {
                all.violations.push("a panic, see above".to_owned());
                break;
            };
            all.histories += histories.len() as u64;
            for history in histories {
                all.operations += history.operations();
                all.unknown += history.unknown_outcomes();
                // To see that no order will do takes long.
                if all.violations.is_empty() {
                    all.violations.extend(history.judge().err());
                }
            }
        }
        if let Some(violation) = all.violations.first() {
            println!("violation: {}, seed {seed}: {violation}", self.name);
            println!("cargo xtask prove histories --kind {} --seed {seed}", self.name);
        }
        println!("RESULT prove/histories/{} {all}", self.name);
        all
    }

    /// As a round of a fault.
    pub(crate) fn found(&self, seed: u64, count: u64) -> Found {
        Found { violations: self.judge(seed, count).violations, ..Found::default() }
    }

    fn test(&self, count: u64) -> Judged {
        let judged = self.judge(0, count);
        assert!(judged.violations.is_empty(), "{} violations, see above", judged.violations.len());
        judged
    }
}

impl Judged {
    pub(crate) fn add(&mut self, other: Self) {
        self.histories += other.histories;
        self.operations += other.operations;
        self.unknown += other.unknown;
        self.violations.extend(other.violations);
    }
}

/// The figures of a RESULT line.
impl fmt::Display for Judged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { histories, operations, unknown, violations } = self;
        let violations = violations.len();
        write!(f, "histories={histories} operations={operations} unknown={unknown} violations={violations}")
    }
}

#[test]
fn histories_of_one_server_are_linearizable() {
    kinds::SINGLE.test(24);
}

#[test]
fn histories_across_the_ends_of_windows_are_linearizable() {
    kinds::WINDOW_ENDS.test(24);
}

#[test]
fn histories_over_connections_in_trouble_are_linearizable() {
    assert!(kinds::CUT.test(24).unknown > 0, "no outcome was unknown");
}

#[test]
fn histories_of_windows_from_the_first_hit_are_linearizable() {
    kinds::FIRST_HIT.test(24);
}

#[test]
fn histories_of_other_kinds_are_linearizable() {
    kinds::OTHER_KINDS.test(36);
}

#[test]
fn histories_of_a_server_that_hangs_are_linearizable() {
    assert!(kinds::HANG.test(24).unknown > 0, "no outcome was unknown");
}

#[test]
fn histories_of_holds_are_linearizable() {
    kinds::HOLDS.test(48);
}

#[test]
fn histories_of_holds_over_connections_in_trouble_are_linearizable() {
    assert!(kinds::HOLDS_CUT.test(24).unknown > 0, "no outcome was unknown");
}
