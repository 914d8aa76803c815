//! The holds of a keeper, and what is due for them.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use super::life::HoldLife;
use super::{HoldEnding, RenewableHold};
use crate::clock::Clock;
use crate::{HoldAnswer, StoreError, Timestamp};

/// The holds of a keeper. Its lock is held for a few steps on maps only, so guards take it where they are dropped.
pub(super) struct Schedule {
    clock: Arc<dyn Clock>,
    holds: Mutex<ScheduledHolds>,
}

struct ScheduledHolds {
    by_number: HashMap<u64, ScheduledHold>,
    /// What the task has to do, by time. A hold that waits for an answer is not in it.
    due: BTreeSet<(Timestamp, u64)>,
    /// When holds are lost whose owners wait for that.
    ends: BTreeSet<(Timestamp, u64)>,
    next_number: u64,
    /// Holds that wait for their end.
    ending: usize,
    max_ending: usize,
    /// When the task wakes by itself.
    wakes_at: Option<Timestamp>,
    /// Taken by the first that wakes it.
    waker: Option<Waker>,
    is_closed: bool,
}

struct ScheduledHold {
    hold: Arc<dyn RenewableHold>,
    life: Arc<HoldLife>,
    length: Duration,
    task: HoldTask,
    /// Its place in `due`.
    due: Option<Timestamp>,
    /// Its place in `ends`.
    watched_until: Option<Timestamp>,
}

/// What the task does for a hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HoldTask {
    /// Nothing: it is asked for, or lost.
    Nothing,
    Renew,
    /// Ends it, if that succeeds before this time.
    End(HoldEnding, Timestamp),
}

/// A call that the task makes.
pub(super) struct DueCall {
    pub(super) number: u64,
    pub(super) hold: Arc<dyn RenewableHold>,
    pub(super) task: HoldTask,
    /// The time before it is sent.
    pub(super) sent_at: Timestamp,
}

/// What the task does next.
pub(super) enum NextStep {
    /// Makes these calls.
    Calls(Vec<DueCall>),
    /// Sleeps so long, or until it is woken.
    Sleep(Option<Duration>),
    /// Nobody is left who could have a hold.
    Done,
}

impl Schedule {
    pub(super) fn new(clock: Arc<dyn Clock>, max_ending: usize) -> Self {
        let holds = ScheduledHolds {
            by_number: HashMap::new(),
            due: BTreeSet::new(),
            ends: BTreeSet::new(),
            next_number: 0,
            ending: 0,
            max_ending,
            wakes_at: None,
            waker: None,
            is_closed: false,
        };
        Self { clock, holds: Mutex::new(holds) }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.steady_now()
    }

    pub(super) fn holds(&self) -> usize {
        self.lock().by_number.len()
    }

    pub(super) fn set_max_ending(&self, max_ending: usize) {
        self.lock().max_ending = max_ending;
    }

    /// The last keeper is gone.
    pub(super) fn close(&self) {
        let mut holds = self.lock();
        holds.is_closed = true;
        wake(holds);
    }

    /// Adds a hold that is asked for. Nothing is due for it yet.
    pub(super) fn add(&self, hold: Arc<dyn RenewableHold>, life: Arc<HoldLife>) -> u64 {
        let hold = ScheduledHold {
            hold,
            life,
            length: Duration::ZERO,
            task: HoldTask::Nothing,
            due: None,
            watched_until: None,
        };
        let mut holds = self.lock();
        let number = holds.next_number;
        holds.next_number += 1;
        holds.by_number.insert(number, hold);
        number
    }

    /// Renews a hold from now on. It was confirmed by a call that was sent at this time, and lives so long from then.
    pub(super) fn renew(&self, number: u64, sent_at: Timestamp, length: Duration) {
        let mut holds = self.lock();
        if let Some(hold) = holds.by_number.get_mut(&number) {
            (hold.task, hold.length) = (HoldTask::Renew, length);
            hold.life.confirm(sent_at + length);
            holds.plan(number, renewal_time(sent_at, length));
            wake_for(holds, renewal_time(sent_at, length));
        }
    }

