//! What a file says of a request, read policy by policy as docs/policies.md has it.

use std::collections::{BTreeMap, BTreeSet};

use crate::address::{Address, is_within};
use crate::file::{
    Cost, Counting, File, Key, Lines, Match, Mode, Named, OnMissingCost, OnMissingKey, Override, Policy,
    QuotaChoice, Quotas, Test,
};
use crate::path::rewritten;

/// A request: names and values as a caller says them, and the units that it asks for.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) attributes: Vec<(String, Said)>,
    pub(crate) cost: u32,
}

/// A value.
#[derive(Debug, Clone)]
pub(crate) enum Said {
    Text(String),
    List(Vec<String>),
}

/// What becomes of a request.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    /// By one of these policies. Which one it is may depend on what was known of the request first.
    Exempt(BTreeSet<String>),
    DeniedAsUnmatched,
    /// By the list of the file.
    DeniedAsListed,
    /// By one of these policies, which do not know whom to count.
    DeniedAsUnknown(BTreeSet<String>),
    /// The caller's error, by one of these policies.
    Wrong(BTreeSet<String>),
    Counted {
        deciding: Vec<Counted>,
        tried: Vec<(Trial, Vec<Counted>)>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trial {
    Shadow,
    Candidate,
}

/// A quota that is charged. In place of the key there is whom it stands for, in words.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Counted {
    pub(crate) policy: String,
    pub(crate) quota: String,
    pub(crate) cost: u32,
    pub(crate) who: String,
}

/// The values of a request in the spelling that policies read.
type Values = BTreeMap<String, Said>;

impl Request {
    pub(crate) fn values(&self) -> Values {
        let mut values = Values::new();
        for (name, value) in &self.attributes {
            let value = match (name.as_str(), value) {
                ("path", Said::Text(value)) => Said::Text(rewritten(value)),
                ("ip", Said::Text(value)) => Said::Text(
                    Address::parse(value)
                        .map_or(value.clone(), |address| address.unmapped().untranslated().spelled()),
                ),
                _ => value.clone(),
            };
            // Of a name that is there twice, the first value counts.
            values.entry(name.clone()).or_insert(value);
        }
        values
    }
}

/// The names of the policies that match: those that exempt, the list of the denied, and those that count, each in the
/// order of the file.
pub(crate) fn matching<'a>(file: &'a File, values: &Values) -> Vec<&'a str> {
    let matching = file.policies.iter().filter(|policy| matches(file, policy, values));
    let (exempt, counting): (Vec<_>, Vec<_>) = matching.partition(|policy| policy.counting.is_none());
    let listed = |name, lines| is_listed(file, lines, values).then_some(name);
    let names = |policies: Vec<&'a Policy>| policies.into_iter().map(|policy| policy.name.as_str());
    let allowed = listed("allow", &file.allow).into_iter().chain(names(exempt));
    allowed.chain(listed("deny", &file.deny)).chain(names(counting)).collect()
}

/// Whether a request is in a list of the whole file.
fn is_listed(file: &File, lines: &Lines, values: &Values) -> bool {
    let mut lines = lines.iter();
    file.mode != Mode::Off && lines.any(|(name, test)| holds(test, &texts(name, values)))
}

pub(crate) fn outcome(file: &File, request: &Request) -> Outcome {
    let values = request.values();
    let matching: Vec<&Policy> = file.policies.iter().filter(|it| matches(file, it, &values)).collect();
    let exempt = matching.iter().filter(|policy| policy.counting.is_none());
    let allowed = is_listed(file, &file.allow, &values).then(|| "allow".to_owned());
    let exempt: BTreeSet<String> = exempt.map(|policy| policy.name.clone()).chain(allowed).collect();
    if !exempt.is_empty() {
        return Outcome::Exempt(exempt);
    }
    if is_listed(file, &file.deny, &values) && file.mode == Mode::Enforce {
        return Outcome::DeniedAsListed;
    }
    let (mut wrong, mut unknown) = (BTreeSet::new(), BTreeSet::new());
    let (mut deciding, mut tried, mut is_matched) = (Vec::new(), Vec::new(), false);
    for policy in matching {
        let Some(counting) = &policy.counting else { continue };
        let is_shadow = mode(file, policy) == Mode::Shadow;
        let who = who(&counting.key, &values);
        let on_missing_key = counting.on_missing_key.or(file.on_missing_key).unwrap_or(OnMissingKey::Error);
        if who.is_none() && on_missing_key == OnMissingKey::Skip && !is_shadow {
            continue;
        }
        is_matched = true;
        let (Some(who), Some(cost)) = (&who, cost(&counting.cost, &values, request.cost)) else {
            match (who, on_missing_key) {
                _ if is_shadow => {}
                (None, OnMissingKey::Deny) => _ = unknown.insert(policy.name.clone()),
                _ => _ = wrong.insert(policy.name.clone()),
            }
            continue;
        };
        let (quotas, candidates) = quotas(file, counting, &values);
        let counted = |quotas: Quotas| -> Vec<Counted> {
            let counted = quotas.into_iter().map(|(_, quota)| Counted {
                policy: policy.name.clone(),
                quota: quota.to_owned(),
                cost,
                who: who.clone(),
            });
            counted.collect()
        };
        match is_shadow {
            false => deciding.extend(counted(quotas)),
            true => tried.push((Trial::Shadow, counted(quotas))),
        }
        tried.push((Trial::Candidate, counted(candidates)));
    }
    if !wrong.is_empty() {
        return Outcome::Wrong(wrong);
    }
    if !is_matched && file.denies_unmatched == Some(true) && file.mode == Mode::Enforce {
        return Outcome::DeniedAsUnmatched;
    }
    if !unknown.is_empty() {
        return Outcome::DeniedAsUnknown(unknown);
    }
    tried.retain(|(_, counted)| !counted.is_empty());
    Outcome::Counted { deciding, tried }
}

