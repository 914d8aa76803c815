//! A quota as headers describe it.

use std::time::Duration;

use tollgate::{PolicyQuota, QuotaState, WindowLength};

/// A quota as `RateLimit-Policy` has it.
pub(super) struct QuotaPolicy {
    pub(super) limit: u64,
    /// The length of a window.
    pub(super) seconds: u64,
    /// The burst of a bucket.
    pub(super) burst: Option<u64>,
}

/// Returns the length of the window that was counted or, if the quota counts in none, the one that it is written with.
#[must_use]
pub fn window_length(quota: &PolicyQuota, state: &QuotaState) -> Option<Duration> {
    state.window().map(|window| window.length()).or_else(|| fixed_length(quota))
}

pub(super) fn fixed_length(quota: &PolicyQuota) -> Option<Duration> {
    match quota.quota().window() {
        WindowLength::Fixed(length) => Some(length),
        _ => None,
    }
}
