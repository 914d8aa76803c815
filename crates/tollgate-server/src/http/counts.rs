//! Counts under limits of the caller's own, for adapters of other libraries.

use http::{Request, StatusCode};
use hyper::body::Incoming;
use tollgate::{AnswerError, OnStoreFailure, Quota, QuotaKind, StoreError};
use tollgate_policy::{CountOperation, CountTerms, Policy, PolicyError};

use super::wire::{
    BlockLength, CountBatchReply, CountBatchRequest, CountEntry, CountEntryRequest, CountForm, CountReply,
    CountRequest, GivenLimit, OperationName, OutageAnswer, expect_caller_quotas,
};
use super::{Edge, Reply, reply};
use crate::access::caller::{Caller, CallerAttributes, OtherPolicy};
use crate::answer::rejection::Rejection;
use crate::net::body;
use crate::net::budget::BATCH_ENTRY;
use crate::request::json::{self, CostUnits, Object};

/// A valid count.
struct ReadCount<'a> {
    attributes: CallerAttributes<'a>,
    terms: CountTerms,
    form: CountForm,
}

impl Edge {
    pub(super) async fn count(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let body = body::read(request, &self.budget).await?;
        let asked = self.read_count(caller, json::read::<CountRequest<'_>>(&body)?.into())?;
        let ReadCount { attributes, terms, form } = &asked;
        let counted = self.engine()?.count_each(vec![(attributes, terms.clone())]).await.pop();
        let counted = counted.unwrap_or_else(|| Err(StoreError::from(AnswerError::Nonsense).into()));
        let counted = counted.map_err(|error| Rejection::change(&error, "attributes"))?;
        let answer = CountReply::new(&counted, terms, *form).ok_or_else(nonsense)?;
        Ok(reply::json(StatusCode::OK, &answer))
    }

    pub(super) async fn count_batch(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let version = request.version();
        let body = body::read(request, &self.budget).await?;
        let CountBatchRequest { requests } = json::read(&body)?;
        let held = self.room_for_batch(version, requests.len(), BATCH_ENTRY)?;
        let asked = requests.into_iter().map(|Object(request)| self.read_count(caller, request));
        let asked: Vec<Result<ReadCount<'_>, Rejection>> = asked.collect();
        let counts = asked.iter().flatten().map(|count| (&count.attributes, count.terms.clone()));
        let counted = self.engine()?.count_each(counts.collect()).await;
        let mut counted = counted.iter();
        let entries = asked.iter().enumerate().map(|(index, asked)| {
            let place = format!("requests[{index}]");
            let answer = match asked {
                Err(rejection) => Err(rejection.clone().within(&place)),
                Ok(ReadCount { terms, form, .. }) => match counted.next() {
                    Some(Ok(counted)) => CountReply::new(counted, terms, *form).ok_or_else(nonsense),
                    Some(Err(error)) => Err(Rejection::change(error, &format!("{place}.attributes"))),
                    None => Err(nonsense()),
                },
            };
            answer.map_or_else(CountEntry::Rejection, CountEntry::Count)
        });
        Ok(reply::batch(&CountBatchReply { counts: entries.collect() }, held))
    }

    /// Reads a count, and notes the series that it uses.
    fn read_count<'a>(
        &self,
        caller: &'a Caller,
        request: CountEntryRequest<'a>,
    ) -> Result<ReadCount<'a>, Rejection> {
        let CountEntryRequest {
            attributes,
            policy,
            quotas,
            window,
            operation,
            cost,
            used,
            block,
            on_store_failure,
        } = request;
        let (form, quotas) = match (quotas, window) {
            (Some(_), _) if !self.asking.caller_quotas => return Err(Rejection::no_limits("quotas")),
            (None, Some(_)) if !self.asking.caller_quotas => return Err(Rejection::no_limits("window")),
            (Some(quotas), None) => (CountForm::Quotas, charged_quotas(quotas, operation)?),
            (None, Some(window)) => (CountForm::Window, vec![window.0]),
            (Some(_), Some(_)) => {
                return Err(Rejection::bad_field("window", "`quotas` and `window` exclude each other"));
            }
            (None, None) => {
                return Err(Rejection::bad_field("quotas", "expected `quotas`, or `window` without a limit"));
            }
        };
        let limits = Policy::of_caller(&policy, quotas, None).map_err(|error| {
            let field = if error == PolicyError::Name { "policy" } else { "quotas" };
            Rejection::bad_field(field, error.to_string())
        })?;
        let operation = read_operation(operation, cost, used)?;
        let limits = limits.with_on_store_failure(on_failure(operation, on_store_failure)?);
        let name = limits.name().to_owned();
        let terms = CountTerms::new(limits, operation);
        let terms = match block {
            None => terms,
            Some(_) if form == CountForm::Window => {
                return Err(Rejection::bad_field("block", "a block needs a limit: give `quotas`"));
            }
            Some(BlockLength(length)) => {
                terms.with_block(length).map_err(|error| Rejection::bad_field("block", error.to_string()))?
            }
        };
        if !caller.may_touch(&name) {
            return Err(OtherPolicy.into());
        }
        caller.series().unwrap_or(&self.series).note(terms.limits().quotas(), terms.block_length())?;
        Ok(ReadCount { attributes: caller.asks(attributes), terms, form })
    }
}

