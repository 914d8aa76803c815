//! The same overrides as Tollgate has them.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use tollgate::{Key, ManualClock, Timestamp};
use tollgate_policy::{
    OverrideEntry, OverrideLimits, OverrideName, OverrideRecord, OverrideSet, OverrideTarget,
    OverrideTargetError, Policies, TargetValue,
};

use crate::file::{File, Quota};
use crate::run_override::{RunFault, RunLimits, RunOverride, RunOverrides, RunTarget, can_compare};

/// Two hashes, of which one is of the bytes in the reverse order.
fn digest(key: &Key<'_>) -> u128 {
    let bytes = key.canonical_bytes();
    let hash = |bytes: &mut dyn Iterator<Item = &u8>| {
        let mut hasher = DefaultHasher::new();
        bytes.for_each(|byte| byte.hash(&mut hasher));
        u128::from(hasher.finish())
    };
    hash(&mut bytes.iter()) << 64 | hash(&mut bytes.iter().rev())
}

/// Returns the set of the overrides that can be named, and the list of these.
pub(crate) fn set_of(
    file: &File,
    policies: &Policies,
    overrides: &RunOverrides,
) -> Result<(OverrideSet, RunOverrides), String> {
    let clock = ManualClock::at(Timestamp::from_unix_millis(overrides.now));
    let empty = OverrideSet::new(Arc::new(digest), Arc::new(clock));
    let (mut records, mut named) = (Vec::new(), Vec::new());
    for (over, version) in overrides.list.iter().zip(1..) {
        if let Some(record) = record(file, policies, over, version)? {
            records.push(record);
            named.push(over.clone());
        }
    }
    let set = match file.style % 3 {
        0 => empty.of_all(records.iter().cloned(), policies),
        1 => records.iter().cloned().fold(empty.clone(), |set, record| set.with(record, policies)),
        // For no policies, and one of them twice. Then for these.
        _ => {
            let none = Policies::of([]).expect("there are none");
            let once = records.iter().cloned().fold(empty.clone(), |set, record| set.with(record, &none));
            let without = records.first().map_or_else(|| once.clone(), |first| once.without(&first.name));
            let all = records.iter().cloned().fold(without.clone(), |set, record| set.with(record, &none));
            let fit = all.for_policies(policies);
            let untouched = once.iter_names().count();
            if untouched != once.len() {
                return Err(format!("a set of {} has changed to {untouched}", once.len()));
            }
            fit
        }
    };
    expect_listed(&set, &records)?;
    Ok((set, RunOverrides { list: named, now: overrides.now }))
}

trait Names {
    fn iter_names(&self) -> impl Iterator<Item = OverrideName>;
}

impl Names for OverrideSet {
    fn iter_names(&self) -> impl Iterator<Item = OverrideName> {
        self.after(None, None).map(|entry| entry.name())
    }
}

/// Fails unless the set lists the last record of each name, in order, from each place on.
fn expect_listed(set: &OverrideSet, records: &[OverrideRecord]) -> Result<(), String> {
    let last = |record: &&OverrideRecord| {
        !records.iter().any(|other| other.name == record.name && other.version > record.version)
    };
    let mut expected: Vec<OverrideRecord> = records.iter().filter(last).cloned().collect();
    expected.sort_by(|one, other| one.name.cmp(&other.name));
    let listed = |entries: &mut dyn Iterator<Item = OverrideEntry<'_>>| -> Vec<OverrideRecord> {
        entries.map(|entry| entry.record()).collect()
    };
    let all = listed(&mut set.after(None, None));
    if all != expected || set.len() != expected.len() {
        return Err(format!("the set of {} lists {all:?}, expected {expected:?}", set.len()));
    }
    // Each third one, from another one on each time.
    let first = records.len() % 3;
    for (place, record) in expected.iter().enumerate().skip(first).step_by(3) {
        let policy = &*record.name.policy;
        let behind: Vec<_> = expected.iter().skip(place + 1).cloned().collect();
        let same_policy = behind.iter().filter(|other| *other.name.policy == *policy).cloned().collect();
        let cases = [(None, behind), (Some(policy), same_policy)];
        for (policy, expected) in cases {
            let found = listed(&mut set.after(Some(&record.name), policy));
            if found != expected {
                return Err(format!("behind {}: {found:?}, expected {expected:?}", record.name));
            }
        }
        if set.get(&record.name).map(|entry| entry.record()).as_ref() != Some(record) {
            return Err(format!("{} is not found", record.name));
        }
        if record.name.to_string().parse().as_ref() != Ok(&record.name) {
            return Err(format!("{} is read as another", record.name));
        }
    }
    Ok(())
}

