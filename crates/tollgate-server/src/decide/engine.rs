//! The only caller of the limiter: measures decisions and logs unusual ones. It is independent of wire formats.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tollgate::{QuotaState, Source, StoreError, Verdict};
use tollgate_policy::{
    AskedCheck, AskedCount, AskedHold, CheckError, CountOperation, CountState, CountTerms, InFlightStanding,
    MarkedCharge, Policy, PolicyDecision, PolicyHold, PolicyLimit, PolicyLimiter, PolicySet, QuotaChanges,
    QuotaRefund, QuotaStanding, RefundError, RenewAnswer, ReserveAnswer, SettleAnswer, TogetherError,
    TrialDecision, TrialKind, WhenFull,
};
use tollgate_wire::headers::window_length;
use tracing::{info, warn};

use crate::access::caller::CallerAttributes;
use crate::decide::expired_hold_log::ExpiredHoldLog;
use crate::decide::units_left_log::UnitsLeftLog;
use crate::metrics::{CheckSource, Metrics, UndroppedCheck};
use crate::observe::log_gap::{self, LogGap, LogGaps};
use crate::observe::public_url::PublicUrl;
use crate::observe::stopwatch::Stopwatch;
use crate::store::readiness::Readiness;
use crate::store::{ServedStore, StoreState};
use crate::talkers::Talkers;

/// Decides by policies over one store.
pub(crate) struct DecisionEngine {
    limiter: Arc<PolicyLimiter<ServedStore>>,
    when_full: WhenFull,
    metrics: Arc<Metrics>,
    denials: DenialLog,
    trial_denials: TrialDenialLog,
    units_left: UnitsLeftLog,
    expired_holds: ExpiredHoldLog,
    full_noted: AtomicU64,
    full_logged: LogGap,
    unmatched_logged: LogGap,
    readiness: Readiness,
    /// `None` if nobody sees them.
    talkers: Option<Arc<Talkers>>,
}

/// The policies or limits that decide a check.
pub(crate) enum Under {
    /// The live policies.
    Live,
    /// A version that was live a moment ago, when the caller asked which attributes it needs.
    Version(Arc<PolicySet>),
    /// The caller's own limits.
    Limits(Box<Policy>),
}

/// Limits the log to one line per window for each quota that denies, and one per minute for each limit in flight.
#[derive(Default)]
struct DenialLog {
    gaps: LogGaps,
    /// The live page, to which the lines lead.
    page: Option<PublicUrl>,
}

/// Limits the log to one line a minute for each policy that would deny.
#[derive(Default)]
struct TrialDenialLog(LogGaps);

impl DecisionEngine {
    pub(crate) fn new(
        limiter: Arc<PolicyLimiter<ServedStore>>,
        when_full: WhenFull,
        metrics: Arc<Metrics>,
        page: Option<PublicUrl>,
    ) -> Self {
        Self {
            limiter,
            when_full,
            metrics,
            denials: DenialLog { gaps: LogGaps::default(), page },
            trial_denials: TrialDenialLog::default(),
            units_left: UnitsLeftLog::default(),
            expired_holds: ExpiredHoldLog::default(),
            full_noted: AtomicU64::new(0),
            full_logged: LogGap::default(),
            unmatched_logged: LogGap::default(),
            readiness: Readiness::default(),
            talkers: None,
        }
    }

    /// Counts who asks most.
    pub(crate) fn with_talkers(self, talkers: Option<Arc<Talkers>>) -> Self {
        talkers.iter().for_each(|talkers| talkers.follow(&self.limiter.live()));
        Self { talkers, ..self }
    }

    /// Returns the state of the store, at most a moment old.
    pub(crate) async fn store_state(&self) -> StoreState {
        let limiter = Arc::clone(&self.limiter);
        self.readiness.state(async move { limiter.store().state().await }).await
    }

    /// Returns the live policies.
    pub(crate) fn live(&self) -> Arc<PolicySet> {
        self.limiter.live()
    }

    /// Returns how many requests got no counter because memory was full.
    pub(crate) fn store_full(&self) -> u64 {
        self.limiter.store_full()
    }

