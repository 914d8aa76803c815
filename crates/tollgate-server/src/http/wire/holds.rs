//! Holds: requests to reserve, renew and settle, and their answers.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use tollgate::{HoldId, HoldLength};
use tollgate_policy::{AskedHold, Attributes, HoldSettlement, PolicyDecision, RenewAnswer, SettleAnswer};
use tollgate_wire::body::QuotaText;

use super::decision::CheckReply;
use super::requests::{
    AnyAttributes, BatchRequest, CallerName, CallerQuotas, GivenLimit, KeyAttributes, OutageAnswer,
    may_bring_limits,
};
use crate::answer::rejection::Rejection;
use crate::decide::hold_seal::HoldSeal;
use crate::http::problem::ProblemBody;
use crate::request::json::{self, CostUnits, Object};

may_bring_limits! {
    /// A reservation: attributes of a request, and what it holds.
    struct ReserveRequest<'a> with "CallerName", "CallerQuotas" {
        #[serde(borrow, deserialize_with = "json::attributes")]
        #[schemars(with = "KeyAttributes")]
        pub(in crate::http) attributes: Attributes<'a>,
        /// Units to charge: the estimate, to be settled at the actual cost.
        #[serde(default)]
        #[schemars(extend("default" = 1))]
        pub(in crate::http) cost: CostUnits,
        /// Units in flight, at most 1,000; 0 takes and charges nothing.
        #[serde(default)]
        #[schemars(extend("default" = 1))]
        pub(in crate::http) units: CostUnits,
        /// How long the hold lives from its last renewal, such as `30s`: at most `1h`, and no longer than a limit in
        /// flight says.
        #[serde(default)]
        #[schemars(with = "WrittenHoldLength", extend("default" = "1m"))]
        pub(in crate::http) expires_after: WrittenHoldLength,
        /// The id: 128 random bits in hexadecimal, made before the first call, so that the call can be repeated.
        /// Default: the service makes it.
        #[serde(default, deserialize_with = "json::some")]
        #[schemars(with = "WrittenHoldId")]
        pub(in crate::http) id: Option<WrittenHoldId>,
    }
}

may_bring_limits! {
    /// One of many reservations. If it lacks an attribute, or its limits are invalid, its own answer reports this.
    struct ReserveEntryRequest<'a> with "String", "Vec<String>" {
        #[serde(borrow, deserialize_with = "json::attributes")]
        #[schemars(with = "AnyAttributes")]
        pub(in crate::http) attributes: Attributes<'a>,
        /// Units to charge: the estimate, to be settled at the actual cost.
        #[serde(default)]
        #[schemars(extend("default" = 1))]
        pub(in crate::http) cost: CostUnits,
        /// Units in flight, at most 1,000; 0 takes and charges nothing.
        #[serde(default)]
        #[schemars(extend("default" = 1))]
        pub(in crate::http) units: CostUnits,
        /// How long the hold lives from its last renewal.
        #[serde(default)]
        #[schemars(with = "WrittenHoldLength", extend("default" = "1m"))]
        pub(in crate::http) expires_after: WrittenHoldLength,
        /// The id. Default: the service makes it.
        #[serde(default, deserialize_with = "json::some")]
        #[schemars(with = "WrittenHoldId")]
        pub(in crate::http) id: Option<WrittenHoldId>,
    }
}

/// Many reservations, each independent.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ReserveBatchRequest<'a> {
    #[serde(borrow)]
    #[schemars(length(min = 1, max = BatchRequest::MAX))]
    #[schemars(with = "Vec<ReserveEntryRequest<'a>>")]
    pub(in crate::http) requests: Vec<Object<ReserveEntryRequest<'a>>>,
}

/// A renewal of a hold.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct RenewRequest<'a> {
    /// `hold` of a reservation.
    #[serde(borrow)]
    #[schemars(with = "SealedHold")]
    pub(in crate::http) hold: Cow<'a, str>,
}

/// Many renewals, each independent.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct RenewBatchRequest<'a> {
    #[serde(borrow)]
    #[schemars(length(min = 1, max = BatchRequest::MAX))]
    #[schemars(with = "Vec<RenewEntryRequest<'a>>")]
    pub(in crate::http) requests: Vec<Object<RenewEntryRequest<'a>>>,
}

