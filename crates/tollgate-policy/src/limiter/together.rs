//! Several requests that are decided as one.

use std::iter::repeat_with;

use thiserror::Error;
use tollgate::{Charge, Clock, QuotaStates, Step, StepDeadline, Store, StoreError};

use super::charge_result::ChargeResult;
use super::match_time::{FirstEnd, MatchTime};
use super::trials::Trials;
use super::{
    AskedCheck, Charges, CheckError, Matching, PolicyDecision, PolicyLimiter, nothing, of_later_steps,
};
use crate::Outcome;

/// The reason why there is no decision on requests that are checked [together](PolicyLimiter::check_together).
#[derive(Debug, Clone, Error)]
#[error("request {}: {error}", index + 1)]
#[non_exhaustive]
pub struct TogetherError {
    /// The request that is at fault, counted from 0; the first that charges something if the store is.
    pub index: usize,
    /// The problem.
    #[source]
    pub error: CheckError,
}

impl<S: Store, C: Clock> PolicyLimiter<S, C> {
    /// Charges the costs of all requests in one step of the store if every quota of every request has room, and nothing
    /// otherwise. Each request has its own decision, and all are made under the same version of the policies. A counter
    /// that applies to two requests is charged for both.
    ///
    /// Trials are made only if all requests are allowed. If a policy denies a request without counting, an outage of
    /// the store changes nothing: the others then have decisions without figures.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check), with the place of the request. Then none has a decision.
    ///
    /// # Cancel safety
    ///
    /// The same as [`check`](Self::check).
    ///
    /// # Examples
    ///
    /// A request that is denied takes nothing of the others:
    ///
    /// ```
    /// use tollgate::MemoryStore;
    /// use tollgate_policy::{Attributes, Config, PolicyLimiter};
    ///
    /// let text = "
    /// policies:
    ///   - { name: user, match: { user: '*' }, key: [user], quotas: [1/1m@first_hit] }
    ///   - { name: path, match: { path: /search }, key: global, quotas: [5/1m@first_hit] }
    /// ";
    /// let policies = Config::parse("tollgate.yaml", text)?.into_policies();
    /// let limiter = PolicyLimiter::new(MemoryStore::new(), policies, "tollgate.yaml");
    /// # tollgate_testkit::block_on(async {
    /// let user: Attributes<'_> = [("user", "alice")].into_iter().collect();
    /// let path: Attributes<'_> = [("path", "/search")].into_iter().collect();
    /// let both = [(&user, 1), (&path, 1)];
    ///
    /// assert!(limiter.check_together(both).await?.iter().all(|decision| decision.is_allowed()));
    /// let again = limiter.check_together(both).await?;
    /// assert!(!again[0].is_allowed() && again[1].is_allowed());
    /// assert_eq!(limiter.peek(&path, 0).await?.state().map(|state| state.used()), Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_together<'a, 'b: 'a>(
        &self,
        requests: impl IntoIterator<Item: Into<AskedCheck<'a, 'b>>>,
    ) -> impl Future<Output = Result<Vec<PolicyDecision>, TogetherError>> {
        self.check_together_until(None, requests)
    }

    /// Like [`check_together`](Self::check_together), for a caller that waits no longer than until this deadline, as
    /// [`check_in_until`](Self::check_in_until) describes.
    ///
    /// # Errors
    ///
    /// The same as [`check_together`](Self::check_together).
    ///
    /// # Cancel safety
    ///
    /// The same as [`check`](Self::check).
    pub async fn check_together_until<'a, 'b: 'a>(
        &self,
        deadline: Option<StepDeadline>,
        requests: impl IntoIterator<Item: Into<AskedCheck<'a, 'b>>>,
    ) -> Result<Vec<PolicyDecision>, TogetherError> {
        let asked = self.asked(requests);
        let (mut time, mut deadline) = (MatchTime::FIRST, deadline);
        let (matchings, is_open, result) = loop {
            let matchings = asked.iter().enumerate().map(|(index, (set, attributes, cost))| {
                let matching = self.matching_without_hold(time, set, *attributes, *cost);
                matching.map_err(|error| TogetherError { index, error })
            });
            let matchings: Vec<Matching<'_>> = matchings.collect::<Result<_, _>>()?;
            let charges: Charges<'_> = matchings.iter().flat_map(Matching::enforced).collect();
            let is_open = matchings
                .iter()
                .all(|matching| matches!(matching.outcome, Outcome::Charge(_) | Outcome::Exempt(_)));
            let first_end = FirstEnd::of(&matchings);
            // If a policy denies one of them without a count, the others only look.
            let step = if is_open { first_end.step(&charges) } else { Step::Peek(&charges) };
            let counted = self.count(&charges, step, deadline).await;
            deadline = of_later_steps(deadline, charges.len());
            let passed = match &counted {
                Ok(looked) if !is_open => first_end.passed_at(looked),
                counted => first_end.passed(counted),
            };
            if let Some(later) = passed.and_then(|now| time.again(now)) {
                time = later;
                continue;
            }
            let result = self.result_together(&matchings, &charges, is_open, counted)?;
            drop(charges);
            break (matchings, is_open, result);
        };
        let is_allowed = is_open && result.counted.is_admitted();
        let mut states = result.counted.iter().copied();
        let part = |matching: &Matching<'_>| {
            result.part(states.by_ref().take(matching.enforced().count()).collect())
        };
        let parts: Vec<ChargeResult> = matchings.iter().map(part).collect();
        let tried: Vec<(&Matching<'_>, &ChargeResult)> = match is_allowed {
            true => matchings.iter().zip(&parts).collect(),
            false => Vec::new(),
        };
        let trials = self.try_out(&tried, deadline).await;
        let trials = trials.into_iter().chain(repeat_with(Trials::default));
        let each = matchings.iter().zip(parts).zip(trials);
        Ok(each.map(|((matching, part), trials)| matching.decision(part, trials)).collect())
    }

    /// Returns the result of all charges. If a policy denies one of the requests without a count, nothing is open, and
    /// the store's trouble changes nothing.
    fn result_together(
        &self,
        matchings: &[Matching<'_>],
        charges: &[Charge<'_>],
        is_open: bool,
        counted: Result<QuotaStates, StoreError>,
    ) -> Result<ChargeResult, TogetherError> {
        self.charge_result(charges, counted).or_else(|error| {
            matchings.iter().for_each(Matching::note_failure);
            if !is_open {
                return Ok(ChargeResult::counted(nothing()));
            }
            let mut charging =
                matchings.iter().enumerate().filter(|(_, matching)| matching.enforced().next().is_some());
            Err(match charging.next() {
                Some((index, matching)) => TogetherError { index, error: matching.error(error) },
                None => TogetherError { index: 0, error: error.into() },
            })
        })
    }
}
