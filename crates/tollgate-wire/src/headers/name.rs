//! Names of quotas in headers and problems.

use std::fmt::Write;

#[cfg(feature = "policy")]
use tollgate::PolicyInFlight;
use tollgate::PolicyQuota;

/// Returns the name of each quota, in their order: the name of its policy, followed by the quota if the policy has
/// several.
///
/// Headers are ASCII, so other characters are percent-encoded.
///
/// ```
/// use tollgate::{Limiter, MemoryStore, Quota};
/// use tollgate_wire::headers::quota_names;
///
/// let login = Limiter::builder("login").quota(Quota::per_minute(5)).build(MemoryStore::new())?;
/// assert_eq!(quota_names(login.quotas()), ["login".into()].into());
/// let search = Limiter::builder("search").quota("10/1s".parse()?).quota("1000/1h".parse()?);
/// let search = search.build(MemoryStore::new())?;
/// assert_eq!(quota_names(search.quotas()), ["search/10/1s".into(), "search/1000/1h".into()].into());
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[must_use]
pub fn quota_names(quotas: &[PolicyQuota]) -> Box<[Box<str>]> {
    names_of(quotas.iter())
}

/// Returns the name of a limit in flight: that of its policy, followed by the limit if the policy has quotas as well.
#[cfg(feature = "policy")]
pub(super) fn in_flight_name(limit: &PolicyInFlight, quotas: &[PolicyQuota]) -> Box<str> {
    let policy = limit.policy();
    match quotas.iter().any(|quota| quota.policy() == policy) {
        true => ascii(&format!("{policy}/{}{}", limit.in_flight().limit(), PolicyInFlight::SERIES)),
        false => ascii(policy),
    }
}

pub(super) fn names_of<'q>(quotas: impl Iterator<Item = &'q PolicyQuota> + Clone) -> Box<[Box<str>]> {
    let name = |quota: &PolicyQuota| {
        let same_policy = quotas.clone().filter(|other| other.policy() == quota.policy());
        match same_policy.count() {
            1 => ascii(quota.policy()),
            _ => ascii(&format!("{}/{}", quota.policy(), quota.quota())),
        }
    };
    quotas.clone().map(name).collect()
}

fn ascii(name: &str) -> Box<str> {
    let mut ascii = String::with_capacity(name.len());
    for byte in name.bytes() {
        if matches!(byte, b' '..=b'~') {
            ascii.push(byte.into());
        } else {
            // Writing into a string does not fail.
            let _ = write!(ascii, "%{byte:02X}");
        }
    }
    ascii.into()
}
