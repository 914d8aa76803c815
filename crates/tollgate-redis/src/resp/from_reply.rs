//! Replies of an expected form.

use super::RespValue;

/// The form that a reply is expected to have: text, bytes, a number, several of these, or anything (`()`).
pub trait FromReply: Sized {
    /// `None` if the reply is something else.
    #[doc(hidden)]
    fn from_reply(value: RespValue) -> Option<Self>;
}

impl FromReply for () {
    fn from_reply(_: RespValue) -> Option<Self> {
        Some(())
    }
}

impl FromReply for Vec<u8> {
    fn from_reply(value: RespValue) -> Option<Self> {
        match value {
            RespValue::Bulk(bytes) => Some(bytes),
            RespValue::Simple(text) => Some(text.into_string().into_bytes()),
            _ => None,
        }
    }
}

impl FromReply for String {
    fn from_reply(value: RespValue) -> Option<Self> {
        Self::from_utf8(Vec::from_reply(value)?).ok()
    }
}

/// A number, also as digits.
impl FromReply for i64 {
    fn from_reply(value: RespValue) -> Option<Self> {
        match value {
            RespValue::Int(number) => Some(number),
            other => String::from_reply(other)?.parse().ok(),
        }
    }
}

impl FromReply for Vec<Vec<u8>> {
    fn from_reply(value: RespValue) -> Option<Self> {
        let RespValue::Array(values) = value else { return None };
        values.into_iter().map(FromReply::from_reply).collect()
    }
}

impl<T: FromReply, U: FromReply> FromReply for (T, U) {
    fn from_reply(value: RespValue) -> Option<Self> {
        let RespValue::Array(values) = value else { return None };
        let [first, second] = <[RespValue; 2]>::try_from(values).ok()?;
        Some((T::from_reply(first)?, U::from_reply(second)?))
    }
}
