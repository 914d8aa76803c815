//! The policy that flags define.

use thiserror::Error;
use tollgate::{CountDenied, OnStoreFailure, Quota};
use tollgate_policy::{Attributes, Identity, Policies, Policy, PolicyError};

use crate::args::Flag;

/// The name of the policy.
pub(crate) const NAME: &str = "default";

/// Its origin, for people.
pub(crate) const SOURCE: &str = "flags";

/// An invalid policy; the fault of the flags.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FlagsError {
    /// The quotas contradict each other.
    #[error("`{flag}`: {0}", flag = Flag("--limit"))]
    Limit(#[from] PolicyError),
    /// An attribute name that no request can have.
    #[error("`{}`: an attribute's name must have 1 to {} characters", Flag("--key"), Attributes::MAX_NAME)]
    KeyNameLength,
    /// The same attribute twice.
    #[error("`{flag}`: {0} is given twice", flag = Flag("--key"))]
    KeyTwice(Box<str>),
    /// A query string uses this name for the units.
    #[error(
        "`{}`: `cost` is the number of units in a query string and cannot name an attribute there",
        Flag("--key")
    )]
    KeyNamedCost,
}

pub(crate) fn policies(
    limits: Vec<Quota>,
    key: &[String],
    count_denied: CountDenied,
    on_store_failure: OnStoreFailure,
) -> Result<Policies, FlagsError> {
    let policy = Policy::builder(NAME)
        .key(identity(key)?)
        .count_denied(count_denied)
        .on_store_failure(on_store_failure);
    let policy = limits.into_iter().fold(policy, tollgate_policy::PolicyBuilder::quota).build()?;
    Ok(Policies::of([policy])?)
}

/// Parses the key as a file would; without any, the key is all attributes together.
fn identity(key: &[String]) -> Result<Identity, FlagsError> {
    if key.is_empty() {
        return Ok(Identity::Every);
    }
    let mut parts = Vec::new();
    for (index, word) in key.iter().enumerate() {
        if word == "cost" {
            return Err(FlagsError::KeyNamedCost);
        }
        if key.iter().take(index).any(|earlier| earlier == word) {
            return Err(FlagsError::KeyTwice(word.as_str().into()));
        }
        parts.push(Identity::of_word(word).ok_or(FlagsError::KeyNameLength)?);
    }
    Ok(Identity::of_list(parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_quotas_with_the_same_window_are_both_named() {
        let quotas = vec![Quota::per_minute(5), "7/60s".parse().unwrap()];
        let error = policies(quotas, &[], CountDenied::No, OnStoreFailure::Open).unwrap_err();
        assert_eq!(error.to_string(), "`--limit`: 5/1m and 7/1m have the same window; keep one of them");
    }

    #[test]
    fn a_key_of_names_ignores_other_attributes() {
        let whom = |key: &[&str], pairs: &[(&str, &str)]| {
            let key: Vec<String> = key.iter().map(ToString::to_string).collect();
            let attributes: Attributes<'_> = pairs.iter().copied().collect();
            let identity = identity(&key).unwrap();
            let key = identity.key(&attributes).map(|key| key.canonical_bytes().into_owned());
            key.map_err(|no_key| no_key.attribute.to_owned())
        };
        let alice = [("user", "alice"), ("path", "/")];
        assert_eq!(whom(&["user"], &alice), whom(&["user"], &alice[..1]));
        assert_ne!(whom(&[], &alice), whom(&[], &alice[..1]));
        assert_eq!(whom(&["tenant", "user"], &alice), Err("tenant".to_owned()));
    }
}
