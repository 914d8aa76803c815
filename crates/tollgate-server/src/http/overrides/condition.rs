//! The condition of a change: the override that its caller has seen (RFC 9110, section 13).

use http::header::{HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE};
use http::{HeaderMap, HeaderValue};
use tollgate_policy::OverridesVersion;
use tollgate_redis::RecordMatch;

use crate::answer::rejection::Rejection;

/// Returns the condition under which an override may be set.
///
/// # Errors
///
/// If a header asks for something else than one version, or than that there is none.
pub(in crate::http) fn of_set(headers: &HeaderMap) -> Result<RecordMatch, Rejection> {
    refuse_times(headers)?;
    match (only(headers, IF_MATCH)?, only(headers, IF_NONE_MATCH)?) {
        (None, None) => Ok(RecordMatch::Any),
        (Some(version), None) => seen(version),
        (None, Some("*")) => Ok(RecordMatch::Absent),
        (None, Some(_)) => {
            let detail = "`If-None-Match` can only be `*`: the override is set if there is none; for the version that \
                          you have seen, use `If-Match`";
            Err(Rejection::bad_field("if-none-match", detail))
        }
        (Some(_), Some(_)) => {
            Err(Rejection::bad_field("if-none-match", "either `If-Match` or `If-None-Match: *`, not both"))
        }
    }
}

/// Returns the condition under which an override may be deleted.
///
/// # Errors
///
/// If a header asks for something else than one version.
pub(super) fn of_delete(headers: &HeaderMap) -> Result<RecordMatch, Rejection> {
    refuse_times(headers)?;
    if only(headers, IF_NONE_MATCH)?.is_some() {
        let detail =
            "nothing can be deleted if there is nothing: use `If-Match` with the version that you have seen";
        return Err(Rejection::bad_field("if-none-match", detail));
    }
    only(headers, IF_MATCH)?.map_or(Ok(RecordMatch::Any), seen)
}

/// Returns the value of a header.
fn only(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Rejection> {
    let mut all = headers.get_all(&name).iter();
    match (all.next().map(HeaderValue::to_str), all.next()) {
        (None, _) => Ok(None),
        (Some(Ok(value)), None) => Ok(Some(value.trim())),
        (Some(Ok(_)), Some(_)) => Err(Rejection::bad_field(name.as_str(), "the header is given twice")),
        (Some(Err(_)), _) => Err(Rejection::bad_field(name.as_str(), "the header is not text")),
    }
}

/// Reads the version that a caller has seen. A list of versions, `*` or a weak tag could be meant as a guard, and the store
/// compares one version, so none of them is guessed at.
fn seen(value: &str) -> Result<RecordMatch, Rejection> {
    let version = value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match version.map(str::parse::<OverridesVersion>) {
        Some(Ok(OverridesVersion { epoch, number })) => Ok(RecordMatch::Version { epoch, number }),
        _ => {
            let detail = "expected one version in quotation marks, as `ETag` and `version` of the override have it, such \
                          as \"0123456789abcdef.7\"; `*`, several versions and weak ones (`W/`) are not supported";
            Err(Rejection::bad_field("if-match", detail))
        }
    }
}

/// Refuses conditions on times, which would be without effect.
fn refuse_times(headers: &HeaderMap) -> Result<(), Rejection> {
    let given = [IF_UNMODIFIED_SINCE, IF_MODIFIED_SINCE].into_iter().find(|name| headers.contains_key(name));
    match given {
        None => Ok(()),
        Some(name) => {
            let detail = "overrides have versions and no times to compare: use `If-Match`";
            Err(Rejection::bad_field(name.as_str(), detail))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn a_change_names_one_version_or_none() {
        let seen = ("if-match", "\"000000000000000a.7\"");
        let version = RecordMatch::Version { epoch: 10, number: 7 };
        assert_eq!(of_set(&headers(&[])).unwrap(), RecordMatch::Any);
        assert_eq!(of_set(&headers(&[seen])).unwrap(), version);
        assert_eq!(of_set(&headers(&[("if-none-match", "*")])).unwrap(), RecordMatch::Absent);
        assert_eq!(of_delete(&headers(&[])).unwrap(), RecordMatch::Any);
        assert_eq!(of_delete(&headers(&[seen])).unwrap(), version);
    }

    /// A guard that was not understood would be no guard.
    #[test]
    fn a_condition_that_cannot_be_checked_is_refused() {
        for value in [
            "",
            "*",
            "\"\"",
            "000000000000000a.7",
            "\"a.7\"",
            "W/\"000000000000000a.7\"",
            "\"000000000000000a.7\", \"000000000000000a.8\"",
            "\"000000000000000a.7",
        ] {
            let headers = headers(&[("if-match", value)]);
            assert_eq!(of_set(&headers).unwrap_err().field(), Some("if-match"), "{value}");
            assert_eq!(of_delete(&headers).unwrap_err().field(), Some("if-match"), "{value}");
        }
        let seen = ("if-match", "\"000000000000000a.7\"");
        for (pairs, field) in [
            (&[seen, seen][..], "if-match"),
            (&[seen, ("if-none-match", "*")], "if-none-match"),
            (&[("if-none-match", "\"000000000000000a.7\"")], "if-none-match"),
            (&[("if-unmodified-since", "Sat, 29 Oct 1994 19:43:31 GMT")], "if-unmodified-since"),
        ] {
            assert_eq!(of_set(&headers(pairs)).unwrap_err().field(), Some(field), "{pairs:?}");
        }
        assert_eq!(
            of_delete(&headers(&[("if-none-match", "*")])).unwrap_err().field(),
            Some("if-none-match")
        );
    }
}