/// Returns the record of an override; `None` if no policy can have it.
fn record(
    file: &File,
    policies: &Policies,
    over: &RunOverride,
    version: u64,
) -> Result<Option<OverrideRecord>, String> {
    let policy = policies.as_slice().iter().find(|policy| policy.name() == over.policy);
    let key = policy.map_or("any".to_owned(), |policy| policy.identity().to_string());
    let target = match (policy, &over.target) {
        (Some(policy), target) => {
            let given: Vec<(&str, TargetValue<'_>)> = match target {
                RunTarget::Key(pairs) => {
                    pairs.iter().map(|(name, text)| (name.as_str(), TargetValue::Key(text))).collect()
                }
                RunTarget::Text { attribute, text, is_whole: true } => {
                    vec![(attribute, TargetValue::Whole(text))]
                }
                RunTarget::Text { attribute, text, is_whole: false } => {
                    vec![(attribute, TargetValue::Prefix(text))]
                }
            };
            let known: BTreeSet<&str> = given.iter().map(|(name, _)| *name).collect();
            let name = OverrideName::of_attributes(policy, &given, &known, &digest);
            expect_named(file, over, &name)?;
            match name {
                Ok(name) => name.target,
                Err(_) => return Ok(None),
            }
        }
        // It may have been there before.
        (None, RunTarget::Text { attribute, text, is_whole }) if !text.is_empty() => {
            let (attribute, text) = (attribute.as_str().into(), text.as_str().into());
            OverrideTarget::Attribute { attribute, text, is_whole: *is_whole }
        }
        (None, _) => return Ok(None),
    };
    let limits = match (&over.limits, over.fault) {
        (_, Some(RunFault::SameWindow)) => OverrideLimits::of(["5/1m", "2/1h", "10/60s"]),
        (_, Some(RunFault::NoLimit)) => OverrideLimits::of(["5/1m", "5"]),
        (_, Some(RunFault::Unreadable)) => OverrideLimits::Unreadable("it is from the future".into()),
        (RunLimits::Unlimited, _) => OverrideLimits::Unlimited,
        (RunLimits::Denied, _) => OverrideLimits::Denied,
        (RunLimits::Quotas(quotas), _) => OverrideLimits::of(quotas.iter().map(|quota| match quota {
            Quota::Fixed(spelling) => spelling.in_file,
            Quota::By { .. } => unreachable!("none is drawn"),
        })),
    };
    let by: Option<Arc<str>> = version.is_multiple_of(2).then(|| "support".into());
    Ok(Some(OverrideRecord {
        name: OverrideName { policy: over.policy.as_str().into(), target },
        key: if over.fault == Some(RunFault::OtherKey) { "another".into() } else { key.into() },
        limits,
        until: over.until.map(Timestamp::from_unix_millis),
        label: version.is_multiple_of(3).then(|| format!("label-{}", version % 2).into()),
        note: version.is_multiple_of(5).then(|| "a note".into()),
        by,
        at: Timestamp::from_unix_millis(overrides_time(version)),
        version,
    }))
}

fn overrides_time(version: u64) -> i64 {
    i64::try_from(version).unwrap_or(0)
}

/// Fails if an override is wrongly named, or wrongly refused.
fn expect_named(
    file: &File,
    over: &RunOverride,
    name: &Result<OverrideName, OverrideTargetError>,
) -> Result<(), String> {
    let policy = file.policies.iter().find(|policy| policy.name == over.policy);
    let expected = match (policy.and_then(|policy| policy.counting.as_ref()), &over.target) {
        (None, _) => Some("counts nothing"),
        (Some(_), RunTarget::Key(_)) => return Ok(()),
        (Some(_), RunTarget::Text { attribute, .. }) if attribute == "path" => Some("two readings"),
        (Some(counting), RunTarget::Text { attribute, .. }) if !can_compare(&counting.key, attribute) => {
            Some("as an address")
        }
        (Some(_), RunTarget::Text { text, .. }) if text.is_empty() => Some("1 to 256 bytes"),
        (Some(_), RunTarget::Text { .. }) => None,
    };
    match (name, expected) {
        (Ok(_), None) => Ok(()),
        (Err(error), Some(expected)) if error.to_string().contains(expected) => Ok(()),
        _ => Err(format!("{over:?} is named {name:?}, expected {expected:?}")),
    }
}