/// Whether somebody who knows the values of these attributes alone may need to know that of another one: no exempt policy
/// matches for certain, and a policy that may match names it.
pub(crate) fn may_ask(file: &File, values: &Values, known: &BTreeSet<String>, attribute: &str) -> bool {
    let is_known = |(name, _): &&(String, Test)| known.contains(name);
    let may_hold =
        |lines: &Lines| lines.iter().filter(is_known).all(|(name, test)| holds(test, &texts(name, values)));
    let may_match = |policy: &&Policy| {
        let Match { lines, any } = &policy.conditions;
        mode(file, policy) != Mode::Off && may_hold(lines) && (any.is_empty() || any.iter().any(may_hold))
    };
    let is_certain = |lines: &Lines| lines.iter().all(|line| is_known(&line)) && may_hold(lines);
    let is_exempt = |policy: &Policy| {
        let Match { lines, any } = &policy.conditions;
        policy.counting.is_none() && is_certain(lines) && (any.is_empty() || any.iter().any(is_certain))
    };
    let is_allowed = |line: &(String, Test)| is_certain(&vec![line.clone()]);
    let mut matching = file.policies.iter().filter(may_match);
    let mut listed = file.allow.iter().chain(&file.deny);
    !known.contains(attribute)
        && !matching.clone().any(is_exempt)
        && !file.allow.iter().any(is_allowed)
        && (matching.any(|policy| policy.names().contains(&attribute))
            || listed.any(|(name, _)| name == attribute))
}

fn mode(file: &File, policy: &Policy) -> Mode {
    let own = policy.counting.as_ref().map_or(Mode::Enforce, |counting| counting.mode);
    if policy.is_enabled { own.min(file.mode) } else { Mode::Off }
}

fn matches(file: &File, policy: &Policy, values: &Values) -> bool {
    mode(file, policy) != Mode::Off && is_met(&policy.conditions, values)
}

fn is_met(Match { lines, any }: &Match, values: &Values) -> bool {
    let all_hold = |lines: &Lines| lines.iter().all(|(name, test)| holds(test, &texts(name, values)));
    all_hold(lines) && (any.is_empty() || any.iter().any(all_hold))
}

/// What a value can be taken for: each of its texts, and a HEAD for a GET. Nothing if there is no value.
fn texts<'a>(name: &str, values: &'a Values) -> Vec<&'a str> {
    match values.get(name) {
        Some(Said::Text(text)) if name == "method" && text == "HEAD" => vec!["HEAD", "GET"],
        Some(Said::Text(text)) => vec![text],
        Some(Said::List(texts)) => texts.iter().map(String::as_str).collect(),
        None => Vec::new(),
    }
}

/// The value, if it is one text.
fn text<'a>(name: &str, values: &'a Values) -> Option<&'a str> {
    match values.get(name) {
        Some(Said::Text(text)) if !text.is_empty() => Some(text),
        _ => None,
    }
}

