//! Talkers: the keys that ask most, of each policy, for the live page.
//!
//! A check leads to at most one lock that is free, and never waits ([`Talkers::note`]). `summary` counts in bounded
//! memory, with a bound for every count; `period` has five minutes of it, and `subject` the periods of one policy.
//! Keys stay in this process: others see ids, which are keyed hashes (`id`). Only a principal with the scope `keys` may
//! see keys, and only with `--talkers plain`.

mod id;
mod kept_key;
mod memory;
mod period;
mod rules;
mod secret_file;
mod subject;
mod summary;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use arc_swap::{ArcSwap, ArcSwapOption};
use ring::rand::{SecureRandom as _, SystemRandom};
use tollgate::{Clock, Key, SystemClock, Timestamp};
use tollgate_policy::{
    ChargedKey, Conditions, Identity, Policy, PolicyDecision, PolicySet, describe_descriptor,
};

pub(crate) use self::id::{TalkerId, TalkerSecret};
use self::memory::Memory;
pub(crate) use self::period::{PeriodChoice, TalkersBy};
use self::rules::RuleTalkers;
pub use self::secret_file::TalkersSecretError;
use self::subject::SubjectTalkers;
pub(crate) use self::subject::{KeyBytes, NoTalker, TalkerRow, TalkersReport};
use crate::sample::{PolicySample, SampleMemory, SampledRequest, keep_bounds};

/// How talkers are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TalkerNames {
    /// By their ids alone.
    Hashed,
    /// For principals with the scope `keys`, by their keys as well.
    Plain,
}

/// What keys are made of.
#[derive(Debug)]
pub(crate) enum KeyMeaning {
    /// Of the attributes that a policy counts by.
    Policy(Identity),
    /// Of the entries of a descriptor of Envoy's.
    Descriptor,
}

/// The settings of talkers.
#[derive(Debug, Clone)]
pub(crate) struct TalkersSettings {
    pub(crate) names: TalkerNames,
    /// `None` for one that only this process has.
    pub(crate) secret: Option<TalkerSecret>,
}

/// The talkers of all policies.
#[derive(Debug)]
pub(crate) struct Talkers {
    names: TalkerNames,
    secret: TalkerSecret,
    memory: Arc<Memory>,
    sample_memory: Arc<SampleMemory>,
    live: ArcSwap<PolicyTalkers>,
    /// Those of Envoy's limits, if these decide.
    rules: ArcSwapOption<RuleTalkers>,
    /// Only the thread with this lock makes the list for the next version of the policies.
    following: Mutex<()>,
}

/// The talkers of each policy of one version.
#[derive(Debug, Default)]
struct PolicyTalkers {
    version: u64,
    /// In the order of the policies.
    policies: Box<[NamedTalkers]>,
    places: HashMap<Box<str>, usize>,
}

/// The talkers of a policy, what their keys mean, and a sample of its requests.
#[derive(Debug, Clone)]
struct NamedTalkers {
    identity: Identity,
    talkers: Arc<SubjectTalkers>,
    /// The requests that the policy is for.
    conditions: Conditions,
    sample: Arc<PolicySample>,
}

impl TalkerNames {
    /// Returns its name in answers.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Hashed => "hashed",
            Self::Plain => "plain",
        }
    }
}

impl KeyMeaning {
    /// Describes a key by its canonical bytes, or the first of them.
    pub(crate) fn describe(&self, KeyBytes(bytes): &KeyBytes) -> Option<String> {
        match self {
            Self::Policy(identity) => identity.describe_key(bytes),
            Self::Descriptor => describe_descriptor(bytes),
        }
    }
}

impl Talkers {
    /// # Errors
    ///
    /// If the system has no random numbers.
    pub(crate) fn new(settings: &TalkersSettings) -> Result<Self, ring::error::Unspecified> {
        let secret = match &settings.secret {
            Some(secret) => secret.clone(),
            None => {
                let mut random = [0; 32];
                SystemRandom::new().fill(&mut random)?;
                TalkerSecret::new(&random)
            }
        };
        let (memory, sample_memory, live, rules, following) = Default::default();
        Ok(Self { names: settings.names, secret, memory, sample_memory, live, rules, following })
    }

    pub(crate) const fn names(&self) -> TalkerNames {
        self.names
    }

    /// Counts the keys of a decision, but not those of limits that the caller has brought.
    pub(crate) fn note(&self, decision: &PolicyDecision) {
        self.note_at(SystemClock.coarse_now(), decision);
    }

