//! Attributes for policies: their names, and their sources in a request.
//!
//! ```text
//! Head ──▶ AttributeSources ──▶ RequestView ──▶ PolicyLimiter
//!          path: its route      path=/search    asks for what
//!          ip: ClientAddress    ip=192.0.2.7    it needs
//!          user: Claim          user: not yet
//! ```
//!
//! The policies are those of the service: a file that says `key: [ip]` counts the same clients here, on the same
//! counters if the store is the same.

mod sources;
mod view;

use std::fmt;
use std::sync::Arc;

use thiserror::Error;
use tollgate_policy::{AttributeValue, Policies};

use self::sources::FromHead;
pub(crate) use self::view::KnownValues;
pub use self::view::RequestView;
use crate::head::Head;
use crate::key::BoxFuture;
#[cfg(feature = "jwt")]
use crate::key::jwt::Claim;
use crate::key::{InvalidIdentity, PeerAddress};

/// The attributes of a request for policies, and the source of each.
///
/// `method`, `path` and `ip` are always present: the method, the [path](Head::path), and the address of the connection.
/// Behind a proxy, that is the proxy's address, and all clients share one limit; there, take `ip` from a
/// [`ClientAddress`](crate::key::ClientAddress). Add all others by [`with`](Self::with). If a request lacks a value,
/// the policies decide what happens (`absent`, `on_missing_key`).
///
/// An invalid value, such as an expired token, is answered according to [`on_invalid`](crate::Rule::on_invalid), but
/// only if a policy needs it: a policy that matches, or one whose other conditions hold. So a health check with an old
/// token passes an exempt policy. A [claim](Self::with_claim) is read, and its token verified, only then.
///
/// A client can invent what it sends. Attributes that policies trust, such as `user` or `plan`, need a verified source:
/// a claim of a verified token, or a value that an outer layer has left in the extensions.
///
/// # Examples
///
/// ```
/// use http::HeaderName;
/// use tollgate_policy::{Config, View};
/// use tollgate_tower::{AttributeSources, Head};
/// use tollgate_tower::key::{Header, Peer};
///
/// /// What an outer layer has found.
/// #[derive(Clone)]
/// struct Plan(String);
///
/// let sources = AttributeSources::new()
///     .with("tenant", Header::new(HeaderName::from_static("x-tenant")).plain())
///     .with_fn("plan", |head| head.extensions().get().map(|Plan(name)| name.as_str().into()));
///
/// let config = Config::parse(
///     "tollgate.yaml",
///     "policies: [{ name: search, match: { path: /search }, key: [tenant, ip, user], quotas: [5/1m] }]",
/// )?;
/// assert_eq!(sources.lacking(config.policies()), ["user"], "nobody says where `user` is taken from");
///
/// let mut request = http::Request::get("/search").header("x-tenant", "acme").body(())?;
/// request.extensions_mut().insert(Peer("192.0.2.7:49152".parse()?));
/// request.extensions_mut().insert(Plan("pro".to_owned()));
///
/// let view = sources.view(Head::from(&request));
/// let values = ["method", "path", "ip", "tenant", "plan"].map(|name| view.value(name));
/// assert_eq!(values, ["GET", "/search", "192.0.2.7", "acme", "pro"].map(|value| Ok(Some(value.into()))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct AttributeSources {
    attributes: Vec<SourcedAttribute>,
}

/// An attribute and its source. Clones share the source.
#[derive(Clone)]
struct SourcedAttribute {
    name: Arc<str>,
    source: ValueSource,
    /// Whether clients cannot invent its value.
    is_verified: bool,
}

/// The source of a value.
#[derive(Clone)]
enum ValueSource {
    /// The [path](Head::path).
    Path,
    /// Read for every request.
    AtHand(Arc<dyn AttributeSource>),
    /// A claim, verified on demand.
    #[cfg(feature = "jwt")]
    Claim(Arc<Claim>),
    /// A function that may wait, called on demand.
    Later(Arc<FindLater>),
}