    /// Charges the cost if every matching quota has room. The caller waits until this time at most, if it has said so.
    pub(crate) async fn check(
        &self,
        under: Under,
        attributes: &CallerAttributes<'_>,
        cost: u32,
        caller_until: Option<Instant>,
    ) -> Result<PolicyDecision, CheckError> {
        let stopwatch = Stopwatch::start();
        let undropped = self.metrics.undropped();
        let attributes = attributes.as_attributes();
        let set = match under {
            Under::Live => self.limiter.live(),
            Under::Version(set) => set,
            Under::Limits(limits) => self.limiter.under(*limits),
        };
        let deadline = self.limiter.store().deadline(stopwatch, caller_until);
        let decision = self.limiter.check_in_until(deadline, set, attributes, cost).await;
        undropped.ended();
        self.note(&decision);
        if decision.is_ok() {
            self.metrics.took(stopwatch.elapsed());
        }
        decision
    }

    /// Answers as a check would, but charges nothing. The caller's own limits, if given, replace the policies.
    pub(crate) async fn peek(
        &self,
        limits: Option<Policy>,
        attributes: &CallerAttributes<'_>,
        cost: u32,
    ) -> Result<PolicyDecision, CheckError> {
        let set = limits.map_or_else(|| self.limiter.live(), |limits| self.limiter.under(limits));
        self.peeked(self.limiter.peek_in(set, attributes.as_attributes(), cost).await)
    }

    /// The same under this version of the policies, with what trials would answer.
    pub(crate) async fn peek_with_trials(
        &self,
        set: Arc<PolicySet>,
        attributes: &CallerAttributes<'_>,
        cost: u32,
    ) -> Result<PolicyDecision, CheckError> {
        self.peeked(self.limiter.peek_with_trials_in(set, attributes.as_attributes(), cost).await)
    }

    /// The same for a caller that cannot hold: a limit in flight is the error that a check would get.
    pub(crate) async fn peek_check(
        &self,
        limits: Option<Policy>,
        attributes: &CallerAttributes<'_>,
        cost: u32,
    ) -> Result<PolicyDecision, CheckError> {
        let set = limits.map_or_else(|| self.limiter.live(), |limits| self.limiter.under(limits));
        self.peeked(self.limiter.peek_check_in(set, attributes.as_attributes(), cost).await)
    }

    fn peeked(&self, decision: Result<PolicyDecision, CheckError>) -> Result<PolicyDecision, CheckError> {
        if matches!(decision, Err(CheckError::Store(StoreError::Full))) {
            self.note_full();
        }
        decision
    }

