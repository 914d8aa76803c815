//! gRPC: Envoy's rate-limit service, health and reflection.
//!
//! A call takes this way: `connection` is HTTP/2 on one connection, `method` finds what a path means and who may call
//! it, `deadline` ends calls that their clients no longer wait for, `unary` reads the message of a call and writes its
//! answer, and `rate_limit` makes checks of descriptors, whose answers `response` writes. `imported` turns messages into
//! requests of `tollgate-envoy` and back, for the limits of envoyproxy/ratelimit. Calls without an answer are
//! rejections, as over HTTP, and `status` says which status of gRPC each of them is. `health` and `reflection` are tonic's
//! services. `messages` is generated.
//!
//! Calls of Envoy's service are answered over hyper's HTTP/2 without tonic. So they share the memory budget and the
//! bounds of bodies with HTTP, and cost less.

mod connection;
mod deadline;
mod health;
mod imported;
#[allow(missing_docs, unreachable_pub, clippy::all, reason = "it is generated")]
mod messages;
mod method;
mod outgoing;
mod rate_limit;
mod reflection;
mod response;
mod status;
mod unary;

use std::sync::Arc;

use tollgate_tower::headers::PolicyHeaders;
use tonic_health::server::HealthReporter;

pub(crate) use self::connection::Grpc;
pub(crate) use self::health::report;
use self::method::Tonic;
use crate::engine::Engine;
use crate::envoy::EnvoyEngine;
use crate::http::Budget;
use crate::metrics::Metrics;

/// Answers the calls of a gRPC listener.
pub(crate) struct Service<S> {
    engine: Arc<Engine<S>>,
    /// Decides in the place of the policies.
    envoy: Option<Arc<EnvoyEngine<S>>>,
    budget: Budget,
    metrics: Arc<Metrics>,
    /// Whether descriptors may bring limits.
    caller_quotas: bool,
    /// Writes the limit headers of answers, if they have any.
    limit_headers: Option<PolicyHeaders>,
    tonic: Box<[Tonic]>,
}

impl<S> Service<S> {
    /// The service, and what its health is reported to.
    ///
    /// # Errors
    ///
    /// If the description of the messages is none.
    pub(crate) fn new(
        engine: Arc<Engine<S>>,
        envoy: Option<Arc<EnvoyEngine<S>>>,
        budget: Budget,
        metrics: Arc<Metrics>,
        caller_quotas: bool,
        limit_headers: Option<PolicyHeaders>,
    ) -> anyhow::Result<(Self, HealthReporter)> {
        let (health, reporter) = health::service();
        let tonic = [health].into_iter().chain(reflection::services()?).collect();
        Ok((Self { engine, envoy, budget, metrics, caller_quotas, limit_headers, tonic }, reporter))
    }
}
