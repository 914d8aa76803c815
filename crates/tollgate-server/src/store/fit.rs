//! Decides which policies a shared store can count, by flags, the environment and the file together.
//!
//! A store refuses charges that it cannot count, request by request. So policies are checked before they are live.

use thiserror::Error;
use tollgate::{PolicyQuota, Quota, QuotaKind};
use tollgate_policy::{
    Config, FileOverride, Identity, Mode, OverlapIndex, Policies, Policy, Position, Problem, ProblemKind,
    StoreSettings,
};
use tollgate_redis::{AcrossSlots, KeyLayout, LayoutError, StoreUrl};

use crate::args::layout;
use crate::args::{ClusterArgs, StoreKeyArgs};
use crate::store::DEFAULT_PREFIX;

/// A policy that the store cannot count; the operator's fault.
#[derive(Debug, Clone, Error)]
#[error("policy `{policy}` cannot be counted: {reason}")]
pub struct Misfit {
    policy: Box<str>,
    reason: Box<MisfitReason>,
}

#[derive(Debug, Clone, Error)]
pub(super) enum MisfitReason {
    #[error("{quota}: {error}")]
    Quota { quota: Quota, error: LayoutError },
    #[error("its key has {}, but the key layout `{layout}` names {named}", counted(*.values))]
    Values { values: usize, layout: KeyLayout, named: usize },
    #[error("the number of values in its key varies, but a key layout names a fixed number")]
    VaryingValues,
    #[error(
        "{one} and {other} may share a counter, because the key layout `{layout}` does not contain {{windows}}"
    )]
    SharedByQuotas { layout: KeyLayout, one: Quota, other: Quota },
    #[error(
        "{one} and {other} may share a log, because the key layout `{layout}` has one for each user: give all logs \
         windows of one length"
    )]
    LogLengths { layout: KeyLayout, one: Quota, other: Quota },
    #[error(
        "{quota} and the candidate {candidate} may share a counter, because the key layout `{layout}` does not \
         contain {{policy}}"
    )]
    SharedWithCandidate { layout: KeyLayout, quota: Quota, candidate: Quota },
    #[error(
        "{quota} may share a counter with {other} of policy `{policy}`, which matches the same requests, because the \
         key layout `{layout}` does not contain {{policy}}"
    )]
    SharedWithPolicy { layout: KeyLayout, quota: Quota, other: Quota, policy: Box<str> },
    #[error(
        "its quotas are in several slots of the Cluster; write braces around all values of the layout and nothing else, \
         such as {{{{{{user}}}}}}, or charge slot by slot with `across_slots: reserve` (`--store-across-slots reserve`)"
    )]
    Scattered,
    #[error(
        "one request may match it and policy `{other}`, whose counters are in other slots of the Cluster; let `match` \
         keep them apart, or charge slot by slot with `across_slots: reserve` (`--store-across-slots reserve`)"
    )]
    Apart { other: Box<str> },
    #[error(
        "it limits units in flight, and the key layout `{layout}`, which is another system's, has no holds"
    )]
    InFlight { layout: KeyLayout },
    #[error(
        "{quota} and {other} of the policy itself may share a counter, because the key layout `{layout}` does not contain \
         {{windows}}: an override can have the windows of its policy"
    )]
    SharedWithOwn { layout: KeyLayout, quota: Quota, other: Quota },
    #[error(
        "{quota} may share a log with that of another override, because the key layout `{layout}` has one for each \
         user: use the length of a log of the policies"
    )]
    NewLog { layout: KeyLayout, quota: Quota },
}

/// The properties of a store that decide which policies it can count.
#[derive(Debug, Clone)]
pub(crate) struct StoreFit {
    /// The layout of keys, if not Tollgate's own.
    layout: Option<KeyLayout>,
    together: Together,
}

/// The counters that one step may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Together {
    /// Any: there is only one server, or the store charges slot by slot.
    All,
    /// Those of one key, which are in one slot of a Cluster.
    OfOneKey,
    /// Only one: each may be in a different slot.
    One,
}

/// The store settings of flags and the environment. They override the file.
#[derive(Debug, Default)]
pub(crate) struct StoreFlags<'a> {
    pub(crate) layout: Option<&'a KeyLayout>,
    pub(crate) url: Option<&'a StoreUrl>,
    pub(crate) prefix: Option<&'a str>,
    pub(crate) across_slots: Option<AcrossSlots>,
}

impl<'a> StoreFlags<'a> {
    pub(crate) fn new(url: Option<&'a StoreUrl>, keys: &'a StoreKeyArgs, cluster: &ClusterArgs) -> Self {
        Self {
            layout: keys.store_layout.as_ref(),
            url,
            prefix: keys.store_prefix.as_deref(),
            across_slots: cluster.store_across_slots.map(Into::into),
        }
    }

