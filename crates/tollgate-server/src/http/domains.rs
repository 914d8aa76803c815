//! envoyproxy/ratelimit: `/json` and `/healthcheck`, and the live domains instead of policies.
//!
//! It receives descriptors instead of attributes, and decides by its own configuration, so it is not a
//! [`Dialect`](super::dialects::Dialect). If its store fails, it answers 400; this service answers 503.

use http::{Request, StatusCode};
use hyper::body::Incoming;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;
use serde_json::Value;
use tollgate_envoy::{Code, JsonError};

use super::operation::{Handler, InputPlace, OF_THE_STORE, Operation, OperationRow, Success, later};
use super::reloads::{NotLive, ReloadBody};
use super::{Edge, Reply, reply};
use crate::access::caller::Caller;
use crate::access::scope::Scope;
use crate::answer::rejection::Rejection;
use crate::answer::rejection_kind::RejectionKind;
use crate::decide::envoy::DomainEngine;
use crate::metrics::XdsStatus;
use crate::net::body;

/// The path for decisions.
pub(super) const PATH: &str = "/json";

/// The live limits, by domain. Keys and values are not shown, because values may be secret.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Domains")]
struct DomainsBody<'a> {
    /// What decides: `domains`. Without the limits of envoyproxy/ratelimit, it is `policies`.
    decides: &'static str,
    /// Counted from 1 since the process started.
    version: u64,
    /// A hash of all live limits, the same for every process with the same ones.
    /// Absent before the first limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    generation: Option<String>,
    /// The folder that they are from, or the URL of the server that sends them over xDS.
    source: &'a str,
    /// The state of xDS; absent if the limits are from files.
    #[serde(skip_serializing_if = "Option::is_none")]
    xds: Option<XdsBody>,
    /// Why the files as last read are not live; absent if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_live: Option<NotLive>,
    /// The last ten reloads, the latest one first; absent if there are none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reloads: Vec<ReloadBody>,
    /// In the order of their names.
    domains: Vec<DomainBody<'a>>,
}

/// The state of xDS.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Xds")]
struct XdsBody {
    connected: bool,
    /// The server's version of the last update that was accepted; absent until then.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<Box<str>>,
    /// When it was accepted, in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted_at: Option<i64>,
    /// How many updates were accepted.
    accepted: u64,
    /// How many updates were rejected.
    rejected: u64,
}

/// A domain.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Domain")]
struct DomainBody<'a> {
    name: &'a str,
    /// The number of its limits.
    limits: usize,
}

/// The operations of a service that was started with its configuration.
pub(super) fn rows() -> Vec<OperationRow> {
    vec![
        Operation::get("domains", "/v1/policies", Some(Scope::Read))
            .summary("The live limits of envoyproxy/ratelimit")
            .success(Success::Json(
                |generator| generator.subschema_for::<DomainsBody<'_>>(),
                "The domains, which decide instead of policies, and their source",
            ))
            .handled_by(Handler::Now(Edge::domains)),
        Operation::post("checkAsEnvoy", PATH, Scope::Check, message)
            .asks(InputPlace::OfAnyType(message))
            .summary("Decide on descriptors, as envoyproxy/ratelimit does")
            .success(Success::Envoy)
            .rejecting(OF_THE_STORE)
            .handled_by(later!(check_as_envoy)),
        Operation::get("healthcheck", "/healthcheck", None)
            .summary("Whether the service is healthy, as envoyproxy/ratelimit reports it")
            .success(Success::Text(&[reply::PLAIN]))
            .rejecting(&[(
                StatusCode::INTERNAL_SERVER_ERROR,
                "It is not: it was never ready, or is about to stop",
            )])
            .handled_by(Handler::Later(|edge, _, _| Box::pin(edge.healthcheck()))),
    ]
}

/// A message of protobuf, in JSON.
pub(super) fn message(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object" })
}

impl Edge {
    fn domains(&self, caller: &Caller) -> Result<Reply, Rejection> {
        caller.may_touch_all()?;
        let envoy = self.domain_engine()?;
        let live = envoy.live();
        let mut domains: Vec<_> =
            live.limits_by_name().map(|(name, limits)| DomainBody { name, limits }).collect();
        domains.sort_unstable_by_key(|domain| domain.name);
        let (version, source) = (envoy.version(), envoy.source());
        let generation = envoy.generation().map(|generation| generation.to_string());
        let (not_live, reloads) = (self.not_live(), self.last_reloads());
        let xds = self.followed.xds.as_deref().map(XdsBody::new);
        let body =
            DomainsBody { decides: "domains", version, generation, source, xds, not_live, reloads, domains };
        Ok(reply::json(StatusCode::OK, &body))
    }

    fn domain_engine(&self) -> Result<&DomainEngine, Rejection> {
        let missing = "this service has no limits of Envoy's rate-limit service";
        self.decider.domains().ok_or_else(|| Rejection::new(RejectionKind::NotFound, missing))
    }

    async fn check_as_envoy(&self, caller: &Caller, request: Request<Incoming>) -> Result<Reply, Rejection> {
        let body = body::read(request, &self.budget).await?;
        let json: Value = serde_json::from_slice(&body).map_err(|error| {
            Rejection::new(RejectionKind::Invalid, format!("the body is not JSON: {error}"))
        })?;
        let request = tollgate_envoy::Request::from_json(&json)
            .map_err(|JsonError { place, fault }| Rejection::bad_field(place, fault.to_string()))?;
        let response =
            self.domain_engine()?.decide(caller, &request, None).await.map_err(Rejection::undecided)?;
        let status = match response.overall {
            Code::Ok => StatusCode::OK,
            Code::OverLimit => StatusCode::TOO_MANY_REQUESTS,
        };
        Ok(reply::json(status, &response.to_json()))
    }

    /// Checks that the service is healthy, or returns why it is not.
    async fn check_health(&self, engine: &DomainEngine) -> Result<(), Rejection> {
        if !self.phase.is_leaving() && engine.stays_healthy() {
            return Ok(());
        }
        self.ready().await.map(drop)
    }

    async fn healthcheck(&self) -> Result<Reply, Rejection> {
        let health = self.check_health(self.domain_engine()?).await;
        let text =
            health.as_ref().map_or_else(|reason| format!("{}\n", reason.detail()), |()| "OK".to_owned());
        let mut reply = reply::text(reply::PLAIN, text.into());
        if health.is_err() {
            *reply.response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        }
        Ok(reply)
    }
}

impl XdsBody {
    fn new(status: &XdsStatus) -> Self {
        let (version, accepted_at) =
            status.last_accepted().map(|update| (update.version, update.at.as_unix_millis())).unzip();
        let [(_, accepted), (_, rejected)] = status.updates();
        Self { connected: status.is_connected(), version, accepted_at, accepted, rejected }
    }
}
