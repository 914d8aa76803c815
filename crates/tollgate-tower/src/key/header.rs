//! The value of a header.

use http::{HeaderName, HeaderValue};

use super::secrecy::{Secrecy, given_twice};
use super::{Extraction, InvalidIdentity, KeyExtractor};
use crate::head::Head;

/// Counts by the value of a header, such as an API key.
///
/// The key is the value's SHA-256, so that no secret gets into a store, unless the header is [`plain`](Self::plain).
/// Space around the value is ignored.
///
/// # What it trusts
///
/// Nothing: a client that invents a value gets a new limit. So an unchecked value limits only honest clients. Also
/// count by address, in an outer layer or by `or_else`, or put this layer behind the one that refuses unknown API keys.
///
/// # What is missing
///
/// An absent or empty header. One that occurs twice is [invalid](super::InvalidIdentity), because another reader might
/// use the other value, or both as one.
///
/// # Examples
///
/// ```
/// use http::HeaderName;
/// use tollgate::Key;
/// use tollgate_tower::Head;
/// use tollgate_tower::key::{Header, Identity, KeyExtractor};
///
/// # tollgate_testkit::block_on(async {
/// let request = http::Request::get("/").header("x-api-key", "4711").header("x-tenant", "acme").body(())?;
///
/// let by_key = Header::new(HeaderName::from_static("x-api-key"));
/// let Identity::Known(key) = by_key.extract(Head::from(&request)).await? else { unreachable!() };
/// assert_ne!(key, Key::from("4711"));
///
/// let by_tenant = Header::new(HeaderName::from_static("x-tenant")).plain();
/// assert_eq!(by_tenant.extract(Head::from(&request)).await?, Identity::Known(Key::from("acme")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Header {
    name: HeaderName,
    /// As callers see it.
    what: Box<str>,
    secrecy: Secrecy,
}

impl Header {
    /// Returns the value of this header, hashed.
    #[must_use]
    pub fn new(name: HeaderName) -> Self {
        let what = format!("header `{name}`").into();
        Self { name, what, secrecy: Secrecy::Hashed }
    }

    /// Hashes by HMAC-SHA-256 with this key, for values that can be guessed, such as customer numbers: anyone who sees
    /// the store could also guess their plain hashes. Processes that share a store need the same key.
    #[must_use]
    pub fn keyed(self, key: &[u8]) -> Self {
        Self { secrecy: Secrecy::keyed(key), ..self }
    }

    /// Uses the plain value, which must be UTF-8, for values that may be visible in the store, such as the name of a
    /// tenant.
    #[must_use]
    pub fn plain(self) -> Self {
        Self { secrecy: Secrecy::Plain, ..self }
    }

    fn value<'r>(&self, head: Head<'r>) -> Result<Option<&'r [u8]>, InvalidIdentity> {
        let mut lines = head.headers().get_all(&self.name).into_iter().map(HeaderValue::as_bytes);
        match (lines.next().map(<[u8]>::trim_ascii), lines.next()) {
            (_, Some(_)) => Err(given_twice(&self.what)),
            (value, None) => Ok(value.filter(|value| !value.is_empty())),
        }
    }

    /// The value, or its hash in hex.
    #[cfg(feature = "policy")]
    pub(crate) fn text<'r>(
        &'r self,
        head: Head<'r>,
    ) -> Result<Option<std::borrow::Cow<'r, str>>, InvalidIdentity> {
        self.value(head)?.map(|value| self.secrecy.text(value, &self.what)).transpose()
    }
}

impl KeyExtractor for Header {
    fn extract<'r>(&'r self, head: Head<'r>) -> Extraction<'r> {
        Extraction::Now(self.value(head).and_then(|value| self.secrecy.identity(value, &self.what)))
    }
}
