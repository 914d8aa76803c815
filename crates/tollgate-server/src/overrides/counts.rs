//! How many changes of overrides this process was asked for, by what came of them.

use std::sync::atomic::{AtomicU64, Ordering};

use super::change::{OverrideChange, OverridesError};

/// The outcomes, as metrics name them.
const OUTCOMES: [&str; 6] = ["made", "mismatch", "refused", "unfit", "failed", "unknown"];

/// See the [module](self). Every access is relaxed: the figures are independent and guard no other memory.
#[derive(Debug, Default)]
pub(super) struct ChangeCounts([AtomicU64; OUTCOMES.len()]);

impl ChangeCounts {
    pub(super) fn count(&self, made: &Result<OverrideChange, OverridesError>) {
        let outcome = outcome(made);
        let mut counts = OUTCOMES.iter().zip(&self.0);
        if let Some((_, count)) = counts.find(|(name, _)| **name == outcome) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn all(&self) -> [(&'static str, u64); OUTCOMES.len()] {
        let mut counts = self.0.iter().map(|count| count.load(Ordering::Relaxed));
        OUTCOMES.map(|outcome| (outcome, counts.next().unwrap_or(0)))
    }
}

const fn outcome(made: &Result<OverrideChange, OverridesError>) -> &'static str {
    match made {
        Ok(_) => "made",
        Err(OverridesError::Mismatch { .. }) => "mismatch",
        Err(OverridesError::Unfit(_)) => "unfit",
        Err(error) if error.may_be_made() => "unknown",
        Err(OverridesError::Store { .. } | OverridesError::Journal { .. }) => "failed",
        Err(_) => "refused",
    }
}
