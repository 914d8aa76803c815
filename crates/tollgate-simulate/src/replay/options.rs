//! What a replay is told.

use std::num::NonZeroUsize;

use jiff::tz::TimeZone;
use tollgate_policy::Identity;

use crate::class::Classes;

/// The default of `tollgate serve`.
pub(super) const MAX_ATTRIBUTE_BYTES: NonZeroUsize = NonZeroUsize::new(1_024).expect("it is not 0");

/// What a replay is told besides the policies.
#[derive(Debug)]
pub struct Options {
    /// Who counts as one client in all figures that are not of one policy.
    pub client: Identity,
    /// How many clients are followed, for each kind of key. Where there are more, only some are, and figures about
    /// clients are estimates.
    pub max_clients: NonZeroUsize,
    /// Most bytes in the value of an attribute that policies go by. Requests with longer ones cannot be decided on: the
    /// service answers them as errors.
    pub max_attribute_bytes: NonZeroUsize,
    /// The zone of hours and days.
    pub zone: TimeZone,
    /// How many other limits the engine tries for each quota whose curve cannot be calculated.
    pub rungs: usize,
    /// How many clients are listed.
    pub listed_clients: usize,
    /// The classes of clients.
    pub classes: Classes,
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
        }
    }
}
