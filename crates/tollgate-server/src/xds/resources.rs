//! The resources of a response, as the contents of files.

use std::collections::HashSet;

use prost::Message;
use prost_types::value::Kind;
use prost_types::{Any, Struct};
use serde_json::{Map, Number, Value};
use thiserror::Error;
use tollgate_envoy::{Domains, InvalidConfigs, SameDomain, Unit};

use super::messages::ratelimit::config::ratelimit::v3::{
    RateLimitConfig, RateLimitDescriptor, RateLimitPolicy,
};

/// The type of the resources, and of responses.
pub(super) const TYPE_URL: &str = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

/// Resources that cannot be used. The fault of the management server.
#[derive(Debug, Error)]
pub(super) enum ResourceError {
    #[error("resource {number} has the type `{type_url}`, but only `{TYPE_URL}` is known")]
    OtherType { number: usize, type_url: String },
    #[error("resource {number} cannot be decoded: {error}")]
    Undecodable { number: usize, error: prost::DecodeError },
    #[error("two resources have the name `{0}`: names must be unique")]
    SameName(String),
    #[error("{name}: a number of its metadata is not finite")]
    NotFinite { name: String },
    #[error(transparent)]
    Invalid(#[from] InvalidConfigs),
}

/// A number that JSON cannot have.
struct NotFinite;

/// Reads all resources of a response.
///
/// # Errors
///
/// If one of them is not valid.
pub(super) fn read(resources: Vec<Any>, same_domain: SameDomain) -> Result<Domains, ResourceError> {
    let configs = (1..).zip(resources).map(|(number, Any { type_url, value })| {
        if type_url != TYPE_URL {
            return Err(ResourceError::OtherType { number, type_url });
        }
        let config = RateLimitConfig::decode(value.as_slice());
        let config = config.map_err(|error| ResourceError::Undecodable { number, error })?;
        Ok((number, config))
    });
    let mut configs: Vec<(usize, RateLimitConfig)> = configs.collect::<Result<_, _>>()?;
    // Servers send them in any order, but if several have one domain, the order decides between wildcards.
    configs.sort_by(|(_, one), (_, other)| (&one.name, &one.domain).cmp(&(&other.name, &other.domain)));
    let mut names = HashSet::new();
    let twice = configs.iter().find(|(_, config)| !config.name.is_empty() && !names.insert(&config.name));
    if let Some((_, config)) = twice {
        return Err(ResourceError::SameName(config.name.clone()));
    }
    let configs = configs.into_iter().map(|(number, config)| {
        let name = match config.name.as_str() {
            "" => format!("resource {number}"),
            name => format!("resource `{name}`"),
        };
        match contents(config) {
            Ok(contents) => Ok((name, contents)),
            Err(NotFinite) => Err(ResourceError::NotFinite { name }),
        }
    });
    let (names, contents): (Vec<String>, Vec<Value>) =
        configs.collect::<Result<Vec<_>, _>>()?.into_iter().unzip();
    Ok(Domains::from_values(names.iter().map(String::as_str).zip(contents), same_domain)?)
}

/// Returns what a file with the same limits would contain. Fields that are zero or empty are left out: messages do not
/// have them.
fn contents(config: RateLimitConfig) -> Result<Value, NotFinite> {
    let RateLimitConfig { name, domain, descriptors } = config;
    let mut section = Map::new();
    put_text(&mut section, "name", name);
    put_text(&mut section, "domain", domain);
    put_descriptors(&mut section, descriptors)?;
    Ok(section.into())
}

fn descriptor(descriptor: RateLimitDescriptor) -> Result<Value, NotFinite> {
    let RateLimitDescriptor {
        key,
        value,
        rate_limit,
        descriptors,
        shadow_mode,
        detailed_metric,
        quota_mode,
        metadata,
    } = descriptor;
    let mut section = Map::new();
    put_text(&mut section, "key", key);
    put_text(&mut section, "value", value);
    put_flag(&mut section, "shadow_mode", shadow_mode);
    put_flag(&mut section, "detailed_metric", detailed_metric);
    put_flag(&mut section, "quota_mode", quota_mode);
    if let Some(limit) = rate_limit {
        section.insert("rate_limit".to_owned(), rate_limit_section(limit));
    }
    if let Some(metadata) = metadata {
        section.insert("metadata".to_owned(), object(metadata)?);
    }
    put_descriptors(&mut section, descriptors)?;
    Ok(section.into())
}

fn rate_limit_section(limit: RateLimitPolicy) -> Value {
    let RateLimitPolicy { unit, requests_per_unit, unlimited, name, replaces } = limit;
    let mut section = Map::new();
    if unit != 0 {
        // An unknown unit is refused by its number.
        let name = Unit::from_number(unit).map_or_else(|| unit.to_string(), |unit| unit.name().to_owned());
        put_text(&mut section, "unit", name);
    }
    // A limit of 0 denies everything.
    if requests_per_unit != 0 || !unlimited {
        section.insert("requests_per_unit".to_owned(), requests_per_unit.into());
    }
    put_flag(&mut section, "unlimited", unlimited);
    put_text(&mut section, "name", name);
    if !replaces.is_empty() {
        let replaced = replaces.into_iter().map(|replaced| {
            let mut section = Map::new();
            put_text(&mut section, "name", replaced.name);
            Value::Object(section)
        });
        section.insert("replaces".to_owned(), replaced.collect());
    }
    section.into()
}

fn put_text(section: &mut Map<String, Value>, key: &str, text: String) {
    if !text.is_empty() {
        section.insert(key.to_owned(), text.into());
    }
}

fn put_flag(section: &mut Map<String, Value>, key: &str, flag: bool) {
    if flag {
        section.insert(key.to_owned(), flag.into());
    }
}

fn put_descriptors(
    section: &mut Map<String, Value>,
    descriptors: Vec<RateLimitDescriptor>,
) -> Result<(), NotFinite> {
    if !descriptors.is_empty() {
        let descriptors: Vec<Value> = descriptors.into_iter().map(descriptor).collect::<Result<_, _>>()?;
        section.insert("descriptors".to_owned(), descriptors.into());
    }
    Ok(())
}

fn object(members: Struct) -> Result<Value, NotFinite> {
    let members = members.fields.into_iter().map(|(name, value)| Ok((name, json(value)?)));
    members.collect::<Result<Map<_, _>, _>>().map(Value::Object)
}

fn json(value: prost_types::Value) -> Result<Value, NotFinite> {
    Ok(match value.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(flag)) => flag.into(),
        Some(Kind::NumberValue(number)) => Number::from_f64(number).ok_or(NotFinite)?.into(),
        Some(Kind::StringValue(text)) => text.into(),
        Some(Kind::ListValue(list)) => {
            list.values.into_iter().map(json).collect::<Result<Vec<_>, _>>()?.into()
        }
        Some(Kind::StructValue(members)) => object(members)?,
    })
}

