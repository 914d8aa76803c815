//! Several requests that are decided as one.

use std::sync::Arc;

use thiserror::Error;
use tollgate::{Clock, QuotaStates, Step, StepDeadline, Store};

use super::decision::{Basis, ChargeResult};
use super::trials::Trials;
use super::{AskedCheck, Charges, CheckError, PolicyDecision, PolicyLimiter, nothing, of_trials};
use crate::{MatchedPolicies, Outcome};

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
        let outcomes = asked.iter().enumerate().map(|(index, (set, attributes, cost))| {
            let outcome = self.charges(set, *attributes, *cost);
            outcome.map_err(|refusal| TogetherError { index, error: refusal.into() })
        });
        let outcomes: Vec<Outcome<'_>> = outcomes.collect::<Result<_, _>>()?;
        let charges: Charges<'_> = matched(&outcomes).flat_map(|(_, matched)| matched.enforced()).collect();
        let is_open =
            outcomes.iter().all(|outcome| matches!(outcome, Outcome::Charge(_) | Outcome::Exempt(_)));
        // If a policy denies one of them without a count, the others only look.
        let step = if is_open { Step::Charge(&charges) } else { Step::Peek(&charges) };
        let decided = self.step(&charges, step, deadline).await;
        let decided = decided.or_else(|error| {
            for (index, matched) in matched(&outcomes) {
                asked[index].0.note_failure(matched);
            }
            if !is_open {
                // What the store would have told changes nothing: a policy denies without it.
                return Ok(ChargeResult::counted(nothing()));
            }
            let charging = matched(&outcomes).find(|(_, matched)| matched.enforced().next().is_some());
            let with_place = |(index, matched)| TogetherError {
                index,
                error: CheckError::of_charges(matched, error.clone()),
            };
            Err(charging.map_or(TogetherError { index: 0, error: error.clone().into() }, with_place))
        })?;
        let parts = parts(&outcomes, &decided);
        let is_allowed = is_open && decided.counted.is_admitted();
        let tried: Vec<(&MatchedPolicies<'_>, &QuotaStates)> = match is_allowed {
            true => {
                matched(&outcomes).zip(&parts).map(|((_, matched), part)| (matched, &part.counted)).collect()
            }
            false => Vec::new(),
        };
        let trials = self.try_out(&tried, of_trials(deadline, charges.len())).await;
        drop(charges);

        let (mut parts, mut trials) = (parts.into_iter(), trials.into_iter());
        let decisions = outcomes.into_iter().zip(&asked).map(|(outcome, (set, ..))| {
            let (basis, trials) = match outcome {
                Outcome::Charge(matched) => {
                    let part = parts.next().unwrap_or_else(|| ChargeResult::counted(nothing()));
                    let is_unknown = matched.enforced().next().is_some() && part.counted.is_empty();
                    let basis =
                        if is_unknown { Basis::unknown(&matched) } else { Basis::charged(&matched, part) };
                    (basis, trials.next().unwrap_or_default())
                }
                other => (Basis::uncharged(&other), Trials::default()),
            };
            PolicyDecision::of_check(Arc::clone(set), basis, trials)
        });
        Ok(decisions.collect())
    }
}

/// Returns the decision on each request with charges.
fn parts(outcomes: &[Outcome<'_>], decided: &ChargeResult) -> Vec<ChargeResult> {
    let mut states = decided.counted.iter().copied();
    let part = |(_, matched): (usize, &MatchedPolicies<'_>)| {
        let part: QuotaStates = states.by_ref().take(matched.enforced().count()).collect();
        decided.part(part)
    };
    matched(outcomes).map(part).collect()
}

/// The requests that charge something or could, with their places.
fn matched<'a, 'b>(outcomes: &'a [Outcome<'b>]) -> impl Iterator<Item = (usize, &'a MatchedPolicies<'b>)> {
    outcomes.iter().enumerate().filter_map(|(index, outcome)| match outcome {
        Outcome::Charge(matched) => Some((index, matched)),
        _ => None,
    })
}
