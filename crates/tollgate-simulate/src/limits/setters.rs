//! The clients that set a limit, if these are robots or clients with mostly errors.
//!
//! An attack from a few addresses raises the bound of a small log to what the attack requests: no client may be left
//! out without a word, so the limit stays. It is said which clients set it, and what it would be without them.

use serde::Serialize;

use super::bound;
use super::bound::rounded_up;
use crate::histogram::Histogram;

/// The clients set the bound if without them it is lower by this factor.
const FAR: u64 = 3;

/// Requests of a client from which its errors are meaningful.
pub(crate) const ENOUGH: u64 = 20;

/// Robots or clients with mostly errors that request far more than all others and so set a limit.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LimitSetters {
    /// Their number. They are counted in the limit.
    pub clients: u64,
    /// Those of them that call themselves robots. Curves and routes do not tell robots.
    pub robots: u64,
    /// Their requests.
    pub requests: u64,
    /// Requests of theirs that were answered with a status from 400 to 499.
    pub failed: u64,
    /// The limit without them, by the same rule.
    pub limit_without: u64,
    /// The budget for which that limit is proven.
    pub budget_without: f64,
}

/// A client that is a robot, or has mostly errors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Suspect {
    /// The most that it requests in one window.
    pub(crate) most: u64,
    pub(crate) requests: u64,
    pub(crate) failed: u64,
    pub(crate) is_robot: bool,
}

/// Returns whether a client has mostly errors.
pub(crate) const fn is_failing(requests: u64, failed: u64) -> bool {
    requests >= ENOUGH && failed > requests / 2
}

impl LimitSetters {
    /// The suspects that set this bound, if they do. `others` has the most of each other client. One client in
    /// `one_in` is followed.
    pub(crate) fn of(
        others: &Histogram,
        suspects: &[Suspect],
        bound: u64,
        budget: f64,
        one_in: u64,
    ) -> Option<Self> {
        let without = |maxima: &Histogram| {
            let proven = bound::provable(maxima.count(), budget)?;
            Some((bound::suggested(maxima, proven)?, proven))
        };
        let usual = rounded_up(without(others)?.0);
        let (setters, usual): (Vec<Suspect>, Vec<Suspect>) =
            suspects.iter().copied().partition(|suspect| suspect.most > usual);
        let mut rest = others.clone();
        usual.iter().for_each(|suspect| rest.add(suspect.most));
        let (bound_without, budget_without) = without(&rest)?;
        if setters.is_empty() || bound < bound_without.saturating_mul(FAR) {
            return None;
        }
        let sum = |of: fn(&Suspect) -> u64| setters.iter().map(of).sum::<u64>() * one_in;
        Some(Self {
            clients: setters.len() as u64 * one_in,
            robots: sum(|suspect| suspect.is_robot.into()),
            requests: sum(|suspect| suspect.requests),
            failed: sum(|suspect| suspect.failed),
            limit_without: rounded_up(bound_without),
            budget_without,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAILING: Suspect = Suspect { most: 106, requests: 2_500, failed: 2_475, is_robot: false };

    fn setters(suspects: &[Suspect], bound: u64) -> Option<LimitSetters> {
        let mut others = Histogram::default();
        others.add_times(1, 2_000);
        others.add_times(2, 500);
        LimitSetters::of(&others, suspects, bound, 0.001, 1)
    }

    #[test]
    fn a_few_clients_far_above_all_others_set_the_limit() {
        let robot = Suspect { failed: 0, is_robot: true, ..FAILING };
        for (suspects, robots, failed) in [
            (vec![FAILING; 4], 0, 9_900),
            (vec![FAILING], 0, 2_475),
            (vec![robot; 3], 3, 0),
            (vec![robot, robot, FAILING], 2, 2_475),
        ] {
            let found = setters(&suspects, 106).unwrap();
            assert_eq!((found.clients, found.limit_without), (suspects.len() as u64, 2));
            assert_eq!((found.robots, found.failed), (robots, failed));
        }
    }

    /// Robots that request no more than others have no effect on a limit, and a limit that is near is no other one.
    #[test]
    fn clients_that_do_not_set_the_bound_are_not_named() {
        assert_eq!(setters(&[Suspect { most: 2, ..FAILING }; 40], 2), None);
        assert_eq!(setters(&[Suspect { most: 5, ..FAILING }; 4], 5), None);
        assert_eq!(setters(&[], 106), None);
        // One in a thousand may exceed the limit.
        assert_eq!(setters(&[FAILING], 2), None);
    }

    /// The small robots are still counted without the great ones.
    #[test]
    fn only_those_that_set_the_limit_are_left_out_of_the_other_one() {
        let mut suspects = vec![Suspect { most: 1, is_robot: true, ..FAILING }; 1_000];
        suspects.push(FAILING);
        let found = setters(&suspects, 106).unwrap();
        assert_eq!((found.clients, found.limit_without, found.budget_without), (1, 2, 0.001));
    }
}
