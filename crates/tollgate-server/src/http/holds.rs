//! Holds: reserve, renew and settle, each alone and in batches.
//!
//! Whatever has become of a hold is an answer with the status 200, because its caller has to act on it: a renewal may say
//! `lost`, and a settlement `expired`. Only a request that is wrong itself is a problem, such as an id that belongs to
//! another hold.
//!
//! A batch asks for all its holds at once, so that a shared store gets them together.

use futures_util::future::join_all;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use tollgate::StoreError;
use tollgate_policy::{CheckError, PolicyDecision, PolicyHold, RenewAnswer, ReserveAnswer, SettleAnswer};

use super::wire::{
    HoldReply, RenewBatchReply, RenewBatchRequest, RenewEntry, RenewEntryRequest, RenewReply, RenewRequest,
    ReserveBatchReply, ReserveBatchRequest, ReserveEntry, ReserveEntryRequest, ReserveReply, ReserveRequest,
    SettleBatchReply, SettleBatchRequest, SettleEntry, SettleEntryRequest, SettleReply, SettleRequest,
    asked_hold,
};
use super::{Edge, Reply, reply};
use crate::access::caller::{Caller, OtherPolicy};
use crate::answer::rejection::Rejection;
use crate::answer::sealed_hold::sealed;
use crate::decide::hold_seal::HoldSeal;
use crate::net::body;
use crate::net::budget::BATCH_ENTRY;
use crate::request::json::{self, Object};

impl Edge {
    pub(super) async fn reserve(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let body = body::read(request, &self.budget).await?;
        let ReserveRequest { attributes, cost, units, expires_after, id, policy, quotas, on_store_failure } =
            json::read(&body)?;
        let limits = self.asking.limits(policy, quotas, on_store_failure)?;
        let asked = asked_hold(cost, units, expires_after, id);
        let answer = self.engine()?.reserve(limits, &caller.asks(attributes), asked, None).await;
        let (decision, hold) = self.reserved(answer, "attributes").await?;
        Ok(self.verdict(&decision, &ReserveReply::new(&decision, hold)))
    }

    pub(super) async fn reserve_batch(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let version = request.version();
        let body = body::read(request, &self.budget).await?;
        let ReserveBatchRequest { requests } = json::read(&body)?;
        // Most holds are much shorter than the longest.
        let held = self.room_for_batch(version, requests.len(), BATCH_ENTRY + HoldSeal::MAX)?;
        let engine = self.engine()?;
        let each = requests.into_iter().enumerate().map(async |(index, Object(request))| {
            let ReserveEntryRequest {
                attributes,
                cost,
                units,
                expires_after,
                id,
                policy,
                quotas,
                on_store_failure,
            } = request;
            let place = format!("requests[{index}]");
            let limits = self
                .asking
                .limits(policy, quotas, on_store_failure)
                .map_err(|rejection| rejection.within(&place))?;
            let asked = asked_hold(cost, units, expires_after, id);
            let answer = engine.reserve(limits, &caller.asks(attributes), asked, None).await;
            self.reserved(answer, &format!("{place}.attributes")).await
        });
        let decided: Vec<Result<_, Rejection>> = join_all(each).await;
        let (mut decisions, mut holds) = (Vec::new(), Vec::new());
        for result in decided {
            let (decision, hold) = match result {
                Ok((decision, hold)) => (Ok(decision), hold),
                Err(rejection) => (Err(rejection), None),
            };
            decisions.push(decision);
            holds.push(hold);
        }
        let entries = decisions.iter().zip(holds).map(|(decision, hold)| match decision {
            Ok(decision) => ReserveEntry::Decision(ReserveReply::new(decision, hold)),
            Err(rejection) => ReserveEntry::Rejection(rejection.clone()),
        });
        Ok(reply::batch(&ReserveBatchReply { decisions: entries.collect() }, held))
    }

    pub(super) async fn renew(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let body = body::read(request, &self.budget).await?;
        let RenewRequest { hold } = json::read(&body)?;
        let hold = self.opened(caller, &hold, "hold")?;
        let renewed = renewed(self.engine()?.renew(&hold).await)?;
        Ok(reply::json(StatusCode::OK, &renewed))
    }

