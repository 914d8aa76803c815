//! The resources of a response, as the contents of files.

use prost::Message;
use prost_types::value::Kind;
use prost_types::{Any, Struct};
use serde_json::{Map, Number, Value};
use tollgate_envoy::{Domains, SameDomain, Unit};
use tollgate_policy::Printable;

use super::messages::ratelimit::config::ratelimit::v3::{
    RateLimitConfig, RateLimitDescriptor, RateLimitPolicy,
};

/// The type of the resources, and of responses.
pub(super) const TYPE_URL: &str = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

/// The number of descriptors and of values in metadata that a response may have. Each takes some kilobytes while it is
/// read, but only two bytes in a message.
const MAX_PARTS: usize = 200_000;

/// The largest integer up to which all have their own floating-point number.
const MAX_INTEGER: f64 = 9_007_199_254_740_992.0;

/// A number that JSON cannot have.
struct NotFinite;

/// Reads all resources of a response.
///
/// # Errors
///
/// If one of them is not valid: every problem, in an order that does not depend on that of the resources, which servers
/// send in any order.
pub(super) fn read(resources: Vec<Any>, same_domain: SameDomain) -> Result<Domains, Vec<String>> {
    let mut problems = Vec::new();
    let mut configs: Vec<(RateLimitConfig, Vec<u8>)> = Vec::new();
    for Any { type_url, value } in resources {
        if type_url != TYPE_URL {
            let type_url = Printable(&type_url);
            problems.push(format!("a resource has the type `{type_url}`, but only `{TYPE_URL}` is known"));
            continue;
        }
        let mut config = RateLimitConfig::default();
        match config.merge(value.as_slice()) {
            Ok(()) => configs.push((config, value)),
            // The fields before the fault are there.
            Err(error) => problems.push(format!("{} cannot be decoded: {error}", name(&config))),
        }
    }
    let parts: usize = configs.iter().map(|(config, _)| parts(&config.descriptors)).sum();
    if parts > MAX_PARTS {
        problems.push(format!(
            "the response has {parts} descriptors and values of metadata, and at most {MAX_PARTS} are read"
        ));
        return Err(problems);
    }
    // If several have one domain, their order decides between wildcards.
    configs.sort_by(|(one, value), (other, others_value)| {
        (&one.name, &one.domain, value).cmp(&(&other.name, &other.domain, others_value))
    });
    if same_domain == SameDomain::Refuse {
        configs.dedup_by(|(later, _), (first, _)| {
            let is_same = !later.name.is_empty() && later.name == first.name;
            if is_same {
                problems.push(format!("two resources have the name `{}`", Printable(&later.name)));
            }
            is_same
        });
    }
    let mut named = Vec::new();
    for (config, _) in configs {
        let name = name(&config);
        match contents(config) {
            Ok(contents) => named.push((name, contents)),
            Err(NotFinite) => problems.push(format!("{name}: a number of its metadata is not finite")),
        }
    }
    problems.sort_unstable();
    let (names, contents): (Vec<String>, Vec<Value>) = named.into_iter().unzip();
    match Domains::from_values(names.iter().map(String::as_str).zip(contents), same_domain) {
        Ok(domains) if problems.is_empty() => return Ok(domains),
        Ok(_) => {}
        Err(invalid) => problems.extend(invalid.problems().map(str::to_owned)),
    }
    Err(problems)
}

/// Returns the name of a resource in messages.
fn name(RateLimitConfig { name, domain, .. }: &RateLimitConfig) -> String {
    match (name.as_str(), domain.as_str()) {
        ("", "") => "a resource without a name".to_owned(),
        ("", domain) => format!("the resource of the domain `{}`", Printable(domain)),
        (name, _) => format!("resource `{}`", Printable(name)),
    }
}

/// Returns the number of descriptors and of values in their metadata.
fn parts(descriptors: &[RateLimitDescriptor]) -> usize {
    let metadata = |descriptor: &RateLimitDescriptor| descriptor.metadata.as_ref().map_or(0, values);
    descriptors.iter().map(|descriptor| 1 + metadata(descriptor) + parts(&descriptor.descriptors)).sum()
}

fn values(members: &Struct) -> usize {
    members.fields.values().map(values_within).sum()
}

/// Returns the number of values in a value, with itself.
fn values_within(value: &prost_types::Value) -> usize {
    1 + match &value.kind {
        Some(Kind::ListValue(list)) => list.values.iter().map(values_within).sum(),
        Some(Kind::StructValue(members)) => values(members),
        _ => 0,
    }
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
        // Protobuf has no other numbers, and files write these without a fraction.
        Some(Kind::NumberValue(number)) if number.fract() == 0.0 && number.abs() <= MAX_INTEGER => {
            (number as i64).into()
        }
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
    metadata: { a: 1, b: '5', c: [2.5, null] }
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

    #[test]
    fn the_order_of_resources_does_not_change_the_problems() {
        let config = |name: &str, key: &str| {
            let descriptors = vec![descriptor(key)];
            any(&RateLimitConfig { name: name.to_owned(), domain: name.to_owned(), descriptors })
        };
        let other = Any { type_url: "x".to_owned(), value: Vec::new() };
        // The name is whole, and the rest is missing.
        let cut = Any { value: b"\x0a\x03cut\x12\x09".to_vec(), ..other.clone() };
        let cut = Any { type_url: TYPE_URL.to_owned(), ..cut };
        let mut resources = vec![config("b", ""), cut, config("a", ""), other, config("a", "x")];
        let problems = read(resources.clone(), SameDomain::Refuse).unwrap_err();
        let expected = [
            "a resource has the type `x`, but only",
            "resource `cut` cannot be decoded: ",
            "two resources have the name `a`",
            "resource `a`: descriptors[0]: a descriptor needs `key`",
            "resource `b`: descriptors[0]: a descriptor needs `key`",
        ];
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        assert!(problems.iter().zip(expected).all(|(it, start)| it.starts_with(start)), "{problems:?}");
        for _ in 0..resources.len() {
            resources.rotate_left(1);
            assert_eq!(read(resources.clone(), SameDomain::Refuse).unwrap_err(), problems);
        }
    }

    /// A descriptor of two bytes takes kilobytes.
    #[test]
    fn the_number_of_descriptors_is_bounded() {
        let config = |descriptors| {
            any(&RateLimitConfig { domain: "shop".to_owned(), descriptors, ..Default::default() })
        };
        let value = prost_types::Value { kind: None };
        let list = prost_types::ListValue { values: vec![value; 100_000] };
        let list = prost_types::Value { kind: Some(Kind::ListValue(list)) };
        let metadata = Some(Struct { fields: [("a".to_owned(), list)].into() });
        let many = vec![descriptor("a"); 99_999];
        let wide = RateLimitDescriptor { metadata, descriptors: many, ..descriptor("b") };
        let problems = read(vec![config(vec![wide])], SameDomain::Refuse).unwrap_err();
        assert_eq!(
            problems,
            ["the response has 200001 descriptors and values of metadata, and at most 200000 are read"]
        );
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
