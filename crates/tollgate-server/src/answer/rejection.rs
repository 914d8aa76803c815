//! Rejections: why requests get no decision, whatever their protocol. A denial is not one of them; it is a decision.
//!
//! `http` and `grpc` turn rejections into their own statuses and bodies.

use std::borrow::Cow;

use tollgate::{AnswerError, PolicyInFlight, PolicyQuota, StoreError};
use tollgate_envoy::DecideError;
use tollgate_policy::{CheckError, Generation, RefundError, Refusal};

use super::override_refusal::{CurrentOverride, OverrideRefusal};
use super::rejection_kind::RejectionKind;
use crate::access::authorization::MissingRight;
use crate::access::caller::{OnlySomePolicies, OtherPolicy};
use crate::access::counted_series::{CountedSeries, TooManySeries};
use crate::access::principals::AccessRefusal;
use crate::access::scope::Scope;
use crate::decide::envoy::NoDecision;
use crate::net::body::{BodyError, BodyFault};
use crate::net::budget::NoRoom;
use crate::request::json::BadField;

/// Why a request gets no decision.
#[derive(Debug, Clone)]
pub(crate) struct Rejection {
    kind: RejectionKind,
    detail: Cow<'static, str>,
    /// The field of the request that is wrong.
    field: Option<String>,
    /// The methods that its path allows.
    methods: Option<Box<str>>,
    /// The scope that the caller needs.
    scope: Option<Scope>,
    names: RejectionNames,
    /// Whether the request's body was not read to its end.
    is_unread: bool,
    repeat: Repeat,
}

/// Whether a client may send the request again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    Soon,
    /// There is room again after so many seconds.
    After(u32),
    /// It may have changed counters, and would change them twice.
    Never,
}

/// What a rejection is about, by name.
#[derive(Debug, Clone)]
pub(crate) enum RejectionNames {
    None,
    /// Quotas that were changed, and limits of which the units in flight were forgotten, before the store failed.
    Changed(Box<[PolicyQuota]>, Box<[PolicyInFlight]>),
    /// Policies that the store can never count together.
    Uncountable(Box<[Box<str>]>),
    /// The live limits, which decide nothing now.
    Live(Generation),
    /// The override that is there.
    Override(Box<CurrentOverride>),
}

