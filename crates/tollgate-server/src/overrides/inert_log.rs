//! Says in the log which overrides apply to nothing, because nobody would look for a customer who is not blocked any more.

use tollgate_policy::OverrideSet;
use tracing::warn;

/// Logs the policies with overrides that are inert and were not before, each with the first reason.
pub(crate) fn warn_of_inert(before: Option<&OverrideSet>, after: &OverrideSet) {
    let known: Vec<_> = before.into_iter().flat_map(OverrideSet::inert).collect();
    for (policy, reason) in after.inert().filter(|inert| !known.contains(inert)) {
        warn!(policy, %reason, "overrides of this policy do not apply");
    }
}
