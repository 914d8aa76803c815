//! Warnings about valid files that are probably wrong.

mod client_choice;
mod kind_choice;
mod redundant;
mod unreachable_method;
mod unreachable_path;

use std::fmt;
use std::time::Duration;

use smallvec::SmallVec;
use thiserror::Error;
use tollgate::{CountDenied, InFlight, MANUAL, PolicyInFlight, Quota, QuotaKind, WindowLength};

use self::client_choice::chosen_by_client;
use self::kind_choice::doubtful_kind;
use self::redundant::never_binds;
use self::unreachable_method::unreachable_methods;
use self::unreachable_path::unreachable;
use crate::implied::implies;
use crate::limit::QuotaLists;
use crate::{Cost, FileOverride, Identity, Mode, OverlapIndex, Policy, PolicyKind, Position, Printable};

/// A probable mistake in a valid file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    at: Position,
    policy: Box<str>,
    kind: WarningKind,
}

/// The kind of a warning.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WarningKind {
    /// Another quota always denies first.
    #[error("{quota} can never deny: {tighter} always denies first")]
    NeverBinds {
        /// The quota without effect.
        quota: Box<Quota>,
        /// The one that denies first.
        tighter: Box<Quota>,
    },
    /// The cost of every request is above a limit.
    #[error("every request costs {cost}, and {quota} has no room for it: all are denied")]
    CostAboveLimit {
        /// The cost of a request.
        cost: u32,
        /// The quota.
        quota: Box<Quota>,
    },
    /// An exempt policy matches everything that this one does.
    #[error("it never takes effect: the exempt policy `{exempt}` matches everything that it matches")]
    HiddenByExempt {
        /// The exempt policy.
        exempt: Box<str>,
    },
    /// Another policy denies everything that this one matches.
    #[error("it never takes effect: `{deny}` denies everything that it matches")]
    HiddenByDeny {
        /// The policy that denies.
        deny: Box<str>,
    },
    /// A long window has no shorter quota next to it.
    #[error(
        "{quota} has no shorter quota next to it: around the end of a window, {burst} units may be used at once; \
         to prevent that, add a quota with a shorter window{}",
        other_kinds(quota)
    )]
    LongWindowAlone {
        /// The quota of the shortest window.
        quota: Box<Quota>,
        /// Twice its limit.
        burst: u64,
    },
    /// A bucket is smaller than what drains from it between two readings of the clock.
    #[error(
        "{quota} cannot reach its rate: {drains} units are free again in a millisecond, the step of the clock, and the \
         burst is smaller; write a burst of at least {drains}"
    )]
    BurstBelowRate {
        /// The quota.
        quota: Box<Quota>,
        /// The units that drain in a millisecond, rounded up.
        drains: u64,
    },
    /// An earlier override holds whenever this one does.
    #[error("the override never takes effect: the one in line {} applies whenever it would", earlier.line)]
    UnreachableOverride {
        /// The place of the earlier one.
        earlier: Position,
    },
    /// One choice covers many clients and another one client, under the same limit.
    #[error(
        "`first_of` puts identities of very different sizes under one limit: `{wide}` may be many clients, while `{narrow}` is one"
    )]
    MixedIdentities {
        /// The choice that many share.
        wide: Box<str>,
        /// A choice of one client.
        narrow: Box<str>,
    },
    /// No normalized path has such a form.
    #[error("no normalized path matches `{pattern}`, because it has empty or dot segments")]
    UnreachablePath {
        /// The pattern.
        pattern: Box<str>,
    },
    /// No method has lower-case letters.
    #[error("no usual method matches `{pattern}`: methods have capital letters, such as GET")]
    UnreachableMethod {
        /// The pattern.
        pattern: Box<str>,
    },
    /// Networks larger than those of any provider are one client.
    #[error(
        "`{identity}` counts clients of unrelated networks as one; `key: global` counts all requests together"
    )]
    UnrelatedClients {
        /// The part of the key.
        identity: Box<str>,
    },
    /// An attribute that any client can send gives it higher limits.
    #[error(
        "`{attribute}` is a header that clients can send, so each client can choose the higher limits here"
    )]
    ClientChoosesLimits {
        /// The attribute.
        attribute: Box<str>,
    },
    /// A layout of the store's keys joins values, so that different ones share a counter.
    #[error(
        "the key layout `{layout}` writes its values with `_` between them and values may contain `_`, so (`a_b`, `c`) and \
         (`a`, `b_c`) share a counter; give each value a name in the layout, or make sure that none contains `_`"
    )]
    JoinedValues {
        /// The layout.
        layout: Box<str>,
    },
    /// An overdraft of a fixed cost, which is known beforehand.
    #[error(
        "every request costs {cost}, which is known beforehand: `overdraft` only lets `used` pass the limit and \
         charges denied requests"
    )]
    OverdraftOfFixedCost {
        /// The cost of a request.
        cost: u32,
    },
    /// A limit in flight that is only tried out, with no limit next to it that takes units.
    #[error("{in_flight} is only tried out, and a trial takes no units: it finds none in flight")]
    InFlightOnTrial {
        /// The limit.
        in_flight: InFlight,
    },
    /// One attribute where two were meant.
    #[error("`{name}` is one attribute with a comma in its name; a list such as [user, ip] is several")]
    CommaInName {
        /// The attribute.
        name: Box<str>,
    },
}

