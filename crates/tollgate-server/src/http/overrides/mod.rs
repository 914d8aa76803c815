//! Overrides: set, get, delete, list.
//!
//! Keys are in bodies alone, and never in an address, which proxies log.

mod audit;
pub(super) mod condition;
mod list_query;
mod refused;

use std::collections::BTreeSet;
use std::sync::Arc;

use http::header::ETAG;
use http::{HeaderValue, Request, StatusCode};
use hyper::body::Incoming;
use tollgate::Key;
use tollgate_policy::{
    OverrideEntry, OverrideName, OverrideRecord, OverrideState, Policy, PolicyKind, PolicySet,
};
use tollgate_redis::{RecordEnd, RecordMatch};

use self::audit::AuditedChange;
use self::list_query::ListQuery;
pub(super) use self::list_query::PARAMETERS;
use super::override_body::{OverrideBody, OverridesVersionText};
use super::wire::{
    DeletedOverrideReply, GotOverrideReply, NamedOverrideRequest, OverrideId, OverrideListReply,
    SetOverrideReply, SetOverrideRequest, TargetAttributes,
};
use super::{Edge, Reply, reply};
use crate::access::caller::{Caller, OtherPolicy};
use crate::answer::override_refusal::CurrentOverride;
use crate::answer::rejection::Rejection;
use crate::net::body;
use crate::overrides::{Overrides, OverridesError, SetOverride};
use crate::request::json;

/// How many overrides a page of the list looks at. With a filter, most of them may be others, and one request is not to
/// keep a thread busy.
const MAX_LOOKED_AT: usize = 50_000;

impl Edge {
    /// Sets an override, instead of the one for the same requests.
    pub(super) async fn set_override(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let matching = condition::of_set(request.headers())?;
        let body = body::read(request, &self.budget).await?;
        let SetOverrideRequest { policy, attributes, quotas, until, length, note, label } =
            json::read(&body)?;
        let end = match (until, length) {
            (None, None) => RecordEnd::Never,
            (Some(until), None) => RecordEnd::At(until.0),
            (None, Some(length)) => RecordEnd::After(length.0),
            (Some(_), Some(_)) => {
                return Err(Rejection::bad_field("for", "either `until` or `for`, not both"));
            }
        };
        may_touch(caller, &policy.0)?;
        let (overrides, live) = (self.overrides()?, self.engine()?.live());
        let policy = counting(&live, caller, &policy.0)?;
        let set = SetOverride {
            name: name_of(&live, policy, &attributes)?,
            key: policy.identity().to_string().into(),
            limits: quotas.0,
            end,
            label: label.map(|label| label.0.into()),
            note: note.map(|note| note.0),
            by: caller.principal().cloned(),
        };
        self.put_override(caller, overrides, set, matching).await
    }

    /// Sets a checked override, writes the log line, and answers with it.
    pub(super) async fn put_override(
        &self,
        caller: &Caller,
        overrides: &Overrides,
        set: SetOverride,
        matching: RecordMatch,
    ) -> Result<Reply, Rejection> {
        let (name, limits, label) = (set.name.clone(), Some(set.limits.to_string()), set.label.clone());
        let outcome = overrides.set(set, matching).await;
        let change = AuditedChange { operation: "set", caller, name: &name, limits, label: label.as_deref() };
        change.log(&outcome);
        let change = outcome.map_err(|error| self.refused(error, matching))?;
        let (replaced, overrides_version) = (change.existed, change.version.into());
        let record = change.record.ok_or_else(refused::not_there)?;
        let (record, state) = self.standing(record).ok_or_else(refused::not_there)?;
        let set = OverrideBody::new(&record, &state, change.version.epoch);
        let tag = tag(&set);
        Ok(tagged(reply::json(StatusCode::OK, &SetOverrideReply { set, replaced, overrides_version }), tag))
    }

    /// Answers with an override as this process knows it.
    pub(super) async fn get_override(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let body = body::read(request, &self.budget).await?;
        let named: NamedOverrideRequest<'_> = json::read(&body)?;
        let (overrides, live) = (self.overrides()?, self.engine()?.live());
        let name = named_override(&live, caller, named)?;
        let entry = live.overrides().get(&name).ok_or_else(refused::not_there)?;
        let got = described(&live, &entry);
        let status = overrides.status();
        let overrides_version = OverridesVersionText::of(&live);
        let tag = tag(&got);
        let body = GotOverrideReply { got, overrides_version, stale: status.is_stale };
        Ok(tagged(reply::json(StatusCode::OK, &body), tag))
    }

    /// Deletes an override, whether or not it applies.
    pub(super) async fn delete_override(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let matching = condition::of_delete(request.headers())?;
        let body = body::read(request, &self.budget).await?;
        let named: NamedOverrideRequest<'_> = json::read(&body)?;
        let (overrides, live) = (self.overrides()?, self.engine()?.live());
        let name = named_override(&live, caller, named)?;
        let deleted = live.overrides().get(&name).map(|entry| described(&live, &entry));
        let outcome = overrides.delete(&name, matching).await;
        let change = AuditedChange { operation: "delete", caller, name: &name, limits: None, label: None };
        change.log(&outcome);
        let change = outcome.map_err(|error| self.refused(error, matching))?;
        let (id, overrides_version) = (name.to_string(), change.version.into());
        Ok(reply::json(StatusCode::OK, &DeletedOverrideReply { id, overrides_version, deleted }))
    }

