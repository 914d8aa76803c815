//! Finds the caller of a request by its token or its certificate, and checks its scope.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use tollgate::{Clock, SystemClock};

use super::caller::Caller;
use super::listener::{Access, Listener};
use super::peer::ConnectionPeer;
use super::principals::{AccessRefusal, PresentedCredential};
use super::scope::Scope;

/// The caller is unknown, or lacks the scope that the request needs.
#[derive(Debug)]
pub(crate) struct MissingRight {
    pub(crate) reason: AccessRefusal,
    pub(crate) scope: Scope,
    /// Whether any principal has a token, so that the caller may be asked for one.
    pub(crate) has_tokens: bool,
}

/// Returns the caller, if it has the scope.
///
/// # Errors
///
/// If the listener asks for principals, and the caller is unknown or lacks the scope. Also if it asks for none, and the
/// scope needs one.
pub(crate) fn authorize(
    scope: Scope,
    listener: &Listener,
    peer: &ConnectionPeer,
    headers: &HeaderMap,
) -> Result<Caller, MissingRight> {
    let Access::Principals(principals) = &listener.access else {
        return match scope.needs_principal() {
            true => Err(MissingRight { reason: AccessRefusal::NotAsked, scope, has_tokens: false }),
            false => Ok(Caller::default()),
        };
    };
    let principals = principals.load();
    let caller = principals.authorize(scope, presented(headers), peer, SystemClock.coarse_now());
    caller.map_err(|reason| MissingRight { reason, scope, has_tokens: principals.have_tokens() })
}

/// Returns the token of a request.
fn presented(headers: &HeaderMap) -> PresentedCredential<'_> {
    /// Longer than any token. Longer values are not hashed.
    const MAX_TOKEN: usize = 512;
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let (value, more) = (given.next(), given.next());
    let Some(value) = value else { return PresentedCredential::Nothing };
    match value.as_bytes().split_at_checked("Bearer ".len()) {
        Some((scheme, token))
            if more.is_none()
                && scheme.eq_ignore_ascii_case(b"Bearer ")
                && (1..=MAX_TOKEN).contains(&token.trim_ascii().len()) =>
        {
            PresentedCredential::Token(token.trim_ascii())
        }
        _ => PresentedCredential::Nonsense,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_given_once_and_as_bearer() {
        let token = |values: &[&str]| {
            let values = values.iter().map(|value| (AUTHORIZATION, value.parse().unwrap()));
            match presented(&values.collect()) {
                PresentedCredential::Nothing => "nothing".to_owned(),
                PresentedCredential::Token(token) => String::from_utf8(token.to_vec()).unwrap(),
                PresentedCredential::Nonsense => "nonsense".to_owned(),
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
