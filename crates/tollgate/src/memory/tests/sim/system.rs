//! The store and limiter under test: with `conversion`, the only file of the simulation that knows the library's
//! interface.

use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::super::super::fingerprint;
use super::super::super::names::{self, NamedCounter};
use super::super::super::table::{Cap, Table};
use super::super::super::time::Time;
use super::super::super::{Inner, MemoryStore};
use super::answer::{Answer, Event, History, Named, State, Step, Verdict};
use super::clock::WorldClock;
use super::conversion::{key, quota, state};
use super::world::{Ask, Naming, Op, World};
use crate::{
    BlockCharge, Charge, Counter, Decision, Full, Key, Limiter, Mark, MemoryError, PolicyQuota, Quota,
    QuotaKind, QuotaState, QuotaStates, Timestamp,
};

/// Clones share the store.
#[derive(Clone)]
pub(super) struct System {
    clock: WorldClock,
    limiter: Limiter<WorldClock>,
    parts: Arc<Parts>,
}

struct Parts {
    scopes: Vec<usize>,
    quotas: Vec<PolicyQuota>,
    keys: Vec<Key<'static>>,
    /// For each quota the one that counts its blocks.
    blocks: Vec<Option<usize>>,
    closed: Option<Mutex<Receiver<NamedCounter>>>,
    /// Marks that answers have named, with scope and key.
    marks: Mutex<Vec<(usize, usize, i64)>>,
}

impl System {
    pub(super) fn new(world: &World) -> Self {
        let clock = WorldClock::new(world);
        let (naming, closed) = match world.naming {
            Naming::Off => (names::Naming::Off, None),
            Naming::Remembered => (names::Naming::Remembered, None),
            Naming::Told(queue) => {
                let (sender, receiver) = sync_channel(queue);
                (names::Naming::Told(sender), Some(Mutex::new(receiver)))
            }
        };
        // As the builder makes it, but that the hook's thread is one of the world's.
        let table = fingerprint::with_seed(world.hash, || Table::new(Cap::Counters(world.cap), naming));
        let store = MemoryStore { inner: Arc::new(Inner { time: Time::new(clock.clone()), table }) };
        let asks = world
            .threads
            .iter()
            .flatten()
            .cloned()
            .flat_map(|mut op| op.asks_mut().iter().map(|ask| ask.key).collect::<Vec<_>>());
        let keys = asks.max().unwrap_or_default() + 1;
        let parts = Parts {
            scopes: (0..world.quotas.len()).map(|quota| world.scope(quota)).collect(),
            quotas: world.quotas.iter().map(quota).collect(),
            keys: (0..keys).map(key).collect(),
            blocks: (0..world.quotas.len()).map(|quota| world.block_of(quota)).collect(),
            closed,
            marks: Mutex::default(),
        };
        let limiter = Limiter::with_store(Quota::per_second(1), store);
        Self { clock, limiter, parts: Arc::new(parts) }
    }

    fn store(&self) -> &MemoryStore<WorldClock> {
        self.limiter.store()
    }

