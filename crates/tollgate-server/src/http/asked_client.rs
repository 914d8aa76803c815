//! Whom an operation is about: a request by its attributes, or a talker by its id.

use std::borrow::Cow;
use std::sync::Arc;

use http::StatusCode;
use tollgate_policy::{Attributes, CheckError, Mode, Policy, PolicyKind, PolicySet, RefundError, Refusal};
use tracing::{info, warn};

use super::Edge;
use crate::access::caller::{Caller, OtherPolicy};
use crate::answer::rejection::Rejection;
use crate::answer::rejection_kind::RejectionKind;
use crate::talkers::{KeyBytes, NoTalker, TalkerId};

/// Whom an operation is about: a talker, or else a request whose attributes are given.
pub(in crate::http) struct AskedClient {
    pub(in crate::http) talker: Option<KnownTalker>,
}

/// A talker, with the policies under which its key was found. The key is for the policies alone: nobody is shown it.
pub(in crate::http) struct KnownTalker {
    set: Arc<PolicySet>,
    /// The place of its policy.
    place: usize,
    pub(in crate::http) id: TalkerId,
    key: KeyBytes,
}

/// The answer if a body names a talker that is not there.
pub(in crate::http) const NO_TALKER: (StatusCode, &str) =
    (StatusCode::NOT_FOUND, "There is no such talker any more, or no such policy, or there are no talkers");

const ALTERNATIVE: &str = "give `attributes` in place of `id`";

impl Edge {
    /// Finds whom a body names: by `attributes`, or by `policy` and `id`.
    ///
    /// # Errors
    ///
    /// If it names nobody or both, or the talker is not known any more, or not well enough.
    pub(in crate::http) fn asked_client(
        &self,
        caller: &Caller,
        attributes: Option<&Attributes<'_>>,
        policy: Option<&str>,
        id: Option<TalkerId>,
    ) -> Result<AskedClient, Rejection> {
        let talker = match (attributes, policy, id) {
            (Some(_), _, None) => None,
            (Some(_), _, Some(_)) => {
                return Err(Rejection::bad_field("id", "`attributes` and `id` exclude each other"));
            }
            (None, Some(policy), Some(id)) => Some(self.known_talker(caller, policy, id)?),
            (None, None, Some(_)) => {
                let detail = "missing field `policy`: an id belongs to the talkers of one policy";
                return Err(Rejection::bad_field("policy", detail));
            }
            (None, _, None) => return Err(missing_attributes()),
        };
        Ok(AskedClient { talker })
    }

    fn known_talker(&self, caller: &Caller, policy: &str, id: TalkerId) -> Result<KnownTalker, Rejection> {
        if !caller.may_touch(policy) {
            return Err(OtherPolicy.into());
        }
        let set = self.engine()?.live();
        let talkers = self.dashboard()?.talkers.as_deref();
        let talkers =
            talkers.ok_or_else(|| not_found("this service counts no talkers (`serve --talkers off`)"))?;
        let policies = set.policies().as_slice();
        let place = policies.iter().position(|known| known.name() == policy);
        let (place, policy) =
            place.and_then(|place| Some((place, policies.get(place)?))).ok_or_else(|| no_policy("policy"))?;
        if policy.kind() != PolicyKind::Count || policy.mode() == Mode::Off {
            return Err(Rejection::conflict("policy", "the policy counts nothing now"));
        }
        let key = talkers.key_of(policy, id).map_err(|reason| match reason {
            NoTalker::Policy | NoTalker::Id => not_found(format!(
                "no talker of this policy has this id any more: the ids of the last ten minutes are those of `GET \
                 /v1/talkers`. Take one of these, or {ALTERNATIVE}"
            ))
            .at("id"),
            NoTalker::TwoKeys => {
                Rejection::conflict("id", format!("two talkers have this id by chance: {ALTERNATIVE}"))
            }
        })?;
        let talker = KnownTalker { set: Arc::clone(&set), place, id, key };
        // It fails now rather than after something was changed.
        talker.attributes().map(drop)?;
        Ok(talker)
    }
}

/// There is no policy of the name in this field. Where talkers are asked for, nothing typed is repeated: it may be a key.
pub(in crate::http) fn no_policy(field: &str) -> Rejection {
    not_found("there is no policy of this name: `GET /v1/policies` lists them").at(field)
}