/// The shortest window that counts as long.
const LONG: Duration = Duration::from_secs(60 * 60);

impl Warning {
    /// A warning about a policy by a program that knows more than the file, such as the store.
    #[must_use]
    pub fn of(policy: &Policy, kind: WarningKind) -> Self {
        Self { at: policy.at, policy: policy.name.clone(), kind }
    }

    /// Returns its place.
    #[must_use]
    pub const fn at(&self) -> Position {
        self.at
    }

    /// Returns the policy that it is about.
    #[must_use]
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// Returns the kind of a warning.
    #[must_use]
    pub const fn kind(&self) -> &WarningKind {
        &self.kind
    }

    /// Returns the code of the kind, which never changes.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self.kind {
            WarningKind::NeverBinds { .. } => "quota-never-binds",
            WarningKind::CostAboveLimit { .. } => "cost-above-limit",
            WarningKind::HiddenByExempt { .. } => "hidden-by-exempt",
            WarningKind::HiddenByDeny { .. } => "hidden-by-deny",
            WarningKind::LongWindowAlone { .. } => "long-window-alone",
            WarningKind::BurstBelowRate { .. } => "burst-below-rate",
            WarningKind::UnreachableOverride { .. } => "unreachable-override",
            WarningKind::MixedIdentities { .. } => "mixed-identities",
            WarningKind::UnreachablePath { .. } => "unreachable-path",
            WarningKind::UnreachableMethod { .. } => "unreachable-method",
            WarningKind::UnrelatedClients { .. } => "unrelated-clients",
            WarningKind::ClientChoosesLimits { .. } => "client-chooses-limits",
            WarningKind::OverdraftOfFixedCost { .. } => "overdraft-of-fixed-cost",
            WarningKind::InFlightOnTrial { .. } => "in-flight-on-trial",
            WarningKind::CommaInName { .. } => "comma-in-name",
            WarningKind::JoinedValues { .. } => "joined-values",
        }
    }

    /// Returns the place in the manual that explains the code: `docs/warnings.md#quota-never-binds`.
    #[must_use]
    pub fn help(&self) -> String {
        format!("{MANUAL}/warnings.md#{}", self.code())
    }
}

/// `line:column: policy `name`: message [code]`.
impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: policy `{}`: {} [{}]", self.at, self.policy, Printable(&self.kind), self.code())
    }
}

