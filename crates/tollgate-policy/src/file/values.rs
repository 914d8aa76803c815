//! Values that are checked alone: quotas, keys, costs, words and numbers.

use std::borrow::Cow;
use std::num::NonZeroU32;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use tollgate::{LocalShare, Quota};

use super::read::{At, Read, section, words};
use super::tree::{Node, Value};
use crate::cost::whole_number;
use crate::problem::{Hint, Problems};
use crate::{Attributes, Grouping, HeaderFormat, Identity, Mode, OnMissingKey, Position, ProblemKind};

/// Quotas, all or nothing; none only where `unlimited` is written.
#[derive(Debug, Clone)]
pub(crate) struct QuotaList(pub(crate) Vec<At<WrittenQuota>>);

/// A quota in its written form.
#[derive(Debug, Clone)]
pub(crate) struct WrittenQuota(pub(crate) Quota);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureWord {
    Open,
    Closed,
    Local,
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

/// The cost as it is written.
#[derive(Debug)]
pub(crate) enum RawCost {
    Fixed(u32),
    Attribute(CostAttribute),
}

words!(Mode: "mode" [Mode::Enforce, Mode::Shadow, Mode::Off]);

words!(FailureWord: "on_store_failure" [FailureWord::Open, FailureWord::Closed, FailureWord::Local]);

words!(HeaderFormat: "header format" [
    HeaderFormat::Draft11,
    HeaderFormat::Draft06,
    HeaderFormat::XRateLimit,
    HeaderFormat::None
]);

words!(OnMissingKey: "on_missing_key" [OnMissingKey::Error, OnMissingKey::Deny, OnMissingKey::Skip]);

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
    /// A cost that an attribute says.
    CostAttribute("the cost") {
        /// The attribute, whose value is a whole number.
        #[schemars(required)]
        "attribute" attribute: Box<str>,
        /// The most that it may say.
        #[schemars(required)]
        "max" max: Number,
    }
}

section! {
    /// Who is counted, where a name alone does not say it.
    RawKey("a key") {
        /// The first of these that a request has.
        "first_of" first_of: Vec<At<Identity>>,
        /// An attribute by its name.
        "attribute" attribute: Box<str>,
        /// An attribute whose value is an address.
        "address" address: Box<str>,
        /// How many leading bits of an IPv4 address make one client; 32 if left out.
        "ipv4" ipv4: Bits<32>,
        /// How many leading bits of an IPv6 address make one client; 64 if left out.
        "ipv6" ipv6: Bits<128>,
    }
}

/// Leading bits of an address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bits<const MAX: u8>(u8);

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
        let quota = text.parse().map(Self).map_err(|error| {
            // The error repeats its text, which here may come from a variable.
            if text == node.written() {
                ProblemKind::Quota(error)
            } else {
                node.expected("a quota such as 5/1m")
            }
        });
        problems.take(node.at, quota)
    }
}

impl Read for Share {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let text = problems.take(node.at, node.text("a share such as 1/3"))?;
        let share = text.parse().map_err(|error| ProblemKind::LocalShare(node.written().into(), error));
        problems.take(node.at, share.map(Self))
    }
}

impl Read for Status {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let status = node.parsed("an HTTP status from 400 to 599", |text| {
            let number = whole_number(text).filter(|number| (400..=599).contains(number))?;
            u16::try_from(number).ok()
        });
        problems.take(node.at, status).map(Self)
    }
}

impl Read for Number {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let number = node.parsed("a whole number from 1 to 4294967295", |text| {
            let number = u32::try_from(whole_number(text)?).ok()?;
            NonZeroU32::new(number)
        });
        problems.take(node.at, number).map(|number| Self(number.get()))
    }
}

impl<const MAX: u8> Read for Bits<MAX> {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let bits = node.parsed(&format!("a whole number from 0 to {MAX}"), |text| {
            u8::try_from(whole_number(text)?).ok().filter(|bits| *bits <= MAX)
        });
        problems.take(node.at, bits).map(Self)
    }
}

impl Read for RawCost {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        match node.value {
            Value::Mapping(_) => Read::read(node, problems).map(Self::Attribute),
            _ => Number::read(node, problems).map(|number| Self::Fixed(number.0)),
        }
    }
}

impl Read for Identity {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        match &node.value {
            Value::Scalar { text, .. } => match text.as_ref() {
                "global" => Some(Self::Global),
                "ip" => Some(Self::Address(text.clone(), Grouping::default())),
                _ => attribute_name(text, node, problems).map(Self::Attribute),
            },
            Value::List(nodes) => {
                identities(node, nodes, problems).map(|parts| match <[Self; 1]>::try_from(parts) {
                    Ok([only]) => only,
                    Err(parts) => Self::All(parts.into()),
                })
            }
            Value::Mapping(_) => RawKey::read(node, problems)?.resolve(node, problems),
            Value::Nothing => {
                problems.add(node.at, node.expected("a key such as [user] or global"));
                None
            }
        }
    }
}

