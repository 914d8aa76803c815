//! Denied requests without a client.

/// Denied requests of which no client is counted, or perhaps none: they lack the key, or only some clients are
/// followed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Clientless {
    pub(crate) denied: u64,
    pub(crate) newly_denied: u64,
}
