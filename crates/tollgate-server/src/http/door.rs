//! The door to every operation: the conditions that a request must meet before it is answered.
//!
//! A web page of another site can make its visitor's browser send requests here, from inside the visitor's network. It
//! cannot read the answers, but it could change things. If it binds its own name to our address, it could read as well.
//! So operations that change, read or reload policies or overrides refuse every request that such a page could send: a
//! body without the type JSON, a request that the browser marks as from another site, and a request for another name.
//! Checks only charge units to their caller, and accept any of these. Counts can be set and reset, so pages of other
//! sites may not send them; but they are accepted under any name, because their callers are applications, as those of
//! checks.
//!
//! With principals, every operation with a scope demands that scope. A page has no token, so its own name does not help
//! it there. But browsers show client certificates by themselves, so the other two rules still apply.

use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, Request, Version};

use super::operation::{InputPlace, Operation};
use crate::access::authorization::authorize;
use crate::access::caller::Caller;
use crate::access::listener::{Access, Listener};
use crate::access::peer::ConnectionPeer;
use crate::access::scope::Scope;
use crate::answer::rejection::Rejection;
use crate::answer::rejection_kind::RejectionKind;

/// Checks that the request is valid for its version of HTTP.
///
/// # Errors
///
/// If it has no host, or more than one (RFC 9112, section 3.2).
pub(super) fn check_form<B>(request: &Request<B>) -> Result<(), Rejection> {
    if request.version() != Version::HTTP_11 {
        return Ok(());
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(_), None) => Ok(()),
        (None, _) => Err(Rejection::new(RejectionKind::Invalid, "HTTP/1.1 needs a `Host`")),
        (Some(_), Some(_)) => Err(Rejection::new(RejectionKind::Invalid, "there is more than one `Host`")),
    }
}

/// Returns the caller, if it may use this operation.
///
/// # Errors
///
/// If a page of another site may have sent the request, or its caller is unknown or lacks the scope.
pub(super) fn admit<B>(
    operation: &Operation,
    listener: &Listener,
    peer: &ConnectionPeer,
    request: &Request<B>,
) -> Result<Caller, Rejection> {
    if operation.is_guarded() {
        let host = authority(request);
        if operation.scope.is_some_and(Scope::needs_known_host) {
            check_host(&listener.access, host)?;
        }
        check_site(request.headers(), host)?;
    }
    match operation.scope {
        Some(scope) => Ok(authorize(scope, listener, peer, request.headers())?),
        None => Ok(Caller::default()),
    }
}

/// Checks that the operation accepts the type of the body.
///
/// # Errors
///
/// If the body is not JSON.
pub(super) fn check_body<B>(operation: &Operation, request: &Request<B>) -> Result<(), Rejection> {
    if !operation.has_body() {
        return Ok(());
    }
    if request.uri().query().is_some() {
        return Err(Rejection::bad_field(
            "query",
            format!("a {} must send everything in its body", operation.method),
        ));
    }
    if request
        .headers()
        .get(CONTENT_ENCODING)
        .is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        let detail = "the body must not be compressed: leave `Content-Encoding` out";
        return Err(Rejection::new(RejectionKind::WrongMediaType, detail));
    }
    if matches!(operation.asked, InputPlace::OfAnyType(_)) {
        return Ok(());
    }
    match request.headers().get(CONTENT_TYPE) {
        None if !operation.is_guarded() => Ok(()),
        Some(kind) if is_json(kind.as_bytes()) => Ok(()),
        _ => {
            let detail = "the body must be JSON: `Content-Type: application/json`";
            Err(Rejection::new(RejectionKind::WrongMediaType, detail))
        }
    }
}

/// Returns the host and port of the request; `None` if its version is too old to require one.
fn authority<B>(request: &Request<B>) -> Option<&str> {
    // HTTP/2 and requests through a proxy have them with the path, which then overrides the header.
    let with_path = request.uri().authority().map(|authority| authority.as_str());
    // A header that is not text cannot be a name.
    with_path.or_else(|| request.headers().get(HOST).map(|host| host.to_str().unwrap_or_default()))
}

fn check_host(access: &Access, host: Option<&str>) -> Result<(), Rejection> {
    match (access, host) {
        (Access::Hosts(allowed), Some(host)) if !allowed.pass(host) => {}
        _ => return Ok(()),
    }
    let detail = "the name in `Host` is not allowed here: use an IP address or `localhost`, or start the service \
                  with `--allowed-host NAME`";
    Err(Rejection::new(RejectionKind::Forbidden, detail))
}

fn check_site(headers: &HeaderMap, host: Option<&str>) -> Result<(), Rejection> {
    let is_ours = match (headers.get("sec-fetch-site"), headers.get(ORIGIN)) {
        // Every current browser sends this header, at least to its own machine and over TLS, and no page can set it.
        (Some(site), _) => matches!(site.as_bytes(), b"same-origin" | b"none"),
        (None, Some(origin)) => {
            let origin = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
            origin.zip(host).is_some_and(|((_, origin), host)| origin.eq_ignore_ascii_case(host))
        }
        (None, None) => true,
    };
    if is_ours {
        return Ok(());
    }
    Err(Rejection::new(RejectionKind::Forbidden, "requests from pages of other sites are refused here"))
}

fn is_json(content_type: &[u8]) -> bool {
    let essence = content_type.split(|byte| *byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(b"application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_may_have_parameters() {
        assert!(is_json(b"application/json") && is_json(b"Application/JSON ; charset=utf-8"));
        assert!(!is_json(b"text/plain") && !is_json(b"application/jsonp") && !is_json(b""));
    }

    #[test]
    fn pages_of_other_sites_are_told_from_our_own() {
        let is_ours = |pairs: &[(&'static str, &str)]| {
            let pairs = pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            check_site(&HeaderMap::from_iter(pairs), Some("localhost:8090")).is_ok()
        };
        let fetched = |site: &str| is_ours(&[("sec-fetch-site", site), ("origin", "http://localhost:8090")]);
        assert!(is_ours(&[]) && fetched("same-origin") && fetched("none"));
        assert!(!fetched("cross-site") && !fetched("same-site") && !fetched(""));
        assert!(is_ours(&[("origin", "http://LOCALHOST:8090")]));
        for origin in
            ["null", "", "http://localhost", "http://evil.example", "http://localhost:8090.evil.example"]
        {
            assert!(!is_ours(&[("origin", origin)]), "{origin}");
        }
    }
}