    /// Wakes the task when the life of this hold ends, so that its owner learns of it.
    pub(super) fn watch(&self, number: u64) {
        let mut holds = self.lock();
        let ends_at = holds.watch(number);
        if let Some(ends_at) = ends_at {
            wake_for(holds, ends_at);
        }
    }

    /// Forgets a hold that has ended, or never began.
    pub(super) fn forget(&self, number: u64) {
        let hold = self.lock().remove(number);
        // Not under the lock, because dropping a hold may drop a store.
        drop(hold);
    }

    /// Leaves the end of a hold to the task, which tries until the hold has expired. If too many wait for their end, it
    /// is left to expire at once.
    pub(super) fn end(&self, number: u64, ending: HoldEnding, length: Duration) {
        let now = self.now();
        let mut holds = self.lock();
        if holds.ending >= holds.max_ending {
            let hold = holds.remove(number);
            drop(holds);
            return drop(hold);
        }
        let is_calling = holds.is_calling(number);
        let Some(hold) = holds.by_number.get_mut(&number) else { return };
        hold.task = HoldTask::End(ending, now + length);
        holds.ending += 1;
        if !is_calling {
            holds.plan(number, now);
        }
        wake(holds);
    }

    /// Returns what the task does next, with room for so many more calls. If it sleeps, this waker wakes it earlier.
    pub(super) fn next_step(&self, room: usize, is_idle: bool, waker: &Waker) -> NextStep {
        let now = self.now();
        let lost = self.lock().take_lost(now);
        for life in lost {
            life.is_lost_at(now);
        }
        let mut holds = self.lock();
        let mut calls = Vec::new();
        while calls.len() < room {
            let Some((due, number)) = holds.due.first().copied().filter(|(due, _)| *due <= now) else {
                break;
            };
            holds.due.remove(&(due, number));
            let Some(hold) = holds.by_number.get_mut(&number) else { continue };
            hold.due = None;
            let is_over = hold.life.ends_at() <= now;
            match hold.task {
                HoldTask::Nothing => {}
                // Nothing brings it back.
                HoldTask::Renew if is_over => hold.task = HoldTask::Nothing,
                task => {
                    calls.push(DueCall { number, hold: Arc::clone(&hold.hold), task, sent_at: now });
                }
            }
        }
        if !calls.is_empty() {
            return NextStep::Calls(calls);
        }
        if holds.is_closed && holds.by_number.is_empty() && is_idle {
            return NextStep::Done;
        }
        // Without room, an answer wakes the task before it can do what is due.
        let first_due = holds.due.first().filter(|_| room > 0).map(|(due, _)| *due);
        let first_end = holds.ends.first().map(|(end, _)| *end);
        holds.wakes_at = first_due.into_iter().chain(first_end).min();
        let pause = holds.wakes_at.map(|at| at.since(now));
        let before = holds.waker.replace(waker.clone());
        drop(holds);
        // After the lock, because dropping a waker may drop a task that has a hold.
        drop(before);
        NextStep::Sleep(pause)
    }

    /// Takes the answer to a call.
    pub(super) fn answered(
        &self,
        number: u64,
        call: HoldTask,
        sent_at: Timestamp,
        answer: &Result<HoldAnswer, StoreError>,
    ) {
        let now = self.now();
        let mut holds = self.lock();
        let Some(hold) = holds.by_number.get_mut(&number) else { return };
        // The longest that a retry can help.
        let until = match call {
            HoldTask::End(_, until) => until,
            HoldTask::Renew | HoldTask::Nothing => hold.life.ends_at(),
        };
        let retry_at = now + (until.since(now) / 8).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        let life = Arc::clone(&hold.life);
        if let HoldTask::End(ending, until) = call {
            match ending.after(answer) {
                Some(next) if next != ending => {
                    hold.task = HoldTask::End(next, until);
                    return holds.plan(number, now);
                }
                Some(_) if retry_at < until => return holds.plan(number, retry_at),
                _ => {}
            }
            let hold = holds.remove(number);
            drop(holds);
            return drop(hold);
        }
        // A guard that was dropped meanwhile waits for its end.
        let next = match (hold.task, answer) {
            (HoldTask::End(..), _) => Some(now),
            (_, Ok(HoldAnswer::Renewed { left })) => {
                life.confirm(sent_at + *left);
                holds.watch_again(number);
                Some(renewal_time(sent_at, *left))
            }
            // Its charges live on, and can be settled.
            (_, Ok(HoldAnswer::Lost)) => {
                let length = hold.length;
                life.confirm(sent_at + length);
                holds.plan(number, renewal_time(sent_at, length));
                drop(holds);
                return life.lose();
            }
            (_, Err(StoreError::Trouble { .. })) => Some(retry_at),
            // It was admitted without being counted, so it cannot be lost.
            (_, Ok(HoldAnswer::Gone)) => {
                hold.task = HoldTask::Nothing;
                life.confirm(Timestamp::from_unix_millis(i64::MAX));
                holds.watch_again(number);
                None
            }
            (_, Ok(_) | Err(_)) => {
                hold.task = HoldTask::Nothing;
                drop(holds);
                return life.lose();
            }
        };
        if let Some(next) = next {
            holds.plan(number, next);
        }
    }

