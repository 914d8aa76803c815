//! The refund of a check by the windows that it charged. A refund by receipt is in `receipt`.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tollgate::{
    Charge, Clock, Mark, PolicyQuota, Quota, QuotaState, Step, StepDeadline, Store, StoreError, Timestamp,
};

use super::decision::ChargedQuotas;
use super::quota_changes::{QuotaChanges, next};
use super::{Charges, CheckError, PolicyLimiter, PolicySet, QuotaStanding};
use crate::matched::NeededValues;
use crate::{Attributes, MatchedPolicies};

/// How far a shared store's clock may step back without moving counters out of their windows (rule 12 of the
/// semantics).
const STEP_BACK: Duration = Duration::from_secs(1);

/// A window that a check has charged: its quota and its start.
///
/// The quota is found again by its policy's name and its windows, as its counter is. So it may have another place by
/// now, or another limit; one with other windows is another.
#[derive(Debug, Clone)]
pub struct ChargedWindow {
    quota: PolicyQuota,
    start: Timestamp,
}

/// The result of the refund of one quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaRefund {
    /// Whether the named window is the open one. If it is not, nothing was given back.
    pub is_open: bool,
    /// The state of the quota after that. Its [units](QuotaState::units) are those that were given back.
    pub state: QuotaState,
}

/// The reason why nothing, or not everything, was given back.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum RefundError {
    /// The request lacks a value, or the store could not answer.
    #[error(transparent)]
    Check(#[from] CheckError),
    /// The quota at this place does not apply to the request under the policies that are live. They may have been
    /// others when it was checked.
    #[error("nothing was given back: this quota does not apply to the request; {}", said(.quotas))]
    NoSuchQuota {
        /// The place among those that were named.
        index: usize,
        /// The quotas that do, each with its policy.
        quotas: Box<[String]>,
    },
    /// The quota at this place was named before. The caller's fault.
    #[error("this quota is named twice")]
    NamedTwice {
        /// The place among those that were named.
        index: usize,
    },
    /// The policy of the window at this place may have had another key in that version of the policies. These
    /// attributes may now have another counter; a [receipt](PolicyLimiter::refund_receipt) names the one that was
    /// charged.
    #[error(
        "nothing was given back: `{policy}` has had its key only since version {since} of the policies, and the check \
         was made under version {version}; only the check's receipt identifies the counter that was charged"
    )]
    CountsOthers {
        /// The place among those that were named.
        index: usize,
        /// The policy.
        policy: Box<str>,
        /// The version of the check.
        version: u64,
        /// The version since which the policy has had its key.
        since: u64,
    },
    /// This limiter never had such a version of the policies: the check was made by another process, or before a
    /// restart.
    #[error(
        "nothing was given back: this process has no version {version} of the policies, the live one is {live}; only \
         the check's receipt identifies the counter that was charged"
    )]
    UnknownVersion {
        /// The version of the check.
        version: u64,
        /// The live version.
        live: u64,
    },
    /// The quota at this place has no window that begins then. The caller's fault.
    #[error("no window of {quota} starts at that time")]
    NoWindowStart {
        /// The place among those that were named.
        index: usize,
        /// The quota.
        quota: Box<str>,
    },
    /// The window at this place would begin later than now, even if the store's clock has just stepped back by a
    /// second. The caller's fault.
    #[error("this is in the future")]
    FutureStart {
        /// The place among those that were named.
        index: usize,
    },
}

impl QuotaRefund {
    /// Returns the result of a refund to the window with this mark.
    pub(super) fn of(mark: Mark, state: &QuotaState) -> Self {
        Self { is_open: state.mark() == mark, state: *state }
    }
}

/// Lists the quotas that apply; the named ones are not repeated.
fn said(quotas: &[String]) -> String {
    if quotas.is_empty() { "none does".to_owned() } else { format!("there are {}", quotas.join(", ")) }
}

impl ChargedWindow {
    /// Returns the window of this policy's quota that began then.
    #[must_use]
    pub fn new(policy: &str, quota: Quota, start: Timestamp) -> Self {
        Self { quota: PolicyQuota::new(policy, quota), start }
    }
}

impl From<QuotaStanding<'_>> for ChargedWindow {
    fn from(QuotaStanding { quota, state, .. }: QuotaStanding<'_>) -> Self {
        Self { quota: quota.clone(), start: state.mark().time() }
    }
}

impl<S: Store, C: Clock> PolicyLimiter<S, C> {
    /// Gives back the units of a check of these attributes, in these windows. Quotas that apply but are not named stay
    /// unchanged: perhaps they are new. An invalid window is refused before anything is given back.
    ///
    /// The live policies determine the key from the attributes. Attributes that set limits are optional, because no
    /// counter depends on a limit. `version` is that of the [check's decision](crate::PolicyDecision::version): a
    /// window of a policy that has not had the same key in every version since then is refused.
    ///
    /// # Errors
    ///
    /// If the request lacks something, a window belongs to none of the quotas that apply, or the store could not
    /// answer. If something was given back, the error [names the quotas](CheckError::Partly), so that the caller does
    /// not give it back again.
    pub fn refund(
        &self,
        attributes: &Attributes<'_>,
        cost: u32,
        version: u64,
        windows: &[ChargedWindow],
    ) -> impl Future<Output = Result<QuotaChanges<QuotaRefund>, RefundError>> {
        self.refund_until(None, attributes, cost, version, windows)
    }

