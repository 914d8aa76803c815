//! Reloads for administrators: the last ones, and another one now.

use std::sync::Arc;

use http::{Request, StatusCode};
use hyper::body::Incoming;
use schemars::JsonSchema;
use serde::Serialize;

use super::wire::ReloadRequest;
use super::{Edge, Reply, reply};
use crate::access::caller::Caller;
use crate::answer::rejection::Rejection;
use crate::answer::rejection_kind::RejectionKind;
use crate::live::cause::Cause;
use crate::live::record::{ReloadOutcome, ReloadRecord};
use crate::live::reload::{self, Reload};
use crate::live::rule_source::RuleSource;
use crate::live::target::ReloadResult;
use crate::net::body;
use crate::request::json;

/// A file that did not become live.
#[derive(Serialize, JsonSchema)]
pub(super) struct NotLive {
    /// When it was read, in Unix milliseconds.
    since: i64,
    /// Its problems, one per line, or the reason why it cannot be read.
    error: String,
}

/// A reload.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Reload")]
pub(super) struct ReloadBody {
    /// When it ended, in Unix milliseconds.
    at: i64,
    /// Why the files were read: `watch`, `rename`, `interval`, `SIGHUP` or `request`; `xds` if the limits come over xDS.
    cause: &'static str,
    /// `replaced`, `unchanged` or `failed`.
    outcome: &'static str,
    /// The version that was live after it.
    version: u64,
    /// What it changed, as in the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<String>,
    /// Why it failed: the first problem of the files, or the reason why they cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// The result of a reload.
#[derive(Serialize, JsonSchema)]
pub(super) struct ReloadReply {
    /// Whether other policies are live now.
    replaced: bool,
    /// The version that is live.
    version: u64,
}

impl Edge {
    /// Returns why the file as last read is not live, if so.
    pub(super) fn not_live(&self) -> Option<NotLive> {
        let (since, failure) = self.followed.source.reloads()?.failed()?;
        Some(NotLive { since: since.as_unix_millis(), error: failure.to_string() })
    }

    /// Returns the last reloads, the latest one first.
    pub(super) fn last_reloads(&self) -> Vec<ReloadBody> {
        let records = self.followed.source.reloads().map(|reloads| reloads.records());
        records.iter().flatten().map(|record| ReloadBody::new(record)).collect()
    }

    pub(super) async fn reload(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let body = body::read(request, &self.budget).await?;
        caller.may_touch_all()?;
        if !body.is_empty() {
            let ReloadRequest {} = json::read(&body)?;
        }
        let detail = match &self.followed.source {
            RuleSource::Files(reloads) => return Self::reload_files(reloads).await,
            RuleSource::Flags => "the limits come from flags, so there is no file to reload",
            RuleSource::Xds(_) => {
                "the limits come over xDS, so there is no file to reload: the server sends each change by itself"
            }
        };
        Err(Rejection::new(RejectionKind::Conflict, detail))
    }

    async fn reload_files(reloads: &Arc<dyn Reload>) -> Result<Reply, Rejection> {
        let reloaded = reload::reload(Arc::clone(reloads), Cause::Request).await;
        let reloaded = reloaded
            .ok_or_else(|| Rejection::new(RejectionKind::Unavailable, "the reload was cut short"))?
            .map_err(|error| Rejection::new(RejectionKind::InvalidFile, error.to_string()))?;
        let (replaced, version) = match reloaded {
            ReloadResult::Replaced(version) => (true, version),
            ReloadResult::Unchanged(version) => (false, version),
        };
        Ok(reply::json(StatusCode::OK, &ReloadReply { replaced, version }))
    }
}

impl ReloadBody {
    fn new(record: &ReloadRecord) -> Self {
        let (outcome, changes, error) = match &record.outcome {
            ReloadOutcome::Replaced(changes) => ("replaced", Some(changes.joined("; ")), None),
            ReloadOutcome::Unchanged => ("unchanged", None, None),
            ReloadOutcome::Failed(failure) => {
                ("failed", None, failure.to_string().lines().next().map(str::to_owned))
            }
        };
        let (at, cause) = (record.at.as_unix_millis(), record.cause.name());
        Self { at, cause, outcome, version: record.version, changes, error }
    }
}
