//! What an administrator changes: refund, reset, set. Quotas are changed one after another.

use http::{Request, StatusCode};
use hyper::body::Incoming;
use tollgate::{PerQuota, QuotaState, Timestamp};

use super::json::StartMillis;
use super::problem::Problem;
use super::wire::{
    CountsReply, QuotaCount, RefundReply, RefundRequest, RefundedQuota, ResetRequest, SetRequest,
};
use super::{Edge, Reply, body, json, reply};
use crate::store::ServedStore;

impl<S: ServedStore> Edge<S> {
    pub(super) async fn refund(&self, request: Request<Incoming>) -> Result<Reply, Problem> {
        let body = body::read(request).await?;
        let RefundRequest { attributes, cost, windows } = json::read(&body)?;
        let texts = self.engine.policy().texts();
        if windows.len() != texts.len() {
            let detail = format!("expected the window start of each of the quotas {}", texts.join(", "));
            return Err(Problem::bad_field("windows", detail));
        }
        let starts: Vec<Timestamp> = windows.into_iter().map(start).collect();
        let refunded = self.engine.refund(&attributes, cost.units(), &starts).await;
        let refunded = refunded.map_err(|refusal| Problem::refused(&refusal, "attributes"))?;
        let quotas = texts.iter().zip(&refunded).map(|(text, one)| RefundedQuota::new(text, *one)).collect();
        Ok(reply::json(StatusCode::OK, &RefundReply { quotas }))
    }

    pub(super) async fn reset(&self, request: Request<Incoming>) -> Result<Reply, Problem> {
        let body = body::read(request).await?;
        let ResetRequest { attributes } = json::read(&body)?;
        let counts = self.engine.reset(&attributes).await;
        Ok(self.counts(&counts.map_err(|refusal| Problem::refused(&refusal, "attributes"))?))
    }

    pub(super) async fn set(&self, request: Request<Incoming>) -> Result<Reply, Problem> {
        let body = body::read(request).await?;
        let SetRequest { attributes, used } = json::read(&body)?;
        let counts = self.engine.set(&attributes, used.value()).await;
        Ok(self.counts(&counts.map_err(|refusal| Problem::refused(&refusal, "attributes"))?))
    }

    fn counts(&self, states: &PerQuota<QuotaState>) -> Reply {
        let texts = self.engine.policy().texts();
        let quotas = texts.iter().zip(states).map(|(text, state)| QuotaCount::new(text, state)).collect();
        reply::json(StatusCode::OK, &CountsReply { quotas })
    }
}

fn start(millis: StartMillis) -> Timestamp {
    Timestamp::from_unix_millis(i64::try_from(millis.value()).unwrap_or(i64::MAX))
}
