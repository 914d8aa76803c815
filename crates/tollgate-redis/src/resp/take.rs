//! Replies of an expected form.

use super::Value;

/// Something that a reply is expected to be.
pub(crate) trait Take: Sized {
    /// `None` if the reply is something else.
    fn take(value: Value) -> Option<Self>;
}

impl Take for Value {
    fn take(value: Value) -> Option<Self> {
        Some(value)
    }
}

impl Take for Vec<u8> {
    fn take(value: Value) -> Option<Self> {
        match value {
            Value::Bulk(bytes) => Some(bytes),
            Value::Simple(text) => Some(text.into_string().into_bytes()),
            _ => None,
        }
    }
}

impl Take for String {
    fn take(value: Value) -> Option<Self> {
        Self::from_utf8(Vec::take(value)?).ok()
    }
}

/// A number, also as digits.
impl Take for i64 {
    fn take(value: Value) -> Option<Self> {
        match value {
            Value::Int(number) => Some(number),
            other => String::take(other)?.parse().ok(),
        }
    }
}

impl Take for Vec<Vec<u8>> {
    fn take(value: Value) -> Option<Self> {
        let Value::Array(values) = value else { return None };
        values.into_iter().map(Take::take).collect()
    }
}

impl<T: Take, U: Take> Take for (T, U) {
    fn take(value: Value) -> Option<Self> {
        let Value::Array(values) = value else { return None };
        let [first, second] = <[Value; 2]>::try_from(values).ok()?;
        Some((T::take(first)?, U::take(second)?))
    }
}
