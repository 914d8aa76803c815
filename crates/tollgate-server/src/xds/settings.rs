//! How limits come over xDS: from which server, under which name, and how patiently.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::uri::Authority;
use tollgate_envoy::SameDomain;
use tonic::metadata::MetadataMap;

use super::backoff::XdsBackoff;
use super::certificates::XdsCertificates;

/// The settings of the client.
#[derive(Debug)]
pub(crate) struct XdsSettings {
    pub(crate) server: XdsServer,
    pub(crate) node: XdsNode,
    /// Headers of the call. Their values are marked as sensitive, so that no log shows them.
    pub(crate) headers: MetadataMap,
    /// The waits between two streams.
    pub(crate) backoff: XdsBackoff,
    /// The wait after a connection that could not be opened, instead of a wait of `backoff`.
    pub(crate) connect_retry: Option<Duration>,
    /// The maximum length of a response.
    pub(crate) max_message_bytes: usize,
    pub(crate) at_start: LimitsAtStart,
    pub(crate) same_domain: SameDomain,
}

/// A management server.
#[derive(Debug)]
pub(crate) struct XdsServer {
    /// Its host and port.
    pub(crate) authority: Authority,
    /// `None` without TLS.
    pub(crate) certificates: Option<Arc<XdsCertificates>>,
}

/// The name of this process for a management server, which chooses the limits by it.
#[derive(Debug, Clone)]
pub(crate) struct XdsNode {
    pub(crate) id: String,
    pub(crate) metadata: Vec<(String, String)>,
}

/// What happens to requests before the first limits arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LimitsAtStart {
    /// They get no decision, and the service is not ready.
    Awaited,
    /// There are no limits, so all are admitted.
    None,
}

impl XdsServer {
    pub(super) fn scheme(&self) -> &'static str {
        if self.certificates.is_some() { "https" } else { "http" }
    }
}

impl fmt::Display for XdsServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme(), self.authority)
    }
}
