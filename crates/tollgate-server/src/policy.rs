//! Which quotas apply to a request, and whom they count.

use thiserror::Error;
use tollgate::{CountDenied, Key, PolicyQuota, Quota};

use crate::attributes::Attributes;

/// One named rule: its quotas, all or nothing, and the attributes that identify who is counted.
#[derive(Debug)]
pub(crate) struct Policy {
    quotas: Box<[PolicyQuota]>,
    /// The written form of each quota.
    texts: Box<[Box<str>]>,
    identity: Identity,
}

/// Whom a policy counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Identity {
    /// Whoever all attributes together describe.
    Every,
    /// Whoever these describe, in this order.
    Named(Box<[Box<str>]>),
}

/// A policy that cannot be. The fault of whoever wrote the flags.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PolicyError {
    /// Two quotas would count the same units on the same counter.
    #[error("`--limit`: {first} and {second} have the same window; keep one of them")]
    SameWindow {
        /// The first of the two, as it is written.
        first: Box<str>,
        /// The second of the two.
        second: Box<str>,
    },
    /// An attribute name that no request can have.
    #[error("`--key`: an attribute's name must have 1 to {} characters", Attributes::MAX_NAME)]
    KeyNameLength,
    /// The same attribute twice.
    #[error("`--key`: {0} is named twice")]
    KeyTwice(Box<str>),
    /// In a query string the name is taken.
    #[error("`--key`: `cost` is the number of units in a query string and cannot name an attribute there")]
    KeyNamedCost,
}

/// A request does not say who is to be counted. The caller's fault.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum MissingIdentity {
    #[error("no attribute says who is to be counted")]
    Anyone,
    #[error("the attribute is missing or empty, and it says who is to be counted")]
    Attribute(Box<str>),
}

impl Policy {
    /// The name of the one policy that flags describe.
    pub(crate) const NAME: &str = "default";

    pub(crate) fn new(
        quotas: Vec<Quota>,
        key: Vec<String>,
        count_denied: CountDenied,
    ) -> Result<Self, PolicyError> {
        let texts: Box<[Box<str>]> = quotas.iter().map(|quota| quota.to_string().into()).collect();
        let quotas: Box<[PolicyQuota]> = quotas
            .into_iter()
            .map(|quota| PolicyQuota::new(Self::NAME, quota).with_count_denied(count_denied))
            .collect();
        for (index, (second, text)) in quotas.iter().zip(&texts).enumerate() {
            let mut before = quotas.iter().zip(&texts).take(index);
            if let Some((_, first)) = before.find(|(first, _)| first.shares_counters_with(second)) {
                return Err(PolicyError::SameWindow { first: first.clone(), second: text.clone() });
            }
        }
        Ok(Self { quotas, texts, identity: Identity::new(key)? })
    }

    pub(crate) fn quotas(&self) -> &[PolicyQuota] {
        &self.quotas
    }

    /// The written form of each quota, in their order.
    pub(crate) fn texts(&self) -> &[Box<str>] {
        &self.texts
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Who is counted. A missing or empty value is an error, never a key that many share.
    pub(crate) fn key<'a>(&self, attributes: &'a Attributes<'_>) -> Result<Key<'a>, MissingIdentity> {
        let named = |name: &str| match attributes.value(name) {
            None | Some("") => Err(MissingIdentity::Attribute(name.into())),
            Some(value) => Ok(value),
        };
        match &self.identity {
            Identity::Named(names) => match names.as_ref() {
                [name] => named(name).map(Key::from),
                names => Ok(Key::parts(names.iter().map(|name| named(name)).collect::<Result<Vec<_>, _>>()?)),
            },
            Identity::Every => {
                let sorted = attributes.sorted();
                if sorted.is_empty() {
                    return Err(MissingIdentity::Anyone);
                }
                match sorted.iter().find(|(_, value)| value.is_empty()) {
                    Some((name, _)) => Err(MissingIdentity::Attribute((*name).into())),
                    None => Ok(Key::parts(sorted.into_iter().flat_map(<[&str; 2]>::from))),
                }
            }
        }
    }
}

impl Identity {
    fn new(key: Vec<String>) -> Result<Self, PolicyError> {
        if key.is_empty() {
            return Ok(Self::Every);
        }
        for (index, name) in key.iter().enumerate() {
            if name.is_empty() || name.chars().count() > Attributes::MAX_NAME {
                return Err(PolicyError::KeyNameLength);
            }
            if name == "cost" {
                return Err(PolicyError::KeyNamedCost);
            }
            if key.iter().take(index).any(|earlier| earlier == name) {
                return Err(PolicyError::KeyTwice(name.as_str().into()));
            }
        }
        Ok(Self::Named(key.into_iter().map(Into::into).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(key: &[&str]) -> Policy {
        let key = key.iter().map(ToString::to_string).collect();
        Policy::new(vec![Quota::per_minute(5)], key, CountDenied::No).unwrap()
    }

    fn attributes<'a>(pairs: &[(&'a str, &'a str)]) -> Attributes<'a> {
        let mut attributes = Attributes::default();
        for (name, value) in pairs {
            attributes.insert((*name).into(), (*value).into()).unwrap();
        }
        attributes
    }

    #[test]
    fn without_names_the_order_of_attributes_does_not_matter_but_their_names_do() {
        let key = |pairs: &[(&str, &str)]| {
            policy(&[]).key(&attributes(pairs)).unwrap().canonical_bytes().into_owned()
        };
        assert_eq!(key(&[("a", "1"), ("b", "2")]), key(&[("b", "2"), ("a", "1")]));
        assert_ne!(key(&[("a", "1")]), key(&[("b", "1")]));
        assert_ne!(key(&[("a", "1"), ("b", "2")]), key(&[("a", "2"), ("b", "1")]));
    }

    #[test]
    fn a_named_key_ignores_other_attributes() {
        let policy = policy(&["user"]);
        let (one, other) =
            (attributes(&[("user", "alice"), ("path", "/")]), attributes(&[("user", "alice")]));
        assert_eq!(policy.key(&one).unwrap(), policy.key(&other).unwrap());
    }

    #[test]
    fn a_missing_or_empty_identity_is_named() {
        for pairs in [&[("tenant", "t")][..], &[("tenant", "t"), ("user", "")]] {
            let missing = policy(&["tenant", "user"]).key(&attributes(pairs)).unwrap_err();
            assert_eq!(missing, MissingIdentity::Attribute("user".into()));
        }
        assert_eq!(policy(&[]).key(&attributes(&[])).unwrap_err(), MissingIdentity::Anyone);
    }

    #[test]
    fn two_quotas_with_the_same_window_are_both_named() {
        let quotas = vec![Quota::per_minute(5), "7/60s".parse().unwrap()];
        let error = Policy::new(quotas, vec![], CountDenied::No).unwrap_err();
        assert_eq!(error.to_string(), "`--limit`: 5/1m and 7/1m have the same window; keep one of them");
    }
}
