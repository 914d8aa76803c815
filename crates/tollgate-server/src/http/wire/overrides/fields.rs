//! The fields of a request about an override, each read and checked.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};
use tollgate::Timestamp;
use tollgate_policy::{OverrideLimits, OverrideName, Policy};

use crate::http::wire::counts::BlockLength;
use crate::http::wire::requests::GivenLimit;
use crate::request::json::Text;

/// Defines a text with its own check. Errors never repeat the text, which may be a misplaced secret.
macro_rules! text {
    ($(#[$doc:meta])* $name:ident($value:ty), $read:expr, $expected:expr, $schema:expr) => {
        $(#[$doc])*
        pub(in crate::http) struct $name(pub(in crate::http) $value);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let Text(text) = Text::deserialize(deserializer)?;
                let read: fn(&str) -> Option<$value> = $read;
                read(&text).map(Self).ok_or_else(|| D::Error::custom($expected))
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

text!(
    /// The name of a policy.
    PolicyName(Box<str>),
    |text| Policy::is_name(text).then(|| text.into()),
    "expected the name of a policy: 1 to 64 letters, digits, `-`, `_` and `.`",
    json_schema!({ "type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$" })
);
text!(
    /// The id of an override.
    OverrideId(OverrideName),
    |text| text.parse().ok(),
    "expected the id of an override, as the list of overrides has it",
    json_schema!({ "type": "string", "examples": ["search:=xXvTxt0caa3R8GNSS22skw", "search:tenant^acme-"] })
);
text!(
    /// When an override ends.
    EndTime(Timestamp),
    |text| {
        let time: jiff::Timestamp = text.parse().ok()?;
        // A finer time would be rounded, and overrides end at exact milliseconds.
        let is_whole = time.subsec_nanosecond() % 1_000_000 == 0;
        is_whole.then(|| Timestamp::from_unix_millis(time.as_millisecond()))
    },
    "expected a time with its offset, in whole milliseconds, such as 2027-01-01T00:00:00Z",
    json_schema!({ "type": "string", "format": "date-time" })
);
text!(
    /// A label.
    Label(Box<str>),
    |text| {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        ((1..=MAX_LABEL).contains(&text.len()) && text.bytes().all(is_allowed)).then(|| text.into())
    },
    "expected 1 to 64 letters, digits, `-`, `_` and `.`",
    json_schema!({ "type": "string", "pattern": "^[A-Za-z0-9_.-]{1,64}$" })
);
text!(
    /// A note.
    Note(Box<str>),
    |text| {
        // Characters that control a terminal have no place in a text that is printed there.
        let is_text = (1..=MAX_NOTE).contains(&text.chars().count()) && !text.chars().any(char::is_control);
        is_text.then(|| text.into())
    },
    "expected 1 to 200 characters, none of which is a control character",
    json_schema!({ "type": "string", "minLength": 1, "maxLength": MAX_NOTE })
);

const MAX_LABEL: usize = 64;

/// Characters of a note.
const MAX_NOTE: usize = 200;

/// Limits of one override.
const MAX_LIMITS: usize = 16;

/// How long an override lives.
pub(in crate::http) struct LifeLength(pub(in crate::http) Duration);

impl<'de> Deserialize<'de> for LifeLength {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let length = BlockLength::deserialize(deserializer);
        length
            .map(|BlockLength(length)| Self(length))
            .map_err(|_| D::Error::custom("expected a length of 1ms to 3653d, such as 2h"))
    }
}

impl JsonSchema for LifeLength {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "LifeLength".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["30m", "2h", "7d"] })
    }
}

/// What replaces a policy's limits.
pub(in crate::http) struct GivenLimits(pub(in crate::http) OverrideLimits);

impl<'de> Deserialize<'de> for GivenLimits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Limits<'a>(PhantomData<&'a str>);

        impl<'de> Visitor<'de> for Limits<'de> {
            type Value = GivenLimits;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of limits such as [\"500/1m\"], or \"unlimited\", or \"denied\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<GivenLimits, E> {
                match text {
                    "unlimited" => Ok(GivenLimits(OverrideLimits::Unlimited)),
                    "denied" => Ok(GivenLimits(OverrideLimits::Denied)),
                    _ => Err(E::custom(format_args!("expected {}", &self as &dyn serde::de::Expected))),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<GivenLimits, A::Error> {
                let mut limits: Vec<Box<str>> = Vec::new();
                while let Some(limit) = list.next_element()? {
                    if limits.len() == MAX_LIMITS {
                        return Err(A::Error::custom(format_args!("more than {MAX_LIMITS} limits")));
                    }
                    // In one form, however they were written.
                    limits.push(match limit {
                        GivenLimit::Quota(quota) => quota.to_string().into(),
                        GivenLimit::InFlight(limit) => limit.to_string().into(),
                    });
                }
                if limits.is_empty() {
                    let detail =
                        "expected at least one limit; without limits, it is \"unlimited\" or \"denied\"";
                    return Err(A::Error::custom(detail));
                }
                Ok(GivenLimits(OverrideLimits::Limits(limits.into())))
            }
        }

        deserializer.deserialize_any(Limits(PhantomData))
    }
}

impl JsonSchema for GivenLimits {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "OverrideLimits".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [
            { "type": "array", "items": { "type": "string" }, "minItems": 1, "maxItems": MAX_LIMITS },
            { "type": "string", "enum": ["unlimited", "denied"] },
        ] })
    }
}
