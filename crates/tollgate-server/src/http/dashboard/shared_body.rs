//! Answers with a body that all viewers share: as it is or compressed, or not at all if the viewer has it.

use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};

use crate::dashboard::page::PackedBody;
use crate::http::Reply;

/// Returns the answer to a request with these headers.
pub(super) fn answer(
    asked: &HeaderMap,
    packed: &PackedBody,
    media_type: &'static str,
    cache_control: &'static str,
) -> Reply {
    let is_gzip = accepts_gzip(asked);
    // The two forms have other bytes, so they have other tags.
    let tag = if is_gzip { format!("\"{}-gzip\"", packed.tag()) } else { format!("\"{}\"", packed.tag()) };
    let is_known = has_tag(asked, packed.tag());
    let mut reply = Response::new(match (is_known, is_gzip) {
        (true, _) => Bytes::new(),
        (false, true) => packed.gzip(),
        (false, false) => packed.plain(),
    });
    let headers = reply.headers_mut();
    headers.extend(HeaderValue::from_str(&tag).ok().map(|tag| (ETAG, tag)));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(cache_control));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if is_known {
        *reply.status_mut() = StatusCode::NOT_MODIFIED;
        return reply.into();
    }
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    if is_gzip {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    reply.into()
}

/// Returns whether the client takes gzip (RFC 9110, section 12.5.3).
fn accepts_gzip(asked: &HeaderMap) -> bool {
    values(asked, ACCEPT_ENCODING).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let weight = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f32>().ok());
        is_gzip && weight.is_none_or(|weight| weight > 0.0)
    })
}

/// Returns whether the client has this content in either form.
fn has_tag(asked: &HeaderMap, tag: &str) -> bool {
    values(asked, IF_NONE_MATCH).any(|known| {
        let known = known.strip_prefix("W/").unwrap_or(known).trim_matches('"');
        known == "*" || known.strip_suffix("-gzip").unwrap_or(known) == tag
    })
}

/// Returns the elements of all lists under this name.
fn values(asked: &HeaderMap, name: http::HeaderName) -> impl Iterator<Item = &str> {
    let lists = asked.get_all(name).iter().filter_map(|list| list.to_str().ok());
    lists.flat_map(|list| list.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: http::HeaderName, value: &'static str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
    }

    #[test]
    fn gzip_is_for_clients_that_take_it() {
        let accepts = |value| accepts_gzip(&headers(ACCEPT_ENCODING, value));
        assert!(accepts("gzip") && accepts("br, GZip;q=0.5, *") && accepts("gzip;q=1"));
        assert!(!accepts("br") && !accepts("gzip;q=0") && !accepts("gzip; q=0.0") && !accepts("xgzip"));
        assert!(!accepts_gzip(&HeaderMap::new()));
    }

    #[test]
    fn a_tag_stands_for_both_forms_of_its_content() {
        let has = |value| has_tag(&headers(IF_NONE_MATCH, value), "abc");
        assert!(has("\"abc\"") && has("\"x\", W/\"abc-gzip\"") && has("*"));
        assert!(!has("\"abcd\"") && !has("\"\"") && !has("\"x-gzip\""));
    }
}
