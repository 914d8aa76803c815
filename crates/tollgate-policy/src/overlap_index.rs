//! Policies by the texts that they require, to find those that may match the same requests as another one.
//!
//! Comparing each policy with all others takes minutes for a hundred thousand of them. Most policies require a text of
//! some attribute, such as a path, and two policies that require different texts need no comparison.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::conditions::Way;
use crate::index::{Place, places};
use crate::{Condition, Policy, Test};

/// Policies that can be compared with another one without trying them all.
///
/// Each way in which a policy can match is filed under the longest texts that it requires of one attribute, or with
/// those that require no text.
#[derive(Debug, Default)]
pub struct OverlapIndex<'a> {
    /// Policies that match in some way without a required text.
    others: Vec<&'a Policy>,
    attributes: BTreeMap<&'a str, Beginnings<'a>>,
}

/// Policies by the texts with which a value must begin.
#[derive(Debug, Default)]
struct Beginnings<'a> {
    policies: BTreeMap<&'a str, Vec<&'a Policy>>,
    /// The lengths of texts that a value may continue.
    open_lengths: BTreeSet<usize>,
}

/// A text that values must have, or begin with.
#[derive(Debug, Clone, Copy)]
struct Beginning<'a> {
    text: &'a str,
    is_open: bool,
}

impl<'a> OverlapIndex<'a> {
    /// Adds a policy.
    pub fn insert(&mut self, policy: &'a Policy) {
        for way in policy.conditions().ways() {
            let Some((attribute, beginnings)) = longest(way) else {
                self.others.push(policy);
                continue;
            };
            let filed = self.attributes.entry(attribute).or_default();
            for Beginning { text, is_open } in beginnings {
                filed.policies.entry(text).or_default().push(policy);
                if is_open {
                    filed.open_lengths.insert(text.len());
                }
            }
        }
    }

    /// Returns the policies that [overlap](Policy::overlaps) with this one, in no particular order. One that can match
    /// in several ways may come several times.
    pub fn overlapping(&self, policy: &'a Policy) -> impl Iterator<Item = &'a Policy> {
        let filed = self.attributes.iter().flat_map(move |(attribute, filed)| {
            let required: Option<Vec<_>> =
                policy.conditions().ways().map(|way| required(way, attribute)).collect();
            // Without a required text, any value of the attribute may be that of a common request.
            let any = required.is_none().then(|| filed.policies.values().flatten().copied());
            let beginnings = required.unwrap_or_default().concat();
            any.into_iter().flatten().chain(filed.meeting(&beginnings))
        });
        self.others.iter().copied().chain(filed).filter(|other| other.overlaps(policy))
    }

    /// Returns the policies that [cover](Policy::covers) this one, as [`overlapping`](Self::overlapping) does.
    pub fn covering(&self, policy: &'a Policy) -> impl Iterator<Item = &'a Policy> {
        let filed = self.attributes.iter().flat_map(move |(attribute, filed)| {
            // Only a condition on the same attribute implies another one.
            let own = policy.conditions().iter().filter(|own| own.attribute() == *attribute);
            let beginnings: Vec<_> = own.filter_map(|own| beginnings(own.test())).flatten().collect();
            filed.meeting(&beginnings)
        });
        self.others.iter().copied().chain(filed).filter(|other| other.covers(policy))
    }
}

impl<'a> Beginnings<'a> {
    /// Returns the policies that require a text that some value has together with one of these.
    fn meeting(&self, beginnings: &[Beginning<'_>]) -> Vec<&'a Policy> {
        let mut meeting = Vec::new();
        for Beginning { text, is_open } in beginnings {
            let shorter = self.open_lengths.range(..text.len()).filter_map(|length| text.get(..*length));
            meeting.extend(shorter.filter_map(|shorter| self.policies.get(shorter)).flatten());
            let same_or_longer = self.policies.range::<str, _>((Bound::Included(*text), Bound::Unbounded));
            let continues = |longer: &str| if *is_open { longer.starts_with(text) } else { longer == *text };
            meeting.extend(same_or_longer.take_while(|(longer, _)| continues(longer)).flat_map(|it| it.1));
        }
        meeting
    }
}

/// Returns the attribute of which most is required, and the texts. A long text is rarer than a short one.
fn longest(way: Way<'_>) -> Option<(&str, Vec<Beginning<'_>>)> {
    let required = way.iter().filter_map(|condition| Some((condition, beginnings(&condition.test)?)));
    let shortest = |beginnings: &[Beginning<'_>]| beginnings.iter().map(|it| it.text.len()).min();
    let (condition, beginnings) = required.max_by_key(|(_, beginnings)| shortest(beginnings))?;
    Some((&condition.attribute, beginnings))
}

/// Returns the texts that a way requires of an attribute.
fn required<'a>(way: Way<'a>, attribute: &str) -> Option<Vec<Beginning<'a>>> {
    let has_attribute = |condition: &&Condition| condition.attribute.as_ref() == attribute;
    way.iter().filter(has_attribute).find_map(|condition| beginnings(&condition.test))
}

fn beginnings(test: &Test) -> Option<Vec<Beginning<'_>>> {
    let beginning = |place| match place {
        Place::Exact(text) => Some(Beginning { text, is_open: false }),
        Place::Prefix(text) | Place::Start(text) => Some(Beginning { text, is_open: true }),
        Place::Network(_) => None,
    };
    places(test)?.into_iter().map(beginning).collect()
}
