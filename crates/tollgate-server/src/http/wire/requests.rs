//! Bodies of requests.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use tollgate::{InFlight, Mark, PolicyInFlight, Quota, QuotaKind, Timestamp};
use tollgate_policy::{Attributes, MarkedCharge};

use crate::answer::rejection::Rejection;
use crate::request::attributes;
use crate::request::json::{self, CostUnits, Object, StartMillis, UsedUnits, Version, Whole};
use crate::talkers::TalkerId;

/// The name of the schema to which `openapi` adds the attributes that the live policies require.
pub(in crate::http) const KEY_ATTRIBUTES: &str = "Attributes";

/// Defines a request that may bring limits of its caller's own, with the schemas of their name and of their quotas.
macro_rules! may_bring_limits {
    ($(#[$doc:meta])* struct $name:ident<'a> with $policy:literal, $quotas:literal { $($fields:tt)* }) => {
        $(#[$doc])*
        #[derive(Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(in crate::http) struct $name<'a> {
            $($fields)*
            /// The name under which `quotas` are counted.
            #[serde(default, deserialize_with = "json::some")]
            #[schemars(with = $policy)]
            pub(in crate::http) policy: Option<Box<str>>,
            /// Limits of the caller, which replace the policies, if the service allows them (`--caller-quotas`).
            #[serde(default, deserialize_with = "json::some")]
            #[schemars(with = $quotas)]
            pub(in crate::http) quotas: Option<Vec<GivenLimit>>,
            /// The answer while the store cannot answer. Default: `open`. Only with `quotas`: each policy has its own.
            #[serde(default, deserialize_with = "json::some")]
            #[schemars(with = "OutageAnswer")]
            pub(in crate::http) on_store_failure: Option<OutageAnswer>,
        }
    };
}

pub(super) use may_bring_limits;

may_bring_limits! {
    /// A check: attributes and cost of a request.
    struct CheckRequest<'a> with "CallerName", "CallerQuotas" {
        #[serde(borrow, deserialize_with = "json::attributes")]
        #[schemars(with = "KeyAttributes")]
        pub(in crate::http) attributes: Attributes<'a>,
        /// Units to charge; 0 only peeks.
        #[serde(default)]
        #[schemars(extend("default" = 1))]
        pub(in crate::http) cost: CostUnits,
    }
}

may_bring_limits! {
    /// A peek: attributes and cost of a request.
    struct PeekRequest<'a> with "CallerName", "CallerQuotas" {
        #[serde(borrow, deserialize_with = "json::attributes")]
        #[schemars(with = "KeyAttributes")]
        pub(in crate::http) attributes: Attributes<'a>,
        /// Units that would be charged; 0 is answered like 1.
        #[serde(default)]
        #[schemars(extend("default" = 1))]
        pub(in crate::http) cost: CostUnits,
    }
}

/// Many requests, each decided independently.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct BatchRequest<'a> {
    #[serde(borrow)]
    #[schemars(length(min = 1, max = Self::MAX))]
    #[schemars(with = "Vec<BatchEntryRequest<'a>>")]
    pub(in crate::http) requests: Vec<Object<BatchEntryRequest<'a>>>,
}

may_bring_limits! {
    /// One of many requests. If it lacks an attribute, or its limits are invalid, its own answer reports this.
    struct BatchEntryRequest<'a> with "String", "Vec<String>" {
        #[serde(borrow, deserialize_with = "json::attributes")]
        #[schemars(with = "AnyAttributes")]
        pub(in crate::http) attributes: Attributes<'a>,
        /// Units to charge; 0 only peeks.
        #[serde(default)]
        #[schemars(extend("default" = 1))]
        pub(in crate::http) cost: CostUnits,
    }
}

impl BatchRequest<'_> {
    pub(in crate::http) const MAX: usize = 100;

    /// Checks the number of requests in a batch.
    ///
    /// # Errors
    ///
    /// If there are none or too many.
    pub(in crate::http) fn check_length(length: usize) -> Result<(), Rejection> {
        if (1..=Self::MAX).contains(&length) {
            return Ok(());
        }
        Err(Rejection::bad_field("requests", format!("expected 1 to {} requests", Self::MAX)))
    }
}

