//! The decision of a policy limiter, with the policies behind it.

use std::iter::repeat_n;
use std::sync::Arc;
use std::time::Duration;

use tollgate::{
    InFlightState, Key, PolicyQuota, QuotaState, QuotaStates, Reason, Source, StoreError, Timestamp, Verdict,
};

use super::PolicySet;
use super::applied_override::{AppliedOverride, OverriddenPolicy};
use super::charge_result::ChargeResult;
use super::charged_quotas::{ChargedEntry, ChargedQuota, ChargedQuotas};
use super::in_flight::{InFlightRecord, InFlightResult, InFlightStanding};
use super::trials::Trials;
use crate::{
    HeaderFormat, HeaderFormats, KeyFault, Mode, NoKey, Outcome, OverridesVersion, Policy, TrialKind,
};

/// The decision on a request: its version of the policies, the policy that decided, and the results of trials.
///
/// It contains the keys that were charged, for its [receipt](Self::receipt), and no other data of the request. `Debug`
/// hides keys. Its clones share the policies.
#[derive(Debug, Clone)]
#[must_use = "a request that is denied must not go on"]
pub struct PolicyDecision {
    set: Arc<PolicySet>,
    basis: Basis,
    trials: Trials,
}

/// The ground of a decision.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Ground<'a> {
    /// Quotas decided; these are their states.
    Quotas(&'a QuotaStates),
    /// A limit in flight decided.
    InFlight(InFlightStanding<'a>),
    /// No quota applies: no policy matches that counts, or those that do give this request no limit. It is admitted.
    Unlimited,
    /// The policy admits matching requests without counting them.
    Exempt(&'a Policy),
    /// The policy denies matching requests.
    Denied(&'a Policy),
    /// An override denies the request: until its end, every request that it is for.
    DeniedByOverride {
        /// The policy that the override belongs to.
        policy: &'a Policy,
        /// The time from which on it does not, by the store's clock; `None` if the override has no end.
        until: Option<Timestamp>,
    },
    /// The request lacks the key of the policy, which denies such requests.
    MissingKey {
        /// The policy.
        policy: &'a Policy,
        /// The attribute that yields no key, and why.
        no_key: NoKey<'a>,
    },
    /// No policy matches, and such requests are [denied](crate::UnmatchedRequests::Deny).
    Unmatched,
}

/// The state of one quota after a decision.
#[derive(Debug, Clone, Copy)]
pub struct QuotaStanding<'a> {
    /// The policy of the quota.
    pub policy: &'a Policy,
    /// The quota that was charged; if [an attribute](crate::LimitAttribute) sets the limit, with that limit. If the
    /// policy for outages decided, the state has another limit.
    pub quota: &'a PolicyQuota,
    /// The same quota as the [policies](PolicyDecision::policies) have it: there it is one of [`Policy::quotas`], or of
    /// an override in the [file](crate::FileOverride::quotas). A quota by an override that is not in the file is the
    /// same as it was charged.
    pub declared: &'a PolicyQuota,
    /// The override that the quota belongs to, if it is not from the policies.
    pub by_override: Option<AppliedOverride>,
    /// Where it stands.
    pub state: &'a QuotaState,
}

/// A key of a request, under a policy that counted it.
#[derive(Debug, Clone, Copy)]
pub struct ChargedKey<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// Its place among [all](crate::Policies::as_slice).
    pub place: usize,
    /// The key.
    pub key: &'a Key<'static>,
    /// Whether this policy denied the request. If several would have, it is the one that decided.
    pub denies: bool,
    /// The units that the request costs under this policy.
    pub cost: u32,
    /// When the policy's quotas counted it, by the clock that they were counted by; `None` if it has none for this
    /// request.
    pub at: Option<Timestamp>,
    /// Whether an override, in the file or not, replaced or lifted the policy's limits for this request.
    pub is_overridden: bool,
}

/// The result of a trial: the answer that a shadow policy or candidates would have given.
#[derive(Debug, Clone, Copy)]
pub struct TrialDecision<'a> {
    /// The policy.
    pub policy: &'a Policy,
    /// Why they are on trial.
    pub kind: TrialKind,
    /// The answer that it would have given.
    pub answer: TrialAnswer<'a>,
}

