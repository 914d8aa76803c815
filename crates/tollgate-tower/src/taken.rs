//! What a request has taken and may give back.

#[cfg(feature = "policy")]
use std::sync::Arc;

use tollgate::{AnyStore, Counted, Decision, Key, Receipt, SharedLimiter, StoreError};

#[cfg(feature = "policy")]
use crate::policies::PolicyEngine;

/// Units that were taken, and from where.
pub(crate) enum Taken {
    ByKey {
        limiter: SharedLimiter<AnyStore>,
        key: Key<'static>,
        units: u32,
        /// Empty where nothing was taken from the store: of cost 0, and where something stood in for it.
        receipt: Receipt,
    },
    #[cfg(feature = "policy")]
    ByPolicies { engine: Arc<dyn PolicyEngine>, reservation: tollgate_policy::Reservation },
}

impl Taken {
    /// What a request took that was admitted so.
    pub(crate) fn by_key(
        limiter: &SharedLimiter<AnyStore>,
        key: Key<'static>,
        units: u32,
        counted: &Counted,
    ) -> Self {
        let decision = Decision::new(limiter.quotas(), key.clone(), counted.clone());
        let receipt = decision.map_or_else(Receipt::default, Decision::into_receipt);
        Self::ByKey { limiter: limiter.clone(), key, units, receipt }
    }

    /// The same by policies.
    #[cfg(feature = "policy")]
    pub(crate) fn by_policies(
        engine: &Arc<dyn PolicyEngine>,
        reservation: tollgate_policy::Reservation,
    ) -> Self {
        Self::ByPolicies { engine: Arc::clone(engine), reservation }
    }

    /// The most units that a quota was charged with.
    pub(crate) fn units(&self) -> u32 {
        match self {
            Self::ByKey { units, .. } => *units,
            #[cfg(feature = "policy")]
            Self::ByPolicies { reservation, .. } => reservation.units(),
        }
    }

    /// Gives everything back, to the windows that were charged.
    pub(crate) async fn cancel(self) -> Result<(), StoreError> {
        match self {
            Self::ByKey { limiter, mut receipt, .. } => limiter.refund(&mut receipt).await.map(drop),
            #[cfg(feature = "policy")]
            Self::ByPolicies { engine, reservation, .. } => engine.cancel(reservation).await,
        }
    }

    /// Gives back what was not needed, or charges without asking what was needed beyond it.
    pub(crate) async fn commit(self, actual: u32) -> Result<(), StoreError> {
        match self {
            Self::ByKey { limiter, key, units, receipt } if receipt.is_empty() => {
                match actual.checked_sub(units) {
                    None | Some(0) => Ok(()),
                    Some(missing) => limiter.record(key, missing).await.map(drop),
                }
            }
            Self::ByKey { limiter, mut receipt, .. } => limiter.settle(&mut receipt, actual).await.map(drop),
            #[cfg(feature = "policy")]
            Self::ByPolicies { engine, reservation, .. } => engine.commit(reservation, actual).await,
        }
    }
}
