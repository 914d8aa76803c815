//! The refund of a check by the marks of what it charged: for fixed windows, their starts.

use std::slice;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use thiserror::Error;
use tollgate::{
    Charge, Clock, Mark, PolicyQuota, Quota, QuotaKind, QuotaState, Step, StepDeadline, Store, StoreError,
    WindowLength,
};

use super::charged_quotas::ChargedQuotas;
use super::quota_changes::{OtherQuota, QuotaChanges, next};
use super::{Charges, CheckError, PolicyLimiter, PolicySet, QuotaStanding};
use crate::matched::NeededValues;
use crate::{Attributes, MatchedPolicies};

/// How far a shared store's clock may step back without moving counters out of their windows (rule 12 of the
/// semantics).
const STEP_BACK: Duration = Duration::from_secs(1);

/// A charge of a check: its quota and its mark.
///
/// The quota is found again by its policy's name and its windows or kind, as its counter is. So it may have another
/// place by now, or another limit or burst; one that counts in another way is another.
#[derive(Debug, Clone)]
pub struct MarkedCharge {
    quota: PolicyQuota,
    mark: Mark,
}

/// The result of the refund of one quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaRefund {
    /// Whether the marked charge may still count: its window is the open one or, for other kinds, its units were not all
    /// back by themselves. If it does not count, nothing was given back.
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
    /// The policy of the charge at this place may have had another key in that version of the policies. These
    /// attributes may now have another counter; a [hold](PolicyLimiter::reserve) names the one that was charged.
    #[error(
        "nothing was given back: `{policy}` has had its key only since version {since} of the policies, and the check \
         was made under version {version}; only a hold names the counter that was charged"
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
        "nothing was given back: this process has no version {version} of the policies, the live one is {live}; only a \
         hold names the counter that was charged"
    )]
    UnknownVersion {
        /// The version of the check.
        version: u64,
        /// The live version.
        live: u64,
    },
    /// The quota at this place has no window that begins at this mark. The caller's fault.
    #[error("no window of {quota} starts at that time")]
    NoWindowStart {
        /// The place among those that were named.
        index: usize,
        /// The quota.
        quota: Box<str>,
    },
    /// The mark at this place is later than now, even if the store's clock has just stepped back by a second. The
    /// caller's fault. A bucket's mark is the time at which its units are back, so it may be later.
    #[error("this is in the future")]
    FutureStart {
        /// The place among those that were named.
        index: usize,
    },
}

impl QuotaRefund {
    /// Returns the result of a refund of a charge with this mark.
    pub(super) fn of(quota: &Quota, mark: Mark, state: &QuotaState) -> Self {
        let length = match quota.window() {
            WindowLength::Fixed(length) => length,
            _ => Duration::ZERO,
        };
        let is_open = match quota.kind() {
            QuotaKind::Window => state.mark() == mark,
            QuotaKind::Burst => mark.time() > state.now(),
            QuotaKind::Sliding => mark.time() + 2 * length > state.now(),
            // The units of a step leave a window's length after the step's last millisecond.
            _ => {
                let step =
                    quota.log_step().map_or(1, |step| i64::try_from(step.as_millis()).unwrap_or(i64::MAX));
                let into_step = mark.time().as_unix_millis().rem_euclid(step).unsigned_abs();
                let last = mark.time() + Duration::from_millis(step.unsigned_abs() - 1 - into_step);
                last + length > state.now()
            }
        };
        Self { is_open, state: *state }
    }
}

/// Lists the quotas that apply; the named ones are not repeated.
fn said(quotas: &[String]) -> String {
    if quotas.is_empty() { "none does".to_owned() } else { format!("there are {}", quotas.join(", ")) }
}

impl MarkedCharge {
    /// Returns the charge of this policy's quota that has this mark.
    #[must_use]
    pub fn new(policy: &str, quota: Quota, mark: Mark) -> Self {
        Self { quota: PolicyQuota::new(policy, quota), mark }
    }
}

