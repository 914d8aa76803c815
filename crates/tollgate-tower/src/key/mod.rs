//! Whom a request is counted for: extractors of keys.
//!
//! An extractor reads the [`Head`] of a request and finds a [`Key`], or says what is missing, or that what it found
//! is wrong. What is answered then is not its affair but the layer's.
//!
//! ```text
//! Head ──▶ KeyExtractor ──▶ Ok(Identity::Known(key))    counted
//!          now or later     Ok(Identity::Missing(why))  the next extractor, skipped, 400 or 401
//!                           Err(Invalid)                400 or 401, never another extractor
//! ```
//!
//! | counted | extractor | a client can be |
//! |---|---|---|
//! | the address of the connection | [`PeerAddress`] | as many as it has addresses |
//! | the client behind proxies | [`ClientAddress`] | as many as it has addresses |
//! | the value of a header or cookie | [`Header`], [`Cookie`] | as many as it can invent, unless they are checked before |
//! | the matched route and the method | [`Route`] | each route |
//! | a claim of a verified token | `jwt::Claim`, with the feature `jwt` | whom the issuer says |
//! | what a function finds | [`from_fn`], [`try_from_fn`], [`from_async_fn`] | whom the function says |
//! | everybody together | [`Global`] | one |
//!
//! [`and`](KeyExtractor::and) and [`or_else`](KeyExtractor::or_else) combine extractors. An extractor that has to wait,
//! for a key set or a session, answers [`Found::Later`].
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

use http::HeaderValue;
use thiserror::Error;
use tollgate::{Answer, Key};
pub use tollgate::{Grouping, GroupingError};

pub use self::client::{ClientAddress, ForwardedHeader, TrustedProxies};
pub use self::closure::{FromAsyncFn, FromFn, TryFromFn, from_async_fn, from_fn, try_from_fn};
pub use self::combine::{And, OrElse};
pub use self::cookie::Cookie;
pub use self::global::Global;
pub use self::header::Header;
pub use self::peer::{Peer, PeerAddress};
pub use self::route::Route;

use crate::Head;
use crate::boxed::BoxFuture;

/// What is missing where nobody has left the address of a connection.
pub(crate) const NO_PEER: &str = "the address that the connection comes from";

/// What an extractor finds: somebody, nobody, or something that is wrong.
pub type Extracted<'r> = Result<Identity<'r>, Invalid>;

/// What an extractor finds, at once or later: await it.
pub type Found<'r> = Answer<BoxFuture<'r, Extracted<'r>>>;

/// Whom a request is counted for, if it says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Identity<'r> {
    /// Whoever has this key.
    Known(Key<'r>),
    /// The request does not say.
    Missing(Missing<'r>),
}

/// What a request lacks that would say whom it is counted for.
///
/// It is no error: another extractor may find somebody, or the layer counts nobody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing<'r> {
    first: &'r str,
    /// What would have been enough as well; a single one allocates nothing.
    others: Vec<&'r str>,
    fault: Fault,
}

/// Who can mend it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// Whoever sent the request: it can be sent again with what is missing.
    Caller,
    /// Whoever put the service together. No request can have what is missing, so none is let pass for it.
    Setup,
}

/// A request says whom it is counted for, and it is wrong: a token that has expired, an address that is none.
///
/// The caller's fault; the same request never passes. It is never passed on to another extractor, so that nobody
/// gets another limit by a token that is broken on purpose.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{detail}")]
pub struct Invalid {
    detail: Cow<'static, str>,
    challenge: Option<HeaderValue>,
}

