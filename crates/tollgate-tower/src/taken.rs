//! What a request has taken and may give back.

use std::sync::Arc;

use tollgate::{Decision, Key, StoreError};

use crate::engine::Engine;
#[cfg(feature = "policy")]
use crate::policies::PolicyEngine;

/// Units that were taken, and from where.
pub(crate) enum Taken {
    ByKey {
        engine: Arc<dyn Engine>,
        key: Key<'static>,
        units: u32,
        decision: Decision,
    },
    #[cfg(feature = "policy")]
    ByPolicies {
        engine: Arc<dyn PolicyEngine>,
        reservation: tollgate_policy::Reservation,
        units: u32,
    },
}

impl Taken {
    /// What this answer took; `None` if that was nothing.
    pub(crate) fn by_key(
        engine: &Arc<dyn Engine>,
        key: Key<'static>,
        units: u32,
        answer: &Result<Decision, StoreError>,
    ) -> Option<Box<Self>> {
        let decision = answer.as_ref().ok().filter(|decision| decision.is_allowed())?.clone();
        Some(Box::new(Self::ByKey { engine: Arc::clone(engine), key, units, decision }))
    }

    pub(crate) const fn units(&self) -> u32 {
        match self {
            Self::ByKey { units, .. } => *units,
            #[cfg(feature = "policy")]
            Self::ByPolicies { units, .. } => *units,
        }
    }

    /// Gives everything back, to the windows that were charged.
    pub(crate) async fn cancel(&self) -> Result<(), StoreError> {
        match self {
            Self::ByKey { engine, key, units, decision } => {
                engine.refund(key, *units, decision).await.map(drop)
            }
            #[cfg(feature = "policy")]
            Self::ByPolicies { engine, reservation, .. } => engine.cancel(reservation).await,
        }
    }

    /// Gives back what was not needed, or charges without asking what was needed beyond it.
    pub(crate) async fn commit(&self, actual: u32) -> Result<(), StoreError> {
        match self {
            Self::ByKey { engine, key, units, decision } => match units.checked_sub(actual) {
                Some(0) => Ok(()),
                Some(unused) => engine.refund(key, unused, decision).await.map(drop),
                None => engine.record(key, actual - units).await.map(drop),
            },
            #[cfg(feature = "policy")]
            Self::ByPolicies { engine, reservation, .. } => engine.commit(reservation, actual).await,
        }
    }
}