    /// Returns the handling of requests whose counters are in several slots of a Cluster.
    pub(crate) fn across_slots(&self, file: Option<&StoreSettings>) -> AcrossSlots {
        self.across_slots.unwrap_or_else(|| match file {
            Some(file) if file.reserves_across_slots() => AcrossSlots::Reserve,
            _ => AcrossSlots::Refuse,
        })
    }
}

impl StoreFit {
    pub(crate) fn new(
        layout: Option<&KeyLayout>,
        is_cluster: bool,
        across_slots: AcrossSlots,
        prefix: &str,
    ) -> Self {
        let together = match layout {
            _ if !is_cluster || across_slots == AcrossSlots::Reserve => Together::All,
            Some(layout) if !layout.keeps_to_slot(prefix) => Together::One,
            _ => Together::OfOneKey,
        };
        Self { layout: layout.cloned(), together }
    }

    /// Memory counts everything.
    pub(crate) const fn of_memory() -> Self {
        Self { layout: None, together: Together::All }
    }

    /// Combines the file and the flags. Also returns the problems of the file with this store.
    pub(crate) fn of_file(config: &Config, flags: &StoreFlags<'_>) -> (Self, Vec<Problem>) {
        let store = config.store();
        let file_layout = store.and_then(|store| store.layout()).map(layout::read).transpose();
        let wrong_layout = file_layout.as_ref().err().map(|error| {
            let at = config.layout_at().unwrap_or(Position::new(1, 1));
            Problem::new(at, ProblemKind::Other(error.to_string().into()))
        });
        let layout = flags.layout.cloned().or(file_layout.unwrap_or_default());
        let is_cluster = match flags.url {
            Some(url) => url.is_cluster(),
            None => store.and_then(|it| it.url().parse().ok()).is_some_and(|url: StoreUrl| url.is_cluster()),
        };
        let prefix = flags.prefix.or(store.and_then(|store| store.prefix())).unwrap_or(DEFAULT_PREFIX);
        let fit = Self::new(layout.as_ref(), is_cluster, flags.across_slots(store), prefix);
        let problems = match wrong_layout {
            Some(problem) => vec![problem],
            None => fit.needless_prefix(config).into_iter().chain(fit.problems(config)).collect(),
        };
        (fit, problems)
    }

    /// Returns how keys are written, if not in Tollgate's own layout.
    pub(crate) const fn layout(&self) -> Option<&KeyLayout> {
        self.layout.as_ref()
    }

    /// Returns whether one step can have several counters of one key.
    pub(super) fn counts_several(&self) -> bool {
        self.together != Together::One
    }

    /// Returns a problem if the file has a prefix that no key would use.
    fn needless_prefix(&self, config: &Config) -> Option<Problem> {
        let layout = self.layout.as_ref().filter(|layout| !layout.names_prefix())?;
        let at = config.prefix_at()?;
        let message = format!(
            "`prefix` would have no effect: the key layout `{layout}` does not contain {{prefix}}; leave out the \
             prefix, or use a layout of your own that contains it"
        );
        Some(Problem::new(at, ProblemKind::Other(message.into())))
    }

    /// Returns the policies of the file that cannot be counted, with their reasons.
    pub(crate) fn problems(&self, config: &Config) -> Vec<Problem> {
        let problem = |(policy, misfit): (&Policy, Misfit)| {
            let at = policy.at().unwrap_or(Position::new(1, 1));
            Problem::new(at, ProblemKind::Other(misfit.to_string().into()))
        };
        self.misfits(config.policies()).map(problem).collect()
    }

    /// Checks that all policies can be counted.
    ///
    /// # Errors
    ///
    /// Names the first policy that cannot be counted, and the reason.
    pub(crate) fn check(&self, policies: &Policies) -> Result<(), Misfit> {
        self.misfits(policies).next().map_or(Ok(()), |(_, misfit)| Err(misfit))
    }

