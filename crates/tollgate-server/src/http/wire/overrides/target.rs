//! The requests that an override is for, as a caller writes them.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use tollgate_policy::{Attributes, OverrideTarget, TargetValue};

use crate::request::attributes::{self, RefusedAttribute};
use crate::request::json::Text;

/// All attributes of one key: `{"user": "alice"}`. Or one attribute with a whole text or the beginning of one:
/// `{"tenant": {"is": "acme"}}`, `{"tenant": {"prefix": "acme-"}}`.
#[derive(Default)]
pub(in crate::http) struct TargetAttributes<'a>(Vec<(Cow<'a, str>, TargetText<'a>)>);

/// The value of an attribute.
enum TargetText<'a> {
    /// A part of the key.
    Key(Cow<'a, str>),
    Whole(Cow<'a, str>),
    Prefix(Cow<'a, str>),
}

impl TargetAttributes<'_> {
    /// Returns the names and values, in the order of the request.
    pub(in crate::http) fn pairs(&self) -> Vec<(&str, TargetValue<'_>)> {
        let pairs = self.0.iter().map(|(name, value)| {
            let value = match value {
                TargetText::Key(text) => TargetValue::Key(text),
                TargetText::Whole(text) => TargetValue::Whole(text),
                TargetText::Prefix(text) => TargetValue::Prefix(text),
            };
            (&**name, value)
        });
        pairs.collect()
    }

    /// Returns whether it compares texts, and names no key.
    pub(in crate::http) fn is_compared(&self) -> bool {
        self.0.iter().any(|(_, value)| !matches!(value, TargetText::Key(_)))
    }

    /// Checks that another attribute of this name can follow.
    fn expect_new(&self, name: &str) -> Result<(), RefusedAttribute> {
        if !Attributes::is_name(name) {
            return Err(RefusedAttribute::NameLength);
        }
        if self.0.iter().any(|(given, _)| given == name) {
            return Err(RefusedAttribute::Twice { name: name.into() });
        }
        if self.0.len() == attributes::MAX {
            return Err(RefusedAttribute::TooMany);
        }
        Ok(())
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for TargetAttributes<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs<'a>(PhantomData<&'a str>);

        impl<'de: 'a, 'a> Visitor<'de> for Pairs<'a> {
            type Value = TargetAttributes<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object: the attributes of one key, or one attribute with `is` or `prefix`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TargetAttributes<'a>, A::Error> {
                let mut given = TargetAttributes::default();
                while let Some(Text(name)) = map.next_key()? {
                    given.expect_new(&name).map_err(A::Error::custom)?;
                    let value = map.next_value()?;
                    given.0.push((name, value));
                }
                Ok(given)
            }
        }

        deserializer.deserialize_map(Pairs(PhantomData))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for TargetText<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Value<'a>(PhantomData<&'a str>);

        impl<'de: 'a, 'a> Visitor<'de> for Value<'a> {
            type Value = TargetText<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a boolean, or an object with `is` or `prefix`")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<TargetText<'a>, E> {
                whole_key(text.into())
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<TargetText<'a>, E> {
                whole_key(text.to_owned().into())
            }

            fn visit_string<E: Error>(self, text: String) -> Result<TargetText<'a>, E> {
                whole_key(text.into())
            }

            fn visit_bool<E: Error>(self, is_true: bool) -> Result<TargetText<'a>, E> {
                whole_key(if is_true { "true" } else { "false" }.into())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<TargetText<'a>, A::Error> {
                let either = || A::Error::custom("expected either `is` or `prefix`");
                let Some(Text(form)) = map.next_key()? else { return Err(either()) };
                let make: fn(Cow<'a, str>) -> TargetText<'a> = match &*form {
                    "is" => TargetText::Whole,
                    "prefix" => TargetText::Prefix,
                    _ => return Err(either()),
                };
                let Text(text) = map.next_value()?;
                if map.next_key::<Text<'_>>()?.is_some() {
                    return Err(either());
                }
                if !OverrideTarget::is_text(&text) {
                    let max = OverrideTarget::MAX_TEXT;
                    return Err(A::Error::custom(format_args!("expected a text of 1 to {max} bytes")));
                }
                Ok(make(text))
            }
        }

        fn whole_key<'a, E: Error>(text: Cow<'a, str>) -> Result<TargetText<'a>, E> {
            // A check with an empty value has no key.
            if text.is_empty() {
                return Err(E::custom("an empty value is no key"));
            }
            Ok(TargetText::Key(text))
        }

        deserializer.deserialize_any(Value(PhantomData))
    }
}

impl JsonSchema for TargetAttributes<'_> {
    fn schema_name() -> Cow<'static, str> {
        "OverrideAttributes".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let text = json_schema!({ "type": "string", "minLength": 1, "maxLength": OverrideTarget::MAX_TEXT });
        let compared = |form: &str| {
            json_schema!({
                "type": "object",
                "properties": { form: text },
                "required": [form],
                "additionalProperties": false,
            })
        };
        json_schema!({
            "type": "object",
            "description": "The requests that it is for: all attributes of one key of the policy, such as `{\"user\": \
             \"alice\"}`; or one attribute with a whole text, `{\"tenant\": {\"is\": \"acme\"}}`, or with the beginning of \
             one, `{\"tenant\": {\"prefix\": \"acme-\"}}`. Texts of `is` and `prefix` are stored as they are, keys only \
             as digests",
            "additionalProperties": { "anyOf": [
                { "type": "string", "minLength": 1 },
                { "type": "boolean" },
                compared("is"),
                compared("prefix"),
            ] },
            "propertyNames": { "minLength": 1, "maxLength": Attributes::MAX_NAME },
            "maxProperties": attributes::MAX,
        })
    }
}
