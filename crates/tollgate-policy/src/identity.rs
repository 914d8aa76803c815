//! Identities: from the attributes of a request to a key.

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use smallvec::SmallVec;
use thiserror::Error;
use tollgate::Key;
use tollgate_http::Grouping;

use crate::scalar::Scalar;
use crate::{Attributes, Texts, UnknownValue, Value, View, condition};

/// The identity that a policy counts by.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Identity {
    /// All requests together.
    Global,
    /// All attributes of the request together, in any order. Files cannot use it, because an additional attribute would
    /// change every key.
    Every,
    /// The value of this attribute.
    Attribute(Arc<str>),
    /// The network of the address in this attribute.
    Address(Arc<str>, Grouping),
    /// All of these together.
    All(Box<[Identity]>),
    /// The first of these that a request has. The key contains which one it was, so a user and an address never share a
    /// counter.
    FirstOf(Box<[Identity]>),
}

/// Why a request has no key. It never gets a key that many share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the request has no key{}", and_why(self))]
pub struct NoKey<'a> {
    /// The attribute; empty if any would do.
    pub attribute: &'a str,
    /// Why it cannot be a key.
    pub fault: KeyFault,
    /// All the choices, if none of them is there; the attribute is then of the first.
    pub choices: Option<Choices<'a>>,
}

/// The choices of a [`FirstOf`](Identity::FirstOf), displayed as a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choices<'a>(&'a [Identity]);

/// The fault of a key attribute. If there are several choices, the greatest fault is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Error)]
#[non_exhaustive]
pub enum KeyFault {
    /// The request does not have it.
    #[error("is missing")]
    Missing,
    /// It is empty.
    #[error("is empty")]
    Empty,
    /// It is a list. The key would depend on the order of its texts.
    #[error("is a list")]
    List,
    /// Its value is not known.
    #[error("{0}")]
    Unknown(UnknownValue),
    /// It is not an address, but an address is needed. Such a value does not count as missing.
    #[error("is not an address")]
    NoAddress,
}

