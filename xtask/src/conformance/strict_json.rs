//! JSON in which no object has a field twice.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Reads one value. An error says what is wrong with the text.
pub(super) fn read(text: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(text).map(|StrictValue(value)| value).map_err(|error| error.to_string())
}

struct StrictValue(Value);

impl<'de> Deserialize<'de> for StrictValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = StrictValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<StrictValue, E> {
        Ok(StrictValue(Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<StrictValue, E> {
        Ok(StrictValue(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<StrictValue, E> {
        Ok(StrictValue(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<StrictValue, E> {
        Ok(StrictValue(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<StrictValue, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("a number that is not finite"))?;
        Ok(StrictValue(number.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<StrictValue, E> {
        Ok(StrictValue(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<StrictValue, A::Error> {
        let mut list = Vec::new();
        while let Some(StrictValue(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(StrictValue(list.into()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<StrictValue, A::Error> {
        let mut object = Map::new();
        while let Some((name, StrictValue(value))) = fields.next_entry::<String, _>()? {
            if object.contains_key(&name) {
                return Err(A::Error::custom(format!("the field `{name}` stands twice")));
            }
            object.insert(name, value);
        }
        Ok(StrictValue(object.into()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn reads_what_json_has() {
        let text = br#"{"a": [1, -1, 1.5, "\u00e4", true, null], "b": {"c": 1099511627775}}"#;
        assert_eq!(
            read(text).unwrap(),
            json!({"a": [1, -1, 1.5, "ä", true, null], "b": {"c": (1_u64 << 40) - 1}})
        );
    }

    #[test]
    fn refuses_a_field_that_stands_twice() {
        let error = read(br#"{"attributes": {"user": "a", "user": "b"}}"#).unwrap_err();
        assert!(error.starts_with("the field `user` stands twice"), "{error}");
        assert!(read(b"{} {}").is_err());
    }
}
