//! What a store would answer if its steps came one after another: small enough to be seen to be right.

use std::time::Duration;

use crate::QuotaStates;

/// A step, or the passing of time. Keys are indices.
#[derive(Debug, Clone, Copy)]
pub(super) enum Op {
    /// Charges a key so many units.
    Charge(usize, u32),
    /// Charges two keys one unit each, or none.
    Both(usize, usize),
    Peek(usize),
    Set(usize, u64),
    Reset(usize),
    /// Moves the clock by so many windows.
    Pass(i64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// For each key what is used, in which window.
    Admitted(Vec<(u64, i64)>),
    /// The used units are reported for one key only: those of several may be of different times.
    Denied(Option<(u64, i64)>),
    Full,
    Passed,
}

/// The counters, by the definition of a fixed window.
#[derive(Clone)]
pub(super) struct Reference {
    limit: u64,
    max_counters: usize,
    /// So many windows begin within a second: the clock may step back by that without a counter leaving its window.
    step: i64,
    now: i64,
    /// The window that came after the last of those whose counters were dropped.
    dropped_until: i64,
    /// For each key what is used, in which window.
    counters: [Option<(u64, i64)>; 3],
}

impl Answer {
    pub(super) fn new(counted: &QuotaStates, first_window: i64, window: Duration) -> Self {
        let states = counted.iter().map(|state| {
            let start = state.window().unwrap().start().as_unix_millis();
            (state.used(), (start - first_window) / window.as_millis() as i64)
        });
        let mut states: Vec<_> = states.collect();
        if counted.is_admitted() {
            Self::Admitted(states)
        } else {
            Self::Denied(states.pop().filter(|_| states.is_empty()))
        }
    }
}

impl Reference {
    pub(super) fn new(limit: u64, window: Duration, max_counters: usize) -> Self {
        let step = 1_000 / window.as_millis() as i64;
        Self { limit, max_counters, step, now: 0, dropped_until: i64::MIN / 2, counters: [None; 3] }
    }

    pub(super) fn act(&mut self, op: &Op) -> Answer {
        match *op {
            Op::Charge(key, cost) => self.charge(&[key], cost.into()),
            Op::Both(first, second) => self.charge(&[first, second], 1),
            Op::Peek(key) => {
                let state = self.state(key);
                if state.0 >= self.limit {
                    Answer::Denied(Some(state))
                } else if self.is_full(&[key]) {
                    Answer::Full
                } else {
                    Answer::Admitted(vec![state])
                }
            }
            Op::Set(key, used) => {
                let (before, window) = self.state(key);
                if before != used {
                    if self.is_full(&[key]) {
                        return Answer::Full;
                    }
                    self.counters[key] = Some((used, window));
                }
                Answer::Admitted(vec![(used, window)])
            }
            Op::Reset(key) => {
                self.counters[key] = None;
                Answer::Admitted(vec![self.state(key)])
            }
            Op::Pass(windows) => {
                self.now += windows;
                Answer::Passed
            }
        }
    }

    /// What may be stored when this step comes. A closed counter may be dropped at any time, but that is seen only
    /// when the clock steps back.
    fn versions_before(&self, op: &Op) -> impl Iterator<Item = Self> {
        let steps_back = matches!(op, Op::Pass(windows) if *windows < 0);
        let sets = if steps_back { 1 << self.counters.len() } else { 1 };
        (0..sets).map(|dropped| {
            let mut version = self.clone();
            for (key, counter) in version.counters.iter_mut().enumerate() {
                let is_dropped = |state: &(u64, i64)| dropped >> key & 1 == 1 && !self.is_live(*state);
                if let Some((_, window)) = counter.take_if(|state| is_dropped(state)) {
                    version.dropped_until = version.dropped_until.max(window + 1);
                }
            }
            version
        })
    }

    fn charge(&mut self, keys: &[usize], cost: u64) -> Answer {
        let mut states: Vec<_> = keys.iter().map(|key| self.state(*key)).collect();
        if states.iter().any(|(used, _)| used + cost > self.limit) {
            return Answer::Denied(states.pop().filter(|_| states.is_empty()));
        }
        if self.is_full(keys) {
            return Answer::Full;
        }
        for (key, state) in keys.iter().zip(&mut states) {
            state.0 += cost;
            self.counters[*key] = Some(*state);
        }
        Answer::Admitted(states)
    }

    /// What is used in which window. One that begins within a second is stayed in, because the clock has stepped back;
    /// from a later one, the counter is taken into the window that holds now. Where a window that was dropped may have
    /// been this key's, it is not opened again.
    fn state(&mut self, key: usize) -> (u64, i64) {
        let is_near = |window: i64| window - self.now <= self.step;
        let opened = if is_near(self.dropped_until) { self.dropped_until.max(self.now) } else { self.now };
        match &mut self.counters[key] {
            Some((_, window)) if *window < self.now => (0, self.now),
            Some((used, window)) => {
                *window = if is_near(*window) { *window } else { self.now };
                (*used, *window)
            }
            None => (0, opened),
        }
    }

    /// Returns whether there is no room for those of these counters that are not live. One that has closed may still be
    /// held, but then it keeps its place.
    fn is_full(&self, keys: &[usize]) -> bool {
        let new = keys.iter().filter(|key| !self.counters[**key].is_some_and(|state| self.is_live(state)));
        let new = new.count();
        new > 0 && self.live() + new > self.max_counters
    }

    fn live(&self) -> usize {
        self.counters.iter().flatten().filter(|state| self.is_live(**state)).count()
    }

    fn is_live(&self, (_, window): (u64, i64)) -> bool {
        window >= self.now
    }

    /// Returns whether so many counters may be held: closed ones count until their slots are needed.
    fn may_hold(&self, keys: usize) -> bool {
        (self.live()..=self.counters.iter().flatten().count()).contains(&keys)
    }
}

/// Returns whether some order of all threads' steps gives these answers, then those of `left`, and leaves so many keys.
pub(super) fn explains(
    reference: &Reference,
    threads: &[Vec<(&Op, &Answer)>],
    left: &[(Op, Answer)],
    keys: usize,
) -> bool {
    if threads.iter().all(Vec::is_empty) {
        let mut reference = reference.clone();
        return reference.may_hold(keys) && left.iter().all(|(op, answer)| reference.act(op) == *answer);
    }
    (0..threads.len()).any(|thread| {
        let Some(((op, answer), rest)) = threads[thread].split_first() else { return false };
        let mut threads = threads.to_vec();
        threads[thread] = rest.to_vec();
        reference
            .versions_before(op)
            .any(|mut reference| reference.act(op) == **answer && explains(&reference, &threads, left, keys))
    })
}
