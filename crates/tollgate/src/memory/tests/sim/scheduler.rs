//! Which thread goes on at each atomic operation, by a seed.

use std::sync::{Arc, Mutex, PoisonError};

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

use super::answer::History;
use super::random::SeededRandom;
use super::world::World;
use super::{execution, quiet};

/// Far more than any world takes that comes to its end.
const MOST_STEPS: usize = 100_000;

/// Stays with a thread as a rule and leaves it now and then; how often is one more choice of the seed. Few switches
/// find what takes a long interruption, many find what takes a close race.
struct SeededScheduler {
    random: SeededRandom,
    once_in: usize,
    /// Whether its only execution has begun.
    has_begun: bool,
}

impl Scheduler for SeededScheduler {
    fn new_execution(&mut self) -> Option<Schedule> {
        if std::mem::replace(&mut self.has_begun, true) {
            return None;
        }
        self.once_in = self.random.one_of(&[1, 2, 3, 6, 12, 25, 60, 200]);
        Some(Schedule::new(0))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        let random = &mut self.random;
        let current = current.filter(|current| runnable.iter().any(|task| task.id() == *current));
        match current {
            Some(current) if !is_yielding && !random.once_in(self.once_in) => Some(current),
            // Whoever waits for another lets it go on.
            Some(current) if is_yielding && runnable.len() > 1 => {
                let others: Vec<TaskId> =
                    runnable.iter().map(|task| task.id()).filter(|task| *task != current).collect();
                Some(random.one_of(&others))
            }
            _ => Some(runnable[random.below(runnable.len())].id()),
        }
    }

    fn next_u64(&mut self) -> u64 {
        0
    }
}

pub(super) fn run(world: &World) -> Result<History, String> {
    let run = world.clone();
    run_in_order(world.order, move || execution::history(&run))
}

/// Runs something once, in the order of threads that this seed chooses.
pub(super) fn run_in_order<T: Send + 'static>(
    order: u64,
    run: impl Fn() -> T + Send + Sync + 'static,
) -> Result<T, String> {
    let mut config = Config::new();
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(MOST_STEPS);
    config.silence_warnings = true;
    let outcome = Arc::new(Mutex::new(None));
    let result = Arc::clone(&outcome);
    let scheduler = SeededScheduler { random: SeededRandom::new(order), once_in: 1, has_begun: false };
    quiet::caught(|| {
        Runner::new(scheduler, config).run(move || {
            let outcome = run();
            *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        })
    })?;
    let outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
    outcome.ok_or_else(|| "it did not come to its end".to_owned())
}
