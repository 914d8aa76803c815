//! From the text of a file to its meaning: fills in defaults, and checks which settings are valid together.

mod files;
mod quotas;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use tollgate::{CountDenied, LocalShare, OnStoreFailure};
use tollgate_yaml::{At, FilePlace, Position, ProblemKind, Problems, Sources, WrittenText};

use self::files::{as_one, tiers};
use self::quotas::{Definitions, Scope};
use crate::file::{
    AcrossSlots, ClientList, FailureWord, PolicyQuotas, RawCost, RawDefaults, RawFile, RawPolicy, RawStore,
    Share,
};
use crate::problem::PolicyProblem;
use crate::{
    Attributes, Conditions, Config, Cost, CostAttribute, FileOverride, HeaderFormat, HeaderFormats, Identity,
    Mode, OnMissingKey, Policies, Policy, PolicyKind, StoreSettings, UnmatchedRequests, warning,
};

/// The defaults of all policies.
struct Defaults {
    mode: Mode,
    /// `None` if the word is invalid, which is a separate problem.
    on_store_failure: Option<FailureWord>,
    local_share: Option<LocalShare>,
    /// Whether the share is invalid, which is a separate problem.
    has_wrong_share: bool,
    headers: HeaderFormats,
    deny_status: u16,
    count_denied: bool,
    on_missing_key: OnMissingKey,
}

/// The keys of an exempt policy, which does not count.
const EXEMPT: &[&str] = &["name", "description", "match", "exempt", "enabled"];

/// Returns the meaning of the files, as far as it can be understood.
pub(crate) fn resolve(
    read: Vec<At<RawFile>>,
    sources: &Sources,
    files: Box<[Box<str>]>,
    problems: &mut Problems,
) -> Config {
    let found_reading = problems.places();
    let file = as_one(read, sources.names().count(), &files, problems);
    let named = Definitions { tiers: tiers(file.tiers, &files, problems), sources };
    let raw_store = file.store.as_ref().map(|store| &store.value);
    let store_url_at = raw_store.and_then(|store| Some(store.url.as_ref()?.at));
    let layout_at = raw_store.and_then(|store| Some(store.layout.as_ref()?.at));
    let prefix_at = raw_store.and_then(|store| Some(store.prefix.as_ref()?.at));
    let store = file.store.and_then(|store| settings(store, problems));
    let (mode, unmatched) = (value(&file.mode).unwrap_or_default(), value(&file.unmatched));
    let defaults =
        Defaults::new(file.mode.map(|mode| mode.value), file.defaults.map(|defaults| defaults.value));
    let mut policies: Vec<Policy> = Vec::new();
    let mut names = HashMap::new();
    for (name, listed, kind) in
        [("allow", file.allow, PolicyKind::Exempt), ("deny", file.deny, PolicyKind::Deny)]
    {
        let Some(listed) = listed else { continue };
        names.insert(name.into(), listed.at);
        if !found_reading.is_any_between(listed.at, listed.end) {
            policies.push(list_policy(name, listed, kind, mode));
        }
    }
    for raw in file.policies.map(|policies| policies.value).unwrap_or_default() {
        // A policy with problems of its own is not checked further.
        let (is_read, before) = (!found_reading.is_any_between(raw.at, raw.end), problems.count());
        note_name(&raw, &mut names, &files, problems);
        let policy = policy(raw, &defaults, &named, problems);
        policies.extend(policy.filter(|_| is_read && problems.count() == before));
    }
    let warnings = warning::warnings(&policies);
    let policies = Policies::new(policies);
    let policies = match unmatched {
        None => policies,
        // A weaker mode of the file also weakens `unmatched`.
        Some(unmatched) if mode == Mode::Enforce => policies.with_unmatched(unmatched),
        Some(_) => policies.with_unmatched(UnmatchedRequests::Allow),
    };
    Config { store, store_url_at, layout_at, prefix_at, policies, warnings, files }
}

/// Notes a name that another policy has already, even if either has other problems.
fn note_name(
    raw: &At<RawPolicy>,
    names: &mut HashMap<Box<str>, Position>,
    files: &[Box<str>],
    problems: &mut Problems,
) {
    let Some(WrittenText { text, written }) = raw.value.name.as_ref().map(|name| &name.value) else { return };
    match names.entry(text.clone()) {
        Entry::Occupied(first) if Policy::is_name(text) => {
            let (name, first) = (written.clone(), FilePlace::seen_from(raw.at, *first.get(), files));
            problems.add(raw.at, PolicyProblem::DuplicatePolicy { name, first });
        }
        Entry::Occupied(_) => {}
        Entry::Vacant(name) => _ = name.insert(raw.at),
    }
}

