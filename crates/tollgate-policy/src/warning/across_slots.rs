//! Whether two policies may count different keys of one request, which on a Cluster lie in different slots.

use crate::conditions::Way;
use crate::{Condition, Mode, Pattern, Policy, PolicyKind, Test};

/// Whether both decide on some request and count different keys there, as far as their written form shows it.
pub(super) fn apart(policy: &Policy, other: &Policy) -> bool {
    let decides = |policy: &Policy| policy.mode == Mode::Enforce && policy.kind == PolicyKind::Count;
    decides(policy)
        && decides(other)
        && policy.identity != other.identity
        && policy.conditions.ways().any(|way| other.conditions.ways().any(|other| !are_apart(way, other)))
}

/// Whether no request fits both.
fn are_apart(way: Way<'_>, other: Way<'_>) -> bool {
    way.iter().any(|condition| other.iter().any(|it| excludes(condition, it)))
}

/// Whether no value fits both.
fn excludes(condition: &Condition, other: &Condition) -> bool {
    condition.attribute == other.attribute
        && match (&condition.test, &other.test) {
            (Test::OneOf(patterns), Test::OneOf(others)) => {
                fits_none(patterns, others) || fits_none(others, patterns)
            }
            (Test::Absent, test) | (test, Test::Absent) => matches!(test, Test::OneOf(_) | Test::Present),
            _ => false,
        }
}

/// Whether these are texts, and none of them has one of those forms.
fn fits_none(texts: &[Pattern], forms: &[Pattern]) -> bool {
    texts.iter().all(|text| match text {
        Pattern::Exact(text) => !forms.iter().any(|form| form.fits(text)),
        _ => false,
    })
}
