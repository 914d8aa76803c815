//! Recorded histories of holds on one key, and whether they are linearizable.
//!
//! Eight clients reserve, renew, settle and look, and reset the units in flight. They share a few ids, so that they
//! repeat each other's steps, and sometimes use an id with other terms. A [model](model) of the key and a search for an
//! order of the steps explain all answers, or do not. A step of unknown outcome may take place at any moment after its
//! call, or never. No hold expires while a history lasts.

mod model;
mod record;

use std::collections::HashSet;
use std::fmt;

use self::model::{HeldKey, HoldReply, What};

pub(super) use self::record::HoldRecorder;

/// A step of a client. Moments are numbers that grow.
#[derive(Debug, Clone, Copy)]
struct Operation {
    client: usize,
    what: What,
    invoked: u64,
    /// When it returned, and with which reply. A step of unknown outcome never returns.
    returned: Option<(u64, HoldReply)>,
}

/// What clients did with the holds of one key.
#[derive(Debug)]
pub(crate) struct HoldHistory {
    operations: Vec<Operation>,
}

/// The search has a bit for each operation.
const MOST: usize = 128;

/// Points of one search. Most histories have fewer than a hundred.
const POINTS: usize = 200_000;

impl HoldHistory {
    /// Whether some order of the operations explains all replies.
    ///
    /// # Errors
    ///
    /// If there is none, or the search for one takes too long.
    pub(crate) fn judge(&self) -> Result<(), String> {
        if self.operations.len() > MOST {
            return Err(format!("{} operations are too many to be judged", self.operations.len()));
        }
        let bits =
            |(place, operation): (usize, &Operation)| u128::from(operation.returned.is_some()) << place;
        let all_returned: u128 = self.operations.iter().enumerate().map(bits).sum();
        // Points from which the search goes on: the operations that took place, and the key after them.
        let mut points = vec![(0_u128, HeldKey::default())];
        let mut seen = HashSet::new();
        while let Some((taken, key)) = points.pop() {
            if taken & all_returned == all_returned {
                return Ok(());
            }
            if seen.len() >= POINTS {
                return Err(format!("the search is too long: {self}"));
            }
            if seen.insert((taken, key)) {
                points.extend(self.next(taken, key));
            }
        }
        Err(format!("not linearizable: {self}"))
    }

    /// The points after one more operation: each that was called before any of the others returned.
    fn next(&self, taken: u128, key: HeldKey) -> Vec<(u128, HeldKey)> {
        let left = || self.operations.iter().enumerate().filter(|(place, _)| taken & (1 << place) == 0);
        let first_return = left().filter_map(|(_, operation)| Some(operation.returned?.0)).min();
        let concurrent = left().filter(|(_, operation)| first_return.is_none_or(|at| operation.invoked < at));
        let mut next = Vec::new();
        for (place, operation) in concurrent {
            let (after, reply) = key.step(operation.what);
            let is_possible = match operation.returned {
                Some((_, returned)) => returned == reply,
                // Without effect, it may as well not have taken place.
                None => after != key,
            };
            if is_possible {
                next.push((taken | 1 << place, after));
            }
        }
        next
    }

    pub(crate) fn operations(&self) -> usize {
        self.operations.len()
    }

    /// How many outcomes no client knows.
    pub(crate) fn unknown_outcomes(&self) -> usize {
        self.operations.iter().filter(|operation| operation.returned.is_none()).count()
    }
}

