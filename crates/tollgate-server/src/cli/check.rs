//! `tollgate check`: sends a request to a running service and prints the answer, or checks whether the service is
//! ready.

use std::error::Error as _;
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, ClientConfig};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tollgate_policy::{Attributes, Printable, Texts, View};
use tollgate_redis::{SmallFile, Tls, TlsError};

use crate::args::exit_status::{FAILURE, NO_DECISION, SUCCESS, USAGE};
use crate::args::{CheckArgs, ClientTlsArgs, Flag};
use crate::cli::output;
use crate::net::protocol::ByteStream;
use crate::observe::secret_file::public_mode;
use crate::observe::with_sources::WithSources;
use crate::request::attributes;
use crate::settings::flags;

/// For the whole exchange.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Far more than any decision.
const MAX_ANSWER: usize = 1024 * 1024;

/// Describes an answer that cannot be read.
const NO_SERVICE: &str = "this is not an answer from a tollgate service";

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

/// The reason why there is no answer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The service cannot be reached. A retry helps once it runs.
    #[error("cannot reach {server}: {source}")]
    Unreachable {
        /// Its URL.
        server: String,
        /// The error of the system.
        source: io::Error,
    },
    /// A certificate or key cannot be used; the fault of its author.
    #[error("{}", WithSources(.0))]
    Certificate(#[from] TlsError),
    /// Certificates and keys for a service without TLS; the fault of the arguments.
    #[error(
        "--ca, --client-cert and --client-key require an https:// URL, but {server} is called without TLS"
    )]
    NeedlessCertificate {
        /// Its URL.
        server: String,
    },
    /// The service demands a client certificate. Nothing was charged.
    #[error("{server} requires a client certificate: name one with --client-cert and --client-key")]
    NoCertificate {
        /// Its URL.
        server: String,
    },
    /// The authority of the service's certificate is not trusted here.
    #[error("the certificate of {server} is from an untrusted authority: name the authority with --ca")]
    UnknownAuthority {
        /// Its URL.
        server: String,
    },
    /// No secure connection: the server does not speak TLS, is not trusted, or does not trust us.
    #[error("no secure connection to {server}: {source}")]
    Insecure {
        /// Its URL.
        server: String,
        /// The cause.
        source: io::Error,
    },
    /// The server does not speak HTTP; the URL is wrong.
    #[error("{server} does not speak HTTP: {}", WithSources(source))]
    NotHttp {
        /// Its URL.
        server: String,
        /// The error in the answer.
        source: hyper::Error,
    },
    /// The connection broke. The units may or may not have been charged.
    #[error("{server} gave no answer: {}", WithSources(source))]
    Broken {
        /// Its URL.
        server: String,
        /// The error of the connection.
        source: hyper::Error,
    },
    /// No answer in time. The units may or may not have been charged.
    #[error("{server} gave no answer within {TIME_LIMIT:?}")]
    Timeout {
        /// Its URL.
        server: String,
    },
    /// The service refused the request; the fault of the arguments.
    #[error("the service rejected the request: {}", Printable(detail))]
    Rejected {
        /// The service's message.
        detail: String,
    },
    /// The file of the token cannot be read; the fault of the arguments.
    #[error("`{}`: cannot read {}: {source}", Flag("--token-file"), path.display())]
    TokenFile {
        /// The path of the file.
        path: Box<Path>,
        /// The error of the system.
        source: io::Error,
    },
    /// The file cannot hold a token.
    #[error("`{}`: {} must contain one token and nothing else", Flag("--token-file"), path.display())]
    NoToken {
        /// The path of the file.
        path: Box<Path>,
    },
    /// The server is not Tollgate, or failed.
    #[error("{server} answered with status {status}: {}", Printable(detail))]
    Unexpected {
        /// Its URL.
        server: String,
        /// The status of the answer.
        status: StatusCode,
        /// Further details.
        detail: String,
    },
}

/// Returns the exit status for an outcome.
#[must_use]
pub fn exit_status(outcome: &Result<CheckAnswer, ClientError>) -> u8 {
    match outcome {
        Ok(CheckAnswer::Allowed | CheckAnswer::Ready) => SUCCESS,
        Ok(CheckAnswer::Denied | CheckAnswer::NotReady) => FAILURE,
        Err(
            ClientError::Rejected { .. }
            | ClientError::Certificate(_)
            | ClientError::NeedlessCertificate { .. }
            | ClientError::TokenFile { .. }
            | ClientError::NoToken { .. },
        ) => USAGE,
        Err(_) => NO_DECISION,
    }
}