/// A record: attributes and units of a request.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct RecordRequest<'a> {
    #[serde(borrow, deserialize_with = "json::attributes")]
    #[schemars(with = "KeyAttributes")]
    pub(in crate::http) attributes: Attributes<'a>,
    /// Units to count, without asking for room.
    #[serde(default)]
    #[schemars(extend("default" = 1))]
    pub(in crate::http) cost: CostUnits,
}

/// Many records, each independent.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct RecordBatchRequest<'a> {
    #[serde(borrow)]
    #[schemars(length(min = 1, max = BatchRequest::MAX))]
    #[schemars(with = "Vec<RecordEntryRequest<'a>>")]
    pub(in crate::http) requests: Vec<Object<RecordEntryRequest<'a>>>,
}

/// One of many records. If it lacks an attribute, its own answer reports this.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct RecordEntryRequest<'a> {
    #[serde(borrow, deserialize_with = "json::attributes")]
    #[schemars(with = "AnyAttributes")]
    pub(in crate::http) attributes: Attributes<'a>,
    /// Units to count, without asking for room.
    #[serde(default)]
    #[schemars(extend("default" = 1))]
    pub(in crate::http) cost: CostUnits,
}

/// A quota or a limit in flight in its written form.
pub(in crate::http) enum GivenLimit {
    Quota(Quota),
    InFlight(InFlight),
}

impl<'de> Deserialize<'de> for GivenLimit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json::Text(text) = json::Text::deserialize(deserializer)?;
        match text.contains(PolicyInFlight::SERIES) {
            true => text.parse().map(Self::InFlight).map_err(json::not_a_quota),
            false => text.parse().map(Self::Quota).map_err(json::not_a_quota),
        }
    }
}

impl<'de> Deserialize<'de> for TalkerId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json::Text(text) = json::Text::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

/// The answer while the store cannot answer: `open` admits without counting, `closed` refuses with status 503.
#[derive(Debug, Clone, Copy, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum OutageAnswer {
    Open,
    Closed,
}

impl<'de> Deserialize<'de> for OutageAnswer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json::Text(text) = json::Text::deserialize(deserializer)?;
        match &*text {
            "open" => Ok(Self::Open),
            "closed" => Ok(Self::Closed),
            _ => Err(D::Error::custom("expected open or closed")),
        }
    }
}

/// A refund: the attributes of a check, or the talker that made it, and what it charged.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct RefundRequest<'a> {
    #[serde(borrow, default, deserialize_with = "json::some_attributes")]
    #[schemars(with = "KeyAttributes")]
    pub(in crate::http) attributes: Option<Attributes<'a>>,
    /// The policy of the talker, in place of `attributes`.
    #[serde(default, deserialize_with = "json::some")]
    #[schemars(with = "String")]
    pub(in crate::http) policy: Option<Box<str>>,
    /// The id of the talker.
    #[serde(default, deserialize_with = "json::some")]
    #[schemars(with = "String")]
    pub(in crate::http) id: Option<TalkerId>,
    /// Units to give back to each named window, at most the used ones; where a policy fixes the cost, that cost.
    #[serde(default)]
    #[schemars(extend("default" = 1))]
    pub(in crate::http) cost: CostUnits,
    /// `version` of the check's answer.
    pub(in crate::http) version: Version,
    /// The charges to give back, of each quota at most one.
    #[schemars(with = "Vec<RefundWindow>")]
    pub(in crate::http) windows: Vec<Object<RefundWindow>>,
}

/// The maximum number of limits in one request of a caller.
const MAX_CALLER_QUOTAS: usize = 8;

/// Refuses an empty or a too long list of a caller's limits.
pub(in crate::http) fn expect_caller_quotas(limits: &[GivenLimit]) -> Result<(), Rejection> {
    if (1..=MAX_CALLER_QUOTAS).contains(&limits.len()) {
        return Ok(());
    }
    Err(Rejection::bad_field("quotas", format!("expected 1 to {MAX_CALLER_QUOTAS} quotas")))
}

/// A charge, named as in the check's answer: by `start` for fixed windows, else by `mark`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct RefundWindow {
    /// `policy` of the check's answer, or of an entry of its `quotas`.
    policy: String,
    /// `quota` from the same place; its limit may have changed since.
    #[serde(deserialize_with = "json::quota")]
    #[schemars(with = "String")]
    quota: Quota,
    /// `window.start` from the same place.
    #[serde(default, deserialize_with = "json::some")]
    #[schemars(with = "StartMillis")]
    start: Option<StartMillis>,
    /// `mark` from the same place.
    #[serde(default, deserialize_with = "json::some")]
    #[schemars(with = "StartMillis")]
    mark: Option<StartMillis>,
}