/// All of them, in the order of the file.
pub(crate) fn warnings(policies: &[Policy]) -> Box<[Warning]> {
    let (mut exempt, mut denying) = (OverlapIndex::default(), OverlapIndex::default());
    for policy in policies {
        match (policy.kind, policy.mode) {
            (PolicyKind::Exempt, Mode::Shadow | Mode::Enforce) => exempt.insert(policy),
            (PolicyKind::Deny, Mode::Enforce) => denying.insert(policy),
            _ => {}
        }
    }
    let mut warnings = Vec::new();
    for policy in policies {
        let mut warn = |at, kind| warnings.push(Warning { at, policy: policy.name.clone(), kind });
        if let Some(exempt) = hidden_by(policy, &exempt) {
            warn(policy.at, WarningKind::HiddenByExempt { exempt: exempt.name.clone() });
        } else if policy.kind == PolicyKind::Count
            && let Some(deny) = hidden_by(policy, &denying)
        {
            warn(policy.at, WarningKind::HiddenByDeny { deny: deny.name.clone() });
        }
        if let Some(kind) = mixed(&policy.identity) {
            warn(policy.at, kind);
        }
        if let Some(identity) = unrelated(&policy.identity) {
            warn(policy.at, WarningKind::UnrelatedClients { identity: identity.to_string().into() });
        }
        for pattern in unreachable_methods(policy) {
            warn(policy.at, WarningKind::UnreachableMethod { pattern: pattern.into() });
        }
        for (at, attribute) in chosen_by_client(policy) {
            warn(at, WarningKind::ClientChoosesLimits { attribute: attribute.into() });
        }
        for pattern in unreachable(policy) {
            warn(policy.at, WarningKind::UnreachablePath { pattern: pattern.to_string().into() });
        }
        let mut names = SmallVec::<[&str; 4]>::new();
        policy.identity.names(&mut names);
        for name in names.into_iter().filter(|name| name.contains(',')) {
            warn(policy.at, WarningKind::CommaInName { name: name.into() });
        }
        if let Cost::Fixed(cost) = policy.cost
            && policy.quotas().iter().any(|quota| quota.count_denied() == CountDenied::Overdraft)
        {
            warn(policy.at, WarningKind::OverdraftOfFixedCost { cost });
        }
        if let Some(in_flight) = on_trial_alone(policy) {
            warn(policy.at, WarningKind::InFlightOnTrial { in_flight: in_flight.in_flight() });
        }
        for kind in doubtful(&policy.quotas, &policy.cost) {
            warn(policy.at, kind);
        }
        for (index, over) in policy.overrides.iter().enumerate() {
            // Of a table nothing is implied.
            let is_implied = |earlier: &&FileOverride| {
                over.when().zip(earlier.when()).is_some_and(|(own, it)| implies(own, it))
            };
            if let Some(earlier) = policy.overrides.iter().take(index).find(is_implied) {
                warn(over.at, WarningKind::UnreachableOverride { earlier: earlier.at });
            }
            // Of a table with thousands of lists the first doubt of a kind says enough.
            let mut told = Vec::new();
            for kind in over.lists.iter().flat_map(|list| doubtful(list, &policy.cost)) {
                if !told.contains(&std::mem::discriminant(&kind)) {
                    told.push(std::mem::discriminant(&kind));
                    warn(over.at, kind);
                }
            }
        }
    }
    warnings.into()
}

/// Returns the first policy that comes before it and matches everything that it matches.
fn hidden_by<'a>(policy: &'a Policy, earlier: &OverlapIndex<'a>) -> Option<&'a Policy> {
    earlier.covering(policy).filter(|other| other.name != policy.name).min_by_key(|other| other.at)
}

/// Returns the first limit in flight that is on trial in a list without one that takes units.
fn on_trial_alone(policy: &Policy) -> Option<&PolicyInFlight> {
    let mut lists = [&policy.quotas].into_iter().chain(policy.overrides.iter().flat_map(|over| &over.lists));
    lists.find_map(|list| match (policy.mode, &list.enforced.in_flight) {
        (Mode::Off, _) => None,
        (Mode::Shadow, in_flight) => in_flight.as_ref().or(list.candidates.in_flight.as_ref()),
        (Mode::Enforce, Some(_)) => None,
        (Mode::Enforce, None) => list.candidates.in_flight.as_ref(),
    })
}