/// Runs the command. Returns the text to print and the outcome, which is an error if there is no decision.
///
/// Nothing is retried: a check whose answer was lost may have charged units.
pub async fn run(args: &CheckArgs) -> (String, Result<CheckAnswer, ClientError>) {
    let server = args.server.to_string();
    let request = match request(args) {
        Ok(request) => request,
        Err(error) => return (String::new(), Err(error)),
    };
    let timeout = |_| ClientError::Timeout { server: server.clone() };
    let exchange = tokio::time::timeout(TIME_LIMIT, exchange(args, request, &server)).await.map_err(timeout);
    let (status, body) = match exchange.flatten() {
        Ok(answer) => answer,
        Err(error) => return (String::new(), Err(error)),
    };
    if args.health {
        return health(server, status, &body);
    }
    let decision = decision(&server, status, &body, args.token_file.is_some());
    let text = match &decision {
        // Even if it is a problem.
        _ if args.json && serde_json::from_slice::<IgnoredAny>(&body).is_ok() => {
            in_ascii(String::from_utf8_lossy(&body).trim_end()) + "\n"
        }
        Ok(decision) => readable(decision) + "\n",
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

/// Returns the same JSON in printable ASCII, because a terminal may obey other characters. Outside of texts, JSON only
/// has ASCII and white space.
fn in_ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for unit in json.encode_utf16() {
        match u8::try_from(unit) {
            Ok(byte @ b' '..=b'~') => text.push(byte.into()),
            Ok(b'\t' | b'\n' | b'\r') => text.push(' '),
            // Writing into a string does not fail.
            _ => drop(write!(text, "\\u{unit:04x}")),
        }
    }
    text
}

async fn exchange(
    args: &CheckArgs,
    request: Request<Full<Bytes>>,
    server: &str,
) -> Result<(StatusCode, Bytes), ClientError> {
    let tls = tls(args, server)?;
    let unreachable = |source| ClientError::Unreachable { server: server.to_owned(), source };
    let authority = &args.server.authority;
    let stream = TcpStream::connect(authority.as_str()).await.map_err(unreachable)?;
    let Some(tls) = tls else { return converse(request, server, stream).await };
    let insecure = |source: io::Error| {
        let server = server.to_owned();
        match tls_error(&source) {
            Some(rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer)) => {
                ClientError::UnknownAuthority { server }
            }
            _ => ClientError::Insecure { server, source },
        }
    };
    let name = ServerName::try_from(authority.host().trim_matches(['[', ']']).to_owned())
        .map_err(|error| insecure(io::Error::new(io::ErrorKind::InvalidInput, error)))?;
    let stream = TlsConnector::from(tls).connect(name, stream).await.map_err(insecure)?;
    converse(request, server, stream).await
}

/// Returns the trusted authorities and our certificate; `None` for a service without TLS.
fn tls(args: &CheckArgs, server: &str) -> Result<Option<Arc<ClientConfig>>, ClientError> {
    let ClientTlsArgs { ca, client_cert, client_key } = &args.tls;
    if !args.server.tls {
        return match (ca, client_cert) {
            (None, None) => Ok(None),
            _ => Err(ClientError::NeedlessCertificate { server: server.to_owned() }),
        };
    }
    let mut tls = Tls::new();
    if let Some(ca) = ca {
        tls = tls.with_ca_file(ca)?;
    }
    if let (Some(certificate), Some(key)) = (client_cert, client_key) {
        tls = tls.with_client_files(certificate, key)?;
    }
    Ok(Some(Arc::new(tls.config()?)))
}

