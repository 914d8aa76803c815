//! Requests and answers in JSON, as protobuf writes its messages.

use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::{Descriptor, Entry, Override, Request, Response, ResponseHeader, Status, Unit};

/// JSON that is not a valid request. The fault of its sender.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{place}`: {fault}")]
pub struct JsonError {
    /// The place in the request, such as `descriptors[0].entries`; `request` for the request itself.
    pub place: Box<str>,
    /// The fault at this place.
    pub fault: JsonFault,
}

/// A fault at a place in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum JsonFault {
    /// The message has no such field.
    #[error("unknown field `{0}`")]
    UnknownField(Box<str>),
    /// The field is there under both of its names.
    #[error("the field `{0}` is there twice")]
    Twice(&'static str),
    /// The value has another type.
    #[error("expected {0}")]
    Expected(&'static str),
}

impl<'a> Request<'a> {
    /// Reads a request from JSON. Fields have either name that protobuf gives them, `hitsAddend` or `hits_addend`, and
    /// `null` means a missing field. Numbers may be texts, and units may be names or numbers.
    ///
    /// # Errors
    ///
    /// If a field is unknown or has a value of another type.
    ///
    /// # Examples
    ///
    /// ```
    /// use serde_json::json;
    /// use tollgate_envoy::{Descriptor, Request};
    ///
    /// let json = json!({ "domain": "shop", "descriptors": [{ "entries": [{ "key": "path", "value": "/" }] }] });
    /// let request = Request::from_json(&json)?;
    /// assert_eq!((request.domain, &request.descriptors[0]), ("shop", &Descriptor::new([("path", "/")])));
    ///
    /// let error = Request::from_json(&json!({ "descriptors": [{ "entry": [] }] })).unwrap_err();
    /// assert_eq!(error.to_string(), "`descriptors[0]`: unknown field `entry`");
    /// # Ok::<(), tollgate_envoy::JsonError>(())
    /// ```
    pub fn from_json(json: &'a Value) -> Result<Self, JsonError> {
        let [domain, descriptors, hits_addend] = fields(
            json,
            "",
            [("domain", "domain"), ("descriptors", "descriptors"), ("hitsAddend", "hits_addend")],
        )?;
        let descriptors = list(descriptors, "descriptors")?.iter().enumerate();
        let descriptors =
            descriptors.map(|(number, json)| descriptor(json, &format!("descriptors[{number}]")));
        Ok(Self {
            domain: text(domain, "domain")?,
            descriptors: descriptors.collect::<Result<_, _>>()?,
            hits_addend: hits_addend.map_or(Ok(0), |hits| number(hits, "hitsAddend"))?,
        })
    }
}

impl Response {
    /// Writes the answer as JSON. As with protobuf, fields that are zero or empty are left out.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let statuses: Vec<Value> = self.statuses.iter().map(status).collect();
        let mut json = Map::new();
        json.insert("overallCode".into(), self.overall.name().into());
        json.insert("statuses".into(), statuses.into());
        if !self.headers.is_empty() {
            let header =
                |header: &ResponseHeader| json!({ "key": &*header.name, "value": header.value.to_string() });
            json.insert("responseHeadersToAdd".into(), self.headers.iter().map(header).collect());
        }
        if let Some(metadata) = &self.dynamic_metadata {
            json.insert("dynamicMetadata".into(), metadata.clone().into());
        }
        json.into()
    }
}

fn status(status: &Status) -> Value {
    let mut json = Map::new();
    json.insert("code".into(), status.code.name().into());
    if let Some(limit) = &status.current_limit {
        let mut current = Map::new();
        if let Some(name) = &limit.name {
            current.insert("name".into(), (**name).into());
        }
        if limit.requests_per_unit > 0 {
            current.insert("requestsPerUnit".into(), limit.requests_per_unit.into());
        }
        current.insert("unit".into(), limit.unit.name().into());
        json.insert("currentLimit".into(), current.into());
    }
    if status.limit_remaining > 0 {
        json.insert("limitRemaining".into(), status.limit_remaining.into());
    }
    if let Some(reset) = status.duration_until_reset {
        json.insert("durationUntilReset".into(), format!("{}s", reset.as_secs()).into());
    }
    json.into()
}

