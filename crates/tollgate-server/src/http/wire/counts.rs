//! Counts under a caller's own limits: requests, and their answers.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use tollgate::{PolicyQuota, Quota, QuotaKind, QuotaStates, Source, WindowLength};
use tollgate_policy::{Attributes, CountOperation, CountState, CountTerms, QuotaChanges};
use tollgate_wire::body::{Algorithm, DecisionSource, QuotaText, WindowBody, millis};

use super::requests::{AnyAttributes, BatchRequest, CallerName, CallerQuotas, GivenLimit, OutageAnswer};
use crate::answer::rejection::Rejection;
use crate::http::problem::ProblemBody;
use crate::request::json::{self, CostUnits, Object, UsedUnits};

/// Defines a count, with the schemas of its name, its quotas and its window.
macro_rules! count {
    ($(#[$doc:meta])* $name:ident with $policy:literal, $quotas:literal, $window:literal) => {
        $(#[$doc])*
        #[derive(Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub(in crate::http) struct $name<'a> {
            /// All of them together are the key.
            #[serde(borrow, deserialize_with = "json::attributes")]
            #[schemars(with = "AnyAttributes")]
            pub(in crate::http) attributes: Attributes<'a>,
            /// The name of the counters. They belong to `NAME:caller`, and never meet those of policies.
            #[schemars(with = $policy)]
            pub(in crate::http) policy: Box<str>,
            /// The limits, such as `5/1m@first_hit`. `add` and `subtract` need fixed windows. Either these or `window`.
            #[serde(default, deserialize_with = "json::some")]
            #[schemars(with = $quotas)]
            pub(in crate::http) quotas: Option<Vec<GivenLimit>>,
            /// A window without a limit, such as `1m@first_hit`. It has the counter of every limit with this window.
            #[serde(default, deserialize_with = "json::some")]
            #[schemars(with = $window)]
            pub(in crate::http) window: Option<BareWindow>,
            #[serde(default)]
            #[schemars(extend("default" = "add"))]
            pub(in crate::http) operation: OperationName,
            /// Units to add or to subtract, or that `get` asks about. Default: 1. Not for `set` and `reset`.
            #[serde(default, deserialize_with = "json::some")]
            #[schemars(with = "CostUnits")]
            pub(in crate::http) cost: Option<CostUnits>,
            /// Units that are used from now on. Only for `set`, which needs it.
            #[serde(default, deserialize_with = "json::some")]
            #[schemars(with = "UsedUnits")]
            pub(in crate::http) used: Option<UsedUnits>,
            /// How long a key is blocked that exceeds its only quota, such as `30s`. Meanwhile `add` counts nothing, and
            /// after that, it is counted from 0 again. For `add`, `get` and `reset`, with a quota of fixed windows.
            #[serde(default, deserialize_with = "json::some")]
            #[schemars(with = "WrittenBlockLength")]
            pub(in crate::http) block: Option<BlockLength>,
            /// The answer to `add` and `get` while the store cannot answer. Default: `open`. The other operations are
            /// refused then.
            #[serde(default, deserialize_with = "json::some")]
            #[schemars(with = "OutageAnswer")]
            pub(in crate::http) on_store_failure: Option<OutageAnswer>,
        }
    };
}

count! {
    /// A count under limits of the caller's own.
    CountRequest with "CallerName", "CallerQuotas", "WrittenWindow"
}

count! {
    /// One of many counts. If its limits are invalid, its own answer reports this.
    CountEntryRequest with "String", "Vec<String>", "WrittenWindow"
}

/// The same fields, of either.
impl<'a> From<CountRequest<'a>> for CountEntryRequest<'a> {
    fn from(request: CountRequest<'a>) -> Self {
        let CountRequest {
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
        Self { attributes, policy, quotas, window, operation, cost, used, block, on_store_failure }
    }
}

/// Many counts, each independent.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct CountBatchRequest<'a> {
    #[serde(borrow)]
    #[schemars(length(min = 1, max = BatchRequest::MAX))]
    #[schemars(with = "Vec<CountEntryRequest<'a>>")]
    pub(in crate::http) requests: Vec<Object<CountEntryRequest<'a>>>,
}

