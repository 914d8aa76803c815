//! Whether some order of the steps explains all answers: between its call and its return each step has one moment at
//! which it happens.
//!
//! A history of one thread has one order. Those of several are searched for one, from the first step on; an order that
//! the ledger refuses is given up at once, so that few are looked at.

use super::answer::{Event, History, Named};
use super::ledger::Ledger;
use super::world::{Naming, Op, World};

/// Steps that are tried before a history is left unjudged.
const MOST_STEPS: usize = 200_000;

/// Why no order explains a history.
#[derive(Debug, Clone)]
pub(in super::super) struct Violation {
    pub(in super::super) promise: String,
    /// Thread and number of the event where the order that came furthest ends.
    pub(in super::super) at: Option<(usize, usize)>,
}

pub(in super::super) enum Linearization {
    Explained,
    Violated(Violation),
    /// There are too many orders.
    Unknown,
}

struct Search<'a> {
    world: &'a World,
    history: &'a History,
    tried: usize,
    furthest: usize,
    violation: Option<Violation>,
}

pub(in super::super) fn linearize(world: &World, history: &History) -> Linearization {
    let mut search = Search { world, history, tried: 0, furthest: 0, violation: None };
    let mut next = vec![0; history.threads.len()];
    if search.explain(&Ledger::new(world, history), &mut next) {
        return Linearization::Explained;
    }
    if search.tried > MOST_STEPS {
        return Linearization::Unknown;
    }
    let none = Violation { promise: "no order explains it".to_owned(), at: None };
    Linearization::Violated(search.violation.unwrap_or(none))
}

impl Search<'_> {
    /// Returns whether some order of the events from these on agrees with this ledger.
    fn explain(&mut self, ledger: &Ledger<'_>, next: &mut [usize]) -> bool {
        let history = self.history;
        let waiting = |next: &[usize]| -> Vec<(usize, &Event)> {
            let events = history.threads.iter().zip(next).enumerate();
            events.filter_map(|(thread, (events, next))| Some((thread, events.get(*next)?))).collect()
        };
        let events = waiting(next);
        if events.is_empty() {
            return self.agrees_in_the_end(ledger);
        }
        let first_return = events.iter().map(|(_, event)| event.returned).min().unwrap_or_default();
        for (thread, event) in events {
            // What was called after another step had returned comes after it.
            if event.called > first_return {
                continue;
            }
            self.tried += 1;
            if self.tried > MOST_STEPS {
                return false;
            }
            let mut after = ledger.clone();
            match after.accept(event) {
                Ok(()) => {
                    next[thread] += 1;
                    if self.explain(&after, next) {
                        return true;
                    }
                    next[thread] -= 1;
                }
                Err(promise) => self.note(promise, Some((thread, next[thread])), next.iter().sum()),
            }
        }
        false
    }

    fn note(&mut self, promise: String, at: Option<(usize, usize)>, depth: usize) {
        if self.violation.is_none() || depth > self.furthest {
            self.furthest = depth;
            self.violation = Some(Violation { promise, at });
        }
    }

    /// Returns whether the hook got each counter that has closed, once, and of nothing else.
    fn agrees_in_the_end(&mut self, ledger: &Ledger<'_>) -> bool {
        let Naming::Told(_) = self.world.naming else { return true };
        let resets = |op: &Op| matches!(op, Op::Reset(_) | Op::Block(_));
        // A counter that has left its window may be reported in either, and one that is reset may have closed before.
        if self.history.has_stepped_back || self.world.threads.iter().flatten().any(resets) {
            return true;
        }
        let mut received = self.history.received.clone();
        received.sort_unstable();
        received.dedup();
        let closings = ledger.closings();
        let has_closed = |closing: &Named, is_coarse: bool| {
            let mut readings = self.history.readings.iter().filter(|it| it.is_coarse || !is_coarse);
            readings.any(|it| closing.end <= it.time)
        };
        let wrong: Vec<&Named> =
            received.iter().filter(|it| !closings.contains(it) || !has_closed(it, false)).collect();
        // A precise reading closes only the counter that is asked for.
        let due = closings.iter().filter(|it| has_closed(it, true));
        let missing: Vec<&Named> = due.filter(|it| !received.contains(it)).collect();
        let lost = usize::try_from(self.history.lost).unwrap_or(usize::MAX);
        let is_right =
            wrong.is_empty() && received.len() == self.history.received.len() && missing.len() <= lost;
        if !is_right {
            let promise = format!(
                "hook: wrongly received: {wrong:?}; not received: {missing:?}, of which {lost} are lost; in all: {received:?}"
            );
            self.note(promise, None, usize::MAX);
        }
        is_right
    }
}
