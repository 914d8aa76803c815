//! What another limit would have done to the requests of a policy that are sampled.
//!
//! `question` is what is asked, `estimate` the answer. `traffic` has the requests by key. If all cost one unit and the quota has fixed windows, `calculated` finds what every
//! limit denies, as `tollgate simulate` does; otherwise `replayed` decides on each request under each limit. `band` says
//! how far a share may be off because only some keys are sampled, and `doubts` what else keeps a figure from being exact.

mod band;
mod calculated;
mod doubts;
mod estimate;
mod question;
mod replayed;
mod time_limit;
mod traffic;

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) use self::estimate::Estimate;
pub(crate) use self::question::{Circumstances, WhatIfQuestion};

/// Lets one estimate be made at a time, so that people who look cannot take the processor from checks.
#[derive(Debug, Clone)]
pub(crate) struct WhatIf(Arc<Semaphore>);

impl WhatIf {
    /// Returns the right to make an estimate; `None` while another one is made.
    pub(crate) fn begin(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0).try_acquire_owned().ok()
    }
}

impl Default for WhatIf {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(1)))
    }
}

#[cfg(test)]
mod tests;
