//! Attributes of a request, as JSON.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use tollgate_policy::{AttributeValue, Attributes};

use super::Text;
use crate::request::attributes::{self, GivenAttributes};

/// Reads names and values, each name once.
pub(crate) fn attributes<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Attributes<'a>, D::Error> {
    struct Pairs<'a>(PhantomData<&'a str>);

    impl<'de: 'a, 'a> Visitor<'de> for Pairs<'a> {
        type Value = Attributes<'a>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of strings, lists of strings and booleans")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Attributes<'a>, A::Error> {
            let mut given = GivenAttributes::default();
            while let Some(Text(name)) = map.next_key()? {
                let Attribute(value) = map.next_value()?;
                given.insert(name, value).map_err(A::Error::custom)?;
            }
            Ok(given.into_attributes())
        }
    }

    deserializer.deserialize_map(Pairs(PhantomData))
}

/// Reads names and values that may be missing, and refuses `null`.
pub(crate) fn some_attributes<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Attributes<'a>>, D::Error> {
    attributes(deserializer).map(Some)
}

/// A string, a boolean or a list of strings.
struct Attribute<'a>(AttributeValue<'a>);

impl<'de> Deserialize<'de> for Attribute<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Texts;

        impl<'de> Visitor<'de> for Texts {
            type Value = Attribute<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string, a boolean or a list of strings")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Attribute<'de>, E> {
                Ok(Attribute(text.into()))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Attribute<'de>, E> {
                Ok(Attribute(text.to_owned().into()))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<Attribute<'de>, E> {
                Ok(Attribute(text.into()))
            }

            fn visit_bool<E: Error>(self, is_true: bool) -> Result<Attribute<'de>, E> {
                Ok(Attribute(if is_true { "true" } else { "false" }.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Attribute<'de>, A::Error> {
                let mut texts: Vec<Box<str>> = Vec::new();
                while let Some(Text(text)) = list.next_element()? {
                    if texts.len() == attributes::MAX_TEXTS {
                        return Err(A::Error::custom(format_args!(
                            "more than {} strings",
                            attributes::MAX_TEXTS
                        )));
                    }
                    texts.push(text.into());
                }
                Ok(Attribute(texts.into()))
            }
        }

        deserializer.deserialize_any(Texts)
    }
}
