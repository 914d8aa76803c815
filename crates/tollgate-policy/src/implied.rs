//! Checks whether some conditions hold whenever others do, as far as their written form shows it.

use crate::conditions::Way;
use crate::{Condition, Conditions, Pattern, Test};

/// Returns whether `others` hold whenever `conditions` hold. It may return `false` if this is hard to prove, but never
/// returns `true` wrongly.
pub(crate) fn implies(conditions: &Conditions, others: &Conditions) -> bool {
    conditions.ways().all(|way| others.ways().any(|other| way_implies(way, other)))
}

fn way_implies(conditions: Way<'_>, others: Way<'_>) -> bool {
    others.iter().all(|other| {
        let same = |condition: &&Condition| condition.attribute == other.attribute;
        conditions.iter().filter(same).any(|condition| test_implies(&condition.test, &other.test))
    })
}

/// Returns whether `other` holds for every value for which `test` holds; it never returns `true` wrongly.
pub(crate) fn test_implies(test: &Test, other: &Test) -> bool {
    match (test, other) {
        _ if test == other => true,
        (Test::OneOf(patterns), Test::OneOf(others)) => {
            patterns.iter().all(|pattern| others.iter().any(|other| fits_all(other, pattern)))
        }
        (Test::Within(networks), Test::Within(others)) => {
            networks.iter().all(|network| others.iter().any(|other| other.covers(network)))
        }
        _ => false,
    }
}

/// Returns whether `wide` fits every text that `pattern` fits.
fn fits_all(wide: &Pattern, pattern: &Pattern) -> bool {
    match (wide, pattern) {
        _ if wide == pattern => true,
        (_, Pattern::Exact(text)) => wide.fits(text),
        (Pattern::Prefix(wide), Pattern::Prefix(prefix)) => prefix.starts_with(wide.as_ref()),
        _ => false,
    }
}
