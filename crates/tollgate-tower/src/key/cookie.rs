//! The value of a cookie.

use http::{HeaderMap, HeaderValue, header};

use super::secrecy::{Secrecy, sole};
use super::{Extraction, InvalidIdentity, KeyExtractor};
use crate::head::Head;

/// Counts by the value of a cookie, such as a session.
///
/// The key is the value's SHA-256, so that no session gets into a store, unless the cookie is [`plain`](Self::plain).
/// The value is compared as it was sent, without surrounding quotes.
///
/// # What it trusts
///
/// Nothing: a client that invents a value gets a new limit. If a service accepts a value in several spellings, such as
/// percent-encoded, one session has several limits. It is better to count by what the session layer leaves in the
/// request's extensions; see [`from_fn`](super::from_fn).
///
/// # What is missing
///
/// An absent or empty cookie. One that occurs twice with different values is [invalid](super::InvalidIdentity), because
/// another reader might use the other value.
///
/// # Examples
///
/// ```
/// use tollgate::Key;
/// use tollgate_tower::Head;
/// use tollgate_tower::key::{Cookie, Identity, KeyExtractor};
///
/// # tollgate_testkit::block_on(async {
/// let request = http::Request::get("/").header("cookie", "theme=dark; session=\"4711\"").body(())?;
/// let by = Cookie::new("session").plain();
/// assert_eq!(by.extract(Head::from(&request)).await?, Identity::Known(Key::from("4711")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Cookie {
    name: Box<str>,
    /// As callers see it.
    what: Box<str>,
    secrecy: Secrecy,
}

impl Cookie {
    /// Returns the value of the cookie with this name, in which case matters, hashed.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let what = format!("cookie `{name}`").into();
        Self { name: name.into(), what, secrecy: Secrecy::Hashed }
    }

    /// Hashes by HMAC-SHA-256 with this key: see [`Header::keyed`](super::Header::keyed).
    #[must_use]
    pub fn keyed(self, key: &[u8]) -> Self {
        Self { secrecy: Secrecy::keyed(key), ..self }
    }

    /// Uses the plain value: see [`Header::plain`](super::Header::plain).
    #[must_use]
    pub fn plain(self) -> Self {
        Self { secrecy: Secrecy::Plain, ..self }
    }

    fn value<'r>(&self, head: Head<'r>) -> Result<Option<&'r [u8]>, InvalidIdentity> {
        sole(values(head.headers(), self.name.as_bytes()), &self.what)
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

impl KeyExtractor for Cookie {
    fn extract<'r>(&'r self, head: Head<'r>) -> Extraction<'r> {
        Extraction::Now(self.value(head).and_then(|value| self.secrecy.identity(value, &self.what)))
    }
}

/// The values of all cookies with this name (RFC 6265, section 4.2.1), without their quotes. HTTP/2 may send each
/// cookie in a separate line.
pub(super) fn values<'r>(headers: &'r HeaderMap, name: &[u8]) -> impl Iterator<Item = &'r [u8]> {
    let lines = headers.get_all(header::COOKIE).into_iter().map(HeaderValue::as_bytes);
    let pairs = lines.flat_map(|line| line.split(|&byte| byte == b';'));
    pairs.filter_map(move |pair| {
        let (own, value) = pair.split_at_checked(pair.iter().position(|&byte| byte == b'=')?)?;
        let value = value.get(1..)?.trim_ascii();
        let unquoted = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
        (own.trim_ascii() == name).then_some(unquoted.unwrap_or(value))
    })
}
