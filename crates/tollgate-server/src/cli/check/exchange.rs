//! The requests of the command to its service.

use bytes::Bytes;
use http::StatusCode;
use serde::Serialize;

use crate::args::CheckArgs;
use crate::cli::client::{ClientError, ServiceClient};

/// Sends a body to this path of the service.
pub(super) async fn post(
    args: &CheckArgs,
    path: &'static str,
    body: &impl Serialize,
) -> Result<(StatusCode, Bytes), ClientError> {
    ServiceClient::new(&args.server, &args.tls)?.post(path, args.token_file.as_deref(), body).await
}

/// Gets what is at this path of the service, without a token.
pub(super) async fn get(args: &CheckArgs, path: &'static str) -> Result<(StatusCode, Bytes), ClientError> {
    ServiceClient::new(&args.server, &args.tls)?.get(path).await
}
