//! Changes of counters by administrators: refund, reset, set and record.

use http::{Request, StatusCode};
use hyper::body::Incoming;
use tollgate::{AnswerError, PolicyQuota, QuotaState, StoreError};
use tollgate_policy::{CheckError, MarkedCharge, MatchedPolicies, Outcome, PolicyLimit, QuotaChanges};

use super::asked_client::{AskedClient, expect_id};
use super::override_body::OverridesVersionText;
use super::wire::{
    CountsReply, GivenLimit, RecordBatchReply, RecordBatchRequest, RecordEntry, RecordRequest, RefundReply,
    RefundRequest, RefundedQuota, ResetRequest, SetRequest,
};
use super::{Edge, Reply, reply};
use crate::access::caller::{Caller, CallerAttributes};
use crate::answer::rejection::Rejection;
use crate::net::body;
use crate::net::budget::BATCH_ENTRY;
use crate::request::json::{self, Object};

impl Edge {
    pub(super) async fn refund(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let body = body::read(request, &self.budget).await?;
        let RefundRequest { attributes, policy, id, cost, version, windows } = json::read(&body)?;
        expect_id(policy.as_deref(), id)?;
        let client = self.asked_client(caller, attributes.as_ref(), policy.as_deref(), id)?;
        let fields: Vec<&str> = windows.iter().map(|Object(window)| window.time_field()).collect();
        let marked = windows.into_iter().enumerate().map(|(index, Object(window))| window.charge(index));
        let marked = marked.collect::<Result<Vec<MarkedCharge>, Rejection>>()?;
        let attributes = caller.asks(client.attributes(attributes)?);
        let refunded = self.engine()?.refund(&attributes, cost.units(), version.value(), &marked).await;
        let refunded = refunded.map_err(|error| client.refund_rejection(&error, &fields));
        client.log_change("refund", caller, &refunded);
        let refunded = refunded?;
        let quotas = refunded.iter().map(|(_, quota, one)| RefundedQuota::new(quota, one));
        let (version, quotas) = (refunded.policies().version(), quotas.collect());
        let overrides_version = OverridesVersionText::of(refunded.policies());
        Ok(reply::json(StatusCode::OK, &RefundReply { version, overrides_version, quotas }))
    }

    pub(super) async fn reset(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let body = body::read(request, &self.budget).await?;
        let ResetRequest { attributes, id, policy, quota } = json::read(&body)?;
        let client = self.asked_client(caller, attributes.as_ref(), policy.as_deref(), id)?;
        let meant = MeantLimits { policy, quota };
        let (attributes, policy) = (caller.asks(client.attributes(attributes)?), meant.policy.as_deref());
        let changed = self.engine()?.reset(&attributes, policy, |limit| meant.is(limit)).await;
        let counts = Self::counts(&client, &attributes, &meant, changed);
        client.log_change("reset", caller, &counts);
        counts
    }

    pub(super) async fn set(&self, caller: &Caller, request: Request<Incoming>) -> Result<Reply, Rejection> {
        let body = body::read(request, &self.budget).await?;
        let SetRequest { attributes, id, used, policy, quota } = json::read(&body)?;
        let client = self.asked_client(caller, attributes.as_ref(), policy.as_deref(), id)?;
        let meant = MeantLimits { policy, quota };
        let (attributes, policy) = (caller.asks(client.attributes(attributes)?), meant.policy.as_deref());
        let is_meant = |limit: PolicyLimit<'_>| meant.is(limit) && (limit.applies() || meant.quota.is_some());
        let changed = self.engine()?.set(&attributes, used.value(), policy, is_meant).await;
        let counts = Self::counts(&client, &attributes, &meant, changed);
        client.log_change("set", caller, &counts);
        counts
    }

    fn counts(
        client: &AskedClient,
        attributes: &CallerAttributes<'_>,
        meant: &MeantLimits,
        changed: Result<QuotaChanges<QuotaState>, CheckError>,
    ) -> Result<Reply, Rejection> {
        let changed = changed.map_err(|error| client.rejection(&error))?;
        if changed.iter().next().is_none() && changed.forgotten().next().is_none() {
            let set = changed.policies();
            let now = Some(set.overrides().now());
            let outcome = set.policies().charges_under(set.overrides(), now, attributes.as_attributes(), 0);
            let applied: Vec<(String, String)> = match &outcome {
                Ok(Outcome::Charge(matched)) => applied(matched),
                _ => Vec::new(),
            };
            meant.expect_any(&applied)?;
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
        let held = self.room_for_batch(version, requests.len(), BATCH_ENTRY)?;
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
        Ok(reply::batch(&RecordBatchReply { records: records.collect() }, held))
    }
}

/// Returns the limits that decide on a request, each with the name of its policy.
fn applied(matched: &MatchedPolicies<'_>) -> Vec<(String, String)> {
    let quotas = matched.enforced().map(|charge| {
        let quota = charge.counter().quota();
        (quota.policy().to_owned(), quota.quota().to_string())
    });
    let in_flight = matched.in_flight(0).map(|charge| {
        let limit = charge.in_flight();
        (limit.policy().to_owned(), limit.in_flight().to_string())
    });
    quotas.chain(in_flight).collect()
}

/// The limits that a change is about: by default, all that apply and, for a reset, those that an override replaces.
struct MeantLimits {
    policy: Option<Box<str>>,
    /// Its windows identify it; the limit may have changed.
    quota: Option<GivenLimit>,
}

impl MeantLimits {
    fn is(&self, limit: PolicyLimit<'_>) -> bool {
        let (policy, is_limit) = match limit {
            PolicyLimit::Quota(quota) | PolicyLimit::ReplacedQuota(quota) => {
                let is_windows = |meant: &GivenLimit| match meant {
                    GivenLimit::Quota(meant) => {
                        quota.shares_counters_with(&PolicyQuota::new(quota.policy(), meant.clone()))
                    }
                    GivenLimit::InFlight(_) => false,
                };
                (quota.policy(), self.quota.as_ref().is_none_or(is_windows))
            }
            PolicyLimit::InFlight(in_flight) | PolicyLimit::ReplacedInFlight(in_flight) => {
                let is_in_flight = |meant: &GivenLimit| matches!(meant, GivenLimit::InFlight(_));
                (in_flight.policy(), self.quota.as_ref().is_none_or(is_in_flight))
            }
        };
        self.policy.as_deref().is_none_or(|meant| meant == policy) && is_limit
    }

    /// Refuses a change that concerns none of these limits, if limits were named.
    fn expect_any(&self, applied: &[(String, String)]) -> Result<(), Rejection> {
        let has_policy = |policy: &str| applied.iter().any(|(other, _)| other == policy);
        let field = match (self.policy.as_deref(), &self.quota) {
            (None, None) => return Ok(()),
            (None, Some(_)) => "quota",
            (Some(policy), Some(_)) if has_policy(policy) => "quota",
            (Some(_), _) => "policy",
        };
        let detail = if applied.is_empty() {
            "nothing was changed: no such quota applies to the request".to_owned()
        } else {
            let each = applied.iter().map(|(policy, limit)| format!("{limit} of {policy}"));
            format!("nothing was changed: there are {}", each.collect::<Vec<_>>().join(", "))
        };
        Err(Rejection::conflict(field, detail))
    }
}
