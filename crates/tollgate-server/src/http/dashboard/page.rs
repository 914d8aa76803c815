//! The files of the page.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, LOCATION};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;

use super::shared_body;
use crate::access::caller::Caller;
use crate::answer::rejection::Rejection;
use crate::answer::rejection_kind::RejectionKind;
use crate::http::{Edge, Reply};

/// Below it are the files.
pub(in crate::http) const FOLDER: &str = "/ui/";

/// Browsers ask each time whether they have the current file, so its name need not change with its content.
const REVALIDATED: &str = "no-cache";

/// The page runs its own scripts alone, reads from its own origin alone, and cannot make HTML from text, so a key or a
/// name that looks like HTML stays a text. No other site can frame or open it.
const GUARDS: [(&str, &str); 5] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
         trusted-types 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

impl Edge {
    /// Leads to the page. The address is relative, because a proxy may serve the listener below a path of its own.
    pub(in crate::http) async fn page_start(
        &self,
        _caller: &Caller,
        _request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let mut reply = Response::new(Bytes::new());
        *reply.status_mut() = StatusCode::FOUND;
        reply.headers_mut().insert(LOCATION, HeaderValue::from_static("./ui/"));
        reply.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static(REVALIDATED));
        Ok(guarded(reply.into()))
    }

    pub(in crate::http) async fn page_file(
        &self,
        _caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let name = request.uri().path().strip_prefix(FOLDER).unwrap_or_default();
        let file = self.dashboard()?.page.file(name);
        let file = file.ok_or_else(|| {
            Rejection::new(RejectionKind::NotFound, "the page has no such file: it begins at `/ui/`")
        })?;
        Ok(guarded(shared_body::answer(request.headers(), &file.content, file.media_type, REVALIDATED)))
    }
}

fn guarded(mut reply: Reply) -> Reply {
    for (name, value) in GUARDS {
        reply.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    reply
}
