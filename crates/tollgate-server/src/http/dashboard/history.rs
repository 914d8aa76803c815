//! `GET /v1/policies/history`: the last reloads, and what is probably wrong in the live limits.

use http::StatusCode;

use super::live::MAX_WARNINGS;
use crate::access::caller::Caller;
use crate::answer::rejection::Rejection;
use crate::http::wire::{HistoryReply, ReloadEntry, WarningRow};
use crate::http::{Edge, Reply, reply};

impl Edge {
    /// Reloads and warnings name policies, so callers that may use only some are refused.
    pub(in crate::http) fn policy_history(&self, caller: &Caller) -> Result<Reply, Rejection> {
        caller.may_touch_all()?;
        let warnings = self.dashboard()?.warnings.all();
        let records = self.followed.source.reloads().map(|reloads| reloads.records());
        let body = HistoryReply {
            reloads: records.iter().flatten().map(|record| ReloadEntry::new(record)).collect(),
            warnings: warnings.iter().take(MAX_WARNINGS).map(WarningRow::from).collect(),
            warnings_count: warnings.len(),
        };
        Ok(reply::json(StatusCode::OK, &body))
    }
}