impl Identity {
    /// Returns the identity for a word in a file or a flag: `global`, `ip` for the client's network, or an attribute.
    /// `None` for a name that no request can have.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_policy::Identity;
    ///
    /// assert_eq!(Identity::of_word("ip"), Some(Identity::Address("ip".into(), Default::default())));
    /// assert_eq!(Identity::of_word("user"), Some(Identity::Attribute("user".into())));
    /// assert_eq!(Identity::of_word(""), None);
    /// ```
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        match word {
            "global" => Some(Self::Global),
            "ip" => Some(Self::Address(word.into(), Grouping::default())),
            name => Attributes::is_name(name).then(|| Self::Attribute(name.into())),
        }
    }

    /// Returns the identity for a list: all parts together, or the only one.
    #[must_use]
    pub fn of_list(parts: Vec<Self>) -> Self {
        match <[Self; 1]>::try_from(parts) {
            Ok([only]) => only,
            Err(parts) => Self::All(parts.into()),
        }
    }

    /// Returns the key of a request.
    ///
    /// # Errors
    ///
    /// If an attribute is missing or invalid; the error names it.
    pub fn key<'a, V: View>(&'a self, view: &'a V) -> Result<Key<'a>, NoKey<'a>> {
        match self {
            Self::Global => Ok(Key::parts(std::iter::empty::<Key<'_>>())),
            Self::Every => {
                let mut pairs = all(view)?;
                pairs.sort_unstable();
                if pairs.is_empty() {
                    return Err(NoKey::of("", KeyFault::Missing));
                }
                let pair = |(name, value)| [Key::from(name), counted_by(view, name, value)];
                Ok(Key::parts(pairs.into_iter().flat_map(pair)))
            }
            Self::Attribute(name) => value(view, name).map(|value| counted_by(view, name, value)),
            Self::Address(name, grouping) => address(view, name).map(|address| grouping.key(address)),
            Self::All(parts) => {
                let (mut keys, mut wrong) = (SmallVec::<[Key<'_>; 4]>::new(), None);
                for part in parts {
                    match part.key(view) {
                        Ok(key) => keys.push(key),
                        Err(no_key) if no_key.fault.is_missing() => return Err(no_key),
                        // Another part may be missing, and then nobody needs to know this one.
                        Err(no_key) => {
                            let sooner = |other: &NoKey<'_>| other.fault <= no_key.fault;
                            wrong = wrong.filter(sooner).or(Some(no_key));
                        }
                    }
                }
                wrong.map_or_else(|| Ok(Key::parts(keys)), Err)
            }
            Self::FirstOf(choices) => self.first_of(choices, view).map(|(choice, key)| choice.named(key)),
        }
    }

    /// Describes the key of a request, as `user=alice` or `ip=2001:db8::/64`, for the caller of this request. Not for
    /// logs, because values may be personal.
    ///
    /// # Errors
    ///
    /// The same as [`key`](Self::key).
    pub fn describe<'a, V: View>(&'a self, view: &'a V) -> Result<String, NoKey<'a>> {
        match self {
            Self::Global => Ok("all requests".to_owned()),
            Self::Every => {
                self.key(view)?;
                let pairs = all(view)?.into_iter().map(|(name, value)| format!("{name}={value}"));
                Ok(pairs.collect::<Vec<_>>().join(", "))
            }
            Self::Attribute(name) => value(view, name).map(|value| format!("{name}={value}")),
            Self::Address(name, grouping) => {
                address(view, name).map(|address| format!("{name}={}", grouping.network(address)))
            }
            Self::All(parts) => {
                self.key(view)?;
                let parts: Result<Vec<_>, _> = parts.iter().map(|part| part.describe(view)).collect();
                Ok(parts?.join(", "))
            }
            Self::FirstOf(choices) => self.first_of(choices, view)?.0.describe(view),
        }
    }

    /// The first of these choices that the request has, and its key. One with an empty value is used only if there is
    /// no other.
    fn first_of<'a, V: View>(
        &'a self,
        choices: &'a [Self],
        view: &'a V,
    ) -> Result<(&'a Self, Key<'a>), NoKey<'a>> {
        let mut said = NoKey { attribute: "", fault: KeyFault::Missing, choices: None };
        let mut empty = None;
        for choice in choices {
            match choice.key(view) {
                Ok(key) if choice.is_empty_in(view) => empty = empty.or(Some((choice, key))),
                Ok(key) => return Ok((choice, key)),
                // A deliberately broken token must not select another key.
                Err(unknown @ NoKey { fault: KeyFault::Unknown(_), .. }) => return Err(unknown),
                // An invalid value is reported before a missing one.
                Err(other) if said.attribute.is_empty() || other.fault > said.fault => said = other,
                Err(_) => {}
            }
        }
        empty.ok_or_else(|| NoKey { choices: self.choices(said.fault), ..said })
    }

    /// Returns whether the request's key contains a stand-in for an empty value.
    fn is_empty_in<V: View>(&self, view: &V) -> bool {
        let mut names = SmallVec::<[&str; 4]>::new();
        self.names(&mut names);
        let is_empty = |name: &str| matches!(view.value(name), Ok(Some(Texts::One(""))));
        names.iter().any(|name| view.counted_as(name).is_some() && is_empty(name))
    }

    /// Returns whether it reads this attribute as an address.
    pub(crate) fn reads_address(&self, attribute: &str) -> bool {
        match self {
            Self::Global | Self::Every | Self::Attribute(_) => false,
            Self::Address(name, _) => **name == *attribute,
            Self::All(parts) | Self::FirstOf(parts) => parts.iter().any(|part| part.reads_address(attribute)),
        }
    }

    /// Returns whether its keys have the value of this attribute, if a request has one.
    pub(crate) fn has(&self, attribute: &str) -> bool {
        let mut names = SmallVec::<[&str; 4]>::new();
        self.names(&mut names);
        *self == Self::Every || names.contains(&attribute)
    }

    /// Returns whether it contains an empty list, which no file can express.
    pub(crate) fn has_empty_list(&self) -> bool {
        match self {
            Self::All(parts) | Self::FirstOf(parts) => {
                parts.is_empty() || parts.iter().any(Self::has_empty_list)
            }
            Self::Global | Self::Every | Self::Attribute(_) | Self::Address(..) => false,
        }
    }

    /// The choices that a request had none of, which has this fault.
    pub(crate) fn choices(&self, fault: KeyFault) -> Option<Choices<'_>> {
        match self {
            Self::FirstOf(choices) if fault == KeyFault::Missing => Some(Choices(choices)),
            _ => None,
        }
    }

    /// Returns the key under the names of its attributes.
    fn named<'a>(&'a self, key: Key<'a>) -> Key<'a> {
        match self {
            Self::Attribute(name) | Self::Address(name, _) => Key::from((name.as_ref(), key)),
            Self::All(parts) => {
                let mut names = SmallVec::<[&str; 4]>::new();
                parts.iter().for_each(|part| part.names(&mut names));
                Key::from((Key::parts(names), key))
            }
            Self::Global | Self::Every | Self::FirstOf(_) => key,
        }
    }

    /// Takes the names from these, and adds missing ones. Names that many policies share are then in one place, which
    /// stays in the cache.
    pub(crate) fn share_names(&mut self, names: &mut HashSet<Arc<str>>) {
        match self {
            Self::Global | Self::Every => {}
            Self::Attribute(name) | Self::Address(name, _) => match names.get(name) {
                Some(shared) => *name = Arc::clone(shared),
                None => _ = names.insert(Arc::clone(name)),
            },
            Self::All(parts) | Self::FirstOf(parts) => {
                parts.iter_mut().for_each(|part| part.share_names(names));
            }
        }
    }

    /// Returns the names of all attributes that it may use, in order.
    pub(crate) fn names<'a, const N: usize>(&'a self, names: &mut SmallVec<[&'a str; N]>)
    where
        [&'a str; N]: smallvec::Array<Item = &'a str>,
    {
        match self {
            Self::Global | Self::Every => {}
            Self::Attribute(name) | Self::Address(name, _) => names.push(name),
            Self::All(parts) | Self::FirstOf(parts) => parts.iter().for_each(|part| part.names(names)),
        }
    }
}

impl KeyFault {
    /// Returns whether the attribute counts as missing.
    pub(crate) const fn is_missing(self) -> bool {
        matches!(self, Self::Missing | Self::Empty | Self::List)
    }
}

impl<'a> NoKey<'a> {
    const fn of(attribute: &'a str, fault: KeyFault) -> Self {
        Self { attribute, fault, choices: None }
    }
}

fn and_why(NoKey { attribute, fault, choices }: &NoKey<'_>) -> String {
    match choices {
        Some(choices) => format!(": none of {choices} is there"),
        None if attribute.is_empty() => String::new(),
        None => format!(": `{attribute}` {fault}"),
    }
}

impl fmt::Display for Choices<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        list(f, self.0)
    }
}