    /// Lists overrides as this process knows them. A caller that may use only some policies sees only their overrides.
    pub(super) async fn list_overrides(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let ListQuery { policy, label, after, limit } =
            ListQuery::read(request.uri().query().unwrap_or_default())?;
        if let Some(policy) = &policy {
            may_touch(caller, policy)?;
        }
        let (overrides, live) = (self.overrides()?, self.engine()?.live());
        // Other policies are left out here and not below, because a page ends with the name of an override.
        let policies: Vec<Option<&str>> = match (policy.as_deref(), caller.policies()) {
            (None, Some(policies)) => policies.map(Some).collect(),
            (policy, _) => vec![policy],
        };
        let entries = policies.into_iter().flat_map(|policy| live.overrides().after(after.as_ref(), policy));
        let is_meant =
            |entry: &OverrideEntry<'_>| label.as_deref().is_none_or(|label| entry.label() == Some(label));
        let (mut listed, mut last, mut is_whole) = (Vec::new(), None, true);
        for (looked_at, entry) in entries.enumerate() {
            if listed.len() == limit || looked_at == MAX_LOOKED_AT {
                is_whole = false;
                break;
            }
            if is_meant(&entry) {
                listed.push(described(&live, &entry));
            }
            last = Some(entry);
        }
        let next = last.filter(|_| !is_whole).map(|entry| entry.name().to_string());
        let body = OverrideListReply {
            overrides_version: OverridesVersionText::of(&live),
            stale: overrides.status().is_stale,
            overrides: listed,
            next,
        };
        Ok(reply::json(StatusCode::OK, &body))
    }

    /// Returns the keeper of the overrides.
    ///
    /// # Errors
    ///
    /// If this service has none.
    pub(super) fn overrides(&self) -> Result<&Arc<Overrides>, Rejection> {
        let overrides = &self.followed.overrides;
        overrides.available().map_err(refused::change)?;
        Ok(overrides)
    }

    /// Explains why an override was not changed, or may not have been.
    fn refused(&self, error: OverridesError, matching: RecordMatch) -> Rejection {
        match error {
            OverridesError::Mismatch { current, version } => {
                let current = current.and_then(|record| self.standing(*record));
                refused::mismatch(CurrentOverride { current, version }, matching)
            }
            error => refused::change(error),
        }
    }

    /// Returns an override with its state under the live policies.
    fn standing(&self, record: OverrideRecord) -> Option<(OverrideRecord, OverrideState)> {
        let live = self.engine().ok()?.live();
        let name = record.name.clone();
        let set = live.overrides().with(record, live.policies());
        set.get(&name).map(|entry| (entry.record(), entry.state()))
    }
}

/// Describes an override of a live set.
fn described(live: &PolicySet, entry: &OverrideEntry<'_>) -> OverrideBody {
    let epoch = live.overrides().version().map_or(0, |version| version.epoch);
    OverrideBody::new(&entry.record(), &entry.state(), epoch)
}

/// Returns the name of the override that a request is about.
///
/// # Errors
///
/// If the request names none, or one of a policy that the caller may not use.
fn named_override(
    live: &PolicySet,
    caller: &Caller,
    named: NamedOverrideRequest<'_>,
) -> Result<OverrideName, Rejection> {
    match (named.id, named.policy, named.attributes) {
        (Some(OverrideId(name)), None, None) => {
            may_touch(caller, &name.policy)?;
            Ok(name)
        }
        (None, Some(policy), Some(attributes)) => {
            may_touch(caller, &policy.0)?;
            name_of(live, counting(live, caller, &policy.0)?, &attributes)
        }
        _ => Err(Rejection::bad_field("id", "either `id`, or `policy` and `attributes`")),
    }
}

/// Returns the live policy of this name, if it can have overrides.
///
/// # Errors
///
/// If there is none, or it counts nothing.
fn counting<'a>(live: &'a PolicySet, caller: &Caller, name: &str) -> Result<&'a Policy, Rejection> {
    let all = live.policies().as_slice();
    match all.iter().find(|policy| policy.name() == name) {
        Some(policy) if policy.kind() == PolicyKind::Count => Ok(policy),
        Some(policy) => Err(refused::counts_nothing(policy.name())),
        None => {
            let countable = all.iter().filter(|policy| policy.kind() == PolicyKind::Count);
            // Only those that the caller may know of.
            let known = countable.map(Policy::name).filter(|known| caller.may_touch(known));
            Err(refused::no_policy(name, known))
        }
    }
}

/// Returns the name of the override of a policy for these requests.
///
/// # Errors
///
/// If the policy cannot have one for them.
fn name_of(
    live: &PolicySet,
    policy: &Policy,
    attributes: &TargetAttributes<'_>,
) -> Result<OverrideName, Rejection> {
    // Which names are known matters only to texts that are compared.
    let known = if attributes.is_compared() { live.policies().attributes() } else { BTreeSet::new() };
    let digest = |key: &Key<'_>| live.overrides().key(key).0;
    OverrideName::of_attributes(policy, &attributes.pairs(), &known, &digest).map_err(refused::target)
}

/// The version of an override, as a tag.
fn tag(set: &OverrideBody) -> Option<HeaderValue> {
    HeaderValue::from_str(&format!("\"{}\"", set.version())).ok()
}

fn tagged(mut reply: Reply, tag: Option<HeaderValue>) -> Reply {
    reply.headers_mut().extend(tag.map(|tag| (ETAG, tag)));
    reply
}

/// Checks that the caller may use the policy, before it learns whether the policy exists.
fn may_touch(caller: &Caller, policy: &str) -> Result<(), Rejection> {
    if caller.may_touch(policy) { Ok(()) } else { Err(OtherPolicy.into()) }
}
