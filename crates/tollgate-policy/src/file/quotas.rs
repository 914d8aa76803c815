//! Quotas as they are written.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use tollgate::Quota;

use super::read::{At, Read, schema};
use super::table::RawTier;
use super::tree::{Node, Value};
use crate::ProblemKind;
use crate::problem::Problems;

/// Quotas, all or nothing; none only where `unlimited` is written.
#[derive(Debug, Clone)]
pub(crate) struct QuotaList(pub(crate) Vec<At<WrittenQuota>>);

/// A policy's quotas: written out, or those of a tier.
#[derive(Debug)]
pub(crate) enum PolicyQuotas {
    List(QuotaList),
    Tier(Box<RawTier>),
}

impl Read for PolicyQuotas {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        match &node.value {
            Value::Mapping(_) => Read::read(node, problems).map(|tier| Self::Tier(Box::new(tier))),
            _ => Read::read(node, problems).map(Self::List),
        }
    }
}

schema!(PolicyQuotas: "PolicyQuotas", generator => {
    let (list, tier) = (generator.subschema_for::<QuotaList>(), generator.subschema_for::<RawTier>());
    json_schema!({ "anyOf": [list, tier] })
});

/// A quota, and how it is written.
#[derive(Debug, Clone)]
pub(crate) struct WrittenQuota {
    pub(crate) quota: Quota,
    /// The same for messages, which do not say what variables stand for.
    pub(crate) written: Box<str>,
}

impl Read for QuotaList {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        const EXPECTED: &str = "quotas such as [10/1s, 100/1m], or unlimited";
        let nodes = match &node.value {
            Value::Scalar { text, .. } if text.as_ref() == "unlimited" => return Some(Self(Vec::new())),
            Value::Scalar { .. } => std::slice::from_ref(node),
            _ => problems.take(node.at, node.list(EXPECTED))?,
        };
        if nodes.is_empty() {
            problems.add(node.at, ProblemKind::Empty("quota (or `unlimited` in place of the list)"));
        }
        let quotas: Vec<_> = nodes.iter().flat_map(|node| quotas(node, problems)).collect();
        // An empty list means unlimited, and these are not.
        (!quotas.is_empty()).then_some(Self(quotas))
    }
}

/// The quotas of one text; none only with a problem noted.
fn quotas(node: &Node, problems: &mut Problems) -> Vec<At<WrittenQuota>> {
    const EXPECTED: &str = "a quota such as 5/1m";
    let quotas = node.text(EXPECTED).and_then(|text| {
        Quota::list(text).map_err(|error| match node.is_filled() {
            // The error repeats its text.
            true => node.expected(EXPECTED),
            false => ProblemKind::Quota(error),
        })
    });
    let quotas = problems.take(node.at, quotas).unwrap_or_default().into_iter().map(|quota| {
        let written = if node.is_filled() { node.written().into() } else { quota.to_string().into() };
        At { at: node.at, end: node.end, value: WrittenQuota { quota, written } }
    });
    quotas.collect()
}

schema!(WrittenQuota: "Quota", _generator => json_schema!({
    "type": "string",
    "description": "At most so many in each window, such as 5/1m, 5/1m@first_hit, 5/1m@staggered or \
                    100/day@Europe/Berlin; or several, such as 10/minute;100/hour.",
    "examples": ["5/1m", "10000/day@Europe/Berlin"],
}));

schema!(QuotaList: "Quotas", generator => {
    let quota = generator.subschema_for::<WrittenQuota>();
    let (list, unlimited) = (json_schema!({ "type": "array", "items": quota, "minItems": 1 }), "unlimited");
    json_schema!({ "anyOf": [list, { "const": unlimited }, quota] })
});
