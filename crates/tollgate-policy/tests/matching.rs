//! The index finds what a look at every policy finds.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tollgate_policy::{AttributeValue, Attributes, Condition, Config, Network, Policy};

/// The alphabet is small, so that values, prefixes and networks meet and lie within each other. Texts are put
/// together here, because a regular expression would be compiled anew for each.
fn text(alphabet: &'static [char], lengths: std::ops::Range<usize>) -> impl Strategy<Value = String> + Clone {
    prop::collection::vec(prop::sample::select(alphabet), lengths).prop_map(String::from_iter)
}

fn plain() -> impl Strategy<Value = String> + Clone {
    prop_oneof![5 => text(&['a', 'b', '/'], 0..5), 1 => Just("GET".to_owned()), 1 => Just("HEAD".to_owned())]
}

fn name() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&["x", "y", "method"][..])
}

fn network() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("0.0.0.0/0".to_owned()),
        Just("10.0.0.0/8".to_owned()),
        (0_u8..3).prop_map(|a| format!("10.{a}.0.0/16")),
        // Lengths between those that the index has steps for.
        (8_u8..=32).prop_map(|length| format!("{}", Network::of([10, 1, 0, 1].into(), length))),
        (32_u8..=48)
            .prop_map(|length| format!("{}", Network::of([0x2001, 0xdb8, 1, 0, 0, 0, 0, 0].into(), length))),
        (0_u8..3, 0_u8..3).prop_map(|(a, b)| format!("10.{a}.0.{b}")),
        Just("::/0".to_owned()),
        (0_u8..3).prop_map(|a| format!("2001:db8:{a}::/48")),
    ]
}

/// A test as it is written, quoted where YAML would take it for something else.
fn test() -> impl Strategy<Value = String> {
    let texts = || prop::collection::vec(plain(), 1..4).prop_map(|texts| format!("{texts:?}"));
    let globs = prop::collection::vec(text(&['a', 'b', '/', '*', '?', 'G', 'E', 'H'], 1..5), 1..3)
        .prop_map(|globs| format!("{globs:?}"));
    let networks = prop::collection::vec(network(), 1..3).prop_map(|networks| format!("{networks:?}"));
    let leaf = prop_oneof![
        4 => plain().prop_map(|text| format!("{{ equal: {text:?} }}")),
        3 => text(&['a', 'b', '/'], 1..5).prop_map(|text| format!("{{ prefix: {text:?} }}")),
        2 => texts().prop_map(|texts| format!("{{ one_of: {texts} }}")),
        2 => globs,
        3 => networks.prop_map(|networks| format!("{{ cidr: {networks} }}")),
        1 => any::<bool>().prop_map(|is_present| format!("{{ present: {is_present} }}")),
        1 => (text(&['a', 'b', '/'], 1..4), text(&['a', 'b', '/'], 1..5))
            .prop_map(|(a, b)| format!("{{ prefix: {a:?}, not: {{ prefix: {b:?} }} }}")),
    ];
    prop_oneof![5 => leaf.clone(), 1 => leaf.prop_map(|test| format!("{{ not: {test} }}"))]
}

fn lines(conditions: &BTreeMap<&str, String>) -> Vec<String> {
    conditions.iter().map(|(name, test)| format!("{name:?}: {test}")).collect()
}

fn file() -> impl Strategy<Value = String> {
    let conditions = |least| prop::collection::btree_map(name(), test(), least..3);
    let alternatives = prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(conditions(1), 1..4)];
    prop::collection::vec((conditions(0), alternatives, prop::bool::weighted(0.1)), 0..20).prop_map(
        |policies| {
            let mut text = "policies:\n".to_owned();
            if policies.is_empty() {
                text = "policies: []\n".to_owned();
            }
            for (number, (conditions, any, is_exempt)) in policies.into_iter().enumerate() {
                let mut lines = lines(&conditions);
                let any: Vec<String> =
                    any.iter().map(|any| format!("{{ {} }}", self::lines(any).join(", "))).collect();
                lines.extend((!any.is_empty()).then(|| format!("any: [{}]", any.join(", "))));
                let rest = if is_exempt { "exempt: true" } else { "key: global, quotas: [5/1m]" };
                let conditions = match lines.as_slice() {
                    [] => String::new(),
                    lines => format!("match: {{ {} }}, ", lines.join(", ")),
                };
                text += &format!("  - {{ name: p{number}, {conditions}{rest} }}\n");
            }
            text
        },
    )
}

/// A request for each number, because a strategy for each attribute would take most of the test's time.
fn request(mut number: u64) -> Vec<(&'static str, Vec<String>)> {
    let mut draw = |bound: u64| {
        let drawn = number % bound;
        number /= bound;
        drawn
    };
    let mut request = Vec::new();
    for name in ["x", "y", "method"] {
        let (a, b) = (draw(3), draw(3));
        let texts = [
            format!("10.{a}.0.{b}"),
            format!("::ffff:10.{a}.0.{b}"),
            format!("2001:db8:{a}::{b}"),
            ["GET", "HEAD", "PUT"][a as usize].to_owned(),
            (0..draw(5)).map(|_| ['a', 'b', '/'][draw(3) as usize]).collect(),
        ];
        match draw(9) as usize {
            0 => {}
            // A list of two.
            1 => request.push((name, vec![texts[(a + b) as usize].clone(), texts[4].clone()])),
            one => request.push((name, vec![texts[(one - 2).min(4)].clone()])),
        }
    }
    // A name that is given again, of which the first value counts.
    if draw(4) == 0 {
        request.push((["x", "y", "method"][draw(3) as usize], vec!["a".to_owned()]));
    }
    request
}

/// By the definition: all lines hold and, if there are alternatives, all lines of one.
fn matches(policy: &Policy, attributes: &Attributes<'_>) -> bool {
    let all =
        |conditions: &[Condition]| conditions.iter().all(|condition| condition.holds(attributes) == Ok(true));
    let mut alternatives = policy.conditions().any().peekable();
    all(policy.conditions().all()) && (alternatives.peek().is_none() || alternatives.any(all))
}

proptest! {
    // Five hundred requests each, 100,000 in all: a file takes longer to read than to be asked.
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    #[test]
    fn finds_what_a_look_at_every_policy_finds(text in file(), requests in prop::collection::vec(any::<u64>(), 500)) {
        let config = Config::parse("random.yaml", &text).unwrap();
        let policies = config.policies();
        for request in requests.into_iter().map(request) {
            let attributes: Attributes<'_> = request
                .iter()
                .map(|(name, texts)| match texts.as_slice() {
                    [text] => (*name, AttributeValue::from(text.as_str())),
                    texts => (*name, texts.to_vec().into()),
                })
                .collect();
            let found: Vec<&str> = policies.matching(&attributes).map(Policy::name).collect();
            let scanned: Vec<&str> = policies
                .as_slice()
                .iter()
                .filter(|policy| matches(policy, &attributes))
                .map(Policy::name)
                .collect();
            prop_assert_eq!(found, scanned, "{} {:?}", text, request);
        }
    }
}
