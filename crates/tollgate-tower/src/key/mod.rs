//! Extractors of keys, which decide what a request is counted by.
//!
//! An extractor reads the [`Head`] of a request and finds a [`Key`], or reports that it is missing or invalid. The
//! layer decides on the answer then.
//!
//! ```text
//! Head ──▶ KeyExtractor ──▶ Ok(Identity::Known(key))    counted
//!          now or later     Ok(Identity::Missing(why))  the next extractor, skipped, 400 or 401
//!                           Err(InvalidIdentity)        400 or 401, never another extractor
//! ```
//!
//! | counted by | extractor | limits that a client can get |
//! |---|---|---|
//! | the address of the connection | [`PeerAddress`] | one for each of its addresses |
//! | the client behind proxies | [`ClientAddress`] | one for each of its addresses |
//! | the value of a header or cookie | [`Header`], [`Cookie`] | one per value that it invents, unless values are checked before |
//! | the matched route and the method | [`Route`] | one for each route |
//! | a claim of a verified token | `jwt::Claim`, with the feature `jwt` | as the issuer decides |
//! | a function | [`from_fn`], [`try_from_fn`], [`from_async_fn`] | as the function decides |
//! | all requests together | [`Global`] | one |
//!
//! [`and`](KeyExtractor::and) and [`or_else`](KeyExtractor::or_else) combine extractors. An extractor that has to wait,
//! for a key set or a session, answers [`Extraction::Later`].
//!
//! ```
//! use tollgate_tower::key::{self, KeyExtractor, PeerAddress};
//! use tollgate_tower::Head;
//!
//! fn tenant<'r>(head: Head<'r>) -> Option<tollgate::Key<'r>> {
//!     head.headers().get("x-tenant")?.to_str().ok().map(Into::into)
//! }
//!
//! // Each tenant, and each address that names none.
//! let by = key::from_fn("header `x-tenant`", tenant).or_else(PeerAddress::new());
//! ```

mod client;
mod closure;
mod combine;
mod cookie;
mod global;
mod header;
#[cfg(feature = "jwt")]
pub mod jwt;
mod peer;
mod route;
mod secrecy;

use std::borrow::Cow;
use std::fmt;
use std::pin::Pin;

use http::HeaderValue;
use thiserror::Error;
use tollgate::{Answer, Key};
pub use tollgate_http::{ForwardedHeader, Grouping, GroupingError, TrustedProxies};

pub use self::client::ClientAddress;
pub use self::closure::{FromAsyncFn, FromFn, TryFromFn, from_async_fn, from_fn, try_from_fn};
pub use self::combine::{And, OrElse};
pub use self::cookie::Cookie;
pub use self::global::Global;
pub use self::header::Header;
pub use self::peer::{Peer, PeerAddress};
pub use self::route::Route;

use crate::head::Head;

/// The name of a missing address of the connection.
pub(crate) const NO_PEER: &str = "the address that the connection comes from";

/// A future without its type.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The result of an extractor: a key, a missing key, or an invalid value.
pub type ExtractedIdentity<'r> = Result<Identity<'r>, InvalidIdentity>;

/// The result of an extractor, immediate or later: await it.
pub type Extraction<'r> = Answer<BoxFuture<'r, ExtractedIdentity<'r>>>;

/// The identity of a request, if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity<'r> {
    /// This key.
    Known(Key<'r>),
    /// The request has none.
    Missing(MissingIdentity<'r>),
}

/// A missing value that would identify a request.
///
/// This is not an error: another extractor may find a key, or the layer does not count the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingIdentity<'r> {
    first: &'r str,
    /// Alternatives that would also be enough; a single one allocates nothing.
    others: Vec<&'r str>,
    fault: Fault,
}

/// The side at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The client's: it can send the request again with the missing value.
    Caller,
    /// The service's author's. No request can have the value, so none is admitted for its lack.
    Setup,
}

/// An invalid identity, such as an expired token or a malformed address.
///
/// The caller's fault; the same request never passes. It never falls through to another extractor, so that a client
/// cannot get another limit with a deliberately broken token.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{detail}")]
pub struct InvalidIdentity {
    detail: Cow<'static, str>,
    challenge: Option<HeaderValue>,
}