fn descriptor<'a>(json: &'a Value, place: &str) -> Result<Descriptor<'a>, JsonError> {
    let names = [
        ("entries", "entries"),
        ("limit", "limit"),
        ("hitsAddend", "hits_addend"),
        ("isNegativeHits", "is_negative_hits"),
    ];
    let [entries, limit, hits_addend, is_negative_hits] = fields(json, place, names)?;
    let at = |field: &str| format!("{place}.{field}");
    let entries = list(entries, &at("entries"))?.iter().enumerate();
    let entries = entries.map(|(number, json)| entry(json, &at(&format!("entries[{number}]"))));
    let is_negative_hits = is_negative_hits
        .map(|flag| flag.as_bool().ok_or_else(|| expected("true or false", &at("isNegativeHits"))));
    Ok(Descriptor {
        entries: entries.collect::<Result<_, _>>()?,
        limit: limit.map(|limit| r#override(limit, &at("limit"))).transpose()?,
        hits_addend: hits_addend.map(|hits| number(hits, &at("hitsAddend"))).transpose()?,
        is_negative_hits: is_negative_hits.transpose()?.unwrap_or(false),
    })
}

fn entry<'a>(json: &'a Value, place: &str) -> Result<Entry<'a>, JsonError> {
    let [key, value] = fields(json, place, [("key", "key"), ("value", "value")])?;
    Ok(Entry { key: text(key, &format!("{place}.key"))?, value: text(value, &format!("{place}.value"))? })
}

fn r#override(json: &Value, place: &str) -> Result<Override, JsonError> {
    let [requests, unit] = fields(json, place, [("requestsPerUnit", "requests_per_unit"), ("unit", "unit")])?;
    let at = format!("{place}.unit");
    let unit = match unit {
        None => 0,
        Some(Value::String(name)) if name == "UNKNOWN" => 0,
        // Names of enums are written in capitals alone.
        Some(Value::String(name)) => Unit::from_name(name)
            .filter(|unit| unit.name() == name)
            .map(Unit::number)
            .ok_or_else(|| expected("a unit such as MINUTE", &at))?,
        Some(unit) => {
            let unit = unit.as_i64().and_then(|unit| i32::try_from(unit).ok());
            unit.ok_or_else(|| expected("a unit such as MINUTE", &at))?
        }
    };
    let requests_per_unit =
        requests.map_or(Ok(0), |requests| number(requests, &format!("{place}.requestsPerUnit")))?;
    Ok(Override { requests_per_unit, unit })
}

/// The values of a message's fields; `None` for those that are not there.
fn fields<'a, const N: usize>(
    json: &'a Value,
    place: &str,
    names: [(&'static str, &str); N],
) -> Result<[Option<&'a Value>; N], JsonError> {
    let Value::Object(map) = json else { return Err(expected("an object", place)) };
    let mut values = [None; N];
    for (name, value) in map {
        let known = names.iter().zip(&mut values).find(|((camel, snake), _)| name == camel || name == snake);
        let Some(((camel, _), slot)) = known else {
            return Err(fault(JsonFault::UnknownField(name.as_str().into()), place));
        };
        if value.is_null() {
            continue;
        }
        if slot.replace(value).is_some() {
            return Err(fault(JsonFault::Twice(camel), place));
        }
    }
    Ok(values)
}

fn text<'a>(json: Option<&'a Value>, place: &str) -> Result<&'a str, JsonError> {
    json.map_or(Ok(""), |json| json.as_str().ok_or_else(|| expected("a text", place)))
}

fn list<'a>(json: Option<&'a Value>, place: &str) -> Result<&'a [Value], JsonError> {
    json.map_or(Ok(&[]), |json| match json {
        Value::Array(values) => Ok(values),
        _ => Err(expected("a list", place)),
    })
}

fn number<T: TryFrom<u64>>(json: &Value, place: &str) -> Result<T, JsonError> {
    let number = json.as_u64().or_else(|| json.as_str()?.parse().ok());
    number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| expected("a whole number", place))
}

fn expected(expected: &'static str, place: &str) -> JsonError {
    fault(JsonFault::Expected(expected), place)
}

