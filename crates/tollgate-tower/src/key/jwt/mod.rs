//! Claims of verified tokens (JSON Web Tokens, RFC 7519).
//!
//! ```text
//! Authorization: Bearer … ──▶ Verifier ──▶ Claims ──▶ Key
//!                             signature,   of valid
//!                             expiry,      tokens
//!                             audience     alone
//! ```
//!
//! If an outer layer already verifies tokens, count by the value that it leaves in the request's extensions; see
//! [`from_fn`](super::from_fn).

mod algorithm;
mod keys;
mod material;
mod verifier;

use std::borrow::Cow;

use http::{HeaderName, HeaderValue, header};
#[cfg(feature = "policy")]
use serde_json::Number;
use serde_json::Value;
use tollgate::Key;
#[cfg(feature = "policy")]
use tollgate_policy::AttributeValue;

pub use self::algorithm::Algorithm;
pub use self::keys::{BrokenKey, Keys, KeysError};
pub use self::verifier::{Claims, TokenError, Verifier};

use super::secrecy::sole;
use super::{ExtractedIdentity, Extraction, InvalidIdentity, KeyExtractor, MissingIdentity, cookie};
use crate::head::Head;

/// Counts by a claim of a valid token, such as `sub`: a text, a whole number, or `true` or `false`.
///
/// The token is that of `Authorization: Bearer`, unless another place is set. A list, such as the roles of a user, is
/// [invalid](InvalidIdentity) as a key; [policies](crate::AttributeSources::with_claim) can match it.
///
/// # What it trusts
///
/// The issuer whose keys the [`Verifier`] has. An expired or otherwise invalid token is [invalid](InvalidIdentity),
/// answered 401, and never falls through to another extractor. Several issuers may use the same names, so set the
/// issuer, or count by `iss` [as well](KeyExtractor::and).
///
/// # What is missing
///
/// An absent token (also one with another scheme than `Bearer`), and a claim that is absent, `null`, an empty text or
/// an empty list.
///
/// # Examples
///
/// ```
/// use tollgate_tower::Head;
/// use tollgate_tower::key::jwt::{Algorithm, Claim, Keys, Verifier};
/// use tollgate_tower::key::{KeyExtractor, PeerAddress};
///
/// # tollgate_testkit::block_on(async {
/// # let secret = [1; 32];
/// let keys = Keys::from_secret(Algorithm::Hs256, &secret)?;
/// let verifier = Verifier::new(keys, ["https://api.example.org"]);
/// // Each user, and each address without a token.
/// let by = Claim::new(verifier, "sub").or_else(PeerAddress::new());
///
/// let forged = http::Request::get("/").header("authorization", "Bearer e30.e30.").body(())?;
/// let invalid = by.extract(Head::from(&forged)).await.unwrap_err();
/// assert_eq!(invalid.challenge().unwrap(), "Bearer error=\"invalid_token\"");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Claim {
    verifier: Verifier,
    name: Box<str>,
    /// The claim and the token, as callers see them.
    what: Box<str>,
    what_token: Box<str>,
    place: TokenPlace,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum TokenPlace {
    Bearer,
    Header(HeaderName),
    Cookie(Box<str>),
}

/// The value of the claim in a token.
enum ClaimValue {
    One(ListEntry),
    List(Vec<ListEntry>),
}

enum ListEntry {
    Text(Box<str>),
    Number(u64),
}

impl Claim {
    /// Counts by this claim of a bearer token that this verifier accepts.
    ///
    /// Dots lead into objects: `realm_access.roles` is the member `roles` of the claim `realm_access`. A claim whose
    /// own name contains these dots wins.
    #[must_use]
    pub fn new(verifier: Verifier, name: &str) -> Self {
        let what = format!("claim `{name}` of the token").into();
        Self {
            verifier,
            name: name.into(),
            what,
            what_token: "a bearer token".into(),
            place: TokenPlace::Bearer,
        }
    }

    /// Takes the token from this header, which must contain nothing else.
    #[must_use]
    pub fn in_header(self, name: HeaderName) -> Self {
        Self { what_token: format!("header `{name}`").into(), place: TokenPlace::Header(name), ..self }
    }

    /// Takes the token from this cookie.
    #[must_use]
    pub fn in_cookie(self, name: &str) -> Self {
        Self { what_token: format!("cookie `{name}`").into(), place: TokenPlace::Cookie(name.into()), ..self }
    }

