//! Log lines about costs that were denied although units were left, and charged nothing.
//!
//! That is right if the denial prevents the work, and wrong if the work is already done: then the budget is never used
//! up. Only the operator knows which of the two it is.
//!
//! Decisions without the store are left out: they count against shares of the limits.

use std::time::Duration;

use tollgate::{MANUAL, Source};
use tollgate_envoy::{Request, Response};
use tollgate_policy::{PolicyDecision, Printable, QuotaStanding};
use tracing::info;

use crate::observe::log_gap::LogGaps;

/// The pause after a line about the same policy or limit.
const GAP: Duration = Duration::from_secs(60);

/// One line a minute for each policy, and for each limit of Envoy's service.
#[derive(Debug, Default)]
pub(crate) struct UnitsLeftLog(LogGaps);

impl UnitsLeftLog {
    /// Notes a denied check. An overdraft denies only if no units are left, and a counted denial uses them up.
    pub(crate) fn note(&self, decision: &PolicyDecision) {
        if decision.source() == Source::Fallback {
            return;
        }
        let denied = |quota: &QuotaStanding<'_>| !quota.state.has_room() && quota.state.remaining() > 0;
        let Some(denied) = decision.quotas().find(denied) else { return };
        let policy = denied.policy.name();
        if self.0.pass(("policy", policy), GAP) {
            let version = decision.version();
            info!(policy, version, quota = %denied.quota.quota(), "{}", message());
        }
    }

    /// Notes a denial by a configured limit. Its descriptor is named by its keys: values are those of clients.
    pub(crate) fn note_response(&self, request: &Request<'_>, response: &Response) {
        if response.source == Some(Source::Fallback) {
            return;
        }
        let denied = response.denied_with_units_left.and_then(|index| request.descriptors.get(index));
        let Some(descriptor) = denied else { return };
        let domain = request.domain;
        let keys: Vec<&str> = descriptor.entries.iter().map(|entry| entry.key).collect();
        if self.0.pass(("limit", domain, &keys), GAP) {
            let (domain, descriptor) = (Printable(domain), keys.join(", "));
            info!(%domain, descriptor = %Printable(&descriptor), "{}", message());
        }
    }
}

fn message() -> String {
    format!(
        "denied a cost of 2 or more and charged nothing, although units were left: if costs are known only after the \
         work, the quota is never used up; see {MANUAL}/holds-and-refunds.md#overdraft"
    )
}
