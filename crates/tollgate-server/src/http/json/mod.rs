//! Reads JSON from clients: fast if it is valid, exact about the wrong field if it is not.

mod attributes;
mod fault;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Unexpected, Visitor};
use tollgate::{Quota, QuotaError};

pub(super) use self::attributes::{attributes, some_attributes};
use self::fault::{Fault, Node};

/// The error in a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadField {
    /// For example `attributes.user`; `body` for the whole body.
    pub(crate) field: String,
    pub(crate) detail: String,
}

/// Reads an object. Only an invalid body is read a second time, to find the fault.
///
/// # Errors
///
/// If the body is not JSON, or not the expected object.
pub(crate) fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, BadField> {
    serde_json::from_slice(body).map(|Object(value)| value).map_err(|error| wrong::<T>(body, &error))
}

/// Finds the error in a body that could not be read.
#[cold]
fn wrong<'a, T: Deserialize<'a>>(body: &[u8], error: &serde_json::Error) -> BadField {
    let of_body = |detail| BadField { field: "body".to_owned(), detail };
    if body.is_empty() {
        return of_body(format!("the body is empty; expected {}", expected::<T>()));
    }
    let no_json = |error: &serde_json::Error| of_body(format!("no JSON: {error}"));
    let node = match Node::deserialize(&mut serde_json::Deserializer::from_slice(body)) {
        Ok(node) => node,
        Err(error) => return no_json(&error),
    };
    match Object::<T>::deserialize(&node) {
        Err(Fault { path, detail }) if path.is_empty() => of_body(detail),
        Err(Fault { path, detail }) => BadField { field: path, detail },
        // The object is valid, but something follows it.
        Ok(_) => no_json(error),
    }
}

/// Returns the expected form by its first field: the one that an empty object lacks.
fn expected<'a, T: Deserialize<'a>>() -> &'static str {
    let missing = Object::<T>::deserialize(&Node::Fields(Vec::new())).err().map(|fault| fault.path);
    match missing.as_deref() {
        Some("attributes") => r#"{"attributes": {...}}"#,
        Some("requests") => r#"{"requests": [...]}"#,
        _ => "an object",
    }
}

/// Accepts only an object. The implementation that serde derives would also accept a list of the fields.
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(Fields(PhantomData))
    }
}

/// Reads an optional field, and refuses `null`.
pub(super) fn some<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// A string, borrowed if it has no escapes.
struct Text<'a>(Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Characters;

        impl<'de> Visitor<'de> for Characters {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(text.into()))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(text.to_owned().into()))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<Text<'de>, E> {
                Ok(Text(text.into()))
            }
        }

        deserializer.deserialize_str(Characters)
    }
}

/// A quota in its written form.
pub(super) fn quota<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Quota, D::Error> {
    let Text(text) = Text::deserialize(deserializer)?;
    // Without the text itself, which may be a misplaced secret.
    let why =
        |error: QuotaError| D::Error::custom(format_args!("expected a quota such as 5/1m: {}", error.kind()));
    text.parse().map_err(why)
}

/// A whole number from 0 to `MAX`. As in JSON Schema, `2.0` is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Whole<const MAX: u64>(u64);

/// Units to charge.
pub(super) type Cost = Whole<{ u32::MAX as u64 }>;
/// Units in use.
pub(super) type Used = Whole<{ Quota::MAX_LIMIT }>;
/// When a window starts, in Unix milliseconds, within the whole numbers that every JSON reader keeps exact.
pub(super) type StartMillis = Whole<{ (1 << 53) - 1 }>;
/// A version of the policies.
pub(super) type Version = Whole<{ (1 << 53) - 1 }>;

impl<const MAX: u64> Whole<MAX> {
    pub(super) fn new(value: u64) -> Option<Self> {
        (value <= MAX).then_some(Self(value))
    }

    pub(super) fn value(self) -> u64 {
        self.0
    }
}

impl Cost {
    pub(super) fn units(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }
}

/// The cost of a request that names none.
impl Default for Cost {
    fn default() -> Self {
        Self(1)
    }
}

