//! What holds for all domains.

use std::sync::Arc;

use crate::NearLimit;

/// What holds for all domains.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// What a denied request consumes.
    pub charging: Charging,
    /// Whether no request is denied. The statuses still say which limits would have denied it, and the counters are
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
    /// The most bytes of a value that is part of a counter's key. Longer values are counted by a digest of theirs; each
    /// still has a counter of its own. By default, values of any length are.
    pub max_value_bytes: Option<usize>,
}

/// What a denied request consumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Charging {
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