/// Returns the error of TLS, if that failed.
fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// Sends the request over an open connection.
async fn converse(
    request: Request<Full<Bytes>>,
    server: &str,
    stream: impl ByteStream,
) -> Result<(StatusCode, Bytes), ClientError> {
    let broken = |source: hyper::Error| {
        let server = server.to_owned();
        // With TLS 1.3, the service only reports this after the client takes the connection for open.
        let tls = source.source().and_then(|source| source.downcast_ref()).and_then(tls_error);
        if source.is_parse() {
            ClientError::NotHttp { server, source }
        } else if let Some(rustls::Error::AlertReceived(AlertDescription::CertificateRequired)) = tls {
            ClientError::NoCertificate { server }
        } else {
            ClientError::Broken { server, source }
        }
    };

    let (mut requests, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    // It drives the exchange; its errors reach the request as well.
    let driver = tokio::spawn(connection);
    let response = requests.send_request(request).await.map_err(broken)?;
    let status = response.status();
    let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await.map_err(|error| {
        let detail = format!("the answer was cut off or too long: {error}");
        ClientError::Unexpected { server: server.to_owned(), status, detail }
    })?;
    driver.abort();
    Ok((status, body.to_bytes()))
}

/// Returns the header with the token in this file.
fn authorization(path: &Path) -> Result<HeaderValue, ClientError> {
    let unreadable = |source| ClientError::TokenFile { path: path.into(), source };
    let SmallFile { bytes, metadata, .. } =
        SmallFile::read(path, SmallFile::MOST_SECRET_BYTES).map_err(unreadable)?;
    if let Some(mode) = public_mode(&metadata) {
        let file = path.display();
        output::complain(format_args!(
            "warning: every user of this machine can read the token in {file} (its mode is {mode:o}): run `chmod 600 {file}`"
        ));
    }
    let token = bytes.trim_ascii();
    let is_token = !token.is_empty() && token.iter().all(u8::is_ascii_graphic);
    let value = HeaderValue::from_bytes(&[b"Bearer ", token].concat()).ok().filter(|_| is_token);
    let mut value = value.ok_or_else(|| ClientError::NoToken { path: path.into() })?;
    value.set_sensitive(true);
    Ok(value)
}

fn request(args: &CheckArgs) -> Result<Request<Full<Bytes>>, ClientError> {
    let mut request = if args.health { readiness() } else { question(args)? };
    if let Ok(host) = args.server.authority.as_str().parse() {
        request.headers_mut().insert(HOST, host);
    }
    Ok(request)
}

fn readiness() -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::default());
    *request.uri_mut() = http::Uri::from_static("/readyz");
    request
}

