//! How many attributes strangers may send, and of what form.

use std::borrow::Cow;

use thiserror::Error;
use tollgate_policy::{AttributeValue, Attributes};

/// More would make a small request expensive: names are compared with each other.
pub(crate) const MAX: usize = 64;
/// Texts in a list. Each is tested, so more would make a small request expensive.
pub(crate) const MAX_TEXTS: usize = 64;

/// Why an attribute is not taken. The caller's fault.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum AttributeError {
    #[error("more than {MAX} attributes")]
    TooMany,
    #[error("an attribute's name must have 1 to {} characters", Attributes::MAX_NAME)]
    NameLength,
    #[error("the attribute `{name}` is given twice")]
    Twice { name: Box<str> },
}

/// Adds what a caller says; each name once.
pub(crate) fn insert<'a>(
    attributes: &mut Attributes<'a>,
    name: Cow<'a, str>,
    value: impl Into<AttributeValue<'a>>,
) -> Result<(), AttributeError> {
    if !Attributes::is_name(&name) {
        return Err(AttributeError::NameLength);
    }
    if attributes.value(&name).is_some() {
        return Err(AttributeError::Twice { name: name.into() });
    }
    if attributes.len() == MAX {
        return Err(AttributeError::TooMany);
    }
    attributes.push(name, value);
    Ok(())
}

/// What a command line says: a name that is there several times has a list.
pub(crate) fn of_arguments(arguments: &[(String, String)]) -> Attributes<'_> {
    let mut attributes = Attributes::default();
    for (name, value) in arguments {
        let all: Vec<&str> =
            arguments.iter().filter(|(other, _)| other == name).map(|(_, value)| value.as_str()).collect();
        let value = if all.len() == 1 { AttributeValue::from(value.as_str()) } else { all.into() };
        if attributes.value(name).is_none() {
            attributes.push(name, value);
        }
    }
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_64_attributes_of_128_characters_and_no_more() {
        let mut attributes = Attributes::default();
        for index in 0..64 {
            let name = format!("{index:0>2}{}", "ä".repeat(126));
            insert(&mut attributes, name.into(), "").unwrap();
        }
        assert_eq!(insert(&mut attributes, "user".into(), ""), Err(AttributeError::TooMany));

        let mut attributes = Attributes::default();
        let mut add =
            |name: &str, value: &'static str| insert(&mut attributes, name.to_owned().into(), value);
        assert_eq!(add("", ""), Err(AttributeError::NameLength));
        assert_eq!(add(&"x".repeat(129), ""), Err(AttributeError::NameLength));
        add("user", "alice").unwrap();
        assert_eq!(add("user", "alice"), Err(AttributeError::Twice { name: "user".into() }));
    }
}