fn holds(test: &Test, texts: &[&str]) -> bool {
    let (tests, ignores_case) = match test {
        Test::OneOf(patterns) => {
            return texts.iter().any(|text| patterns.iter().any(|it| it.fits(text, false)));
        }
        Test::Braces { tests, ignores_case } => (tests, ignores_case.unwrap_or(false)),
    };
    let fits = |fits: &dyn Fn(&str) -> bool| texts.iter().any(|text| fits(text));
    tests.iter().all(|test| match test {
        Named::Equal(expected) => fits(&|text| crate::Pattern::of(expected).fits(text, ignores_case)),
        Named::OneOf(patterns) => fits(&|text| patterns.iter().any(|it| it.fits(text, ignores_case))),
        Named::Prefix(prefix) => {
            let length = prefix.chars().count();
            fits(&|text| {
                let start: String = text.chars().take(length).collect();
                crate::Pattern::of(prefix).fits(&start, ignores_case)
            })
        }
        Named::Glob(pattern) => fits(&|text| pattern.fits(text, ignores_case)),
        Named::Regex(expression) => fits(&|text| expression.fits(text, ignores_case)),
        Named::Cidr(networks) | Named::CidrFrom(networks) => {
            fits(&|text| networks.iter().any(|network| is_within(network, text)))
        }
        Named::OneOfFrom(lines) => fits(&|text| lines.iter().any(|line| line == text)),
        Named::Present(is_present) => texts.is_empty() != *is_present,
        Named::Absent(is_absent) => texts.is_empty() == *is_absent,
        Named::Not(test) => !holds(test, texts),
    })
}

/// Whom a key counts; nobody if the request does not say it.
fn who(key: &Key, values: &Values) -> Option<String> {
    let value = |name: &str| text(name, values);
    match key {
        Key::Global => Some("everybody".to_owned()),
        Key::Attribute(name) => {
            let value = value(name)?;
            let is_head = name == "method" && value == "HEAD";
            Some(format!("{name} = {:?}", if is_head { "GET" } else { value }))
        }
        Key::Address { name, ipv4, ipv6 } => {
            let address = Address::parse(value(name)?)?.unmapped().untranslated();
            Some(format!("{name} in {}", address.client(*ipv4, *ipv6)))
        }
        Key::All(parts) => {
            let parts: Option<Vec<String>> = parts.iter().map(|part| who(part, values)).collect();
            Some(format!("{:?}", parts?))
        }
        Key::FirstOf(choices) => choices.iter().find_map(|choice| who(choice, values)),
    }
}

/// The units that a request takes, if it says them where it has to.
fn cost(cost: &Cost, values: &Values, asked: u32) -> Option<u32> {
    if asked == 0 {
        return Some(0);
    }
    let (name, min, max, on_missing) = match cost {
        Cost::Asked => return Some(asked),
        Cost::Fixed(units) => return Some(*units),
        Cost::Attribute { name, min, max, on_missing } => (name, min, max, on_missing),
    };
    let number = text(name, values).and_then(|value| {
        value.chars().try_fold(0_u128, |number, digit| {
            Some((number * 10 + u128::from(digit.to_digit(10)?)).min(1 << 99))
        })
    });
    match (number, on_missing) {
        (Some(number), _) if number > u128::from(*max) => None,
        (Some(number), _) => Some(u32::max(number as u32, min.unwrap_or(1))),
        (None, Some(OnMissingCost::Asked)) => Some(asked),
        (None, Some(OnMissingCost::Fixed(units))) => Some(*units),
        (None, Some(OnMissingCost::Error) | None) => None,
    }
}

/// The quotas that count for a request, and those that are tried out.
fn quotas(file: &File, counting: &Counting, values: &Values) -> (Quotas, Quotas) {
    for over in &counting.overrides {
        match over {
            Override::When { conditions, quotas, candidates } if is_met(conditions, values) => {
                return (quotas.clone(), candidates.clone().unwrap_or_default());
            }
            Override::When { .. } => {}
            Override::Table { attribute, values: table, beside } => {
                let rows = || table.iter().chain(beside.iter().flatten());
                let texts = texts(attribute, values);
                if let Some((_, quotas)) =
                    texts.iter().find_map(|text| rows().find(|(value, _)| value == text))
                {
                    return (quotas.clone(), Quotas::new());
                }
            }
        }
    }
    let quotas = match &counting.quotas {
        QuotaChoice::List(quotas) => quotas.clone(),
        QuotaChoice::Tier { attribute, default } => {
            let tier = |name: &str| {
                file.tiers.iter().find(|(tier, _)| tier == name).map(|(_, quotas)| quotas.clone())
            };
            let named = texts(attribute, values).into_iter().find_map(tier);
            named.or_else(|| tier(default)).expect("there is the default tier")
        }
    };
    (quotas, counting.candidates.clone().unwrap_or_default())
}
