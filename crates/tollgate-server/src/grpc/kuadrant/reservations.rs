//! Reservations: an estimate is charged, and replaced by the actual cost.
//!
//! The protocol has no place for an id that the caller makes, so the service makes it. The id of a reservation is its
//! sealed hold, so any process that has the secret can commit it.

use std::time::{Duration, Instant};

use tollgate::{AnswerError, HoldId, HoldLength};
use tollgate_envoy::{Code, InvalidRequest};
use tollgate_policy::{AskedHold, ReserveAnswer, SettleAnswer};

use super::place;
use crate::access::caller::{Caller, OtherPolicy};
use crate::answer::rejection::Rejection;
use crate::answer::sealed_hold::sealed;
use crate::grpc::Service;
use crate::grpc::messages::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use crate::grpc::messages::envoy::service::ratelimit::v3::RateLimitRequest;
use crate::grpc::messages::kuadrant::service::ratelimit::v1::{
    CommitRequest, CommitResponse, ReserveRequest, ReserveResponse,
};
use crate::grpc::rate_limit::invalid;

impl Service {
    /// Charges the estimate and takes a unit of each limit in flight, all or nothing. The caller waits until this time at
    /// most, if it has said so.
    pub(in crate::grpc) async fn reserve(
        &self,
        caller: &Caller,
        request: &ReserveRequest,
        caller_until: Option<Instant>,
    ) -> Result<ReserveResponse, Rejection> {
        let engine = self.policies()?;
        let ReserveRequest { domain, descriptors, amount, ttl } = request;
        InvalidRequest::check(domain, descriptors.len()).map_err(invalid)?;
        let [descriptor] = descriptors.as_slice() else {
            return Err(Rejection::bad_field("descriptors", "a reservation has exactly one descriptor"));
        };
        check_hits(0, descriptor)?;
        let (attributes, _, limits) = self.asked(caller, domain, descriptor, 1, 0)?;
        let id = HoldId::random();
        let asked =
            AskedHold { cost: units("amount", *amount)?, length: length(*ttl)?, ..AskedHold::new(id, 0) };
        let answer = engine.reserve(limits, &attributes, asked, caller_until).await;
        let (decision, hold) = match answer.map_err(|error| Rejection::check(&error, &place(0)))? {
            ReserveAnswer::Decided { decision, hold, .. } => (decision, hold),
            // Nobody else has this id.
            ReserveAnswer::Conflict | ReserveAnswer::Ended => {
                return Err(Rejection::store(&AnswerError::Nonsense.into()));
            }
        };
        if !decision.is_allowed() {
            let code = Code::OverLimit.number();
            return Ok(ReserveResponse { code, reservation_id: String::new() });
        }
        let reservation_id = match hold {
            Some(hold) => sealed(engine, &self.hold_seal, &hold, &place(0)).await?,
            None => String::new(),
        };
        Ok(ReserveResponse { code: Code::Ok.number(), reservation_id })
    }

    /// Replaces the estimate by the actual cost. If the reservation has expired, what the cost exceeds the estimate by is
    /// charged. Without a reservation, all of it is.
    pub(in crate::grpc) async fn commit(
        &self,
        caller: &Caller,
        request: &CommitRequest,
    ) -> Result<CommitResponse, Rejection> {
        const FIELD: &str = "reservation_id";
        let engine = self.policies()?;
        let cost = units("actual_amount", request.actual_amount)?;
        if request.reservation_id.is_empty() {
            return self.commit_unreserved(caller, request, cost).await;
        }
        let hold = self.hold_seal.open(&request.reservation_id);
        let hold = hold.map_err(|error| Rejection::bad_field(FIELD, error.to_string()))?;
        if !hold.policies().all(|policy| caller.may_touch(policy)) {
            return Err(OtherPolicy.into());
        }
        let store = |error| Rejection::store(&error);
        let reservation_released = match engine.settle(&hold, cost).await.map_err(store)? {
            SettleAnswer::Settled(_) => true,
            SettleAnswer::Expired => {
                engine.record_overrun(&hold, cost).await.map_err(store)?;
                false
            }
            SettleAnswer::Gone => false,
            SettleAnswer::Conflict => return Err(Rejection::id_conflict(FIELD)),
        };
        Ok(CommitResponse { reservation_released })
    }

    /// Charges the cost of a request that no limit applied to when it was reserved, or that was never reserved.
    async fn commit_unreserved(
        &self,
        caller: &Caller,
        request: &CommitRequest,
        cost: u32,
    ) -> Result<CommitResponse, Rejection> {
        let mut descriptors = request.descriptors.iter().enumerate();
        descriptors.try_for_each(|(index, descriptor)| check_hits(index, descriptor))?;
        if cost > 0 {
            let (domain, descriptors) = (request.domain.clone(), request.descriptors.clone());
            let report = RateLimitRequest { domain, descriptors, hits_addend: cost };
            self.record_rate_limit(caller, &report).await?;
        }
        Ok(CommitResponse { reservation_released: false })
    }
}

/// Checks that the descriptor has no units of its own, because the call has them.
fn check_hits(index: usize, descriptor: &RateLimitDescriptor) -> Result<(), Rejection> {
    match descriptor.hits_addend {
        None => Ok(()),
        Some(_) => {
            let detail = "the units of a reservation are not in its descriptor";
            Err(Rejection::bad_field(format!("{}.hits_addend", place(index)), detail))
        }
    }
}

fn units(field: &str, amount: u64) -> Result<u32, Rejection> {
    let too_many = |_| Rejection::bad_field(field, format!("more than {} units", u32::MAX));
    u32::try_from(amount).map_err(too_many)
}

/// Returns how long a reservation lives: a minute by default, an hour at most, in whole milliseconds, rounded up.
fn length(ttl: Option<prost_types::Duration>) -> Result<HoldLength, Rejection> {
    let Some(ttl) = ttl else { return Ok(HoldLength::default()) };
    let wrong = || Rejection::bad_field("ttl", "expected a time above 0");
    let ttl = Duration::try_from(ttl).map_err(|_| wrong())?.min(HoldLength::MAX.duration());
    let millis = ttl.as_nanos().div_ceil(1_000_000);
    let millis = u64::try_from(millis).map_err(|_| wrong())?;
    HoldLength::new(Duration::from_millis(millis)).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_to_live_is_bounded_and_never_shorter_than_asked() {
        let millis = |seconds, nanos| {
            length(Some(prost_types::Duration { seconds, nanos })).map(HoldLength::millis).ok()
        };
        assert_eq!(length(None).map(HoldLength::millis).ok(), Some(60_000));
        assert_eq!([millis(0, 1), millis(2, 500_000_001)], [Some(1), Some(2_501)]);
        assert_eq!([millis(3_601, 0), millis(i64::MAX, 0)], [Some(3_600_000); 2]);
        assert_eq!([millis(0, 0), millis(-1, 0), millis(0, -1)], [None; 3]);
    }
}
