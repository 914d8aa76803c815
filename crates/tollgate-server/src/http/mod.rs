//! The HTTP edge: turns requests into calls of the engine, and its answers into replies.
//!
//! The way of a request: `operations` is the table that names its operation, `door` checks it, and the handler in the
//! table answers it. `query`, `body` and `json` read requests; `wire` has the types of requests and replies. The
//! handlers are in `checks`, `holds` and `counts` (callers' own requests), `changes`, `overrides`, `policies` and
//! `reloads` (for administrators). `asked_client` finds whom an administrator means. `rejection` answers requests that get no decision. `dialects` has the paths and words of other
//! systems. `dashboard` is the live page. `forwarded` answers proxies about requests that headers describe. `openapi` describes the table. `connection`
//! is HTTP on one connection, and `outgoing` is the body of an answer that is being sent.

mod asked_client;
mod changes;
mod check_options;
mod checks;
mod clock;
mod connection;
mod counts;
mod dashboard;
mod dialects;
mod domains;
mod door;
mod forwarded;
mod holds;
mod openapi;
mod operation;
mod operations;
mod outgoing;
mod override_body;
mod overrides;
mod policies;
mod problem;
mod query;
mod rejection;
mod reloads;
mod reply;
mod scraping;
mod wire;

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use http::header::CONNECTION;
use http::{HeaderValue, Method, Request, StatusCode, Version};
use hyper::body::{Body as _, Incoming};
use tollgate::StoreError;
use tollgate_wire::headers::PolicyHeaders;

pub(crate) use self::check_options::{CheckOptions, ProxiesOverUnix};
pub(crate) use self::connection::Http;
pub(crate) use self::dialects::Dialect;
use self::forwarded::NamedHeaders;
use self::operation::{Effect, Handler, InputPlace, OperationRow};
use self::operations::Operations;
use self::reply::Reply;
use self::wire::BatchRequest;
use crate::access::caller::Caller;
use crate::access::counted_series::CountedSeries;
use crate::access::listener::Listener;
use crate::access::peer::ConnectionPeer;
use crate::answer::rejection::Rejection;
use crate::answer::rejection_kind::RejectionKind;
use crate::dashboard::Dashboard;
use crate::decide::decider::Decider;
use crate::decide::engine::DecisionEngine;
use crate::live::record::{NO_LIMITS, UNUSABLE};
use crate::live::rule_source::RuleSource;
use crate::metrics::{Metrics, Scrape, XdsStatus};
use crate::net::body;
use crate::net::budget::{Budget, HeldBytes};
use crate::net::drain::Phase;
use crate::net::resources::Resources;
use crate::observe::log_gap::LogGap;
use crate::overrides::Overrides;
use crate::store::{Servers, StoreState};

/// Where the rules of the decider come from.
pub(crate) struct FollowedRules {
    pub(crate) source: RuleSource,
    /// The state of xDS, if they come that way.
    pub(crate) xds: Option<Arc<XdsStatus>>,
    pub(crate) overrides: Arc<Overrides>,
}

/// Answers the requests of all listeners.
pub(crate) struct Edge {
    operations: Operations,
    listeners: Box<[Listener]>,
    decider: Arc<Decider>,
    followed: FollowedRules,
    limit_headers: PolicyHeaders,
    named_headers: NamedHeaders,
    asking: CheckOptions,
    budget: Budget,
    metrics: Arc<Metrics>,
    scrape: Scrape,
    /// The live page, if there is one.
    dashboard: Option<Arc<Dashboard>>,
    phase: Phase,
    /// Limits the log lines about refused requests of proxies.
    refusal_logged: LogGap,
    /// The series that callers count who are no principals.
    series: CountedSeries,
}

