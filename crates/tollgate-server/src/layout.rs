//! Keys as another system writes them: the layout that a name or a template means, and which policies it cannot take.
//!
//! A store refuses what its layout cannot say, request by request, and a policy that admits in trouble would then admit
//! everybody. So policies are looked through before they are live.

use thiserror::Error;
use tollgate::{PolicyQuota, Quota};
use tollgate_policy::{
    Config, Identity, Mode, Override, Policies, Policy, Position, Problem, ProblemKind, StoreSettings,
};
use tollgate_redis::{KeyLayout, LayoutError, StoreUrl};

use crate::store::DEFAULT_PREFIX;

/// A text that means no layout of keys. The fault of whoever wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum UnknownLayout {
    #[error(
        "unknown layout of keys: expected {}, or a template such as limit:{{user}}:{{window}}",
        KeyLayout::NAMED.map(|(name, _)| name).join(", ")
    )]
    Name,
    #[error(transparent)]
    Template(#[from] LayoutError),
}

/// A policy that cannot be counted under a layout of keys. The fault of whoever chose the two.
#[derive(Debug, Clone, Error)]
#[error("policy `{policy}` cannot be counted under the layout of keys: {reason}")]
pub struct Misfit {
    policy: Box<str>,
    reason: Reason,
}

#[derive(Debug, Clone, Error)]
enum Reason {
    #[error("{quota}: {error}")]
    Quota { quota: Quota, error: LayoutError },
    #[error("its key has {}, and `{layout}` names {named}", counted(*.values))]
    Values { values: usize, layout: KeyLayout, named: usize },
    #[error("how many values its key has depends on the request")]
    UnknownValues,
    #[error("`{layout}` does not always tell {one} from {other}, which {{windows}} does")]
    MixedUp { layout: KeyLayout, one: Quota, other: Quota },
    #[error("`{layout}` does not always tell {quota} from the candidate {candidate}, which {{policy}} does")]
    MixedUpCandidate { layout: KeyLayout, quota: Quota, candidate: Quota },
    #[error(
        "on a Cluster its quotas lie in several slots; braces around all values and nothing else keep them in one, such \
         as {{{{{{user}}}}}}, or `across_slots: reserve` in `store` takes them slot by slot"
    )]
    Scattered,
    #[error(
        "`{layout}` does not always tell {quota} from {other} of policy `{policy}`, which matches the same requests; \
         {{policy}} does"
    )]
    Shared { layout: KeyLayout, quota: Quota, other: Quota, policy: Box<str> },
}

/// The layout of this name, or the template.
///
/// # Errors
///
/// If it is neither.
pub(crate) fn read(text: &str) -> Result<KeyLayout, UnknownLayout> {
    if let Some((_, layout)) = KeyLayout::NAMED.into_iter().find(|(name, _)| *name == text) {
        return Ok(layout);
    }
    if !text.contains('{') {
        return Err(UnknownLayout::Name);
    }
    Ok(text.parse()?)
}

/// How keys are written, and what the store can take of those.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    layout: KeyLayout,
    slots: Slots,
}

/// Where the counters of one key lie that one request counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slots {
    /// In one place, or the store takes them wherever they are.
    Any,
    /// In several slots of a Cluster, and the store refuses such a request.
    Several,
}

/// What flags say of the store. They go before the file.
#[derive(Debug, Default)]
pub(crate) struct StoreFlags<'a> {
    pub(crate) layout: Option<&'a KeyLayout>,
    pub(crate) url: Option<&'a StoreUrl>,
    pub(crate) prefix: Option<&'a str>,
}

impl Keys {
    /// Of a store that other than a file describes, and so takes no requests across slots.
    pub(crate) fn new(layout: &KeyLayout, is_cluster: bool, prefix: &str) -> Self {
        let slots = if is_cluster && !layout.keeps_to_slot(prefix) { Slots::Several } else { Slots::Any };
        Self { layout: layout.clone(), slots }
    }

    /// Those of a file and of the flags beside it, and what is wrong with them or with policies under them. None if
    /// keys are written in our own way.
    pub(crate) fn of_file(config: &Config, flags: &StoreFlags<'_>) -> (Option<Self>, Vec<Problem>) {
        match Self::said(config, flags) {
            Ok(None) => (None, Vec::new()),
            Ok(Some(keys)) => {
                let problems =
                    keys.needless_prefix(config).into_iter().chain(keys.problems(config)).collect();
                (Some(keys), problems)
            }
            Err(problem) => (None, vec![problem]),
        }
    }

    /// # Errors
    ///
    /// If the file's layout is none.
    fn said(config: &Config, flags: &StoreFlags<'_>) -> Result<Option<Self>, Problem> {
        let store = config.store();
        let own = store.and_then(|store| store.layout()).map(read).transpose().map_err(|error| {
            let at = config.layout_at().unwrap_or(Position::new(1, 1));
            Problem::new(at, ProblemKind::Other(error.to_string().into()))
        })?;
        let Some(layout) = flags.layout.cloned().or(own) else { return Ok(None) };
        let is_cluster = flags.url.map_or(store.is_some_and(StoreSettings::is_cluster), StoreUrl::is_cluster);
        let prefix = flags.prefix.or(store.and_then(|store| store.prefix())).unwrap_or(DEFAULT_PREFIX);
        let reserves = store.is_some_and(StoreSettings::reserves_across_slots);
        Ok(Some(Self::new(&layout, is_cluster && !reserves, prefix)))
    }

    pub(crate) const fn layout(&self) -> &KeyLayout {
        &self.layout
    }

