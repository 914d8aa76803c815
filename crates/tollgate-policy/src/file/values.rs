//! Values that are checked by themselves: words, numbers, shares and costs.

use std::num::NonZeroU32;

use schemars::json_schema;
use tollgate::{LocalShare, Quota};
use tollgate_yaml::{FromNode, Node, NodeValue, OneOrMany, Problems, schema, section, words};

use crate::cost::whole_number;
use crate::problem::PolicyProblem;
use crate::{
    HeaderFormat, HeaderFormats, Mode, OnMissingCost, OnMissingKey, OnMissingLimit, Overrun,
    UnmatchedRequests,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureWord {
    Open,
    Closed,
    Local,
}

/// A format of headers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FormatWord(pub(crate) HeaderFormat);

/// Formats of headers that are sent together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FormatWords(pub(crate) HeaderFormats);

/// The handling of a request whose counters are in several slots of a Cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AcrossSlots {
    Refuse,
    Reserve,
}

/// The part of a limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share(pub(crate) LocalShare);

/// An HTTP status of an error.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Status(pub(crate) u16);

/// A whole number from 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Number(pub(crate) u32);

/// A whole number, 0 included.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Count(pub(crate) u32);

/// The limit of a quota, from 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit(pub(crate) u64);

/// The cost as written.
#[derive(Debug)]
pub(crate) enum RawCost {
    Fixed(u32),
    Attribute(Box<RawCostAttribute>),
}

words!(Mode: "mode" [Mode::Enforce, Mode::Shadow, Mode::Off]);

words!(UnmatchedRequests: "unmatched" [UnmatchedRequests::Allow, UnmatchedRequests::Deny]);

words!(FailureWord: "on_store_failure" [FailureWord::Open, FailureWord::Closed, FailureWord::Local]);

words!(AcrossSlots: "across_slots" [AcrossSlots::Refuse, AcrossSlots::Reserve]);

words!(FormatWord: "header format" [
    FormatWord(HeaderFormat::Draft11),
    FormatWord(HeaderFormat::Draft06),
    FormatWord(HeaderFormat::XRateLimit),
    FormatWord(HeaderFormat::GitHub),
    FormatWord(HeaderFormat::Kong),
    FormatWord(HeaderFormat::Envoy),
    FormatWord(HeaderFormat::None)
]);

words!(OnMissingKey: "on_missing_key" [OnMissingKey::Error, OnMissingKey::Deny, OnMissingKey::Skip]);

words!(Overrun: "overrun" [Overrun::Charge, Overrun::Cap]);

impl FromNode for FormatWords {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let OneOrMany(words) = OneOrMany::<FormatWord>::read(node, problems)?;
        if words.is_empty() {
            // Each has its problem.
            return None;
        }
        let is_filled = match &node.value {
            NodeValue::List(nodes) => nodes.iter().any(Node::is_filled),
            _ => node.is_filled(),
        };
        let formats = HeaderFormats::new(words.iter().map(|word| word.value.0));
        let formats = formats.map_err(|error| match is_filled {
            // The error repeats the words.
            true => node.expected("formats of headers that go together"),
            false => PolicyProblem::HeaderFormats(error).into(),
        });
        problems.take(node.at, formats).map(Self)
    }
}

schema!(FormatWords: "HeaderFormats", generator => {
    generator.subschema_for::<OneOrMany<FormatWord>>()
});

impl FormatWord {
    const fn name(self) -> &'static str {
        self.0.name()
    }
}

impl AcrossSlots {
    const fn name(self) -> &'static str {
        match self {
            Self::Refuse => "refuse",
            Self::Reserve => "reserve",
        }
    }
}

impl FailureWord {
    const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Local => "local",
        }
    }
}