impl RefundWindow {
    /// Returns the field that has the time.
    pub(in crate::http) fn time_field(&self) -> &'static str {
        if self.quota.kind() == QuotaKind::Window { "start" } else { "mark" }
    }

    /// Returns the charge that this names, which is at this place of the list.
    pub(in crate::http) fn charge(self, index: usize) -> Result<MarkedCharge, Rejection> {
        let field = self.time_field();
        let (time, other) = match field {
            "start" => (self.start, self.mark.map(|_| "mark")),
            _ => (self.mark, self.start.map(|_| "start")),
        };
        let quota = &self.quota;
        if let Some(other) = other {
            let detail = format!("{quota} is named by its `{field}`");
            return Err(Rejection::bad_field(format!("windows[{index}].{other}"), detail));
        }
        let time = time.ok_or_else(|| {
            let detail = format!("missing field `{field}`, which is in the check's answer");
            Rejection::bad_field(format!("windows[{index}].{field}"), detail)
        })?;
        let time = Timestamp::from_unix_millis(i64::try_from(time.value()).unwrap_or(i64::MAX));
        Ok(MarkedCharge::new(&self.policy, self.quota, Mark::at(time)))
    }
}

/// A reset: the attributes whose counters are reset, or a talker.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ResetRequest<'a> {
    #[serde(borrow, default, deserialize_with = "json::some_attributes")]
    #[schemars(with = "KeyAttributes")]
    pub(in crate::http) attributes: Option<Attributes<'a>>,
    /// The id of a talker of `policy`, in place of `attributes`.
    #[serde(default, deserialize_with = "json::some")]
    #[schemars(with = "String")]
    pub(in crate::http) id: Option<TalkerId>,
    /// The policy to change. Default: all.
    #[serde(default, deserialize_with = "json::some")]
    #[schemars(with = "String")]
    pub(in crate::http) policy: Option<Box<str>>,
    /// The quota to change, or the limit in flight; its limit is ignored. Default: all.
    #[serde(default, deserialize_with = "json::some")]
    #[schemars(with = "String")]
    pub(in crate::http) quota: Option<GivenLimit>,
}

/// A set: the attributes whose counters are set, or a talker, and their value.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct SetRequest<'a> {
    #[serde(borrow, default, deserialize_with = "json::some_attributes")]
    #[schemars(with = "KeyAttributes")]
    pub(in crate::http) attributes: Option<Attributes<'a>>,
    /// The id of a talker of `policy`, in place of `attributes`.
    #[serde(default, deserialize_with = "json::some")]
    #[schemars(with = "String")]
    pub(in crate::http) id: Option<TalkerId>,
    /// The new usage of each quota; may be above the limit.
    pub(in crate::http) used: UsedUnits,
    /// The policy to change. Default: all.
    #[serde(default, deserialize_with = "json::some")]
    #[schemars(with = "String")]
    pub(in crate::http) policy: Option<Box<str>>,
    /// The quota to change, or the limit in flight; its limit is ignored. Default: all.
    #[serde(default, deserialize_with = "json::some")]
    #[schemars(with = "String")]
    pub(in crate::http) quota: Option<GivenLimit>,
}

/// No fields; an empty body works as well.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ReloadRequest {}

/// Attributes of a request, with those that the live policies require.
pub(super) struct KeyAttributes;

/// Attributes of a request, whatever the policies are.
pub(super) struct AnyAttributes;

impl JsonSchema for KeyAttributes {
    fn schema_name() -> Cow<'static, str> {
        KEY_ATTRIBUTES.into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        AnyAttributes::json_schema(generator)
    }
}

impl JsonSchema for AnyAttributes {
    fn schema_name() -> Cow<'static, str> {
        "AnyAttributes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "description": "Attributes of the request",
            "additionalProperties": { "anyOf": [
                { "type": ["string", "boolean"] },
                { "type": "array", "items": { "type": "string" }, "maxItems": attributes::MAX_TEXTS },
            ] },
            "propertyNames": { "minLength": 1, "maxLength": Attributes::MAX_NAME },
            "maxProperties": attributes::MAX,
        })
    }
}

