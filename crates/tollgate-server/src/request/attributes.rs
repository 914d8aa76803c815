//! Limits on the number and the form of attributes.

use std::borrow::Cow;

use thiserror::Error;
use tollgate_policy::{AttributeValue, Attributes};

/// More would make a small request expensive: names are compared with each other.
pub(crate) const MAX: usize = 64;
/// Texts in a list. Each is tested, so more would make a small request expensive.
pub(crate) const MAX_TEXTS: usize = 64;

/// Why an attribute is refused; the caller's fault.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum RefusedAttribute {
    #[error("more than {MAX} attributes")]
    TooMany,
    #[error("an attribute's name must have 1 to {} characters", Attributes::MAX_NAME)]
    NameLength,
    #[error("the attribute `{name}` is given twice")]
    Twice { name: Box<str> },
}

/// Attributes while they are read: each name once.
#[derive(Default)]
pub(crate) struct GivenAttributes<'a> {
    attributes: Attributes<'a>,
    /// The names of empty lists, which count as no value.
    empty: Vec<Cow<'a, str>>,
}

impl<'a> GivenAttributes<'a> {
    pub(crate) fn insert(
        &mut self,
        name: Cow<'a, str>,
        value: impl Into<AttributeValue<'a>>,
    ) -> Result<(), RefusedAttribute> {
        if !Attributes::is_name(&name) {
            return Err(RefusedAttribute::NameLength);
        }
        if self.attributes.value(&name).is_some() || self.empty.contains(&name) {
            return Err(RefusedAttribute::Twice { name: name.into() });
        }
        if self.attributes.len() + self.empty.len() == MAX {
            return Err(RefusedAttribute::TooMany);
        }
        match value.into() {
            AttributeValue::List(texts) if texts.is_empty() => self.empty.push(name),
            value => self.attributes.push(name, value),
        }
        Ok(())
    }

    /// Returns the attributes for a gateway that admits calls that fail: empty values are counted by a digest as well
    /// as long ones.
    pub(crate) fn into_counted_attributes(self, max_bytes: usize) -> Attributes<'a> {
        let stand_in = |text: &str| match text {
            "" => Some(tollgate_envoy::digest(text)),
            text => tollgate_envoy::stand_in(text, max_bytes),
        };
        with_stand_ins(self.attributes, stand_in)
    }

    pub(crate) fn into_attributes(self) -> Attributes<'a> {
        self.attributes
    }
}

/// Returns the attributes for a caller whose clients choose how long values are: long ones are counted by a digest.
pub(crate) fn of_any_length(attributes: Attributes<'_>, max_bytes: usize) -> Attributes<'_> {
    with_stand_ins(attributes, |text| tollgate_envoy::stand_in(text, max_bytes))
}

/// Counts each value by its stand-in, if it has one. It is made from the value as policies read it, so all spellings of
/// a path have one.
fn with_stand_ins<'a>(
    mut attributes: Attributes<'a>,
    stand_in: impl Fn(&str) -> Option<String>,
) -> Attributes<'a> {
    let stand_ins = attributes
        .iter()
        .filter_map(|(name, texts)| Some((name.to_owned(), texts.iter().find_map(&stand_in)?)));
    let stand_ins: Vec<(String, String)> = stand_ins.collect();
    stand_ins.into_iter().for_each(|(name, stand_in)| attributes.count_as(name, stand_in));
    attributes.of_any_length()
}

/// Reads the attributes of a command line: a repeated name makes a list.
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
        let mut given = GivenAttributes::default();
        for index in 0..64 {
            let name = format!("{index:0>2}{}", "ä".repeat(126));
            given.insert(name.into(), "").unwrap();
        }
        assert_eq!(given.insert("user".into(), ""), Err(RefusedAttribute::TooMany));

        let mut given = GivenAttributes::default();
        let mut add = |name: &str, value: &'static str| given.insert(name.to_owned().into(), value);
        assert_eq!(add("", ""), Err(RefusedAttribute::NameLength));
        assert_eq!(add(&"x".repeat(129), ""), Err(RefusedAttribute::NameLength));
        add("user", "alice").unwrap();
        assert_eq!(add("user", "alice"), Err(RefusedAttribute::Twice { name: "user".into() }));
    }

    /// An empty list counts as no value, so its name could be repeated without a limit.
    #[test]
    fn a_name_with_an_empty_list_is_given() {
        let empty = || AttributeValue::from(Vec::<String>::new());
        let mut given = GivenAttributes::default();
        given.insert("roles".into(), empty()).unwrap();
        let twice = Err(RefusedAttribute::Twice { name: "roles".into() });
        assert_eq!(given.insert("roles".into(), "admin"), twice);
        assert_eq!(given.insert("roles".into(), empty()), twice);
        for index in 1..64 {
            given.insert(format!("{index}").into(), empty()).unwrap();
        }
        assert_eq!(given.insert("user".into(), ""), Err(RefusedAttribute::TooMany));
        assert!(given.into_attributes().is_empty());
    }
}
