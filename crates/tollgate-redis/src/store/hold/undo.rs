//! What undoes the parts of a hold that another slot denied.
//!
//! Each attempt to reserve a hold has a number, which the records keep. A repetition of the same hold, which may run at
//! the same time, leaves its own. Only the last attempt can undo a part, so an undo never takes away what a later
//! attempt relies on, and it can be repeated until it is answered.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{HoldAdjustment, HoldStates, QuotaState};

use super::named::HoldOrder;
use super::parts::{HoldPart, HoldParts, OwnedHold};
use crate::backoff::Backoff;
use crate::script::HoldName;
use crate::store::StoreInner;
use crate::store::across::KeptCharges;
use crate::store::each::all;
use crate::time::{CallTime, instant};

/// How long an undo is tried, as other units are that are [given back](crate::store::across).
const PATIENCE: Duration = Duration::from_secs(5);

/// What undoing does to each charge of a part that was taken.
pub(super) fn adjustments_of(
    kept: KeptCharges,
    part: &HoldPart<'_>,
    taken: &HoldStates,
) -> Vec<HoldAdjustment> {
    let adjustment = |(place, state): (usize, &QuotaState)| {
        if kept == KeptCharges::Overdrafts && part.is_overdraft(place) {
            HoldAdjustment::Keep
        } else {
            HoldAdjustment::GiveBack { units: state.units(), mark: state.mark() }
        }
    };
    taken.charged().iter().enumerate().map(adjustment).collect()
}

/// Undoes the first parts of a hold, one for each list of adjustments, but not those without a list. Returns whether
/// all are undone.
pub(super) async fn undo(
    inner: Arc<StoreInner>,
    hold: Arc<OwnedHold>,
    name: HoldName,
    adjustments: Vec<Option<Vec<HoldAdjustment>>>,
) -> bool {
    let (in_flight, charges) = hold.charges();
    let Ok(parts) = HoldParts::new(&hold.terms(&in_flight, &charges), &inner.names) else { return false };
    let inner = &inner;
    let undone = parts.iter().zip(&adjustments).filter_map(|(part, own)| Some((part, own.as_ref()?)));
    let each = undone.map(async |(part, adjustments)| {
        let (mut backoff, patience) = (Backoff::default(), instant() + PATIENCE);
        loop {
            backoff.wait().await;
            let (terms, order) = (parts.terms(part), HoldOrder::Undo(adjustments));
            match inner.settle_in_slot(terms, name, order, CallTime::begins(None)).await {
                Ok(_) => return true,
                Err(_) if instant() >= patience => return false,
                Err(_) => {}
            }
        }
    });
    all(each).await.into_iter().all(|is_undone| is_undone)
}
