//! Many requests, each checked separately.

use std::sync::Arc;

use tollgate::{AnswerError, Clock, Step, StepDeadline, Store};

use super::charge_result::ChargeResult;
use super::{Charges, CheckError, Matching, PolicyDecision, PolicyLimiter, PolicySet, nothing, of_trials};
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
        let matchings = asked.iter().map(|(set, attributes, cost)| {
            self.matching(set, *attributes, *cost).map_err(CheckError::from).and_then(Matching::without_hold)
        });
        let matchings: Vec<Result<Matching<'_>, CheckError>> = matchings.collect();
        let charges: Vec<Charges<'_>> = matchings
            .iter()
            .map(|matching| match matching {
                Ok(matching) => matching.charges(),
                Err(_) => Charges::new(),
            })
            .collect();
        let steps = charges.iter().filter(|charges| !charges.is_empty());
        let steps: Vec<Step<'_>> = steps.map(|charges| Step::Charge(charges)).collect();
        let counted = match steps.as_slice() {
            [] => Vec::new(),
            steps => self.store.step_each_until(steps, deadline).await,
        };
        let mut counted = counted.into_iter();
        let results = matchings.iter().zip(&charges).map(|(matching, charges)| {
            let matching = matching.as_ref().map_err(CheckError::clone)?;
            let counted = match charges.as_slice() {
                [] => Ok(nothing()),
                _ => counted.next().unwrap_or_else(|| Err(AnswerError::Nonsense.into())),
            };
            Ok((matching, self.result(matching, charges, counted)?))
        });
        let results: Vec<Result<_, CheckError>> = results.collect();

        let decided = results.iter().flatten();
        let decided: Vec<(&Matching<'_>, &ChargeResult)> =
            decided.map(|(matching, result)| (*matching, result)).collect();
        let trials =
            self.try_out(&decided, of_trials(deadline, charges.iter().map(|it| it.len()).sum())).await;
        let mut trials = trials.into_iter();
        let decision = |result: Result<(&Matching<'_>, _), _>| {
            let (matching, result) = result?;
            Ok(matching.decision(result, trials.next().unwrap_or_default()))
        };
        results.into_iter().map(decision).collect()
    }

    /// Returns requests, each with its policies: those that are live now, or its own limits.
    pub(super) fn asked<'a, 'b: 'a>(
        &self,
        requests: impl IntoIterator<Item: Into<AskedCheck<'a, 'b>>>,
    ) -> Vec<(Arc<PolicySet>, &'a Attributes<'b>, u32)> {
        let live = self.live();
        let set = |limits| match limits {
            None => Arc::clone(&live),
            Some(limits) => Arc::new(live.of_caller(limits)),
        };
        let asked = requests.into_iter().map(Into::into);
        asked.map(|AskedCheck { attributes, cost, limits }| (set(limits), attributes, cost)).collect()
    }
}