impl Edge {
    pub(crate) fn new(
        listeners: &[Listener],
        decider: Arc<Decider>,
        followed: FollowedRules,
        asking: CheckOptions,
        resources: Resources,
        scrape: Scrape,
        dashboard: Option<Arc<Dashboard>>,
    ) -> Self {
        let Resources { phase, metrics, budget } = resources;
        let live = decider.policies().map(DecisionEngine::live);
        let limit_headers = live.as_deref().map_or_else(PolicyHeaders::default, PolicyHeaders::new);
        let named_headers = live.as_deref().map_or_else(NamedHeaders::default, NamedHeaders::new);
        let operations = match &*decider {
            Decider::Policies(_) => Operations::of_policies(asking.dialect),
            Decider::Domains(_) => Operations::of_domains(),
        };
        let operations = if dashboard.is_some() { operations.with_dashboard() } else { operations };
        let operations = if asking.test_clock.is_some() { operations.with_test_clock() } else { operations };
        let asks_principals = listeners.iter().any(Listener::asks_principals);
        let statuses = operations.iter().flat_map(|operation| operation.rejections(asks_principals));
        let statuses = statuses.map(|(status, _)| status);
        let without_operation = [StatusCode::NOT_FOUND, StatusCode::METHOD_NOT_ALLOWED];
        statuses.chain(without_operation).for_each(|status| metrics.rejections().expect(status));
        let listeners = listeners.into();
        Self {
            operations,
            listeners,
            decider,
            followed,
            limit_headers,
            named_headers,
            asking,
            budget,
            metrics,
            scrape,
            dashboard,
            phase,
            refusal_logged: LogGap::default(),
            series: CountedSeries::new(),
        }
    }