    /// Checks each request independently. Answers keep the order of the requests; a shared store may process them in
    /// another.
    pub(crate) async fn check_each(
        &self,
        requests: Vec<(&CallerAttributes<'_>, u32, Option<Policy>)>,
    ) -> Vec<Result<PolicyDecision, CheckError>> {
        let stopwatch = Stopwatch::start();
        let requests = requests.into_iter().map(|(attributes, cost, limits)| {
            AskedCheck::from((attributes.as_attributes(), cost)).under(limits)
        });
        let undropped = self.metrics.undropped();
        let deadline = self.limiter.store().deadline(stopwatch, None);
        let decisions = self.limiter.check_each_until(deadline, requests).await;
        undropped.ended();
        decisions.iter().for_each(|decision| self.note(decision));
        if decisions.iter().any(Result::is_ok) {
            self.metrics.took(stopwatch.elapsed());
        }
        decisions
    }

    /// Checks all requests as one, and charges all of them or none. The caller waits until this time at most, if it has
    /// said so.
    pub(crate) async fn check_together(
        &self,
        requests: &[(CallerAttributes<'_>, u32, Option<Policy>)],
        caller_until: Option<Instant>,
    ) -> Result<Vec<PolicyDecision>, TogetherError> {
        let stopwatch = Stopwatch::start();
        let requests = requests.iter().map(|(attributes, cost, limits)| {
            AskedCheck::from((attributes.as_attributes(), *cost)).under(limits.clone())
        });
        let undropped = self.metrics.undropped();
        let deadline = self.limiter.store().deadline(stopwatch, caller_until);
        let decisions = self.limiter.check_together_until(deadline, requests).await;
        undropped.ended();
        match &decisions {
            Ok(decisions) => {
                decisions.iter().for_each(|decision| self.note_decision(decision));
                self.metrics.took(stopwatch.elapsed());
            }
            Err(TogetherError { error, .. }) => self.note_error(error),
        }
        decisions
    }

    /// Refunds the cost of these charges, which a check under this version of the policies has made.
    pub(crate) async fn refund(
        &self,
        attributes: &CallerAttributes<'_>,
        cost: u32,
        version: u64,
        marked: &[MarkedCharge],
    ) -> Result<QuotaChanges<QuotaRefund>, RefundError> {
        let deadline = self.limiter.store().deadline(Stopwatch::start(), None);
        self.limiter.refund_until(deadline, attributes.as_attributes(), cost, version, marked).await
    }

    /// Takes units in flight and charges the cost, all or nothing. The caller's own limits, if given, replace the
    /// policies. The caller waits until this time at most, if it has said so.
    pub(crate) async fn reserve(
        &self,
        limits: Option<Policy>,
        attributes: &CallerAttributes<'_>,
        asked: AskedHold,
        caller_until: Option<Instant>,
    ) -> Result<ReserveAnswer, CheckError> {
        let stopwatch = Stopwatch::start();
        let undropped = self.metrics.undropped();
        let set = limits.map_or_else(|| self.limiter.live(), |limits| self.limiter.under(limits));
        let deadline = self.limiter.store().deadline(stopwatch, caller_until);
        let answer = self.limiter.reserve_in_until(deadline, set, attributes.as_attributes(), asked).await;
        undropped.ended();
        match &answer {
            Ok(ReserveAnswer::Decided { decision, .. }) => {
                self.note_decision(decision);
                let expired = decision.in_flight().map(|standing| standing.state.expired());
                self.expired_holds.note_units(expired.sum());
                self.metrics.took(stopwatch.elapsed());
            }
            // The id decides, and nothing was checked.
            Ok(_) => {}
            Err(error) => self.note_error(error),
        }
        self.report_expired_holds();
        answer
    }

    /// Starts the length of a hold again.
    pub(crate) async fn renew(&self, hold: &PolicyHold) -> Result<RenewAnswer, StoreError> {
        let deadline = self.limiter.store().deadline(Stopwatch::start(), None);
        let answer = self.limiter.renew_until(deadline, hold).await;
        if matches!(answer, Ok(RenewAnswer::Expired)) {
            self.expired_holds.note_late_call();
        }
        self.report_expired_holds();
        answer
    }

    /// Ends a hold at the actual cost.
    pub(crate) async fn settle(&self, hold: &PolicyHold, cost: u32) -> Result<SettleAnswer, StoreError> {
        let deadline = self.limiter.store().deadline(Stopwatch::start(), None);
        let answer = self.limiter.settle_until(deadline, hold, cost).await;
        if matches!(answer, Ok(SettleAnswer::Expired)) {
            self.expired_holds.note_late_call();
        }
        self.report_expired_holds();
        answer
    }

    /// Ends a hold whose request is refused in spite of it: nothing of it stays charged.
    pub(crate) async fn cancel(&self, hold: &PolicyHold) -> Result<(), StoreError> {
        let deadline = self.limiter.store().deadline(Stopwatch::start(), None);
        self.limiter.cancel_until(deadline, hold).await.map(drop)
    }

    /// Logs that holds have expired, if calls have met some, or if memory knows of some.
    fn report_expired_holds(&self) {
        self.expired_holds.report(self.limiter.store().expired_holds());
    }

    /// Charges what this cost exceeds the reserved one by, for a hold that has expired.
    pub(crate) async fn record_overrun(&self, hold: &PolicyHold, cost: u32) -> Result<(), StoreError> {
        let deadline = self.limiter.store().deadline(Stopwatch::start(), None);
        self.limiter.record_overrun_until(deadline, hold, cost).await
    }

    /// Resets the usage of the selected quotas, of this policy or of all.
    pub(crate) async fn reset(
        &self,
        attributes: &CallerAttributes<'_>,
        policy: Option<&str>,
        is_meant: impl Fn(PolicyLimit<'_>) -> bool,
    ) -> Result<QuotaChanges<QuotaState>, CheckError> {
        self.limiter.reset(attributes.as_attributes(), policy, is_meant).await
    }

    /// Sets the usage of the selected quotas, of this policy or of all.
    pub(crate) async fn set(
        &self,
        attributes: &CallerAttributes<'_>,
        used: u64,
        policy: Option<&str>,
        is_meant: impl Fn(PolicyLimit<'_>) -> bool,
    ) -> Result<QuotaChanges<QuotaState>, CheckError> {
        self.limiter.set(attributes.as_attributes(), used, policy, is_meant).await
    }

    /// Charges each request without asking for room.
    pub(crate) async fn record_each(
        &self,
        requests: &[(CallerAttributes<'_>, u32)],
    ) -> Vec<Result<QuotaChanges<QuotaState>, CheckError>> {
        self.limiter
            .record_each(requests.iter().map(|(attributes, cost)| (attributes.as_attributes(), *cost)))
            .await
    }

    /// Executes each count under its caller's own limits, separately. Additions are checks, for the metrics.
    pub(crate) async fn count_each(
        &self,
        requests: Vec<(&CallerAttributes<'_>, CountTerms)>,
    ) -> Vec<Result<QuotaChanges<CountState>, CheckError>> {
        let stopwatch = Stopwatch::start();
        let adds = requests.iter().map(|(_, terms)| matches!(terms.operation(), CountOperation::Add(_)));
        let adds: Vec<bool> = adds.collect();
        let undropped = adds.contains(&true).then(|| self.metrics.undropped());
        let deadline = self.limiter.store().deadline(stopwatch, None);
        let asked = requests.into_iter();
        let asked = asked.map(|(attributes, terms)| AskedCount::new(attributes.as_attributes(), terms));
        let counted = self.limiter.count_each_until(deadline, asked).await;
        undropped.into_iter().for_each(UndroppedCheck::ended);
        for (counted, is_add) in counted.iter().zip(&adds) {
            match counted {
                Ok(counted) if *is_add => self.metrics.checked(CheckSource::of_count(counted)),
                Err(error) if *is_add => self.note_error(error),
                Err(CheckError::Store(StoreError::Full)) => self.note_full(),
                _ => {}
            }
        }
        if counted.iter().zip(&adds).any(|(counted, is_add)| *is_add && counted.is_ok()) {
            self.metrics.took(stopwatch.elapsed());
        }
        counted
    }

    fn note(&self, decision: &Result<PolicyDecision, CheckError>) {
        match decision {
            Ok(decision) => self.note_decision(decision),
            Err(error) => self.note_error(error),
        }
    }

    fn note_decision(&self, decision: &PolicyDecision) {
        self.metrics.checked(CheckSource::of(decision));
        if decision.source() == Source::Fallback {
            self.note_full();
        }
        if decision.is_unmatched() {
            self.note_unmatched(decision);
        }
        self.talkers.iter().for_each(|talkers| talkers.note(decision));
        self.trial_denials.note(decision);
        // Callers name their own limits, and those names are too many for the log.
        if !decision.is_allowed() && !decision.policies().is_of_caller() {
            self.denials.note(decision);
            self.units_left.note(decision);
        }
    }

    fn note_error(&self, error: &CheckError) {
        // A refused request cannot be answered at all, so it does not count as a check.
        if matches!(error, CheckError::Refused(_) | CheckError::NeedsHold { .. }) {
            return;
        }
        self.metrics.checked(CheckSource::None);
        if matches!(error, CheckError::Store(StoreError::Full)) {
            self.note_full();
        }
    }

    /// Logs that no policy matches a request, unless the file allows for that.
    fn note_unmatched(&self, decision: &PolicyDecision) {
        if decision.policies().policies().unmatched().is_none()
            && self.unmatched_logged.passes(Duration::from_secs(60))
        {
            warn!(
                "no policy matches a request, which was admitted uncounted: set `unmatched: allow` or `unmatched: \
                 deny` in the policy file"
            );
        }
    }

    /// Logs that the store is full, if a request has found it full since the last call.
    fn note_full(&self) {
        let full = self.limiter.store_full();
        // Relaxed: the flag guards no other memory, and the gap passes one line, whichever thread is first.
        if self.full_noted.swap(full, Ordering::Relaxed) < full
            && self.full_logged.passes(Duration::from_secs(60))
        {
            let when_full = match self.when_full {
                WhenFull::Deny => "deny",
                WhenFull::Allow => "allow",
            };
            warn!(when_full, "the store is full and has no room for unseen keys: raise --max-counters");
        }
    }
}

impl From<Option<Policy>> for Under {
    fn from(limits: Option<Policy>) -> Self {
        limits.map_or(Self::Live, |limits| Self::Limits(Box::new(limits)))
    }
}

impl DenialLog {
    fn note(&self, decision: &PolicyDecision) {
        if let Some(denying) =
            decision.quota().filter(|denying| self.is_first_at(log_gap::elapsed(), denying))
        {
            let (policy, version) = (denying.policy.name(), decision.version());
            let view = self.view(policy);
            info!(policy, version, quota = %denying.quota.quota(), view, "first denial in a window's length");
        }
        if let Some(InFlightStanding { policy, in_flight, .. }) = decision.limit_in_flight() {
            let (policy, limit) = (policy.name(), in_flight.in_flight());
            if self.gaps.pass((policy, limit), Duration::from_secs(60)) {
                let (version, view) = (decision.version(), self.view(policy));
                info!(policy, version, quota = %limit, view, "first denial in a minute");
            }
        }
    }

    /// Returns the address of the view of a policy.
    fn view(&self, policy: &str) -> Option<String> {
        self.page.as_ref().map(|page| page.policy(policy))
    }

    /// Returns whether this is the first denial in a window's length, at this time on the stopwatch of the log. The
    /// other times are those of the store's clock, so only their difference counts: after a failover, that clock may be
    /// another one.
    fn is_first_at(&self, elapsed: Duration, denying: &QuotaStanding<'_>) -> bool {
        let window = window_length(denying.quota, denying.state).unwrap_or_default();
        // Shorter windows would fill the log.
        let gap = window.max(Duration::from_secs(1));
        // Each override may have other limits, and they are too many for a line each.
        let quota = denying.by_override.is_none().then(|| denying.quota.quota());
        self.gaps.pass_at(elapsed, (denying.quota.policy(), quota), gap)
    }
}

impl TrialDenialLog {
    fn note(&self, decision: &PolicyDecision) {
        for TrialDecision { policy, kind, .. } in
            decision.trials().filter(|trial| trial.answer.verdict() == Some(Verdict::Denied))
        {
            let kind = match kind {
                TrialKind::Shadow => "shadow",
                TrialKind::Candidate => "candidate",
            };
            if self.0.pass((policy.name(), kind), Duration::from_secs(60)) {
                let (policy, version) = (policy.name(), decision.version());
                info!(policy, version, kind, "a policy on trial would have denied a request");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate::{ManualClock, MemoryStore, Timestamp};
    use tollgate_policy::{Attributes, Config};

    use super::*;

    /// After a failover to a server whose clock was an hour behind, denials were silent in the log for that hour.
    #[tokio::test]
    async fn a_denial_is_logged_after_a_failover_to_an_older_clock() {
        let denied_at = async |seconds: i64| {
            let clock = ManualClock::at(Timestamp::from_unix_millis(seconds * 1000));
            let text = "policies: [{ name: a, key: [user], quotas: [1/1s] }]";
            let policies = Config::parse("a.yaml", text).unwrap().into_policies();
            let limiter = PolicyLimiter::new(MemoryStore::builder().clock(clock).build(), policies, "a.yaml");
            let attributes: Attributes<'_> = [("user", "alice")].into_iter().collect();
            let _ = limiter.check(&attributes, 1).await.unwrap();
            limiter.check(&attributes, 1).await.unwrap()
        };
        let log = DenialLog::default();
        let is_first = |millis: u64, decision: &PolicyDecision| {
            log.is_first_at(Duration::from_millis(millis), &decision.quota().unwrap())
        };
        let before = denied_at(1_700_003_600).await;
        assert!(is_first(0, &before) && !is_first(0, &before));
        let after = denied_at(1_700_000_000).await;
        // Within the second that one line covers, there is no other.
        assert!(!is_first(999, &after) && is_first(1_000, &after));
    }
}