    pub(super) async fn renew_batch(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let version = request.version();
        let body = body::read(request, &self.budget).await?;
        let RenewBatchRequest { requests } = json::read(&body)?;
        let held = self.room_for_batch(version, requests.len(), BATCH_ENTRY)?;
        let engine = self.engine()?;
        let each = requests.iter().enumerate().map(async |(index, Object(RenewEntryRequest { hold }))| {
            let hold = self.opened(caller, hold, &format!("requests[{index}].hold"))?;
            renewed(engine.renew(&hold).await)
        });
        let renewals = join_all(each).await.into_iter().map(|renewed| match renewed {
            Ok(renewed) => RenewEntry::Renewal(renewed),
            Err(rejection) => RenewEntry::Rejection(rejection),
        });
        Ok(reply::batch(&RenewBatchReply { renewals: renewals.collect() }, held))
    }

    pub(super) async fn settle(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let body = body::read(request, &self.budget).await?;
        let SettleRequest { hold, cost } = json::read(&body)?;
        let hold = self.opened(caller, &hold, "hold")?;
        let answer = settled(self.engine()?.settle(&hold, cost.units()).await)?;
        Ok(reply::json(StatusCode::OK, &SettleReply::new(&answer)?))
    }

    pub(super) async fn settle_batch(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let version = request.version();
        let body = body::read(request, &self.budget).await?;
        let SettleBatchRequest { requests } = json::read(&body)?;
        let held = self.room_for_batch(version, requests.len(), BATCH_ENTRY)?;
        let engine = self.engine()?;
        let each =
            requests.iter().enumerate().map(async |(index, Object(SettleEntryRequest { hold, cost }))| {
                let hold = self.opened(caller, hold, &format!("requests[{index}].hold"))?;
                settled(engine.settle(&hold, cost.units()).await)
            });
        let answers: Vec<Result<SettleAnswer, Rejection>> = join_all(each).await;
        let settlements = answers.iter().map(|answer| {
            match answer.as_ref().map_err(Rejection::clone).and_then(SettleReply::new) {
                Ok(settled) => SettleEntry::Settlement(settled),
                Err(rejection) => SettleEntry::Rejection(rejection),
            }
        });
        Ok(reply::batch(&SettleBatchReply { settlements: settlements.collect() }, held))
    }

    /// Seals the hold of a reservation. `attributes` is the field that its attributes come from.
    async fn reserved(
        &self,
        answer: Result<ReserveAnswer, CheckError>,
        attributes: &str,
    ) -> Result<(PolicyDecision, Option<HoldReply>), Rejection> {
        let (decision, hold, repeated) = match answer {
            Ok(ReserveAnswer::Decided { decision, hold, is_repeated }) => (decision, hold, is_repeated),
            Ok(ReserveAnswer::Conflict) => return Err(Rejection::id_conflict("id")),
            Ok(ReserveAnswer::Ended) => return Err(Rejection::hold_ended("id")),
            Err(error) => return Err(Rejection::check(&error, attributes)),
        };
        let Some(hold) = hold else { return Ok((decision, None)) };
        let sealed = sealed(self.engine()?, &self.asking.hold_seal, &hold, attributes).await?;
        let (id, expires_after_ms) = (hold.id().to_string(), hold.length().millis());
        Ok((decision, Some(HoldReply { hold: sealed, id, expires_after_ms, repeated })))
    }

    /// Opens a hold, if the caller may use all its policies.
    fn opened(&self, caller: &Caller, hold: &str, field: &str) -> Result<PolicyHold, Rejection> {
        let hold = self.asking.hold_seal.open(hold);
        let hold = hold.map_err(|error| Rejection::bad_field(field, error.to_string()))?;
        let mut policies = hold.policies();
        match policies.all(|policy| caller.may_touch(policy)) {
            true => {
                drop(policies);
                Ok(hold)
            }
            false => Err(OtherPolicy.into()),
        }
    }
}

fn renewed(answer: Result<RenewAnswer, StoreError>) -> Result<RenewReply, Rejection> {
    RenewReply::new(answer.map_err(|error| Rejection::store(&error))?)
}

fn settled(answer: Result<SettleAnswer, StoreError>) -> Result<SettleAnswer, Rejection> {
    answer.map_err(|error| Rejection::store(&error))
}
