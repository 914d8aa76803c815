//! The settings of all domains.

use std::sync::Arc;

use crate::NearLimit;

/// The settings of all domains.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// The consumption of a denied request.
    pub charging: ChargingMode,
    /// Whether no request is denied. The statuses still show which limits would have denied it, and the counters are
    /// those of a denied request.
    pub shadow_mode: bool,
    /// Whether every limit has `quota_mode`: a request is denied only if all its limits deny it.
    pub quota_mode: bool,
    /// The headers for clients, if there are any.
    pub headers: Option<HeaderNames>,
    /// Whether answers have dynamic metadata.
    pub dynamic_metadata: bool,
    /// Whether the [hits](crate::EnvoyLimiter::hits) of each limit are counted, and from where on they are near it.
    pub hits: Option<NearLimit>,
    /// The maximum length of a value in a counter's key, in bytes. Longer values are counted by their digest; each
    /// still has its own counter. By default, values of any length are.
    pub max_value_bytes: Option<usize>,
}

/// The consumption of a denied request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ChargingMode {
    /// Nothing: if one limit denies, none is charged.
    #[default]
    AllOrNothing,
    /// Each limit is charged separately, even if it denies, and even by a cost above the limit.
    Each,
}

/// The names of the headers for clients.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderNames {
    /// The limit.
    pub limit: Arc<str>,
    /// The units left.
    pub remaining: Arc<str>,
    /// The seconds until the window ends.
    pub reset: Arc<str>,
}

/// The names that envoyproxy/ratelimit has without other settings.
impl Default for HeaderNames {
    fn default() -> Self {
        Self {
            limit: "RateLimit-Limit".into(),
            remaining: "RateLimit-Remaining".into(),
            reset: "RateLimit-Reset".into(),
        }
    }
}