/// What to do with the counters. `add` counts the cost, whether or not there is room. `subtract` gives back up to the cost
/// to the windows that are open. `get` changes nothing. `set` sets the used units, and `reset` sets them to zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::http) enum OperationName {
    #[default]
    Add,
    Subtract,
    Get,
    Set,
    Reset,
}

/// A window without a limit: a quota with the largest limit.
pub(in crate::http) struct BareWindow(pub(in crate::http) Quota);

impl<'de> Deserialize<'de> for OperationName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json::Text(text) = json::Text::deserialize(deserializer)?;
        match &*text {
            "add" => Ok(Self::Add),
            "subtract" => Ok(Self::Subtract),
            "get" => Ok(Self::Get),
            "set" => Ok(Self::Set),
            "reset" => Ok(Self::Reset),
            _ => Err(D::Error::custom("expected add, subtract, get, set or reset")),
        }
    }
}

impl<'de> Deserialize<'de> for BareWindow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json::Text(text) = json::Text::deserialize(deserializer)?;
        let quota = format!("{}/{text}", Quota::MAX_LIMIT).parse::<Quota>();
        let quota = quota.ok().filter(|quota| quota.kind() == QuotaKind::Window);
        quota.map(Self).ok_or_else(|| {
            D::Error::custom(
                "expected a fixed window without a limit, such as 1m, 1m@first_hit or day@Europe/Berlin",
            )
        })
    }
}

/// How long a block lives.
pub(in crate::http) struct BlockLength(pub(in crate::http) Duration);

impl<'de> Deserialize<'de> for BlockLength {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json::Text(text) = json::Text::deserialize(deserializer)?;
        // Of what quotas can say of their windows, only a number with its unit.
        let is_plain = text.starts_with(|first: char| first.is_ascii_digit())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let quota = is_plain.then(|| format!("1/{text}@first_hit").parse::<Quota>());
        match quota.transpose().map(|quota| quota.map(|quota| (quota.kind(), quota.window()))) {
            Ok(Some((QuotaKind::Window, WindowLength::Fixed(length)))) => Ok(Self(length)),
            _ => Err(D::Error::custom("expected a length of 1ms to 3653d, such as 30s")),
        }
    }
}

/// The length of a block in its written form.
struct WrittenBlockLength;

impl JsonSchema for WrittenBlockLength {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "WrittenBlockLength".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["30s", "1m", "1h"] })
    }
}

/// A window in its written form.
struct WrittenWindow;

impl JsonSchema for WrittenWindow {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "WrittenWindow".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["1m", "1m@first_hit", "day@Europe/Berlin"] })
    }
}

/// Whether a count names limits, or a window without one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::http) enum CountForm {
    Quotas,
    Window,
}

/// The state of a caller's counters. The single figures are those of the quota that decides: one whose limit is exceeded,
/// else the one with the least remaining share. While the store cannot answer, there are no figures.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Count")]
pub(in crate::http) struct CountReply<'a> {
    /// For `add`, whether no limit is exceeded with the units that were just counted; for `get`, whether the cost would
    /// fit. Absent for the other operations, and for a window without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<bool>,
    /// `NAME:caller`.
    policy: &'a str,
    /// Whether the key is blocked; absent unless the call names a block.
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked: Option<bool>,
    /// Milliseconds until the block ends; absent unless the key is blocked.
    #[serde(skip_serializing_if = "Option::is_none")]
    block_after_ms: Option<u64>,
    #[serde(flatten)]
    figures: Option<CountFigures<'a>>,
    source: DecisionSource,
    /// The states of all quotas that are counted; absent unless the call has several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    quotas: Vec<CountFigures<'a>>,
}

