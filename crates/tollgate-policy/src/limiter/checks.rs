//! Checks and peeks of one request.

use std::sync::Arc;

use tollgate::{Answer, Charge, Clock, QuotaStates, Step, StepDeadline, Store, StoreError, Timestamp};

use super::charge_result::ChargeResult;
use super::match_time::MatchTime;
use super::trials::Trials;
use super::{
    CheckError, Matching, PolicyDecision, PolicyLimiter, PolicySet, WhenFull, nothing, of_later_steps,
};
use crate::matched::NeededValues;
use crate::overrides::OverridesAt;
use crate::{Outcome, Refusal, View};

/// The call that a peek answers for.
#[derive(Clone, Copy)]
enum PeekedCall {
    /// A hold, which takes units in flight.
    Hold,
    /// A check, which cannot.
    Check,
    /// A hold, with what its trials would answer.
    HoldWithTrials,
}

impl<S: Store, C: Clock> PolicyLimiter<S, C> {
    /// Charges the request's cost to every quota that applies, if all have room. Cost 0 only peeks.
    ///
    /// # Errors
    ///
    /// If the request lacks something that a policy needs, or the store could not answer and a policy that applies
    /// requires it.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the units may or may not have been charged.
    pub fn check<V: View>(
        &self,
        view: &V,
        cost: u32,
    ) -> impl Future<Output = Result<PolicyDecision, CheckError>> {
        self.check_in(self.live(), view, cost)
    }

    /// Like [`check`](Self::check), but under a version that was [live](Self::live) a moment ago: for callers that read
    /// its policies first, to find out which attributes a request needs.
    ///
    /// # Errors
    ///
    /// The same as [`check`](Self::check).
    ///
    /// # Cancel safety
    ///
    /// The same as [`check`](Self::check).
    pub fn check_in<V: View>(
        &self,
        set: Arc<PolicySet>,
        view: &V,
        cost: u32,
    ) -> impl Future<Output = Result<PolicyDecision, CheckError>> {
        self.check_in_until(None, set, view, cost)
    }

    /// Like [`check_in`](Self::check_in), for a caller that waits no longer than until this deadline. The decision and
    /// its trials share it: each step of the store [carries it](Store::step_until). A trial that has no answer at the
    /// deadline has failed, and does not change the decision.
    ///
    /// # Errors
    ///
    /// The same as [`check`](Self::check). A store that has no answer by the deadline could not answer: the policies
    /// decide.
    ///
    /// # Cancel safety
    ///
    /// The same as [`check`](Self::check).
    pub async fn check_in_until<V: View>(
        &self,
        deadline: Option<StepDeadline>,
        set: Arc<PolicySet>,
        view: &V,
        cost: u32,
    ) -> Result<PolicyDecision, CheckError> {
        let (mut time, mut deadline) = (MatchTime::FIRST, deadline);
        let (basis, trials) = loop {
            let matching = self.matching_without_hold(time, &set, view, cost)?;
            let charges = matching.charges();
            let counted = self.count(&charges, matching.first_end().step(&charges), deadline).await;
            deadline = of_later_steps(deadline, charges.len());
            if let Some(later) = matching.first_end().passed(&counted).and_then(|now| time.again(now)) {
                time = later;
                continue;
            }
            let result = self.result(&matching, &charges, counted)?;
            let trials = self.try_out(&[(&matching, &result)], deadline).await;
            break (matching.basis(result), trials.into_iter().next().unwrap_or_default());
        };
        Ok(PolicyDecision::of_check(set, basis, trials))
    }

    /// Like [`check`](Self::check), but only if the store answers immediately. Returns `None` if it does not; nothing
    /// was charged then.
    ///
    /// It is for callers that continue immediately if they can, without keeping a future.
    ///
    /// # Errors
    ///
    /// The same as [`check`](Self::check).
    pub fn check_at_once<V: View>(&self, view: &V, cost: u32) -> Option<Result<PolicyDecision, CheckError>> {
        let set = self.live.load();
        let mut time = MatchTime::FIRST;
        loop {
            let matching = match self.matching_without_hold(time, &set, view, cost) {
                Ok(matching) => matching,
                Err(error) => return Some(Err(error)),
            };
            let charges = matching.charges();
            let counted = self.count_at_once(&matching, &charges)?;
            match matching.first_end().passed(&counted).and_then(|now| time.again(now)) {
                Some(later) => time = later,
                None => return self.decided_at_once(&matching, &charges, counted),
            }
        }
    }