impl Rejection {
    pub(crate) fn new(kind: RejectionKind, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            field: None,
            methods: None,
            scope: None,
            names: RejectionNames::None,
            is_unread: false,
            repeat: Repeat::Soon,
        }
    }

    /// The path allows only these methods.
    pub(crate) fn method_not_allowed(methods: &str) -> Self {
        let rejection =
            Self::new(RejectionKind::MethodNotAllowed, format!("the methods allowed here are {methods}"));
        Self { methods: Some(methods.into()), ..rejection }
    }

    /// The caller is unknown, or lacks this scope.
    fn unauthorized(reason: AccessRefusal, scope: Scope) -> Self {
        let (kind, detail) = match reason {
            AccessRefusal::Nobody => (
                RejectionKind::Unauthenticated,
                format!(
                    "this needs the scope `{scope}`: send `Authorization: Bearer` with a token that has it"
                ),
            ),
            AccessRefusal::NoBearer => (
                RejectionKind::Unauthenticated,
                format!(
                    "this needs the scope `{scope}`, but `Authorization` is not `Bearer` followed by one token"
                ),
            ),
            AccessRefusal::Unknown => (
                RejectionKind::Unauthenticated,
                format!("this needs the scope `{scope}`, but the token in `Authorization` is unknown"),
            ),
            AccessRefusal::Expired => (
                RejectionKind::Unauthenticated,
                format!("this needs the scope `{scope}`, but the caller's access has expired"),
            ),
            AccessRefusal::Scope => (
                RejectionKind::Forbidden,
                format!("this needs the scope `{scope}`, which the caller does not have"),
            ),
            AccessRefusal::NotAsked => (
                RejectionKind::Forbidden,
                format!(
                    "this needs the scope `{scope}`, which only a principal can have, and this service knows none: \
                     start it with `serve --tokens FILE`, and make a token with `tollgate token new --name NAME \
                     --scope {scope} --tokens FILE`"
                ),
            ),
        };
        Self { scope: Some(scope), ..Self::new(kind, detail) }
    }

    /// Like `unauthorized`, if no principal has a token. The challenge that 401 requires (RFC 9110, section 15.5.2)
    /// could only ask for a token.
    fn unauthorized_certificate(reason: AccessRefusal, scope: Scope) -> Self {
        let detail = match reason {
            AccessRefusal::Nobody => {
                format!("this needs the scope `{scope}`: connect with a client certificate that has it")
            }
            AccessRefusal::NoBearer | AccessRefusal::Unknown => format!(
                "this needs the scope `{scope}`, but this service has no tokens: leave `Authorization` out, and \
                 connect with a client certificate"
            ),
            AccessRefusal::Expired | AccessRefusal::Scope | AccessRefusal::NotAsked => {
                return Self { kind: RejectionKind::Forbidden, ..Self::unauthorized(reason, scope) };
            }
        };
        Self { scope: Some(scope), ..Self::new(RejectionKind::Forbidden, detail) }
    }

    /// There is no memory for an answer that its client would have to read.
    pub(crate) fn no_room_for_answer(NoRoom: NoRoom) -> Self {
        let detail = "no memory is left for this answer: clients have not read too many others";
        Self::new(RejectionKind::Unavailable, detail)
    }

    /// There is no memory for the request, which was not read.
    pub(crate) fn no_room() -> Self {
        Self::new(RejectionKind::Unavailable, "no memory is left for another request")
    }

    /// There is no room for another long-lived stream.
    pub(crate) fn no_stream() -> Self {
        Self::new(RejectionKind::Unavailable, "there is no room for another stream")
    }

    pub(crate) fn draining() -> Self {
        Self::new(RejectionKind::Unavailable, "the service is about to stop")
    }

    pub(crate) fn bad_field(field: impl Into<String>, detail: impl Into<Cow<'static, str>>) -> Self {
        let mut field = field.into();
        // An empty name is shown by the object that contains it.
        if field.ends_with('.') {
            field.pop();
        }
        Self { field: Some(field), ..Self::new(RejectionKind::Invalid, detail) }
    }

    /// The field is a limit, and callers may give none.
    pub(crate) fn no_limits(field: impl Into<String>) -> Self {
        let detail = "this service accepts no limits in a request: it runs without `serve --caller-quotas`";
        Self::bad_field(field, detail)
    }

    /// The service has no limits before the first ones arrive.
    pub(crate) fn no_limits_yet() -> Self {
        Self::new(RejectionKind::Unavailable, "no limits have arrived over xDS yet")
    }

    /// The same if some have arrived.
    pub(crate) fn no_valid_limits_yet() -> Self {
        Self::new(RejectionKind::Unavailable, "the limits that have arrived over xDS are not valid")
    }

    /// The service is not ready without domains, although it admits requests.
    pub(crate) fn no_domains() -> Self {
        let detail = "there are no domains, and HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED is set";
        Self::new(RejectionKind::Unavailable, detail)
    }

    /// Returns the same rejection for a part of the request, with this prefix for its fields.
    pub(crate) fn within(self, place: &str) -> Self {
        let field = self.field.map_or_else(|| place.to_owned(), |field| format!("{place}.{field}"));
        Self { field: Some(field), ..self }
    }

    /// The field names something that no longer exists.
    pub(crate) fn conflict(field: impl Into<String>, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { kind: RejectionKind::Conflict, ..Self::bad_field(field, detail) }
    }

    /// The request is about an override that is not there, or that there cannot be.
    pub(crate) fn override_refused(refusal: OverrideRefusal, detail: impl Into<Cow<'static, str>>) -> Self {
        Self::new(RejectionKind::Override(refusal), detail)
    }

    /// Adds the field that is wrong.
    pub(crate) fn at(self, field: &str) -> Self {
        Self { field: Some(field.to_owned()), ..self }
    }

    /// Adds the override that is there.
    pub(crate) fn with_current(self, current: CurrentOverride) -> Self {
        Self { names: RejectionNames::Override(Box::new(current)), ..self }
    }

    /// Says whether the request may be sent again.
    pub(crate) fn repeating(self, repeat: Repeat) -> Self {
        Self { repeat, ..self }
    }

    /// The id in this field belongs to another hold.
    pub(crate) fn id_conflict(field: &str) -> Self {
        let detail =
            "the id belongs to a hold of other policies, keys, costs or units: make an id for each hold";
        Self { field: Some(field.to_owned()), ..Self::new(RejectionKind::IdConflict, detail) }
    }

    /// The hold cannot be settled at this cost.
    pub(crate) fn settle_conflict() -> Self {
        let detail = "the hold was settled at another cost, or its id belongs to another hold";
        Self { field: Some("hold".to_owned()), ..Self::new(RejectionKind::IdConflict, detail) }
    }

    /// The id in this field belongs to a hold that was settled.
    pub(crate) fn hold_ended(field: &str) -> Self {
        let detail = "the hold with this id was settled: make an id for each hold";
        Self { field: Some(field.to_owned()), ..Self::new(RejectionKind::HoldEnded, detail) }
    }

    /// Adds the generation of the live limits, which decide nothing now.
    pub(crate) fn with_generation(self, generation: Option<Generation>) -> Self {
        match generation {
            Some(generation) => Self { names: RejectionNames::Live(generation), ..self },
            None => self,
        }
    }

    /// Explains why there is no decision. `attributes` is the field that the attributes come from.
    pub(crate) fn check(error: &CheckError, attributes: &str) -> Self {
        match error {
            // Only callers who may use the policy may learn which one it is.
            CheckError::Refused(Refusal::OtherPolicy { .. }) => OtherPolicy.into(),
            CheckError::Refused(refusal) => {
                let field = match refusal {
                    // Any of several attributes would do, so none of them is the wrong one.
                    Refusal::MissingKey { is_choice: true, .. } => attributes.to_owned(),
                    Refusal::MissingKey { attribute, .. } => format!("{attributes}.{attribute}"),
                    Refusal::LongValue { attribute, .. } => format!("{attributes}.{attribute}"),
                    Refusal::Cost { error, .. } => format!("{attributes}.{}", error.attribute()),
                    Refusal::Limit { error, .. } => format!("{attributes}.{}", error.attribute()),
                    _ => attributes.to_owned(),
                };
                Self::bad_field(field, refusal.to_string())
            }
            CheckError::NeedsHold { .. } => {
                Self::new(RejectionKind::NeedsHold, format!("{error} (`POST /v1/reserve`)"))
            }
            CheckError::OnlyHolds { .. } => Self::new(RejectionKind::Invalid, error.to_string()),
            CheckError::Store(error) => Self::store(error),
            CheckError::Uncountable { policies, error } => {
                Self { names: RejectionNames::Uncountable(policies.clone()), ..Self::store(error) }
            }
            CheckError::Partly { changed, forgotten, error } => Self {
                detail:
                    "the store failed; the quotas in `changed` were changed, and whether the others were is \
                         unknown"
                        .into(),
                names: RejectionNames::Changed(changed.clone(), forgotten.clone()),
                ..Self::store(error)
            },
            _ => Self::store(&AnswerError::Nonsense.into()),
        }
    }

    /// Explains why counters were not changed. If some may have been, the answer has no `Retry-After`.
    pub(crate) fn change(error: &CheckError, attributes: &str) -> Self {
        let rejection = Self::check(error, attributes);
        let repeat = if rejection.is_outcome_unknown() { Repeat::Never } else { Repeat::Soon };
        Self { repeat, ..rejection }
    }

    /// Explains why nothing was given back. Each charge was named by a time in this field.
    pub(crate) fn refund(error: &RefundError, time_fields: &[&str]) -> Self {
        match error {
            RefundError::Check(error) => Self::change(error, "attributes"),
            RefundError::NoSuchQuota { index, .. } | RefundError::CountsOthers { index, .. } => {
                // Either the policy or the quota has changed; it is unknown which.
                Self::conflict(format!("windows[{index}]"), error.to_string())
            }
            RefundError::UnknownVersion { .. } => Self::conflict("version", error.to_string()),
            RefundError::NamedTwice { index } => {
                Self::bad_field(format!("windows[{index}]"), error.to_string())
            }
            RefundError::NoWindowStart { index, .. } | RefundError::FutureStart { index } => {
                let field = time_fields.get(*index).copied().unwrap_or("start");
                Self::bad_field(format!("windows[{index}].{field}"), error.to_string())
            }
            _ => Self::bad_field("windows", error.to_string()),
        }
    }

    /// Explains why Envoy's service makes no decision.
    pub(crate) fn undecided(error: NoDecision) -> Self {
        match error {
            NoDecision::OnlySomePolicies(error) => error.into(),
            NoDecision::NoLimitsYet => Self::no_limits_yet(),
            NoDecision::NoLimits(index) => Self::no_limits(format!("descriptors[{index}].limit")),
            NoDecision::Envoy(DecideError::Store(error)) => Self::store(&error),
            NoDecision::Envoy(DecideError::Invalid(error)) => {
                Self::bad_field(error.field(), error.to_string())
            }
            NoDecision::Envoy(invalid) => Self::new(RejectionKind::Invalid, invalid.to_string()),
        }
    }

    /// The store did not count. The log has the reason.
    pub(crate) fn store(error: &StoreError) -> Self {
        let (kind, detail) = match error {
            StoreError::Full => (RejectionKind::StoreFull, "the store is full: no room for another counter"),
            StoreError::Uncountable(_) => (
                RejectionKind::Uncountable,
                "the store can never count this request, because of how the service is set up",
            ),
            StoreError::Trouble { .. } if error.may_have_charged() => (
                RejectionKind::OutcomeUnknown,
                "the store did not answer; whether it counted the request is unknown",
            ),
            StoreError::Trouble { .. } => {
                (RejectionKind::StoreUnavailable, "the store cannot answer, and nothing was counted")
            }
            StoreError::Ended { .. } => (
                RejectionKind::StoreUnavailable,
                "the limits of this request ended before it was counted, and nothing was counted",
            ),
        };
        Self::new(kind, detail)
    }

    /// The live page is open in too many places.
    pub(crate) fn too_many_viewers() -> Self {
        let detail = "the live page is open in more than eight places, or something else asks for its figures: each place \
                      may ask once a second";
        Self { repeat: Repeat::After(5), ..Self::new(RejectionKind::TooManyViewers, detail) }
    }

    pub(crate) fn detail(&self) -> &str {
        &self.detail
    }

    /// Returns the invalid field of the request.
    pub(crate) fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    pub(crate) const fn kind(&self) -> RejectionKind {
        self.kind
    }

    /// Returns whether the store may have counted some of the request.
    pub(crate) const fn is_outcome_unknown(&self) -> bool {
        matches!(self.kind, RejectionKind::OutcomeUnknown)
            || matches!(self.names, RejectionNames::Changed(..))
    }

    /// Returns the methods that the path allows, if the request has another.
    pub(crate) fn methods(&self) -> Option<&str> {
        self.methods.as_deref()
    }

    /// Returns the scope that the caller lacks.
    pub(crate) const fn scope(&self) -> Option<Scope> {
        self.scope
    }

    pub(crate) const fn names(&self) -> &RejectionNames {
        &self.names
    }

    /// Returns whether the request's body was not read to its end.
    pub(crate) const fn is_unread(&self) -> bool {
        self.is_unread
    }

    pub(crate) const fn repeat(&self) -> Repeat {
        self.repeat
    }
}

