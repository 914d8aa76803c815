//! The verifier of tokens.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use base64ct::{Base64UrlUnpadded, Encoding};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use thiserror::Error;
use tollgate::{Clock, SystemClock};

use super::{Algorithm, Keys};

/// A verifier of tokens.
///
/// A token is valid if one of the keys has signed it with the key's algorithm, it has not expired, its `nbf` (if any)
/// has come, it is for one of the audiences, and it is from the issuer, if one is set. Keys in its header (`jwk`,
/// `jku`, `x5u`, `x5c`) are never used, and a token with critical extensions (`crit`) is refused.
///
/// Clones share their keys.
///
/// # Examples
///
/// ```
/// use tollgate_tower::key::jwt::{Algorithm, Keys, Verifier};
///
/// # let (old, new) = ([1; 32], [2; 32]);
/// let verifier = Verifier::new(Keys::from_secret(Algorithm::Hs256, &old)?, ["https://api.example.org"])
///     .issuer("https://login.example.org");
///
/// // PendingDecision, when the file of keys has changed. What cannot be read replaces nothing.
/// verifier.replace_keys(Keys::from_secret(Algorithm::Hs256, &new)?);
///
/// assert!(verifier.verify("e30.e30.").is_err());
/// # Ok::<(), tollgate_tower::key::jwt::KeysError>(())
/// ```
#[derive(Clone)]
pub struct Verifier {
    keys: Arc<RwLock<Arc<Keys>>>,
    audiences: Arc<[Box<str>]>,
    issuer: Option<Arc<str>>,
    leeway: Duration,
    clock: Arc<dyn Clock>,
}

/// The claims of a valid token. Only [`Verifier::verify`] creates them.
///
/// `Debug` shows nothing, because claims may be personal.
pub struct Claims(Map<String, Value>);

/// An invalid token. The fault of its sender; a retry with the same token does not help, unless it came too early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It is not a signed token in the compact form, or a claim has the wrong type.
    #[error("the token cannot be read")]
    Malformed,
    /// Its algorithm or its key is unknown.
    #[error("the token is signed with an unknown key")]
    UnknownKey,
    /// The signature is not that of the key.
    #[error("the token's signature is wrong")]
    Signature,
    /// It has expired, or never expires.
    #[error("the token has expired")]
    Expired,
    /// It is not valid yet.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// It is for another audience.
    #[error("the token is for another audience")]
    Audience,
    /// It is from another issuer.
    #[error("the token is from another issuer")]
    Issuer,
}

/// Longer tokens are refused, because hashing takes time. Servers usually accept no longer headers.
const LONGEST: usize = 16 * 1024;

impl Verifier {
    /// The default tolerance between clocks.
    pub const LEEWAY: Duration = Duration::from_secs(60);

