//! The door to every operation: what a request must satisfy before it is answered.
//!
//! A web page of another site can have its visitor's browser send requests here, from inside the visitor's network. It
//! cannot read the answers, but what changes anything would be changed. And with a name of its own that it has bound to
//! our address, it could read as well. So what changes, reads or has policies read again takes no request that such a
//! page could send: no body without the type JSON, none that the browser says is of another site, none for another
//! name. Checks take units of whoever asks and take any of these.
//!
//! Where there are principals, every operation with a scope is for those who have it. A page has no token to show, so a
//! name of its own gives it nothing there; a client certificate is shown by the browser, so the other two still hold.

use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, Method, Request, StatusCode, Version};
use tollgate::{Clock, SystemClock};

use super::operation::Operation;
use super::rejection::Rejection;
use crate::caller::{Caller, Peer};
use crate::listener::{Access, Listener};
use crate::principals::Presented;

/// That the request is HTTP as its version has it.
///
/// # Errors
///
/// If it does not name its host, or does twice (RFC 9112, section 3.2).
pub(super) fn check_form<B>(request: &Request<B>) -> Result<(), Rejection> {
    if request.version() != Version::HTTP_11 {
        return Ok(());
    }
    let mut hosts = request.headers().get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(_), None) => Ok(()),
        (None, _) => Err(Rejection::new(StatusCode::BAD_REQUEST, "HTTP/1.1 needs a `Host`")),
        (Some(_), Some(_)) => Err(Rejection::new(StatusCode::BAD_REQUEST, "there is more than one `Host`")),
    }
}

/// Who asks, if they may ask for this operation.
///
/// # Errors
///
/// If a page of another site may have sent the request, nobody who is known did, or somebody who lacks the scope.
pub(super) fn admit<B>(
    operation: &Operation,
    listener: &Listener,
    peer: &Peer,
    request: &Request<B>,
) -> Result<Caller, Rejection> {
    if operation.is_guarded() {
        let host = authority(request);
        check_host(&listener.access, host)?;
        check_site(request.headers(), host)?;
    }
    match (operation.scope, &listener.access) {
        (Some(scope), Access::Principals(principals)) => {
            let (presented, now) = (presented(request.headers()), SystemClock.coarse_now());
            let principals = principals.load();
            let caller = principals.authorize(scope, presented, peer, now);
            caller.map_err(|reason| match principals.have_tokens() {
                true => Rejection::unauthorized(reason, scope),
                false => Rejection::unauthorized_certificate(reason, scope),
            })
        }
        _ => Ok(Caller::default()),
    }
}

/// That the body of the request is one for this operation.
///
/// # Errors
///
/// If it is not JSON.
pub(super) fn check_body<B>(operation: &Operation, request: &Request<B>) -> Result<(), Rejection> {
    if operation.method != Method::POST {
        return Ok(());
    }
    if request.uri().query().is_some() {
        return Err(Rejection::bad_field("query", "a POST says everything in its body"));
    }
    if request
        .headers()
        .get(CONTENT_ENCODING)
        .is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        let detail = "the body must not be compressed: leave `Content-Encoding` out";
        return Err(Rejection::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail));
    }
    match request.headers().get(CONTENT_TYPE) {
        None if !operation.is_guarded() => Ok(()),
        Some(kind) if is_json(kind.as_bytes()) => Ok(()),
        _ => {
            let detail = "the body must be JSON: `Content-Type: application/json`";
            Err(Rejection::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, detail))
        }
    }
}

/// The token of a request.
fn presented(headers: &HeaderMap) -> Presented<'_> {
    /// Longer than any token: what is longer is not hashed.
    const MAX_TOKEN: usize = 512;
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let (value, more) = (given.next(), given.next());
    let Some(value) = value else { return Presented::Nothing };
    match value.as_bytes().split_at_checked("Bearer ".len()) {
        Some((scheme, token))
            if more.is_none()
                && scheme.eq_ignore_ascii_case(b"Bearer ")
                && (1..=MAX_TOKEN).contains(&token.trim_ascii().len()) =>
        {
            Presented::Token(token.trim_ascii())
        }
        _ => Presented::Nonsense,
    }
}

/// The host and port that the request is for; `None` if it is so old that it need not say.
fn authority<B>(request: &Request<B>) -> Option<&str> {
    // HTTP/2 and requests through a proxy say it with the path, and then that is what counts.
    let with_path = request.uri().authority().map(|authority| authority.as_str());
    // What is no text is no name.
    with_path.or_else(|| request.headers().get(HOST).map(|host| host.to_str().unwrap_or_default()))
}

fn check_host(access: &Access, host: Option<&str>) -> Result<(), Rejection> {
    match (access, host) {
        (Access::Hosts(allowed), Some(host)) if !allowed.pass(host) => {}
        _ => return Ok(()),
    }
    let detail = "the name in `Host` is not allowed here: use an IP address or `localhost`, or start the service \
                  with `--allowed-host NAME`";
    Err(Rejection::new(StatusCode::FORBIDDEN, detail))
}

fn check_site(headers: &HeaderMap, host: Option<&str>) -> Result<(), Rejection> {
    let is_ours = match (headers.get("sec-fetch-site"), headers.get(ORIGIN)) {
        // Every current browser says it, at least on its own machine and over TLS, and no page can.
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
    Err(Rejection::new(StatusCode::FORBIDDEN, "this is not answered to the pages of other sites"))
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

    #[test]
    fn a_token_is_given_once_and_as_bearer() {
        let token = |values: &[&str]| {
            let values = values.iter().map(|value| (AUTHORIZATION, value.parse().unwrap()));
            match presented(&values.collect()) {
                Presented::Nothing => "nothing".to_owned(),
                Presented::Token(token) => String::from_utf8(token.to_vec()).unwrap(),
                Presented::Nonsense => "nonsense".to_owned(),
            }
        };
        assert_eq!(token(&[]), "nothing");
        assert_eq!(
            (token(&["Bearer tg_a"]), token(&["bEARER  tg_a"])),
            ("tg_a".to_owned(), "tg_a".to_owned())
        );
        let long = format!("Bearer {}", "a".repeat(513));
        for values in [
            &["tg_a"][..],
            &["Bearer"],
            &["Bearer "],
            &["Basic tg_a"],
            &["Bearer tg_a", "Bearer tg_a"],
            &[&long],
        ] {
            assert_eq!(token(values), "nonsense", "{values:?}");
        }
    }
}