/// As a list is written in a file.
fn list(f: &mut fmt::Formatter<'_>, parts: &[Identity]) -> fmt::Result {
    f.write_str("[")?;
    for (index, part) in parts.iter().enumerate() {
        write!(f, "{}{part}", if index == 0 { "" } else { ", " })?;
    }
    f.write_str("]")
}

/// Returns the attribute's value, if it has one.
fn value<'a, V: View>(view: &'a V, attribute: &'a str) -> Result<&'a str, NoKey<'a>> {
    match view.value(attribute) {
        Ok(None) => Err(NoKey::of(attribute, KeyFault::Missing)),
        Ok(Some(texts)) => counted(view, attribute, texts),
        Err(unknown) => Err(NoKey::of(attribute, KeyFault::Unknown(unknown))),
    }
}

fn counted<'a, V: View>(view: &V, attribute: &'a str, texts: Texts<'a>) -> Result<&'a str, NoKey<'a>> {
    Value::in_view(view, attribute, texts).counted().map_err(|fault| NoKey::of(attribute, fault))
}

/// The key of a value. A stand-in is a list, so that no value equals it.
fn counted_by<'a, V: View>(view: &'a V, name: &str, value: &'a str) -> Key<'a> {
    view.counted_as(name).map_or_else(|| Key::from(value), |stand_in| Key::parts([stand_in]))
}

