//! Checks whether a request may meet two lists of conditions, as far as their written form shows it.

use crate::conditions::Way;
use crate::implied::test_implies;
use crate::{Condition, Conditions, Network, Pattern, Test, Value};

/// Returns whether both may hold for one request. It may return `true` if the opposite is hard to prove, and returns
/// `false` only if no request with one value for each attribute meets both.
pub(crate) fn overlap(conditions: &Conditions, others: &Conditions) -> bool {
    conditions.ways().any(|way| others.ways().any(|other| !are_apart(way, other)))
}

/// Returns whether no request meets both.
fn are_apart(way: Way<'_>, other: Way<'_>) -> bool {
    let excludes = |one: &Condition, other: &Condition| {
        one.attribute == other.attribute && no_value_fulfils(&one.test, &other.test)
    };
    way.iter().any(|condition| other.iter().any(|other| excludes(condition, other)))
}

/// Returns whether no value meets both.
fn no_value_fulfils(one: &Test, other: &Test) -> bool {
    match (one, other) {
        (Test::All(tests), test) | (test, Test::All(tests)) => {
            tests.iter().any(|one| no_value_fulfils(one, test))
        }
        (Test::OneOf(patterns), Test::OneOf(others)) => none_meet(patterns, others, no_text_fits_both),
        (Test::Within(networks), Test::Within(others)) => none_meet(networks, others, lie_apart),
        (one, test) | (test, one) if is_absence(one) => {
            !test.holds(None) && !test.holds(Some(Value::of("", "")))
        }
        (Test::Not(denied), test) | (test, Test::Not(denied)) => test_implies(test, denied),
        _ => false,
    }
}

fn is_absence(test: &Test) -> bool {
    matches!(test, Test::Absent) || matches!(test, Test::Not(denied) if **denied == Test::Present)
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
