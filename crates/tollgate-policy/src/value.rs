//! The values of attributes, and how policies read them.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;

use tollgate_http::{Grouping, canonical_path};

use crate::scalar::Scalar;
use crate::{KeyFault, View};

/// The value of an attribute, as a request has it: a text, or a list of texts.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum AttributeValue<'a> {
    /// A text, borrowed where the request has it as it is.
    Text(Cow<'a, str>),
    /// A list, such as the roles of a user.
    List(Box<[Box<str>]>),
}

/// The borrowed texts of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Texts<'a> {
    /// A text.
    One(&'a str),
    /// A list. An empty one counts as no value, and no [view](crate::View::value) returns it.
    List(&'a [Box<str>]),
}

/// The value of an attribute, as conditions and keys read it.
///
/// - A test holds of a list if it holds of one of its texts. A list cannot be a key or a cost, even with one text. An
///   empty list counts as no value.
/// - An empty text and a list are missing for [a key](Self::counted), and so for [`Test::Present`](crate::Test::Present)
///   and [`Test::Absent`](crate::Test::Absent).
/// - HEAD is a GET without a body, and a service answers it like GET. So if the attribute is `method`, a HEAD matches
///   conditions for GET as well as for HEAD, and as a part of a key it is GET.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Value<'a> {
    texts: Texts<'a>,
    is_head: bool,
    /// Whether it is empty, and [a stand-in](View::counted_as) is counted in its place.
    has_stand_in: bool,
}

const GET: &str = "GET";

/// The attribute that may have two readings.
pub(crate) const PATH: &str = "path";

impl AttributeValue<'_> {
    /// Returns its texts.
    #[must_use]
    pub fn texts(&self) -> Texts<'_> {
        match self {
            Self::Text(text) => Texts::One(text),
            Self::List(texts) => Texts::List(texts),
        }
    }

    /// Returns an owned copy.
    #[must_use]
    pub fn into_owned(self) -> AttributeValue<'static> {
        match self {
            Self::Text(text) => AttributeValue::Text(text.into_owned().into()),
            Self::List(texts) => AttributeValue::List(texts),
        }
    }
}

impl<'a> AttributeValue<'a> {
    /// Returns the value as policies read it in the attribute of this name. An empty list is no value, so it gives
    /// `None`.
    ///
    /// - `ip` is an address in its usual spelling. An IPv6 address that represents an IPv4 address becomes that one:
    ///   mapped (`::ffff:192.0.2.7`), or through a translator (`64:ff9b::192.0.2.7`).
    /// - `path` is [decoded once, without empty and dot segments](tollgate_http::canonical_path).
    /// - All others are unchanged.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_policy::AttributeValue;
    ///
    /// let canonical = |name, text| AttributeValue::from(text).canonical(name);
    /// assert!(canonical("ip", "::ffff:192.0.2.7") == Some("192.0.2.7".into()));
    /// assert!(canonical("path", "//%6Cogin") == Some("/login".into()));
    /// assert!(canonical("user", "//%6Cogin") == Some("//%6Cogin".into()));
    /// assert!(AttributeValue::from(Vec::<String>::new()).canonical("roles") == None);
    /// ```
    #[must_use]
    #[inline]
    pub fn canonical(self, name: &str) -> Option<Self> {
        self.readings(name).map(|(canonical, _)| canonical)
    }

    /// Returns the same value, and for a `path` in another spelling also the value as it was sent: its second
    /// [reading](crate::SentReading).
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_policy::AttributeValue;
    ///
    /// let readings = |path| AttributeValue::from(path).readings("path");
    /// assert!(readings("/api/../login") == Some(("/login".into(), Some("/api/../login".into()))));
    /// assert!(readings("/login") == Some(("/login".into(), None)));
    /// ```
    #[must_use]
    #[inline]
    pub fn readings(self, name: &str) -> Option<(Self, Option<Self>)> {
        if matches!(&self, Self::List(texts) if texts.is_empty()) {
            return None;
        }
        let respelled = match name {
            PATH => self.respelled(respelled_path),
            "ip" => self.respelled(respelled_address),
            _ => None,
        };
        Some(match respelled {
            None => (self, None),
            Some(canonical) => (canonical, (name == PATH).then_some(self)),
        })
    }

