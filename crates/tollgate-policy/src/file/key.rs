//! Keys in their written form.

use schemars::json_schema;
use tollgate_yaml::{At, FromNode, Node, NodeValue, Position, ProblemKind, Problems, schema, section};

use crate::cost::whole_number;
use crate::problem::PolicyProblem;
use crate::{Attributes, Grouping, Identity};

section! {
    /// A key that needs more than a name.
    RawKey("a key") {
        /// The first of these that a request has.
        "first_of" first_of: Vec<At<Identity>>,
        /// An attribute by its name.
        #[schemars(length(min = 1, max = Attributes::MAX_NAME))]
        "attribute" attribute: Box<str>,
        /// An attribute whose value is an address.
        #[schemars(length(min = 1, max = Attributes::MAX_NAME))]
        "address" address: Box<str>,
        /// The number of leading bits of an IPv4 address that identify a client; 32 by default.
        "ipv4" ipv4: Bits<32>,
        /// The number of leading bits of an IPv6 address that identify a client; 64 by default.
        "ipv6" ipv6: Bits<128>,
    }
}

/// Leading bits of an address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bits<const MAX: u8>(u8);

impl FromNode for Identity {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        match &node.value {
            NodeValue::Scalar { text, .. } => {
                problems.take(node.at, Self::of_word(text).ok_or(PolicyProblem::AttributeName))
            }
            NodeValue::List(nodes) => identities(node, nodes, problems).map(Self::of_list),
            NodeValue::Mapping(_) => RawKey::read(node, problems)?.resolve(node, problems),
            NodeValue::Lines { .. } | NodeValue::Nothing => {
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
    let identities: Vec<At<Identity>> =
        nodes.iter().filter_map(|node| FromNode::read(node, problems)).collect();
    note_repeated(&identities, problems);
    let is_whole = !nodes.is_empty() && identities.len() == nodes.len();
    is_whole.then(|| identities.into_iter().map(|identity| identity.value).collect())
}

fn note_repeated(identities: &[At<Identity>], problems: &mut Problems) {
    for (index, identity) in identities.iter().enumerate() {
        let first = identities.iter().take(index).find(|first| first.value == identity.value);
        if let Some(first) = first {
            problems.add(identity.at, PolicyProblem::RepeatedIdentity { first: first.at });
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
            let ipv4 = self.ipv4.map_or(default.ipv4(), |bits| bits.value.0);
            let ipv6 = self.ipv6.map_or(default.ipv6(), |bits| bits.value.0);
            let name = attribute_name(&address.value, address.at, problems)?;
            // The bits were checked when they were read.
            return Some(Identity::Address(name.into(), Grouping::new(ipv4, ipv6).ok()?));
        }
        let attribute = self.attribute?;
        let name = attribute_name(&attribute.value, attribute.at, problems)?;
        Some(Identity::Attribute(name.into()))
    }
}

/// The name, if a request can have it.
pub(super) fn attribute_name(name: &str, at: Position, problems: &mut Problems) -> Option<Box<str>> {
    if !Attributes::is_name(name) {
        problems.add(at, PolicyProblem::AttributeName);
        return None;
    }
    Some(name.into())
}

impl<const MAX: u8> FromNode for Bits<MAX> {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let bits = node.parsed(&format!("a whole number from 0 to {MAX}"), |text| {
            u8::try_from(whole_number(text)?).ok().filter(|bits| *bits <= MAX)
        });
        problems.take(node.at, bits).map(Self)
    }
}

schema!(Bits<32>: "BitsOfIpv4", _generator => json_schema!({ "type": "integer", "minimum": 0, "maximum": 32 }));

schema!(Bits<128>: "BitsOfIpv6", _generator => json_schema!({ "type": "integer", "minimum": 0, "maximum": 128 }));

schema!(Identity: "Key", generator => {
    let (this, other) = (generator.subschema_for::<Identity>(), generator.subschema_for::<RawKey>());
    let name = json_schema!({ "type": "string", "minLength": 1, "maxLength": Attributes::MAX_NAME });
    json_schema!({ "anyOf": [name, { "type": "array", "items": this, "minItems": 1 }, other] })
});
