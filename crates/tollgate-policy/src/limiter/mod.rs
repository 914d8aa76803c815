//! Policies over a store: from attributes to a decision, under one version of the policies from beginning to end.
//!
//! ```text
//! Attributes ──▶ PolicySet ──▶ MatchedPolicies ──▶ FallbackStore ──▶ Decision ──▶ trials ──▶ PolicyDecision
//!                the live      charges             the store, or     what the     counted
//!                version                           what its trouble  request      after it
//!                                                  means             is told
//! ```
//!
//! This file builds a limiter, and replaces its policies and overrides. `checks` checks requests. Answers are in
//! `decision`, trials in `trials`, the live policies and overrides in `policy_set`, a version of the policies in
//! `configuration` with its figures in `tally`, changes by administrators in `quota_changes`, refunds in
//! `marked_refund`, receipts in `check_receipt`, holds in `holds`, counts under callers' limits in `counts`. What applies
//! to a request is in `matching`: every check charges and decides by it. If an override has ended before that,
//! `match_time` says so. `each` checks many requests, `together` decides on several as one.

mod applied_override;
mod charge_result;
mod charged_quotas;
mod check_receipt;
mod checks;
mod configuration;
mod counts;
mod decision;
mod each;
mod holds;
mod in_flight;
mod marked_refund;
mod match_time;
mod matching;
mod policy_set;
mod quota_changes;
mod replaced;
mod tally;
mod together;
mod trials;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use smallvec::SmallVec;
use thiserror::Error;
use tollgate::{
    Charge, FallbackStore, MemoryStore, OnStoreFailure, PolicyInFlight, PolicyQuota, QuotaStates,
    StepDeadline, Store, StoreError, SystemClock,
};

pub use self::applied_override::{AppliedOverride, OverriddenPolicy};
pub use self::counts::{AskedCount, BlockError, CountOperation, CountState, CountTerms};
pub use self::decision::{ChargedKey, Ground, PolicyDecision, QuotaStanding, TrialAnswer, TrialDecision};
pub use self::each::AskedCheck;
pub use self::holds::{
    AskedHold, HoldPart, HoldSettlement, InFlightPart, PolicyHold, RenewAnswer, ReserveAnswer, SettleAnswer,
};
pub use self::in_flight::InFlightStanding;
pub use self::marked_refund::{MarkedCharge, QuotaRefund, RefundError};
pub use self::matching::Matching;
pub use self::policy_set::PolicySet;
pub use self::quota_changes::{ForgottenUnits, PolicyLimit, QuotaChanges};
pub use self::tally::{HoldTally, Tally, TrialTally};
pub use self::together::TogetherError;
use crate::{MatchedPolicies, OverrideSet, Policies, Policy, Refusal};

