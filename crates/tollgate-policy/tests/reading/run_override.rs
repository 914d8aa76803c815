//! Overrides that are set while a service runs, as the naive reading has them: a list.

use std::collections::{BTreeMap, BTreeSet};

use crate::file::{Key, Quotas};
use crate::judge::{Lack, Request, Said, Values, spelled, who};

/// All overrides of a case, and the time at which its requests are decided.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunOverrides {
    pub(crate) list: Vec<RunOverride>,
    /// In milliseconds.
    pub(crate) now: i64,
}

#[derive(Debug, Clone)]
pub(crate) struct RunOverride {
    pub(crate) policy: String,
    pub(crate) target: RunTarget,
    pub(crate) limits: RunLimits,
    pub(crate) until: Option<i64>,
    /// Why it applies to no request, if it does not.
    pub(crate) fault: Option<RunFault>,
}

#[derive(Debug, Clone)]
pub(crate) enum RunTarget {
    /// The key of a request with these attributes.
    Key(Vec<(String, String)>),
    Text {
        attribute: String,
        text: String,
        is_whole: bool,
    },
}

#[derive(Debug, Clone)]
pub(crate) enum RunLimits {
    /// At least one, and none of them from an attribute.
    Quotas(Quotas),
    Unlimited,
    Denied,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunFault {
    /// It was set when the policy had another key.
    OtherKey,
    /// Two of its quotas have one window.
    SameWindow,
    /// One of its limits is none.
    NoLimit,
    Unreadable,
}

/// What is known of the time when a request is matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Moment {
    Known,
    /// Steps compare the ends with their own time.
    Estimated,
}

/// An override of this name, which may be there twice: only the last one counts.
type Name = (usize, String, String);

impl RunOverrides {
    /// Returns the limits of the override that a policy with this key has for a request, if one applies.
    pub(crate) fn find(
        &self,
        policy: &str,
        key: &Key,
        is_overdraft: bool,
        values: &Values,
        moment: Moment,
    ) -> Result<Option<&RunLimits>, Lack> {
        let listed: Vec<&RunOverride> = self.list.iter().filter(|over| over.policy == policy).collect();
        let applies = |over: &RunOverride| !over.is_inert(is_overdraft) && !self.is_over(over, moment);
        let this = who(key, values)?;
        let has_key = |over: &&&RunOverride| match &over.target {
            RunTarget::Key(pairs) => who(key, &of_pairs(pairs)).is_ok_and(|who| who == this),
            RunTarget::Text { .. } => false,
        };
        if let Some(over) = listed.iter().rfind(has_key).filter(|over| applies(over)) {
            return Ok(Some(&over.limits));
        }
        for looks_for_whole in [true, false] {
            let mut named = BTreeMap::<Name, &RunOverride>::new();
            for over in &listed {
                let RunTarget::Text { attribute, text, is_whole } = &over.target else { continue };
                if *is_whole == looks_for_whole && can_compare(key, attribute) {
                    let text = if *is_whole { spelled(attribute, text) } else { text.clone() };
                    // The longest one first, then by the attribute's name, then by the text.
                    named.insert((usize::MAX - text.len(), attribute.clone(), text), over);
                }
            }
            // One that has ended may still be there.
            named.retain(|_, over| !over.is_inert(is_overdraft));
            let attributes = named.keys().map(|(_, attribute, _)| attribute.as_str());
            let unreadable = values.unreadable(attributes);
            if !unreadable.is_empty() {
                return Err(Lack::Unreadable(unreadable));
            }
            for ((_, attribute, text), over) in named {
                let meets = |said: &&str| if looks_for_whole { **said == text } else { begins(said, &text) };
                if values.texts(&attribute)?.iter().any(meets) && applies(over) {
                    return Ok(Some(&over.limits));
                }
            }
        }
        Ok(None)
    }

    fn is_over(&self, over: &RunOverride, moment: Moment) -> bool {
        let later = match (moment, &over.limits) {
            (Moment::Estimated, RunLimits::Quotas(_)) => 2_000,
            _ => 0,
        };
        over.until.is_some_and(|until| self.now >= until + later)
    }

    /// Returns the attributes that the overrides of a policy compare.
    pub(crate) fn names<'a>(&'a self, policy: &'a str) -> impl Iterator<Item = &'a str> {
        let listed = self.list.iter().filter(move |over| over.policy == policy);
        listed.filter_map(|over| match &over.target {
            RunTarget::Key(_) => None,
            RunTarget::Text { attribute, .. } => Some(attribute.as_str()),
        })
    }
}

impl RunOverride {
    /// Whether it applies to no request, under a policy that charges denials if `is_overdraft`.
    fn is_inert(&self, is_overdraft: bool) -> bool {
        let limits_in_flight = match &self.limits {
            RunLimits::Quotas(quotas) => quotas.iter().any(|quota| quota.is_in_flight()),
            RunLimits::Unlimited | RunLimits::Denied => false,
        };
        self.fault.is_some() || (is_overdraft && limits_in_flight)
    }
}

/// Whether an override of a policy with this key can compare the attribute with a text.
pub(crate) fn can_compare(key: &Key, attribute: &str) -> bool {
    fn reads_address(key: &Key, attribute: &str) -> bool {
        match key {
            Key::Global | Key::Attribute(_) => false,
            Key::Address { name, .. } => name == attribute,
            Key::All(parts) | Key::FirstOf(parts) => parts.iter().any(|part| reads_address(part, attribute)),
        }
    }
    attribute != "path" && !reads_address(key, attribute)
}

fn begins(text: &str, prefix: &str) -> bool {
    let mut characters = text.chars();
    prefix.chars().all(|character| characters.next() == Some(character))
}

fn of_pairs(pairs: &[(String, String)]) -> Values {
    let attributes = pairs.iter().map(|(name, text)| (name.clone(), Said::Text(text.clone()))).collect();
    Request { attributes, unverified: BTreeSet::new(), within: None, cost: 1 }.values()
}
