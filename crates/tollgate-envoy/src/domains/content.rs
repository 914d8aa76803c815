//! What domains mean, without what does not matter: for their [`Generation`].
//!
//! Every part is taken apart field by field, so that a new field does not compile until somebody decides whether it
//! matters. Places in files and the order of descriptors do not, except among wildcards.

use std::collections::HashMap;

use serde_json::{Map, Value};
use tollgate::{CountDenied, OnStoreFailure};
use tollgate_policy::{Generation, GenerationWriter};

use super::descriptor::{DescriptorNode, SameKeyDescriptors};
use super::domain::Domain;
use crate::rule::{CountedLimit, Limit, Rule};
use crate::{ChargingMode, HeaderNames, Settings};

/// Returns the generation of these domains.
pub(super) fn generation<'a>(domains: impl Iterator<Item = &'a Domain>) -> Generation {
    let mut writer = GenerationWriter::new("domains");
    writer.set(domains, |domain, writer| {
        writer.text(&domain.name);
        write_descriptors(domain, domain.nodes.first(), writer);
    });
    writer.finish()
}

/// Returns the generation of domains, of which this is the generation, under settings.
pub(super) fn generation_under(
    domains: Generation,
    settings: &Settings,
    on_store_failure: OnStoreFailure,
) -> Generation {
    // Metrics decide nothing.
    let Settings { charging, shadow_mode, quota_mode, headers, dynamic_metadata, hits: _, max_value_bytes } =
        settings;
    let mut writer = GenerationWriter::new("domains under settings");
    writer.shown(&domains);
    writer.text(match charging {
        ChargingMode::AllOrNothing => "all or nothing",
        ChargingMode::Each => "each",
    });
    [shadow_mode, quota_mode, dynamic_metadata].into_iter().for_each(|flag| writer.flag(*flag));
    writer.list(headers.as_slice(), |HeaderNames { limit, remaining, reset }, writer| {
        [limit, remaining, reset].into_iter().for_each(|name| writer.text(name));
    });
    writer.list(max_value_bytes.as_slice(), |bytes, writer| writer.count(*bytes));
    writer.shown(&on_store_failure);
    writer.finish()
}

/// Writes the descriptors below a node.
fn write_descriptors(domain: &Domain, node: Option<&DescriptorNode>, writer: &mut GenerationWriter) {
    writer.set(node.into_iter().flat_map(|node| &node.children), |(key, same_key), writer| {
        writer.text(key);
        let SameKeyDescriptors { exact, wildcards, any } = same_key;
        writer.set(exact, |(value, node), writer| {
            writer.text(value);
            write_node(domain, *node, writer);
        });
        // They are among the exact values; the first that matches decides.
        let patterns = exact.iter().filter(|(value, _)| value.contains('*'));
        let values: HashMap<u32, &str> = patterns.map(|(value, node)| (*node, &**value)).collect();
        writer.list(wildcards.nodes(), |node, writer| {
            writer.text(values.get(&node).copied().unwrap_or_default())
        });
        writer.list(any.as_slice(), |node, writer| write_node(domain, *node, writer));
    });
}

fn write_node(domain: &Domain, place: u32, writer: &mut GenerationWriter) {
    let node = domain.nodes.get(place as usize);
    writer.list(node.as_slice(), |node, writer| {
        // The name is made of the key and the value.
        let DescriptorNode { rule, shared, name: _, shows_value, children: _ } = node;
        writer.list(rule.as_slice(), write_rule);
        writer.list(shared.as_slice(), |pattern, writer| writer.text(pattern));
        writer.flag(*shows_value);
    });
    write_descriptors(domain, node, writer);
}

fn write_rule(rule: &Rule, writer: &mut GenerationWriter) {
    let Rule {
        limit,
        name,
        replaces,
        is_shadow,
        is_quota,
        metadata,
        is_detailed,
        hits: _,
        series: _,
        place: _,
    } = rule;
    match limit {
        Limit::Unlimited => writer.text("unlimited"),
        Limit::Counted(CountedLimit { requests_per_unit, unit, quota }) => {
            writer.text("counted");
            writer.number((*requests_per_unit).into());
            writer.text(unit.name());
            writer.text(match quota.count_denied() {
                CountDenied::No => "no",
                CountDenied::Yes => "yes",
                CountDenied::Overdraft => "overdraft",
            });
        }
    }
    writer.list(name.as_slice(), |name, writer| writer.text(name));
    writer.set(&**replaces, |name, writer| writer.text(name));
    [is_shadow, is_quota, is_detailed].into_iter().for_each(|flag| writer.flag(*flag));
    writer.list(metadata.as_slice(), write_object);
}

fn write_object(object: &Map<String, Value>, writer: &mut GenerationWriter) {
    writer.set(object, |(name, value), writer| {
        writer.text(name);
        write_value(value, writer);
    });
}

fn write_value(value: &Value, writer: &mut GenerationWriter) {
    match value {
        Value::Null => writer.text("null"),
        Value::Bool(flag) => {
            writer.text("bool");
            writer.flag(*flag);
        }
        Value::Number(number) => {
            writer.text("number");
            writer.shown(number);
        }
        Value::String(text) => {
            writer.text("string");
            writer.text(text);
        }
        Value::Array(values) => {
            writer.text("array");
            writer.list(values, write_value);
        }
        Value::Object(object) => {
            writer.text("object");
            write_object(object, writer);
        }
    }
}
