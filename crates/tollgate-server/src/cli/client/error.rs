//! Why there is no answer of the service.

use std::io;
use std::path::Path;
use std::time::Duration;

use http::StatusCode;
use thiserror::Error;
use tollgate_policy::Printable;
use tollgate_redis::TlsError;

use crate::args::Flag;
use crate::observe::with_sources::WithSources;

/// For a whole exchange, unless the caller has less time.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Describes an answer that cannot be read.
pub(in crate::cli) const NO_SERVICE: &str = "this is not an answer from a tollgate service";

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
    #[error("{server} gave no answer within {limit:?}")]
    Timeout {
        /// Its URL.
        server: String,
        /// The time that it had.
        limit: Duration,
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

impl ClientError {
    /// Returns whether the arguments are at fault, or the request in them, so that the same command fails again.
    pub(in crate::cli) const fn is_of_arguments(&self) -> bool {
        matches!(
            self,
            Self::Rejected { .. }
                | Self::Certificate(_)
                | Self::NeedlessCertificate { .. }
                | Self::TokenFile { .. }
                | Self::NoToken { .. }
        )
    }
}
