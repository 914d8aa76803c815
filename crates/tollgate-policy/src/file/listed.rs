//! Lists of clients that are exempt or denied, as written.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use tollgate_yaml::{FILE_SUFFIX, FromNode, Node, OneOrMany, ProblemKind, Problems};

use super::conditions::{Cidr, NetworksOf, TextsOf};
use super::key::attribute_name;
use super::named_quotas::FileBeside;
use crate::conditions::ANY;
use crate::{Attributes, Condition, Pattern, Test};

/// Attributes with their values; a request that has one of them is on the list.
#[derive(Debug)]
pub(crate) struct ClientList(pub(crate) Vec<Condition>);

impl FromNode for ClientList {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let entries = problems.take(node.at, node.mapping("attributes such as { ip_from: networks.txt }"))?;
        if entries.is_empty() {
            problems.add(node.at, ProblemKind::Empty("attribute such as { ip_from: networks.txt }"));
        }
        let mut conditions = Vec::new();
        for entry in entries {
            let (name, is_file) = match entry.key.strip_suffix(FILE_SUFFIX) {
                Some(name) => (name, true),
                None => (&*entry.key, false),
            };
            if name == ANY {
                problems.add(entry.at, ProblemKind::Needless { section: "a list of clients", key: ANY });
                continue;
            }
            let Some(attribute) = attribute_name(name, entry.at, problems) else { continue };
            let test = match (&*attribute, is_file) {
                ("ip", false) => OneOrMany::<Cidr>::read(&entry.node, problems).map(Cidr::test),
                ("ip", true) => NetworksOf::read(&entry.node, problems).map(|list| Test::In(list.0)),
                (_, false) => OneOrMany::<Pattern>::read(&entry.node, problems)
                    .map(|texts| Test::OneOf(texts.0.into_iter().map(|text| text.value).collect())),
                (_, true) => TextsOf::read(&entry.node, problems).map(|list| Test::In(list.0)),
            };
            conditions.extend(test.map(|test| Condition { attribute, test }));
        }
        Some(Self(conditions))
    }
}

impl JsonSchema for ClientList {
    fn schema_name() -> Cow<'static, str> {
        "ClientList".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (text, file) = (generator.subschema_for::<Pattern>(), generator.subschema_for::<FileBeside>());
        json_schema!({
            "type": "object",
            "propertyNames": { "minLength": 1, "maxLength": Attributes::MAX_NAME, "not": { "enum": [ANY, "any_from"] } },
            "patternProperties": { "_from$": file },
            "additionalProperties": { "anyOf": [text, { "type": "array", "items": text, "minItems": 1 }] },
            "minProperties": 1,
        })
    }
}
