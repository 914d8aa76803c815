//! A history: what clients did to one counter, and when.

use std::rc::Rc;

use stateright::semantics::{ConsistencyTester, LinearizabilityTester};

use super::model::{Answer, Counter, Op, Search, Terms, Unknown, What};

/// An operation of a client. Moments are numbers that grow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    pub(crate) client: usize,
    pub(crate) what: What,
    pub(crate) invoked: u64,
    /// When it returned, and with which answer. An operation of unknown outcome never returns.
    pub(crate) returned: Option<(u64, Answer)>,
}

/// What clients did to one counter.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) terms: Terms,
    pub(crate) operations: Vec<Operation>,
}

/// A moment of a history.
enum Moment {
    Invoked,
    Returned(Answer),
}

/// The model has a bit for each operation.
const MOST: usize = 128;

impl History {
    /// Whether some order of the operations explains all answers: each operation takes place at one moment between its
    /// call and its return. One of unknown outcome takes place at any moment after its call, or never.
    ///
    /// # Errors
    ///
    /// If there is none, or the search for one takes too long.
    pub(crate) fn judge(&self) -> Result<(), String> {
        if self.operations.len() > MOST {
            return Err(format!("{} operations are too many to be judged", self.operations.len()));
        }
        let answers = self.operations.iter().filter_map(|operation| Some(&operation.returned.as_ref()?.1));
        let search = Rc::new(Search::new(self.terms, answers, self.unknown()));
        let mut tester = LinearizabilityTester::new(Counter::new(&search));
        let mut moments: Vec<(u64, usize, Moment)> = Vec::new();
        for (place, operation) in self.operations.iter().enumerate() {
            if let Some((returned, answer)) = operation.returned {
                moments.push((operation.invoked, place, Moment::Invoked));
                moments.push((returned, place, Moment::Returned(answer)));
            }
        }
        moments.sort_by_key(|(at, ..)| *at);
        for (_, place, moment) in moments {
            let Operation { client, what, .. } = self.operations[place];
            match moment {
                Moment::Invoked => tester.on_invoke(client, Op { bit: 1 << place, what })?,
                Moment::Returned(answer) => tester.on_return(client, answer)?,
            };
        }
        if tester.is_consistent() {
            return Ok(());
        }
        let why = if search.is_too_long() { "the search is too long" } else { "not linearizable" };
        Err(format!("{why}: {self}"))
    }

    /// The operations of unknown outcome, in the order of their calls.
    fn unknown(&self) -> Vec<Unknown> {
        let all = || self.operations.iter().enumerate();
        let mut unknown: Vec<_> = all().filter(|(_, operation)| operation.returned.is_none()).collect();
        unknown.sort_by_key(|(_, operation)| operation.invoked);
        let bits =
            |places: &mut dyn Iterator<Item = usize>| places.fold(0, |bits, place| bits | 1_u128 << place);
        let with_order = |(number, (place, operation)): (usize, &(usize, &Operation))| {
            let is_over = |other: &Operation| other.returned.is_some_and(|(at, _)| at < operation.invoked);
            let is_equal = |(_, other): &&(usize, &Operation)| other.what == operation.what;
            let equal = unknown[..number].iter().rfind(is_equal).map(|(place, _)| *place);
            Unknown {
                bit: 1 << place,
                what: operation.what,
                after: bits(&mut all().filter(|(_, other)| is_over(other)).map(|(place, _)| place)),
                equal: bits(&mut equal.into_iter()),
            }
        };
        unknown.iter().enumerate().map(with_order).collect()
    }

    /// How many outcomes no client knows.
    pub(crate) fn unknown_outcomes(&self) -> usize {
        let is_unknown =
            |operation: &&Operation| operation.returned.is_none() && operation.what != What::Failover;
        self.operations.iter().filter(is_unknown).count()
    }
}

