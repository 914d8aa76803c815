//! Advice for a failed store, with the flags and variables of the service, which the store does not know.

use tollgate_redis::{Advice, Setting};

/// Returns the advice, with the flags that it concerns.
pub(crate) fn with_flags(advice: &Advice) -> String {
    let flags = match advice.setting() {
        Some(Setting::Login) => " (--store-password-file, TOLLGATE_STORE_PASSWORD)",
        Some(Setting::SentinelLogin) => {
            " (--store-sentinel-user, --store-sentinel-password-file, TOLLGATE_STORE_SENTINEL_PASSWORD)"
        }
        Some(Setting::Tls) => " (--store-ca)",
        Some(Setting::Deadline) => " (--store-timeout)",
        _ => "",
    };
    format!("{advice}{flags}")
}
