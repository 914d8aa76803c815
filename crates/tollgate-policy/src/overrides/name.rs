//! The names of overrides.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::OverrideKey;
use crate::{Attributes, Policy};

/// The name of an override: its policy, and the requests that it is for. There is one override of a name at most.
///
/// It is displayed as its id: `search:=xXvTxt0caa3R8GNSS22skw` for a key, `search:tenant=acme` for a whole text, and
/// `search:tenant^acme-` for a prefix. Different names have different ids.
///
/// # Examples
///
/// ```
/// use tollgate_policy::{OverrideName, OverrideTarget};
///
/// let name = OverrideName {
///     policy: "search".into(),
///     target: OverrideTarget::Attribute { attribute: "tenant".into(), text: "a/b c".into(), is_whole: false },
/// };
/// assert_eq!(name.to_string(), "search:tenant^a/b%20c");
/// assert_eq!(name.to_string().parse(), Ok(name));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OverrideName {
    /// The policy.
    pub policy: Box<str>,
    /// Its requests.
    pub target: OverrideTarget,
}

/// The requests of a policy that an override is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OverrideTarget {
    /// Those with this key.
    Key(OverrideKey),
    /// Those in which a text of this attribute is the text, or begins with it.
    Attribute {
        /// The attribute.
        attribute: Box<str>,
        /// The text, of 1 to [`MAX_TEXT`](OverrideTarget::MAX_TEXT) bytes.
        text: Box<str>,
        /// Whether it is the whole text, and not its beginning.
        is_whole: bool,
    },
}

/// A text that is not the id of an override. The fault of its author.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error(
    "the id of an override is `POLICY:=KEY` with a digest of 22 characters, `POLICY:ATTRIBUTE=TEXT` or \
     `POLICY:ATTRIBUTE^PREFIX`, as the list of overrides has it"
)]
pub struct OverrideNameError;

impl OverrideTarget {
    /// Bytes of a text, at most.
    pub const MAX_TEXT: usize = 256;

    /// Returns whether a target can have this text.
    #[must_use]
    pub const fn is_text(text: &str) -> bool {
        !text.is_empty() && text.len() <= Self::MAX_TEXT
    }
}

/// Keys come first, then attributes by their names: whole texts before prefixes.
impl Ord for OverrideTarget {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Key(one), Self::Key(other)) => one.cmp(other),
            (Self::Key(_), Self::Attribute { .. }) => Ordering::Less,
            (Self::Attribute { .. }, Self::Key(_)) => Ordering::Greater,
            (
                Self::Attribute { attribute, text, is_whole },
                Self::Attribute { attribute: other, text: other_text, is_whole: other_is_whole },
            ) => {
                let by_form = || other_is_whole.cmp(is_whole);
                attribute.cmp(other).then_with(by_form).then_with(|| text.cmp(other_text))
            }
        }
    }
}

impl PartialOrd for OverrideTarget {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for OverrideName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.policy, self.target)
    }
}

/// The id without the policy.
impl fmt::Display for OverrideTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(key) => write!(f, "={key}"),
            Self::Attribute { attribute, text, is_whole } => {
                write!(
                    f,
                    "{}{}{}",
                    EscapedText(attribute),
                    if *is_whole { '=' } else { '^' },
                    EscapedText(text)
                )
            }
        }
    }
}

impl FromStr for OverrideName {
    type Err = OverrideNameError;

    fn from_str(id: &str) -> Result<Self, OverrideNameError> {
        let (policy, target) = id.split_once(':').ok_or(OverrideNameError)?;
        if !Policy::is_name(policy) {
            return Err(OverrideNameError);
        }
        let target: OverrideTarget = target.parse()?;
        // An id can be written in one way only. A digest has one text.
        if matches!(target, OverrideTarget::Attribute { .. }) && format!("{policy}:{target}") != id {
            return Err(OverrideNameError);
        }
        Ok(Self { policy: policy.into(), target })
    }
}

impl FromStr for OverrideTarget {
    type Err = OverrideNameError;

    fn from_str(id: &str) -> Result<Self, OverrideNameError> {
        if let Some(key) = id.strip_prefix('=') {
            return key.parse().map(Self::Key);
        }
        // Attribute and text have neither of the two: they are escaped.
        let place = id.find(['=', '^']).ok_or(OverrideNameError)?;
        let (attribute, text) = id.split_at_checked(place).ok_or(OverrideNameError)?;
        let is_whole = text.starts_with('=');
        let (attribute, text) = (unescaped(attribute)?, unescaped(text.get(1..).unwrap_or_default())?);
        if !Attributes::is_name(&attribute) || !Self::is_text(&text) {
            return Err(OverrideNameError);
        }
        Ok(Self::Attribute { attribute, text, is_whole })
    }
}

/// A text with `%` and two digits in place of the bytes that would be hard to read, to type or to tell from the rest.
struct EscapedText<'a>(&'a str);

const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~' | b'/' | b'@' | b'+')
}

impl fmt::Display for EscapedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.0.bytes() {
            match is_plain(byte) {
                true => write!(f, "{}", char::from(byte))?,
                false => write!(f, "%{byte:02X}")?,
            }
        }
        Ok(())
    }
}

fn unescaped(text: &str) -> Result<Box<str>, OverrideNameError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let byte = match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                let (high, low) = (digit(), digit());
                high.zip(low).map(|(high, low)| (high * 16 + low) as u8).ok_or(OverrideNameError)?
            }
            byte if is_plain(byte) => byte,
            _ => return Err(OverrideNameError),
        };
        bytes.push(byte);
    }
    String::from_utf8(bytes).map(String::into_boxed_str).map_err(|_| OverrideNameError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_written_in_one_way_only() {
        for id in [
            "search:=AAAAAAAAAAAAAAAAAAAAAA",
            "search:tenant=acme",
            "search:tenant^acme-",
            "s.e_a-r:header.x%3Dy^%5E%3D%3A%25",
            "search:t%C3%A9=%20",
        ] {
            let name: OverrideName = id.parse().unwrap();
            assert_eq!(name.to_string(), id);
        }
        for id in [
            "",
            "search",
            "search:",
            "search:=",
            "search:=AAAAAAAAAAAAAAAAAAAAAB",
            "search:^acme",
            "search:tenant",
            "search:tenant=",
            "search:tenant=a=b",
            "search:tenant=a b",
            "search:tenant=a%2fb",
            "search:tenant=%2Fb",
            "search:tenant=%61",
            "search:tenant=%FF",
            "search:tenant=%",
            "search:tenant=%4",
            "a:caller:tenant=a",
            ":tenant=a",
        ] {
            assert_eq!(id.parse::<OverrideName>(), Err(OverrideNameError), "{id}");
        }
        let long = format!("search:tenant={}", "a".repeat(OverrideTarget::MAX_TEXT + 1));
        assert_eq!(long.parse::<OverrideName>(), Err(OverrideNameError));
    }
}
