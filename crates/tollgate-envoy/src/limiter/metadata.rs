//! Dynamic metadata, which Envoy keeps from an answer for its other filters.

use serde_json::{Map, Value, json};

use super::plan::Plan;
use crate::{Code, Request, Status, Unit};

/// The request, and the metadata of the limits that admit it.
pub(super) fn of(request: &Request<'_>, plan: &Plan<'_>, statuses: &[Status]) -> Map<String, Value> {
    let mut all = Map::new();
    all.insert("domain".into(), request.domain.into());
    let descriptors = request.descriptors.iter().map(|descriptor| {
        let entries = descriptor.entries.iter().map(|entry| format!("{}={}", entry.key, entry.value));
        let mut described = Map::new();
        described.insert("entries".into(), entries.collect());
        if let Some(limit) = descriptor.limit {
            let unit = Unit::from_number(limit.unit).map_or("UNKNOWN", Unit::name);
            let limit = json!({ "requestsPerUnit": limit.requests_per_unit, "unit": unit });
            described.insert("limit".into(), limit);
        }
        if let Some(hits) = descriptor.hits_addend {
            described.insert("hitsAddend".into(), hits.into());
        }
        Value::Object(described)
    });
    all.insert("descriptors".into(), descriptors.collect());
    if request.hits_addend != 0 {
        all.insert("hitsAddend".into(), request.hits_addend.into());
    }
    let mut merged = Map::new();
    let passed = plan.0.iter().zip(statuses).filter(|(_, status)| status.code == Code::Ok);
    for metadata in passed.filter_map(|(planned, _)| planned.rule()?.metadata.as_ref()) {
        merge(&mut merged, metadata);
    }
    if !merged.is_empty() {
        all.insert("metadata".into(), merged.into());
    }
    all
}

/// Adds missing entries. Mappings are merged, and of other values the first stays.
fn merge(into: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (key, value) in from {
        match (into.get_mut(key), value) {
            (None, _) => {
                into.insert(key.clone(), value.clone());
            }
            (Some(Value::Object(into)), Value::Object(from)) => merge(into, from),
            (Some(_), _) => {}
        }
    }
}
