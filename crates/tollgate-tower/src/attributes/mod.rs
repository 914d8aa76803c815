//! What policies are told of a request: names, and where in the request their values are.
//!
//! ```text
//! Head ──▶ AttributeSources ──▶ Attributes ──▶ PolicyLimiter
//!          path: its route      path=/search
//!          ip: ClientAddress    ip=192.0.2.7
//!          user: Claim          user=alice
//! ```
//!
//! The policies are those of the service: a file that says `key: [ip]` counts the same clients here, on the same
//! counters if the store is the same.

mod sources;

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use thiserror::Error;
use tollgate_policy::{Attributes, Policies};

use self::sources::FromHead;
use crate::Head;
use crate::key::{Invalid, Peer};

/// Which attributes policies are told of, and where each is taken from.
///
/// There are always `method` and `path`, which is the [matched route](Head::route) where there is one, and the path as
/// it was sent where there is none. Everything else is taken from where [`with`](Self::with) says, and what a request
/// does not have is left out: policies say what that means (`absent`, `on_missing_key`).
///
/// A layer asks them for a rule of [policies](crate::Rule::policies_with): all of them and for every request, before it
/// is known which policies match. So a token is verified, and refused where it is not valid, also where no policy asks
/// for its claims. Where some routes take no tokens, give them a rule of their own.
///
/// What a client sends proves nothing. An attribute that policies trust, such as `user` or `plan`, has to be from
/// where nobody can invent it: a claim of a verified token, or what an outer layer has left in the extensions.
///
/// # Examples
///
/// ```
/// use http::HeaderName;
/// use tollgate_policy::Config;
/// use tollgate_tower::{AttributeSources, Head};
/// use tollgate_tower::key::{Header, Peer, PeerAddress};
///
/// /// What an outer layer has found.
/// #[derive(Clone)]
/// struct Plan(String);
///
/// let sources = AttributeSources::new()
///     .with("ip", PeerAddress::new())
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
/// let attributes = sources.read(Head::from(&request))?;
/// let values = ["method", "path", "ip", "tenant", "plan"].map(|name| attributes.value(name).unwrap_or_default());
/// assert_eq!(values, ["GET", "/search", "192.0.2.7", "acme", "pro"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct AttributeSources(Vec<(Box<str>, Box<dyn AttributeSource>)>);

/// Where a value is taken from. The [extractors](crate::key) whose keys are texts or addresses are sources as well.
pub trait AttributeSource: Send + Sync {
    /// The value, if the request has one.
    ///
    /// # Errors
    ///
    /// If what the request has is wrong, or if no request can have it.
    fn attribute<'r>(&'r self, head: Head<'r>) -> Result<Option<Cow<'r, str>>, AttributeError>;

    /// Whether the value is the address that the connection comes from. A layer warns where that seems to be the
    /// address of a proxy.
    fn tells_peers(&self) -> bool {
        false
    }
}

/// A request of which policies cannot be told what they have to be told.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AttributeError {
    /// What the request says is wrong. The caller's fault.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// No request has this, because the service is put together without it. Policies do not get to say what that
    /// means: with `on_missing_key: skip` nobody would be limited, and nobody would know.
    #[error("no request has {0}, because the service is put together without it")]
    Setup(&'static str),
}

impl AttributeSources {
    /// `method` and `path`.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes this attribute from there. Of a name that is given twice the last source holds.
    #[must_use]
    pub fn with(mut self, name: &str, source: impl AttributeSource + 'static) -> Self {
        self.0.retain(|(other, _)| **other != *name);
        self.0.push((name.into(), Box::new(source)));
        self
    }

    /// Takes this attribute from what the function finds.
    #[must_use]
    pub fn with_fn<F>(self, name: &str, find: F) -> Self
    where
        F: for<'r> Fn(Head<'r>) -> Option<Cow<'r, str>> + Send + Sync + 'static,
    {
        self.with(name, FromHead(find))
    }

    /// The attributes that these policies go by and that are taken from nowhere: probably a mistake, in one of both.
    #[must_use]
    pub fn lacking<'p>(&self, policies: &'p Policies) -> Vec<&'p str> {
        let is_taken = |name: &str| OF_EVERY.contains(&name) || self.0.iter().any(|(own, _)| **own == *name);
        policies.attributes().into_iter().filter(|name| !is_taken(name)).collect()
    }

    /// What policies are told of this request.
    ///
    /// # Errors
    ///
    /// If something of it is wrong, whether or not a policy would have asked for it.
    pub fn read<'r>(&'r self, head: Head<'r>) -> Result<Attributes<'r>, AttributeError> {
        let mut attributes = Attributes::default();
        for (name, source) in &self.0 {
            if let Some(value) = source.attribute(head)? {
                attributes.push(&**name, value);
            }
        }
        // Of one name the first value counts, so a source of one's own holds.
        attributes.push("method", head.method().as_str());
        attributes.push("path", head.route().unwrap_or_else(|| head.uri().path()));
        Ok(attributes)
    }
}

/// What says of a request what policies are told: sources, or a function.
pub(crate) trait Tell: Send + Sync {
    fn tell<'r>(&'r self, head: Head<'r>) -> Result<Attributes<'r>, AttributeError>;

    /// Whether `ip` of what is told of this request is the address that its connection comes from.
    fn tells_peers(&self, head: Head<'_>, told: &Attributes<'_>) -> bool;
}

impl Tell for AttributeSources {
    fn tell<'r>(&'r self, head: Head<'r>) -> Result<Attributes<'r>, AttributeError> {
        self.read(head)
    }

    fn tells_peers(&self, _: Head<'_>, _: &Attributes<'_>) -> bool {
        // Under another name it is there to be told from the client, as in a policy for one's own networks.
        self.0.iter().any(|(name, source)| **name == *"ip" && source.tells_peers())
    }
}

impl<F> Tell for F
where
    F: for<'r> Fn(Head<'r>) -> Attributes<'r> + Send + Sync,
{
    fn tell<'r>(&'r self, head: Head<'r>) -> Result<Attributes<'r>, AttributeError> {
        Ok(self(head))
    }

    /// Where a function has it from nobody knows: it is the same, or it is not.
    fn tells_peers(&self, head: Head<'_>, told: &Attributes<'_>) -> bool {
        let told: Option<IpAddr> = told.value("ip").and_then(|address| address.parse().ok());
        told.is_some_and(|told| Peer::of(head).is_some_and(|peer| peer.to_canonical() == told.to_canonical()))
    }
}

const OF_EVERY: [&str; 2] = ["method", "path"];

/// The names.
impl fmt::Debug for AttributeSources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}
