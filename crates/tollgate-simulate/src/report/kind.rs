//! What a quota of another kind denies.

use serde::Serialize;

/// The denials of another kind of quota, with the same limit and length. Each request was decided under it, with all
/// other quotas unchanged. A replay with that quota in the file comes to the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct TriedKind {
    /// Written as in a file.
    pub quota: String,
    /// Requests that it denies.
    pub denied: u64,
    /// Clients with a request that it denies.
    pub denied_clients: u64,
    /// Requests that all policies together deny if only this quota is of another kind. `None` for trials, which deny
    /// nothing.
    pub total_denied: Option<u64>,
    /// Clients with such a request. `None` for trials, and if it is not known.
    pub total_denied_clients: Option<u64>,
}