/// The answer of a trial.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum TrialAnswer<'a> {
    /// Quotas would have decided; these would be their states.
    Quotas(&'a QuotaStates),
    /// The limit in flight would have decided, in this state. No units were taken.
    InFlight(&'a InFlightState),
    /// The policy would have denied the request without counting: it denies everything it matches, or requests without
    /// its key.
    Denied,
    /// Unknown, because of this error of the store.
    Failed(&'a StoreError),
}

impl TrialAnswer<'_> {
    /// Returns whether the request would have been admitted; `None` if that is not known.
    #[must_use]
    pub fn verdict(&self) -> Option<Verdict> {
        match self {
            Self::Quotas(counted) if counted.is_admitted() => Some(Verdict::Allowed),
            Self::InFlight(state) if state.has_room() => Some(Verdict::Allowed),
            Self::Quotas(_) | Self::InFlight(_) | Self::Denied => Some(Verdict::Denied),
            Self::Failed(_) => None,
        }
    }

    /// Returns the state of the deciding quota, if there is one.
    #[must_use]
    pub fn state(&self) -> Option<&QuotaState> {
        match self {
            Self::Quotas(counted) => counted.decided(),
            Self::InFlight(_) | Self::Denied | Self::Failed(_) => None,
        }
    }
}

/// The basis of a decision. Policies are places among those of the set.
#[expect(
    clippy::large_enum_variant,
    reason = "the largest one is the usual one, and a box would be an allocation"
)]
#[derive(Debug, Clone)]
pub(super) enum Basis {
    /// Of these quotas.
    Charged(ChargeResult, ChargedQuotas),
    Exempt(u32),
    Denied(u32),
    DeniedByOverride(u32, Option<Timestamp>),
    MissingKey(u32, Box<str>, KeyFault),
    Unmatched,
}

impl Basis {
    /// Returns the basis of a decision on this outcome. If quotas decide, `result` is what they came to, and has no
    /// states if that is unknown: then nothing was charged.
    pub(super) fn new(outcome: &Outcome<'_>, result: ChargeResult) -> Self {
        match outcome {
            Outcome::Charge(matched) => {
                let is_unknown = result.counted.is_empty() && matched.enforced().next().is_some();
                let charged =
                    if is_unknown { ChargedQuotas::unknown(matched) } else { ChargedQuotas::of(matched) };
                Self::Charged(result, charged)
            }
            Outcome::Exempt(policy) => Self::Exempt(policy.place),
            Outcome::Deny(policy) => Self::Denied(policy.place),
            Outcome::DenyOverride { policy, until } => Self::DeniedByOverride(policy.place, *until),
            Outcome::DenyUnknown { policy, no_key: NoKey { attribute, fault, .. } } => {
                Self::MissingKey(policy.place, (*attribute).into(), *fault)
            }
            Outcome::DenyUnmatched => Self::Unmatched,
        }
    }
}

impl PolicyDecision {
    pub(super) fn new(set: Arc<PolicySet>, basis: Basis, trials: Trials) -> Self {
        Self { set, basis, trials }
    }

    /// A decision of a check: it is in the tally.
    pub(super) fn of_check(set: Arc<PolicySet>, basis: Basis, trials: Trials) -> Self {
        let decision = Self::new(set, basis, trials);
        match decision.deciding() {
            Some(number) => {
                if let Some(counters) = decision.set.counters(number) {
                    counters.decided(decision.verdict(), decision.source());
                }
            }
            None if decision.is_allowed() => decision.set.note_unlimited(),
            None => decision.set.note_unmatched(),
        }
        for trial in &decision.trials {
            if let Some(counters) = decision.set.counters(trial.policy) {
                let is_denied_now = decision.is_denied_without_trial(trial.policy);
                counters.tried(trial.kind, trial.answer().verdict(), is_denied_now);
            }
        }
        decision
    }

