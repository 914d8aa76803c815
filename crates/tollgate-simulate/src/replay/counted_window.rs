//! The interval in which figures count a request.

use std::time::Duration;

use tollgate::{Quota, QuotaKind, QuotaState, Timestamp, Window, WindowLength};

/// Returns the fixed or sliding window that was counted. Buckets and logs have none: of these it is the interval of their
/// length that the clock shows.
pub(super) fn counted_window(quota: &Quota, state: &QuotaState) -> Window {
    let length = match quota.window() {
        WindowLength::Fixed(length) => length,
        _ => Duration::ZERO,
    };
    if let Some(window) = state.window() {
        return window;
    }
    match state.kind() {
        QuotaKind::Sliding => {
            let start = state.mark().time();
            let millis = u64::try_from(length.as_millis()).unwrap_or(u64::MAX);
            let end = start.as_unix_millis().saturating_add_unsigned(millis);
            Window::new(start, Timestamp::from_unix_millis(end))
        }
        _ => Window::aligned(state.now(), length, Duration::ZERO),
    }
}
