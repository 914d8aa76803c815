//! Changes of counters: refund and settle, also by callers with a receipt; reset, set and record by administrators.

use http::{Request, StatusCode};
use hyper::body::Incoming;
use tollgate::{AnswerError, Charge, PolicyQuota, QuotaState, Receipt, ReceiptItem, StoreError};
use tollgate_policy::{CheckError, MarkedCharge, Outcome, PolicyLimit, QuotaChanges};

use super::wire::{
    BatchRequest, CountsReply, ReceiptRequest, RecordBatchReply, RecordBatchRequest, RecordEntry,
    RecordRequest, RefundReply, RefundRequest, RefundedQuota, ResetRequest, SetRequest, SettleReply,
    SettleRequest, SettledQuota, WrittenQuota,
};
use super::{Edge, Reply, reply};
use crate::access::caller::{Caller, CallerAttributes, OtherPolicy};
use crate::answer::rejection::Rejection;
use crate::net::body;
use crate::request::json::{self, CostUnits, Object};

impl Edge {
    pub(super) async fn refund(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let body = body::read(request, &self.budget).await?;
        let RefundRequest { receipt, attributes, cost, policy, quota, version, windows } = json::read(&body)?;
        if let Some(receipt) = receipt {
            if attributes.is_some() || version.is_some() || windows.is_some() {
                let detail = "a receipt replaces `attributes`, `version` and `windows`: leave them out";
                return Err(Rejection::bad_field("receipt", detail));
            }
            return self.refund_by(caller, ReceiptRequest { receipt, cost, policy, quota }).await;
        }
        for (field, is_given) in [("policy", policy.is_some()), ("quota", quota.is_some())] {
            if is_given {
                let detail = format!("`{field}` narrows a receipt; `windows` names its quotas itself");
                return Err(Rejection::bad_field(field, detail));
            }
        }
        let missing =
            |field, hint| move || Rejection::bad_field(field, format!("missing field `{field}`{hint}"));
        let hint = ": `windows` and `version` are in the check's answer; or send its `receipt` instead";
        let attributes = attributes.ok_or_else(missing("attributes", ""))?;
        let windows = windows.ok_or_else(missing("windows", hint))?;
        let version = version.ok_or_else(missing("version", hint))?.value();
        let fields: Vec<&str> = windows.iter().map(|Object(window)| window.time_field()).collect();
        let marked = windows.into_iter().enumerate().map(|(index, Object(window))| window.charge(index));
        let marked = marked.collect::<Result<Vec<MarkedCharge>, Rejection>>()?;
        let refunded = self
            .engine()?
            .refund(&caller.asks(attributes), cost.unwrap_or_default().units(), version, &marked)
            .await;
        let refunded = refunded.map_err(|error| Rejection::refund(&error, &fields))?;
        let quotas = refunded.iter().map(|(_, quota, one)| RefundedQuota::new(quota, one));
        let (version, quotas) = (refunded.policies().version(), quotas.collect());
        Ok(reply::json(StatusCode::OK, &RefundReply { version, quotas, receipt: None }))
    }

    /// For callers without the scope `change`, which may only give back their own units.
    pub(super) async fn refund_receipt(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let body = body::read(request, &self.budget).await?;
        self.refund_by(caller, json::read(&body)?).await
    }

    async fn refund_by(&self, caller: &Caller, request: ReceiptRequest<'_>) -> Result<Reply, Rejection> {
        let ReceiptRequest { receipt, cost, policy, quota } = request;
        let mut others = self.opened(caller, &receipt)?;
        let (meant, cost) = (MeantQuotas { policy, quota }, cost.map(CostUnits::units));
        let mut receipt =
            others.take(|item| meant.is(item.quota()) && (cost.is_none() || item.cost().is_some()));
        if receipt.items().is_empty() {
            let quotas: Vec<&PolicyQuota> = others.items().iter().map(ReceiptItem::quota).collect();
            if meant.is_narrowed() && quotas.iter().any(|quota| meant.is(quota)) {
                let detail =
                    "nothing was given back: the policy fixes the cost; leave out `cost` to cancel it too";
                return Err(Rejection::conflict("cost", detail));
            }
            meant.expect_any("nothing was given back", "the receipt has", &quotas)?;
        }
        let refunded = self.engine()?.refund_receipt(&mut receipt, cost).await;
        let refunded = refunded.map_err(|error| Rejection::change(&error, "receipt"))?;
        let quotas = refunded.iter().map(|(quota, one)| RefundedQuota::new(quota, one)).collect();
        let receipt = self.asking.receipts.seal(&others.into_iter().chain(receipt).collect());
        let version = self.engine()?.live().version();
        Ok(reply::json(StatusCode::OK, &RefundReply { version, quotas, receipt }))
    }

    pub(super) async fn settle(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let body = body::read(request, &self.budget).await?;
        let SettleRequest { receipt, cost } = json::read(&body)?;
        let mut receipt = self.opened(caller, &receipt)?;
        let settled = self.engine()?.settle(&mut receipt, cost.units()).await;
        let settled = settled.map_err(|error| Rejection::change(&error, "receipt"))?;
        let quotas = settled.iter().map(|(quota, one)| SettledQuota::new(quota, one)).collect();
        let (version, receipt) = (self.engine()?.live().version(), self.asking.receipts.seal(&receipt));
        Ok(reply::json(StatusCode::OK, &SettleReply { version, quotas, receipt }))
    }

    /// Opens a receipt, if the caller may use all its policies.
    fn opened(&self, caller: &Caller, receipt: &str) -> Result<Receipt, Rejection> {
        let receipt = self.asking.receipts.open(receipt);
        let receipt = receipt.map_err(|error| Rejection::bad_field("receipt", error.to_string()))?;
        match receipt.items().iter().all(|item| caller.may_touch(item.quota().policy())) {
            true => Ok(receipt),
            false => Err(OtherPolicy.into()),
        }
    }