    /// Accepts tokens that are signed with these keys and for one of these audiences. Without audiences, it accepts
    /// only tokens without an audience.
    #[must_use]
    pub fn new<'a>(keys: Keys, audiences: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            keys: Arc::new(RwLock::new(Arc::new(keys))),
            audiences: audiences.into_iter().map(Box::from).collect(),
            issuer: None,
            leeway: Self::LEEWAY,
            clock: Arc::new(SystemClock),
        }
    }

    /// Accepts only tokens of this issuer. Needed if a set has keys of several issuers.
    #[must_use]
    pub fn issuer(self, issuer: &str) -> Self {
        Self { issuer: Some(issuer.into()), ..self }
    }

    /// Sets how far the issuer's clock may differ from this one.
    #[must_use]
    pub fn leeway(self, leeway: Duration) -> Self {
        Self { leeway, ..self }
    }

    /// Takes the time from this clock.
    #[must_use]
    pub fn clock(self, clock: impl Clock + 'static) -> Self {
        Self { clock: Arc::new(clock), ..self }
    }

    /// Verifies with these keys from now on, here and in all clones.
    pub fn replace_keys(&self, keys: Keys) {
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    /// Returns the claims of a token, if it is valid.
    ///
    /// # Errors
    ///
    /// If it is not valid.
    pub fn verify(&self, token: &str) -> Result<Claims, TokenError> {
        let claims = self.signed_claims(token)?;
        // In seconds, which may have fractions (RFC 7519, section 2).
        let now = self.clock.now().as_unix_millis() as f64 / 1_000.0;
        let leeway = self.leeway.as_secs_f64();
        if time(&claims, "exp")?.is_none_or(|expiry| now >= expiry + leeway) {
            return Err(TokenError::Expired);
        }
        if time(&claims, "nbf")?.is_some_and(|start| now < start - leeway) {
            return Err(TokenError::NotYetValid);
        }
        if !self.is_audience(claims.get("aud"))? {
            return Err(TokenError::Audience);
        }
        let issuer = claims.get("iss").and_then(Value::as_str);
        if self.issuer.as_deref().is_some_and(|own| issuer != Some(own)) {
            return Err(TokenError::Issuer);
        }
        Ok(Claims(claims))
    }

    /// Returns whether the other is a clone of this one.
    #[cfg(feature = "policy")]
    pub(super) fn is_same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.keys, &other.keys)
            && Arc::ptr_eq(&self.audiences, &other.audiences)
            && self.issuer == other.issuer
            && self.leeway == other.leeway
            && Arc::ptr_eq(&self.clock, &other.clock)
    }

    /// Returns the claims of a token that is signed with one of the keys.
    fn signed_claims(&self, token: &str) -> Result<Map<String, Value>, TokenError> {
        if token.len() > LONGEST {
            return Err(TokenError::Malformed);
        }
        let (message, signature) = token.rsplit_once('.').ok_or(TokenError::Malformed)?;
        // A third dot would be in the payload, whose alphabet has none.
        let (header, payload) = message.split_once('.').ok_or(TokenError::Malformed)?;
        let (header, signature) = (decoded(header)?, decoded(signature)?);
        let header: TokenHeader<'_> = serde_json::from_slice(&header).map_err(|_| TokenError::Malformed)?;
        if header.crit.is_some() {
            return Err(TokenError::Malformed);
        }

        let algorithm = Algorithm::named(&header.alg).ok_or(TokenError::UnknownKey)?;
        let keys = Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner));
        let mut candidates = keys.candidates(algorithm, header.kid.as_deref()).peekable();
        if candidates.peek().is_none() {
            return Err(TokenError::UnknownKey);
        }
        if !candidates.any(|key| key.verifies(message.as_bytes(), &signature)) {
            return Err(TokenError::Signature);
        }
        serde_json::from_slice(&decoded(payload)?).map_err(|_| TokenError::Malformed)
    }

    /// Returns whether a token is for one of the audiences: it names one of them, or none where there is none.
    fn is_audience(&self, said: Option<&Value>) -> Result<bool, TokenError> {
        let is_own = |name: &str| self.audiences.iter().any(|own| **own == *name);
        match said {
            None => Ok(self.audiences.is_empty()),
            Some(Value::String(name)) => Ok(is_own(name)),
            Some(Value::Array(names)) => Ok(names.iter().filter_map(Value::as_str).any(is_own)),
            Some(_) => Err(TokenError::Malformed),
        }
    }
}

impl Claims {
    /// Returns a claim that is a text. Dots in its name lead into objects, as for [`Claim::new`](super::Claim::new).
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    /// Returns a claim that is a whole number. Dots in its name lead into objects.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.as_u64()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value> {
        find(&self.0, name)
    }
}

/// The member of this name, or one within other members. Longer names come first, because names may have dots as well:
/// those of OpenID Connect may be URLs.
fn find<'c>(members: &'c Map<String, Value>, path: &str) -> Option<&'c Value> {
    members.get(path).or_else(|| {
        let mut dots = path.rmatch_indices('.').map(|(dot, _)| path.split_at(dot));
        dots.find_map(|(name, rest)| find(members.get(name)?.as_object()?, rest.strip_prefix('.')?))
    })
}

/// The used parts of a token's header.
#[derive(Deserialize)]
struct TokenHeader<'t> {
    #[serde(borrow)]
    alg: std::borrow::Cow<'t, str>,
    #[serde(borrow)]
    kid: Option<std::borrow::Cow<'t, str>>,
    crit: Option<IgnoredAny>,
}

fn decoded(part: &str) -> Result<Vec<u8>, TokenError> {
    Base64UrlUnpadded::decode_vec(part).map_err(|_| TokenError::Malformed)
}

/// Returns a point in time, in seconds since 1970; an error if it is not a number.
fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<f64>, TokenError> {
    match claims.get(name) {
        None => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or(TokenError::Malformed),
    }
}

impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier")
            .field("keys", &self.keys.read().unwrap_or_else(PoisonError::into_inner))
            .field("audiences", &self.audiences)
            .field("issuer", &self.issuer)
            .field("leeway", &self.leeway)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Claims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Claims({} of them)", self.0.len())
    }
}
