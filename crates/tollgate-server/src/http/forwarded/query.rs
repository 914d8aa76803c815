//! The operator's settings in the URL that a proxy calls: the status of denials.

use http::StatusCode;

use crate::answer::rejection::Rejection;

/// The parameter for the status of denials.
pub(in super::super) const DENY: &str = "deny";

/// Statuses of denials that proxies pass on. nginx accepts only 401 and 403.
pub(in super::super) const DENY_STATUSES: [StatusCode; 4] = [
    StatusCode::UNAUTHORIZED,
    StatusCode::FORBIDDEN,
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::SERVICE_UNAVAILABLE,
];

/// Returns the status of denials; `None` leaves it to the policy.
///
/// All other parameters are ignored: Caddy passes its client's query on if its own URL has none.
///
/// # Errors
///
/// If the status is none of these, or is given twice.
pub(super) fn deny_status(query: &str) -> Result<Option<StatusCode>, Rejection> {
    let mut given = query.split('&').filter_map(|pair| pair.strip_prefix(DENY)?.strip_prefix('='));
    let Some(text) = given.next() else { return Ok(None) };
    if given.next().is_some() {
        return Err(Rejection::bad_field("query.deny", "`deny` is given twice"));
    }
    let found = DENY_STATUSES.into_iter().find(|status| status.as_str() == text);
    found.map(Some).ok_or_else(|| Rejection::bad_field("query.deny", "expected 401, 403, 429 or 503"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_says_the_status() {
        for (query, status) in [
            ("", None),
            ("deny=403", Some(403)),
            ("deny=401&page=2", Some(401)),
            ("x=%zz&deny=429", Some(429)),
            ("deny=503", Some(503)),
            ("denial=403&xdeny=403&deny", None),
        ] {
            let found = deny_status(query).unwrap();
            assert_eq!(found.map(|status| status.as_u16()), status, "{query}");
        }
    }

    #[test]
    fn no_other_status_is_taken() {
        for query in ["deny=200", "deny=500", "deny=", "deny=0403", "deny=403&deny=403", "deny=%34%30%33"] {
            assert_eq!(deny_status(query).unwrap_err().field(), Some("query.deny"), "{query}");
        }
    }
}