    async fn answer(
        &self,
        listener: &Listener,
        peer: &ConnectionPeer,
        mut request: Request<Incoming>,
    ) -> Reply {
        let (version, is_head) = (request.version(), request.method() == Method::HEAD);
        let is_of_proxy = self.operations.answers_proxies_at(request.uri().path());
        let admitted = self.row(listener, peer, &request);
        let is_unread = match &admitted {
            // Its handler reads the body.
            Ok((row, _)) if row.operation.has_body() => false,
            Ok(_) if version == Version::HTTP_2 || request.body().is_end_stream() => false,
            _ => Box::pin(body::leave(&mut request, &self.budget)).await,
        };
        let reply = match admitted {
            Ok((row, caller)) => self.perform(row, &caller, request).await,
            Err(rejection) => Err(rejection),
        };
        let mut reply = reply.unwrap_or_else(|rejection| {
            if is_of_proxy {
                self.note_refused_proxy(&rejection);
            }
            self.metrics.rejections().count(rejection.kind().status());
            rejection.into()
        });
        reply.is_unread |= is_unread;
        let is_last = self.phase.is_draining() || reply.is_unread;
        if is_last && version < Version::HTTP_2 {
            reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if is_head { reply.without_body() } else { reply }
    }

    /// Refuses a request over HTTP/2 before it is read, because there is no memory for it.
    #[cold]
    fn no_room(&self) -> Reply {
        let reply = reply::no_room();
        self.metrics.rejections().count(reply.response.status());
        reply
    }

    async fn perform(
        &self,
        row: &OperationRow,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let version = request.version();
        let mut reply = match row.handler {
            Handler::CheckQuery => self.check_query(caller, request.uri()).await,
            Handler::CheckBody => self.check(caller, request).await,
            Handler::Dialect(dialect) => Box::pin(self.check_in_dialect(dialect, caller, request)).await,
            Handler::Now(handler) => handler(self, caller),
            Handler::Later(handler) => handler(self, caller, request).await,
        }?;
        // Nothing was changed, so the answer may still be replaced by a rejection.
        if row.operation.effect == Effect::Reads
            && let Some(held) =
                self.budget.for_answer(version, reply.length()).map_err(Rejection::no_room_for_answer)?
        {
            reply.held = Some(held);
        }
        Ok(reply)
    }

    /// Finds the operation of a request and its caller, if the request may come in.
    fn row(
        &self,
        listener: &Listener,
        peer: &ConnectionPeer,
        request: &Request<Incoming>,
    ) -> Result<(&OperationRow, Caller), Rejection> {
        door::check_form(request)?;
        let row = self.operations.find(listener, &self.listeners, request)?;
        let caller = door::admit(&row.operation, listener, peer, request)?;
        door::check_body(&row.operation, request)?;
        if matches!(row.operation.asked, InputPlace::Forwarded) {
            self.asking.check_proxy(listener)?;
        }
        Ok((row, caller))
    }

    /// Returns the OpenAPI description of the service in its current state.
    fn description(&self) -> Bytes {
        let live = self.decider.policies().map(DecisionEngine::live);
        let policies = live.as_ref().map(|live| live.policies());
        openapi::document(self.operations.iter(), &self.listeners, policies, self.asking.trials_header)
    }

    /// Returns the engine of the policies.
    ///
    /// # Errors
    ///
    /// If domains decide. Such a service has no operation that needs policies.
    fn engine(&self) -> Result<&DecisionEngine, Rejection> {
        let missing = "this service has no policies";
        self.decider.policies().ok_or_else(|| Rejection::new(RejectionKind::NotFound, missing))
    }

    /// Returns the live page.
    ///
    /// # Errors
    ///
    /// If there is none. Such a service has no operation that needs it.
    fn dashboard(&self) -> Result<&Dashboard, Rejection> {
        let missing = "this service has no live page (`serve --dashboard off`)";
        self.dashboard.as_deref().ok_or_else(|| Rejection::new(RejectionKind::NotFound, missing))
    }

    /// Checks the number of requests in a batch, and holds the memory for its answer, if a connection's own share is too
    /// small. An entry of the answer has so many bytes.
    /// Called before anything is counted.
    ///
    /// # Errors
    ///
    /// If there are no requests or too many, or if there is no room.
    fn room_for_batch(
        &self,
        version: Version,
        requests: usize,
        entry: usize,
    ) -> Result<Option<HeldBytes>, Rejection> {
        BatchRequest::check_length(requests)?;
        self.budget.for_answer(version, requests * entry).map_err(Rejection::no_room_for_answer)
    }

    /// Returns whether checks get decisions. During an outage of the store they do if the policies admit or count
    /// locally then; with an invalid file, under the earlier policies. The generation of the live limits is there in any
    /// case, once there are limits.
    async fn ready(&self) -> Result<Reply, Rejection> {
        let readiness = self.ready_text().await;
        // After the store was asked, which may take a while.
        let generation = self.decider.generation();
        let mut text = readiness.map_err(|rejection| rejection.with_generation(generation))?;
        text.extend(generation.map(|generation| format!("generation {generation}\n")));
        self.decider.note_ready();
        Ok(reply::text(reply::PLAIN, text.into()))
    }

    async fn ready_text(&self) -> Result<String, Rejection> {
        if self.phase.is_leaving() {
            return Err(Rejection::draining());
        }
        let FollowedRules { source, xds, overrides } = &self.followed;
        let has_failed = || source.reloads().is_some_and(|reloads| reloads.failure().is_some());
        if self.decider.awaits_limits() {
            return Err(if has_failed() {
                Rejection::no_valid_limits_yet()
            } else {
                Rejection::no_limits_yet()
            });
        }
        if self.decider.lacks_domains() {
            return Err(Rejection::no_domains());
        }
        let state = self.decider.store_state().await;
        if let StoreState::Fails(error) = &state
            && !self.decider.decides_in(&state)
        {
            return Err(Rejection::store(error));
        }
        let mut text = match state {
            StoreState::Answers => "ready\n".to_owned(),
            StoreState::FailsInPart(error, Servers { failed, all }) => format!(
                "ready; {failed} of {all} servers of the store fail, and their checks are decided by \
                 on_store_failure ({}): {}\n",
                self.decider.without_store().join(", "),
                cause(&error)
            ),
            StoreState::Fails(error) => {
                let words = self.decider.without_store().join(", ");
                format!("ready; decided by on_store_failure ({words}): {}\n", cause(&error))
            }
        };
        if has_failed() {
            // Only administrators may see what is wrong with the file.
            text += &match self.decider.policies().map(|engine| engine.live().version()) {
                Some(version) => format!("the policy file {UNUSABLE}: version {version} stays live\n"),
                None if xds.as_ref().is_some_and(|xds| xds.last_accepted().is_none()) => {
                    format!("the limits over xDS {UNUSABLE}\n")
                }
                None if xds.is_some() => {
                    format!("the limits over xDS {UNUSABLE}: the last valid ones stay live\n")
                }
                None => format!("the files of limits {UNUSABLE}: the last valid ones stay live\n"),
            };
        }
        if let Some(xds) = xds {
            text += &match (xds.is_connected(), xds.last_accepted()) {
                (true, Some(_)) => String::new(),
                (true, None) => format!("no limits have arrived over xDS: {NO_LIMITS}\n"),
                (false, Some(_)) => "the xDS server is not connected: the last limits stay live\n".to_owned(),
                (false, None) => format!("the xDS server is not connected: without limits, {NO_LIMITS}\n"),
            };
        }
        text.extend(overrides.status().stale_line());
        Ok(text)
    }
}

/// Returns the cause of an error. The error itself contains the address of the store, which not everyone should see.
fn cause(error: &StoreError) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}