#[cfg(test)]
mod tests {
    use tollgate_policy::Sources;

    use super::super::messages::ratelimit::config::ratelimit::v3::RateLimitReplace;
    use super::*;

    fn any(config: &RateLimitConfig) -> Any {
        Any { type_url: TYPE_URL.to_owned(), value: config.encode_to_vec() }
    }

    fn descriptor(key: &str) -> RateLimitDescriptor {
        RateLimitDescriptor { key: key.to_owned(), ..Default::default() }
    }

    /// With every field that messages have.
    #[test]
    fn messages_mean_the_same_as_files() {
        let number = |number| prost_types::Value { kind: Some(Kind::NumberValue(number)) };
        let text = prost_types::Value { kind: Some(Kind::StringValue("5".to_owned())) };
        let list = prost_types::ListValue { values: vec![number(2.5), prost_types::Value { kind: None }] };
        let list = prost_types::Value { kind: Some(Kind::ListValue(list)) };
        let members = [("a", number(1.0)), ("b", text), ("c", list)];
        let metadata = members.map(|(name, value)| (name.to_owned(), value)).into();
        let limited = RateLimitDescriptor {
            value: "x".to_owned(),
            rate_limit: Some(RateLimitPolicy {
                unit: 7,
                requests_per_unit: u32::MAX,
                unlimited: false,
                name: "weekly".to_owned(),
                replaces: vec![RateLimitReplace { name: "other".to_owned() }],
            }),
            shadow_mode: true,
            detailed_metric: true,
            quota_mode: true,
            metadata: Some(Struct { fields: metadata }),
            ..descriptor("b")
        };
        let limit = |limit| RateLimitDescriptor { rate_limit: Some(limit), ..descriptor("c") };
        let denied = limit(RateLimitPolicy { unit: 1, ..Default::default() });
        let unlimited = limit(RateLimitPolicy { unlimited: true, ..Default::default() });
        let configs = [
            ("shop", vec![RateLimitDescriptor { descriptors: vec![limited], ..descriptor("a") }, denied]),
            ("other", vec![unlimited]),
        ];
        let configs = configs.map(|(domain, descriptors)| {
            any(&RateLimitConfig { name: domain.to_owned(), domain: domain.to_owned(), descriptors })
        });
        let domains = read(configs.into(), SameDomain::Refuse).unwrap();

        let shop = "
domain: shop
descriptors:
- key: a
  descriptors:
  - key: b
    value: x
    shadow_mode: true
    quota_mode: true
    detailed_metric: true
    metadata: { a: 1.0, b: '5', c: [2.5, null] }
    rate_limit:
      { unit: week, requests_per_unit: 4294967295, name: weekly, replaces: [{ name: other }] }
- { key: c, rate_limit: { unit: second, requests_per_unit: 0 } }
";
        let other = "domain: other\ndescriptors: [{ key: c, rate_limit: { unlimited: true } }]\n";
        let sources = Sources::of("shop.yaml", shop).and("other.yaml", other);
        let files = Domains::parse(&sources, SameDomain::Refuse).unwrap();
        assert!(domains.is_same_as(&files), "{domains:?}\n{files:?}");
        assert_eq!(domains.generation(), files.generation());
    }

    /// The first matching wildcard applies, and servers send resources in any order.
    #[test]
    fn the_order_of_resources_means_nothing() {
        let config = |name: &str, value: &str, requests_per_unit| {
            let rate_limit = Some(RateLimitPolicy { unit: 1, requests_per_unit, ..Default::default() });
            let descriptor =
                RateLimitDescriptor { value: value.to_owned(), rate_limit, ..descriptor("path") };
            let descriptors = vec![descriptor];
            any(&RateLimitConfig { name: name.to_owned(), domain: "shop".to_owned(), descriptors })
        };
        let (one, other) = (config("one", "/a*", 1), config("other", "/*", 2));
        let read = |resources| read(resources, SameDomain::Merge).unwrap();
        assert!(read(vec![one.clone(), other.clone()]).is_same_as(&read(vec![other, one])));
    }
}
