//! Whether some order of the steps explains all answers.

use super::happened::{HoldAct, HoldEvent};
use super::ledger::HoldLedger;
use super::world::HoldWorld;

/// Steps that are tried before a history is left unjudged.
const MOST_STEPS: usize = 100_000;

/// Why no order explains a history: a promise, and the event at which it is broken in the order that came furthest.
#[derive(Debug, Clone)]
pub(super) struct BrokenPromise {
    pub(super) promise: String,
    pub(super) event: Option<Box<HoldEvent>>,
}

struct OrderSearch<'a> {
    threads: &'a [Vec<HoldEvent>],
    tried: usize,
    furthest: usize,
    broken: Option<BrokenPromise>,
}

/// Looks for an order of these events that the ledger accepts. One that has too many orders is left unjudged.
pub(super) fn explain(world: &HoldWorld, threads: &[Vec<HoldEvent>]) -> Result<(), BrokenPromise> {
    let mut search = OrderSearch { threads, tried: 0, furthest: 0, broken: None };
    if search.explains(&HoldLedger::new(world), &mut vec![0; threads.len()]) || search.tried > MOST_STEPS {
        return Ok(());
    }
    let none = BrokenPromise { promise: "no order explains it".to_owned(), event: None };
    Err(search.broken.unwrap_or(none))
}

impl OrderSearch<'_> {
    fn explains(&mut self, ledger: &HoldLedger<'_>, next: &mut [usize]) -> bool {
        let threads = self.threads;
        let waiting = threads.iter().zip(&*next).enumerate();
        let waiting: Vec<(usize, &HoldEvent)> =
            waiting.filter_map(|(thread, (events, next))| Some((thread, events.get(*next)?))).collect();
        let Some(first_return) = waiting.iter().map(|(_, event)| event.returned).min() else { return true };
        for (thread, event) in waiting {
            // What was called after another step had returned comes after it.
            if event.called > first_return {
                continue;
            }
            self.tried += 1;
            if self.tried > MOST_STEPS {
                return false;
            }
            let early = self.first_reading(event);
            let each = self.before(ledger, event).into_iter().flat_map(|before| {
                let mut after = before.clone();
                let accepted = after.accept(event).map(|()| after);
                let refuses_early = before.refuses_early(event, early);
                [Some(accepted), refuses_early.then_some(Ok(before))].into_iter().flatten()
            });
            for accepted in each {
                match accepted {
                    Ok(after) => {
                        next[thread] += 1;
                        if self.explains(&after, next) {
                            return true;
                        }
                        next[thread] -= 1;
                    }
                    Err(promise) => {
                        let length = next.iter().sum();
                        if length >= self.furthest || self.broken.is_none() {
                            self.furthest = length;
                            self.broken =
                                Some(BrokenPromise { promise, event: Some(Box::new(event.clone())) });
                        }
                    }
                }
            }
        }
        false
    }

    /// What may hold before this event. A step of another thread may have ended the holds that are due or the first of
    /// them, and have done nothing else yet: it ends one after another, and a guard and a check do not wait for it.
    fn before<'a>(&self, ledger: &HoldLedger<'a>, event: &HoldEvent) -> Vec<HoldLedger<'a>> {
        let mut ledgers = vec![ledger.clone()];
        if self.threads.len() > 1 && matches!(event.act, HoldAct::Guard(..) | HoldAct::Check(..)) {
            let mut times: Vec<i64> = self.overlapping(event).filter_map(|other| other.steady).collect();
            times.sort_unstable();
            times.dedup();
            if let Some(last) = times.last() {
                ledgers.extend(ledger.while_ending(*last));
            }
            ledgers.extend(times.into_iter().map(|time| ledger.clone().with_ended(time)));
        }
        ledgers
    }

    /// The time when this event was called, or the first that an overlapping one has read.
    fn first_reading(&self, event: &HoldEvent) -> i64 {
        self.overlapping(event).filter_map(|other| other.steady).fold(event.time, i64::min)
    }

    fn overlapping<'e>(&'e self, event: &'e HoldEvent) -> impl Iterator<Item = &'e HoldEvent> {
        let all = self.threads.iter().flatten();
        all.filter(|other| other.called < event.returned && event.called < other.returned)
    }
}
