//! Attributes of a request: names and values.

use std::borrow::Cow;
use std::collections::BTreeSet;

use smallvec::SmallVec;

use crate::{AttributeValue, Policy, Texts, UnknownValue, View};

/// The attributes of a request: names and values, borrowed from it if possible.
///
/// If a name is given twice, the first value counts. `path` and `ip` are kept in [canonical
/// form](AttributeValue::canonical), a path in another spelling also [as it was sent](crate::SentReading). Limit the
/// number of attributes where they come from strangers.
///
/// There is no `Debug`, because values may be personal or secret.
#[derive(Default, Clone)]
pub struct Attributes<'a> {
    pairs: SmallVec<[(Cow<'a, str>, AttributeValue<'a>); 4]>,
    /// The path as it was sent, if it has two [readings](crate::SentReading).
    sent_path: Option<AttributeValue<'a>>,
    /// The policies that the request may touch; all if none are named.
    within: Option<&'a BTreeSet<Box<str>>>,
    /// Whether they come from a client instead of the caller.
    are_of_client: bool,
    /// The stand-ins for values in keys. Usually there are none.
    stand_ins: Vec<(Box<str>, Box<str>)>,
    /// Whether values of any length are accepted.
    are_of_any_length: bool,
    /// The policy whose key they were read from. Nothing else is known of the request then.
    of_key: Option<&'a Policy>,
}

impl<'a> Attributes<'a> {
    /// Characters in a name, at most.
    pub const MAX_NAME: usize = 128;

    /// Returns whether an attribute can have this name: it has 1 to [`MAX_NAME`](Self::MAX_NAME) characters.
    #[must_use]
    pub fn is_name(name: &str) -> bool {
        !name.is_empty() && (name.len() <= Self::MAX_NAME || name.chars().count() <= Self::MAX_NAME)
    }

    /// Restricts the request to the policies of these names. If another policy would count it, it is
    /// [refused](crate::Refusal::OtherPolicy) before anything is charged. Policies that exempt or deny apply to every
    /// caller, and a request that no policy matches is admitted as usual.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::collections::BTreeSet;
    ///
    /// use tollgate_policy::{Attributes, Config, Refusal};
    ///
    /// let text = "
    /// policies:
    ///   - { name: search, match: { path: /search }, key: [user], quotas: [5/1m] }
    ///   - { name: login, match: { path: /login }, key: [user], quotas: [5/1m] }
    /// ";
    /// let config = Config::parse("tollgate.yaml", text)?;
    /// let names = BTreeSet::from(["search".into()]);
    /// let ask = |path: &'static str| {
    ///     let attributes: Attributes<'_> = [("path", path), ("user", "alice")].into_iter().collect();
    ///     config.policies().charges(&attributes.within(&names), 1).map(drop)
    /// };
    /// assert_eq!(ask("/search"), Ok(()));
    /// assert_eq!(ask("/login"), Err(Refusal::OtherPolicy { policy: "login".into() }));
    /// # Ok::<(), tollgate_policy::ConfigError>(())
    /// ```
    #[must_use]
    pub fn within(self, policies: &'a BTreeSet<Box<str>>) -> Self {
        Self { within: Some(policies), ..self }
    }

    /// Marks the values as a client's, which can invent them. So no [limit](crate::LimitAttribute) is taken from them.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_policy::{Attributes, View};
    ///
    /// let attributes: Attributes<'_> = [("header.x-quota", "1000000")].into_iter().collect();
    /// assert!(attributes.is_verified("header.x-quota"), "the caller is trusted");
    /// assert!(!attributes.of_client().is_verified("header.x-quota"));
    /// ```
    #[must_use]
    pub fn of_client(self) -> Self {
        Self { are_of_client: true, ..self }
    }

    /// Accepts values of any length, for a caller that [counts](Self::count_as) long ones by other texts.
    #[must_use]
    pub fn of_any_length(self) -> Self {
        Self { are_of_any_length: true, ..self }
    }

