//! The two readings of a request: with its path normalized, and as it was sent.
//!
//! Services disagree about paths. Some decode `%2F` and remove dot segments before they choose a handler, others do
//! not, so a path in an unusual spelling is read in both ways. A policy that counts or denies applies if it matches in
//! one of them; a policy that exempts applies only if it matches in both.

use crate::value::PATH;
use crate::{Texts, UnknownValue, View};

/// A request in its second reading: with its path as it was sent.
///
/// Conditions, as a whole, hold or do not hold in each reading. Keys use the normalized path.
///
/// # Examples
///
/// ```
/// use tollgate_policy::{SentReading, Attributes, View};
///
/// let request: Attributes<'_> = [("path", "/api/..%2fhealthz"), ("ip", "192.0.2.7")].into_iter().collect();
/// assert_eq!(request.value("path"), Some("/healthz".into()));
/// let sent = SentReading::of(&request).ok_or("its path has another spelling")?;
/// assert_eq!(sent.value("path"), Ok(Some("/api/..%2fhealthz".into())));
/// assert_eq!(sent.value("ip"), Ok(Some("192.0.2.7".into())));
///
/// let usual: Attributes<'_> = [("path", "/healthz")].into_iter().collect();
/// assert!(SentReading::of(&usual).is_none());
/// # Ok::<(), &str>(())
/// ```
pub struct SentReading<'v, V> {
    view: &'v V,
    path: Texts<'v>,
}

/// The readings of a request in which something holds. Those of a request with only one reading are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Readings {
    pub(crate) normalized: bool,
    pub(crate) sent: bool,
}

impl<'v, V: View> SentReading<'v, V> {
    /// Returns the second reading of this request; `None` if it has only one, as is usual.
    #[must_use]
    #[inline]
    pub fn of(view: &'v V) -> Option<Self> {
        view.sent_path().map(|path| Self { view, path })
    }
}

impl<V: View> View for SentReading<'_, V> {
    fn value(&self, name: &str) -> Result<Option<Texts<'_>>, UnknownValue> {
        if name == PATH { Ok(Some(self.path)) } else { self.view.value(name) }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.view.names()
    }

    fn is_verified(&self, name: &str) -> bool {
        self.view.is_verified(name)
    }

    fn counted_as(&self, name: &str) -> Option<&str> {
        self.view.counted_as(name)
    }

    fn has_any_length(&self) -> bool {
        self.view.has_any_length()
    }

    fn may_touch(&self, policy: &str) -> bool {
        self.view.may_touch(policy)
    }
}

/// Without values, which may be personal or secret.
impl<V> std::fmt::Debug for SentReading<'_, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SentReading").finish_non_exhaustive()
    }
}

impl Readings {
    pub(crate) const NONE: Self = Self::both(false);

    /// The same in both readings.
    pub(crate) const fn both(holds: bool) -> Self {
        Self { normalized: holds, sent: holds }
    }

    pub(crate) const fn any(self) -> bool {
        self.normalized || self.sent
    }

    pub(crate) const fn all(self) -> bool {
        self.normalized && self.sent
    }

    /// Adds those of another.
    pub(crate) const fn or(self, other: Self) -> Self {
        Self { normalized: self.normalized || other.normalized, sent: self.sent || other.sent }
    }
}
