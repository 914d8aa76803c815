//! Probable mistakes in valid files.

use thiserror::Error;
use tollgate_yaml::{At, Position};

use crate::file::RawDescriptor;

/// A probable mistake in a valid file, which envoyproxy/ratelimit accepts without a word.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{place}: {kind}")]
pub struct Warning {
    /// Its place, such as `shop.yaml:3:5`.
    pub place: Box<str>,
    /// The probable mistake.
    pub kind: WarningKind,
}

/// The kind of a [`Warning`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WarningKind {
    /// A setting for limits in a descriptor without a limit.
    #[error("`{0}` has no effect without `rate_limit`")]
    WithoutLimit(&'static str),
    /// `share_threshold` at a value that matches one text only.
    #[error("`share_threshold` has no effect on a value without `*`")]
    SharesNothing,
    /// A limit that should be replaced does not exist.
    #[error("no limit of the domain has the name `{0}`")]
    ReplacesNothing(Box<str>),
    /// `requests_per_unit` at a limit without bounds.
    #[error("`requests_per_unit` has no effect: the limit is `unlimited`")]
    BoundOfUnlimited,
    /// A resource of xDS whose name is not that of its domain.
    #[error("the name has no effect: the limits are those of the domain `{0}`")]
    OtherName(Box<str>),
}

/// The probable mistakes in a descriptor, without those within it. That each replaced name exists is still to be seen.
pub(crate) fn of(raw: &RawDescriptor) -> Vec<(Position, WarningKind)> {
    let set =
        |flag: &Option<At<crate::file::Flag>>| flag.as_ref().filter(|flag| flag.value.0).map(|flag| flag.at);
    let mut found = Vec::new();
    match &raw.rate_limit {
        None => {
            let metadata = raw.metadata.as_ref().map(|metadata| metadata.at);
            let settings = [
                // Envoy Gateway sets it at each level of a chain.
                ("shadow_mode", set(&raw.shadow_mode).filter(|_| !is_in_shadow(raw))),
                ("quota_mode", set(&raw.quota_mode)),
                ("metadata", metadata),
            ];
            let without =
                settings.into_iter().filter_map(|(key, at)| Some((at?, WarningKind::WithoutLimit(key))));
            found.extend(without);
        }
        Some(limit) => {
            if let (Some(_), Some(requests)) = (set(&limit.value.unlimited), &limit.value.requests_per_unit) {
                found.push((requests.at, WarningKind::BoundOfUnlimited));
            }
            let replaced = limit.value.replaces.iter().flat_map(|replaces| &replaces.value);
            let named = replaced.filter_map(|replaced| replaced.value.name.as_ref());
            found.extend(named.map(|name| (name.at, WarningKind::ReplacesNothing(name.value.0.clone()))));
        }
    }
    if let Some(at) = set(&raw.share_threshold)
        && !raw.value.as_ref().is_some_and(|value| value.value.0.contains('*'))
    {
        found.push((at, WarningKind::SharesNothing));
    }
    found
}

/// Returns whether there are limits below a descriptor, and all of them are in shadow mode.
fn is_in_shadow(raw: &RawDescriptor) -> bool {
    let below = || raw.descriptors.iter().flat_map(|below| &below.value);
    let is_shadow = |below: &RawDescriptor| below.shadow_mode.as_ref().is_some_and(|flag| flag.value.0);
    below().next().is_some()
        && below().all(|At { value: below, .. }| match below.rate_limit {
            Some(_) => is_shadow(below) && (below.descriptors.is_none() || is_in_shadow(below)),
            None => is_in_shadow(below),
        })
}
