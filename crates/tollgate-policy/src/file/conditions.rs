//! Conditions on attributes, as written.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use tollgate_yaml::{
    At, FromNode, MappingEntry, Node, NodeValue, OneOrMany, ProblemKind, Problems, schema, section,
};

use super::key::attribute_name;
use super::named_quotas::FileBeside;
use crate::conditions::ANY;
use crate::problem::{PolicyProblem, count_expression};
use crate::{Attributes, Condition, Conditions, Expression, List, Network, Pattern, Test};

/// A network, as a file has it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cidr(Network);

/// A text as it is. An empty one has to be written so: of a variable it would be a mistake.
#[derive(Debug)]
pub(crate) struct Literal(Box<str>);

/// `true`. The opposite of a test for presence has its own name, so that each is written in one way.
#[derive(Debug)]
pub(crate) struct Presence(bool);

/// The prefixes of texts.
#[derive(Debug)]
pub(crate) struct Prefix(Box<str>);

/// A regular expression as it is written. The value of a variable would be special in it.
#[derive(Debug)]
pub(crate) struct ExpressionText(Box<str>);

impl FromNode for ExpressionText {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        const EXPECTED: &str = "a regular expression without variables";
        let text = node.text(EXPECTED).and_then(|text| match node.is_filled() {
            true => Err(node.expected(EXPECTED)),
            false => Ok(Self(text.into())),
        });
        problems.take(node.at, text)
    }
}

/// The texts of a file.
#[derive(Debug)]
pub(crate) struct TextsOf(pub(super) List);

/// The networks of a file.
#[derive(Debug)]
pub(crate) struct NetworksOf(pub(super) List);

impl FromNode for TextsOf {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let (file, lines) = problems.take(node.at, node.lines())?;
        let texts = lines.iter().filter_map(|line| line.text("a text").ok()).map(Into::into);
        Some(Self(List::of_texts(file, texts.collect())))
    }
}

impl FromNode for NetworksOf {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let (file, lines) = problems.take(node.at, node.lines())?;
        let networks: Vec<Network> =
            lines.iter().filter_map(|line| Cidr::read(line, problems)).map(|network| network.0).collect();
        Some(Self(List::of_networks(file, &networks)))
    }
}

section! {
    /// Tests by their names; all of them have to hold.
    RawTest("a test") {
        /// Exactly this text, without patterns.
        "equal" equal: Literal,
        /// One of these patterns, with `*` and `?`.
        "one_of" one_of: OneOrMany<Pattern>,
        /// A text with this prefix.
        "prefix" prefix: Prefix,
        /// A text that matches this pattern: `*` matches any characters or none, `?` one.
        "glob" glob: Pattern,
        /// A regular expression that matches the whole text.
        "regex" regex: ExpressionText,
        /// Whether the texts and expressions of this test ignore case.
        "ignore_case" ignore_case: bool,
        /// An address in one of these networks.
        "cidr" cidr: OneOrMany<Cidr>,
        /// One of the texts in a file in the same folder, one on each line, without patterns.
        "one_of_from" one_of_from: TextsOf,
        /// An address in one of the networks in a file in the same folder: one on each line.
        "cidr_from" cidr_from: NetworksOf,
        /// `true`: a key can use the value, because it is one text and not empty.
        "present" present: Presence,
        /// `true`: no key can use the value, because it is missing, empty or a list.
        "absent" absent: Presence,
        /// A test that must not hold.
        "not" not: Test,
    }
}

impl FromNode for Conditions {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let entries = entries(node, problems)?;
        let (any, tests): (Vec<&MappingEntry>, Vec<&MappingEntry>) =
            entries.iter().partition(|entry| entry.key.as_ref() == ANY);
        let all = conditions(tests, problems);
        let any = any.into_iter().flat_map(|entry| alternatives(&entry.node, problems)).collect();
        Some(Self { all, any })
    }
}

fn entries<'a>(node: &'a Node, problems: &mut Problems) -> Option<&'a [MappingEntry]> {
    let entries = problems.take(node.at, node.mapping("attributes such as { path: /search }"))?;
    if entries.is_empty() {
        problems.add(node.at, ProblemKind::Empty("attribute such as { path: /search }"));
    }
    Some(entries)
}

/// The conditions of these lines. Each is one for itself, so that any of them can be looked up.
fn conditions<'a>(
    entries: impl IntoIterator<Item = &'a MappingEntry>,
    problems: &mut Problems,
) -> Vec<Condition> {
    let mut conditions = Vec::new();
    for entry in entries {
        let name = attribute_name(&entry.key, entry.at, problems);
        let (Some(attribute), Some(test)) = (name, Test::read(&entry.node, problems)) else { continue };
        match test {
            Test::All(tests) => conditions
                .extend(tests.into_iter().map(|test| Condition { attribute: attribute.clone(), test })),
            test => conditions.push(Condition { attribute, test }),
        }
    }
    conditions
}