fn question(args: &CheckArgs) -> Result<Request<Full<Bytes>>, ClientError> {
    let path = if args.peek { "/v1/peek" } else { "/v1/check" };
    let body = Question { attributes: attributes::of_arguments(&args.attributes), cost: args.cost };
    // This cannot fail: all keys are texts.
    let body = serde_json::to_vec(&body).unwrap_or_default();
    let mut request = Request::new(Full::new(Bytes::from(body)));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = http::Uri::from_static(path);
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.extend(
        args.token_file.as_deref().map(authorization).transpose()?.map(|value| (AUTHORIZATION, value)),
    );
    Ok(request)
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

/// The printed part of a decision.
#[derive(Deserialize)]
struct Decision {
    allowed: bool,
    policy: Option<String>,
    ground: Option<String>,
    limit: Option<u64>,
    source: Option<String>,
    reason: Option<String>,
    retry_after_ms: Option<u64>,
    #[serde(default)]
    quotas: Vec<Quota>,
}

#[derive(Deserialize)]
struct Quota {
    policy: String,
    quota: String,
    limit: u64,
    used: u64,
    remaining: u64,
    reset_after_ms: u64,
}

#[derive(Deserialize)]
struct ErrorBody {
    detail: String,
    field: Option<String>,
}

fn decision(server: &str, status: StatusCode, body: &[u8], has_token: bool) -> Result<Decision, ClientError> {
    if let Ok(decision) = serde_json::from_slice::<Decision>(body) {
        // A single quota has no list.
        let single = if decision.quotas.is_empty() { serde_json::from_slice(body).ok() } else { None };
        return Ok(Decision { quotas: decision.quotas.into_iter().chain(single).collect(), ..decision });
    }
    let detail = match serde_json::from_slice(body) {
        Ok(ErrorBody { detail, field: Some(field) }) => format!("{field}: {detail}"),
        Ok(ErrorBody { detail, field: None }) => detail,
        Err(_) => NO_SERVICE.to_owned(),
    };
    let server = server.to_owned();
    Err(match status {
        StatusCode::UNAUTHORIZED if !has_token => {
            ClientError::Rejected { detail: format!("{detail}. Pass a file with a token as --token-file") }
        }
        StatusCode::BAD_REQUEST
        | StatusCode::UNAUTHORIZED
        | StatusCode::FORBIDDEN
        | StatusCode::PAYLOAD_TOO_LARGE
        | StatusCode::UNSUPPORTED_MEDIA_TYPE => ClientError::Rejected { detail },
        _ => ClientError::Unexpected { server, status, detail },
    })
}

fn readable(decision: &Decision) -> String {
    let policy = match decision.policy.as_deref() {
        None | Some(flags::NAME) => String::new(),
        Some(name) => format!(" (policy {})", Printable(name)),
    };
    let mut text = match (decision.allowed, decision.retry_after_ms, decision.reason.as_deref()) {
        (true, ..) if decision.source.as_deref() == Some("fallback") => {
            format!("allowed by fallback{policy}: the store is full, or could not answer")
        }
        (true, ..) => match decision.ground.as_deref() {
            Some("unlimited") => "allowed: no policy limits it".to_owned(),
            Some("exempt") => format!("allowed{policy}: it is exempt"),
            _ => format!("allowed{policy}"),
        },
        (false, Some(wait), _) => format!("denied{policy}: retry in {}", time(wait)),
        (false, None, Some("missing_key")) => format!("denied{policy}: the request has no key"),
        (false, None, _) if decision.limit == Some(0) => {
            format!("denied{policy}: the limit is 0, and everything is denied")
        }
        (false, None, Some("cost_exceeds_limit")) => {
            format!("denied{policy}: the cost is above the limit and can never be admitted")
        }
        (false, None, Some("cost_exceeds_share")) => {
            format!(
                "denied{policy}: the store is down, and the cost is above this process's share of the limit"
            )
        }
        (false, None, _) => format!("denied{policy}"),
    };
    let mut policies: Vec<&str> = decision.quotas.iter().map(|quota| quota.policy.as_str()).collect();
    policies.dedup();
    for Quota { policy, quota, limit, used, remaining, reset_after_ms } in &decision.quotas {
        let reset = time(*reset_after_ms);
        let whose = if policies.len() > 1 { format!("{} ", Printable(policy)) } else { String::new() };
        let quota = Printable(quota);
        // Writing into a string does not fail.
        let _ = write!(
            text,
            "\n  {whose}{quota}: {used} of {limit} used, {remaining} remaining, resets in {reset}"
        );
    }
    text
}

/// Formats the two largest units, rounded up to whole seconds.
fn time(millis: u64) -> String {
    let seconds = millis.div_ceil(1000);
    match (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, seconds) => format!("{seconds} s"),
        (0, 0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (0, hours, minutes, _) => format!("{hours} h {minutes} min"),
        (days, hours, ..) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_readable_and_rounded_up() {
        assert_eq!(time(1), "1 s");
        assert_eq!(time(59_999), "1 min 0 s");
        assert_eq!(time(3_600_000), "1 h 0 min");
        assert_eq!(time(90_000_000), "1 d 1 h");
    }

    #[test]
    fn a_decision_is_said_for_people() {
        let said = |policy: &str, more: &str| {
            let body = format!(r#"{{"policy": "{policy}", "limit": 5, "source": "store", {more}}}"#);
            readable(&decision("server", StatusCode::OK, body.as_bytes(), true).unwrap())
        };
        assert_eq!(said("default", r#""allowed": true"#), "allowed");
        assert_eq!(said("search", r#""allowed": true"#), "allowed (policy search)");
        let denied = r#""allowed": false, "reason": "quota_exceeded", "retry_after_ms": 41600"#;
        assert_eq!(said("default", denied), "denied: retry in 42 s");
        assert_eq!(said("search", denied), "denied (policy search): retry in 42 s");
        let unlimited = br#"{"allowed": true, "version": 1, "ground": "unlimited"}"#;
        let unlimited = decision("server", StatusCode::OK, unlimited, true).unwrap();
        assert_eq!(readable(&unlimited), "allowed: no policy limits it");
    }
}