    /// Marks them as what is known of a request by its key alone: [attributes of a
    /// key](crate::Identity::attributes_of_key) of this policy. Only this policy is matched, and whatever its conditions
    /// are: it has counted a request with the key. An attribute that is not in the key is [not
    /// known](UnknownValue::Wrong), so a limit, a cost or an override that depends on it is an
    /// [error](crate::Refusal::Undecided). If the policies have none of this name with this key, none is matched.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_policy::{Attributes, Config, Outcome};
    ///
    /// let text = "
    /// policies:
    ///   - { name: search, match: { path: /search }, key: [user], quotas: [5/1m] }
    ///   - { name: all, key: [user], quotas: [50/1m] }
    /// ";
    /// let config = Config::parse("tollgate.yaml", text)?;
    /// let [search, _] = config.policies().as_slice() else { unreachable!() };
    /// let attributes: Attributes<'_> = [("user", "alice")].into_iter().collect();
    /// let attributes = attributes.of_key(search);
    /// let Outcome::Charge(matched) = config.policies().charges(&attributes, 1)? else { unreachable!() };
    /// assert_eq!(matched.policies().map(|policy| policy.name()).collect::<Vec<_>>(), ["search"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn of_key(self, policy: &'a Policy) -> Self {
        // A key has one reading.
        Self { of_key: Some(policy), sent_path: None, ..self }
    }

    /// Adds a name and its value in [canonical form](AttributeValue::canonical). An empty list counts as no value.
    pub fn push(&mut self, name: impl Into<Cow<'a, str>>, value: impl Into<AttributeValue<'a>>) {
        let name = name.into();
        if let Some((value, sent)) = value.into().readings(&name) {
            // Only a path has a second reading.
            if sent.is_some() && self.value(&name).is_none() {
                self.sent_path = sent;
            }
            self.pairs.push((name, value));
        }
    }

    /// Counts the request by this text instead of the attribute's value. Different values need different texts. The
    /// value may then be empty, or [longer](crate::PolicyLimiter::max_value_bytes) than others.
    pub fn count_as(&mut self, name: impl Into<Box<str>>, stand_in: impl Into<Box<str>>) {
        self.stand_ins.push((name.into(), stand_in.into()));
    }

    /// The value of this name; may be empty.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<Texts<'_>> {
        self.pairs.iter().find(|(other, _)| other == name).map(|(_, value)| value.texts())
    }

    /// Returns the number of attributes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Names and values, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Texts<'_>)> {
        self.pairs.iter().map(|(name, value)| (name.as_ref(), value.texts()))
    }
}

/// All of it is known, unless it was read from [a key](Attributes::of_key).
impl View for Attributes<'_> {
    #[inline]
    fn value(&self, name: &str) -> Result<Option<Texts<'_>>, UnknownValue> {
        let value = Attributes::value(self, name);
        match self.of_key {
            // What a key could have and does not have, the request did not have.
            Some(policy) if value.is_none() && !policy.identity().has(name) => Err(UnknownValue::Wrong),
            _ => Ok(value),
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|(name, _)| name)
    }

    #[inline]
    fn pairs(&self) -> impl Iterator<Item = (&str, Result<Option<Texts<'_>>, UnknownValue>)> {
        self.iter().map(|(name, value)| (name, Ok(Some(value))))
    }

    #[inline]
    fn sent_path(&self) -> Option<Texts<'_>> {
        self.sent_path.as_ref().map(AttributeValue::texts)
    }

    /// The caller is trusted, so every attribute counts as verified, unless it is [a client's](Attributes::of_client).
    fn is_verified(&self, _: &str) -> bool {
        !self.are_of_client
    }

    fn has_any_length(&self) -> bool {
        self.are_of_any_length
    }

    fn counted_as(&self, name: &str) -> Option<&str> {
        self.stand_ins.iter().find(|(other, _)| **other == *name).map(|(_, stand_in)| stand_in.as_ref())
    }

    #[inline]
    fn only_policy(&self) -> Option<&Policy> {
        self.of_key
    }

    fn may_touch(&self, policy: &str) -> bool {
        self.within.is_none_or(|names| names.contains(Policy::base_name(policy)))
    }
}

impl<'a, N: Into<Cow<'a, str>>, V: Into<AttributeValue<'a>>> FromIterator<(N, V)> for Attributes<'a> {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut attributes = Self::default();
        pairs.into_iter().for_each(|(name, value)| attributes.push(name, value));
        attributes
    }
}