/// Returns the policy for a list at the top level of the file.
fn list_policy(name: &str, listed: At<ClientList>, kind: PolicyKind, mode: Mode) -> Policy {
    let any = listed.value.0.into_iter().map(|condition| vec![condition]).collect();
    Policy {
        at: listed.at,
        conditions: Conditions { all: Vec::new(), any },
        kind,
        mode,
        headers: HeaderFormat::None.into(),
        deny_status: 403,
        ..Policy::builder(name).policy
    }
}

fn settings(store: At<RawStore>, problems: &mut Problems) -> Option<StoreSettings> {
    store.value.need(&["url"], store.at, problems);
    let prefix = store.value.prefix.map(|prefix| prefix.value);
    let layout = store.value.layout.map(|layout| layout.value);
    let reserves_across_slots = value(&store.value.across_slots) == Some(AcrossSlots::Reserve);
    Some(StoreSettings { url: store.value.url?.value, prefix, layout, reserves_across_slots })
}

impl Defaults {
    fn new(mode: Option<Mode>, raw: Option<RawDefaults>) -> Self {
        let raw = raw.as_ref();
        Self {
            mode: mode.unwrap_or_default(),
            on_store_failure: match raw.filter(|raw| raw.gives("on_store_failure")) {
                Some(raw) => value(&raw.on_store_failure),
                None => Some(FailureWord::Open),
            },
            local_share: raw.and_then(|raw| value(&raw.local_share)).map(|share| share.0),
            has_wrong_share: raw.is_some_and(|raw| raw.local_share.is_none() && raw.gives("local_share")),
            headers: raw.and_then(|raw| value(&raw.headers)).map(|word| word.0).unwrap_or_default(),
            deny_status: raw.and_then(|raw| value(&raw.deny_status)).map_or(429, |status| status.0),
            count_denied: raw.and_then(|raw| value(&raw.count_denied)).unwrap_or(false),
            on_missing_key: raw.and_then(|raw| value(&raw.on_missing_key)).unwrap_or_default(),
        }
    }
}

fn value<T: Copy>(field: &Option<At<T>>) -> Option<T> {
    field.as_ref().map(|field| field.value)
}

/// `None` only with a problem noted.
fn policy(
    raw: At<RawPolicy>,
    defaults: &Defaults,
    named: &Definitions<'_>,
    problems: &mut Problems,
) -> Option<Policy> {
    let At { at, value: raw, .. } = raw;
    let is_exempt = value(&raw.exempt).unwrap_or(false);
    if is_exempt {
        raw.need(&["name"], at, problems);
        for (key, at) in raw.given.iter().filter(|(key, _)| !EXEMPT.contains(key)) {
            problems.add(*at, ProblemKind::Needless { section: "an exempt policy", key });
        }
    } else {
        raw.need(&["name", "key", "quotas"], at, problems);
    }
    let charged_denials = [("overdraft", &raw.overdraft), ("count_denied", &raw.count_denied)];
    let charged_denials = charged_denials
        .into_iter()
        .find_map(|(key, given)| given.as_ref().filter(|given| given.value).map(|given| (key, given.at)));
    let count_denied = count_denied(&raw, defaults, problems);
    // An exempt policy counts nothing, so it needs no share.
    let on_store_failure = match is_exempt {
        true => Some(OnStoreFailure::Open),
        false => on_store_failure(&raw, at, defaults, problems),
    };
    let enabled = value(&raw.enabled).unwrap_or(true);
    let mode = if enabled { value(&raw.mode).unwrap_or_default().min(defaults.mode) } else { Mode::Off };
    let cost = raw.cost.map_or(Some(Cost::Asked), |cost| resolve_cost(cost, problems));

    let name = raw.name.and_then(|name| policy_name(name, problems));
    // Quotas are checked even if the name is invalid, because they may have problems of their own.
    let scope = Scope {
        policy: name.as_deref().unwrap_or_default(),
        count_denied,
        // `None` only with a problem noted; the policy is then left out.
        on_store_failure: on_store_failure.unwrap_or(OnStoreFailure::Open),
        named,
    };
    let overrides = raw.overrides.map(|overrides| overrides.value.0).unwrap_or_default();
    let mut overrides: Vec<FileOverride> =
        overrides.into_iter().filter_map(|raw| scope.resolve_override(raw, problems)).collect();
    let (list, tier) = match raw.quotas {
        Some(At { at, value: PolicyQuotas::Tier(tier), .. }) => scope.tier(at, *tier, problems).unzip(),
        Some(At { at, end, value: PolicyQuotas::List(value) }) => (Some(At { at, end, value }), None),
        None => (None, None),
    };
    let quotas = scope.quotas(list, raw.candidate);
    // An override of a value takes precedence over its tier.
    overrides.extend(tier.map(|tier| scope.by_tier(tier, &quotas.candidates)));
    let overrides = overrides.into();

    let policy = Policy {
        at,
        description: raw.description.map(|description| description.value),
        conditions: raw.conditions.map(|conditions| conditions.value).unwrap_or_default(),
        kind: if is_exempt { PolicyKind::Exempt } else { PolicyKind::Count },
        mode,
        identity: raw.key.map_or(Identity::Global, |key| key.value),
        on_missing_key: value(&raw.on_missing_key).unwrap_or(defaults.on_missing_key),
        cost: cost?,
        quotas,
        overrides,
        count_denied: if is_exempt { CountDenied::No } else { count_denied },
        overrun: value(&raw.overrun).unwrap_or_default(),
        on_store_failure: on_store_failure?,
        headers: value(&raw.headers).map_or(defaults.headers, |word| word.0),
        deny_status: value(&raw.deny_status).map_or(defaults.deny_status, |status| status.0),
        name: name?,
    };
    if let Some((key, at)) = charged_denials.filter(|_| policy.has_in_flight()) {
        problems.add(at, PolicyProblem::DenialsInFlight(key));
    }
    Some(policy)
}