/// The name of limits that a caller gives.
pub(super) struct CallerName;

/// Limits that a caller gives.
pub(super) struct CallerQuotas;

impl JsonSchema for CallerName {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "CallerName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$" })
    }
}

impl JsonSchema for CallerQuotas {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "CallerQuotas".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let quota = json_schema!({ "type": "string" });
        json_schema!({ "type": "array", "items": quota, "minItems": 1, "maxItems": MAX_CALLER_QUOTAS })
    }
}

impl<const MAX: u64> JsonSchema for Whole<MAX> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("WholeTo{MAX}").into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": 0, "maximum": MAX })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::json::read;

    #[track_caller]
    fn wrong(body: &str, field: &str, detail: &str) {
        let found = read::<CheckRequest<'_>>(body.as_bytes()).map(drop).unwrap_err();
        assert_eq!((found.field.as_str(), found.detail.as_str()), (field, detail), "{body}");
    }

    #[test]
    fn names_the_field_that_is_wrong() {
        let cost = "expected a whole number from 0 to 4294967295";
        for number in ["-1", "4294967296", "1.5", "1e300", "\"2\"", "null", "true", "[1]", "-1.0"] {
            wrong(&format!(r#"{{"attributes": {{"user": "alice"}}, "cost": {number}}}"#), "cost", cost);
        }
        wrong(
            r#"{"attributes": {"user": 7}}"#,
            "attributes.user",
            "expected a string, a boolean or a list of strings",
        );
        wrong(
            r#"{"attributes": {"user": null}}"#,
            "attributes.user",
            "expected a string, a boolean or a list of strings",
        );
        wrong(r#"{"attributes": {"roles": ["a", true]}}"#, "attributes.roles[1]", "expected a string");
        let long = format!(r#"{{"attributes": {{"roles": [{}]}}}}"#, vec![r#""a""#; 65].join(", "));
        wrong(&long, "attributes.roles", "more than 64 strings");
        for secret in ["secret", "secret at line 1", "secret, expected secret"] {
            let body = format!(r#"{{"attributes": "{secret}"}}"#);
            wrong(&body, "attributes", "expected an object of strings, lists of strings and booleans");
        }
        wrong(r#"{"cost": 1}"#, "attributes", "missing field `attributes`");
        wrong(r#"[{"user": "alice"}, 1]"#, "body", "expected an object");
        wrong(
            r#"{"attributes": {}, "costs": 1}"#,
            "costs",
            "unknown field `costs`, expected one of `attributes`, `cost`, `policy`, `quotas`, \
             `on_store_failure`",
        );
        wrong(r#"{"attributes": {"a": "1", "a": "2"}}"#, "attributes", "the attribute `a` is given twice");
    }

    #[test]
    fn names_the_request_of_a_batch() {
        let body = br#"{"requests": [{"attributes": {"user": "alice"}}, {"attributes": {"user": [7]}}]}"#;
        let found = read::<BatchRequest<'_>>(body).map(drop).unwrap_err();
        assert_eq!(found.field, "requests[1].attributes.user[0]");
    }

    #[test]
    fn says_where_it_is_no_json() {
        for body in ["{", "nonsense", "{\"attributes\": {\"user\": \"\\ud800\"}}", "\u{1}", " "] {
            let found = read::<CheckRequest<'_>>(body.as_bytes()).map(drop).unwrap_err();
            assert_eq!(found.field, "body", "{body}: {found:?}");
            assert!(found.detail.starts_with("no JSON: "), "{body}: {found:?}");
        }
        // The rest of the text does not matter until the object is valid.
        wrong("{}}", "attributes", "missing field `attributes`");
        wrong("", "body", r#"the body is empty; expected {"attributes": {...}}"#);
        let batch = read::<BatchRequest<'_>>(b"").map(drop).unwrap_err();
        assert_eq!(batch.detail, r#"the body is empty; expected {"requests": [...]}"#);
    }

    #[test]
    fn a_whole_number_may_be_written_with_a_fraction_of_zero() {
        let request = read::<CheckRequest<'_>>(br#"{"attributes": {"user": "alice"}, "cost": 2.0}"#);
        assert_eq!(request.map(|request| request.cost.units()), Ok(2));
    }
}