    /// Returns the policies that cannot be counted, with their reasons.
    fn misfits<'a>(&'a self, policies: &'a Policies) -> impl Iterator<Item = (&'a Policy, Misfit)> {
        let counts_all = self.layout.is_none() && self.together == Together::All;
        let policies = if counts_all { &[] } else { policies.as_slice() };
        let (mut earlier, mut log) = (Earlier::default(), None);
        policies.iter().filter_map(move |policy| {
            let reason = self.reason(policy, &earlier).or_else(|| self.other_log(policy, &mut log));
            earlier.insert(policy);
            Some((policy, Misfit { policy: policy.name().into(), reason: Box::new(reason?) }))
        })
    }

    /// Returns why a policy cannot be counted, alone or together with earlier ones.
    fn reason<'a>(&self, policy: &'a Policy, earlier: &Earlier<'a>) -> Option<MisfitReason> {
        let in_layout = self.layout.as_ref().and_then(|layout| {
            let in_flight = || MisfitReason::InFlight { layout: layout.clone() };
            (policy.has_in_flight() && policy.mode() != Mode::Off)
                .then(in_flight)
                .or_else(|| unwritable(layout, policy))
                .or_else(|| shared_by_quotas(layout, policy))
                .or_else(|| self.scattered(policy))
                .or_else(|| shared_with_policy(layout, policy, earlier))
        });
        in_layout.or_else(|| self.apart(policy, earlier))
    }

    /// Returns a reason if the policy has a log of another length than the logs before: a shorter one would remove what a
    /// longer one counts.
    fn other_log<'a>(&self, policy: &'a Policy, log: &mut Option<&'a Quota>) -> Option<MisfitReason> {
        let layout = self.layout.as_ref()?;
        let quotas = enforced(policy).chain(candidates(policy)).flatten().map(PolicyQuota::quota);
        let mut logs = quotas.filter(|quota| quota.kind() == QuotaKind::Log);
        let one = match *log {
            Some(one) => one,
            None => *log.insert(logs.next()?),
        };
        let other = logs.find(|other| other.window() != one.window())?;
        Some(MisfitReason::LogLengths { layout: layout.clone(), one: one.clone(), other: other.clone() })
    }

    /// Returns a reason if the policy's quotas are in several slots of a Cluster, so that the store refuses each
    /// request.
    fn scattered(&self, policy: &Policy) -> Option<MisfitReason> {
        let has_several = enforced(policy).chain(candidates(policy)).any(|quotas| quotas.len() > 1);
        (has_several && self.together == Together::One).then_some(MisfitReason::Scattered)
    }

    /// Returns an earlier policy that may decide on the same request, with counters in another slot.
    fn apart<'a>(&self, policy: &'a Policy, earlier: &Earlier<'a>) -> Option<MisfitReason> {
        let decides = |policy: &Policy| {
            let limits_in_flight = || {
                let mut in_overrides = policy.overrides().iter().flat_map(FileOverride::in_flight).flatten();
                policy.in_flight().is_some() || in_overrides.next().is_some()
            };
            let counts = enforced(policy).any(|quotas| !quotas.is_empty()) || limits_in_flight();
            policy.mode() == Mode::Enforce && counts
        };
        if !decides(policy) {
            return None;
        }
        let lies_apart = |identity: &Identity| match self.together {
            Together::All => false,
            Together::OfOneKey => policy.identity() != identity,
            Together::One => true,
        };
        let apart = earlier.0.iter().filter(|(identity, _)| lies_apart(identity));
        let other = apart.flat_map(|(_, others)| others.overlapping(policy)).find(|other| decides(other))?;
        Some(MisfitReason::Apart { other: other.name().into() })
    }
}

/// The policies that were looked at, by their keys.
#[derive(Default)]
struct Earlier<'a>(Vec<(&'a Identity, OverlapIndex<'a>)>);

impl<'a> Earlier<'a> {
    fn insert(&mut self, policy: &'a Policy) {
        match self.0.iter_mut().find(|(identity, _)| *identity == policy.identity()) {
            Some((_, others)) => others.insert(policy),
            None => {
                let mut others = OverlapIndex::default();
                others.insert(policy);
                self.0.push((policy.identity(), others));
            }
        }
    }