section! {
    /// A cost from an attribute.
    RawCostAttribute("the cost") {
        /// The attribute, whose value is a whole number.
        #[schemars(required, length(min = 1, max = crate::Attributes::MAX_NAME))]
        "attribute" attribute: Box<str>,
        /// The largest cost; a higher value is the caller's error.
        #[schemars(required)]
        "max" max: Number,
        /// The smallest cost; lower values are raised to it. Default: 1.
        "min" min: Count,
        /// The cost if the attribute is missing or not a whole number: a number, `asked` (the units that the caller
        /// requests), or `error` (the caller's error). Default: `error`.
        "on_missing" on_missing: OnMissingCost,
    }
}

impl FromNode for Share {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let text = problems.take(node.at, node.text("a share such as 1/3"))?;
        let share = text.parse().map_err(|error| PolicyProblem::LocalShare(node.written().into(), error));
        problems.take(node.at, share.map(Self))
    }
}

impl FromNode for Status {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let status = node.parsed("an HTTP status from 400 to 599", |text| {
            let number = whole_number(text).filter(|number| (400..=599).contains(number))?;
            u16::try_from(number).ok()
        });
        problems.take(node.at, status).map(Self)
    }
}

impl FromNode for Number {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let number = node.parsed("a whole number from 1 to 4294967295", |text| {
            let number = u32::try_from(whole_number(text)?).ok()?;
            NonZeroU32::new(number)
        });
        problems.take(node.at, number).map(|number| Self(number.get()))
    }
}

impl FromNode for Count {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let number = node
            .parsed("a whole number from 0 to 4294967295", |text| u32::try_from(whole_number(text)?).ok());
        problems.take(node.at, number).map(Self)
    }
}

impl FromNode for OnMissingCost {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let cost = node.parsed("error, asked or a whole number from 1 to 4294967295", |text| match text {
            "error" => Some(Self::Error),
            "asked" => Some(Self::Asked),
            _ => Some(Self::Fixed(NonZeroU32::new(whole_number(text)?.try_into().ok()?)?.get())),
        });
        problems.take(node.at, cost)
    }
}

impl FromNode for Limit {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let limit = node.parsed(&format!("a whole number from 1 to {}", Quota::MAX_LIMIT), |text| {
            whole_number(text).filter(|limit| (1..=Quota::MAX_LIMIT).contains(limit))
        });
        problems.take(node.at, limit).map(Self)
    }
}

impl FromNode for OnMissingLimit {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let limit = node.parsed("error or a whole number", |text| match text {
            "error" => Some(Self::Error),
            _ => whole_number(text).map(Self::Fixed),
        });
        problems.take(node.at, limit)
    }
}

impl FromNode for RawCost {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        match node.value {
            NodeValue::Mapping(_) => {
                FromNode::read(node, problems).map(|cost| Self::Attribute(Box::new(cost)))
            }
            _ => Number::read(node, problems).map(|number| Self::Fixed(number.0)),
        }
    }
}

schema!(Share: "Share", _generator => json_schema!({
    "description": "Above 0, at most 1, such as 1/3 or 0.25.",
    "type": ["string", "number"],
}));

schema!(Status: "Status", _generator => json_schema!({ "type": "integer", "minimum": 400, "maximum": 599 }));

schema!(Number: "Number", _generator => json_schema!({ "type": "integer", "minimum": 1, "maximum": u32::MAX }));

schema!(Count: "Count", _generator => json_schema!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }));

schema!(OnMissingCost: "OnMissingCost", generator => {
    json_schema!({ "anyOf": [{ "enum": ["error", "asked"] }, generator.subschema_for::<Number>()] })
});

schema!(Limit: "Limit", _generator => {
    json_schema!({ "type": "integer", "minimum": 1, "maximum": Quota::MAX_LIMIT })
});

schema!(OnMissingLimit: "OnMissingLimit", _generator => {
    json_schema!({ "anyOf": [{ "const": "error" }, { "type": "integer", "minimum": 0, "maximum": Quota::MAX_LIMIT }] })
});

schema!(RawCost: "Cost", generator => {
    let (fixed, attribute) =
        (generator.subschema_for::<Number>(), generator.subschema_for::<RawCostAttribute>());
    json_schema!({ "anyOf": [fixed, attribute] })
});