    /// The value in its one spelling, if it has another.
    fn respelled(&self, respelled: fn(&str) -> Option<String>) -> Option<Self> {
        match self {
            Self::Text(text) => respelled(text).map(Self::from),
            Self::List(texts) => {
                let changed: Vec<Option<String>> = texts.iter().map(|text| respelled(text)).collect();
                let canonical = changed.iter().any(Option::is_some).then(|| {
                    let pairs = changed.into_iter().zip(texts);
                    pairs.map(|(changed, text)| changed.map_or_else(|| text.clone(), String::into_boxed_str))
                });
                canonical.map(|texts| Self::List(texts.collect()))
            }
        }
    }
}

/// The path in its one spelling, if it has another.
fn respelled_path(path: &str) -> Option<String> {
    match canonical_path(path) {
        Cow::Owned(changed) if changed != path => Some(changed),
        _ => None,
    }
}

/// The address in its one spelling, if it has another. Of IPv4 there is but one.
fn respelled_address(text: &str) -> Option<String> {
    if !text.contains(':') {
        return None;
    }
    let address = text.parse::<IpAddr>().ok()?;
    let changed = Grouping::WHOLE.network(address).first().to_string();
    (changed != text).then_some(changed)
}

impl<'a> From<&'a str> for AttributeValue<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for AttributeValue<'_> {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl<'a> From<Cow<'a, str>> for AttributeValue<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Box<str>>> From<Vec<T>> for AttributeValue<'_> {
    fn from(texts: Vec<T>) -> Self {
        Self::List(texts.into_iter().map(Into::into).collect())
    }
}

/// Without the texts, which often are persons or secrets.
impl fmt::Debug for AttributeValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text(_) => "Text(..)",
            Self::List(_) => "List(..)",
        })
    }
}

impl<'a> Texts<'a> {
    /// Returns the text, unless it is a list.
    #[must_use]
    pub const fn text(self) -> Option<&'a str> {
        match self {
            Self::One(text) => Some(text),
            Self::List(_) => None,
        }
    }

    /// Returns each text.
    pub fn iter(self) -> impl Iterator<Item = &'a str> {
        let (one, list) = match self {
            Self::One(text) => (Some(text), &[][..]),
            Self::List(list) => (None, list),
        };
        one.into_iter().chain(list.iter().map(AsRef::as_ref))
    }
}

impl<'a> From<&'a str> for Texts<'a> {
    fn from(text: &'a str) -> Self {
        Self::One(text)
    }
}

/// A text as it is, and a list as written in a file.
impl fmt::Display for Texts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = match self {
            Self::One(text) => return f.write_str(text),
            Self::List(list) => list,
        };
        f.write_str("[")?;
        for (index, text) in list.iter().enumerate() {
            write!(f, "{}{}", if index == 0 { "" } else { ", " }, Scalar(text))?;
        }
        f.write_str("]")
    }
}

impl<'a> Value<'a> {
    /// Returns the value of the attribute of this name.
    #[must_use]
    pub fn of(name: &str, texts: impl Into<Texts<'a>>) -> Self {
        let texts = texts.into();
        let is_head = name == "method" && texts.iter().any(|text| text == "HEAD");
        Self { texts, is_head, has_stand_in: false }
    }

    /// Returns the value that the attribute of this name has in the view.
    #[inline]
    pub(crate) fn in_view<V: View>(view: &V, name: &str, texts: Texts<'a>) -> Self {
        let has_stand_in = texts == Texts::One("") && view.counted_as(name).is_some();
        Self { has_stand_in, ..Self::of(name, texts) }
    }

    /// Returns the text by which it is counted.
    ///
    /// # Errors
    ///
    /// If the value counts as missing: it is empty or a list.
    pub fn counted(self) -> Result<&'a str, KeyFault> {
        match self.texts {
            Texts::List(_) => Err(KeyFault::List),
            Texts::One("") if !self.has_stand_in => Err(KeyFault::Empty),
            Texts::One(_) if self.is_head => Ok(GET),
            Texts::One(text) => Ok(text),
        }
    }

    /// Returns whether a key can use it. [`Test::Present`](crate::Test::Present) holds for such values alone.
    #[inline]
    pub(crate) fn is_present(self) -> bool {
        self.counted().is_ok()
    }

    /// Returns whether this holds for one of the [texts](Self::texts).
    #[inline]
    pub(crate) fn any(self, mut holds: impl FnMut(&'a str) -> bool) -> bool {
        let any = match self.texts {
            Texts::One(text) => holds(text),
            Texts::List(list) => list.iter().any(|text| holds(text)),
        };
        any || (self.is_head && holds(GET))
    }

    /// Returns the texts that it matches: its own and, for a HEAD, that of GET.
    pub(crate) fn texts(self) -> impl Iterator<Item = &'a str> {
        self.texts.iter().chain(self.is_head.then_some(GET))
    }
}