/// A limiter by policies: decides which limits apply to a request, and whether it is allowed.
///
/// The policies can be [replaced](Self::replace) at any time, and so can the [overrides](Self::replace_overrides) of
/// their limits. A request is decided entirely under the versions that are live when it arrives, even if the store makes
/// it wait.
///
/// # Where several policies apply
///
/// - All quotas of all of them are charged, or none is: a request needs room everywhere.
/// - The quota that decides is the one that denied (the longest wait, if several did), else the one with the least
///   remaining share. Headers and status are those of [its policy](PolicyDecision::policy).
/// - While the store cannot answer, the strictest `on_store_failure` of those that charge decides: `closed`, then
///   `local`, then `open`. With `local`, the policies with `local` are counted, each against its own share.
/// - If an exempt policy matches, nothing is counted. A request that no policy counts is admitted, and its decision
///   [shows this](Ground::Unlimited).
///
/// # Trials
///
/// Policies in shadow mode and candidate quotas are counted in a second step, after the decision, which they never
/// change. An error there is only reported. A trial charges nothing for a request that another policy denied, because
/// that request would not have reached it. While the store cannot answer, no quotas are on trial. A policy in shadow
/// mode that [denies](crate::PolicyKind::Deny) what it matches is a trial too, and so is one that denies requests
/// without its key. Each of the two steps may take the store's whole deadline; in `tollgate serve`, they share it.
///
/// # Examples
///
/// ```
/// use tollgate::MemoryStore;
/// use tollgate_policy::{Attributes, Config, PolicyLimiter};
///
/// let config = Config::parse(
///     "tollgate.yaml",
///     "
/// policies:
///   - { name: login, match: { path: /login }, key: [ip], quotas: [1/1m@first_hit] }
///   - { name: all, key: global, quotas: [1000/1s] }
/// ",
/// )?;
/// let limiter = PolicyLimiter::new(MemoryStore::new(), config.into_policies(), "tollgate.yaml");
///
/// # tollgate_testkit::block_on(async {
/// let login: Attributes<'_> = [("path", "/login"), ("ip", "192.0.2.7")].into_iter().collect();
/// assert!(limiter.check(&login, 1).await?.is_allowed());
/// let denied = limiter.check(&login, 1).await?;
/// assert!(!denied.is_allowed());
/// assert_eq!(denied.policy().map(|policy| policy.name()), Some("login"));
/// assert_eq!(denied.deny_status(), 429);
/// # Ok::<(), tollgate_policy::CheckError>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PolicyLimiter<S, C = SystemClock> {
    store: FallbackStore<S, C>,
    when_full: WhenFull,
    /// The maximum length of an attribute's value, in bytes.
    max_value: usize,
    /// Requests that the store had no room for.
    full: AtomicU64,
    live: ArcSwap<PolicySet>,
    /// Held while the live set is replaced, so that each one is made from the previous one. Decisions never wait for it.
    replacing: Mutex<()>,
}

/// The answer for a key without a counter while the store is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum WhenFull {
    /// [`StoreError::Full`].
    #[default]
    Deny,
    /// Admission without counting. A cost above the limit is still denied.
    Allow,
}

/// The reason why there is no decision. It is never a denial.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The request lacks a value that a policy needs. The caller's fault.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store could not answer, and a policy that applies is `closed`; or it has no room for an unseen key.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store can never count these policies together. The fault of the configuration; a retry does not help.
    #[error("policies {}: {error}", policies.join(", "))]
    Uncountable {
        /// The names of the policies that apply to the request, as far as they decide.
        policies: Box<[Box<str>]>,
        /// The store's error, which is always [`StoreError::Uncountable`].
        #[source]
        error: StoreError,
    },
    /// A policy that applies limits units in flight: only a [hold](PolicyLimiter::reserve) takes them, and a check cannot
    /// end one. The fault of whoever sends such requests to a check; a retry does not help.
    #[error(
        "policy `{policy}` limits units in flight, and a check cannot give them back: such a request needs a hold"
    )]
    NeedsHold {
        /// The first policy that does.
        policy: Box<str>,
    },
    /// Units in flight of this policy were to be set or recorded, which only holds can do.
    #[error(
        "policy `{policy}` limits units in flight, which belong to holds: they cannot be set or recorded"
    )]
    OnlyHolds {
        /// The policy.
        policy: Box<str>,
    },
    /// The store changed some of several quotas and failed for others, which may have been changed as well.
    #[error("{error}; it changed {}", said(.changed, .forgotten))]
    Partly {
        /// The quotas that were changed.
        changed: Box<[PolicyQuota]>,
        /// The limits in flight of which the units were forgotten.
        forgotten: Box<[PolicyInFlight]>,
        /// The first error of the store.
        #[source]
        error: StoreError,
    },
}

fn said(quotas: &[PolicyQuota], in_flight: &[PolicyInFlight]) -> String {
    let quotas = quotas.iter().map(|quota| format!("{} of {}", quota.quota(), quota.policy()));
    let limits = in_flight.iter().map(|limit| format!("{} of {}", limit.in_flight(), limit.policy()));
    quotas.chain(limits).collect::<Vec<_>>().join(", ")
}