    /// Returns those that overlap with this one and have the same key.
    fn of_same_key(&self, policy: &'a Policy) -> impl Iterator<Item = &'a Policy> {
        let others = self.0.iter().find(|(identity, _)| *identity == policy.identity());
        others.into_iter().flat_map(|(_, others)| others.overlapping(policy))
    }
}

/// Returns the part of a policy's keys that the layout cannot express.
fn unwritable(layout: &KeyLayout, policy: &Policy) -> Option<MisfitReason> {
    let mut quotas = enforced(policy).chain(candidates(policy)).flatten().map(PolicyQuota::quota).peekable();
    // Without a quota, no key is written.
    quotas.peek()?;
    if let Some((quota, error)) = quotas.find_map(|quota| Some((quota, layout.validate(quota).err()?))) {
        return Some(MisfitReason::Quota { quota: quota.clone(), error });
    }
    unwritable_key(layout, policy)
}

/// Returns the reason if the layout cannot express the key of a policy.
pub(super) fn unwritable_key(layout: &KeyLayout, policy: &Policy) -> Option<MisfitReason> {
    let needed = layout.values()?;
    match values(policy.identity()) {
        Some(values) if values == needed => None,
        Some(values) => Some(MisfitReason::Values { values, layout: layout.clone(), named: needed }),
        None => Some(MisfitReason::VaryingValues),
    }
}

/// Returns the quotas of the policy that share a counter in the layout. The store charges them as one, within the
/// lesser limit, or a candidate uses up the quota that decides.
fn shared_by_quotas(layout: &KeyLayout, policy: &Policy) -> Option<MisfitReason> {
    let is_shared = |(one, other): &(&PolicyQuota, &PolicyQuota)| !layout.tells_apart(one, other);
    if let Some((one, other)) = enforced(policy).chain(candidates(policy)).flat_map(pairs).find(is_shared) {
        let (one, other) = (one.quota().clone(), other.quota().clone());
        return Some(MisfitReason::SharedByQuotas { layout: layout.clone(), one, other });
    }
    let with_each = |tried| enforced(policy).flatten().map(move |quota| (quota, tried));
    let (quota, tried) = candidates(policy).flatten().flat_map(with_each).find(is_shared)?;
    let (quota, candidate) = (quota.quota().clone(), tried.quota().clone());
    Some(MisfitReason::SharedWithCandidate { layout: layout.clone(), quota, candidate })
}

/// Returns the counter that a policy shares with an earlier one that always applies to the same requests. The store
/// charges both as one, or counts the request twice if one of the two is a shadow policy.
fn shared_with_policy<'a>(
    layout: &KeyLayout,
    policy: &'a Policy,
    earlier: &Earlier<'a>,
) -> Option<MisfitReason> {
    let counts = |policy: &Policy| policy.mode() != Mode::Off && !policy.is_exempt();
    let is_beside =
        |other: &&Policy| counts(policy) && counts(other) && (policy.covers(other) || other.covers(policy));
    let mut together = earlier.of_same_key(policy).filter(is_beside).flat_map(|other| {
        let with_other = |quota| other.quotas().iter().map(move |known| (quota, known));
        policy.quotas().iter().flat_map(with_other)
    });
    let (quota, known) = together.find(|(quota, known)| !layout.tells_apart(quota, known))?;
    Some(MisfitReason::SharedWithPolicy {
        layout: layout.clone(),
        quota: quota.quota().clone(),
        other: known.quota().clone(),
        policy: known.policy().into(),
    })
}

/// Returns the lists of quotas that decide; one of them is charged at a time.
pub(super) fn enforced(policy: &Policy) -> impl Iterator<Item = &[PolicyQuota]> {
    policy.overrides().iter().flat_map(FileOverride::quotas).chain([policy.quotas()])
}

/// Returns the lists of quotas on trial.
pub(super) fn candidates(policy: &Policy) -> impl Iterator<Item = &[PolicyQuota]> {
    policy.overrides().iter().flat_map(FileOverride::candidates).chain([policy.candidates()])
}

/// Returns all pairs of quotas that are charged together.
pub(super) fn pairs(quotas: &[PolicyQuota]) -> impl Iterator<Item = (&PolicyQuota, &PolicyQuota)> {
    let others = |(place, one)| quotas.iter().skip(place + 1).map(move |other| (one, other));
    quotas.iter().enumerate().flat_map(others)
}

/// Returns the number of values in the policy's keys; `None` if that varies. The key of a choice also has the name of
/// its attribute.
fn values(identity: &Identity) -> Option<usize> {
    match identity {
        Identity::Global => Some(0),
        Identity::Attribute(_) | Identity::Address(..) => Some(1),
        Identity::All(parts) => parts.iter().map(values).sum(),
        Identity::FirstOf(choices) => {
            let mut each = choices.iter().map(|choice| match choice {
                Identity::Attribute(_) | Identity::Address(..) | Identity::All(_) => {
                    Some(values(choice)? + names(choice))
                }
                _ => values(choice),
            });
            let first = each.next()??;
            each.all(|values| values == Some(first)).then_some(first)
        }
        _ => None,
    }
}

/// Returns the number of attributes in a choice.
fn names(identity: &Identity) -> usize {
    match identity {
        Identity::Attribute(_) | Identity::Address(..) => 1,
        Identity::All(parts) | Identity::FirstOf(parts) => parts.iter().map(names).sum(),
        _ => 0,
    }
}

fn counted(values: usize) -> String {
    format!("{values} {}", if values == 1 { "value" } else { "values" })
}
