//! A hold as the answer to its reservation has it.

use tollgate_policy::PolicyHold;

use super::rejection::Rejection;
use super::rejection_kind::RejectionKind;
use crate::decide::engine::DecisionEngine;
use crate::decide::hold_seal::{HoldSeal, NoSeal};

/// Seals a hold. `attributes` is the field that its keys come from. If that fails, nobody can name the hold, so it is
/// cancelled.
pub(crate) async fn sealed(
    engine: &DecisionEngine,
    seal: &HoldSeal,
    hold: &PolicyHold,
    attributes: &str,
) -> Result<String, Rejection> {
    let reason = match seal.seal(hold) {
        Ok(sealed) => return Ok(sealed),
        Err(reason) => reason,
    };
    engine.cancel(hold).await.map_err(|error| Rejection::store(&error))?;
    Err(match reason {
        NoSeal::Long => Rejection::bad_field(attributes, "the keys are too long for a hold"),
        NoSeal::NoRandom => {
            Rejection::new(RejectionKind::Unavailable, "the system has no random numbers to seal a hold with")
        }
    })
}
