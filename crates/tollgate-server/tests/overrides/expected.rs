//! What overrides make of a request: a reading of the rules that shares nothing with the product.

use crate::attributes::{Attributes, IN_FLIGHT, SEARCH, STREAM, UPLOAD};
use crate::books::Entry;
use crate::change::{Limits, OverrideSaid, Target};

/// A limit that a request is counted under.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ExpectedQuota {
    pub(crate) policy: &'static str,
    pub(crate) series: &'static str,
    pub(crate) limit: u64,
    /// `None` if it is from the file; else when the override ends.
    pub(crate) by_override: Option<Option<i64>>,
}

impl ExpectedQuota {
    pub(crate) fn is_in_flight(&self) -> bool {
        self.series == IN_FLIGHT
    }

    /// The units that a request of this cost takes.
    pub(crate) fn units(&self, cost: u64) -> u64 {
        if self.is_in_flight() { 1 } else { cost }
    }
}

/// What is to become of a request, before its counts are looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expectation {
    /// An override of this policy denies it.
    Denied { policy: &'static str, until: Option<i64> },
    /// All these have room, or none is charged. Without any, it is allowed.
    Counted(Vec<ExpectedQuota>),
}

/// A change of unknown outcome matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnknownChange;

/// The times by which ends are judged, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// The store's, if a step was taken: it decides about limits.
    pub(crate) step: Option<i64>,
    /// What the service may have taken for it.
    pub(crate) estimate: i64,
}

impl Times {
    fn is_before_end(self, said: &OverrideSaid) -> bool {
        let now = match said.limits {
            Limits::Quotas(_) => self.step.unwrap_or(self.estimate),
            Limits::Unlimited | Limits::Denied => self.estimate,
        };
        said.until.is_none_or(|until| now < until)
    }
}

/// Returns what is to become of a request under the overrides that `entry` gives.
pub(crate) fn expect<'a>(
    attributes: &Attributes,
    times: Times,
    entry: impl Fn(&Target) -> Entry<'a>,
) -> Result<Expectation, UnknownChange> {
    let mut quotas = Vec::new();
    for policy in attributes.policies() {
        let Some(said) = override_of(policy, attributes, times, &entry)? else {
            let from_file = limits_of_file(policy, attributes);
            quotas.extend(from_file.into_iter().map(|(limit, series)| ExpectedQuota {
                policy,
                series,
                limit,
                by_override: None,
            }));
            continue;
        };
        match &said.limits {
            Limits::Denied => return Ok(Expectation::Denied { policy, until: said.until }),
            Limits::Unlimited => {}
            Limits::Quotas(limits) => quotas.extend(limits.iter().map(|(limit, series)| ExpectedQuota {
                policy,
                series,
                limit: *limit,
                by_override: Some(said.until),
            })),
        }
    }
    quotas.sort();
    Ok(Expectation::Counted(quotas))
}

/// Returns every target that could decide about the request, of all its policies.
pub(crate) fn targets(attributes: &Attributes) -> Vec<Target> {
    attributes.policies().into_iter().flat_map(|policy| ranked(policy, attributes)).collect()
}

fn override_of<'a>(
    policy: &'static str,
    attributes: &Attributes,
    times: Times,
    entry: &impl Fn(&Target) -> Entry<'a>,
) -> Result<Option<&'a OverrideSaid>, UnknownChange> {
    for target in ranked(policy, attributes) {
        match entry(&target) {
            Entry::Unknown => return Err(UnknownChange),
            Entry::Override(said) if times.is_before_end(said) => return Ok(Some(said)),
            _ => {}
        }
    }
    Ok(None)
}

/// The targets that meet a request, the one that takes precedence first.
fn ranked(policy: &'static str, attributes: &Attributes) -> Vec<Target> {
    let mut texts = Vec::new();
    for (attribute, whole) in attributes.texts() {
        texts.push((true, attribute, whole.to_owned()));
        texts.extend((1..=whole.len()).map(|length| (false, attribute, whole[..length].to_owned())));
    }
    texts.sort_by_key(|(is_whole, attribute, text)| (!is_whole, usize::MAX - text.len(), *attribute));
    let texts = texts.into_iter().map(|(is_whole, attribute, text)| Target::Text {
        policy,
        attribute,
        text,
        is_whole,
    });
    [Target::Key { policy, key: attributes.key(policy) }].into_iter().chain(texts).collect()
}

/// The limits of the file: [`crate::attributes::POLICIES`] in other words.
fn limits_of_file(policy: &str, attributes: &Attributes) -> Vec<(u64, &'static str)> {
    match (policy, attributes.tenant, attributes.plan) {
        (STREAM, ..) => vec![(15, "1500d"), (3, IN_FLIGHT)],
        (UPLOAD, ..) => vec![(10, "2000d@first_hit")],
        (SEARCH, "acme-1" | "gamma", _) => vec![(16, "3653d"), (9, "2500d")],
        (SEARCH, "beta-2", _) => vec![],
        (SEARCH, _, Some("gold")) => vec![(20, "3653d"), (40, "3000d@first_hit")],
        _ => vec![(12, "3653d")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What takes precedence, from the highest on, each with an end of its own.
    #[test]
    fn the_key_comes_before_whole_texts_and_longer_texts_before_shorter_ones() {
        let attributes =
            Attributes { user: "ann".to_owned(), tenant: "acme-12", plan: Some("gold"), kind: None };
        let text = |attribute, text: &str, is_whole| Target::Text {
            policy: SEARCH,
            attribute,
            text: text.to_owned(),
            is_whole,
        };
        let ranks = [
            Target::Key { policy: SEARCH, key: vec![("user", "ann".to_owned())] },
            text("tenant", "acme-12", true),
            text("plan", "gold", true),
            text("tenant", "acme-12", false),
            text("plan", "gold", false),
            text("tenant", "acme", false),
            text("plan", "gol", false),
            text("tenant", "acm", false),
            text("plan", "g", false),
            text("tenant", "a", false),
        ];
        let said: Vec<OverrideSaid> = (0..10)
            .map(|rank| OverrideSaid {
                limits: Limits::Quotas(vec![(rank, "1d")]),
                until: Some(100 + rank as i64),
            })
            .collect();
        let entry = |target: &Target| match ranks.iter().position(|known| known == target) {
            Some(rank) => Entry::Override(&said[rank]),
            None => Entry::Nothing,
        };
        for (now, expected) in [(0, 0), (99, 0), (100, 1), (104, 5), (108, 9)] {
            let times = Times { step: Some(now), estimate: 0 };
            let Ok(Expectation::Counted(quotas)) = expect(&attributes, times, entry) else { panic!() };
            assert_eq!(quotas[0].limit, expected, "at {now}");
        }
        let Ok(Expectation::Counted(quotas)) =
            expect(&attributes, Times { step: Some(109), estimate: 0 }, entry)
        else {
            panic!()
        };
        let limits: Vec<_> = quotas.iter().map(|quota| (quota.limit, quota.by_override)).collect();
        assert_eq!(limits, [(40, None), (20, None)]);
    }
}