fn not_found(detail: impl Into<Cow<'static, str>>) -> Rejection {
    Rejection::new(RejectionKind::NotFound, detail)
}

/// Refuses a policy without a talker, where it would do nothing.
pub(in crate::http) fn expect_id(policy: Option<&str>, id: Option<TalkerId>) -> Result<(), Rejection> {
    match (policy, id) {
        (Some(_), None) => {
            Err(Rejection::bad_field("policy", "`policy` is only there with `id`, which is missing"))
        }
        _ => Ok(()),
    }
}

fn missing_attributes() -> Rejection {
    Rejection::bad_field("attributes", "missing field `attributes`; or give `policy` and `id` of a talker")
}

impl AskedClient {
    /// Returns what is known of the request: these attributes, unless it is a talker.
    pub(in crate::http) fn attributes<'a>(
        &'a self,
        given: Option<Attributes<'a>>,
    ) -> Result<Attributes<'a>, Rejection> {
        match &self.talker {
            None => given.ok_or_else(missing_attributes),
            Some(talker) => talker.attributes(),
        }
    }

    /// Explains why there is no answer, or why counters were not changed.
    pub(in crate::http) fn rejection(&self, error: &CheckError) -> Rejection {
        match &self.talker {
            None => Rejection::change(error, "attributes"),
            Some(talker) => talker.unknown_value(error).unwrap_or_else(|| Rejection::change(error, "id")),
        }
    }

    /// Explains why nothing was given back.
    pub(in crate::http) fn refund_rejection(&self, error: &RefundError, time_fields: &[&str]) -> Rejection {
        match error {
            RefundError::Check(error) => self.rejection(error),
            error => Rejection::refund(error, time_fields),
        }
    }

    /// Logs a change of a talker's counters: a person has made it, who has seen an id and no key. Changes by attributes
    /// come from programs, as often as these like.
    pub(in crate::http) fn log_change<T>(
        &self,
        operation: &'static str,
        caller: &Caller,
        outcome: &Result<T, Rejection>,
    ) {
        let Some(talker) = &self.talker else { return };
        let principal = caller.principal().map(|name| &**name);
        let (policy, id) = (talker.policy_name(), talker.id);
        match outcome {
            Ok(_) => info!(operation, principal, policy, talker = %id, "counters of a talker changed"),
            Err(rejection) if rejection.is_outcome_unknown() => {
                warn!(operation, principal, policy, talker = %id, "counters of a talker may have been changed");
            }
            Err(_) => {}
        }
    }
}

impl KnownTalker {
    /// Returns the policies under which it was found.
    pub(in crate::http) const fn policies(&self) -> &Arc<PolicySet> {
        &self.set
    }

    pub(in crate::http) fn policy_name(&self) -> &str {
        self.policy().map_or("", Policy::name)
    }

    fn policy(&self) -> Option<&Policy> {
        self.set.policies().as_slice().get(self.place)
    }

    /// Returns the attributes of its key.
    fn attributes(&self) -> Result<Attributes<'_>, Rejection> {
        let KeyBytes(bytes) = &self.key;
        let read = self.policy().and_then(|policy| {
            let pairs = policy.identity().attributes_of_key(bytes)?;
            let attributes = pairs.into_iter().collect::<Attributes<'_>>().of_key(policy);
            let is_same = |attributes: &Attributes<'_>| {
                policy.identity().key(attributes).is_ok_and(|key| *key.canonical_bytes() == **bytes)
            };
            // Another key would be another client.
            Some(attributes).filter(is_same)
        });
        read.ok_or_else(|| {
            let detail = format!(
                "the service has kept only a part of this key, because it is longer than 128 bytes or memory was short: \
                 {ALTERNATIVE}"
            );
            Rejection::conflict("id", detail)
        })
    }

    /// Returns the rejection for an error about a value that is not in the key.
    fn unknown_value(&self, error: &CheckError) -> Option<Rejection> {
        let CheckError::Refused(Refusal::Undecided { attribute, .. }) = error else { return None };
        let policy = self.policy_name();
        let detail = format!(
            "what `{policy}` does depends on `{attribute}`, which is not a part of its key: {ALTERNATIVE}"
        );
        Some(Rejection::conflict("id", detail))
    }
}