    pub(super) async fn reset(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let body = body::read(request, &self.budget).await?;
        let ResetRequest { attributes, policy, quota } = json::read(&body)?;
        let meant = MeantQuotas { policy, quota };
        let (attributes, policy) = (caller.asks(attributes), meant.policy.as_deref());
        let changed = self.engine()?.reset(&attributes, policy, |limit| meant.includes(limit)).await;
        self.counts(&attributes, &meant, changed)
    }

    pub(super) async fn set(&self, caller: &Caller, request: Request<Incoming>) -> Result<Reply, Rejection> {
        let body = body::read(request, &self.budget).await?;
        let SetRequest { attributes, used, policy, quota } = json::read(&body)?;
        let meant = MeantQuotas { policy, quota };
        let (attributes, policy) = (caller.asks(attributes), meant.policy.as_deref());
        let changed =
            self.engine()?.set(&attributes, used.value(), policy, |limit| meant.includes(limit)).await;
        self.counts(&attributes, &meant, changed)
    }

    fn counts(
        &self,
        attributes: &CallerAttributes<'_>,
        meant: &MeantQuotas,
        changed: Result<QuotaChanges<QuotaState>, CheckError>,
    ) -> Result<Reply, Rejection> {
        let changed = changed.map_err(|error| Rejection::change(&error, "attributes"))?;
        if changed.iter().next().is_none() {
            let outcome = changed.policies().policies().charges(attributes.as_attributes(), 0);
            let charges: Vec<Charge<'_>> = match &outcome {
                Ok(Outcome::Charge(matched)) => matched.enforced().collect(),
                _ => Vec::new(),
            };
            let quotas: Vec<&PolicyQuota> = charges.iter().map(|charge| charge.counter().quota()).collect();
            meant.expect_any("nothing was changed", "there are", &quotas)?;
        }
        Ok(reply::json(StatusCode::OK, &CountsReply::new(&changed)))
    }

    pub(super) async fn record(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let body = body::read(request, &self.budget).await?;
        let RecordRequest { attributes, cost } = json::read(&body)?;
        let recorded = self.engine()?.record_each(&[(caller.asks(attributes), cost.units())]).await.pop();
        let recorded = recorded.unwrap_or_else(|| Err(StoreError::from(AnswerError::Nonsense).into()));
        let recorded = recorded.map_err(|error| Rejection::change(&error, "attributes"))?;
        Ok(reply::json(StatusCode::OK, &CountsReply::new(&recorded)))
    }

    pub(super) async fn record_batch(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let version = request.version();
        let body = body::read(request, &self.budget).await?;
        let RecordBatchRequest { requests } = json::read(&body)?;
        BatchRequest::check_length(requests.len())?;
        let held = self.budget.for_batch(version, requests.len()).map_err(Rejection::no_room_for_answer)?;
        let asked = requests.into_iter();
        let asked: Vec<(CallerAttributes<'_>, u32)> =
            asked.map(|Object(request)| (caller.asks(request.attributes), request.cost.units())).collect();
        let recorded = self.engine()?.record_each(&asked).await;
        let records = recorded.iter().enumerate().map(|(index, recorded)| match recorded {
            Ok(recorded) => RecordEntry::Counts(CountsReply::new(recorded)),
            Err(error) => {
                RecordEntry::Rejection(Rejection::change(error, &format!("requests[{index}].attributes")))
            }
        });
        let mut reply = reply::json(StatusCode::OK, &RecordBatchReply { records: records.collect() });
        reply.held = held;
        Ok(reply)
    }
}

/// The quotas that a change is about; all that apply, by default.
struct MeantQuotas {
    policy: Option<Box<str>>,
    /// Its windows identify it; the limit may have changed.
    quota: Option<WrittenQuota>,
}

impl MeantQuotas {
    fn is(&self, quota: &PolicyQuota) -> bool {
        let is_windows = |WrittenQuota(meant): &WrittenQuota| {
            quota.shares_counters_with(&PolicyQuota::new(quota.policy(), meant.clone()))
        };
        self.policy.as_deref().is_none_or(|policy| policy == quota.policy())
            && self.quota.as_ref().is_none_or(is_windows)
    }

    fn includes(&self, limit: PolicyLimit<'_>) -> bool {
        match limit {
            PolicyLimit::Quota(quota) => self.is(quota),
            PolicyLimit::InFlight(in_flight) => {
                let is_policy = self.policy.as_deref().is_none_or(|policy| policy == in_flight.policy());
                is_policy && self.quota.is_none()
            }
        }
    }

    const fn is_narrowed(&self) -> bool {
        self.policy.is_some() || self.quota.is_some()
    }

    /// Refuses a change that concerns none of these quotas, if quotas were named.
    fn expect_any(&self, nothing: &str, there_are: &str, quotas: &[&PolicyQuota]) -> Result<(), Rejection> {
        let has_policy = |policy: &str| quotas.iter().any(|quota| quota.policy() == policy);
        let field = match (self.policy.as_deref(), &self.quota) {
            (None, None) => return Ok(()),
            (None, Some(_)) => "quota",
            (Some(policy), Some(_)) if has_policy(policy) => "quota",
            (Some(_), _) => "policy",
        };
        let detail = if quotas.is_empty() {
            format!("{nothing}: no such quota applies to the request")
        } else {
            let each = quotas.iter().map(|quota| format!("{} of {}", quota.quota(), quota.policy()));
            format!("{nothing}: {there_are} {}", each.collect::<Vec<_>>().join(", "))
        };
        Err(Rejection::conflict(field, detail))
    }
}