impl From<QuotaStanding<'_>> for MarkedCharge {
    fn from(QuotaStanding { quota, state, .. }: QuotaStanding<'_>) -> Self {
        Self { quota: quota.clone(), mark: state.mark() }
    }
}

impl<S: Store, C: Clock> PolicyLimiter<S, C> {
    /// Gives back the units of a check of these attributes, by the marks of its charges. Quotas that apply but are not
    /// named stay unchanged: perhaps they are new. An invalid mark is refused before anything is given back.
    ///
    /// The live policies determine the key from the attributes. Attributes that set limits are optional, because no
    /// counter depends on a limit. `version` is that of the [check's decision](crate::PolicyDecision::version): a
    /// charge of a policy that has not had the same key in every version since then is refused.
    ///
    /// # Errors
    ///
    /// If the request lacks something, a charge belongs to none of the quotas that apply, or the store could not
    /// answer. If something was given back, the error [names the quotas](CheckError::Partly), so that the caller does
    /// not give it back again.
    pub fn refund(
        &self,
        attributes: &Attributes<'_>,
        cost: u32,
        version: u64,
        marked: &[MarkedCharge],
    ) -> impl Future<Output = Result<QuotaChanges<QuotaRefund>, RefundError>> {
        self.refund_until(None, attributes, cost, version, marked)
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
        marked: &[MarkedCharge],
    ) -> Result<QuotaChanges<QuotaRefund>, RefundError> {
        let set = self.live();
        if version > set.version() {
            return Err(RefundError::UnknownVersion { version, live: set.version() });
        }
        let matched = self.matched(&set, attributes, cost, NeededValues::Cost)?;
        let reached = reached(&set, &matched, marked);
        let charges: Charges<'_> = reached.iter().map(|(_, charge)| *charge).collect();
        let marks = marks(&charges, marked)?;
        expect_same_key(&set, &reached, version, &marks, marked)?;
        self.expect_past(deadline, &charges, &marks, marked).await?;
        let steps = charges.iter().zip(&marks);
        let steps = steps.map(|(charge, mark)| mark.map(|mark| Step::Refund { charge: *charge, mark }));
        let states = self.change(deadline.map(StepDeadline::after_a_step), steps).await?;
        let values = charges.iter().zip(states).zip(marks).map(|((charge, state), mark)| {
            let quota = charge.counter().quota().quota();
            Some(QuotaRefund::of(quota, mark?, &state?))
        });
        let mut values: Vec<Option<QuotaRefund>> = values.collect();
        let others = values.split_off(matched.enforced().count());
        let behind = reached.iter().skip(values.len());
        let others = behind.zip(others).filter_map(|((policy, charge), value)| {
            Some(OtherQuota { policy: *policy, quota: charge.counter().quota().clone(), value: value? })
        });
        let (others, forgotten) = (others.collect(), Vec::new());
        Ok(QuotaChanges {
            charged: ChargedQuotas::of(&matched),
            values,
            others,
            forgotten,
            set: Arc::clone(&set),
        })
    }

