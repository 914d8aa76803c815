//! What a replay is told.

use std::num::NonZeroUsize;

use jiff::tz::TimeZone;
use tollgate_policy::Identity;

use crate::class::Classes;
use crate::hit::MAX_ATTRIBUTE_BYTES;

/// The options of a replay.
#[derive(Debug)]
pub struct Options {
    /// The key that identifies clients in all figures that are not for one policy.
    pub client: Identity,
    /// The maximum number of clients to follow, for each kind of key. If there are more, only a sample is followed, and
    /// figures about clients are estimates.
    pub max_clients: NonZeroUsize,
    /// The maximum length of an attribute's value, in bytes. Requests with longer ones cannot be decided: the service
    /// answers them with errors.
    pub max_attribute_bytes: NonZeroUsize,
    /// The zone of hours and days.
    pub zone: TimeZone,
    /// The number of other limits that are tried for each quota whose curve cannot be calculated.
    pub rungs: usize,
    /// The number of clients to list.
    pub listed_clients: usize,
    /// The classes of clients.
    pub classes: Classes,
    /// Whether routes and the busiest clients are reported, which needs no policy.
    pub routes: bool,
}

impl Default for Options {
    /// Clients are addresses (of IPv6, networks of /64), two million of them are followed, values of
    /// attributes have at most 1,024 bytes, and hours are those of UTC.
    fn default() -> Self {
        Self {
            client: Identity::Address("ip".into(), tollgate_policy::Grouping::default()),
            max_clients: NonZeroUsize::new(2_000_000).unwrap_or(NonZeroUsize::MIN),
            max_attribute_bytes: MAX_ATTRIBUTE_BYTES,
            zone: TimeZone::UTC,
            rungs: 8,
            listed_clients: 20,
            classes: Classes::default(),
            routes: false,
        }
    }
}
