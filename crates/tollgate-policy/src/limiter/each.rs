//! Many requests, each checked separately.

use std::sync::Arc;

use tollgate::{AnswerError, Clock, Step, StepDeadline, Store, StoreError};

use super::charge_result::ChargeResult;
use super::match_time::MatchTime;
use super::{
    Charges, CheckError, Matching, PolicyDecision, PolicyLimiter, PolicySet, nothing, of_later_steps,
};
use crate::{Attributes, Policy};

/// One of many checks.
pub struct AskedCheck<'a, 'b> {
    attributes: &'a Attributes<'b>,
    cost: u32,
    limits: Option<Policy>,
}

impl AskedCheck<'_, '_> {
    /// [Limits](crate::Policy::of_caller) that replace the policies, if any.
    #[must_use]
    pub fn under(self, limits: Option<Policy>) -> Self {
        Self { limits, ..self }
    }
}

/// A request with its policies.
pub(super) type RequestUnder<'a, 'b> = (Arc<PolicySet>, &'a Attributes<'b>, u32);

/// One of many checks while it is made.
struct EachCheck<'a, 'b> {
    request: &'a RequestUnder<'a, 'b>,
    time: MatchTime,
    /// `None` until it is matched, and if it cannot be.
    matching: Option<Matching<'a>>,
    /// `None` until it is decided.
    result: Option<Result<ChargeResult, CheckError>>,
}

impl<'a, 'b> EachCheck<'a, 'b> {
    const fn new(request: &'a RequestUnder<'a, 'b>) -> Self {
        Self { request, time: MatchTime::FIRST, matching: None, result: None }
    }

    /// Matches the request for its time, unless it is decided.
    fn match_again<S: Store, C: Clock>(&mut self, limiter: &PolicyLimiter<S, C>) {
        if self.result.is_some() {
            return;
        }
        let (set, attributes, cost) = self.request;
        match limiter.matching_without_hold(self.time, set, *attributes, *cost) {
            Ok(matching) => self.matching = Some(matching),
            Err(error) => (self.matching, self.result) = (None, Some(Err(error))),
        }
    }

    /// Returns what is still to be charged.
    fn charges(&self) -> Charges<'_> {
        match (&self.matching, &self.result) {
            (Some(matching), None) => matching.charges(),
            _ => Charges::new(),
        }
    }

    fn decided(&self) -> Option<&ChargeResult> {
        self.result.as_ref()?.as_ref().ok()
    }
}

/// A check by the policies that are live.
impl<'a, 'b> From<(&'a Attributes<'b>, u32)> for AskedCheck<'a, 'b> {
    fn from((attributes, cost): (&'a Attributes<'b>, u32)) -> Self {
        Self { attributes, cost, limits: None }
    }
}

impl<S: Store, C: Clock> PolicyLimiter<S, C> {
    /// Checks each request separately, all under the same version of the policies. The answers are in the order of the
    /// requests; a shared store may execute them in another order.
    ///
    /// # Cancel safety
    ///
    /// The same as [`check`](Self::check).
    pub fn check_each<'a, 'b: 'a>(
        &self,
        requests: impl IntoIterator<Item: Into<AskedCheck<'a, 'b>>>,
    ) -> impl Future<Output = Vec<Result<PolicyDecision, CheckError>>> {
        self.check_each_until(None, requests)
    }

    /// Like [`check_each`](Self::check_each), for a caller that waits no longer than until this deadline, as
    /// [`check_in_until`](Self::check_in_until) describes.
    ///
    /// # Cancel safety
    ///
    /// The same as [`check`](Self::check).
    pub async fn check_each_until<'a, 'b: 'a>(
        &self,
        deadline: Option<StepDeadline>,
        requests: impl IntoIterator<Item: Into<AskedCheck<'a, 'b>>>,
    ) -> Vec<Result<PolicyDecision, CheckError>> {
        let asked = self.asked(requests);
        let mut deadline = deadline;
        let mut checks: Vec<EachCheck<'_, '_>> = asked.iter().map(EachCheck::new).collect();
        // Usually once. The checks for which an override has ended are made again.
        while checks.iter().any(|check| check.result.is_none()) {
            checks.iter_mut().for_each(|check| check.match_again(self));
            let charges: Vec<Charges<'_>> = checks.iter().map(EachCheck::charges).collect();
            let steps = checks.iter().zip(&charges).filter(|(_, charges)| !charges.is_empty());
            let steps =
                steps.filter_map(|(check, charges)| Some(check.matching.as_ref()?.first_end().step(charges)));
            let steps: Vec<Step<'_>> = steps.collect();
            let counted = match steps.as_slice() {
                [] => Vec::new(),
                steps => self.store.step_each_until(steps, deadline).await,
            };
            deadline = of_later_steps(deadline, steps.len());
            let mut counted = counted.into_iter();
            let results = checks.iter().zip(&charges).map(|(check, charges)| {
                let matching = check.matching.as_ref().filter(|_| check.result.is_none())?;
                let counted = match charges.as_slice() {
                    [] => Ok(nothing()),
                    _ => counted.next().unwrap_or_else(|| Err(AnswerError::Nonsense.into())),
                };
                Some(match matching.first_end().passed(&counted).and_then(|now| check.time.again(now)) {
                    Some(later) => Err(later),
                    None => Ok(self.result(matching, charges, counted)),
                })
            });
            let results: Vec<Option<Result<_, MatchTime>>> = results.collect();
            drop(charges);
            for (check, result) in checks.iter_mut().zip(results) {
                match result {
                    Some(Ok(result)) => check.result = Some(result),
                    Some(Err(later)) => check.time = later,
                    None => {}
                }
            }
        }

        let decided: Vec<(&Matching<'_>, &ChargeResult)> =
            checks.iter().filter_map(|check| Some((check.matching.as_ref()?, check.decided()?))).collect();
        let trials = self.try_out(&decided, deadline).await;
        let mut trials = trials.into_iter();
        let decision = |EachCheck { matching, result, .. }: EachCheck<'_, '_>| {
            let nonsense = || CheckError::from(StoreError::from(AnswerError::Nonsense));
            let result = result.ok_or_else(nonsense)??;
            let matching = matching.ok_or_else(nonsense)?;
            Ok(matching.decision(result, trials.next().unwrap_or_default()))
        };
        checks.into_iter().map(decision).collect()
    }

    /// Returns requests, each with its policies: those that are live now, or its own limits.
    pub(super) fn asked<'a, 'b: 'a>(
        &self,
        requests: impl IntoIterator<Item: Into<AskedCheck<'a, 'b>>>,
    ) -> Vec<RequestUnder<'a, 'b>> {
        let live = self.live();
        let set = |limits| match limits {
            None => Arc::clone(&live),
            Some(limits) => Arc::new(live.of_caller(limits)),
        };
        let asked = requests.into_iter().map(Into::into);
        asked.map(|AskedCheck { attributes, cost, limits }| (set(limits), attributes, cost)).collect()
    }
}
