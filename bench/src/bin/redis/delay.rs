//! A store that is far away: a proxy delays its replies.

use std::time::Duration;

use anyhow::Result;
use tollgate::Quota;
use tollgate_testkit::servers::{ByteDirection, FaultProxy};

use crate::askers::{NEVER_REACHED, Ours};
use crate::cases::Side;
use crate::store::Store;

/// How much longer a round trip takes.
pub(crate) const DELAY: Duration = Duration::from_millis(2);

/// Enough for 500,000 decisions a second: a thousand are in flight for the length of the delay, and some more wait for
/// their turn.
pub(crate) const CALLERS: usize = 4_096;

/// Both sides reach the store through the same proxy, so that it costs both the same.
pub(crate) struct Far {
    pub(crate) ours: Ours,
    proxy: FaultProxy,
}

impl Far {
    /// # Panics
    ///
    /// If called outside of a Tokio runtime.
    pub(crate) fn new(store: &Store) -> Result<Self> {
        let proxy = FaultProxy::before(store.address());
        let ours = Ours::over(store.builder_at(proxy.address())?, Quota::per_hour(NEVER_REACHED))?;
        Ok(Self { ours, proxy })
    }

    /// Delays replies from now on if it is our turn.
    pub(crate) fn turn(&self, side: Side) -> &Self {
        self.proxy.delay(ByteDirection::Reply, if side == Side::Ours { DELAY } else { Duration::ZERO });
        self
    }
}