    /// Like [`refund`](Self::refund), for a caller that waits no longer than until this deadline. All steps of the
    /// refund share it.
    ///
    /// # Errors
    ///
    /// The same as [`refund`](Self::refund).
    pub async fn refund_until(
        &self,
        deadline: Option<StepDeadline>,
        attributes: &Attributes<'_>,
        cost: u32,
        version: u64,
        windows: &[ChargedWindow],
    ) -> Result<QuotaChanges<QuotaRefund>, RefundError> {
        let set = self.live();
        if version > set.version() {
            return Err(RefundError::UnknownVersion { version, live: set.version() });
        }
        let matched = self.matched(&set, attributes, cost, NeededValues::Cost)?;
        let charges: Charges<'_> = matched.enforced().collect();
        let starts = starts(&charges, windows)?;
        expect_same_key(&set, &matched, version, &starts, windows)?;
        self.expect_past(deadline, &charges, &starts, windows).await?;
        let marks: Vec<Option<Mark>> = starts.into_iter().map(|start| start.map(Mark::at)).collect();
        let steps = charges.iter().zip(&marks);
        let steps = steps.map(|(charge, mark)| mark.map(|mark| Step::Refund { charge: *charge, mark }));
        let states = self.change(deadline.map(StepDeadline::after_a_step), steps).await?;
        let refund =
            |(state, mark): (Option<QuotaState>, Option<Mark>)| Some(QuotaRefund::of(mark?, &state?));
        let values = states.into_iter().zip(marks).map(refund).collect();
        Ok(QuotaChanges { charged: ChargedQuotas::of(&matched), values, set: Arc::clone(&set) })
    }

    /// Fails if a window would begin later than now, by the clock of its counter: a shared store may be ahead of this
    /// process, and so may the windows that it began.
    async fn expect_past(
        &self,
        deadline: Option<StepDeadline>,
        charges: &[Charge<'_>],
        starts: &[Option<Timestamp>],
        windows: &[ChargedWindow],
    ) -> Result<(), RefundError> {
        let named = charges.iter().zip(starts).filter_map(|(charge, start)| Some((charge, (*start)?)));
        let named: Vec<(&Charge<'_>, Timestamp)> = named.collect();
        // Each counter by itself: next to one that does not exist, a full store could not look at any.
        let steps = named.iter().map(|(charge, _)| Step::Peek(slice::from_ref(*charge)));
        let steps: Vec<Step<'_>> = steps.collect();
        let answers = match steps.as_slice() {
            [] => Vec::new(),
            steps => self.store.step_each_until(steps, deadline).await,
        };
        let mut answers = answers.into_iter();
        for (charge, start) in named {
            let now = match next(&mut answers) {
                Ok(counted) => counted.first().map(QuotaState::now),
                // There is no such counter, and nothing to give back.
                Err(StoreError::Full) => None,
                Err(error) => return Err(CheckError::from(error).into()),
            };
            if now.is_some_and(|now| start > now + STEP_BACK) {
                return Err(RefundError::FutureStart { index: place(windows, charge.counter().quota()) });
            }
        }
        Ok(())
    }
}

/// For each charge when the window began that is named, if one is.
fn starts(charges: &[Charge<'_>], windows: &[ChargedWindow]) -> Result<Vec<Option<Timestamp>>, RefundError> {
    let mut starts = vec![None; charges.len()];
    for (index, ChargedWindow { quota, start }) in windows.iter().enumerate() {
        let counters = charges.iter().map(Charge::counter);
        let named =
            counters.zip(&mut starts).find(|(counter, _)| counter.quota().shares_counters_with(quota));
        let Some((counter, named)) = named else {
            let quotas = charges.iter().map(|charge| {
                let quota = charge.counter().quota();
                format!("{} of {}", quota.quota(), quota.policy())
            });
            return Err(RefundError::NoSuchQuota { index, quotas: quotas.collect() });
        };
        // For a first hit, whose windows only the store knows, the one that opens then: any start will do.
        let quota = counter.quota().quota();
        if quota.window_at(counter.key(), *start).start() != *start {
            return Err(RefundError::NoWindowStart { index, quota: quota.to_string().into() });
        }
        if named.replace(*start).is_some() {
            return Err(RefundError::NamedTwice { index });
        }
    }
    Ok(starts)
}

/// Fails if the policy of a named window may have had another key in this version.
fn expect_same_key(
    set: &PolicySet,
    matched: &MatchedPolicies<'_>,
    version: u64,
    starts: &[Option<Timestamp>],
    windows: &[ChargedWindow],
) -> Result<(), RefundError> {
    let charged = matched.deciding().flat_map(|entry| entry.quotas().iter().map(move |it| (entry, it)));
    let mut named = charged.zip(starts).filter(|(_, start)| start.is_some());
    let other = named.find_map(|((entry, quota), _)| {
        let since = set.key_since(entry.applied.policy);
        (version < since).then_some((entry, quota, since))
    });
    match other {
        None => Ok(()),
        Some((entry, quota, since)) => {
            let (index, policy) = (place(windows, quota), entry.policy.name().into());
            Err(RefundError::CountsOthers { index, policy, version, since })
        }
    }
}

/// Returns the place of a quota among the named windows.
fn place(windows: &[ChargedWindow], quota: &PolicyQuota) -> usize {
    windows.iter().position(|window| window.quota.shares_counters_with(quota)).unwrap_or(0)
}