fn doubtful(quotas: &QuotaLists, cost: &Cost) -> Vec<WarningKind> {
    let mut kinds = Vec::new();
    for list in [&quotas.enforced, &quotas.candidates] {
        for (index, (rule, quota)) in list.iter().zip(&list.quotas).enumerate() {
            // What an overdraft takes is not bounded by its limit.
            if quota.count_denied() == CountDenied::Overdraft {
                continue;
            }
            kinds.extend(doubtful_kind(quota.quota()));
            // A limit of 0 says by itself that all are denied.
            if let Cost::Fixed(cost) = *cost
                && (1..u64::from(cost)).contains(&quota.quota().capacity())
            {
                kinds.push(WarningKind::CostAboveLimit { cost, quota: quota.quota().clone().into() });
            }
            // A limit that requests say may be a lower one.
            let tighter = list.quotas.iter().enumerate().find(|(place, tighter)| {
                let (quota, tighter) = (quota.quota(), tighter.quota());
                // Of two that deny the same, the first one stays.
                never_binds(quota, tighter) && (*place < index || !never_binds(tighter, quota))
            });
            let tighter = tighter.map(|(_, tighter)| tighter);
            if let Some(tighter) = tighter.filter(|_| rule.limit_attribute().is_none()) {
                let (quota, tighter) = (quota.quota().clone().into(), tighter.quota().clone().into());
                kinds.push(WarningKind::NeverBinds { quota, tighter });
            }
        }
        kinds.extend(long_alone(list.quotas.iter().map(tollgate::PolicyQuota::quota)));
    }
    kinds
}

/// The quota of the shortest window, if even that is long and fixed. One unit in a window is not a burst.
fn long_alone<'a>(quotas: impl Iterator<Item = &'a Quota>) -> Option<WarningKind> {
    let length = |quota: &&Quota| match quota.window() {
        WindowLength::Fixed(length) => length,
        // All that matters is that it is long.
        _ => Duration::MAX,
    };
    let shortest = quotas.min_by_key(|quota| (length(quota), quota.kind() == QuotaKind::Window))?;
    let is_long = length(&shortest) >= LONG && shortest.limit() > 1 && shortest.kind() == QuotaKind::Window;
    let (quota, burst) = (shortest.clone().into(), 2 * shortest.limit());
    is_long.then_some(WarningKind::LongWindowAlone { quota, burst })
}

/// Returns the kinds that have no such end, if the quota can count in them: only fixed windows follow a calendar.
fn other_kinds(quota: &Quota) -> &'static str {
    match quota.window() {
        WindowLength::Fixed(_) => ", or let it count as a bucket (`~burst`) or a log (`~log`)",
        _ => "",
    }
}

fn mixed(identity: &Identity) -> Option<WarningKind> {
    let Identity::FirstOf(choices) = identity else { return None };
    let wide = choices.iter().find(|choice| is_wide(choice))?;
    let narrow = choices.iter().find(|choice| !is_wide(choice))?;
    Some(WarningKind::MixedIdentities { wide: wide.to_string().into(), narrow: narrow.to_string().into() })
}

/// Returns whether it is all requests, or networks larger than a usual site.
fn is_wide(identity: &Identity) -> bool {
    match identity {
        Identity::Global => true,
        Identity::Address(_, grouping) => grouping.ipv4() < 24 || grouping.ipv6() < 48,
        Identity::Every | Identity::Attribute(_) | Identity::All(_) | Identity::FirstOf(_) => false,
    }
}

/// Returns a part of the key that is networks larger than those of any provider: the largest allocations have 8 bits of
/// IPv4, or 16 of IPv6.
fn unrelated(identity: &Identity) -> Option<&Identity> {
    match identity {
        Identity::Address(_, grouping) => (grouping.ipv4() < 8 || grouping.ipv6() < 16).then_some(identity),
        Identity::All(parts) | Identity::FirstOf(parts) => parts.iter().find_map(unrelated),
        Identity::Global | Identity::Every | Identity::Attribute(_) => None,
    }
}
