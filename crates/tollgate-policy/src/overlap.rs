//! Whether some request may fulfil two lists of conditions, as far as their written form shows it.

use crate::conditions::Way;
use crate::implied::test_implies;
use crate::{Condition, Conditions, Network, Pattern, Test};

/// Whether both may hold of one request. It may answer yes where nobody but a proof could tell, and no only where no
/// request with one value for each attribute fulfils both.
pub(crate) fn overlap(conditions: &Conditions, others: &Conditions) -> bool {
    conditions.ways().any(|way| others.ways().any(|other| !are_apart(way, other)))
}

/// Whether no request fulfils both.
fn are_apart(way: Way<'_>, other: Way<'_>) -> bool {
    let excludes = |one: &Condition, other: &Condition| {
        one.attribute == other.attribute && no_value_fulfils(&one.test, &other.test)
    };
    way.iter().any(|condition| other.iter().any(|other| excludes(condition, other)))
}

/// Whether no value fulfils both.
fn no_value_fulfils(one: &Test, other: &Test) -> bool {
    match (one, other) {
        (Test::All(tests), test) | (test, Test::All(tests)) => {
            tests.iter().any(|one| no_value_fulfils(one, test))
        }
        (Test::OneOf(patterns), Test::OneOf(others)) => none_meet(patterns, others, no_text_fits_both),
        (Test::Within(networks), Test::Within(others)) => none_meet(networks, others, lie_apart),
        (Test::Not(denied), test) | (test, Test::Not(denied)) => test_implies(test, denied),
        (Test::Absent, test) | (test, Test::Absent) => test_implies(test, &Test::Present),
        _ => false,
    }
}

fn none_meet<T>(ones: &[T], others: &[T], are_apart: impl Fn(&T, &T) -> bool) -> bool {
    ones.iter().all(|one| others.iter().all(|other| are_apart(one, other)))
}

fn no_text_fits_both(one: &Pattern, other: &Pattern) -> bool {
    match (one, other) {
        (Pattern::Exact(text), pattern) | (pattern, Pattern::Exact(text)) => !pattern.fits(text),
        (Pattern::Prefix(one), Pattern::Prefix(other)) => {
            !one.starts_with(other.as_ref()) && !other.starts_with(one.as_ref())
        }
        _ => false,
    }
}

/// Two networks have no address in common unless one has all of the other.
fn lie_apart(one: &Network, other: &Network) -> bool {
    !one.covers(other) && !other.covers(one)
}