impl From<OtherPolicy> for Rejection {
    fn from(OtherPolicy: OtherPolicy) -> Self {
        Self::new(RejectionKind::Forbidden, "the request needs a policy that the caller may not use")
    }
}

impl From<OnlySomePolicies> for Rejection {
    fn from(OnlySomePolicies: OnlySomePolicies) -> Self {
        Self::new(RejectionKind::Forbidden, "this concerns all policies, and the caller may use only some")
    }
}

impl From<TooManySeries> for Rejection {
    fn from(TooManySeries(wait): TooManySeries) -> Self {
        let detail = format!(
            "nothing was counted: the caller has {} pairs of a name and a window in use, and no more are possible; put what \
             differs between requests into the attributes",
            CountedSeries::MAX
        );
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        let repeat = Repeat::After(u32::try_from(seconds.max(1)).unwrap_or(u32::MAX));
        Self { field: Some("policy".to_owned()), repeat, ..Self::new(RejectionKind::TooManyNames, detail) }
    }
}

impl From<MissingRight> for Rejection {
    fn from(MissingRight { reason, scope, has_tokens }: MissingRight) -> Self {
        match has_tokens {
            true => Self::unauthorized(reason, scope),
            false => Self::unauthorized_certificate(reason, scope),
        }
    }
}

impl From<BodyError> for Rejection {
    fn from(BodyError { fault, is_unread }: BodyError) -> Self {
        let rejection = match fault {
            BodyFault::TooLarge(max) => {
                let detail = format!("the body is larger than {max} bytes");
                Self::new(RejectionKind::TooLarge, detail)
            }
            BodyFault::Slow(limit) => {
                let detail = format!("the body did not arrive within {limit:?}");
                Self::new(RejectionKind::SlowRequest, detail)
            }
            BodyFault::CutOff => Self::new(RejectionKind::Invalid, "the body was cut off"),
            BodyFault::NoRoom => {
                let detail = "no memory is left for this body: too many bodies are in flight";
                Self::new(RejectionKind::Unavailable, detail)
            }
        };
        Self { is_unread, ..rejection }
    }
}

impl From<BadField> for Rejection {
    fn from(BadField { field, detail }: BadField) -> Self {
        Self::bad_field(field, detail)
    }
}