    fn note_at(&self, now: Timestamp, decision: &PolicyDecision) {
        let set = decision.policies();
        if set.is_of_caller() {
            return;
        }
        let version = set.version();
        let mut live = self.live.load();
        if live.version < version {
            drop(live);
            self.follow(set);
            live = self.live.load();
        }
        for charged in decision.charged_keys() {
            let place = match live.version == version {
                true => Some(charged.place),
                // A policy of another version, a moment ago. By name, and if it has the same key.
                false => live.places.get(charged.policy.name()).copied(),
            };
            let Some(named) = place.and_then(|place| live.policies.get(place)) else { continue };
            if live.version == version || named.identity == *charged.policy.identity() {
                named.note(now, &charged, decision);
            }
        }
    }

    /// Makes room for the policies of a new version. A policy that keeps its name and its key keeps its talkers, and its
    /// sample if it is for the same requests. If another thread is at it, this does nothing.
    pub(crate) fn follow(&self, set: &PolicySet) {
        let Ok(_following) = self.following.try_lock() else { return };
        let before = self.live.load();
        if before.version >= set.version() {
            return;
        }
        let policies = set.policies().as_slice();
        let talkers = policies.iter().map(|policy| {
            let kept = before.under(policy);
            let talkers = kept.map(|kept| Arc::clone(&kept.talkers));
            let kept = kept.filter(|kept| kept.conditions == *policy.conditions());
            let sample = kept.map(|kept| Arc::clone(&kept.sample));
            NamedTalkers {
                identity: policy.identity().clone(),
                talkers: talkers.unwrap_or_else(|| {
                    Arc::new(SubjectTalkers::new(policy.name(), &self.secret, &self.memory))
                }),
                conditions: policy.conditions().clone(),
                sample: sample.unwrap_or_else(|| Arc::new(PolicySample::new(&self.sample_memory))),
            }
        });
        self.live.store(Arc::new(PolicyTalkers {
            version: set.version(),
            policies: talkers.collect(),
            places: policies.iter().map(|policy| policy.name().into()).zip(0..).collect(),
        }));
    }

    /// Returns the key of a talker of this policy, or the first bytes of it.
    ///
    /// # Errors
    ///
    /// If there is no such talker, or the policy counted by another key when its talkers were noted.
    pub(crate) fn key_of(&self, policy: &Policy, id: TalkerId) -> Result<KeyBytes, NoTalker> {
        let live = self.live.load();
        let named = live.under(policy).ok_or(NoTalker::Policy)?;
        named.talkers.key_of(SystemClock.coarse_now(), id)
    }

    /// Returns the id that this key has under a policy; `None` if the policy is not live any more.
    pub(crate) fn id_of(&self, policy: &Policy, key: &Key<'_>) -> Option<TalkerId> {
        Some(self.live.load().under(policy)?.talkers.id_of(key))
    }

    /// Returns the talkers of a policy, so many at most; `None` if there is no such policy.
    pub(crate) fn of_policy(
        &self,
        policy: &str,
        by: TalkersBy,
        period: PeriodChoice,
        limit: usize,
    ) -> Option<(TalkersReport, KeyMeaning)> {
        let live = self.live.load();
        let NamedTalkers { identity, talkers, .. } = live.of(policy)?;
        Some((
            talkers.report(SystemClock.coarse_now(), by, period, limit),
            KeyMeaning::Policy(identity.clone()),
        ))
    }

    /// Returns the sample of a policy's requests; `None` if there is no such policy.
    pub(crate) fn sample_of(&self, policy: &str) -> Option<Arc<PolicySample>> {
        self.live.load().of(policy).map(|named| Arc::clone(&named.sample))
    }

    /// Keeps the samples within their memory. Call it once a second.
    pub(crate) fn keep_samples(&self, now: Timestamp) {
        let live = self.live.load();
        let samples: Vec<&PolicySample> = live.policies.iter().map(|named| &*named.sample).collect();
        keep_bounds(&self.sample_memory, &samples, now);
    }
}

impl NamedTalkers {
    fn note(&self, now: Timestamp, charged: &ChargedKey<'_>, decision: &PolicyDecision) {
        let ChargedKey { key, denies, cost, at, is_overridden, .. } = *charged;
        let hash = self.talkers.hash(key);
        self.talkers.note(now, (key, hash), denies);
        // A check of 0 units only peeks.
        if cost == 0 {
            return;
        }
        self.sample.note(hash, || SampledRequest {
            key: hash,
            at: at.unwrap_or(now),
            cost,
            is_denied: denies,
            is_denied_elsewhere: !denies && !decision.is_allowed(),
            is_overridden,
        });
    }
}

impl PolicyTalkers {
    /// Returns the talkers of this policy, if they are counted by its key.
    fn under(&self, policy: &Policy) -> Option<&NamedTalkers> {
        self.of(policy.name()).filter(|named| named.identity == *policy.identity())
    }

    fn of(&self, policy: &str) -> Option<&NamedTalkers> {
        self.places.get(policy).and_then(|place| self.policies.get(*place))
    }
}

#[cfg(test)]
#[path = "talkers_tests.rs"]
mod tests;