/// The state of one counter.
#[derive(Serialize, JsonSchema)]
struct CountFigures<'a> {
    /// The quota in its written form; absent for a window without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<QuotaText<'a>>,
    /// The window without a limit, in its written form.
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<&'a str>,
    /// Absent for a window without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    /// How the quota counts; absent for fixed windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    algorithm: Option<Algorithm>,
    /// Units that count now, or counted when the block began; may be above the limit.
    used: u64,
    /// Units left, and none while the key is blocked; absent for a window without a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining: Option<u64>,
    /// Milliseconds until nothing is used: for fixed windows, until the window ends.
    reset_after_ms: u64,
    /// Milliseconds to wait before the cost fits; absent if it is allowed or can never fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    /// The open window; absent while the key is blocked, and unless the quota counts in fixed windows.
    #[serde(skip_serializing_if = "Option::is_none")]
    window: Option<WindowBody>,
}

/// The results of a batch of counts, in the order of its requests.
#[derive(Serialize, JsonSchema)]
pub(in crate::http) struct CountBatchReply<'a> {
    pub(in crate::http) counts: Vec<CountEntry<'a>>,
}

/// The state of the counters, or the reason why there is none.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
pub(in crate::http) enum CountEntry<'a> {
    Count(CountReply<'a>),
    Rejection(#[schemars(with = "ProblemBody<'a>")] Rejection),
}

impl<'a> CountReply<'a> {
    /// Returns the answer to a count on these terms; `None` if it has no counter.
    pub(in crate::http) fn new(
        counted: &'a QuotaChanges<CountState>,
        terms: &CountTerms,
        form: CountForm,
    ) -> Option<Self> {
        let states: Vec<(&PolicyQuota, &CountState)> =
            counted.iter().map(|(_, quota, state)| (quota, state)).collect();
        let deciding = states.iter().map(|(_, counted)| counted.state).collect::<QuotaStates>().deciding();
        let (quota, counted @ CountState { state, is_blocked, .. }) = states.get(deciding)?;
        let asks_for_room = matches!(terms.operation(), CountOperation::Add(_) | CountOperation::Get(_));
        let allowed = (asks_for_room && form == CountForm::Quotas).then(|| state.has_room());
        let figures = |quota: &'a PolicyQuota, counted| CountFigures::new(quota, counted, form);
        let is_fallback = |counted: &CountState| counted.state.source() == Source::Fallback;
        let is_uncounted = states.iter().any(|(_, counted)| is_fallback(counted));
        Some(match is_uncounted && (state.has_room() || state.source() == Source::Fallback) {
            true => Self {
                allowed: allowed.map(|_| true),
                policy: quota.policy(),
                blocked: None,
                block_after_ms: None,
                figures: None,
                source: DecisionSource::Fallback,
                quotas: Vec::new(),
            },
            false => Self {
                allowed,
                policy: quota.policy(),
                blocked: terms.block_length().map(|_| *is_blocked),
                block_after_ms: is_blocked.then(|| millis(state.reset_after())),
                figures: Some(figures(quota, counted)),
                source: state.source().into(),
                quotas: match states.len() {
                    1 => Vec::new(),
                    _ => {
                        let counted = states.iter().filter(|(_, counted)| !is_fallback(counted));
                        counted.map(|(quota, counted)| figures(quota, counted)).collect()
                    }
                },
            },
        })
    }
}

impl<'a> CountFigures<'a> {
    fn new(quota: &'a PolicyQuota, counted: &CountState, form: CountForm) -> Self {
        let CountState { state, is_blocked, .. } = counted;
        let is_limited = form == CountForm::Quotas;
        Self {
            quota: is_limited.then_some(QuotaText(quota)),
            series: (!is_limited).then(|| quota.windows()),
            limit: is_limited.then(|| state.limit()),
            algorithm: Algorithm::of(state),
            used: state.used(),
            remaining: is_limited.then(|| if *is_blocked { 0 } else { state.remaining() }),
            reset_after_ms: millis(state.reset_after()),
            retry_after_ms: state.retry_after().filter(|_| is_limited).map(millis),
            // Nobody knows with which length a block began.
            window: state.window().filter(|_| !is_blocked).map(Into::into),
        }
    }
}
