//! Operations. Routing, `Allow`, authorization, the checks against browsers, the counted rejections and `/openapi.json`
//! come from here.

use std::pin::Pin;

use http::{Method, Request, StatusCode};
use hyper::body::Incoming;

use super::dialects::Dialect;
use super::query::QueryParameter;
use super::wire::SchemaOf;
use super::{Edge, Reply};
use crate::access::caller::Caller;
use crate::access::listener::{Listener, ListenerKind};
use crate::access::scope::Scope;
use crate::answer::rejection::Rejection;

/// One operation of the service.
#[derive(Clone)]
pub(super) struct Operation {
    /// Its `operationId`.
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) path: &'static str,
    pub(super) method: Method,
    pub(super) effect: Effect,
    /// The scope that its caller needs; `None` if everyone may use it.
    pub(super) scope: Option<Scope>,
    pub(super) asked: InputPlace,
    /// The headers that it reads, all optional.
    pub(super) headers: &'static [RequestHeader],
    pub(super) success: Success,
    /// Its own rejections, with their meanings.
    pub(super) rejections: &'static [(StatusCode, &'static str)],
}

/// Whether an operation changes anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Reads,
    Changes,
}

/// A header of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestHeader {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
}

/// Where a request has its input.
#[derive(Clone, Copy)]
pub(super) enum InputPlace {
    /// Only in its path.
    Path,
    /// In its query, in Tollgate's own format.
    Query,
    /// In its query, as these parameters.
    Parameters(&'static [QueryParameter]),
    /// In its body.
    Body(SchemaOf),
    /// In its body, whose declared type does not matter.
    OfAnyType(SchemaOf),
    /// In its query, in another system's format.
    Dialect(&'static Dialect),
    /// In its headers, from a proxy, with any method and without a body.
    Forwarded,
}

/// The answer to a valid request.
#[derive(Clone, Copy)]
pub(super) enum Success {
    /// A decision; the policy that denies chooses the status.
    Decision(&'static str),
    /// A decision with a hold; the policy that denies chooses the status.
    Reservation(&'static str),
    /// A decision, always with status 200.
    Verdict(&'static str),
    /// A decision in another system's format.
    Dialect(&'static Dialect),
    /// A decision for a proxy, which may pass a denial on to its client.
    Forwarded,
    /// A decision as Envoy's service makes it.
    Envoy,
    /// JSON of this type.
    Json(SchemaOf, &'static str),
    /// JSON of this type, with the version of the thing in `ETag`.
    Tagged(SchemaOf, &'static str),
    /// JSON of this type that all callers share for a while, with its tag in `ETag`.
    Shared(SchemaOf, &'static str),
    /// JSON with a description elsewhere.
    Document(&'static str),
    /// Text of one of these media types.
    Text(&'static [&'static str]),
    /// A file of the live page.
    Page,
}

/// An operation and its handler.
pub(super) struct OperationRow {
    pub(super) operation: Operation,
    pub(super) handler: Handler,
}

/// The handler of an operation.
///
/// Checks are most of the traffic and have their own variants: their futures are part of the connection's future, which
/// reserves room for the largest and moves all of it for each request. All others are boxed.
pub(super) enum Handler {
    CheckQuery,
    CheckBody,
    Dialect(&'static Dialect),
    Now(fn(&Edge, &Caller) -> Result<Reply, Rejection>),
    Later(for<'a> fn(&'a Edge, &'a Caller, Request<Incoming>) -> LaterReply<'a>),
}

pub(super) type LaterReply<'a> = Pin<Box<dyn Future<Output = Result<Reply, Rejection>> + Send + 'a>>;

/// The store cannot answer now.
pub(super) const UNAVAILABLE: (StatusCode, &str) = (
    StatusCode::SERVICE_UNAVAILABLE,
    "The store failed, and the policy refuses requests then (`closed`). Or: The store is full, and the key has no \
     counter (`reason` is `store_full`)",
);
/// The store can never answer.
pub(super) const UNCOUNTABLE: (StatusCode, &str) = (
    StatusCode::INTERNAL_SERVER_ERROR,
    "The store can never count this request, so a retry does not help (`reason` is `uncountable`); for example, on a \
     Cluster, its policies count different keys",
);
/// The rejections of an operation that asks the store.
pub(super) const OF_THE_STORE: &[(StatusCode, &str)] = &[UNCOUNTABLE, UNAVAILABLE];

/// The handler of this name, which may wait.
macro_rules! later {
    ($handler:ident) => {
        Handler::Later(|edge, caller, request| Box::pin(edge.$handler(caller, request)))
    };
}

pub(super) use later;

impl Operation {
    /// An operation that reads, and asks for nothing but its path.
    pub(super) fn get(id: &'static str, path: &'static str, scope: Option<Scope>) -> Self {
        Self {
            id,
            summary: "",
            path,
            method: Method::GET,
            effect: Effect::Reads,
            scope,
            asked: InputPlace::Path,
            headers: &[],
            success: Success::Text(&[]),
            rejections: &[],
        }
    }

    /// An operation that changes something, with a body of this type.
    pub(super) fn post(id: &'static str, path: &'static str, scope: Scope, body: SchemaOf) -> Self {
        let (method, effect, asked) = (Method::POST, Effect::Changes, InputPlace::Body(body));
        Self { method, effect, asked, ..Self::get(id, path, Some(scope)) }
    }

    /// An operation that replaces something, with a body of this type.
    pub(super) fn put(id: &'static str, path: &'static str, scope: Scope, body: SchemaOf) -> Self {
        Self { method: Method::PUT, ..Self::post(id, path, scope, body) }
    }

    /// Returns whether its handler reads a body.
    pub(super) fn has_body(&self) -> bool {
        self.method == Method::POST || self.method == Method::PUT
    }

    pub(super) fn with_headers(self, headers: &'static [RequestHeader]) -> Self {
        Self { headers, ..self }
    }

    pub(super) fn asks(self, asked: InputPlace) -> Self {
        Self { asked, ..self }
    }

    pub(super) fn reads(self) -> Self {
        Self { effect: Effect::Reads, ..self }
    }

    pub(super) fn changes(self) -> Self {
        Self { effect: Effect::Changes, ..self }
    }

    pub(super) fn summary(self, summary: &'static str) -> Self {
        Self { summary, ..self }
    }

    pub(super) fn success(self, success: Success) -> Self {
        Self { success, ..self }
    }

    pub(super) fn rejecting(self, rejections: &'static [(StatusCode, &'static str)]) -> Self {
        Self { rejections, ..self }
    }

    /// Returns the row of the table.
    pub(super) fn handled_by(self, handler: Handler) -> OperationRow {
        OperationRow { operation: self, handler }
    }

    /// Returns whether it answers requests at this path. The page has many files, and one operation for all of them.
    pub(super) fn is_at(&self, path: &str) -> bool {
        self.path == path
            || self.is_of_page()
                && self.path != "/"
                && self.path.ends_with('/')
                && path.starts_with(self.path)
    }

    /// Returns whether it answers with the files of the live page, which are no part of the API.
    pub(super) const fn is_of_page(&self) -> bool {
        matches!(self.success, Success::Page)
    }

    /// Returns whether this listener offers it.
    pub(super) fn is_on(&self, listener: &Listener) -> bool {
        listener.grants(self.scope) && (!self.is_of_page() || listener.kind == ListenerKind::Admin)
    }

    pub(super) fn allows(&self, method: &Method) -> bool {
        // HEAD would take units without saying how many are left.
        *method == self.method || (*method == Method::HEAD && self.has_head()) || self.has_every_method()
    }

    fn has_head(&self) -> bool {
        self.method == Method::GET && self.effect == Effect::Reads
    }

    /// Returns whether it accepts any method: a proxy may use its client's.
    const fn has_every_method(&self) -> bool {
        matches!(self.asked, InputPlace::Forwarded)
    }

    /// Returns the methods under which it is described, its own first.
    pub(super) fn methods(&self) -> impl Iterator<Item = &Method> {
        static HEAD: [Method; 1] = [Method::HEAD];
        static ALL_BUT_GET: [Method; 7] = [
            Method::HEAD,
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
            Method::OPTIONS,
            Method::TRACE,
        ];
        let others: &[Method] = match (self.has_every_method(), self.has_head()) {
            (true, _) => &ALL_BUT_GET,
            (false, true) => &HEAD,
            (false, false) => &[],
        };
        std::iter::once(&self.method).chain(others)
    }

    pub(super) fn is_guarded(&self) -> bool {
        self.scope.is_some_and(Scope::is_guarded)
    }

    /// Returns all its possible rejections: its own, those of its form, and, if principals are required, those of
    /// principals. Requests that are not HTTP or match no operation are not included.
    pub(super) fn rejections(
        &self,
        asks_principals: bool,
    ) -> impl Iterator<Item = (StatusCode, &'static str)> {
        let if_any = |is_there, rejections: &'static [_]| if is_there { rejections } else { &[] };
        let forms: [&'static [(StatusCode, &'static str)]; 4] = [
            if_any(self.has_body() || !matches!(self.asked, InputPlace::Path), BAD_REQUEST),
            if_any(self.has_body(), BAD_BODY),
            match (self.is_guarded(), asks_principals && self.scope.is_some()) {
                (false, false) => &[],
                (true, false) => OF_A_BROWSER,
                (false, true) => OF_PRINCIPALS,
                (true, true) => OF_BOTH,
            },
            self.rejections,
        ];
        forms.into_iter().flatten().copied()
    }
}

const BAD_REQUEST: &[(StatusCode, &str)] =
    &[(StatusCode::BAD_REQUEST, "The request is invalid; `field` names the place")];

const BAD_BODY: &[(StatusCode, &str)] = &[
    (StatusCode::REQUEST_TIMEOUT, "The body did not arrive in time"),
    (StatusCode::PAYLOAD_TOO_LARGE, "The body is larger than 64 KiB"),
    (StatusCode::UNSUPPORTED_MEDIA_TYPE, "The body is not JSON, or is compressed"),
    (
        StatusCode::SERVICE_UNAVAILABLE,
        "The memory for requests in flight is used up (`--body-memory`), and nothing was done",
    ),
];

const OF_A_BROWSER: &[(StatusCode, &str)] = &[(
    StatusCode::FORBIDDEN,
    "The request comes from a page of another site, or `--allowed-host` does not allow its `Host`",
)];

const UNAUTHORIZED: (StatusCode, &str) = (
    StatusCode::UNAUTHORIZED,
    "No token, or an unknown or expired one; `scope` names the scope that it needs",
);

const OF_PRINCIPALS: &[(StatusCode, &str)] = &[
    UNAUTHORIZED,
    (StatusCode::FORBIDDEN, "The caller lacks `scope`, or may not use a policy of the request"),
];

const OF_BOTH: &[(StatusCode, &str)] = &[
    UNAUTHORIZED,
    (
        StatusCode::FORBIDDEN,
        "The caller lacks `scope`, or may not use a policy of the request; or a page of another site sent it",
    ),
];