/// Finds whom a request is counted for, at once or later.
///
/// The key may borrow from the request and from the extractor, so that the usual one allocates nothing. An extractor
/// that has to wait, for a key set, a session or another service, answers [`Found::Later`]; such a request costs
/// allocations.
///
/// # Cancel safety
///
/// The future is dropped when the client goes away.
///
/// # Examples
///
/// ```
/// use tollgate::Key;
/// use tollgate_tower::Head;
/// use tollgate_tower::key::{Found, Identity, Invalid, KeyExtractor, Missing};
///
/// /// The account that an outer layer has found.
/// #[derive(Debug, Clone, Copy)]
/// struct Account(u64);
///
/// #[derive(Debug)]
/// struct ByAccount;
///
/// impl KeyExtractor for ByAccount {
///     fn extract<'r>(&'r self, head: Head<'r>) -> Found<'r> {
///         Found::Now(match head.extensions().get::<Account>() {
///             Some(Account(0)) => Err(Invalid::malformed("account 0 does not exist")),
///             Some(Account(number)) => Ok(Identity::Known(Key::from(*number))),
///             None => Ok(Missing::by_caller("an account").into()),
///         })
///     }
/// }
///
/// # tollgate_testkit::block_on(async {
/// let mut request = http::Request::new(());
/// let found = ByAccount.extract(Head::from(&request)).await?;
/// assert_eq!(found, Identity::Missing(Missing::by_caller("an account")));
///
/// request.extensions_mut().insert(Account(7));
/// assert_eq!(ByAccount.extract(Head::from(&request)).await?, Identity::Known(Key::from(7_u64)));
/// # Ok::<(), Invalid>(())
/// # })?;
/// # Ok::<(), Invalid>(())
/// ```
pub trait KeyExtractor: Send + Sync {
    /// Whom this request is counted for: an error if the request says so and it is wrong.
    ///
    /// The layer drops a [`Later`](Found::Later) that it cannot wait for at once, and asks again. So do nothing before
    /// the future is polled.
    fn extract<'r>(&'r self, head: Head<'r>) -> Found<'r>;

    /// Whether requests are counted for the address that the connection comes from. A layer warns where that
    /// seems to be the address of a proxy.
    fn counts_peers(&self) -> bool {
        false
    }

    /// Whoever both find together: each user on each route, say. If either is missing, so is the whole. What is
    /// [wrong](Invalid) stays wrong.
    fn and<K: KeyExtractor>(self, other: K) -> And<Self, K>
    where
        Self: Sized,
    {
        And::new(self, other)
    }

    /// Whoever this finds, or else the other. The key says which it was, so a user and a session of the same
    /// name never share a counter. What is [wrong](Invalid) stays wrong.
    fn or_else<K: KeyExtractor>(self, other: K) -> OrElse<Self, K>
    where
        Self: Sized,
    {
        OrElse::new(self, other)
    }
}

impl<'r> Missing<'r> {
    /// The request does not have this, which is named as it is to be said to the caller: ``header `x-api-key` ``.
    #[must_use]
    pub fn by_caller(what: &'r str) -> Self {
        Self { first: what, others: Vec::new(), fault: Fault::Caller }
    }

    /// No request has this, because the service is put together without it.
    #[must_use]
    pub fn by_setup(what: &'r str) -> Self {
        Self { first: what, others: Vec::new(), fault: Fault::Setup }
    }

    /// What would have been enough, each by itself.
    pub fn what(&self) -> impl Iterator<Item = &'r str> {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }

    /// Who can mend it.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        self.fault
    }

    /// Neither of them. If no request can have one of them, the service is put together wrong, whatever the caller
    /// could have sent instead.
    fn or(mut self, other: Self) -> Self {
        self.others.extend(other.what());
        if other.fault == Fault::Setup {
            self.fault = Fault::Setup;
        }
        self
    }
}

/// Such as ``header `x-api-key` or cookie `session` ``.
impl fmt::Display for Missing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, what) in self.what().enumerate() {
            write!(f, "{}{what}", if index == 0 { "" } else { " or " })?;
        }
        Ok(())
    }
}

impl<'r> From<Missing<'r>> for Identity<'r> {
    fn from(missing: Missing<'r>) -> Self {
        Self::Missing(missing)
    }
}

impl<'r> From<Key<'r>> for Identity<'r> {
    fn from(key: Key<'r>) -> Self {
        Self::Known(key)
    }
}

impl Invalid {
    /// What was sent cannot be read: 400, unless the layer says otherwise. The detail is sent to the caller, so it
    /// names what is wrong and never repeats a value.
    #[must_use]
    pub fn malformed(detail: impl Into<Cow<'static, str>>) -> Self {
        Self { detail: detail.into(), challenge: None }
    }

    /// What was sent proves nothing: 401 with this `WWW-Authenticate`, such as `Bearer`, unless the layer says
    /// otherwise. The detail is sent to the caller, so it names what is wrong and never repeats a value.
    #[must_use]
    pub fn unauthorized(detail: impl Into<Cow<'static, str>>, challenge: HeaderValue) -> Self {
        Self { detail: detail.into(), challenge: Some(challenge) }
    }

    /// What is wrong, as it is said to the caller.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// What proof is asked for, where what was sent proves nothing.
    #[must_use]
    pub const fn challenge(&self) -> Option<&HeaderValue> {
        self.challenge.as_ref()
    }
}
