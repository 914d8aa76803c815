//! What is asked.

use serde::Deserialize;
use tollgate::{Quota, Timestamp};
use tollgate_policy::{Attributes, ChargedWindow};

use crate::http::json::{self, Cost, Object, StartMillis, Used};

/// What a request takes, and for whom.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct CheckRequest<'a> {
    #[serde(borrow, deserialize_with = "json::attributes")]
    pub(in crate::http) attributes: Attributes<'a>,
    #[serde(default)]
    pub(in crate::http) cost: Cost,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct BatchRequest<'a> {
    #[serde(borrow)]
    pub(in crate::http) requests: Vec<Object<CheckRequest<'a>>>,
}

impl BatchRequest<'_> {
    pub(in crate::http) const MAX: usize = 100;
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct RefundRequest<'a> {
    #[serde(borrow, deserialize_with = "json::attributes")]
    pub(in crate::http) attributes: Attributes<'a>,
    #[serde(default)]
    pub(in crate::http) cost: Cost,
    pub(in crate::http) windows: Vec<Object<RefundWindow>>,
}

/// A window that was charged, by what the check answered of its quota.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct RefundWindow {
    policy: String,
    #[serde(deserialize_with = "json::quota")]
    quota: Quota,
    start: StartMillis,
}

impl From<RefundWindow> for ChargedWindow {
    fn from(RefundWindow { policy, quota, start }: RefundWindow) -> Self {
        let start = i64::try_from(start.value()).unwrap_or(i64::MAX);
        Self::new(&policy, quota, Timestamp::from_unix_millis(start))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct ResetRequest<'a> {
    #[serde(borrow, deserialize_with = "json::attributes")]
    pub(in crate::http) attributes: Attributes<'a>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::http) struct SetRequest<'a> {
    #[serde(borrow, deserialize_with = "json::attributes")]
    pub(in crate::http) attributes: Attributes<'a>,
    pub(in crate::http) used: Used,
}