/// One of many renewals. If its hold is none, its own answer reports this.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct RenewEntryRequest<'a> {
    /// `hold` of a reservation.
    #[serde(borrow)]
    #[schemars(with = "String")]
    pub(in crate::http) hold: Cow<'a, str>,
}

/// The end of a hold, at the cost that its work turned out to have.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct SettleRequest<'a> {
    /// `hold` of a reservation.
    #[serde(borrow)]
    #[schemars(with = "SealedHold")]
    pub(in crate::http) hold: Cow<'a, str>,
    /// The actual cost; 0 gives everything back, except costs that a policy or an attribute sets: they do not change.
    pub(in crate::http) cost: CostUnits,
}

/// Many settlements, each independent.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct SettleBatchRequest<'a> {
    #[serde(borrow)]
    #[schemars(length(min = 1, max = BatchRequest::MAX))]
    #[schemars(with = "Vec<SettleEntryRequest<'a>>")]
    pub(in crate::http) requests: Vec<Object<SettleEntryRequest<'a>>>,
}

/// One of many settlements. If its hold is none, its own answer reports this.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct SettleEntryRequest<'a> {
    /// `hold` of a reservation.
    #[serde(borrow)]
    #[schemars(with = "String")]
    pub(in crate::http) hold: Cow<'a, str>,
    /// The actual cost, as in `/v1/settle`.
    pub(in crate::http) cost: CostUnits,
}

/// The answer to a reservation: the decision and, if it is admitted and takes or charges anything, the hold.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Reservation")]
pub(in crate::http) struct ReserveReply<'a> {
    #[serde(flatten)]
    decision: CheckReply<'a>,
    #[serde(flatten)]
    hold: Option<HoldReply>,
}

/// A hold as its caller has it.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct HoldReply {
    /// The hold for `/v1/renew` and `/v1/settle`, which only the service can read; absent if nothing is held.
    pub(in crate::http) hold: String,
    /// The id of the hold.
    pub(in crate::http) id: String,
    /// Milliseconds until the hold ends, unless it is renewed.
    pub(in crate::http) expires_after_ms: u32,
    /// `true` if an earlier call with this id has made the hold: this one took nothing, and the figures are those of
    /// that call. Otherwise absent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(in crate::http) repeated: bool,
}

/// The answers to a batch of reservations, in the order of its requests.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct ReserveBatchReply<'a> {
    pub(in crate::http) decisions: Vec<ReserveEntry<'a>>,
}

/// A decision, or the reason why there is none.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(in crate::http) enum ReserveEntry<'a> {
    Decision(ReserveReply<'a>),
    Rejection(#[schemars(with = "ProblemBody<'a>")] Rejection),
}

/// The answer to a renewal.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct RenewReply {
    status: RenewStatus,
    /// Milliseconds until the hold ends, unless it is renewed again; absent if it is not renewed.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_after_ms: Option<u64>,
}

/// What has become of a hold that is to be renewed. `renewed`: it lives. `lost`: its units in flight are not live any
/// more, because they were reset or the store lost them; its work should stop. `expired`: it has ended, or is unknown.
/// `ended`: it was settled. `gone`: nothing counts it, because it was admitted while the store could not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum RenewStatus {
    Renewed,
    Lost,
    Expired,
    Ended,
    Gone,
}

/// The answers to a batch of renewals, in the order of its requests.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct RenewBatchReply {
    pub(in crate::http) renewals: Vec<RenewEntry>,
}

/// An answer, or the reason why there is none.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(in crate::http) enum RenewEntry {
    Renewal(RenewReply),
    Rejection(#[schemars(with = "ProblemBody<'static>")] Rejection),
}

/// The answer to a settlement.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct SettleReply<'a> {
    status: SettleStatus,
    /// The quotas that changed; none unless the hold is settled.
    quotas: Vec<SettledQuota<'a>>,
}

/// What has become of a hold that is to be settled. `settled`: it has ended at this cost, or did so at the first call.
/// `expired`: it had ended, or is unknown, so its units stay charged. `gone`: nothing counted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SettleStatus {
    Settled,
    Expired,
    Gone,
}