impl CheckError {
    /// Converts the store's error about the charges of these policies.
    fn of_charges(matched: &MatchedPolicies<'_>, error: StoreError) -> Self {
        let StoreError::Uncountable(_) = error else { return Self::Store(error) };
        let counting =
            matched.deciding().filter(|entry| !entry.quotas().is_empty() || entry.in_flight().is_some());
        let policies = counting.map(|entry| entry.policy.name().into()).collect();
        Self::Uncountable { policies, error }
    }
}

type Charges<'a> = SmallVec<[Charge<'a>; 4]>;

impl<S: Store> PolicyLimiter<S> {
    /// These policies over this store. `source` describes their origin, for people.
    ///
    /// A store that may have to wait needs its own deadline. While it cannot answer, policies with a local fallback are
    /// counted in a [memory](Self::memory) of up to a million keys.
    pub fn new(store: S, policies: Policies, source: &str) -> Self {
        Self {
            // Each quota says what the store's trouble means.
            store: FallbackStore::new(store, OnStoreFailure::Open),
            when_full: WhenFull::default(),
            max_value: usize::MAX,
            full: AtomicU64::new(0),
            live: ArcSwap::from_pointee(PolicySet::first(policies, source)),
            replacing: Mutex::new(()),
        }
    }
}

impl<S, C> PolicyLimiter<S, C> {
    /// Counts in this memory while the store cannot answer, by its clock and up to its cap.
    pub fn memory<K>(self, memory: MemoryStore<K>) -> PolicyLimiter<S, K> {
        let Self { store, when_full, max_value, full, live, replacing } = self;
        PolicyLimiter { store: store.memory(memory), when_full, max_value, full, live, replacing }
    }

    /// Starts with these overrides, compiled for the policies.
    #[must_use]
    pub fn with_overrides(self, overrides: OverrideSet) -> Self {
        let _ = self.replace_overrides(|_, policies| overrides.for_policies(policies));
        self
    }

    /// Sets the answer for a key without a counter while the store is full.
    #[must_use]
    pub fn when_full(self, when_full: WhenFull) -> Self {
        Self { when_full, ..self }
    }

    /// Refuses requests with an attribute value of more bytes, which bounds the length of keys. A value with a
    /// [stand-in](crate::View::counted_as) is accepted; keys contain the stand-in. A [path as it was sent](crate::View::sent_path)
    /// may have three times as many bytes, because it may be escaped. By default any length is accepted.
    #[must_use]
    pub fn max_value_bytes(self, bytes: usize) -> Self {
        Self { max_value: bytes, ..self }
    }

    /// Returns the store.
    pub const fn store(&self) -> &S {
        self.store.store()
    }

    /// Returns the store with the policies' fallback: receipts are settled and given back on it.
    pub const fn fallback(&self) -> &FallbackStore<S, C> {
        &self.store
    }

    /// Returns the number of requests for which the store had no room, including peeks, whatever the answer.
    pub fn store_full(&self) -> u64 {
        self.full.load(Ordering::Relaxed)
    }