/// A line for each operation, in the order of their calls.
impl std::fmt::Display for History {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{:?}", self.terms)?;
        let mut operations: Vec<&Operation> = self.operations.iter().collect();
        operations.sort_by_key(|operation| operation.invoked);
        for Operation { client, what, invoked, returned } in operations {
            match returned {
                Some((returned, answer)) => {
                    writeln!(f, "  {invoked}..{returned} client {client}: {what:?}, {answer:?}")?;
                }
                None => writeln!(f, "  {invoked}.. client {client}: {what:?}, unknown")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::model::Opens;
    use super::*;

    const TERMS: Terms = Terms { limit: 5, window: 1_000, opens: Opens::FromEpoch, kind: None };

    fn history(operations: &[Operation]) -> Result<(), String> {
        History { terms: TERMS, operations: operations.to_vec() }.judge()
    }

    /// One unit, charged at 0.1 s.
    fn charge(client: usize, times: [u64; 2], used: u64) -> Operation {
        charge_at(client, times, used, 100)
    }

    fn charge_at(client: usize, [invoked, returned]: [u64; 2], used: u64, now: i64) -> Operation {
        let start = now - now % TERMS.window;
        let answer = Answer { now, start, used, units: 1, has_room: true };
        Operation { client, what: What::Charge { units: 1 }, invoked, returned: Some((returned, answer)) }
    }

    fn answered(what: What, [invoked, returned]: [u64; 2], answer: Answer) -> Operation {
        Operation { client: 9, what, invoked, returned: Some((returned, answer)) }
    }

    fn unknown(what: What, invoked: u64) -> Operation {
        Operation { client: 7, what, invoked, returned: None }
    }

    #[test]
    fn concurrent_charges_may_be_counted_in_any_order() {
        history(&[charge(0, [0, 5], 2), charge(1, [1, 4], 1)]).unwrap();
        history(&[charge(0, [0, 2], 2), charge(1, [3, 4], 1)]).unwrap_err();
    }

    #[test]
    fn a_double_charge_is_found() {
        history(&[charge(0, [0, 1], 1), charge(1, [2, 3], 3)]).unwrap_err();
        // With an unknown outcome, a unit may be there once and not twice.
        let lost = unknown(What::Charge { units: 1 }, 2);
        history(&[charge(0, [0, 1], 1), lost, charge(1, [3, 4], 3)]).unwrap();
        history(&[charge(0, [0, 1], 1), lost, charge(1, [3, 4], 2)]).unwrap();
        history(&[charge(0, [0, 1], 1), lost, charge(1, [3, 4], 4)]).unwrap_err();
    }

    #[test]
    fn a_lost_charge_is_found() {
        history(&[charge(0, [0, 1], 1), charge(1, [2, 3], 1)]).unwrap_err();
    }

    #[test]
    fn losses_that_only_a_failover_explains_are_found() {
        let lost = [charge(0, [0, 1], 1), charge(1, [2, 3], 2), charge(0, [5, 6], 2)];
        history(&lost).unwrap_err();
        let failover = |at| unknown(What::Failover, at);
        history(&[lost[0], lost[1], failover(4), lost[2]]).unwrap();
        // Not before it happens, and nothing is there twice.
        history(&[lost[0], lost[1], lost[2], failover(7)]).unwrap_err();
        history(&[lost[0], lost[1], failover(4), charge(0, [5, 6], 4)]).unwrap_err();
    }

    #[test]
    fn both_servers_count_while_a_replica_takes_over() {
        let failover = unknown(What::Failover, 2);
        history(&[
            charge(0, [0, 1], 1),
            failover,
            charge(0, [3, 4], 2),
            charge(1, [5, 6], 2),
            charge(0, [7, 8], 3),
        ])
        .unwrap();
        history(&[charge(0, [0, 1], 1), failover, charge(0, [3, 4], 1), charge(1, [5, 6], 5)]).unwrap_err();
    }

    /// A refund found nothing at a primary that had just become a replica, and was being filled.
    #[test]
    fn a_former_primary_answers_only_what_writes_nothing() {
        let failover = unknown(What::Failover, 2);
        let answer = |used, units| Answer { now: 100, start: 0, used, units, has_room: true };
        let refund = What::Refund { units: 1, start: 0 };
        let [first, second] = [charge(0, [0, 1], 1), charge(1, [5, 6], 2)];
        for (what, used) in [(What::Peek, 0), (refund, 0)] {
            let look = answered(what, [3, 4], answer(used, 0));
            history(&[first, failover, look, second]).unwrap();
            history(&[first, look, second]).unwrap_err();
        }
        let never_there = answered(What::Peek, [3, 4], answer(3, 0));
        history(&[first, failover, never_there, second]).unwrap_err();
    }

    #[test]
    fn a_denial_while_there_is_room_is_found() {
        let denied = Answer { now: 100, start: 0, used: 1, units: 0, has_room: false };
        let what = What::Charge { units: 1 };
        history(&[charge(0, [0, 1], 1), answered(what, [2, 3], denied)]).unwrap_err();
        let what = What::Charge { units: 5 };
        history(&[charge(0, [0, 1], 1), answered(what, [2, 3], denied)]).unwrap();
    }

    #[test]
    fn a_refund_gives_back_what_is_used_in_its_window() {
        let refund = |units, start| What::Refund { units, start };
        let answer = |used, units| Answer { now: 100, start: 0, used, units, has_room: true };
        let charged = charge(0, [0, 1], 1);
        history(&[charged, answered(refund(1, 0), [2, 3], answer(0, 1))]).unwrap();
        history(&[charged, answered(refund(3, 0), [2, 3], answer(0, 1))]).unwrap();
        history(&[charged, answered(refund(1, 0), [2, 3], answer(0, 0))]).unwrap_err();
        history(&[charged, answered(refund(1, -1_000), [2, 3], answer(1, 0))]).unwrap();
        history(&[charged, answered(refund(1, -1_000), [2, 3], answer(0, 1))]).unwrap_err();
        // One of unknown outcome gives back once.
        history(&[charged, unknown(refund(1, 0), 2), charge(0, [3, 4], 1)]).unwrap();
    }

    #[test]
    fn a_window_that_has_closed_is_not_counted_again() {
        let first = charge_at(0, [0, 1], 1, 999);
        history(&[first, charge_at(1, [2, 3], 1, 1_000)]).unwrap();
        history(&[first, charge_at(1, [2, 3], 2, 1_000)]).unwrap_err();
        // A unit of unknown outcome is in one of the two windows.
        let lost = unknown(What::Charge { units: 1 }, 0);
        history(&[lost, charge_at(0, [2, 3], 2, 999), charge_at(1, [4, 5], 1, 1_000)]).unwrap();
        history(&[lost, charge_at(0, [2, 3], 1, 999), charge_at(1, [4, 5], 2, 1_000)]).unwrap();
        history(&[lost, charge_at(0, [2, 3], 2, 999), charge_at(1, [4, 5], 2, 1_000)]).unwrap_err();
    }

    #[test]
    fn the_first_unit_opens_a_window_that_no_other_moves() {
        let history = |operations: &[Operation]| {
            let terms = Terms { opens: Opens::AtFirstUnit, ..TERMS };
            History { terms, operations: operations.to_vec() }.judge()
        };
        let look = |times, now, start, used| {
            answered(What::Peek, times, Answer { now, start, used, units: 0, has_room: true })
        };
        let charge = |times, now, start, used| {
            let answer = Answer { now, start, used, units: 1, has_room: true };
            answered(What::Charge { units: 1 }, times, answer)
        };
        let first = [look([0, 1], 10, 10, 0), charge([2, 3], 20, 20, 1)];
        history(&[first[0], first[1], charge([4, 5], 30, 20, 2)]).unwrap();
        history(&[first[0], first[1], charge([4, 5], 30, 30, 1)]).unwrap_err();
        history(&[first[0], first[1], charge([4, 5], 30, 30, 2)]).unwrap_err();
        // A unit of unknown outcome opened it, or did not.
        let lost = unknown(What::Charge { units: 1 }, 0);
        history(&[lost, charge([1, 2], 30, 20, 2)]).unwrap();
        history(&[lost, charge([1, 2], 30, 30, 1)]).unwrap();
        history(&[lost, charge([1, 2], 30, 20, 3)]).unwrap_err();
    }

    /// Rule 12: after a step back of the clock by a little, the counter stays in its window.
    #[test]
    fn a_clock_that_steps_back_reopens_nothing() {
        let first = charge_at(0, [0, 1], 1, 5_000);
        let second = |now, start, used| {
            let answer = Answer { now, start, used, units: 1, has_room: true };
            answered(What::Charge { units: 1 }, [2, 3], answer)
        };
        history(&[first, second(4_900, 5_000, 2)]).unwrap();
        history(&[first, second(4_900, 4_000, 1)]).unwrap_err();
        history(&[first, second(3_900, 3_000, 2)]).unwrap();
        history(&[first, second(3_900, 3_000, 1)]).unwrap_err();
    }

    /// A reset forgets the counter, and with it the window that it stayed in.
    #[test]
    fn a_reset_after_a_step_back_opens_the_window_that_holds_now() {
        let reset = Answer { now: 4_900, start: 4_000, used: 0, units: 0, has_room: true };
        let charged = [charge_at(0, [0, 1], 1, 5_000), charge_at(0, [4, 5], 1, 4_950)];
        history(&[charged[0], answered(What::Reset, [2, 3], reset), charged[1]]).unwrap();
        history(&charged).unwrap_err();
    }

    #[test]
    fn a_search_ends() {
        // Nothing explains the last answer, in whatever order the others are tried.
        let mut operations: Vec<Operation> =
            (0..60).map(|at| unknown(What::Refund { units: 1 + at, start: 0 }, at)).collect();
        operations.extend((60..100).map(|at| unknown(What::Charge { units: 1 + at % 5 }, at)));
        operations.push(charge(0, [198, 199], 1));
        operations.push(charge(0, [200, 201], 9));
        let why = history(&operations).unwrap_err();
        assert!(why.starts_with("not linearizable") || why.starts_with("the search is too long"), "{why}");
    }
}