    /// Returns whether the request is allowed.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.verdict() == Verdict::Allowed
    }

    /// Returns the verdict, to match on.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match &self.basis {
            // Where one denied, one that denied decides.
            Basis::Charged(decided, _) => match decided.limit_in_flight() {
                Some(record) if record.state.has_room() => Verdict::Allowed,
                None if decided.state().is_none_or(QuotaState::has_room) => Verdict::Allowed,
                _ => Verdict::Denied,
            },
            Basis::Exempt(_) => Verdict::Allowed,
            Basis::Denied(_) | Basis::DeniedByOverride(..) | Basis::MissingKey(..) | Basis::Unmatched => {
                Verdict::Denied
            }
        }
    }

    /// Why.
    #[must_use]
    pub fn ground(&self) -> Ground<'_> {
        let policy = |number: &u32| self.set.policies().policy(*number);
        match &self.basis {
            Basis::Charged(decided, _) => match decided.limit_in_flight() {
                Some(record) => self.standing(record).map_or(Ground::Unlimited, Ground::InFlight),
                None if decided.counted.is_empty() => Ground::Unlimited,
                None => Ground::Quotas(&decided.counted),
            },
            Basis::Unmatched => Ground::Unmatched,
            Basis::Exempt(number) => policy(number).map_or(Ground::Unlimited, Ground::Exempt),
            Basis::Denied(number) => policy(number).map_or(Ground::Unmatched, Ground::Denied),
            Basis::DeniedByOverride(number, until) => policy(number)
                .map_or(Ground::Unmatched, |policy| Ground::DeniedByOverride { policy, until: *until }),
            Basis::MissingKey(number, attribute, fault) => {
                policy(number).map_or(Ground::Unlimited, |policy| {
                    let choices = policy.identity().choices(*fault);
                    Ground::MissingKey { policy, no_key: NoKey { attribute, fault: *fault, choices } }
                })
            }
        }
    }

    /// Returns the states of the quotas, if any applied.
    #[must_use]
    pub fn counted(&self) -> Option<&QuotaStates> {
        match &self.basis {
            Basis::Charged(ChargeResult { counted, .. }, _) if !counted.is_empty() => Some(counted),
            _ => None,
        }
    }

    /// Returns the state of the quota that decided, if any applied. If a [limit in flight](Self::limit_in_flight) decided,
    /// no quota did.
    #[must_use]
    pub fn state(&self) -> Option<&QuotaState> {
        match &self.basis {
            Basis::Charged(decided, _) => decided.state(),
            _ => None,
        }
    }

    /// Returns whether the store had no room for the request, which is then admitted uncounted
    /// ([`WhenFull::Allow`](crate::WhenFull::Allow)).
    #[must_use]
    pub const fn is_without_room(&self) -> bool {
        matches!(&self.basis, Basis::Charged(ChargeResult { is_full: true, .. }, _))
    }

    /// Returns the source of the decision; the store, if no store had to be asked.
    #[must_use]
    pub fn source(&self) -> Source {
        let in_flight = match &self.basis {
            Basis::Charged(ChargeResult { in_flight, .. }, _) => in_flight.as_deref(),
            _ => None,
        };
        let source = self.state().map(QuotaState::source);
        source.or_else(|| in_flight.map(InFlightResult::source)).unwrap_or(Source::Store)
    }

    /// Returns why quotas or a limit in flight denied the request; `None` if they did not.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        match self.limit_in_flight() {
            Some(standing) => standing.state.reason(),
            None => self.state()?.reason(),
        }
    }

    /// Returns the time to wait before the quotas have room; `None` if they did not deny the request. Units in flight may
    /// be free at any time, so a denial by their limit has none.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.state()?.retry_after()
    }

    /// Returns the states of all limits in flight that applied to a hold or a peek.
    pub fn in_flight(&self) -> impl Iterator<Item = InFlightStanding<'_>> {
        let records = match &self.basis {
            Basis::Charged(decided, _) => decided.in_flight_records(),
            _ => &[],
        };
        records.iter().filter_map(|record| self.standing(record))
    }

    /// Returns the limit in flight that decided: it denied the request, and no quota did, or the request can never pass it.
    /// It also decides if it admitted the request and there are no quotas.
    #[must_use]
    pub fn limit_in_flight(&self) -> Option<InFlightStanding<'_>> {
        match &self.basis {
            Basis::Charged(decided, _) => self.standing(decided.limit_in_flight()?),
            _ => None,
        }
    }

    fn standing<'a>(&'a self, record: &'a InFlightRecord) -> Option<InFlightStanding<'a>> {
        let policy = self.set.policies().policy(record.policy)?;
        let InFlightRecord { in_flight, by_override, state, .. } = record;
        Some(InFlightStanding { policy, in_flight, by_override: *by_override, state })
    }

    /// Returns the policy that decided: the one whose quota or limit in flight decided, or that exempted or denied the request. `None` if
    /// no quota applies.
    #[must_use]
    pub fn policy(&self) -> Option<&Policy> {
        self.set.policies().policy(self.deciding()?)
    }

    /// Returns the policies under which it was made.
    #[must_use]
    pub const fn policies(&self) -> &Arc<PolicySet> {
        &self.set
    }

    /// Returns the version of the policies under which it was made.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.set.version()
    }

    /// Returns the version of the overrides under which it was made; `None` if there are none, or if it was made under
    /// the limits of a caller.
    #[must_use]
    pub fn overrides_version(&self) -> Option<OverridesVersion> {
        self.set.overrides().version()
    }

    /// Returns the states of all quotas that applied, in the order in which they were charged.
    pub fn quotas(&self) -> impl Iterator<Item = QuotaStanding<'_>> {
        let charged = match &self.basis {
            Basis::Charged(decided, charged) => Some((&*decided.counted, charged)),
            _ => None,
        };
        charged.into_iter().flat_map(|(states, charged)| {
            // Not `zip`: it would ask the nested iterators for each quota, which is slower than letting them drive the
            // loop.
            let mut states = states.iter();
            self.set.quotas(charged).map_while(
                move |ChargedQuota { policy, declared, quota, by_override }| {
                    Some(QuotaStanding { policy, quota, declared, by_override, state: states.next()? })
                },
            )
        })
    }

    /// Returns whether a request is denied while limits of this policy are on trial: by the limits that candidates would
    /// replace, or by others if the policy is in shadow mode.
    fn is_denied_without_trial(&self, place: u32) -> bool {
        let Some(policy) = self.set.policies().policy(place) else { return false };
        if policy.mode() == Mode::Shadow {
            return !self.is_allowed();
        }
        let is_own = |other: &Policy| std::ptr::eq(policy, other);
        self.quotas().any(|quota| !quota.state.has_room() && is_own(quota.policy))
            || self.in_flight().any(|limit| !limit.state.has_room() && is_own(limit.policy))
    }

    /// Returns the quota that decided, unless a limit in flight did.
    #[must_use]
    pub fn quota(&self) -> Option<QuotaStanding<'_>> {
        match &self.basis {
            Basis::Charged(decided, _) if decided.limit_in_flight().is_none() => {
                self.quotas().nth(decided.deciding)
            }
            _ => None,
        }
    }

    /// Returns the results of trials. While the store cannot answer, no quotas are on trial.
    pub fn trials(&self) -> impl Iterator<Item = TrialDecision<'_>> {
        self.trials.iter().filter_map(|trial| {
            let policy = self.set.policies().policy(trial.policy)?;
            Some(TrialDecision { policy, kind: trial.kind, answer: trial.answer() })
        })
    }

    /// Returns the formats of its headers: those of the policy that decided.
    #[must_use]
    pub fn headers(&self) -> HeaderFormats {
        self.policy().map_or(HeaderFormat::None.into(), Policy::headers)
    }

    /// Returns whether no policy matches the request, so that [`Policies::unmatched`](crate::Policies::unmatched)
    /// decides.
    #[must_use]
    pub fn is_unmatched(&self) -> bool {
        match &self.basis {
            Basis::Charged(_, charged) => !charged.is_any,
            Basis::Exempt(_) | Basis::Denied(_) | Basis::DeniedByOverride(..) | Basis::MissingKey(..) => {
                false
            }
            Basis::Unmatched => true,
        }
    }

    /// Returns the HTTP status if it is a denial: that of the policy that decided; 403 if none matches, or if an override
    /// denied the request.
    #[must_use]
    pub fn deny_status(&self) -> u16 {
        match self.basis {
            Basis::DeniedByOverride(..) => 403,
            _ => self.policy().map_or(403, Policy::deny_status),
        }
    }

    /// Returns each policy whose limits an override replaced, or for which an override denied the request. A policy in
    /// shadow mode is not among them.
    pub fn applied_overrides(&self) -> impl Iterator<Item = OverriddenPolicy<'_>> {
        let (entries, denied) = match &self.basis {
            Basis::Charged(_, charged) => (&*charged.entries, None),
            Basis::DeniedByOverride(number, until) => {
                (&[][..], Some((*number, AppliedOverride { until: *until })))
            }
            _ => (&[][..], None),
        };
        let charged = entries
            .iter()
            .filter_map(|entry: &ChargedEntry| Some((entry.applied.policy, entry.by_override?)));
        denied.into_iter().chain(charged).filter_map(|(policy, by_override)| {
            let policy = self.set.policies().policy(policy)?;
            Some(OverriddenPolicy { policy, by_override })
        })
    }

    /// Returns each policy that counted the request, with its key: also those whose quotas an override lifted. Policies
    /// in shadow mode are not among them. There are none if the store gave no answer.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::{Key, MemoryStore};
    /// use tollgate_policy::{Attributes, Config, PolicyLimiter};
    ///
    /// let text = "policies: [{ name: search, key: [user], quotas: [1/1d] }]";
    /// let policies = Config::parse("a.yaml", text)?.into_policies();
    /// let limiter = PolicyLimiter::new(MemoryStore::new(), policies, "a.yaml");
    /// let alice: Attributes<'_> = [("user", "alice")].into_iter().collect();
    /// # tollgate_testkit::block_on(async {
    /// for denies in [false, true] {
    ///     let decision = limiter.check(&alice, 1).await?;
    ///     let charged: Vec<_> = decision.charged_keys().collect();
    ///     assert_eq!((charged.len(), charged[0].policy.name()), (1, "search"));
    ///     assert_eq!((charged[0].key, charged[0].denies), (&Key::from("alice"), denies));
    ///     assert_eq!((charged[0].cost, charged[0].is_overridden), (1, false));
    /// }
    /// # Ok::<(), tollgate_policy::CheckError>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn charged_keys(&self) -> impl Iterator<Item = ChargedKey<'_>> {
        let (entries, states) = match &self.basis {
            Basis::Charged(decided, charged) => (&*charged.entries, &*decided.counted),
            _ => (&[][..], &[][..]),
        };
        let denying = if entries.is_empty() || self.is_allowed() { None } else { self.deciding() };
        let mut left = states;
        entries.iter().filter_map(move |entry| {
            let ChargedEntry { applied, quotas, key, cost, by_override, .. } = entry;
            let first_states;
            (first_states, left) = left.split_at_checked(*quotas).unwrap_or_default();
            Some(ChargedKey {
                place: applied.policy as usize,
                policy: self.set.policies().policy(applied.policy)?,
                key,
                denies: denying == Some(applied.policy),
                cost: *cost,
                at: first_states.first().map(QuotaState::now),
                is_overridden: by_override.is_some() || !applied.list.is_own(),
            })
        })
    }

    /// Returns the charged quotas' keys and costs, with the quotas' states.
    pub(super) fn charged(&self) -> impl Iterator<Item = (&ChargedEntry, QuotaStanding<'_>)> {
        let entries = match &self.basis {
            Basis::Charged(_, charged) => &*charged.entries,
            _ => &[],
        };
        let keys = entries.iter().flat_map(|entry| repeat_n(entry, entry.quotas));
        keys.zip(self.quotas())
    }

    /// The place of the policy that decided.
    fn deciding(&self) -> Option<u32> {
        match &self.basis {
            Basis::Charged(decided, charged) => {
                if let Some(record) = decided.limit_in_flight() {
                    return Some(record.policy);
                }
                let mut left = decided.deciding;
                charged.entries.iter().find_map(|ChargedEntry { applied, quotas, .. }| {
                    let is_here = left < *quotas;
                    left = left.saturating_sub(*quotas);
                    is_here.then_some(applied.policy)
                })
            }
            Basis::Exempt(number)
            | Basis::Denied(number)
            | Basis::DeniedByOverride(number, _)
            | Basis::MissingKey(number, ..) => Some(*number),
            Basis::Unmatched => None,
        }
    }
}