/// A line for each operation, in the order of their calls.
impl fmt::Display for HoldHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} operations", self.operations.len())?;
        let mut operations: Vec<&Operation> = self.operations.iter().collect();
        operations.sort_by_key(|operation| operation.invoked);
        for Operation { client, what, invoked, returned } in operations {
            match returned {
                Some((returned, reply)) => {
                    writeln!(f, "  {invoked}..{returned} client {client}: {what:?}, {reply:?}")?;
                }
                None => writeln!(f, "  {invoked}.. client {client}: {what:?}, unknown")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::model::{IdTerms, LIMIT};
    use super::*;

    const ONE: IdTerms = IdTerms { id: 0, units: 1, cost: 2 };
    const TWO: IdTerms = IdTerms { id: 1, units: LIMIT, cost: 3 };

    fn judge(operations: &[Operation]) -> Result<(), String> {
        HoldHistory { operations: operations.to_vec() }.judge()
    }

    fn answered(what: What, [invoked, returned]: [u64; 2], reply: HoldReply) -> Operation {
        Operation { client: 0, what, invoked, returned: Some((returned, reply)) }
    }

    fn unknown(what: What, invoked: u64) -> Operation {
        Operation { client: 1, what, invoked, returned: None }
    }

    fn admitted(terms: IdTerms, times: [u64; 2], (live, used): (u32, u64)) -> Operation {
        let reply = HoldReply::Decided { is_admitted: true, is_repeated: false, live, used };
        answered(What::Reserve(terms), times, reply)
    }

    fn repeated(terms: IdTerms, times: [u64; 2], (live, used): (u32, u64)) -> Operation {
        let reply = HoldReply::Decided { is_admitted: true, is_repeated: true, live, used };
        answered(What::Reserve(terms), times, reply)
    }

    fn look(times: [u64; 2], (live, used): (u32, u64)) -> Operation {
        let reply = HoldReply::Decided { is_admitted: false, is_repeated: false, live, used };
        answered(What::Look, times, reply)
    }

    #[test]
    fn an_id_that_is_taken_twice_is_found() {
        let first = admitted(ONE, [0, 1], (1, 2));
        judge(&[first, repeated(ONE, [2, 3], (1, 2)), look([4, 5], (1, 2))]).unwrap();
        judge(&[first, admitted(ONE, [2, 3], (2, 4))]).unwrap_err();
        judge(&[first, repeated(ONE, [2, 3], (1, 2)), look([4, 5], (2, 4))]).unwrap_err();
    }

    #[test]
    fn more_units_than_the_limit_are_found() {
        judge(&[admitted(ONE, [0, 1], (1, 2)), admitted(TWO, [2, 3], (1 + LIMIT, 5))]).unwrap_err();
        let denied = HoldReply::Decided { is_admitted: false, is_repeated: false, live: 1, used: 2 };
        let second = |times| answered(What::Reserve(TWO), times, denied);
        judge(&[admitted(ONE, [0, 1], (1, 2)), second([2, 3])]).unwrap();
        // A denial before any unit was live.
        judge(&[second([0, 1]), admitted(ONE, [2, 3], (1, 2))]).unwrap_err();
    }

    #[test]
    fn a_step_of_unknown_outcome_takes_place_once_or_never() {
        let lost = unknown(What::Reserve(ONE), 0);
        judge(&[lost, look([1, 2], (0, 0)), look([3, 4], (1, 2))]).unwrap();
        judge(&[lost, look([1, 2], (1, 2)), look([3, 4], (0, 0))]).unwrap_err();
        judge(&[lost, look([1, 2], (2, 4))]).unwrap_err();
    }

    #[test]
    fn a_settlement_is_repeated_and_frees_only_its_own_units() {
        let settle = |by, times, moved, used| {
            answered(What::Settle(ONE, by), times, HoldReply::Settled(Some((moved, used))))
        };
        let first = [admitted(ONE, [0, 1], (1, 2)), settle(-1, [2, 3], 1, 1)];
        judge(&[first[0], first[1], settle(-1, [4, 5], 1, 1), look([6, 7], (0, 1))]).unwrap();
        judge(&[first[0], first[1], settle(-1, [4, 5], 1, 0)]).unwrap_err();
        // At another cost, it is refused.
        let another = answered(What::Settle(ONE, 3), [4, 5], HoldReply::Conflict);
        judge(&[first[0], first[1], another, look([6, 7], (0, 1))]).unwrap();
        judge(&[first[0], first[1], settle(3, [4, 5], 3, 4)]).unwrap_err();
        let second = admitted(TWO, [4, 5], (LIMIT, 4));
        judge(&[first[0], first[1], second, settle(-1, [6, 7], 1, 1), look([8, 9], (LIMIT, 4))]).unwrap();
        judge(&[first[0], first[1], second, settle(-1, [6, 7], 1, 1), look([8, 9], (LIMIT - 1, 4))])
            .unwrap_err();
    }

    #[test]
    fn an_id_with_other_terms_is_a_conflict_and_nothing_else() {
        let other = IdTerms { cost: 3, ..ONE };
        let first = admitted(ONE, [0, 1], (1, 2));
        judge(&[first, answered(What::Reserve(other), [2, 3], HoldReply::Conflict)]).unwrap();
        judge(&[first, repeated(other, [2, 3], (1, 2))]).unwrap_err();
        judge(&[first, answered(What::Renew(other), [2, 3], HoldReply::Renewed)]).unwrap_err();
    }

    #[test]
    fn units_that_were_reset_are_lost() {
        let reset = answered(What::Reset, [2, 3], HoldReply::Forgotten(1));
        let renew = |reply| answered(What::Renew(ONE), [4, 5], reply);
        judge(&[admitted(ONE, [0, 1], (1, 2)), reset, renew(HoldReply::Lost)]).unwrap();
        judge(&[admitted(ONE, [0, 1], (1, 2)), reset, renew(HoldReply::Renewed)]).unwrap_err();
        judge(&[admitted(ONE, [0, 1], (1, 2)), renew(HoldReply::Expired)]).unwrap_err();
    }
}