/// Returns the quotas, if this operation can be executed on all of them.
fn charged_quotas(limits: Vec<GivenLimit>, operation: OperationName) -> Result<Vec<Quota>, Rejection> {
    expect_caller_quotas(&limits)?;
    // Of other kinds, a charge past the limit does not tell when its cost would fit, and a mark belongs to one charge.
    let needs_windows = matches!(operation, OperationName::Add | OperationName::Subtract);
    let each = limits.into_iter().enumerate().map(|(index, limit)| {
        let detail = match limit {
            GivenLimit::Quota(quota) if quota.kind() == QuotaKind::Window || !needs_windows => {
                return Ok(quota);
            }
            GivenLimit::Quota(quota) => {
                format!(
                    "`add` and `subtract` need fixed windows such as 5/1m: charge {quota} by `POST /v1/check`"
                )
            }
            GivenLimit::InFlight(limit) => format!("{limit} needs a hold (`POST /v1/reserve`)"),
        };
        Err(Rejection::bad_field(format!("quotas[{index}]"), detail))
    });
    each.collect()
}

fn read_operation(
    name: OperationName,
    cost: Option<CostUnits>,
    used: Option<json::UsedUnits>,
) -> Result<CountOperation, Rejection> {
    if used.is_some() && name != OperationName::Set {
        return Err(Rejection::bad_field("used", "only `set` has `used`"));
    }
    if cost.is_some() && matches!(name, OperationName::Set | OperationName::Reset) {
        return Err(Rejection::bad_field("cost", "`set` and `reset` have no `cost`"));
    }
    let cost = cost.unwrap_or_default().units();
    Ok(match name {
        OperationName::Add => CountOperation::Add(cost),
        OperationName::Subtract => CountOperation::Subtract(cost),
        OperationName::Get => CountOperation::Get(cost),
        OperationName::Set => {
            let used = used.ok_or_else(|| Rejection::bad_field("used", "missing field `used`"))?;
            CountOperation::Set(used.value())
        }
        OperationName::Reset => CountOperation::Reset,
    })
}

fn on_failure(operation: CountOperation, asked: Option<OutageAnswer>) -> Result<OnStoreFailure, Rejection> {
    let can_be_open = matches!(operation, CountOperation::Add(_) | CountOperation::Get(_));
    match asked {
        None | Some(OutageAnswer::Open) if can_be_open => Ok(OnStoreFailure::Open),
        None | Some(OutageAnswer::Closed) => Ok(OnStoreFailure::Closed),
        Some(OutageAnswer::Open) => {
            let detail = "only `add` and `get` can be `open`: without the store, no counter can be changed";
            Err(Rejection::bad_field("on_store_failure", detail))
        }
    }
}

fn nonsense() -> Rejection {
    Rejection::store(&AnswerError::Nonsense.into())
}
