//! Several files as one.

use std::collections::HashMap;

use tollgate_yaml::{At, FilePlace, Position, ProblemKind, Problems};

use crate::file::{NamedQuotas, QuotaList, RawFile};

/// The keys that several files may have. Each file adds to the others.
const JOINED: &[&str] = &["policies", "tiers"];

/// The tiers of all files.
pub(super) fn tiers(
    tiers: Option<At<NamedQuotas>>,
    names: &[Box<str>],
    problems: &mut Problems,
) -> HashMap<Box<str>, QuotaList> {
    let mut places = HashMap::<Box<str>, Position>::new();
    let mut all = HashMap::new();
    for (key, At { at, value, .. }) in tiers.map(|tiers| tiers.value.0).unwrap_or_default() {
        match places.get(&key) {
            Some(first) => {
                let first = FilePlace::seen_from(at, *first, names);
                problems.add(at, ProblemKind::DuplicateKey { key, first });
            }
            None => {
                places.insert(key.clone(), at);
                all.insert(key, value);
            }
        }
    }
    all
}

/// Merges all files into one: global settings are given in one of them, and their policies follow each other.
pub(super) fn as_one(
    read: Vec<At<RawFile>>,
    count: usize,
    names: &[Box<str>],
    problems: &mut Problems,
) -> RawFile {
    // If a file is not YAML, its keys are unknown; report none as missing.
    if let Some(first) = read.first().filter(|_| read.len() == count)
        && !read.iter().any(|file| file.value.gives("policies"))
    {
        first.value.need(&["policies"], first.at, problems);
    }
    let mut given: Vec<(&str, Position)> = Vec::new();
    for (key, at) in read.iter().flat_map(|file| &file.value.given).filter(|(key, _)| !JOINED.contains(key)) {
        match given.iter().find(|(other, _)| other == key) {
            Some((_, first)) => {
                let (key, first) = ((*key).into(), FilePlace::seen_from(*at, *first, names));
                problems.add(*at, ProblemKind::DuplicateKey { key, first });
            }
            None => given.push((key, *at)),
        }
    }
    let mut all = RawFile::default();
    for At { value: file, .. } in read {
        all.store = all.store.or(file.store);
        all.mode = all.mode.or(file.mode);
        all.defaults = all.defaults.or(file.defaults);
        all.unmatched = all.unmatched.or(file.unmatched);
        all.allow = all.allow.or(file.allow);
        all.deny = all.deny.or(file.deny);
        match (&mut all.tiers, file.tiers) {
            (Some(tiers), Some(more)) => tiers.value.0.extend(more.value.0),
            (tiers, more) => *tiers = tiers.take().or(more),
        }
        match (&mut all.policies, file.policies) {
            (Some(policies), Some(more)) => policies.value.extend(more.value),
            (policies, more) => *policies = policies.take().or(more),
        }
    }
    all
}