fn fault(fault: JsonFault, place: &str) -> JsonError {
    JsonError { place: if place.is_empty() { "request" } else { place }.into(), fault }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Code, CurrentLimit};

    #[test]
    fn every_field_of_a_request_is_read_under_both_names() {
        for json in [
            json!({ "domain": "d", "hitsAddend": 2, "descriptors": [{
                "entries": [{ "key": "k", "value": "v" }, { "key": "l" }],
                "limit": { "requestsPerUnit": 5, "unit": "WEEK" }, "hitsAddend": "3", "isNegativeHits": true,
            }] }),
            json!({ "domain": "d", "hits_addend": "2", "descriptors": [{
                "entries": [{ "key": "k", "value": "v" }, { "key": "l", "value": null }],
                "limit": { "requests_per_unit": 5, "unit": 7 }, "hits_addend": 3, "is_negative_hits": true,
            }] }),
        ] {
            let expected = Descriptor {
                limit: Some(Override::new(5, Unit::Week)),
                hits_addend: Some(3),
                is_negative_hits: true,
                ..Descriptor::new([("k", "v"), ("l", "")])
            };
            let request = Request::from_json(&json).unwrap();
            assert_eq!((request.domain, request.hits_addend), ("d", 2));
            assert_eq!(request.descriptors[..], [expected]);
        }
        assert_eq!(Request::from_json(&json!({})).unwrap(), Request::default());
        let none = json!({ "descriptors": [{ "limit": { "unit": 99 } }] });
        assert_eq!(Request::from_json(&none).unwrap().descriptors[0].limit.unwrap().unit, 99);
    }

    #[test]
    fn names_the_place_of_an_invalid_field() {
        for (json, expected) in [
            (json!([]), "`request`: expected an object"),
            (json!({ "foo": 1 }), "`request`: unknown field `foo`"),
            (
                json!({ "hitsAddend": 1, "hits_addend": 1 }),
                "`request`: the field `hitsAddend` is there twice",
            ),
            (json!({ "hitsAddend": -1 }), "`hitsAddend`: expected a whole number"),
            (json!({ "hitsAddend": 1_u64 << 32 }), "`hitsAddend`: expected a whole number"),
            (json!({ "domain": 5 }), "`domain`: expected a text"),
            (json!({ "descriptors": {} }), "`descriptors`: expected a list"),
            (json!({ "descriptors": [7] }), "`descriptors[0]`: expected an object"),
            (
                json!({ "descriptors": [{ "entries": [{ "key": "a" }, { "kee": "a" }] }] }),
                "`descriptors[0].entries[1]`: unknown field `kee`",
            ),
            (
                json!({ "descriptors": [{ "limit": { "unit": "minute" } }] }),
                "`descriptors[0].limit.unit`: expected a unit such as MINUTE",
            ),
            (
                json!({ "descriptors": [{ "isNegativeHits": 1 }] }),
                "`descriptors[0].isNegativeHits`: expected true or false",
            ),
        ] {
            assert_eq!(Request::from_json(&json).unwrap_err().to_string(), expected, "{json}");
        }
    }

    #[test]
    fn an_answer_has_no_fields_that_are_zero() {
        let over = Status {
            code: Code::OverLimit,
            current_limit: Some(CurrentLimit {
                requests_per_unit: 7,
                unit: Unit::Month,
                name: Some("n".into()),
            }),
            limit_remaining: 0,
            duration_until_reset: Some(Duration::from_secs(37)),
        };
        let response = Response {
            overall: Code::OverLimit,
            statuses: [over, Status::NO_LIMIT, Status::UNLIMITED].into_iter().collect(),
            headers: [ResponseHeader { name: "X".into(), value: 7 }].into_iter().collect(),
            dynamic_metadata: None,
            source: None,
            is_without_room: false,
            denied_with_units_left: None,
        };
        assert_eq!(
            response.to_json(),
            json!({
                "overallCode": "OVER_LIMIT",
                "statuses": [
                    {
                        "code": "OVER_LIMIT",
                        "currentLimit": { "name": "n", "requestsPerUnit": 7, "unit": "MONTH" },
                        "durationUntilReset": "37s",
                    },
                    { "code": "OK" },
                    { "code": "OK", "limitRemaining": 4_294_967_295_u32 },
                ],
                "responseHeadersToAdd": [{ "key": "X", "value": "7" }],
            })
        );
    }
}
