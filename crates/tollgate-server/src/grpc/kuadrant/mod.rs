//! Kuadrant's rate-limit service, as limitador answers it: `checks` that only peek, reports, and `reservations`.
//!
//! Policies decide, with the attributes that Envoy's calls have too. The files of envoyproxy/ratelimit cannot.

mod checks;
mod reservations;

use std::pin::pin;

use http::{Request, Response};
use hyper::body::Incoming;

use super::deadline::{self, Late};
use super::outgoing::OutgoingMessage;
use super::{Service, unary};
use crate::access::listener::Listener;
use crate::access::peer::ConnectionPeer;
use crate::answer::rejection::Rejection;
use crate::answer::rejection_kind::RejectionKind;
use crate::decide::engine::DecisionEngine;
use crate::net::budget::HeldBytes;

/// The paths of its methods begin with this.
const PREFIX: &str = "/kuadrant.service.ratelimit.v1.RateLimitService/";

/// A method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KuadrantMethod {
    CheckRateLimit,
    Report,
    Reserve,
    Commit,
}

impl KuadrantMethod {
    /// Returns the method at this path.
    pub(super) fn at(path: &str) -> Option<Self> {
        match path.strip_prefix(PREFIX)? {
            "CheckRateLimit" => Some(Self::CheckRateLimit),
            "Report" => Some(Self::Report),
            "Reserve" => Some(Self::Reserve),
            "Commit" => Some(Self::Commit),
            _ => None,
        }
    }

    /// Returns whether its answer decides if a request is let through.
    pub(super) const fn decides(self) -> bool {
        matches!(self, Self::CheckRateLimit | Self::Reserve)
    }
}

impl Service {
    /// Answers a call of this method.
    pub(super) async fn kuadrant(
        &self,
        method: KuadrantMethod,
        listener: &Listener,
        peer: &ConnectionPeer,
        held: &mut HeldBytes,
        request: Request<Incoming>,
    ) -> Result<Response<OutgoingMessage>, Rejection> {
        match method {
            KuadrantMethod::CheckRateLimit => {
                let call = self.receive(listener, peer, held, request).await?;
                let peeked = pin!(self.peek_rate_limit(&call.caller, &call.message));
                Ok(unary::reply(&deadline::within(call.left, Late::Uncounted, peeked).await?))
            }
            KuadrantMethod::Report => {
                let call = self.receive(listener, peer, held, request).await?;
                let recorded = pin!(self.record_rate_limit(&call.caller, &call.message));
                Ok(unary::reply(&deadline::within(call.left, Late::Unknown, recorded).await?))
            }
            KuadrantMethod::Reserve => {
                let call = self.receive(listener, peer, held, request).await?;
                let reserved = pin!(self.reserve(&call.caller, &call.message, call.caller_until));
                Ok(unary::reply(&deadline::within(call.left, Late::Unknown, reserved).await?))
            }
            KuadrantMethod::Commit => {
                let call = self.receive(listener, peer, held, request).await?;
                let committed = pin!(self.commit(&call.caller, &call.message));
                Ok(unary::reply(&deadline::within(call.left, Late::Unknown, committed).await?))
            }
        }
    }

    /// Returns the engine of the policies.
    fn policies(&self) -> Result<&DecisionEngine, Rejection> {
        let detail = "this method needs policies, but the service decides by the files of `--import`";
        self.decider.policies().ok_or_else(|| Rejection::new(RejectionKind::Unimplemented, detail))
    }
}

fn place(index: usize) -> String {
    format!("descriptors[{index}]")
}