    /// Takes an operation, and says what happened.
    pub(super) fn act(&self, thread: usize, op: &Op) -> Vec<Event> {
        match op {
            Op::Check(asks) => self.event(thread, Step::Charge(asks.clone()), |this| this.check(asks)),
            Op::CheckBefore(asks, by) => {
                let end = self.clock.log().target(*by);
                // The clock may be moved there.
                self.clock.log().note_end(end);
                self.event(thread, Step::ChargeBefore(asks.clone(), end), |this| {
                    let end = Timestamp::from_unix_millis(end);
                    this.counted(asks, this.store().charge_before(&this.charges(asks), end))
                })
            }
            Op::Batch(requests) => self.batch(thread, requests),
            Op::Peek(asks) => self.event(thread, Step::Peek(asks.clone()), |this| {
                this.counted(asks, this.store().peek(&this.charges(asks)))
            }),
            Op::Record(ask) => self.event(thread, Step::Record(*ask), |this| {
                this.single(ask, this.store().record(&this.charge(ask)))
            }),
            Op::Block(ask) => match self.parts.blocks[ask.quota] {
                Some(block) => {
                    let asks = [*ask, Ask { quota: block, cost: 0, ..*ask }];
                    self.event(thread, Step::Block(asks), |this| this.block(&asks))
                }
                None => Vec::new(),
            },
            Op::Refund(ask, ago) => {
                let mark = self.mark(ask, *ago);
                self.event(thread, Step::Refund(*ask, mark), |this| this.refund(ask, mark))
            }
            Op::Reset(ask) => self.event(thread, Step::Reset(*ask), |this| {
                this.single(ask, Ok(this.store().reset(&this.counter(ask))))
            }),
            Op::Set(ask, used) => self.event(thread, Step::Set(*ask, *used), |this| {
                this.single(ask, this.store().set(&this.counter(ask), *used))
            }),
            Op::Sweep => self.event(thread, Step::Sweep, Self::sweep),
            Op::List => self.event(thread, Step::List, |this| {
                let named = this.store().live_counters().unwrap_or_default();
                Answer::Listed(named.iter().map(|counter| this.named(counter)).collect())
            }),
            Op::Move(by) => {
                self.clock.log().make(*by);
                Vec::new()
            }
        }
    }

    /// What happened in all.
    pub(super) fn history(&self, threads: Vec<Vec<Event>>) -> History {
        let received = self.parts.closed.iter().flat_map(|closed| {
            let closed = closed.lock().unwrap_or_else(PoisonError::into_inner);
            closed.try_iter().map(|counter| self.named(&counter)).collect::<Vec<_>>()
        });
        let (received, lost) = (received.collect(), self.store().lost_closings());
        let log = self.clock.log();
        let (readings, has_stepped_back) = (log.readings.clone(), log.has_stepped_back);
        History { threads, readings, has_stepped_back, received, lost }
    }

    fn event(&self, thread: usize, step: Step, take: impl FnOnce(&Self) -> Answer) -> Vec<Event> {
        let (called, time) = self.clock.call();
        let answer = take(self);
        let returned = self.clock.moment();
        let readings = self.clock.readings_of(thread, called);
        vec![Event {
            thread,
            called,
            returned,
            time,
            step,
            readings,
            answer,
            held: Some(self.store().counters()),
        }]
    }

    fn batch(&self, thread: usize, requests: &[Vec<Ask>]) -> Vec<Event> {
        let (called, time) = self.clock.call();
        let charges: Vec<_> = requests.iter().map(|asks| self.charges(asks)).collect();
        let steps: Vec<crate::Step<'_>> =
            charges.iter().map(|charges| crate::Step::Charge(charges)).collect();
        let answers = self.store().take_each(&steps);
        let returned = self.clock.moment();
        let readings = self.clock.readings_of(thread, called);
        assert_eq!(answers.len(), requests.len(), "a batch has an answer for each request");
        let last = requests.len() - 1;
        let event = |(number, (asks, answer)): (usize, (&Vec<Ask>, _))| Event {
            thread,
            called,
            returned,
            time,
            step: Step::Charge(asks.clone()),
            readings: readings.clone(),
            answer: self.counted(asks, answer),
            // What is held is known after the whole batch alone.
            held: (number == last).then(|| self.store().counters()),
        };
        requests.iter().zip(answers).enumerate().map(event).collect()
    }

    fn check(&self, asks: &[Ask]) -> Answer {
        match self.limiter.check_all(&self.charges(asks)) {
            Ok(decision) => {
                let states = self.states(asks, decision.quotas());
                Answer::Counted(states, Some(verdict(&decision)))
            }
            Err(Full) => Answer::Full,
        }
    }

    fn block(&self, asks: &[Ask; 2]) -> Answer {
        let [charge, block] = asks;
        let charge = BlockCharge::of(self.charge(charge), self.counter(block));
        self.counted(asks, self.store().take(crate::Step::Block(charge)))
    }

