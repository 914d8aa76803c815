//! What an administrator changes: refund, reset, set. Quotas are changed one after another.

use http::{Request, StatusCode};
use hyper::body::Incoming;
use tollgate::QuotaState;
use tollgate_policy::{Changed, ChargedWindow, CheckError};

use super::json::Object;
use super::rejection::Rejection;
use super::wire::{
    CountsReply, QuotaCount, RefundReply, RefundRequest, RefundedQuota, ResetRequest, SetRequest,
};
use super::{Edge, Reply, body, json, reply};
use crate::caller::Caller;
use crate::store::ServedStore;

impl<S: ServedStore> Edge<S> {
    pub(super) async fn refund(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let body = body::read(request, &self.budget).await?;
        let RefundRequest { attributes, cost, windows } = json::read(&body)?;
        let windows: Vec<ChargedWindow> = windows.into_iter().map(|Object(window)| window.into()).collect();
        let refunded = self.engine.refund(&caller.asks(attributes), cost.units(), &windows).await;
        let refunded = refunded.map_err(|error| Rejection::refund(&error))?;
        let quotas = refunded.iter().map(|(policy, quota, one)| RefundedQuota::new(policy, quota, one));
        let (version, quotas) = (refunded.policies().version(), quotas.collect());
        Ok(reply::json(StatusCode::OK, &RefundReply { version, quotas }))
    }

    pub(super) async fn reset(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let body = body::read(request, &self.budget).await?;
        let ResetRequest { attributes } = json::read(&body)?;
        counts(self.engine.reset(&caller.asks(attributes)).await)
    }

    pub(super) async fn set(&self, caller: &Caller, request: Request<Incoming>) -> Result<Reply, Rejection> {
        let body = body::read(request, &self.budget).await?;
        let SetRequest { attributes, used } = json::read(&body)?;
        counts(self.engine.set(&caller.asks(attributes), used.value()).await)
    }
}

fn counts(changed: Result<Changed<QuotaState>, CheckError>) -> Result<Reply, Rejection> {
    let changed = changed.map_err(|error| Rejection::check(&error, "attributes"))?;
    let quotas = changed.iter().map(|(policy, quota, state)| QuotaCount::new(policy, quota, state));
    let (version, quotas) = (changed.policies().version(), quotas.collect());
    Ok(reply::json(StatusCode::OK, &CountsReply { version, quotas }))
}