fn identities(node: &Node, nodes: &[Node], problems: &mut Problems) -> Option<Vec<Identity>> {
    if nodes.is_empty() {
        problems.add(node.at, ProblemKind::Empty("attribute (or `global` for one counter that all share)"));
    }
    let identities: Vec<At<Identity>> = nodes.iter().filter_map(|node| Read::read(node, problems)).collect();
    note_repeated(&identities, problems);
    let is_whole = !nodes.is_empty() && identities.len() == nodes.len();
    is_whole.then(|| identities.into_iter().map(|identity| identity.value).collect())
}

fn note_repeated(identities: &[At<Identity>], problems: &mut Problems) {
    for (index, identity) in identities.iter().enumerate() {
        let first = identities.iter().take(index).find(|first| first.value == identity.value);
        if let Some(first) = first {
            problems.add(identity.at, ProblemKind::RepeatedIdentity { first: first.at });
        }
    }
}

impl RawKey {
    fn resolve(self, node: &Node, problems: &mut Problems) -> Option<Identity> {
        let given = [self.first_of.is_some(), self.attribute.is_some(), self.address.is_some()];
        if given.into_iter().filter(|is_given| *is_given).count() != 1 {
            problems.add(node.at, node.expected("exactly one of first_of, attribute and address"));
            return None;
        }
        let bits = self.ipv4.as_ref().map(|bits| (bits.at, "ipv4"));
        let bits = bits.or_else(|| self.ipv6.as_ref().map(|bits| (bits.at, "ipv6")));
        if let (Some((at, key)), None) = (bits, &self.address) {
            problems.add(at, ProblemKind::Needless { section: "a key that is no `address`", key });
        }
        if let Some(choices) = self.first_of {
            if choices.value.is_empty() {
                problems.add(choices.at, ProblemKind::Empty("attribute"));
                return None;
            }
            note_repeated(&choices.value, problems);
            return Some(Identity::FirstOf(choices.value.into_iter().map(|choice| choice.value).collect()));
        }
        if let Some(address) = self.address {
            let default = Grouping::default();
            let ipv4 = self.ipv4.map_or(default.ipv4, |bits| bits.value.0);
            let ipv6 = self.ipv6.map_or(default.ipv6, |bits| bits.value.0);
            let name = attribute_name(&address.value, node, problems)?;
            return Some(Identity::Address(name, Grouping { ipv4, ipv6 }));
        }
        attribute_name(&self.attribute?.value, node, problems).map(Identity::Attribute)
    }
}

/// The name, if a request can have it.
pub(super) fn attribute_name(name: &str, node: &Node, problems: &mut Problems) -> Option<Box<str>> {
    if !(1..=Attributes::MAX_NAME).contains(&name.chars().count()) {
        problems.add(node.at, ProblemKind::AttributeName);
        return None;
    }
    Some(name.into())
}

/// What a value looks like, for editors. Everything that a text can say may come from an environment variable.
macro_rules! schema {
    ($({$($generics:tt)*})? $type:ty: $name:literal, $generator:ident => $schema:expr) => {
        impl$(<$($generics)*>)? JsonSchema for $type {
            fn inline_schema() -> bool {
                false
            }

            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema($generator: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
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

schema!(Share: "Share", _generator => json_schema!({
    "description": "Above 0, at most 1, such as 1/3 or 0.25.",
    "type": ["string", "number"],
}));

schema!(Status: "Status", _generator => json_schema!({ "type": "integer", "minimum": 400, "maximum": 599 }));

schema!(Number: "Number", _generator => json_schema!({ "type": "integer", "minimum": 1, "maximum": u32::MAX }));

schema!(Bits<32>: "BitsOfIpv4", _generator => json_schema!({ "type": "integer", "minimum": 0, "maximum": 32 }));

schema!(Bits<128>: "BitsOfIpv6", _generator => json_schema!({ "type": "integer", "minimum": 0, "maximum": 128 }));

schema!(RawCost: "Cost", generator => {
    let (fixed, attribute) = (generator.subschema_for::<Number>(), generator.subschema_for::<CostAttribute>());
    json_schema!({ "anyOf": [fixed, attribute] })
});

schema!(Identity: "Key", generator => {
    let (this, other) = (generator.subschema_for::<Identity>(), generator.subschema_for::<RawKey>());
    json_schema!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": this, "minItems": 1 }, other] })
});