    fn lock(&self) -> MutexGuard<'_, ScheduledHolds> {
        // A panic under the lock, in an allocation for example, leaves each of the collections intact.
        self.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pauses before a call that failed is repeated.
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// After a third of the length at the latest. Holds of one length are renewed at common times, so that they come
/// together.
fn renewal_time(sent_at: Timestamp, length: Duration) -> Timestamp {
    let grid = i64::try_from(length.as_millis() / 12).unwrap_or(i64::MAX).max(1);
    let latest = (sent_at + length / 3).as_unix_millis();
    Timestamp::from_unix_millis(latest - latest.rem_euclid(grid))
}

impl ScheduledHolds {
    /// Returns whether the task waits for an answer for this hold.
    fn is_calling(&self, number: u64) -> bool {
        let has_task = |hold: &ScheduledHold| hold.task != HoldTask::Nothing && hold.due.is_none();
        self.by_number.get(&number).is_some_and(has_task)
    }

    /// The task's work for a hold is due at this time.
    fn plan(&mut self, number: u64, due: Timestamp) {
        let Some(hold) = self.by_number.get_mut(&number) else { return };
        if let Some(before) = hold.due.replace(due) {
            self.due.remove(&(before, number));
        }
        self.due.insert((due, number));
    }

    fn watch(&mut self, number: u64) -> Option<Timestamp> {
        let hold = self.by_number.get_mut(&number)?;
        let ends_at = hold.life.ends_at();
        if let Some(before) = hold.watched_until.replace(ends_at) {
            self.ends.remove(&(before, number));
        }
        self.ends.insert((ends_at, number));
        Some(ends_at)
    }

    /// The life of a hold has another end.
    fn watch_again(&mut self, number: u64) {
        if self.by_number.get(&number).is_some_and(|hold| hold.watched_until.is_some()) {
            self.watch(number);
        }
    }

    /// Returns the lives that are over at this time, of those that are watched.
    fn take_lost(&mut self, now: Timestamp) -> Vec<Arc<HoldLife>> {
        let mut lost = Vec::new();
        while let Some((end, number)) = self.ends.first().copied().filter(|(end, _)| *end <= now) {
            self.ends.remove(&(end, number));
            if let Some(hold) = self.by_number.get_mut(&number) {
                hold.watched_until = None;
                lost.push(Arc::clone(&hold.life));
            }
        }
        lost
    }

    fn remove(&mut self, number: u64) -> Option<ScheduledHold> {
        let hold = self.by_number.remove(&number)?;
        if let HoldTask::End(..) = hold.task {
            self.ending -= 1;
        }
        hold.due.map(|due| self.due.remove(&(due, number)));
        hold.watched_until.map(|end| self.ends.remove(&(end, number)));
        Some(hold)
    }
}

/// Wakes the task, unless it wakes by itself before this time.
fn wake_for(holds: MutexGuard<'_, ScheduledHolds>, time: Timestamp) {
    if holds.wakes_at.is_none_or(|wakes_at| time < wakes_at) {
        wake(holds);
    }
}

/// Wakes the task after the lock, because that may run it.
fn wake(mut holds: MutexGuard<'_, ScheduledHolds>) {
    let waker = holds.waker.take();
    drop(holds);
    if let Some(waker) = waker {
        waker.wake();
    }
}
