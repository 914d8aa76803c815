//! Requests that a proxy asks about before it lets them through: `/forward-auth`, for nginx, Traefik, Caddy and others.
//!
//! The proxy describes a request of its client in headers. `request` reads them, `headers` the client's own headers, of
//! which only those that policies name are attributes, and `query` the operator's settings in the proxy's URL.

mod headers;
mod query;
mod request;

use std::time::Duration;

use http::{Request, StatusCode};
use tollgate_policy::PolicyDecision;
use tracing::warn;

pub(super) use self::headers::NamedHeaders;
pub(super) use self::query::{DENY, DENY_STATUSES};
pub(super) use self::request::ALL_HEADERS;
use super::wire::{CheckReply, ClientDenial};
use super::{Edge, Reply, reply};
use crate::access::caller::Caller;
use crate::answer::rejection::Rejection;
use crate::decide::engine::Under;
use crate::request::attributes;

/// The path for proxies.
pub(super) const PATH: &str = "/forward-auth";

/// The pause in the log after a line about a refusal.
const LOG_GAP: Duration = Duration::from_secs(60);

impl Edge {
    /// Charges one unit for the request that the headers describe. An admission is answered as a check is. A denial may
    /// be passed on to the client, so it contains only data that clients may see.
    pub(super) async fn forward_auth<B>(
        &self,
        caller: &Caller,
        request: Request<B>,
    ) -> Result<Reply, Rejection> {
        let deny = query::deny_status(request.uri().query().unwrap_or_default())?;
        let set = self.engine()?.live();
        let named = self.named_headers.of(&set);
        let mut attributes =
            request::attributes(request.headers(), &self.asking.trusted_proxies, named.described_parts())?;
        named.add_to(&mut attributes, request.headers())?;
        let attributes = attributes::of_any_length(attributes, self.asking.max_attribute_bytes);
        let attributes = caller.asks(attributes.of_client());
        let decision = self.engine()?.check(Under::Version(set), &attributes, 1, None).await;
        let decision = decision.map_err(|error| Rejection::check(&error, "attributes"))?;
        if decision.is_allowed() {
            return Ok(self.verdict(&decision, &CheckReply::new(&decision)));
        }
        Ok(self.denied_client(&decision, deny.unwrap_or_else(|| reply::deny_status(&decision))))
    }

    /// Logs a refusal that the operator must fix: the proxy may drop the reason, and its clients cannot do anything.
    #[cold]
    pub(super) fn note_refused_proxy(&self, rejection: &Rejection) {
        let status = rejection.kind().status();
        if status.is_client_error() && self.refusal_logged.passes(LOG_GAP) {
            let (status, field, reason) = (status.as_u16(), rejection.field(), rejection.detail());
            warn!(status, field, reason, "a request that a proxy asks about was refused");
        }
    }

    fn denied_client(&self, decision: &PolicyDecision, status: StatusCode) -> Reply {
        let limit_headers = self.limit_headers.of(decision);
        let mut reply = reply::problem(status, &ClientDenial::new(status.as_u16(), decision, &limit_headers));
        limit_headers.write_decision(decision, reply.headers_mut());
        reply
    }
}
