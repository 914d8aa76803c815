//! A request as policies see it: the values of its attributes, on demand.

use thiserror::Error;

use crate::{Policy, Texts};

/// A request as policies see it: the values of its attributes, by name.
///
/// Matching is synchronous and only reads. If it needs a value that is [not known yet](UnknownValue::NotYet), it stops
/// and [names it](crate::Refusal::Undecided). The caller then finds that value (it verifies a token or waits for a
/// session), keeps it in the view and retries. So values that no policy needs are not looked up, and a future is
/// created only if something has to be waited for.
///
/// Conditions on available values are tested first. A policy that one of them excludes needs no other values, and if an
/// exempt policy matches, no other policy is evaluated.
///
/// [`Attributes`](crate::Attributes) are a view in which all values are known.
///
/// # Examples
///
/// A view that verifies a token only if a policy needs to know its user:
///
/// ```
/// use std::cell::OnceCell;
///
/// use tollgate_policy::{Config, Outcome, Refusal, Texts, UnknownValue, View};
///
/// struct Request {
///     path: &'static str,
///     user: OnceCell<String>,
/// }
///
/// impl View for Request {
///     fn value(&self, name: &str) -> Result<Option<Texts<'_>>, UnknownValue> {
///         match name {
///             "path" => Ok(Some(self.path.into())),
///             "user" => self.user.get().map(|user| Some(user.as_str().into())).ok_or(UnknownValue::NotYet),
///             _ => Ok(None),
///         }
///     }
///
///     fn names(&self) -> impl Iterator<Item = &str> {
///         ["path", "user"].into_iter()
///     }
/// }
///
/// let text = "
/// policies:
///   - { name: health, match: { path: /healthz }, exempt: true }
///   - { name: each, key: [user], quotas: [5/1m] }
/// ";
/// let config = Config::parse("tollgate.yaml", text)?;
/// let health = Request { path: "/healthz", user: OnceCell::new() };
/// assert!(matches!(config.policies().charges(&health, 1), Ok(Outcome::Exempt(_))));
///
/// let search = Request { path: "/search", user: OnceCell::new() };
/// let refusal = config.policies().charges(&search, 1).unwrap_err();
/// assert_eq!(refusal, Refusal::Undecided { attribute: "user".into(), unknown: UnknownValue::NotYet });
/// let _ = search.user.set("alice".to_owned());
/// assert!(matches!(config.policies().charges(&search, 1), Ok(Outcome::Charge(_))));
/// # Ok::<(), tollgate_policy::ConfigError>(())
/// ```
pub trait View {
    /// Returns the value of this attribute, as policies [read it](crate::AttributeValue::canonical): a text, which may
    /// be empty, or a list, which may not; `None` if the request has none.
    ///
    /// It is called often, so it should only look up known values.
    ///
    /// # Errors
    ///
    /// If the value is not known.
    fn value(&self, name: &str) -> Result<Option<Texts<'_>>, UnknownValue>;

    /// Returns the names of all attributes that may have a value.
    fn names(&self) -> impl Iterator<Item = &str>;

    /// Returns these names with their values. The default looks up each name.
    fn pairs(&self) -> impl Iterator<Item = (&str, Result<Option<Texts<'_>>, UnknownValue>)> {
        self.names().map(|name| (name, self.value(name)))
    }

    /// Returns the `path` as it was sent, if [its value](Self::value) is another spelling: a second
    /// [reading](crate::SentReading) of the request. Returns `None` by default, and then the value is the only one.
    fn sent_path(&self) -> Option<Texts<'_>> {
        None
    }

    /// Returns whether clients cannot invent the value of this attribute, because it comes from a verified token or the
    /// caller is trusted. Returns `false` by default. Only such attributes can [set limits](crate::LimitAttribute).
    fn is_verified(&self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// Returns the stand-in in keys for the value of this attribute, if the value is empty or too long for a key;
    /// `None` if the value itself does, as by default. A value with a stand-in is
    /// [present](crate::Test::Present); other conditions are on the value itself.
    fn counted_as(&self, name: &str) -> Option<&str> {
        let _ = name;
        None
    }

    /// Returns whether values may have any length, because the caller has set [stand-ins](Self::counted_as) for long
    /// ones. Returns `false` by default: then the [limiter's bound](crate::PolicyLimiter::max_value_bytes) holds.
    fn has_any_length(&self) -> bool {
        false
    }

    /// Returns the only policy that is to be matched, if the request is known by a key of this policy alone; `None` by
    /// default, and then all are. See [`Attributes::of_key`](crate::Attributes::of_key).
    fn only_policy(&self) -> Option<&Policy> {
        None
    }

    /// Returns whether the policy of this name may count the request; by default any. See
    /// [`Attributes::within`](crate::Attributes::within).
    fn may_touch(&self, policy: &str) -> bool {
        let _ = policy;
        true
    }
}

/// Why the value of an attribute is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Error)]
pub enum UnknownValue {
    /// It can be found, for example by verifying a token. A policy that needs it stops the matching until it is.
    #[error("is not known yet")]
    NotYet,
    /// The request has an invalid value, such as an expired token. If an enforced policy needs it, the request cannot
    /// be decided. A policy in shadow mode does without the request.
    #[error("cannot be read from the request")]
    Wrong,
}

/// An attribute on which a decision depends, and whose value is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("`{attribute}` {unknown}")]
pub struct UndecidedValue<'a> {
    /// The attribute.
    pub attribute: &'a str,
    /// Why its value is not known.
    pub unknown: UnknownValue,
}

impl UndecidedValue<'_> {
    /// Returns which of two to look up first. An invalid value stays invalid, and one that can still be found may
    /// decide without it.
    pub(crate) fn sooner(self, other: Self) -> Self {
        if other.unknown < self.unknown { other } else { self }
    }

    /// Combines the result of several conditions with this one.
    pub(crate) fn beside(self, others: Result<bool, Self>) -> Result<bool, Self> {
        Err(others.err().map_or(self, |earlier| earlier.sooner(self)))
    }
}