/// An extractor of keys, which answers immediately or later.
///
/// The key may borrow from the request and from the extractor, so that the usual key allocates nothing. An extractor
/// that has to wait for a key set, a session or another service answers [`Extraction::Later`], which costs allocations.
///
/// # Cancel safety
///
/// The future is dropped when the client disconnects.
///
/// # Examples
///
/// ```
/// use tollgate::Key;
/// use tollgate_tower::Head;
/// use tollgate_tower::key::{Extraction, Identity, InvalidIdentity, KeyExtractor, MissingIdentity};
///
/// /// The account that an outer layer has found.
/// #[derive(Debug, Clone, Copy)]
/// struct Account(u64);
///
/// #[derive(Debug)]
/// struct ByAccount;
///
/// impl KeyExtractor for ByAccount {
///     fn extract<'r>(&'r self, head: Head<'r>) -> Extraction<'r> {
///         Extraction::Now(match head.extensions().get::<Account>() {
///             Some(Account(0)) => Err(InvalidIdentity::malformed("account 0 does not exist")),
///             Some(Account(number)) => Ok(Identity::Known(Key::from(*number))),
///             None => Ok(MissingIdentity::by_caller("an account").into()),
///         })
///     }
/// }
///
/// # tollgate_testkit::block_on(async {
/// let mut request = http::Request::new(());
/// let found = ByAccount.extract(Head::from(&request)).await?;
/// assert_eq!(found, Identity::Missing(MissingIdentity::by_caller("an account")));
///
/// request.extensions_mut().insert(Account(7));
/// assert_eq!(ByAccount.extract(Head::from(&request)).await?, Identity::Known(Key::from(7_u64)));
/// # Ok::<(), InvalidIdentity>(())
/// # })?;
/// # Ok::<(), InvalidIdentity>(())
/// ```
pub trait KeyExtractor: Send + Sync {
    /// Returns the identity of this request; an error if it is invalid.
    ///
    /// The layer may drop a [`Later`](Extraction::Later) and ask again. So do nothing before the future is polled.
    fn extract<'r>(&'r self, head: Head<'r>) -> Extraction<'r>;

    /// Returns whether requests are counted by the address of the connection. A layer warns if that seems to be a
    /// proxy's.
    fn counts_peers(&self) -> bool {
        false
    }

    /// Joins the keys of both, such as each user on each route. If either is missing, so is the whole. An
    /// [invalid](InvalidIdentity) value stays invalid.
    fn and<K: KeyExtractor>(self, other: K) -> And<Self, K>
    where
        Self: Sized,
    {
        And::new(self, other)
    }

    /// Takes the key of this extractor, or else of the other. The key contains which one it was, so a user and a
    /// session of the same name never share a counter. An [invalid](InvalidIdentity) value stays invalid.
    fn or_else<K: KeyExtractor>(self, other: K) -> OrElse<Self, K>
    where
        Self: Sized,
    {
        OrElse::new(self, other)
    }
}

impl<'r> MissingIdentity<'r> {
    /// The request lacks this value, named as callers should see it: ``header `x-api-key` ``.
    #[must_use]
    pub fn by_caller(what: &'r str) -> Self {
        Self { first: what, others: Vec::new(), fault: Fault::Caller }
    }

    /// No request has this, because a part of the service is missing.
    #[must_use]
    pub fn by_setup(what: &'r str) -> Self {
        Self { first: what, others: Vec::new(), fault: Fault::Setup }
    }

    /// Returns the values that would have been enough, each by itself.
    pub fn what(&self) -> impl Iterator<Item = &'r str> {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }

    /// Returns the side at fault.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        self.fault
    }

    /// Joins two missing values. If no request can have one of them, the service is at fault, whatever else the caller
    /// could have sent.
    fn or(mut self, other: Self) -> Self {
        self.others.extend(other.what());
        if other.fault == Fault::Setup {
            self.fault = Fault::Setup;
        }
        self
    }
}

/// Such as ``header `x-api-key` or cookie `session` ``.
impl fmt::Display for MissingIdentity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, what) in self.what().enumerate() {
            write!(f, "{}{what}", if index == 0 { "" } else { " or " })?;
        }
        Ok(())
    }
}

impl<'r> From<MissingIdentity<'r>> for Identity<'r> {
    fn from(missing: MissingIdentity<'r>) -> Self {
        Self::Missing(missing)
    }
}

impl<'r> From<Key<'r>> for Identity<'r> {
    fn from(key: Key<'r>) -> Self {
        Self::Known(key)
    }
}

impl InvalidIdentity {
    /// Creates the error of a value that cannot be parsed: 400, unless the layer sets another answer. The caller sees
    /// the detail, so it must not contain the value.
    #[must_use]
    pub fn malformed(detail: impl Into<Cow<'static, str>>) -> Self {
        Self { detail: detail.into(), challenge: None }
    }

    /// The proof is invalid: 401 with this `WWW-Authenticate`, such as `Bearer`, unless the layer sets another answer.
    /// The caller sees the detail, so it must not contain the value.
    #[must_use]
    pub fn unauthorized(detail: impl Into<Cow<'static, str>>, challenge: HeaderValue) -> Self {
        Self { detail: detail.into(), challenge: Some(challenge) }
    }

    /// Returns the error, as callers see it.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// Returns the `WWW-Authenticate` of an invalid proof.
    #[must_use]
    pub const fn challenge(&self) -> Option<&HeaderValue> {
        self.challenge.as_ref()
    }
}
