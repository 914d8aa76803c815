//! Dynamic metadata, which Envoy keeps from an answer for its other filters.

use serde_json::{Map, Value};

use super::plan::Plan;
use crate::{Code, Override, Request, Status, Unit};

/// The request, and the metadata of the limits that admit it. An unlimited descriptor has none.
pub(super) fn of(request: &Request<'_>, plan: &Plan<'_>, statuses: &[Status]) -> Map<String, Value> {
    let mut all = Map::new();
    all.insert("domain".into(), request.domain.into());
    let descriptors = request.descriptors.iter().map(|descriptor| {
        let entries = descriptor.entries.iter().map(|entry| format!("{}={}", entry.key, entry.value));
        let mut described = Map::new();
        described.insert("entries".into(), entries.collect());
        if let Some(limit) = descriptor.limit {
            described.insert("limit".into(), text(limit).into());
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
    for (place, counted) in plan.counted() {
        let is_passed = statuses.get(place).is_some_and(|status| status.code == Code::Ok);
        let metadata = counted.rule.and_then(|rule| rule.metadata.as_ref()).filter(|_| is_passed);
        metadata.iter().for_each(|metadata| merge(&mut merged, metadata));
    }
    if !merged.is_empty() {
        all.insert("metadata".into(), merged.into());
    }
    all
}

/// A limit in the text format of protobuf, which leaves out zeros.
fn text(limit: Override) -> String {
    let Override { requests_per_unit, unit } = limit;
    let requests = (requests_per_unit > 0).then(|| format!("requests_per_unit:{requests_per_unit} "));
    let unit = Unit::from_number(unit).map_or("UNKNOWN", Unit::name);
    format!("{}unit:{unit}", requests.unwrap_or_default())
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
