//! Reads JSON from clients: fast if it is valid, exact about the wrong field if it is not.

mod attributes;
mod fault;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Unexpected, Visitor};
use tollgate::{Quota, QuotaError};

pub(crate) use self::attributes::{attributes, some_attributes};
use self::fault::Fault;

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
fn wrong<'a, T: Deserialize<'a>>(body: &'a [u8], error: &serde_json::Error) -> BadField {
    let bad_body = |detail| BadField { field: "body".to_owned(), detail };
    if body.is_empty() {
        return bad_body(format!("the body is empty; expected {}", expected::<T>()));
    }
    match fault::find::<Object<T>>(body) {
        Some(Fault::Field { path, detail }) if path.is_empty() => bad_body(detail),
        Some(Fault::Field { path, detail }) => BadField { field: path, detail },
        Some(Fault::Syntax(error)) => bad_body(format!("no JSON: {error}")),
        // The object is valid, but something follows it.
        None => bad_body(format!("no JSON: {error}")),
    }
}

/// Returns the expected form by its first field: the one that an empty object lacks. Where a talker can be named instead
/// of attributes, it may lack another one, or none.
fn expected<'a, T: Deserialize<'a>>() -> &'static str {
    match fault::find::<Object<T>>(b"{}") {
        None => r#"{"attributes": {...}}"#,
        Some(Fault::Field { path, .. }) if matches!(&*path, "attributes" | "used" | "version") => {
            r#"{"attributes": {...}}"#
        }
        Some(Fault::Field { path, .. }) if path == "requests" => r#"{"requests": [...]}"#,
        Some(Fault::Field { path, .. }) if path == "hold" => r#"{"hold": "..."}"#,
        _ => "an object",
    }
}

/// Accepts only an object. The implementation that serde derives would also accept a list of the fields.
pub(crate) struct Object<T>(pub(crate) T);

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
pub(crate) fn some<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// A string, borrowed if it has no escapes.
pub(crate) struct Text<'a>(pub(crate) Cow<'a, str>);

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
pub(crate) fn quota<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Quota, D::Error> {
    let Text(text) = Text::deserialize(deserializer)?;
    text.parse().map_err(not_a_quota)
}

/// Explains why a text is no quota, without the text itself, which may be a misplaced secret.
pub(crate) fn not_a_quota<E: Error>(error: QuotaError) -> E {
    E::custom(format_args!("expected a quota such as 5/1m: {}", error.kind()))
}

/// A whole number from 0 to `MAX`. As in JSON Schema, `2.0` is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Whole<const MAX: u64>(u64);

/// Units to charge.
pub(crate) type CostUnits = Whole<{ u32::MAX as u64 }>;
/// Units in use.
pub(crate) type UsedUnits = Whole<{ Quota::MAX_LIMIT }>;
/// When a window starts, or another mark of a charge, in Unix milliseconds, within the whole numbers that every JSON reader keeps exact.
pub(crate) type StartMillis = Whole<{ (1 << 53) - 1 }>;
/// How far a clock is moved: at most a hundred years.
pub(crate) type AdvanceMillis = Whole<{ 100 * 366 * 86_400_000 }>;
/// A version of the policies.
pub(crate) type Version = Whole<{ (1 << 53) - 1 }>;

impl<const MAX: u64> Whole<MAX> {
    pub(crate) fn new(value: u64) -> Option<Self> {
        (value <= MAX).then_some(Self(value))
    }

    pub(crate) fn value(self) -> u64 {
        self.0
    }
}

impl CostUnits {
    pub(crate) fn units(self) -> u32 {
        u32::try_from(self.0).unwrap_or(u32::MAX)
    }
}

/// The cost of a request that names none.
impl Default for CostUnits {
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
