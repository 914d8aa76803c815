//! `tollgate override get`, and how every answer about overrides is read and printed.

use http::StatusCode;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};

use super::OverrideCommandError;
use super::answer::ShownOverride;
use super::request::OverrideRequest;
use crate::args::{GetOverrideArgs, OverrideServiceArgs};
use crate::cli::client::{ClientError, NO_SERVICE, problem};
use crate::cli::output;

/// The printed part of the answer to `get`.
#[derive(Deserialize)]
struct GetAnswer {
    #[serde(flatten)]
    got: ShownOverride,
    stale: bool,
}

/// The part of a problem that tells one answer from another.
#[derive(Deserialize)]
struct OverrideProblem {
    detail: String,
    reason: Option<String>,
    /// The override that is there, if a change expected another one.
    current: Option<CurrentBody>,
}

#[derive(Deserialize)]
struct CurrentBody {
    version: String,
}

/// Shows the override of a target.
pub(super) async fn get(args: &GetOverrideArgs) -> (String, Result<(), OverrideCommandError>) {
    let request = match OverrideRequest::get(&args.named) {
        Ok(request) => request,
        Err(error) => return (String::new(), Err(error)),
    };
    let (status, body) = match request.send(&args.service).await {
        Ok(answer) => answer,
        Err(error) => return (String::new(), Err(error.into())),
    };
    let read = read::<GetAnswer>(&args.service, status, &body);
    if read.as_ref().is_ok_and(|read| read.stale) {
        warn_of_stale_answer();
    }
    printed(&args.service, &body, read, |read| read.got.to_string())
}

/// Tells people that the answer may be old.
pub(super) fn warn_of_stale_answer() {
    output::complain(
        "warning: the service has had no answer from the store for a second, so there may be changes that it does not know",
    );
}

/// Returns the text for an answer: the answer itself with `--json`, even if it is a problem.
pub(super) fn printed<T>(
    service: &OverrideServiceArgs,
    body: &[u8],
    read: Result<T, OverrideCommandError>,
    readable: impl FnOnce(T) -> String,
) -> (String, Result<(), OverrideCommandError>) {
    if service.json && serde_json::from_slice::<IgnoredAny>(body).is_ok() {
        return (in_json(body), read.map(|_| ()));
    }
    match read {
        Ok(answer) => (readable(answer), Ok(())),
        Err(error) => (String::new(), Err(error)),
    }
}

/// Returns an answer in one line.
pub(super) fn in_json(body: &[u8]) -> String {
    output::in_ascii(String::from_utf8_lossy(body).trim_end()) + "\n"
}

/// Reads an answer.
///
/// # Errors
///
/// If it is a problem, or cannot be read.
pub(super) fn read<T: DeserializeOwned>(
    service: &OverrideServiceArgs,
    status: StatusCode,
    body: &[u8],
) -> Result<T, OverrideCommandError> {
    let server = service.server.to_string();
    if status.is_success() {
        let detail = NO_SERVICE.to_owned();
        return serde_json::from_slice(body)
            .map_err(|_| ClientError::Unexpected { server, status, detail }.into());
    }
    let error = problem(&server, status, body, service.token_file.is_some());
    let Ok(OverrideProblem { detail, reason, current }) = serde_json::from_slice(body) else {
        return Err(error.into());
    };
    Err(match (status, reason.as_deref()) {
        (StatusCode::NOT_FOUND, Some(_)) => OverrideCommandError::Absent(detail),
        (StatusCode::PRECONDITION_FAILED, _) => OverrideCommandError::Changed(match current {
            Some(CurrentBody { version }) => format!("{detail}: its version is {version}"),
            None => detail,
        }),
        (StatusCode::CONFLICT, _) => ClientError::Rejected { detail }.into(),
        _ => error.into(),
    })
}

/// Returns whether the answer is a problem for this reason.
pub(super) fn has_reason(body: &[u8], expected: &str) -> bool {
    serde_json::from_slice(body)
        .is_ok_and(|OverrideProblem { reason, .. }| reason.as_deref() == Some(expected))
}