/// Returns the values of all attributes. Of a name that is given twice, both values are there.
fn all<V: View>(view: &V) -> Result<SmallVec<[(&str, &str); 4]>, NoKey<'_>> {
    let said = view.pairs().filter_map(|(name, value)| match value {
        Ok(texts) => texts.map(|texts| counted(view, name, texts).map(|text| (name, text))),
        Err(unknown) => Some(Err(NoKey::of(name, KeyFault::Unknown(unknown)))),
    });
    said.collect()
}

/// Returns the address in the attribute.
fn address<'a, V: View>(view: &'a V, attribute: &'a str) -> Result<IpAddr, NoKey<'a>> {
    let value = value(view, attribute)?;
    condition::address(value).ok_or(NoKey::of(attribute, KeyFault::NoAddress))
}

/// Written as in a file, if possible.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Global => f.write_str("global"),
            Self::Every => f.write_str("all attributes"),
            // A word that means somebody else.
            Self::Attribute(name) if Self::of_word(name).as_ref() != Some(self) => {
                write!(f, "{{ attribute: {} }}", Scalar(name))
            }
            Self::Attribute(name) => Scalar(name).fmt(f),
            Self::Address(name, grouping) => match (*grouping, Scalar(name)) {
                (grouping, name) if grouping != Grouping::default() => {
                    write!(f, "{{ address: {name}, ipv4: {}, ipv6: {} }}", grouping.ipv4(), grouping.ipv6())
                }
                (_, Scalar("ip")) => f.write_str("ip"),
                (_, name) => write!(f, "{{ address: {name} }}"),
            },
            Self::All(parts) => list(f, parts),
            Self::FirstOf(choices) => {
                f.write_str("{ first_of: ")?;
                list(f, choices)?;
                f.write_str(" }")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> Identity {
        Identity::Address("ip".into(), Grouping::default())
    }

    fn key(identity: &Identity, pairs: &[(&str, &str)]) -> Result<Vec<u8>, String> {
        let attributes: Attributes<'_> = pairs.iter().copied().collect();
        let key = identity.key(&attributes).map(|key| key.canonical_bytes().into_owned());
        key.map_err(|NoKey { attribute, fault, .. }| format!("{attribute} {fault}"))
    }

    #[test]
    fn addresses_of_one_network_are_one_client() {
        let of = |ip| key(&address(), &[("ip", ip)]).unwrap();
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:0:0:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
        assert_eq!(of("192.0.2.1"), of("::ffff:192.0.2.1"));
        assert_eq!(of("192.0.2.1"), of("64:ff9b::192.0.2.1"), "through a translator");
    }

    #[test]
    fn a_missing_or_empty_value_and_what_is_no_address_are_named() {
        let pair = Identity::All([Identity::Attribute("user".into()), address()].into());
        assert_eq!(key(&pair, &[("ip", "192.0.2.1")]), Err("user is missing".into()));
        assert_eq!(key(&pair, &[("user", ""), ("ip", "192.0.2.1")]), Err("user is empty".into()));
        assert_eq!(key(&pair, &[("user", "a"), ("ip", "unknown")]), Err("ip is not an address".into()));
    }

    /// A gateway that admits what is an error needs a key for every request.
    #[test]
    fn an_empty_value_has_a_key_if_something_stands_for_it() {
        let user = Identity::Attribute("user".into());
        let of = |identity: &Identity, pairs: &[(&str, &str)]| {
            let mut attributes: Attributes<'_> = pairs.iter().copied().collect();
            attributes.count_as("user", "nobody");
            let key = identity.key(&attributes).map(|key| key.canonical_bytes().into_owned());
            key.map_err(|no_key| no_key.fault)
        };
        let (empty, ip) = (("user", ""), ("ip", "192.0.2.1"));
        assert!(of(&user, &[empty]).is_ok());
        assert_ne!(of(&user, &[empty]), key(&user, &[("user", "nobody")]).map_err(|_| KeyFault::Missing));
        assert!(of(&Identity::Every, &[empty]).is_ok());
        assert_eq!(of(&Identity::Every, &[empty, ("other", "")]), Err(KeyFault::Empty));
        assert_eq!(of(&Identity::of_list(vec![user.clone(), address()]), &[empty]), Err(KeyFault::Missing));
        let choice = Identity::FirstOf([user, address()].into());
        assert_eq!(of(&choice, &[empty, ip]), of(&choice, &[ip]), "another choice is better");
        assert!(of(&choice, &[empty]).is_ok());
    }

    #[test]
    fn requests_with_a_key_name_their_client() {
        let pair = Identity::All([Identity::Attribute("user".into()), address()].into());
        let choice = Identity::FirstOf([pair, Identity::Attribute("device".into())].into());
        for (pairs, said) in [
            (&[("user", "a"), ("ip", "2001:db8::1")][..], Ok("user=a, ip=2001:db8::/64")),
            (&[("user", "a"), ("ip", "x"), ("device", "d1")], Ok("device=d1")),
            (&[("user", "a"), ("ip", "x"), ("device", "")], Err("ip is not an address")),
            (&[("ip", "2001:db8::1"), ("device", "")], Err("device is empty")),
            (&[("user", "")], Err("user is empty")),
        ] {
            let attributes: Attributes<'_> = pairs.iter().copied().collect();
            let described = choice.describe(&attributes).map_err(|no_key| no_key.attribute.to_owned());
            assert_eq!(described.is_ok(), said.is_ok());
            assert_eq!(described.as_deref().ok(), said.ok());
            assert_eq!(key(&choice, pairs).err().as_deref(), said.err());
        }
        assert_eq!(Identity::Global.describe(&Attributes::default()).as_deref(), Ok("all requests"));
    }

    /// Only the first choice was named, so a client that sent neither was told to send the first.
    #[test]
    fn choices_that_are_all_missing_are_all_named() {
        let choice = Identity::FirstOf([Identity::Attribute("user".into()), address()].into());
        let told = |pairs: &[(&str, &str)]| {
            choice.key(&pairs.iter().copied().collect::<Attributes<'_>>()).map(drop).unwrap_err().to_string()
        };
        let none = "the request has no key: ";
        assert_eq!(told(&[("path", "/")]), format!("{none}none of [user, ip] is there"));
        assert_eq!(told(&[("ip", "")]), format!("{none}`ip` is empty"));
    }

    #[test]
    fn keys_depend_on_names_but_not_on_the_order_of_attributes() {
        let of = |pairs: &[(&str, &str)]| key(&Identity::Every, pairs);
        assert_eq!(of(&[("a", "1"), ("b", "2")]), of(&[("b", "2"), ("a", "1")]));
        assert_ne!(of(&[("a", "1")]), of(&[("b", "1")]));
        assert_ne!(of(&[("a", "1"), ("b", "2")]), of(&[("a", "2"), ("b", "1")]));
        assert_eq!(of(&[("a", "1"), ("b", "")]), Err("b is empty".into()));
        assert_eq!(of(&[]), Err(" is missing".into()));
    }

    /// The user `d1` is not the device `d1`.
    #[test]
    fn choices_never_share_a_key() {
        let names = ["user", "device"].map(|name| Identity::Attribute(name.into()));
        let choice = Identity::FirstOf(names.into());
        assert_ne!(key(&choice, &[("user", "d1")]), key(&choice, &[("device", "d1")]));
        assert_eq!(key(&choice, &[("user", "a"), ("device", "b")]), key(&choice, &[("user", "a")]));
        assert_eq!(key(&choice, &[]), Err("user is missing".into()));
    }
}