    fn refund(&self, ask: &Ask, mark: i64) -> Answer {
        let mark = Mark::at(Timestamp::from_unix_millis(mark));
        let state = self.store().refund(&self.charge(ask), mark);
        let is_open = state.kind() != QuotaKind::Window || state.mark() == mark;
        assert!(is_open || state.units() == 0, "units of a window that is over: {state:?}");
        Answer::Refunded(is_open.then(|| (state.units().into(), state.used())))
    }

    /// Does what the hook's thread does, and returns what the hook received.
    fn sweep(&self) -> Answer {
        let Inner { time, table } = &*self.store().inner;
        let dropped = table.drop_closed(time.coarse());
        if let Some(names) = table.names.as_ref().filter(|_| self.parts.closed.is_some()) {
            dropped.into_iter().for_each(|counter| names.tell(counter));
        }
        Answer::Swept
    }

    fn single(&self, ask: &Ask, answer: Result<QuotaState, Full>) -> Answer {
        self.counted(&[*ask], answer.map(QuotaStates::one))
    }

    fn counted(&self, asks: &[Ask], answer: Result<QuotaStates, impl Into<MemoryError>>) -> Answer {
        match answer.map_err(Into::into) {
            Ok(counted) => Answer::Counted(self.states(asks, &counted), None),
            Err(MemoryError::Full(Full)) => Answer::Full,
            Err(MemoryError::Ended { now }) => Answer::Ended(now.as_unix_millis()),
        }
    }

    /// Takes note of the instants and marks that an answer names.
    fn states(&self, asks: &[Ask], states: &[QuotaState]) -> Vec<State> {
        assert_eq!(asks.len(), states.len(), "an answer names each charge");
        let states: Vec<State> = states.iter().map(state).collect();
        let mut log = self.clock.log();
        let mut marks = self.parts.marks.lock().unwrap_or_else(PoisonError::into_inner);
        for (ask, state) in asks.iter().zip(&states) {
            for end in [state.retry_at.or(state.next_at), Some(state.reset_at)].into_iter().flatten() {
                log.note_end(end);
            }
            marks.push((self.parts.scopes[ask.quota], ask.key, state.mark));
        }
        states
    }

    fn mark(&self, ask: &Ask, ago: usize) -> i64 {
        let marks = self.parts.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let is_of_counter = |(scope, key, _): &&(usize, usize, i64)| {
            (*scope, *key) == (self.parts.scopes[ask.quota], ask.key)
        };
        marks.iter().rev().filter(is_of_counter).nth(ago).map_or(0, |(.., mark)| *mark)
    }

    fn charges(&self, asks: &[Ask]) -> Vec<Charge<'_>> {
        asks.iter().map(|ask| self.charge(ask)).collect()
    }

    fn charge(&self, ask: &Ask) -> Charge<'_> {
        Charge::new(&self.parts.quotas[ask.quota], &self.parts.keys[ask.key], ask.cost)
    }

    fn counter(&self, ask: &Ask) -> Counter<'_> {
        self.charge(ask).counter()
    }

    fn named(&self, counter: &NamedCounter) -> Named {
        let quota = PolicyQuota::new(&counter.policy, counter.quota.clone());
        let scope = self.parts.quotas.iter().position(|other| other.shares_counters_with(&quota));
        let key = self.parts.keys.iter().position(|key| *key == counter.key);
        let (Some(scope), Some(key)) = (scope, key) else {
            panic!("a name that no counter has: {counter:?}");
        };
        Named { scope, key, used: counter.used, end: counter.reset_at.as_unix_millis() }
    }
}

fn verdict(decision: &Decision<'_>) -> Verdict {
    Verdict {
        allowed: decision.is_allowed(),
        deciding: decision.deciding(),
        retry_after: decision.retry_after().map(|wait| i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)),
        remaining: decision.remaining(),
    }
}