/// The settlement of one quota.
#[derive(Serialize, JsonSchema)]
struct SettledQuota<'a> {
    policy: &'a str,
    quota: QuotaText<'a>,
    /// Units given back.
    given: u32,
    /// Units charged beyond the estimate.
    charged: u32,
    /// Units beyond the estimate that were not charged, because the policy has `overrun: cap`.
    forgiven: u32,
}

/// The answers to a batch of settlements, in the order of its requests.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct SettleBatchReply<'a> {
    pub(in crate::http) settlements: Vec<SettleEntry<'a>>,
}

/// An answer, or the reason why there is none.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(in crate::http) enum SettleEntry<'a> {
    Settlement(SettleReply<'a>),
    Rejection(#[schemars(with = "ProblemBody<'a>")] Rejection),
}

impl<'a> ReserveReply<'a> {
    pub(in crate::http) fn new(decision: &'a PolicyDecision, hold: Option<HoldReply>) -> Self {
        Self { decision: CheckReply::new(decision), hold }
    }
}

impl RenewReply {
    /// Returns the answer; an id with other terms is a conflict.
    pub(in crate::http) fn new(answer: RenewAnswer) -> Result<Self, Rejection> {
        let (status, left) = match answer {
            RenewAnswer::Renewed { left } => (RenewStatus::Renewed, Some(left)),
            RenewAnswer::Lost => (RenewStatus::Lost, None),
            RenewAnswer::Expired => (RenewStatus::Expired, None),
            RenewAnswer::Ended => (RenewStatus::Ended, None),
            RenewAnswer::Gone => (RenewStatus::Gone, None),
            RenewAnswer::Conflict => return Err(Rejection::id_conflict("hold")),
        };
        let millis = |left: Duration| u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        Ok(Self { status, expires_after_ms: left.map(millis) })
    }
}

impl<'a> SettleReply<'a> {
    /// Returns the answer; an id with other terms, or another cost than at the first call, is a conflict.
    pub(in crate::http) fn new(answer: &'a SettleAnswer) -> Result<Self, Rejection> {
        let (status, settlements) = match answer {
            SettleAnswer::Settled(settlements) => (SettleStatus::Settled, &**settlements),
            SettleAnswer::Expired => (SettleStatus::Expired, &[][..]),
            SettleAnswer::Gone => (SettleStatus::Gone, &[][..]),
            SettleAnswer::Conflict => return Err(Rejection::settle_conflict()),
        };
        Ok(Self { status, quotas: settlements.iter().map(SettledQuota::new).collect() })
    }
}

impl<'a> SettledQuota<'a> {
    fn new(settlement: &'a HoldSettlement) -> Self {
        let HoldSettlement { quota, given, charged, forgiven, .. } = settlement;
        Self {
            policy: quota.policy(),
            quota: QuotaText(quota),
            given: *given,
            charged: *charged,
            forgiven: *forgiven,
        }
    }
}

/// What a request holds.
pub(in crate::http) fn asked_hold(
    cost: CostUnits,
    units: CostUnits,
    expires_after: WrittenHoldLength,
    id: Option<WrittenHoldId>,
) -> AskedHold {
    let id = id.map_or_else(HoldId::random, |WrittenHoldId(id)| id);
    AskedHold { id, cost: cost.units(), units: units.units(), length: expires_after.0 }
}

/// The id of a hold in its written form.
#[derive(Debug, Clone, Copy)]
pub(in crate::http) struct WrittenHoldId(HoldId);

/// The length of a hold in its written form.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::http) struct WrittenHoldLength(HoldLength);

/// A hold, which only the service can read.
struct SealedHold;

impl<'de> Deserialize<'de> for WrittenHoldId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json::Text(text) = json::Text::deserialize(deserializer)?;
        // The error does not repeat the text: whoever reads an id could repeat the hold.
        text.parse().map(Self).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for WrittenHoldLength {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json::Text(text) = json::Text::deserialize(deserializer)?;
        let expected = |_| D::Error::custom("expected a length of 1ms to 1h, such as 30s");
        text.parse().map(Self).map_err(expected)
    }
}

impl JsonSchema for WrittenHoldId {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "WrittenHoldId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9A-Fa-f]{32}$" })
    }
}

impl JsonSchema for WrittenHoldLength {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "WrittenHoldLength".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string" })
    }
}

impl JsonSchema for SealedHold {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "SealedHold".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "minLength": 1, "maxLength": HoldSeal::MAX })
    }
}