    /// Fails if a mark is later than now, by the clock of its counter: a shared store may be ahead of this process, and
    /// so may the windows that it began.
    async fn expect_past(
        &self,
        deadline: Option<StepDeadline>,
        charges: &[Charge<'_>],
        marks: &[Option<Mark>],
        marked: &[MarkedCharge],
    ) -> Result<(), RefundError> {
        let named = charges.iter().zip(marks).filter_map(|(charge, mark)| Some((charge, (*mark)?)));
        // The units of a bucket come back later than now.
        let past = named.filter(|(charge, _)| charge.counter().quota().quota().kind() != QuotaKind::Burst);
        let named: Vec<(&Charge<'_>, Mark)> = past.collect();
        // Each counter by itself: next to one that does not exist, a full store could not look at any.
        let steps = named.iter().map(|(charge, _)| Step::Peek(slice::from_ref(*charge)));
        let steps: Vec<Step<'_>> = steps.collect();
        let answers = match steps.as_slice() {
            [] => Vec::new(),
            steps => self.store.step_each_until(steps, deadline).await,
        };
        let mut answers = answers.into_iter();
        for (charge, mark) in named {
            let now = match next(&mut answers) {
                Ok(counted) => counted.first().map(QuotaState::now),
                // There is no such counter, and nothing to give back.
                Err(StoreError::Full) => None,
                Err(error) => return Err(CheckError::from(error).into()),
            };
            if now.is_some_and(|now| mark.time() > now + STEP_BACK) {
                return Err(RefundError::FutureStart { index: place(marked, charge.counter().quota()) });
            }
        }
        Ok(())
    }
}

/// A charge that a refund reaches, with the place of its policy.
type ReachedCharge<'a> = (u32, Charge<'a>);

/// Returns the charges that a refund reaches: those of quotas that apply, then those that an override replaces, then
/// those that are named, if an override may have given them.
fn reached<'a>(
    set: &PolicySet,
    matched: &'a MatchedPolicies<'_>,
    marked: &'a [MarkedCharge],
) -> SmallVec<[ReachedCharge<'a>; 4]> {
    let mut reached: SmallVec<[ReachedCharge<'a>; 4]> = matched.enforced_with_places().collect();
    reached.extend(matched.replaced());
    // An override that has ended, or was deleted, leaves nothing but the counters that it has had.
    if set.overrides().version().is_some() {
        for MarkedCharge { quota, .. } in marked {
            let is_reached = reached.iter().any(|(_, it)| it.counter().quota().shares_counters_with(quota));
            let mut entries = matched.deciding().filter(|entry| entry.policy.name() == quota.policy());
            if let Some(entry) = entries.next().filter(|_| !is_reached) {
                reached.push((entry.applied.policy, Charge::new(quota, &entry.key, entry.cost)));
            }
        }
    }
    reached
}

/// Returns for each charge its mark, if it is named.
fn marks(charges: &[Charge<'_>], marked: &[MarkedCharge]) -> Result<Vec<Option<Mark>>, RefundError> {
    let mut marks = vec![None; charges.len()];
    for (index, MarkedCharge { quota, mark }) in marked.iter().enumerate() {
        let counters = charges.iter().map(Charge::counter);
        let named = counters.zip(&mut marks).find(|(counter, _)| counter.quota().shares_counters_with(quota));
        let Some((counter, named)) = named else {
            let quotas = charges.iter().map(|charge| {
                let quota = charge.counter().quota();
                format!("{} of {}", quota.quota(), quota.policy())
            });
            return Err(RefundError::NoSuchQuota { index, quotas: quotas.collect() });
        };
        // For a first hit, whose windows only the store knows, and for kinds without windows, it is the one that opens
        // then: any time will do.
        let quota = counter.quota().quota();
        if quota.window_at(counter.key(), mark.time()).start() != mark.time() {
            return Err(RefundError::NoWindowStart { index, quota: quota.to_string().into() });
        }
        if named.replace(*mark).is_some() {
            return Err(RefundError::NamedTwice { index });
        }
    }
    Ok(marks)
}

/// Fails if the policy of a named charge may have had another key in this version.
fn expect_same_key(
    set: &PolicySet,
    reached: &[ReachedCharge<'_>],
    version: u64,
    marks: &[Option<Mark>],
    marked: &[MarkedCharge],
) -> Result<(), RefundError> {
    let mut named = reached.iter().zip(marks).filter(|(_, mark)| mark.is_some());
    let other = named.find_map(|((policy, charge), _)| {
        let since = set.key_since(*policy);
        (version < since).then_some((charge.counter().quota(), since))
    });
    match other {
        None => Ok(()),
        Some((quota, since)) => {
            let (index, policy) = (place(marked, quota), quota.policy().into());
            Err(RefundError::CountsOthers { index, policy, version, since })
        }
    }
}

/// Returns the place of a quota among the named windows.
fn place(marked: &[MarkedCharge], quota: &PolicyQuota) -> usize {
    marked.iter().position(|charge| charge.quota.shares_counters_with(quota)).unwrap_or(0)
}