impl<'de, const MAX: u64> Deserialize<'de> for Whole<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Number<const MAX: u64>;

        impl<const MAX: u64> Visitor<'_> for Number<MAX> {
            type Value = Whole<MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a whole number from 0 to {MAX}")
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Whole<MAX>, E> {
                Whole::new(value).ok_or_else(|| E::invalid_value(Unexpected::Unsigned(value), &self))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Whole<MAX>, E> {
                // The bounds keep the conversion exact.
                let whole = value.fract() == 0.0 && value >= 0.0 && value <= MAX as f64;
                let value = if whole { Whole::new(value as u64) } else { None };
                value.ok_or_else(|| E::invalid_type(Unexpected::Other("number"), &self))
            }
        }

        deserializer.deserialize_u64(Number)
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::{BatchRequest, CheckRequest};
    use super::*;

    #[track_caller]
    fn wrong(body: &str, field: &str, detail: &str) {
        let found = read::<CheckRequest<'_>>(body.as_bytes()).map(drop).unwrap_err();
        assert_eq!((found.field.as_str(), found.detail.as_str()), (field, detail), "{body}");
    }

    #[test]
    fn names_the_field_that_is_wrong() {
        let cost = "expected a whole number from 0 to 4294967295";
        for number in ["-1", "4294967296", "1.5", "1e300", "\"2\"", "null", "true", "[1]", "-1.0"] {
            wrong(&format!(r#"{{"attributes": {{"user": "alice"}}, "cost": {number}}}"#), "cost", cost);
        }
        wrong(
            r#"{"attributes": {"user": 7}}"#,
            "attributes.user",
            "expected a string, a boolean or a list of strings",
        );
        wrong(
            r#"{"attributes": {"user": null}}"#,
            "attributes.user",
            "expected a string, a boolean or a list of strings",
        );
        wrong(r#"{"attributes": {"roles": ["a", true]}}"#, "attributes.roles[1]", "expected a string");
        let long = format!(r#"{{"attributes": {{"roles": [{}]}}}}"#, vec![r#""a""#; 65].join(", "));
        wrong(&long, "attributes.roles", "more than 64 strings");
        for secret in ["secret", "secret at line 1", "secret, expected secret"] {
            let body = format!(r#"{{"attributes": "{secret}"}}"#);
            wrong(&body, "attributes", "expected an object of strings, lists of strings and booleans");
        }
        wrong(r#"{"cost": 1}"#, "attributes", "missing field `attributes`");
        wrong(r#"[{"user": "alice"}, 1]"#, "body", "expected an object");
        wrong(
            r#"{"attributes": {}, "costs": 1}"#,
            "costs",
            "unknown field `costs`, expected `attributes` or `cost` or `receipt` or `policy` or `quotas`",
        );
        wrong(r#"{"attributes": {"a": "1", "a": "2"}}"#, "attributes", "the attribute `a` is given twice");
    }

    #[test]
    fn names_the_request_of_a_batch() {
        let body = br#"{"requests": [{"attributes": {"user": "alice"}}, {"attributes": {"user": [7]}}]}"#;
        let found = read::<BatchRequest<'_>>(body).map(drop).unwrap_err();
        assert_eq!(found.field, "requests[1].attributes.user[0]");
    }

    #[test]
    fn says_where_it_is_no_json() {
        for body in ["{", "nonsense", "{\"attributes\": {\"user\": \"\\ud800\"}}", "\u{1}", " "] {
            let found = read::<CheckRequest<'_>>(body.as_bytes()).map(drop).unwrap_err();
            assert_eq!(found.field, "body", "{body}: {found:?}");
            assert!(found.detail.starts_with("no JSON: "), "{body}: {found:?}");
        }
        // The rest of the text does not matter until the object is valid.
        wrong("{}}", "attributes", "missing field `attributes`");
        wrong("", "body", r#"the body is empty; expected {"attributes": {...}}"#);
        let batch = read::<BatchRequest<'_>>(b"").map(drop).unwrap_err();
        assert_eq!(batch.detail, r#"the body is empty; expected {"requests": [...]}"#);
    }

    #[test]
    fn a_whole_number_may_be_written_with_a_fraction_of_zero() {
        let request = read::<CheckRequest<'_>>(br#"{"attributes": {"user": "alice"}, "cost": 2.0}"#);
        assert_eq!(request.map(|request| request.cost.units()), Ok(2));
    }
}
