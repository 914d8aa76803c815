//! What all connections share.

use std::sync::Arc;

use crate::metrics::Metrics;
use crate::net::budget::Budget;
use crate::net::drain::Phase;

/// What the connections of all listeners share. Clones share it as well.
#[derive(Clone)]
pub(crate) struct Resources {
    pub(crate) phase: Phase,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) budget: Budget,
}
