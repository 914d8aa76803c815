//! What to do about a store in trouble, with the flags and variables of the service, which the store knows nothing of.

use tollgate_redis::{Advice, Setting};

/// The advice, and which flags it is about.
pub(crate) fn with_flags(advice: &Advice) -> String {
    format!("{advice}{}", flags_of(advice))
}

/// What goes behind the advice: the flags that it is about, or nothing.
pub(crate) fn flags_of(advice: &Advice) -> &'static str {
    match advice.setting() {
        Some(Setting::Login) => " (--store-password-file, TOLLGATE_STORE_PASSWORD)",
        Some(Setting::SentinelLogin) => {
            " (--store-sentinel-user, --store-sentinel-password-file, TOLLGATE_STORE_SENTINEL_PASSWORD)"
        }
        Some(Setting::Tls) => " (--store-ca)",
        Some(Setting::Deadline) => " (--store-timeout)",
        _ => "",
    }
}