/// Returns what a denial charges. `overdraft` overrides the default of `count_denied`.
fn count_denied(raw: &RawPolicy, defaults: &Defaults, problems: &mut Problems) -> CountDenied {
    if value(&raw.overdraft).unwrap_or(false) {
        if let Some(needless) = &raw.count_denied {
            problems.add(needless.at, PolicyProblem::CountDeniedOfOverdraft);
        }
        return CountDenied::Overdraft;
    }
    match value(&raw.count_denied).unwrap_or(defaults.count_denied) {
        true => CountDenied::Yes,
        false => CountDenied::No,
    }
}

fn policy_name(name: At<WrittenText>, problems: &mut Problems) -> Option<Box<str>> {
    if Policy::is_name(&name.value.text) {
        return Some(name.value.text);
    }
    problems.add(name.at, PolicyProblem::PolicyName);
    None
}

fn on_store_failure(
    raw: &RawPolicy,
    at: Position,
    defaults: &Defaults,
    problems: &mut Problems,
) -> Option<OnStoreFailure> {
    let own = value(&raw.on_store_failure);
    // An invalid word is a separate problem, and tells nothing about shares.
    let Some(word) = own.or(defaults.on_store_failure.filter(|_| !raw.gives("on_store_failure"))) else {
        return Some(OnStoreFailure::Open);
    };
    match (word, value(&raw.local_share).map(|Share(share)| share)) {
        (FailureWord::Local, share) => match share.or(defaults.local_share) {
            Some(share) => Some(OnStoreFailure::Local(share)),
            None if raw.gives("local_share") || defaults.has_wrong_share => None,
            None => {
                let at = raw.on_store_failure.as_ref().map_or(at, |word| word.at);
                problems.add(at, PolicyProblem::MissingShare);
                None
            }
        },
        (_, Some(_)) => {
            let at = raw.local_share.as_ref().map_or(at, |share| share.at);
            problems.add(at, PolicyProblem::NeedlessShare);
            None
        }
        (FailureWord::Open, None) => Some(OnStoreFailure::Open),
        (FailureWord::Closed, None) => Some(OnStoreFailure::Closed),
    }
}

fn resolve_cost(cost: At<RawCost>, problems: &mut Problems) -> Option<Cost> {
    match cost.value {
        RawCost::Fixed(units) => Some(Cost::Fixed(units)),
        RawCost::Attribute(raw) => {
            raw.need(&["attribute", "max"], cost.at, problems);
            let (min, max) = (raw.min.map(|min| (min.at, min.value.0)), raw.max.map(|max| max.value.0));
            if let (Some((at, min)), Some(max)) = (min, max)
                && min > max
            {
                problems.add(at, PolicyProblem::CostRange);
            }
            let cost = CostAttribute::new(&attribute(raw.attribute, problems)?, max?)
                .with_min(min.map_or(1, |(_, min)| min))
                .with_on_missing(value(&raw.on_missing).unwrap_or_default());
            Some(cost.into())
        }
    }
}

/// The name of an attribute, if a request can have it.
fn attribute(name: Option<At<Box<str>>>, problems: &mut Problems) -> Option<Box<str>> {
    let At { at, value, .. } = name?;
    let is_name = Attributes::is_name(&value);
    problems.take(at, is_name.then_some(value).ok_or(PolicyProblem::AttributeName))
}