    fn token<'r>(&self, head: Head<'r>) -> Result<Option<&'r [u8]>, InvalidIdentity> {
        let header = |name| head.headers().get_all(name).into_iter().map(HeaderValue::as_bytes);
        match &self.place {
            TokenPlace::Bearer => {
                let credentials = sole(header(&header::AUTHORIZATION), "header `authorization`")?;
                Ok(credentials.and_then(bearer))
            }
            TokenPlace::Header(name) => sole(header(name), &self.what_token),
            TokenPlace::Cookie(name) => {
                sole(cookie::values(head.headers(), name.as_bytes()), &self.what_token)
            }
        }
    }

    /// Returns the claims of the token, if there is one; an error if it is invalid.
    pub(crate) fn verified(&self, head: Head<'_>) -> Result<Option<Claims>, InvalidIdentity> {
        let Some(token) = self.token(head)? else { return Ok(None) };
        let token = std::str::from_utf8(token).map_err(|_| invalid(TokenError::Malformed.to_string()))?;
        self.verifier.verify(token).map(Some).map_err(|error| invalid(error.to_string()))
    }

    /// Returns whether the other is a claim of the same token, which is verified in the same way.
    #[cfg(feature = "policy")]
    pub(crate) fn is_of_same_token(&self, other: &Self) -> bool {
        self.place == other.place && self.verifier.is_same_as(&other.verifier)
    }

    fn claim_value(&self, claims: &Claims) -> Result<Option<ClaimValue>, InvalidIdentity> {
        match claims.get(&self.name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) if text.is_empty() => Ok(None),
            Some(Value::Array(entries)) if entries.is_empty() => Ok(None),
            Some(Value::Array(entries)) => {
                let entries: Option<Vec<ListEntry>> = entries.iter().map(ListEntry::of).collect();
                entries
                    .map(|entries| Some(ClaimValue::List(entries)))
                    .ok_or_else(|| self.unreadable("has an entry that is"))
            }
            Some(value) => ListEntry::of(value)
                .map(|entry| Some(ClaimValue::One(entry)))
                .ok_or_else(|| self.unreadable("is")),
        }
    }

    fn unreadable(&self, is: &str) -> InvalidIdentity {
        invalid(format!("{} {is} not a text, a whole number, true or false", self.what))
    }

    /// The claim as the value of an attribute. Policies judge numbers that are not natural: as a limit or a cost, they
    /// may have a default. A number that JSON readers round is invalid, because two users could become one.
    #[cfg(feature = "policy")]
    pub(crate) fn value(&self, claims: &Claims) -> Result<Option<AttributeValue<'static>>, InvalidIdentity> {
        if let Some(Value::Number(number)) = claims.get(&self.name)
            && is_exact(number)
        {
            return Ok(Some(number.to_string().into()));
        }
        Ok(self.claim_value(claims)?.map(|value| match value {
            ClaimValue::One(entry) => String::from(entry.into_text()).into(),
            ClaimValue::List(entries) => {
                entries.into_iter().map(ListEntry::into_text).collect::<Vec<_>>().into()
            }
        }))
    }
}

/// Returns whether the number is exact: large numbers are rounded in a float.
#[cfg(feature = "policy")]
fn is_exact(number: &Number) -> bool {
    const FIRST_ROUNDED: f64 = 9_007_199_254_740_992.0;
    number.is_u64() || number.is_i64() || number.as_f64().is_some_and(|number| number.abs() < FIRST_ROUNDED)
}

impl ListEntry {
    /// Returns the value of a claim, if it can be compared with a text.
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Some(Self::Text(text.as_str().into())),
            Value::Bool(is_true) => Some(Self::Text(is_true.to_string().into())),
            value => value.as_u64().map(Self::Number),
        }
    }

    #[cfg(feature = "policy")]
    fn into_text(self) -> Box<str> {
        match self {
            Self::Text(text) => text,
            Self::Number(number) => number.to_string().into(),
        }
    }
}

impl Claim {
    fn identity<'r>(&'r self, head: Head<'r>) -> ExtractedIdentity<'r> {
        let Some(claims) = self.verified(head)? else {
            return Ok(MissingIdentity::by_caller(&self.what_token).into());
        };
        Ok(match self.claim_value(&claims)? {
            Some(ClaimValue::One(ListEntry::Text(text))) => Key::from(text).into(),
            Some(ClaimValue::One(ListEntry::Number(number))) => Key::from(number).into(),
            Some(ClaimValue::List(entries)) => {
                let count = entries.len();
                return Err(invalid(format!("{} is a list of {count}, which cannot be a key", self.what)));
            }
            None => MissingIdentity::by_caller(&self.what).into(),
        })
    }
}

impl KeyExtractor for Claim {
    fn extract<'r>(&'r self, head: Head<'r>) -> Extraction<'r> {
        Extraction::Now(self.identity(head))
    }
}

/// The token of `Bearer` credentials (RFC 6750); the scheme may be in any case.
fn bearer(credentials: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = credentials.split_at_checked(credentials.iter().position(|&byte| byte == b' ')?)?;
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer") && !token.is_empty()).then_some(token)
}

/// As RFC 6750 requires.
fn invalid(detail: impl Into<Cow<'static, str>>) -> InvalidIdentity {
    InvalidIdentity::unauthorized(detail, HeaderValue::from_static("Bearer error=\"invalid_token\""))
}
