//! Policies: many limits for different requests and clients, in a file or in code.
//!
//! A policy file turns the [`Attributes`] of a request into charges for a store.
//!
//! ```
//! use tollgate_policy::{Attributes, Config, Outcome};
//!
//! let config = Config::parse(
//!     "tollgate.yaml",
//!     "
//! policies:
//!   - name: login
//!     match: { path: /login }
//!     key: [ip]
//!     quotas: [5/1m, 100/day]
//! ",
//! )?;
//!
//! let attributes: Attributes<'_> = [("path", "/login"), ("ip", "192.0.2.7")].into_iter().collect();
//! let Ok(Outcome::Charge(matched)) = config.policies().charges(&attributes, 1) else { unreachable!() };
//! assert_eq!(matched.enforced().count(), 2);
//!
//! let attributes: Attributes<'_> = [("path", "/login")].into_iter().collect();
//! let refusal = config.policies().charges(&attributes, 1).unwrap_err();
//! assert_eq!(refusal.to_string(), "policy `login`: the request has no key: `ip` is missing");
//! # Ok::<(), tollgate_policy::ConfigError>(())
//! ```
//!
//! # How a request flows
//!
//! ```text
//! YAML ─▶ tree ─▶ raw file ─▶ resolved policies ─▶ index ─▶ matched ─▶ charges
//!         text    sections,   checked values,      which    conditions, keys,
//!         with    all as      defaults filled in   policies overrides   costs
//!         places  written                          may match
//! ```
//!
//! The stages before the index run once, when a file is loaded, and collect every [`Problem`] with its line and column.
//! The stages after it run for each request, and fail only if the request lacks something.
//!
//! A [`PolicyLimiter`] charges a store, and its policies can be replaced while it runs. Policies can also be [built in
//! code](Policy::builder). Several policies can apply to one request;
//! [`PolicyLimiter`](PolicyLimiter#where-several-policies-apply) has the rules.
//!
//! # Features
//!
//! No feature is on by default; policies built in code need none.
//!
//! | Feature | Adds |
//! |---|---|
//! | `file` | policy files ([`Config`]), with a YAML parser, the [schema](json_schema), and calendar quotas |
//!
//! The manual in `docs/` of the repository continues: `policies.md` explains every key of a file, with recipes,
//! `file.md` lists them, and `warnings.md` explains the codes of warnings.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod attributes;
mod builder;
mod changes;
mod condition;
mod conditions;
#[cfg(feature = "file")]
mod config;
mod content;
mod cost;
mod expression;
#[cfg(feature = "file")]
mod file;
#[cfg_attr(not(feature = "file"), expect(dead_code, reason = "only files have them"))]
mod file_overrides;
mod generation;
mod identity;
mod implied;
mod index;
mod key_reading;
mod limit;
mod limit_text;
mod limiter;
#[cfg_attr(not(feature = "file"), expect(dead_code, reason = "only files have them"))]
mod list;
mod matched;
mod overlap;
mod overlap_index;
mod overrides;
mod overrun;
mod policies;
mod policy;
#[cfg(feature = "file")]
mod problem;
mod reading;
#[cfg(feature = "file")]
mod resolve;
mod scalar;
#[cfg(feature = "file")]
mod schema;
mod value;
mod view;
#[cfg(feature = "file")]
mod warning;

pub use self::attributes::Attributes;
pub use self::builder::{PolicyBuilder, PolicyError};
pub use self::changes::{Change, ChangedSetting, Changes};
pub use self::condition::{Condition, Lowercase, Pattern, Test};
pub use self::conditions::Conditions;
#[cfg(feature = "file")]
pub use self::config::{Config, StoreSettings};
pub use self::cost::{Cost, CostAttribute, CostError, OnMissingCost};
pub use self::expression::{Expression, ExpressionError};
pub use self::file_overrides::{FileOverride, FileOverrideTable};
pub use self::generation::{Generation, GenerationError, GenerationWriter};
pub use self::identity::{Choices, Identity, KeyFault, NoKey};
pub use self::key_reading::describe_descriptor;
pub use self::limit::{LimitAttribute, LimitError, OnMissingLimit, QuotaSpec};
pub use self::limiter::{
    AppliedOverride, AskedCheck, AskedCount, AskedHold, BlockError, ChargedKey, CheckError, CountOperation,
    CountState, CountTerms, ForgottenUnits, Ground, HoldPart, HoldSettlement, HoldTally, InFlightPart,
    InFlightStanding, MarkedCharge, Matching, OverriddenPolicy, PolicyDecision, PolicyHold, PolicyLimit,
    PolicyLimiter, PolicySet, QuotaChanges, QuotaRefund, QuotaStanding, RefundError, RenewAnswer,
    ReserveAnswer, SettleAnswer, Tally, TogetherError, TrialAnswer, TrialDecision, TrialTally, WhenFull,
};
pub use self::list::List;
pub use self::matched::{MatchedPolicies, MatchedPolicy, Outcome, Refusal, Trial, TrialKind};
pub use self::overlap_index::OverlapIndex;
pub use self::overrides::{
    ActiveOverrides, DeniedCount, InertReason, OverrideDigest, OverrideEntry, OverrideFit, OverrideKey,
    OverrideLimits, OverrideLimitsError, OverrideName, OverrideNameError, OverrideQuotas, OverrideRecord,
    OverrideSet, OverrideState, OverrideTarget, OverrideTargetError, OverridesLoad, OverridesVersion,
    OverridesVersionError, TargetValue,
};
pub use self::overrun::Overrun;
pub use self::policies::{Policies, UnmatchedRequests};
pub use self::policy::{Mode, OnMissingKey, Policy, PolicyKind};
#[cfg(feature = "file")]
pub use self::problem::PolicyProblem;
pub use self::reading::SentReading;
#[cfg(feature = "file")]
pub use self::schema::json_schema;
pub use self::value::{AttributeValue, Texts, Value};
pub use self::view::{UndecidedValue, UnknownValue, View};
#[cfg(feature = "file")]
pub use self::warning::{Warning, WarningKind};
// Places in files, and what reading them takes and gives.
#[cfg(feature = "file")]
pub use tollgate_yaml::{ConfigError, Problem, ProblemKind, Sources, nearest};
pub use tollgate_yaml::{Position, Printable};
// What `cidr` holds, and `headers`.
pub use tollgate_http::{Grouping, HeaderFormat, HeaderFormats, HeaderFormatsError, Network, NetworkError};
