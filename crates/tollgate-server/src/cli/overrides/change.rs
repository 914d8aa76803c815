//! `tollgate override set` and `delete`: one change, with what is there afterwards, or was there before.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tollgate_policy::Printable;

use super::OverrideCommandError;
use super::answer::ShownOverride;
use super::request::{ExpectedOverride, OverrideRequest};
use super::shown;
use crate::args::{DeleteOverrideArgs, OverrideServiceArgs, SetOverrideArgs};
use crate::cli::client::ClientError;

/// The printed part of the answer to `set`.
#[derive(Deserialize)]
struct SetAnswer {
    #[serde(flatten)]
    set: ShownOverride,
    /// Whether the target had an override before.
    replaced: bool,
}

/// The printed part of the answer to `delete`.
#[derive(Deserialize)]
struct DeleteAnswer {
    id: String,
    /// What was deleted, if the process knew it.
    deleted: Option<ShownOverride>,
}

/// Sets an override.
pub(super) async fn set(args: &SetOverrideArgs) -> (String, Result<(), OverrideCommandError>) {
    let readable = |SetAnswer { set, replaced }| {
        let verb = if replaced { "replaced" } else { "set" };
        format!("{verb} {set}")
    };
    changed(OverrideRequest::set(args), &args.service, readable).await
}

/// Deletes an override.
pub(super) async fn delete(args: &DeleteOverrideArgs) -> (String, Result<(), OverrideCommandError>) {
    let expected = args.if_match.as_ref().map_or(ExpectedOverride::Any, ExpectedOverride::Version);
    let readable = |DeleteAnswer { id, deleted }| match deleted {
        Some(deleted) => format!("deleted {deleted}"),
        None => format!("deleted {}\n", Printable(&id)),
    };
    changed(OverrideRequest::delete(&args.named, expected), &args.service, readable).await
}

async fn changed<T: DeserializeOwned>(
    request: Result<OverrideRequest, OverrideCommandError>,
    service: &OverrideServiceArgs,
    readable: impl FnOnce(T) -> String,
) -> (String, Result<(), OverrideCommandError>) {
    let request = match request {
        Ok(request) => request,
        Err(error) => return (String::new(), Err(error)),
    };
    let (status, body) = match request.send(service).await {
        Ok(answer) => answer,
        Err(error) => return (String::new(), Err(unanswered(error))),
    };
    // Or the answer to a change that was made is damaged.
    let is_unknown = status.is_success() || shown::has_reason(&body, "outcome_unknown");
    let read = shown::read::<T>(service, status, &body).map_err(|error| match error {
        OverrideCommandError::Client(error) if is_unknown => OverrideCommandError::Unknown(error),
        error => error,
    });
    shown::printed(service, &body, read, readable)
}

/// The error of a change without an answer.
fn unanswered(error: ClientError) -> OverrideCommandError {
    match error {
        // The request was sent, at least in part.
        ClientError::Broken { .. } | ClientError::Timeout { .. } | ClientError::Unexpected { .. } => {
            OverrideCommandError::Unknown(error)
        }
        error => OverrideCommandError::Client(error),
    }
}
