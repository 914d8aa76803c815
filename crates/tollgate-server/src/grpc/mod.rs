//! gRPC: the rate-limit services of Envoy and of Kuadrant, health and reflection.
//!
//! A call passes through these modules: `connection` is HTTP/2 on one connection, `method` finds the method at a path
//! and answers it, `call` checks the caller's scope and reads the message, `deadline` ends calls whose clients no longer wait, `unary` reads the message of a
//! call and writes its answer, `any_bytes` decodes values from clients' headers, and `rate_limit` turns descriptors
//! into checks, whose answers `response` writes. `imported` turns messages into requests of `tollgate-envoy` and back,
//! for the limits of envoyproxy/ratelimit. `kuadrant` answers the calls of Kuadrant's service. Calls without an answer are rejections, as over HTTP, and `status` maps each
//! kind of them to a gRPC code. `health` and `reflection` are tonic's services, whose `streams` are bounded. `messages`
//! is generated.
//!
//! Calls of both services are answered over hyper's HTTP/2 without tonic. So they share the memory budget and the
//! bounds of bodies with HTTP, and cost less.

mod any_bytes;
mod call;
mod connection;
mod deadline;
mod health;
mod imported;
mod kuadrant;
#[allow(missing_docs, unreachable_pub, clippy::all, reason = "it is generated")]
mod messages;
mod method;
mod outgoing;
mod rate_limit;
mod reflection;
mod response;
mod status;
mod streams;
mod unary;

use std::sync::Arc;

use tonic_health::server::HealthReporter;

pub(crate) use self::connection::Grpc;
use self::health::Health;
pub(crate) use self::health::report;
use self::method::Tonic;
pub(crate) use self::response::AddedHeaders;
use self::streams::Streams;
use crate::answer::rejection_kind::RejectionKind;
use crate::decide::decider::Decider;
use crate::decide::hold_seal::HoldSeal;
use crate::net::resources::Resources;
use crate::observe::log_gap::LogGap;

/// Rejections of these kinds are counted from zero.
const EXPECTED: [RejectionKind; 9] = [
    RejectionKind::Invalid,
    RejectionKind::SlowRequest,
    RejectionKind::TooLarge,
    RejectionKind::WrongMediaType,
    RejectionKind::BrokenMessage,
    RejectionKind::Uncountable,
    RejectionKind::Unimplemented,
    RejectionKind::Unavailable,
    RejectionKind::DeadlinePassed,
];

/// How descriptors are checked and answered.
pub(crate) struct RateLimitSettings {
    /// Whether descriptors may bring limits.
    pub(crate) caller_quotas: bool,
    /// Longer values of entries are counted by a digest.
    pub(crate) max_attribute_bytes: usize,
    pub(crate) added_headers: AddedHeaders,
}

/// Answers the calls of a gRPC listener.
pub(crate) struct Service {
    decider: Arc<Decider>,
    resources: Resources,
    settings: RateLimitSettings,
    hold_seal: Arc<HoldSeal>,
    health: Health,
    tonic: Box<[Tonic]>,
    streams: Streams,
    refusal_logged: LogGap,
}

impl Service {
    /// Creates the service, and the handle to which its health is reported.
    ///
    /// # Errors
    ///
    /// If the description of the messages is invalid.
    pub(crate) async fn new(
        decider: Arc<Decider>,
        resources: Resources,
        settings: RateLimitSettings,
        hold_seal: Arc<HoldSeal>,
    ) -> anyhow::Result<(Self, HealthReporter)> {
        let (health, watch, reporter) = health::services().await;
        let tonic = [watch].into_iter().chain(reflection::services()?).collect();
        let streams = Streams::of_listener(&resources.budget);
        EXPECTED.into_iter().for_each(|kind| resources.metrics.rejections().expect(kind.status()));
        let service = Self {
            decider,
            resources,
            settings,
            hold_seal,
            health,
            tonic,
            streams,
            refusal_logged: LogGap::default(),
        };
        Ok((service, reporter))
    }
}
