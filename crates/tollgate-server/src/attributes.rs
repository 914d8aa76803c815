//! What a caller says of its request: names and values.

use std::borrow::Cow;

use smallvec::SmallVec;
use thiserror::Error;

/// Names and values, each name once; borrowed from the request where they stand there as they are.
///
/// There is no `Debug`: values often are persons or secrets.
#[derive(Default)]
pub(crate) struct Attributes<'a>(SmallVec<[(Cow<'a, str>, Cow<'a, str>); 2]>);

/// Why an attribute is not taken. The caller's fault.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum AttributeError {
    #[error("more than {} attributes", Attributes::MAX)]
    TooMany,
    #[error("an attribute's name must have 1 to {} characters", Attributes::MAX_NAME)]
    NameLength,
    #[error("the attribute `{name}` is given twice")]
    Twice { name: Box<str> },
}

impl<'a> Attributes<'a> {
    /// More would make a small request expensive: names are compared with each other.
    pub(crate) const MAX: usize = 64;

    /// Characters in a name, as JSON Schema counts them.
    pub(crate) const MAX_NAME: usize = 128;

    pub(crate) fn insert(&mut self, name: Cow<'a, str>, value: Cow<'a, str>) -> Result<(), AttributeError> {
        let too_long = name.len() > Self::MAX_NAME && name.chars().count() > Self::MAX_NAME;
        if name.is_empty() || too_long {
            return Err(AttributeError::NameLength);
        }
        if self.value(&name).is_some() {
            return Err(AttributeError::Twice { name: name.into() });
        }
        if self.0.len() == Self::MAX {
            return Err(AttributeError::TooMany);
        }
        self.0.push((name, value));
        Ok(())
    }

    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_ref())
    }

    /// All of them, by name, so that the order in which they were sent does not matter.
    pub(crate) fn sorted(&self) -> SmallVec<[(&str, &str); 2]> {
        let mut sorted: SmallVec<[(&str, &str); 2]> =
            self.0.iter().map(|(name, value)| (name.as_ref(), value.as_ref())).collect();
        sorted.sort_unstable();
        sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_64_attributes_of_128_characters_and_no_more() {
        let mut attributes = Attributes::default();
        for index in 0..64 {
            let name = format!("{index:0>2}{}", "ä".repeat(126));
            attributes.insert(name.into(), "".into()).unwrap();
        }
        assert_eq!(attributes.insert("user".into(), "".into()), Err(AttributeError::TooMany));

        let mut attributes = Attributes::default();
        assert_eq!(attributes.insert("".into(), "".into()), Err(AttributeError::NameLength));
        assert_eq!(attributes.insert("x".repeat(129).into(), "".into()), Err(AttributeError::NameLength));
        attributes.insert("user".into(), "alice".into()).unwrap();
        assert_eq!(
            attributes.insert("user".into(), "alice".into()),
            Err(AttributeError::Twice { name: "user".into() })
        );
    }
}