/// Those that cannot be read at all are left out.
fn alternatives(node: &Node, problems: &mut Problems) -> Vec<Vec<Condition>> {
    let list = node.list("a list of matches such as [{ path: /login }, { path: /token }]");
    let nodes = problems.take(node.at, list).unwrap_or_default();
    if matches!(&node.value, NodeValue::List(nodes) if nodes.is_empty()) {
        problems.add(node.at, ProblemKind::Empty("match such as { path: /login }"));
    }
    let mut alternatives = Vec::with_capacity(nodes.len());
    for node in nodes {
        let Some(entries) = entries(node, problems) else { continue };
        for nested in entries.iter().filter(|entry| entry.key.as_ref() == ANY) {
            problems.add(nested.at, ProblemKind::Needless { section: "a match within `any`", key: ANY });
        }
        let tests = entries.iter().filter(|entry| entry.key.as_ref() != ANY);
        alternatives.push(conditions(tests, problems));
    }
    alternatives.retain(|conditions| !conditions.is_empty());
    alternatives
}

impl FromNode for Test {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        match &node.value {
            NodeValue::Mapping(_) => RawTest::read(node, problems)?.resolve(node, problems),
            NodeValue::Nothing => {
                let expected = "a text, a list of texts or a test such as { prefix: /api/ }";
                problems.add(node.at, node.expected(expected));
                None
            }
            _ => {
                let patterns = OneOrMany::<Pattern>::read(node, problems)?;
                one_of(patterns)
            }
        }
    }
}

/// `None` if none of them could be read.
fn one_of(patterns: OneOrMany<Pattern>) -> Option<Test> {
    let patterns = values(patterns);
    (!patterns.is_empty()).then(|| Test::OneOf(patterns.into()))
}

fn values(OneOrMany(patterns): OneOrMany<Pattern>) -> Vec<Pattern> {
    patterns.into_iter().map(|pattern| pattern.value).collect()
}

impl RawTest {
    fn resolve(self, node: &Node, problems: &mut Problems) -> Option<Test> {
        let ignores_case = self.ignore_case.as_ref().is_some_and(|ignores| ignores.value);
        let one_of = |patterns: Vec<Pattern>| match ignores_case {
            true => Test::ignoring_case(patterns),
            false => Test::OneOf(patterns.into()),
        };
        let mut tests = Vec::new();
        tests.extend(self.equal.map(|text| one_of(vec![Pattern::Exact(text.value.0)])));
        let patterns =
            self.one_of.map(|patterns| values(patterns.value)).filter(|patterns| !patterns.is_empty());
        tests.extend(patterns.map(one_of));
        tests.extend(self.prefix.map(|text| one_of(vec![Pattern::Prefix(text.value.0)])));
        tests.extend(self.glob.map(|pattern| one_of(vec![pattern.value])));
        if let Some(At { at, value: ExpressionText(text), .. }) = self.regex {
            let expression = count_expression(problems)
                .and_then(|()| Expression::new(&text, ignores_case).map_err(PolicyProblem::Expression));
            tests.extend(problems.take(at, expression).map(Test::Matches));
        }
        if let Some(ignores) = self.ignore_case.filter(|_| tests.is_empty()) {
            let section = "a test without `equal`, `one_of`, `prefix`, `glob` and `regex`";
            problems.add(ignores.at, ProblemKind::Needless { section, key: "ignore_case" });
        }
        tests.extend(self.cidr.map(|networks| Cidr::test(networks.value)));
        tests.extend(self.one_of_from.map(|list| Test::In(list.value.0)));
        tests.extend(self.cidr_from.map(|list| Test::In(list.value.0)));
        tests.extend(Presence::test(self.present, Test::Present, "absent", problems));
        tests.extend(Presence::test(self.absent, Test::Absent, "present", problems));
        tests.extend(self.not.map(|test| Test::Not(test.value.into())));
        match <[Test; 1]>::try_from(tests) {
            Ok([only]) => Some(only),
            Err(tests) if tests.is_empty() => {
                if matches!(&node.value, NodeValue::Mapping(entries) if entries.is_empty()) {
                    problems.add(node.at, ProblemKind::Empty("test such as { prefix: /api/ }"));
                }
                None
            }
            Err(tests) => Some(Test::All(tests.into())),
        }
    }
}

impl FromNode for Presence {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        bool::read(node, problems).map(Self)
    }
}

