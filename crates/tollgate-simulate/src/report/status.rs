//! The answers that requests had when the log was written.

use serde::Serialize;

/// Requests that were answered with one status when the log was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StatusReport {
    /// The status code; `None` for requests of which the log has none.
    pub status: Option<u16>,
    /// Requests with it.
    pub requests: u64,
    /// Those that are denied now.
    pub denied: u64,
}

/// Requests that a policy denies, and that were answered with one status when the log was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DeniedStatus {
    /// The status code; `None` for requests of which the log has none.
    pub status: Option<u16>,
    /// Requests with it that the policy denies.
    pub denied: u64,
}
