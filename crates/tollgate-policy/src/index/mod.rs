//! The index: finds policies that may match by a value of one condition, without trying them all.
//!
//! Each policy is filed under its rarest condition that can be looked up, or under one for each of its alternatives:
//! texts in a hash table, beginnings of texts and networks in tries. Conditions that are not in the index (globs that
//! begin with a star, `not`, presence) are scanned for the given value. The index only narrows down, unless the
//! condition that found a policy is enough for it.

mod candidate;
mod table;
mod trie;
mod values;

use std::collections::HashMap;

use smallvec::SmallVec;

pub(crate) use self::candidate::Candidate;
pub(crate) use self::table::Table;
use self::values::{FiledCandidate, Values};
pub(crate) use self::values::{Place, places};
use crate::value::PATH;
use crate::{Condition, Policy, Value, View};

/// Policies by what they match.
#[derive(Debug)]
pub(crate) struct Index {
    /// The place of an attribute's values. Looked up for each attribute of a request, so that the number of names in a
    /// file does not matter.
    names: Table<u32>,
    values: Box<[Values]>,
    /// The policies that a request without the attribute matches: the attribute's number, and the candidates.
    absent: Box<[(u32, Box<[Candidate]>)]>,
    /// Those without a condition.
    unconditional: Box<[Candidate]>,
}

/// Those that may match. A request rarely meets more of them.
pub(crate) type Candidates = SmallVec<[Candidate; 16]>;

impl Index {
    pub(crate) fn new(policies: &[Policy]) -> Self {
        let mut crowds = HashMap::<(&str, Place<'_>), usize>::new();
        for condition in policies.iter().flat_map(|policy| policy.conditions.iter()) {
            for place in places(&condition.test).unwrap_or_default() {
                *crowds.entry((&condition.attribute, place)).or_default() += 1;
            }
        }

        let mut filed = HashMap::<&str, FiledCandidate<'_>>::new();
        let mut unconditional = Vec::new();
        for (number, policy) in (0_u32..).zip(policies) {
            let crowd = |attribute, place| crowds.get(&(attribute, place)).copied().unwrap_or_default();
            // What several ways have in common may be the rarest of each.
            let mut done: Vec<&Condition> = Vec::new();
            for way in policy.conditions.ways() {
                let found = way
                    .iter()
                    .filter_map(|condition| places(&condition.test).map(|places| (condition, places)));
                let rarest = found.min_by_key(|(condition, places)| -> usize {
                    places.iter().map(|place| crowd(condition.attribute.as_ref(), place.clone())).sum()
                });
                let is_alone = way.iter().count() <= 1;
                let (condition, places) = match (rarest, way.iter().next()) {
                    (Some((condition, places)), _) => (condition, Some(places)),
                    (None, Some(condition)) => (condition, None),
                    (None, None) => {
                        unconditional.push(Candidate::sure(number));
                        continue;
                    }
                };
                if done.iter().any(|other| std::ptr::eq(*other, condition)) {
                    continue;
                }
                done.push(condition);
                let filed = filed.entry(&condition.attribute).or_default();
                match places {
                    Some(places) => filed.file(number, is_alone, places),
                    None => filed.scan(Candidate::new(number, is_alone), &condition.test),
                }
            }
        }

        let filed: Vec<(&str, FiledCandidate<'_>)> = filed.into_iter().collect();
        let names = Table::new((0_u32..).zip(&filed).map(|(number, (name, _))| (*name, number)).collect());
        let absent = (0_u32..).zip(&filed).map(|(number, (_, filed))| (number, filed.absent()));
        Self {
            names,
            absent: absent.filter(|(_, candidates)| !candidates.is_empty()).collect(),
            values: filed.into_iter().map(|(_, filed)| Values::new(filed)).collect(),
            unconditional: unconditional.into(),
        }
    }

    /// All that match in one of the request's [readings](crate::SentReading) and few that do not, each once and in
    /// order. If an attribute's value is not known, all policies that use it.
    pub(crate) fn candidates<V: View>(&self, view: &V) -> Candidates {
        let mut candidates = Candidates::from_slice(&self.unconditional);
        let mut present = SmallVec::<[u32; 16]>::new();
        for (name, value) in view.pairs() {
            let Some(number) = self.names.get(name) else { continue };
            // Of a name that is given twice the first value counts.
            if present.contains(number) {
                continue;
            }
            let Some(values) = self.values.get(*number as usize) else { continue };
            match value {
                Ok(None) => continue,
                Ok(Some(texts)) => values.add_to(&mut candidates, Value::in_view(view, name, texts)),
                Err(_) => values.add_all_to(&mut candidates),
            }
            present.push(*number);
        }
        if let Some(sent) = view.sent_path()
            && let Some(values) = self.names.get(PATH).and_then(|number| self.values.get(*number as usize))
        {
            values.add_to(&mut candidates, Value::in_view(view, PATH, sent));
        }
        for (number, absent) in &self.absent {
            if !present.contains(number) {
                candidates.extend_from_slice(absent);
            }
        }
        candidates.sort_unstable();
        candidates.dedup_by_key(|candidate| candidate.number());
        candidates
    }
}
