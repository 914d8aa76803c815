//! What is asked.

use serde::Deserialize;
use tollgate_policy::Attributes;

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
    /// The start of the window that was charged, for each quota.
    pub(in crate::http) windows: Vec<StartMillis>,
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
