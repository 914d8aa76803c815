//! Quotas as they are written.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use tollgate::Quota;

use super::read::{At, Read, schema};
use super::tree::{Node, Value};
use crate::ProblemKind;
use crate::problem::Problems;

/// Quotas, all or nothing; none only where `unlimited` is written.
#[derive(Debug, Clone)]
pub(crate) struct QuotaList(pub(crate) Vec<At<WrittenQuota>>);

/// A quota in its written form.
#[derive(Debug, Clone)]
pub(crate) struct WrittenQuota {
    pub(crate) quota: Quota,
    /// The same for messages, which do not say what variables stand for.
    pub(crate) written: Box<str>,
}

impl Read for QuotaList {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        const EXPECTED: &str = "a list of quotas such as [5/1m], or unlimited";
        if let Value::Scalar { text, .. } = &node.value
            && text.as_ref() == "unlimited"
        {
            return Some(Self(Vec::new()));
        }
        let nodes = problems.take(node.at, node.list(EXPECTED))?;
        if nodes.is_empty() {
            problems.add(node.at, ProblemKind::Empty("quota (or `unlimited` in place of the list)"));
        }
        let quotas: Vec<_> = nodes.iter().filter_map(|node| At::read(node, problems)).collect();
        // An empty list means unlimited, and these are not.
        (!quotas.is_empty()).then_some(Self(quotas))
    }
}

impl Read for WrittenQuota {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let text = problems.take(node.at, node.text("a quota such as 5/1m"))?;
        let quota = text.parse::<Quota>().map_err(|error| match node.is_filled() {
            // The error repeats its text.
            true => node.expected("a quota such as 5/1m"),
            false => ProblemKind::Quota(error),
        });
        let quota = problems.take(node.at, quota)?;
        let written = if node.is_filled() { node.written().into() } else { quota.to_string().into() };
        Some(Self { quota, written })
    }
}

schema!(WrittenQuota: "Quota", _generator => json_schema!({
    "type": "string",
    "description": "At most so many in each window, such as 5/1m, 5/1m@first_hit, 5/1m@staggered or \
                    100/day@Europe/Berlin.",
    "examples": ["5/1m", "10000/day@Europe/Berlin"],
}));

schema!(QuotaList: "Quotas", generator => {
    let quota = generator.subschema_for::<WrittenQuota>();
    json_schema!({ "anyOf": [{ "type": "array", "items": quota, "minItems": 1 }, { "const": "unlimited" }] })
});