    /// That the file has a prefix, and no key would.
    fn needless_prefix(&self, config: &Config) -> Option<Problem> {
        let at = config.prefix_at().filter(|_| !self.layout.names_prefix())?;
        let message = format!(
            "`prefix` would mean nothing: the layout of keys, `{}`, does not name {{prefix}}; leave out the prefix, or name \
             it in a layout of your own",
            self.layout
        );
        Some(Problem::new(at, ProblemKind::Other(message.into())))
    }

    /// The policies of the file that cannot be counted, and why not.
    pub(crate) fn problems(&self, config: &Config) -> Vec<Problem> {
        let problem = |(policy, misfit): (&Policy, Misfit)| {
            let at = policy.at().unwrap_or(Position::new(1, 1));
            Problem::new(at, ProblemKind::Other(misfit.to_string().into()))
        };
        self.misfits(config.policies()).map(problem).collect()
    }

    /// That all policies can be counted.
    ///
    /// # Errors
    ///
    /// Names the first one that cannot, and why not.
    pub(crate) fn check(&self, policies: &Policies) -> Result<(), Misfit> {
        self.misfits(policies).next().map_or(Ok(()), |(_, misfit)| Err(misfit))
    }

    /// The policies that cannot be counted, and why not.
    fn misfits<'a>(&'a self, policies: &'a Policies) -> impl Iterator<Item = (&'a Policy, Misfit)> {
        let policies = policies.as_slice();
        policies.iter().enumerate().filter_map(|(place, policy)| {
            let earlier = policies.iter().take(place);
            let reason = self
                .unwritable(policy)
                .or_else(|| self.mixed_up(policy))
                .or_else(|| self.scattered(policy))
                .or_else(|| self.shared(policy, earlier))?;
            Some((policy, Misfit { policy: policy.name().into(), reason }))
        })
    }

    /// What of its keys the layout cannot say.
    fn unwritable(&self, policy: &Policy) -> Option<Reason> {
        let layout = &self.layout;
        let mut quotas =
            enforced(policy).chain(candidates(policy)).flatten().map(PolicyQuota::quota).peekable();
        // Without a quota, nobody is counted.
        quotas.peek()?;
        if let Some((quota, error)) = quotas.find_map(|quota| Some((quota, layout.validate(quota).err()?))) {
            return Some(Reason::Quota { quota: quota.clone(), error });
        }
        let needed = layout.values();
        match values(policy.identity()) {
            Some(values) if values == needed => None,
            Some(values) => Some(Reason::Values { values, layout: layout.clone(), named: needed }),
            None => Some(Reason::UnknownValues),
        }
    }

    /// Which of its own quotas the layout takes for another: the store refuses such a request, or a candidate uses up
    /// the quota beside it.
    fn mixed_up(&self, policy: &Policy) -> Option<Reason> {
        let layout = &self.layout;
        let is_mixed_up = |(one, other): &(&PolicyQuota, &PolicyQuota)| !layout.tells_apart(one, other);
        if let Some((one, other)) =
            enforced(policy).chain(candidates(policy)).flat_map(pairs).find(is_mixed_up)
        {
            let (one, other) = (one.quota().clone(), other.quota().clone());
            return Some(Reason::MixedUp { layout: layout.clone(), one, other });
        }
        let beside = |tried| enforced(policy).flatten().map(move |quota| (quota, tried));
        let (quota, tried) = candidates(policy).flatten().flat_map(beside).find(is_mixed_up)?;
        let (quota, candidate) = (quota.quota().clone(), tried.quota().clone());
        Some(Reason::MixedUpCandidate { layout: layout.clone(), quota, candidate })
    }

    /// That on a Cluster its quotas are not in one slot, and the store refuses each request.
    fn scattered(&self, policy: &Policy) -> Option<Reason> {
        let has_several = enforced(policy).chain(candidates(policy)).any(|quotas| quotas.len() > 1);
        (has_several && self.slots == Slots::Several).then_some(Reason::Scattered)
    }

    /// What a policy shares with an earlier one that certainly applies to the same requests: the store refuses those, or
    /// counts them twice where one of the two is a shadow.
    fn shared<'a>(&self, policy: &'a Policy, earlier: impl Iterator<Item = &'a Policy>) -> Option<Reason> {
        let counts = |policy: &Policy| policy.mode() != Mode::Off && !policy.is_exempt();
        let is_beside = |other: &&Policy| {
            counts(policy)
                && counts(other)
                && policy.identity() == other.identity()
                && (policy.covers(other) || other.covers(policy))
        };
        let mut together = earlier.filter(is_beside).flat_map(|other| {
            let with_other = |quota| other.quotas().iter().map(move |known| (quota, known));
            policy.quotas().iter().flat_map(with_other)
        });
        let (quota, known) = together.find(|(quota, known)| !self.layout.tells_apart(quota, known))?;
        Some(Reason::Shared {
            layout: self.layout.clone(),
            quota: quota.quota().clone(),
            other: known.quota().clone(),
            policy: known.policy().into(),
        })
    }
}

/// The lists of quotas that decide, of which one is charged at a time.
fn enforced(policy: &Policy) -> impl Iterator<Item = &[PolicyQuota]> {
    policy.overrides().iter().flat_map(Override::quotas).chain([policy.quotas()])
}

/// The lists of quotas that are tried out.
fn candidates(policy: &Policy) -> impl Iterator<Item = &[PolicyQuota]> {
    policy.overrides().iter().flat_map(Override::candidates).chain([policy.candidates()])
}

/// All that are charged together, two by two.
fn pairs(quotas: &[PolicyQuota]) -> impl Iterator<Item = (&PolicyQuota, &PolicyQuota)> {
    let others = |(place, one)| quotas.iter().skip(place + 1).map(move |other| (one, other));
    quotas.iter().enumerate().flat_map(others)
}

/// How many values its keys have; `None` if that varies. A choice says which it was, so it has the names as well.
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

/// How many attributes a choice names.
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
