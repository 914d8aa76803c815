//! The index finds what a look at every policy finds.

use proptest::prelude::*;
use tollgate_policy::{Attributes, Config, Policy};

/// The alphabet is small, so that values, prefixes and networks meet and lie within each other.
const TEXTS: &str = "[ab/]{0,4}";

fn address() -> impl Strategy<Value = String> {
    prop_oneof![
        (0_u8..3, 0_u8..3).prop_map(|(a, b)| format!("10.{a}.0.{b}")),
        (0_u8..3, 0_u8..3).prop_map(|(a, b)| format!("::ffff:10.{a}.0.{b}")),
        (0_u8..3, 0_u8..3).prop_map(|(a, b)| format!("2001:db8:{a}::{b}")),
    ]
}

fn network() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("0.0.0.0/0".to_owned()),
        Just("10.0.0.0/8".to_owned()),
        (0_u8..3).prop_map(|a| format!("10.{a}.0.0/16")),
        (0_u8..3, 0_u8..3).prop_map(|(a, b)| format!("10.{a}.0.{b}")),
        Just("::/0".to_owned()),
        (0_u8..3).prop_map(|a| format!("2001:db8:{a}::/48")),
    ]
}

/// A test as it is written, quoted where YAML would take it for something else.
fn test() -> impl Strategy<Value = String> {
    let texts = || prop::collection::vec(TEXTS, 1..4).prop_map(|texts| format!("{texts:?}"));
    let globs = prop::collection::vec("[ab/*?]{1,4}", 1..3).prop_map(|globs| format!("{globs:?}"));
    let networks = prop::collection::vec(network(), 1..3).prop_map(|networks| format!("{networks:?}"));
    let leaf = prop_oneof![
        4 => TEXTS.prop_map(|text| format!("{{ equal: {text:?} }}")),
        3 => TEXTS.prop_map(|text| format!("{{ prefix: {text:?} }}")),
        2 => texts().prop_map(|texts| format!("{{ one_of: {texts} }}")),
        2 => globs,
        3 => networks.prop_map(|networks| format!("{{ cidr: {networks} }}")),
        1 => any::<bool>().prop_map(|is_present| format!("{{ present: {is_present} }}")),
        1 => (TEXTS, TEXTS).prop_map(|(a, b)| format!("{{ prefix: {a:?}, not: {{ prefix: {b:?} }} }}")),
    ];
    prop_oneof![5 => leaf.clone(), 1 => leaf.prop_map(|test| format!("{{ not: {test} }}"))]
}

fn file() -> impl Strategy<Value = String> {
    let conditions = prop::collection::btree_map("[xyz]", test(), 1..3);
    prop::collection::vec((conditions, prop::bool::weighted(0.1)), 0..20).prop_map(|policies| {
        let mut text = "policies:\n".to_owned();
        if policies.is_empty() {
            text = "policies: []\n".to_owned();
        }
        for (number, (conditions, is_exempt)) in policies.into_iter().enumerate() {
            let lines: Vec<String> =
                conditions.iter().map(|(name, test)| format!("{name:?}: {test}")).collect();
            let rest = if is_exempt { "exempt: true" } else { "key: global, quotas: [5/1m]" };
            text += &format!("  - {{ name: p{number}, match: {{ {} }}, {rest} }}\n", lines.join(", "));
        }
        text
    })
}

fn requests() -> impl Strategy<Value = Vec<Vec<(String, String)>>> {
    let value = prop_oneof![TEXTS, address()];
    let request = prop::collection::btree_map("[xyz]", value, 0..4);
    prop::collection::vec(request.prop_map(|request| request.into_iter().collect()), 100)
}

proptest! {
    // A hundred requests each: 100,000 pairs of policies and attributes.
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn finds_what_a_look_at_every_policy_finds(text in file(), requests in requests()) {
        let config = Config::parse("random.yaml", &text).unwrap();
        let policies = config.policies();
        for request in &requests {
            let attributes: Attributes<'_> =
                request.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let found: Vec<&str> = policies.matching(&attributes).map(Policy::name).collect();
            let scanned: Vec<&str> = policies
                .as_slice()
                .iter()
                .filter(|policy| policy.conditions().iter().all(|condition| condition.holds(&attributes)))
                .map(Policy::name)
                .collect();
            prop_assert_eq!(found, scanned, "{} {:?}", text, request);
        }
    }
}
