//! Quotas by name: tiers, and the values of a table of overrides.

use std::collections::HashMap;

use schemars::json_schema;
use tollgate_yaml::{At, FilePlace, FromNode, Node, Position, ProblemKind, Problems, schema};

use super::quotas::{QuotaList, WrittenLimit};
use crate::problem::PolicyProblem;

/// Names or values, each with its quotas, in the order in which they are written.
#[derive(Debug, Clone, Default)]
pub(crate) struct NamedQuotas(pub(crate) Vec<(Box<str>, At<QuotaList>)>);

/// The name of a file in the same folder.
#[derive(Debug, Clone)]
pub(crate) struct FileBeside(pub(crate) Box<str>);

impl FromNode for NamedQuotas {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let entries = problems.take(node.at, node.mapping("names with quotas such as { acme: [10/1s] }"))?;
        let mut named = Vec::with_capacity(entries.len());
        for entry in entries {
            // A name is one also where its quotas cannot be read, which is a problem of its own.
            let value = QuotaList::read(&entry.node, problems).unwrap_or_default();
            named.push((entry.key.clone(), At { at: entry.at, end: entry.node.end, value }));
        }
        Some(Self(named))
    }
}

impl FromNode for FileBeside {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        problems.take(node.at, node.file_name()).map(|name| Self(name.into()))
    }
}

impl NamedQuotas {
    /// Reads the lines of a table: a value, a comma, and quotas as one text: `acme,10/1s,1000/1h`. Empty lines and
    /// those that begin with `#` are left out.
    pub(crate) fn of_lines(text: &str, file: u32, problems: &mut Problems) -> Self {
        let mut named = Vec::new();
        let mut seen: HashMap<Box<str>, Position> = HashMap::new();
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let at = |column| Position { file, line: number, column };
            let Some((name, quotas)) = value_and_rest(line) else {
                problems.add(at(1), PolicyProblem::TableLine);
                continue;
            };
            if let Some(first) = seen.get(&*name) {
                let first = FilePlace::seen_from(at(1), *first, &[]);
                problems.add(at(1), ProblemKind::DuplicateKey { key: name, first });
                continue;
            }
            seen.insert(name.clone(), at(1));
            let column = line.chars().count() - quotas.chars().count() + 1;
            let quotas = match quotas.trim() {
                "unlimited" => Ok(Vec::new()),
                limits => WrittenLimit::list(limits).map_err(PolicyProblem::Quota),
            };
            let limits = problems.take(at(column), quotas).unwrap_or_default().into_iter();
            let limits = limits.map(|value| At { at: at(column), end: at(column), value });
            let value = QuotaList::of(limits.collect(), problems);
            named.push((name, At { at: at(1), end: at(column), value }));
        }
        Self(named)
    }
}

/// A value, in quotes if it has a comma or a quote, and what follows its comma.
fn value_and_rest(line: &str) -> Option<(Box<str>, &str)> {
    let Some(quoted) = line.strip_prefix('"') else {
        return line.split_once(',').map(|(value, rest)| (value.trim().into(), rest));
    };
    let mut value = String::new();
    let mut rest = quoted;
    loop {
        let (part, after) = rest.split_once('"')?;
        value.push_str(part);
        match after.strip_prefix('"') {
            Some(after) => {
                value.push('"');
                rest = after;
            }
            None => return Some((value.into(), after.strip_prefix(',')?)),
        }
    }
}

schema!(FileBeside: "FileBeside", _generator => json_schema!({
    "type": "string",
    "pattern": r"^[^./\\][^/\\]*$",
    "examples": ["tenants.csv"],
}));

schema!(NamedQuotas: "NamedQuotas", generator => {
    json_schema!({ "type": "object", "additionalProperties": generator.subschema_for::<QuotaList>() })
});
