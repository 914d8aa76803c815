//! `tollgate check`: sends a request to a running service and prints the answer, checks whether the service is ready, or
//! runs a command while it holds.
//!
//! `exchange` sends requests, `decision` reads and writes answers. `hold` keeps a hold while a `command` runs.

mod command;
mod decision;
mod exchange;
mod hold;
mod loss;

use http::StatusCode;
use serde::de::IgnoredAny;
use serde::{Serialize, Serializer};
use tollgate_policy::{Attributes, Printable, Texts, View};

use self::decision::Decision;
pub use self::hold::run_held;
use crate::args::CheckArgs;
use crate::args::exit_status::{FAILURE, NO_DECISION, SUCCESS, USAGE};
use crate::cli::client::{ClientError, ErrorBody, NO_SERVICE};
use crate::cli::output;
use crate::request::attributes;

/// The answer of the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckAnswer {
    /// The request is allowed.
    Allowed,
    /// The request is denied.
    Denied,
    /// The service decides requests.
    Ready,
    /// The service cannot decide now, and gives the reason.
    NotReady,
}

/// Returns the exit status for an outcome.
#[must_use]
pub fn exit_status(outcome: &Result<CheckAnswer, ClientError>) -> u8 {
    match outcome {
        Ok(CheckAnswer::Allowed | CheckAnswer::Ready) => SUCCESS,
        Ok(CheckAnswer::Denied | CheckAnswer::NotReady) => FAILURE,
        Err(error) if error.is_of_arguments() => USAGE,
        Err(_) => NO_DECISION,
    }
}

/// Runs the command. Returns the text to print and the outcome, which is an error if there is no decision.
///
/// Nothing is retried: a check whose answer was lost may have charged units.
pub async fn run(args: &CheckArgs) -> (String, Result<CheckAnswer, ClientError>) {
    let exchanged = match args.health {
        true => exchange::get(args, "/readyz").await,
        false => {
            let path = if args.peek { "/v1/peek" } else { "/v1/check" };
            let attributes = attributes::of_arguments(&args.attributes);
            exchange::post(args, path, &Question { attributes, cost: args.cost }).await
        }
    };
    let (status, body) = match exchanged {
        Ok(answer) => answer,
        Err(error) => return (String::new(), Err(error)),
    };
    let server = args.server.to_string();
    if args.health {
        return health(server, status, &body);
    }
    let decision = Decision::read(&server, status, &body, args.token_file.is_some());
    let text = match &decision {
        // Even if it is a problem.
        _ if args.json && serde_json::from_slice::<IgnoredAny>(&body).is_ok() => {
            output::in_ascii(String::from_utf8_lossy(&body).trim_end()) + "\n"
        }
        Ok(decision) => decision.readable() + "\n",
        Err(_) => String::new(),
    };
    (text, decision.map(|decision| if decision.allowed { CheckAnswer::Allowed } else { CheckAnswer::Denied }))
}

/// Reads the service's health: a text if it is ready, otherwise a problem with status 503.
fn health(server: String, status: StatusCode, body: &[u8]) -> (String, Result<CheckAnswer, ClientError>) {
    let (text, answer) = match status {
        StatusCode::OK => (String::from_utf8_lossy(body).into_owned(), CheckAnswer::Ready),
        StatusCode::SERVICE_UNAVAILABLE => {
            let detail = serde_json::from_slice(body).map(|ErrorBody { detail, .. }| detail);
            (
                format!("not ready: {}", detail.unwrap_or_else(|_| NO_SERVICE.to_owned())),
                CheckAnswer::NotReady,
            )
        }
        _ => {
            let detail = NO_SERVICE.to_owned();
            return (String::new(), Err(ClientError::Unexpected { server, status, detail }));
        }
    };
    (text.lines().map(|line| format!("{}\n", Printable(line))).collect(), Ok(answer))
}

#[derive(Serialize)]
struct Question<'a> {
    #[serde(serialize_with = "as_object")]
    attributes: Attributes<'a>,
    cost: u32,
}

fn as_object<S: Serializer>(attributes: &Attributes<'_>, serializer: S) -> Result<S::Ok, S::Error> {
    /// A string, or a list of them.
    #[derive(Serialize)]
    #[serde(untagged)]
    enum AttributeBody<'a> {
        Text(&'a str),
        List(&'a [Box<str>]),
    }
    // The server normalizes the path itself.
    let sent = |name: &str| attributes.sent_path().filter(|_| name == "path");
    let pairs = attributes.iter().map(|(name, texts)| (name, sent(name).unwrap_or(texts)));
    serializer.collect_map(pairs.map(|(name, texts)| match texts {
        Texts::One(text) => (name, AttributeBody::Text(text)),
        Texts::List(texts) => (name, AttributeBody::List(texts)),
    }))
}
