//! Envoy's messages as the crate of its service has them, for decisions by an imported configuration.

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use serde_json::{Map, Value as Json};
use tollgate_envoy::{CurrentLimit, Descriptor, Entry, Override, Request, Response, ResponseHeader, Status};

use super::messages::envoy::config::core::v3::HeaderValue;
use super::messages::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use super::messages::envoy::service::ratelimit::v3::rate_limit_response::{DescriptorStatus, RateLimit};
use super::messages::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};

impl<'a> From<&'a RateLimitRequest> for Request<'a> {
    fn from(request: &'a RateLimitRequest) -> Self {
        let RateLimitRequest { domain, descriptors, hits_addend } = request;
        let descriptors = descriptors.iter().map(Into::into).collect();
        Self { domain, descriptors, hits_addend: *hits_addend }
    }
}

impl<'a> From<&'a RateLimitDescriptor> for Descriptor<'a> {
    fn from(descriptor: &'a RateLimitDescriptor) -> Self {
        let RateLimitDescriptor { entries, limit, hits_addend, is_negative_hits } = descriptor;
        let limit = limit.as_ref();
        Self {
            entries: entries.iter().map(|entry| Entry { key: &entry.key, value: &entry.value }).collect(),
            limit: limit
                .map(|limit| Override { requests_per_unit: limit.requests_per_unit, unit: limit.unit }),
            hits_addend: *hits_addend,
            is_negative_hits: *is_negative_hits,
        }
    }
}

impl From<Response> for RateLimitResponse {
    fn from(response: Response) -> Self {
        let header = |ResponseHeader { name, value }: &ResponseHeader| HeaderValue {
            key: name.as_ref().to_owned(),
            value: value.to_string(),
        };
        Self {
            overall_code: response.overall.number(),
            statuses: response.statuses.iter().map(Into::into).collect(),
            response_headers_to_add: response.headers.iter().map(header).collect(),
            dynamic_metadata: response.dynamic_metadata.map(object),
            ..Self::default()
        }
    }
}

impl From<&Status> for DescriptorStatus {
    fn from(status: &Status) -> Self {
        let limit = |CurrentLimit { requests_per_unit, unit, name }: &CurrentLimit| RateLimit {
            requests_per_unit: *requests_per_unit,
            unit: unit.number(),
            name: name.as_deref().unwrap_or_default().to_owned(),
        };
        // No window is longer than any number of seconds here.
        let seconds = |time: std::time::Duration| i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        Self {
            code: status.code.number(),
            current_limit: status.current_limit.as_ref().map(limit),
            limit_remaining: status.limit_remaining,
            duration_until_reset: status
                .duration_until_reset
                .map(|time| prost_types::Duration { seconds: seconds(time), nanos: 0 }),
        }
    }
}

fn object(members: Map<String, Json>) -> Struct {
    Struct { fields: members.into_iter().map(|(name, json)| (name, value(json))).collect() }
}

fn value(json: Json) -> Value {
    let kind = match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(bool) => Kind::BoolValue(bool),
        // Numbers of protobuf's values are always floating.
        Json::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => Kind::StringValue(text),
        Json::Array(values) => Kind::ListValue(ListValue { values: values.into_iter().map(value).collect() }),
        Json::Object(members) => Kind::StructValue(object(members)),
    };
    Value { kind: Some(kind) }
}
