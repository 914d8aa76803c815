//! Requests to a running service, for the commands that ask one.

mod error;
mod exchange;
mod problem;

pub use self::error::ClientError;
pub(super) use self::error::NO_SERVICE;
pub(super) use self::exchange::{ServiceClient, json_request};
pub(super) use self::problem::{ErrorBody, problem};
