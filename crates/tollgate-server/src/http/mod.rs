//! The HTTP edge: from a request to what the engine is asked, and from its answer to a reply.
//!
//! Here is the routing. What a request says is read in `query`, `body` and `json`; what goes over the wire is in
//! `wire`; what is answered in `checks` (the caller's own), `changes` and `policies` (the administrator's) and
//! `problem` (what went wrong). `answers` has the paths and words of other systems. `openapi` describes all of it.

mod answers;
mod body;
mod changes;
mod checks;
mod json;
mod limit_headers;
mod openapi;
mod policies;
mod problem;
mod query;
mod reply;
mod route;
mod wire;

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH};
use http::{HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body_util::Full;
use hyper::body::{Body, Incoming};
use tollgate::OnStoreFailure;
use tollgate_policy::{Mode, PolicySet};

pub(crate) use self::answers::System;
use self::limit_headers::HeaderTable;
use self::problem::Problem;
pub(crate) use self::route::Listener;
use self::route::Route;
use crate::engine::Engine;
use crate::metrics::{Metrics, Scrape};
use crate::phase::Phase;
use crate::reload::Reloads;
use crate::store::{ServedStore, Servers, StoreState};
use crate::with_sources::WithSources;

/// An answer, whole in memory.
type Reply = Response<Full<Bytes>>;

/// Answers the requests of both listeners.
pub(crate) struct Edge<S> {
    engine: Engine<S>,
    /// If the policies are from a file.
    reloads: Option<Arc<Reloads<S>>>,
    /// The other system that answers besides.
    answers: Option<&'static System>,
    limit_headers: HeaderTable,
    metrics: Arc<Metrics>,
    scrape: Scrape,
    phase: Phase,
}

impl<S: ServedStore + 'static> Edge<S> {
    pub(crate) fn new(
        engine: Engine<S>,
        reloads: Option<Arc<Reloads<S>>>,
        answers: Option<&'static System>,
        metrics: Arc<Metrics>,
        scrape: Scrape,
        phase: Phase,
    ) -> Self {
        let limit_headers = HeaderTable::new(&engine.live());
        Self { engine, reloads, answers, limit_headers, metrics, scrape, phase }
    }

    pub(crate) async fn answer(&self, listener: Listener, request: Request<Incoming>) -> Reply {
        let (version, is_head) = (request.version(), request.method() == Method::HEAD);
        let mut reply = self.route(listener, request).await.unwrap_or_else(|problem| {
            self.metrics.rejected(problem.status());
            problem.into_reply()
        });
        if self.phase.is_draining() && version < Version::HTTP_2 {
            reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if is_head { without_body(reply) } else { reply }
    }

    async fn route(&self, listener: Listener, request: Request<Incoming>) -> Result<Reply, Problem> {
        let path = request.uri().path();
        let route =
            Route::at(listener, path, self.answers).ok_or_else(|| Problem::not_found(listener, path))?;
        if !route.allows(request.method()) {
            return Err(Problem::method_not_allowed(route.allow()));
        }
        if request.method() == Method::POST && request.uri().query().is_some() {
            return Err(Problem::bad_field("query", "a POST says everything in its body"));
        }
        match route {
            Route::Check if request.method() == Method::GET => self.check_query(request.uri()).await,
            Route::Check => self.check(request).await,
            // Each of these apart: a connection has room for the largest future in here, and moves all of it for each
            // request.
            Route::Other(system) => Box::pin(self.answer_as(system, request.uri())).await,
            Route::Peek => Box::pin(self.peek(request)).await,
            Route::Batch => Box::pin(self.check_batch(request)).await,
            Route::Refund => Box::pin(self.refund(request)).await,
            Route::Reset => Box::pin(self.reset(request)).await,
            Route::Set => Box::pin(self.set(request)).await,
            Route::Policies => Ok(self.policies()),
            Route::Reload => Box::pin(self.reload()).await,
            Route::PolicySchema => Ok(reply::json_bytes(StatusCode::OK, policy_schema())),
            Route::Metrics => Ok(reply::text(Scrape::CONTENT_TYPE, self.scrape.text().into())),
            Route::OpenApi => {
                Ok(reply::json_bytes(StatusCode::OK, openapi::document(&self.engine.live(), self.answers)))
            }
            Route::Health => Ok(reply::text(reply::PLAIN, Bytes::from_static(b"ok\n"))),
            Route::Ready if self.phase.is_draining() => Err(Problem::draining()),
            Route::Ready => Box::pin(self.ready()).await,
        }
    }

    /// Whether checks get decisions. They do by a policy for a store that is away, and by earlier policies if the file
    /// is invalid.
    async fn ready(&self) -> Result<Reply, Problem> {
        let live = self.engine.live();
        let mut text = match self.engine.store_state().await {
            StoreState::Answers => "ready\n".to_owned(),
            // With `closed` as well: what the other servers count is decided, and that is most of it.
            StoreState::FailsInPart(error, Servers { failed, all }) => format!(
                "ready; {failed} of {all} servers of the store fail, and what they count is decided by \
                 on_store_failure ({}): {}\n",
                without_store(&live).join(", "),
                WithSources(&error)
            ),
            StoreState::Fails(error) => {
                let words = without_store(&live);
                if words == [OnStoreFailure::Closed.name()] {
                    return Err(Problem::store(&error));
                }
                format!(
                    "ready; decisions by on_store_failure ({}): {}\n",
                    words.join(", "),
                    WithSources(&error)
                )
            }
        };
        if self.reloads.as_ref().is_some_and(|reloads| reloads.state().failure().is_some()) {
            // What is wrong with it is for administrators.
            text += &format!("the file of policies cannot be used: version {} goes on\n", live.version());
        }
        Ok(reply::text(reply::PLAIN, text.into()))
    }
}

/// What the policies that count say of a store that cannot answer, each word once.
fn without_store(live: &PolicySet) -> Vec<&'static str> {
    let all = live.policies().as_slice().iter();
    let counting = all.filter(|policy| policy.mode() == Mode::Enforce && !policy.is_exempt());
    let mut words: Vec<&str> = counting.map(|policy| policy.on_store_failure().name()).collect();
    words.sort_unstable();
    words.dedup();
    words
}

/// The schema of a file of policies, for editors.
fn policy_schema() -> Bytes {
    tollgate_policy::json_schema().to_string().into()
}

/// The same head, and the length that the body would have had.
fn without_body(reply: Reply) -> Reply {
    let (mut head, body) = reply.into_parts();
    if let Some(length) = body.size_hint().exact() {
        head.headers.insert(CONTENT_LENGTH, length.into());
    }
    Response::from_parts(head, Full::default())
}