    /// Finds out which policies of this version apply to a request. Nothing is charged.
    ///
    /// Together with [`decide_at_once`](Self::decide_at_once) this is [`check_at_once`](Self::check_at_once) in two
    /// parts. A caller with many requests can [prefetch](tollgate::MemoryStore::prefetch) their counters in between.
    ///
    /// # Errors
    ///
    /// If the request lacks something that a policy needs, or a value is [too long](Self::max_value_bytes).
    pub fn matching<'a, V: View>(
        &self,
        set: &'a Arc<PolicySet>,
        view: &'a V,
        cost: u32,
    ) -> Result<Matching<'a>, Refusal> {
        self.matching_at(MatchTime::FIRST, set, view, cost)
    }

    pub(super) fn matching_at<'a, V: View>(
        &self,
        time: MatchTime,
        set: &'a Arc<PolicySet>,
        view: &'a V,
        cost: u32,
    ) -> Result<Matching<'a>, Refusal> {
        Ok(Matching { set, outcome: self.outcome(set, view, cost, NeededValues::Limits, time.at)? })
    }

    /// Returns what applies to a check, unless it needs a hold. No step compares the end of a limit in flight then, so the
    /// estimate of the store's time decides.
    #[inline]
    pub(super) fn matching_without_hold<'a, V: View>(
        &self,
        time: MatchTime,
        set: &'a Arc<PolicySet>,
        view: &'a V,
        cost: u32,
    ) -> Result<Matching<'a>, CheckError> {
        let matching = self.matching_at(time, set, view, cost)?;
        let Err(error) = matching.needs_no_hold() else { return Ok(matching) };
        match matching.first_end().passed_at(&[]).and_then(|now| time.again(now)) {
            Some(later) => self.matching_at(later, set, view, cost)?.without_hold(),
            None => Err(error),
        }
    }

    /// Decides on a request by what applies to it, if the store answers immediately. Returns `None` if it does not;
    /// nothing was charged then.
    ///
    /// # Errors
    ///
    /// If the store could not answer, and a policy that applies requires it. If an override applied to the request that
    /// has [ended](StoreError::Ended) since: the request has to be matched again.
    pub fn decide_at_once(&self, matching: &Matching<'_>) -> Option<Result<PolicyDecision, CheckError>> {
        if let Err(error) = matching.needs_no_hold() {
            let ended = matching.first_end().passed_at(&[]).map(|now| StoreError::Ended { now });
            return Some(Err(ended.map_or(error, CheckError::Store)));
        }
        let charges = matching.charges();
        let counted = self.count_at_once(matching, &charges)?;
        self.decided_at_once(matching, &charges, counted)
    }

    /// Takes the step of these charges, if there are any and the store answers immediately.
    fn count_at_once(
        &self,
        matching: &Matching<'_>,
        charges: &[Charge<'_>],
    ) -> Option<Result<QuotaStates, StoreError>> {
        match charges {
            [] => Some(Ok(nothing())),
            charges => match self.store.step(matching.first_end().step(charges)) {
                Answer::Now(counted) => Some(counted),
                Answer::Later(_) => None,
            },
        }
    }

    fn decided_at_once(
        &self,
        matching: &Matching<'_>,
        charges: &[Charge<'_>],
        counted: Result<QuotaStates, StoreError>,
    ) -> Option<Result<PolicyDecision, CheckError>> {
        let result = match self.result(matching, charges, counted) {
            Ok(result) => result,
            Err(error) => return Some(Err(error)),
        };
        let trials = self.try_out_at_once(matching, &result)?;
        Some(Ok(matching.decision(result, trials)))
    }

    /// Answers as a check would, but charges nothing. If a limit in flight applies, it answers as a
    /// [hold](Self::reserve) of one unit would. There are no trials, and the [tally](PolicySet::tally) does not
    /// change.
    ///
    /// # Errors
    ///
    /// The same as [`check`](Self::check).
    pub fn peek<V: View>(
        &self,
        view: &V,
        cost: u32,
    ) -> impl Future<Output = Result<PolicyDecision, CheckError>> {
        self.peek_in(self.live(), view, cost)
    }

    /// Like [`peek`](Self::peek), but under this version of the policies.
    ///
    /// # Errors
    ///
    /// The same as [`check`](Self::check).
    pub async fn peek_in<V: View>(
        &self,
        set: Arc<PolicySet>,
        view: &V,
        cost: u32,
    ) -> Result<PolicyDecision, CheckError> {
        self.peek_for(PeekedCall::Hold, set, view, cost).await
    }

    /// Like [`peek_in`](Self::peek_in), but with the answers that [trials](PolicyDecision::trials) would give. They charge
    /// nothing either.
    ///
    /// # Errors
    ///
    /// The same as [`check`](Self::check).
    pub async fn peek_with_trials_in<V: View>(
        &self,
        set: Arc<PolicySet>,
        view: &V,
        cost: u32,
    ) -> Result<PolicyDecision, CheckError> {
        self.peek_for(PeekedCall::HoldWithTrials, set, view, cost).await
    }

    async fn peek_for<V: View>(
        &self,
        call: PeekedCall,
        set: Arc<PolicySet>,
        view: &V,
        cost: u32,
    ) -> Result<PolicyDecision, CheckError> {
        let mut time = MatchTime::FIRST;
        let (basis, trials) = loop {
            let matching = match call {
                PeekedCall::Hold | PeekedCall::HoldWithTrials => self.matching_at(time, &set, view, cost)?,
                PeekedCall::Check => self.matching_without_hold(time, &set, view, cost)?,
            };
            let result = match matching.needs_no_hold() {
                Ok(()) => self.peeked(&matching).await?,
                Err(_) => self.look(&matching).await?,
            };
            match matching.first_end().passed_at(&result.counted).and_then(|now| time.again(now)) {
                Some(later) => time = later,
                None => {
                    let trials = match call {
                        PeekedCall::HoldWithTrials => self.look_at_trials(&matching, &result).await,
                        PeekedCall::Hold | PeekedCall::Check => Trials::default(),
                    };
                    break (matching.basis(result), trials);
                }
            }
        };
        Ok(PolicyDecision::new(set, basis, trials))
    }

    /// Like [`peek_in`](Self::peek_in), for callers that cannot hold: where a limit in flight applies, the error is that of
    /// a check.
    ///
    /// # Errors
    ///
    /// The same as [`check`](Self::check).
    pub async fn peek_check_in<V: View>(
        &self,
        set: Arc<PolicySet>,
        view: &V,
        cost: u32,
    ) -> Result<PolicyDecision, CheckError> {
        self.peek_for(PeekedCall::Check, set, view, cost).await
    }

    async fn peeked(&self, matching: &Matching<'_>) -> Result<ChargeResult, CheckError> {
        let charges = matching.charges();
        let counted = self.count(&charges, Step::Peek(&charges), None).await;
        self.charge_result(&charges, counted).map_err(|error| matching.error(error))
    }

    /// Returns the outcome of a request with possibly invalid attributes, at this time or about now.
    pub(super) fn outcome<'a, V: View>(
        &self,
        set: &'a PolicySet,
        view: &'a V,
        cost: u32,
        needed: NeededValues<'_>,
        at: Option<Timestamp>,
    ) -> Result<Outcome<'a>, Refusal> {
        match Refusal::of_long_value(view, self.max_value) {
            Some(refusal) => Err(refusal),
            None => {
                let overrides = OverridesAt { set: Some(set.overrides()), at };
                set.policies().outcome(view, cost, needed, overrides)
            }
        }
    }

    /// Takes this step of the charges, if there are any.
    pub(super) async fn count(
        &self,
        charges: &[Charge<'_>],
        step: Step<'_>,
        deadline: Option<StepDeadline>,
    ) -> Result<QuotaStates, StoreError> {
        match charges {
            [] => Ok(nothing()),
            _ => self.store.step_until(step, deadline).await,
        }
    }

    /// Returns the result of the request's charges, and notes a failure in the tallies of its policies.
    pub(super) fn result(
        &self,
        matching: &Matching<'_>,
        charges: &[Charge<'_>],
        counted: Result<QuotaStates, StoreError>,
    ) -> Result<ChargeResult, CheckError> {
        self.charge_result(charges, counted).map_err(|error| {
            matching.note_failure();
            matching.error(error)
        })
    }

    pub(super) fn charge_result(
        &self,
        charges: &[Charge<'_>],
        counted: Result<QuotaStates, StoreError>,
    ) -> Result<ChargeResult, StoreError> {
        let Err(StoreError::Full) = counted else { return counted.map(ChargeResult::counted) };
        self.note_full();
        match self.when_full {
            WhenFull::Deny => Err(StoreError::Full),
            WhenFull::Allow => Ok(ChargeResult::without_room(self.store.uncounted(charges))),
        }
    }
}
