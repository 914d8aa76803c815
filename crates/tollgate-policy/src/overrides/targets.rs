//! From what a caller says to the name of an override.

use std::collections::BTreeSet;

use thiserror::Error;

use super::{OverrideDigest, OverrideKey, OverrideName, OverrideTarget};
use crate::value::PATH;
use crate::{AttributeValue, Attributes, Identity, Policy, PolicyKind};

/// What a caller says about an attribute of the requests that an override is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TargetValue<'a> {
    /// The value, as a part of the key.
    Key(&'a str),
    /// A whole text.
    Whole(&'a str),
    /// The beginning of a text.
    Prefix(&'a str),
}

/// Requests that an override cannot be for. The caller's fault.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OverrideTargetError {
    /// The policy exempts or denies what it matches.
    #[error("policy `{0}` counts nothing")]
    CountsNothing(Box<str>),
    /// The attributes do not give the policy's key.
    #[error("policy `{policy}` counts by `{key}`: {no_key}")]
    NoKey {
        /// The policy.
        policy: Box<str>,
        /// Its key.
        key: Box<str>,
        /// What is missing.
        no_key: Box<str>,
    },
    /// An attribute is no part of the key.
    #[error("policy `{policy}` counts by `{key}`, so `{attribute}` has no effect: leave it out")]
    NoPartOfKey {
        /// The policy.
        policy: Box<str>,
        /// Its key.
        key: Box<str>,
        /// The attribute.
        attribute: Box<str>,
    },
    /// An attribute is given twice.
    #[error("`{0}` is given twice")]
    Twice(Box<str>),
    /// A text or a prefix is not the only attribute.
    #[error("an override for a text or a prefix of `{0}` cannot name other attributes")]
    NotAlone(Box<str>),
    /// Requests may have two readings of the attribute.
    #[error("`path` cannot be compared with a text, because a path may have two readings")]
    Path,
    /// The policy's key reads the attribute as an address.
    #[error("`{0}` cannot be compared with a text, because the policy's key reads it as an address")]
    Address(Box<str>),
    /// The attribute is none that requests are known to have.
    #[error("no policy uses the attribute `{0}`")]
    UnknownAttribute(Box<str>),
    /// The text is empty or too long.
    #[error("a text of `{0}` has 1 to {max} bytes", max = OverrideTarget::MAX_TEXT)]
    Text(Box<str>),
}

impl OverrideName {
    /// Returns the name of the override for the requests of a policy that these attributes describe: all attributes of
    /// the key, or one attribute with a text or a prefix. The latter has to be known: used by a policy, for example.
    ///
    /// # Errors
    ///
    /// If the policy cannot have an override for them. No error contains a value.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::collections::BTreeSet;
    ///
    /// use tollgate::{Key, Quota};
    /// use tollgate_policy::{Identity, OverrideName, Policy, TargetValue};
    ///
    /// let policy = Policy::builder("search").key(Identity::Attribute("user".into()));
    /// let policy = policy.quota(Quota::per_minute(100)).build()?;
    /// let digest = |key: &Key<'_>| u128::from(key.canonical_bytes().len() as u64); // A real one is a hash.
    /// let name = |given: &[_]| OverrideName::of_attributes(&policy, given, &BTreeSet::from(["user"]), &digest);
    ///
    /// let alice = name(&[("user", TargetValue::Key("alice"))])?;
    /// assert_eq!(alice.to_string(), "search:=AAAAAAAAAAAAAAAAAAAABw");
    /// let guests = name(&[("user", TargetValue::Prefix("guest-"))])?;
    /// assert_eq!(guests.to_string(), "search:user^guest-");
    /// let error = name(&[("customer", TargetValue::Key("acme"))]).unwrap_err();
    /// assert_eq!(error.to_string(), "policy `search` counts by `user`: the request has no key: `user` is missing");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of_attributes(
        policy: &Policy,
        given: &[(&str, TargetValue<'_>)],
        known: &BTreeSet<&str>,
        digest: &dyn OverrideDigest,
    ) -> Result<Self, OverrideTargetError> {
        if policy.kind() != PolicyKind::Count {
            return Err(OverrideTargetError::CountsNothing(policy.name().into()));
        }
        let mut names = BTreeSet::new();
        if let Some((twice, _)) = given.iter().find(|(name, _)| !names.insert(*name)) {
            return Err(OverrideTargetError::Twice((*twice).into()));
        }
        let compared = given.iter().find_map(|(name, value)| match *value {
            TargetValue::Key(_) => None,
            TargetValue::Whole(text) => Some((*name, text, true)),
            TargetValue::Prefix(text) => Some((*name, text, false)),
        });
        let target = match compared {
            None => OverrideTarget::Key(key(policy, given, digest)?),
            Some((attribute, _, _)) if given.len() > 1 => {
                return Err(OverrideTargetError::NotAlone(attribute.into()));
            }
            Some((attribute, text, is_whole)) => {
                expect_comparable(policy.identity(), attribute)?;
                if !known.contains(attribute) {
                    return Err(OverrideTargetError::UnknownAttribute(attribute.into()));
                }
                if !OverrideTarget::is_text(text) {
                    return Err(OverrideTargetError::Text(attribute.into()));
                }
                // A whole value is compared as policies read it.
                let canonical = AttributeValue::from(text).canonical(attribute).filter(|_| is_whole);
                let canonical = canonical.as_ref().and_then(|value| value.texts().text());
                let text = canonical.unwrap_or(text).into();
                OverrideTarget::Attribute { attribute: attribute.into(), text, is_whole }
            }
        };
        Ok(Self { policy: policy.name().into(), target })
    }
}

/// Fails if no override of a policy with this key can compare the attribute with a text.
pub(super) fn expect_comparable(identity: &Identity, attribute: &str) -> Result<(), OverrideTargetError> {
    if attribute == PATH {
        return Err(OverrideTargetError::Path);
    }
    match identity.reads_address(attribute) {
        true => Err(OverrideTargetError::Address(attribute.into())),
        false => Ok(()),
    }
}

/// Returns the digest of the key of these attributes, each of which has to be a part of it.
fn key(
    policy: &Policy,
    given: &[(&str, TargetValue<'_>)],
    digest: &dyn OverrideDigest,
) -> Result<OverrideKey, OverrideTargetError> {
    let without = |left_out: Option<&str>| {
        let pairs = given.iter().filter(|(name, _)| Some(*name) != left_out);
        let pairs = pairs.map(|(name, value)| match *value {
            TargetValue::Key(text) | TargetValue::Whole(text) | TargetValue::Prefix(text) => (*name, text),
        });
        pairs.collect::<Attributes<'_>>()
    };
    let identity = policy.identity();
    let attributes = without(None);
    let key = identity.key(&attributes).map_err(|no_key| OverrideTargetError::NoKey {
        policy: policy.name().into(),
        key: identity.to_string().into(),
        no_key: no_key.to_string().into(),
    })?;
    // Without a part, there is no key, or another one.
    let is_needless = |name: &str| {
        let others = without(Some(name));
        identity.key(&others).is_ok_and(|other| other == key)
    };
    match given.iter().find(|(name, _)| is_needless(name)) {
        None => Ok(OverrideKey(digest.digest(&key))),
        Some((attribute, _)) => Err(OverrideTargetError::NoPartOfKey {
            policy: policy.name().into(),
            key: identity.to_string().into(),
            attribute: (*attribute).into(),
        }),
    }
}

/// Without the text, which may be personal.
impl std::fmt::Debug for TargetValue<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Key(_) => "Key(..)",
            Self::Whole(_) => "Whole(..)",
            Self::Prefix(_) => "Prefix(..)",
        })
    }
}