type FindLater = dyn Fn(Head<'_>) -> BoxFuture<'static, FoundValue<'static>> + Send + Sync;

/// The value of a source in a request.
pub(crate) type FoundValue<'r> = Result<Option<AttributeValue<'r>>, AttributeError>;

/// A source of values that need no waiting. [Extractors](crate::key) whose keys are texts or addresses are sources as
/// well.
pub trait AttributeSource: Send + Sync {
    /// The value, if the request has one.
    ///
    /// # Errors
    ///
    /// If the value is invalid, or if no request can have it.
    fn attribute<'r>(&'r self, head: Head<'r>) -> Result<Option<AttributeValue<'r>>, AttributeError>;

    /// Returns whether the value is the address of the connection. A layer warns if that seems to be a proxy's.
    fn is_peer_address(&self) -> bool {
        false
    }
}

/// A value that policies need is invalid or cannot exist.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AttributeError {
    /// The request's value is invalid. The caller's fault.
    #[error(transparent)]
    Invalid(#[from] InvalidIdentity),
    /// No request has this, because a part of the service is missing. Policies do not decide about it: with
    /// `on_missing_key: skip`, no request would be limited, and nobody would notice.
    #[error("no request has {0}, because the service is built without the part that provides it")]
    Setup(&'static str),
}

impl AttributeSources {
    /// `method`, `path` and `ip`.
    #[must_use]
    pub fn new() -> Self {
        Self::none()
            .with_fn("method", |head| Some(head.method().as_str().into()))
            .with_source("path", ValueSource::Path)
            .with("ip", PeerAddress::new())
    }

    /// Takes this attribute from a source, for every request. If a name is given twice, the last source wins.
    #[must_use]
    pub fn with(self, name: &str, source: impl AttributeSource + 'static) -> Self {
        self.with_source(name, ValueSource::AtHand(Arc::new(source)))
    }

    /// Takes this attribute from a function, for every request.
    #[must_use]
    pub fn with_fn<F>(self, name: &str, find: F) -> Self
    where
        F: for<'r> Fn(Head<'r>) -> Option<AttributeValue<'r>> + Send + Sync + 'static,
    {
        self.with(name, FromHead(find))
    }

    /// Takes this attribute from a claim, if a policy needs it. All claims of one token are read together, so that the
    /// token is verified once: create them with clones of one [`Verifier`](crate::key::jwt::Verifier).
    ///
    /// A number becomes its digits, and `true` and `false` these words. A list, such as the roles of a user, passes a
    /// [test](tollgate_policy::Test) if one of its entries does.
    #[cfg(feature = "jwt")]
    #[must_use]
    pub fn with_claim(self, name: &str, claim: Claim) -> Self {
        self.with_attribute(name.into(), ValueSource::Claim(Arc::new(claim)), true)
    }

    /// Takes this attribute from an async function, if a policy needs it. The function copies what it needs from the
    /// head first.
    ///
    /// ```
    /// use tollgate_tower::AttributeSources;
    ///
    /// # async fn plan_of(_: http::HeaderValue) -> Option<String> { None }
    /// let sources = AttributeSources::new().with_async_fn("plan", |head| {
    ///     let session = head.headers().get("x-session").cloned();
    ///     async move {
    ///         match session {
    ///             Some(session) => Ok(plan_of(session).await),
    ///             None => Ok(None),
    ///         }
    ///     }
    /// });
    /// ```
    #[must_use]
    pub fn with_async_fn<F, T, V>(self, name: &str, find: F) -> Self
    where
        F: Fn(Head<'_>) -> T + Send + Sync + 'static,
        T: Future<Output = Result<Option<V>, InvalidIdentity>> + Send + 'static,
        V: Into<AttributeValue<'static>>,
    {
        let find = move |head: Head<'_>| {
            let finding = find(head);
            let found = async move { Ok(finding.await?.map(Into::into)) };
            Box::pin(found) as BoxFuture<'static, FoundValue<'static>>
        };
        self.with_source(name, ValueSource::Later(Arc::new(find)))
    }

    /// Takes attributes from the sources that `add` names, and marks them as verified: clients cannot invent their
    /// values, because an outer layer has checked them. So they may set [limits](tollgate_policy::LimitAttribute), as
    /// claims always may. A source that later replaces one of them is not verified.
    ///
    /// ```
    /// use tollgate_tower::AttributeSources;
    ///
    /// /// Left by the layer that verifies sessions.
    /// #[derive(Clone)]
    /// struct Account {
    ///     quota: u64,
    /// }
    ///
    /// let sources = AttributeSources::new().verified(|sources| {
    ///     sources.with_fn("quota", |head| Some(head.extensions().get::<Account>()?.quota.to_string().into()))
    /// });
    /// ```
    #[must_use]
    pub fn verified(self, add: impl FnOnce(Self) -> Self) -> Self {
        let added = add(Self::none()).attributes.into_iter();
        added.fold(self, |sources, added| sources.with_attribute(added.name, added.source, true))
    }

    const fn none() -> Self {
        Self { attributes: Vec::new() }
    }

    fn with_source(self, name: &str, source: ValueSource) -> Self {
        self.with_attribute(name.into(), source, false)
    }

    fn with_attribute(mut self, name: Arc<str>, source: ValueSource, is_verified: bool) -> Self {
        let attribute = SourcedAttribute { name, source, is_verified };
        match self.attributes.iter_mut().find(|other| other.name == attribute.name) {
            Some(other) => *other = attribute,
            None => self.attributes.push(attribute),
        }
        self
    }

    /// Returns the attributes that these policies use but that have no source: probably a mistake.
    #[must_use]
    pub fn lacking<'p>(&self, policies: &'p Policies) -> Vec<&'p str> {
        let is_taken = |name: &&str| self.attributes.iter().any(|own| *own.name == **name);
        policies.attributes().into_iter().filter(|name| !is_taken(name)).collect()
    }

    /// Returns the request as policies see it. Values that are available are read now.
    #[must_use]
    pub fn view<'r>(&'r self, head: Head<'r>) -> RequestView<'r> {
        RequestView::new(self, head)
    }

    /// Returns whether `ip` is the address of the connection. Under another name, the address is meant, as in a policy
    /// for internal networks.
    pub(crate) fn counts_peers(&self) -> bool {
        self.attributes.iter().any(|attribute| {
            *attribute.name == *"ip"
                && matches!(&attribute.source, ValueSource::AtHand(source) if source.is_peer_address())
        })
    }
}

/// The values of all claims of the token that this is a claim of, with their places.
#[cfg(feature = "jwt")]
fn read_claims<'r>(
    sources: &AttributeSources,
    claim: &Claim,
    head: Head<'_>,
) -> impl Iterator<Item = (usize, FoundValue<'r>)> {
    let claims = claim.verified(head);
    let attributes = sources.attributes.iter().enumerate();
    let same_token = attributes.filter_map(|(place, attribute)| match &attribute.source {
        ValueSource::Claim(other) if other.is_of_same_token(claim) => Some((place, other)),
        _ => None,
    });
    same_token.map(move |(place, claim)| {
        let value = match &claims {
            Ok(claims) => claims.as_ref().map_or(Ok(None), |claims| claim.value(claims)),
            Err(invalid) => Err(invalid.clone()),
        };
        (place, value.map_err(AttributeError::from))
    })
}

impl Default for AttributeSources {
    fn default() -> Self {
        Self::new()
    }
}

/// The names.
impl fmt::Debug for AttributeSources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.attributes.iter().map(|attribute| &attribute.name)).finish()
    }
}