    fn note_full(&self) {
        // Relaxed: a figure of its own that guards no other memory.
        self.full.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the policies that are live now.
    pub fn live(&self) -> Arc<PolicySet> {
        self.live.load_full()
    }

    /// Returns [these limits](crate::Policy::of_caller) instead of the live policies, for
    /// [`check_in`](Self::check_in) and [`peek_in`](Self::peek_in). The tally of the policies does not change.
    pub fn under(&self, limits: Policy) -> Arc<PolicySet> {
        Arc::new(self.live.load().of_caller(limits))
    }

    /// Makes other policies live from the next request on, and returns them with their version. Counters are kept: a
    /// quota of the same policy, kind, window and anchor keeps its usage. The overrides stay: those that do not fit the
    /// new policies are [inert](crate::OverrideState::Inert).
    pub fn replace(&self, policies: Policies, source: &str) -> Arc<PolicySet> {
        self.replace_set(|live| live.next(policies, source))
    }

    /// Makes other overrides live from the next request on: those that `change` makes of the live ones. The policies stay
    /// under their version, and nothing of them is copied. Returns both.
    ///
    /// Changes wait for each other, and decisions for none of them. A request that is being decided keeps the overrides
    /// with which it began.
    ///
    /// An override has no counters of its own: a quota that counts as one of the policy's does counts on the same counter,
    /// and another one starts its own. If it has an end, the clock of the store that counts decides about it, to the
    /// millisecond.
    ///
    /// # Examples
    ///
    /// One customer may do more, for an hour:
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tollgate::{Clock, Key, MemoryStore, Quota, SystemClock, Timestamp};
    /// use tollgate_policy::{
    ///     Attributes, Ground, Identity, OverrideLimits, OverrideName, OverrideRecord, OverrideTarget, Policies, Policy,
    ///     PolicyLimiter,
    /// };
    ///
    /// let search = Policy::builder("search").key(Identity::Attribute("user".into())).quota(Quota::per_day(1)).build()?;
    /// let limiter = PolicyLimiter::new(MemoryStore::new(), Policies::of([search])?, "code");
    /// let now = SystemClock.now();
    /// let set = |user: &str, limits: OverrideLimits, until: Timestamp| {
    ///     limiter.replace_overrides(|overrides, policies| {
    ///         let target = OverrideTarget::Key(overrides.key(&Key::from(user)));
    ///         let record = OverrideRecord {
    ///             name: OverrideName { policy: "search".into(), target },
    ///             key: "user".into(),
    ///             limits,
    ///             until: Some(until),
    ///             label: None,
    ///             note: Some("a launch".into()),
    ///             by: None,
    ///             at: now,
    ///             version: 1,
    ///         };
    ///         overrides.with(record, policies)
    ///     })
    /// };
    /// # tollgate_testkit::block_on(async {
    /// let alice: Attributes<'_> = [("user", "alice")].into_iter().collect();
    /// assert!(limiter.check(&alice, 1).await?.is_allowed());
    /// assert!(!limiter.check(&alice, 1).await?.is_allowed());
    ///
    /// // It is a quota of days too, so what she has used counts.
    /// set("alice", OverrideLimits::of(["3/1d"]), now + Duration::from_secs(3_600));
    /// let decision = limiter.check(&alice, 1).await?;
    /// assert!(decision.is_allowed() && decision.quota().is_some_and(|quota| quota.by_override.is_some()));
    /// assert_eq!(decision.state().map(|state| state.used()), Some(2));
    ///
    /// set("alice", OverrideLimits::Denied, now + Duration::from_secs(3_600));
    /// let denied = limiter.check(&alice, 1).await?;
    /// assert!(matches!(denied.ground(), Ground::DeniedByOverride { .. }));
    /// assert_eq!((denied.deny_status(), denied.retry_after()), (403, None));
    /// # Ok::<(), tollgate_policy::CheckError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn replace_overrides(
        &self,
        change: impl FnOnce(&OverrideSet, &Policies) -> OverrideSet,
    ) -> Arc<PolicySet> {
        self.replace_set(|live| live.with_overrides(change))
    }

    fn replace_set(&self, next: impl FnOnce(&PolicySet) -> PolicySet) -> Arc<PolicySet> {
        // Nothing that is done under the lock leaves half of it undone.
        let _guard = self.replacing.lock().unwrap_or_else(PoisonError::into_inner);
        let next = Arc::new(next(&self.live.load()));
        self.live.store(Arc::clone(&next));
        next
    }
}

/// Returns the deadline of the steps that follow a step of so many charges. Without any, no step was taken.
fn of_later_steps(deadline: Option<StepDeadline>, charges: usize) -> Option<StepDeadline> {
    match charges {
        0 => deadline,
        _ => deadline.map(StepDeadline::after_a_step),
    }
}

/// Returns the counts of an empty step.
fn nothing() -> QuotaStates {
    std::iter::empty().collect()
}

/// Without the store, which contains keys.
impl<S, C> fmt::Debug for PolicyLimiter<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PolicyLimiter")
            .field("live", &self.live.load())
            .field("when_full", &self.when_full)
            .finish_non_exhaustive()
    }
}