impl Presence {
    /// Returns the test, or notes that the opposite is written in another way.
    fn test(
        given: Option<At<Self>>,
        test: Test,
        opposite: &'static str,
        problems: &mut Problems,
    ) -> Option<Test> {
        let At { at, value: Self(is_true), .. } = given?;
        problems.take(at, is_true.then_some(test).ok_or(PolicyProblem::Opposite(opposite)))
    }
}

impl FromNode for Literal {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let text = problems.take(node.at, node.text("a text"))?;
        let is_meant = !text.is_empty() || !node.is_filled();
        problems.take(node.at, is_meant.then(|| Self(text.into())).ok_or(PolicyProblem::EmptyVariable))
    }
}

impl FromNode for Prefix {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let Literal(text) = FromNode::read(node, problems)?;
        problems.take(node.at, (!text.is_empty()).then_some(Self(text)).ok_or(PolicyProblem::EmptyPrefix))
    }
}

impl FromNode for Pattern {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        problems.take(node.at, pattern(node))
    }
}

/// Where variables stand, `*` and `?` are characters like others.
fn pattern(node: &Node) -> Result<Pattern, ProblemKind> {
    let NodeValue::Scalar { text, filled, .. } = &node.value else { return Err(node.expected("a text")) };
    if filled.is_empty() {
        return Ok(Pattern::new(text));
    }
    let (plain, special): (Vec<_>, Vec<_>) =
        text.match_indices(['*', '?']).partition(|(at, _)| filled.iter().any(|filled| filled.contains(at)));
    // Without what was to stand there, it would fit every value.
    if text.len() == special.len() {
        return Err(PolicyProblem::EmptyVariable.into());
    }
    match special.as_slice() {
        [] => Ok(Pattern::Exact(text.clone())),
        [(at, "*")] if at + 1 == text.len() => Ok(Pattern::Prefix(text.split_at(*at).0.into())),
        _ if plain.is_empty() => Ok(Pattern::Glob(text.clone())),
        _ => Err(PolicyProblem::SpecialVariable.into()),
    }
}

impl Cidr {
    pub(super) fn test(OneOrMany(networks): OneOrMany<Self>) -> Test {
        Test::Within(networks.into_iter().map(|network| network.value.0).collect())
    }
}

impl FromNode for Cidr {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let text = problems.take(node.at, node.text("a network such as 10.0.0.0/8"))?;
        let network = text.parse().map_err(|error| match node.is_filled() {
            // The error may say which network was meant.
            true => node.expected("a network such as 10.0.0.0/8"),
            false => PolicyProblem::Network(text.into(), error).into(),
        });
        problems.take(node.at, network).map(Self)
    }
}

impl JsonSchema for Conditions {
    fn schema_name() -> Cow<'static, str> {
        "Conditions".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let test = generator.subschema_for::<Test>();
        let name = json_schema!({ "minLength": 1, "maxLength": Attributes::MAX_NAME });
        let alternative = json_schema!({
            "type": "object",
            "propertyNames": { "allOf": [name, { "not": { "const": ANY } }] },
            "additionalProperties": test,
            "minProperties": 1,
        });
        json_schema!({
            "type": "object",
            "propertyNames": name,
            "properties": { ANY: {
                "description": "Matches, of which at least one must hold in full.",
                "type": "array",
                "items": alternative,
                "minItems": 1,
            } },
            "additionalProperties": test,
            "minProperties": 1,
        })
    }
}

impl JsonSchema for Test {
    fn schema_name() -> Cow<'static, str> {
        "Test".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let pattern = generator.subschema_for::<Pattern>();
        let tests = generator.subschema_for::<RawTest>();
        json_schema!({ "anyOf": [pattern, { "type": "array", "items": pattern, "minItems": 1 }, tests] })
    }
}

impl JsonSchema for Pattern {
    fn schema_name() -> Cow<'static, str> {
        "Pattern".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A text; `*` matches any characters or none, `?` one.",
            "type": ["string", "number", "boolean"],
        })
    }
}

schema!(ExpressionText: "Expression", _generator => {
    json_schema!({ "type": "string", "format": "regex", "maxLength": Expression::MAX_CHARACTERS })
});

schema!(TextsOf: "TextsOf", generator => generator.subschema_for::<FileBeside>());

schema!(NetworksOf: "NetworksOf", generator => generator.subschema_for::<FileBeside>());

schema!(Presence: "Presence", _generator => json_schema!({ "const": true }));

schema!(Literal: "Literal", _generator => json_schema!({ "type": "string" }));

schema!(Prefix: "Prefix", _generator => json_schema!({ "type": "string", "minLength": 1 }));

impl JsonSchema for Cidr {
    fn schema_name() -> Cow<'static, str> {
        "Network".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "examples": ["10.0.0.0/8", "2001:db8::/32"] })
    }
}
