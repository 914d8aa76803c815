//! A sample request, which one of the live policies counts.
//!
//! Its values are invented, or come from the file if they are not secret. If no policy can be tried in this way, there
//! is no request.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tollgate_policy::{
    Attributes, Condition, Cost, Identity, Mode, OnMissingCost, OnMissingLimit, Outcome, Pattern, Policies,
    Policy, PolicyKind, QuotaSpec, Refusal, Test, Value,
};

use crate::http::Dialect;

/// Characters that a query cannot hold or that shells and readers stumble over.
const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/').remove(b':');

/// Attributes whose values in a file are not secret.
const PUBLIC: [&str; 5] = ["path", "method", "domain", "endpoint", "tier"];

/// Parameters of other systems whose values in a file are not secret.
const PUBLIC_PARAMETERS: [&str; 4] = ["name", "scope", "endpoint", "tier"];

/// The maximum number of policies to try: thousands in one file are much alike.
const MAX_POLICIES: usize = 100;

/// The maximum number of other policies that may need further attributes.
const MAX_OTHERS: usize = 8;

/// Names and values, in the order of the query.
type Pairs<'a> = Vec<(&'a str, Cow<'a, str>)>;

/// The outcome of a request.
enum Attempt {
    Counted,
    NotCounted,
    /// The policy of this name needs an attribute that the request lacks.
    Lacking(Box<str>),
}

/// Returns the path of a check that a policy counts.
pub(crate) fn check(policies: &Policies) -> Option<String> {
    let request = |policy| requests(policy).find_map(|pairs| completed(pairs, policy, policies));
    let query: Vec<String> =
        counting(policies).find_map(request)?.iter().map(|(name, value)| pair(name, value)).collect();
    Some(format!("/v1/check?{}", query.join("&")))
}

/// Returns the path of a check in another system's format that a policy counts.
pub(crate) fn check_as(dialect: &Dialect, policies: &Policies) -> Option<String> {
    let (path, query) = dialect.example.split_once('?')?;
    counting(policies).find_map(|policy| {
        let fitting = |shown: &str| {
            let name = shown.split('=').next().unwrap_or_default();
            public_value(policy, name).map_or_else(|| shown.to_owned(), |value| pair(name, value))
        };
        let query = query.split('&').map(fitting).collect::<Vec<_>>().join("&");
        let is_counted = counts(policy, &policies.charges(&dialect.attributes_of(&query)?, 1).ok()?);
        is_counted.then(|| format!("{path}?{query}"))
    })
}

/// Returns the policies that count, those that decide first.
fn counting(policies: &Policies) -> impl Iterator<Item = &Policy> {
    let of = |mode| {
        let policies = policies.as_slice().iter();
        policies.filter(move |policy| policy.kind() == PolicyKind::Count && policy.mode() == mode)
    };
    of(Mode::Enforce).chain(of(Mode::Shadow)).take(MAX_POLICIES)
}

/// Returns whether the policy counts a request with this outcome, at least on trial.
fn counts(policy: &Policy, outcome: &Outcome<'_>) -> bool {
    let Outcome::Charge(matched) = outcome else { return false };
    match policy.mode() {
        Mode::Enforce => matched.enforced().any(|charge| charge.counter().quota().policy() == policy.name()),
        _ => matched.trials().any(|trial| trial.policy().name() == policy.name()),
    }
}

/// Returns the value of a system's parameter that the policy matches.
fn public_value<'a>(policy: &'a Policy, parameter: &str) -> Option<&'a str> {
    let mut conditions = policy.conditions().iter().filter(|_| PUBLIC_PARAMETERS.contains(&parameter));
    match conditions.find(|condition| condition.attribute() == parameter)?.test() {
        Test::OneOf(patterns) => patterns.iter().find_map(|pattern| match pattern {
            Pattern::Exact(text) | Pattern::Prefix(text) => Some(text.as_ref()),
            _ => None,
        }),
        _ => None,
    }
}

/// Returns requests that the policy matches, one for each alternative in which one can be found.
fn requests(policy: &Policy) -> impl Iterator<Item = Pairs<'_>> {
    let conditions = policy.conditions();
    let mut alternatives: Vec<&[Condition]> = conditions.any().collect();
    if alternatives.is_empty() {
        alternatives.push(&[]);
    }
    alternatives.into_iter().filter_map(|any| {
        let all = || conditions.all().iter().chain(any);
        let needed = needed(policy);
        let mut pairs = Pairs::new();
        for name in all().map(Condition::attribute) {
            if pairs.iter().any(|(known, _)| *known == name) {
                continue;
            }
            let tests: Vec<&Test> = all().filter(|it| it.attribute() == name).map(Condition::test).collect();
            let holds = |text: Option<&str>| {
                tests.iter().all(|test| test.holds(text.map(|text| Value::of(name, text))))
            };
            let own = needed.iter().find(|(other, _)| *other == name).map(|(_, value)| value.clone());
            if own.is_none() && holds(None) {
                continue;
            }
            let mut texts = Vec::new();
            tests.iter().for_each(|test| add_values(name, test, &mut texts));
            texts.push(own.unwrap_or_else(|| sample(name).into()));
            pairs.push((name, texts.into_iter().find(|text| holds(Some(text)))?));
        }
        add_missing(needed, &mut pairs);
        if pairs.is_empty() {
            pairs.push(("user", sample("user").into()));
        }
        Some(pairs)
    })
}

/// Adds the attributes that other policies need. Returns it if this policy then counts it.
fn completed<'a>(mut pairs: Pairs<'a>, policy: &Policy, policies: &'a Policies) -> Option<Pairs<'a>> {
    for _ in 0..MAX_OTHERS {
        let lacking = match attempt(&pairs, policy, policies) {
            Attempt::Counted => return Some(pairs),
            Attempt::NotCounted => return None,
            Attempt::Lacking(name) => policies.as_slice().iter().find(|policy| policy.name() == &*name)?,
        };
        let known = pairs.len();
        add_missing(needed(lacking), &mut pairs);
        if pairs.len() == known {
            return None;
        }
    }
    None
}

fn attempt(pairs: &Pairs<'_>, policy: &Policy, policies: &Policies) -> Attempt {
    let attributes: Attributes<'_> = pairs.iter().map(|(name, value)| (*name, value.as_ref())).collect();
    match policies.charges(&attributes, 1) {
        Ok(Outcome::DenyUnknown { policy, .. }) => Attempt::Lacking(policy.name().into()),
        Ok(outcome) if counts(policy, &outcome) => Attempt::Counted,
        Err(
            Refusal::MissingKey { policy, .. } | Refusal::Cost { policy, .. } | Refusal::Limit { policy, .. },
        ) => Attempt::Lacking(policy),
        Ok(_) | Err(_) => Attempt::NotCounted,
    }
}

fn add_missing<'a>(needed: Pairs<'a>, pairs: &mut Pairs<'a>) {
    for (name, value) in needed {
        if pairs.iter().all(|(known, _)| *known != name) {
            pairs.push((name, value));
        }
    }
}

/// Returns the attributes that the policy needs to count a request: its key, its cost and its limits.
fn needed(policy: &Policy) -> Pairs<'_> {
    let mut needed = Pairs::new();
    add_key(policy.identity(), &mut needed);
    if let Cost::Attribute(cost) = policy.cost()
        && cost.on_missing() == OnMissingCost::Error
    {
        needed.push((cost.name(), cost.min().max(1).to_string().into()));
    }
    let limits = policy.quota_specs().chain(policy.candidate_specs());
    needed.extend(limits.filter_map(|spec: QuotaSpec<'_>| {
        let limit = spec.limit_attribute().filter(|limit| limit.on_missing() == OnMissingLimit::Error)?;
        Some((limit.name(), spec.quota().quota().limit().to_string().into()))
    }));
    needed
}

/// Adds the attributes of a key; of several choices, those of the first.
fn add_key<'a>(identity: &'a Identity, needed: &mut Pairs<'a>) {
    match identity {
        Identity::Attribute(name) => needed.push((name, sample(name).into())),
        Identity::Address(name, _) => needed.push((name, sample("ip").into())),
        Identity::All(parts) => parts.iter().for_each(|part| add_key(part, needed)),
        Identity::FirstOf(choices) => choices.iter().take(1).for_each(|choice| add_key(choice, needed)),
        _ => {}
    }
}

/// Adds the values in a test that may be shown.
fn add_values<'a>(name: &str, test: &'a Test, texts: &mut Vec<Cow<'a, str>>) {
    match test {
        Test::OneOf(patterns) if PUBLIC.contains(&name) => {
            for pattern in patterns {
                match pattern {
                    Pattern::Exact(text) => texts.push(text.as_ref().into()),
                    Pattern::Prefix(text) => {
                        texts.extend([text.as_ref().into(), format!("{text}{}", sample("")).into()]);
                    }
                    Pattern::Glob(text) => texts.push(text.replace(['*', '?'], "x").into()),
                    _ => {}
                }
            }
        }
        Test::Within(networks) => {
            texts.extend(networks.iter().map(|network| network.first().to_string().into()));
        }
        Test::All(tests) => tests.iter().for_each(|test| add_values(name, test, texts)),
        _ => {}
    }
}

fn sample(name: &str) -> &'static str {
    match name {
        "user" => "alice",
        "ip" => "192.0.2.1",
        "path" => "/",
        "method" => "GET",
        _ => "example",
    }
}

fn pair(name: &str, value: &str) -> String {
    let encoded = |text| utf8_percent_encode(text, ENCODED);
    format!("{}={}", encoded(name), encoded(value))
}

#[cfg(test)]
mod tests {
    use tollgate_policy::Config;

    use super::*;
    use crate::args::AnswerSystem;

    fn policies(text: &str) -> Policies {
        Config::parse("t.yaml", text).unwrap().into_policies()
    }

    /// An address was shown as `192%2E0%2E2%2E1`.
    #[test]
    fn encodes_only_what_needs_it() {
        assert_eq!(pair("ip", "192.0.2.1"), "ip=192.0.2.1");
        assert_eq!(pair("path", "/v1/a"), "path=/v1/a");
        assert_eq!(pair("api key", "a&b'"), "api%20key=a%26b%27");
    }

    /// The suggested command sent a request that no policy of the file matched, or that lacked the cost or the key of
    /// another one.
    #[test]
    fn suggests_a_request_that_a_policy_counts() {
        for (text, suggested) in [
            ("[{ name: a, key: global, quotas: [5/1m] }]", "user=alice"),
            (
                "[{ name: a, match: { path: /v1/* }, key: [tenant], quotas: [5/1m] }]",
                "path=/v1/&tenant=example",
            ),
            (
                "[{ name: a, match: { domain: shop, client: '*' }, key: [client], quotas: [5/1m] }]",
                "domain=shop&client=example",
            ),
            (
                "[{ name: a, match: { path: { prefix: /a/, not: /a/ } }, key: [ip], quotas: [5/1m] }]",
                "path=/a/example&ip=192.0.2.1",
            ),
            (
                "[{ name: a, match: { user: { present: true }, bot: { absent: true } }, key: [from], quotas: [5/1m] }]",
                "user=alice&from=example",
            ),
            (
                "[{ name: a, match: { ip: { cidr: [10.0.0.0/8] } }, key: [{ address: ip }], quotas: [5/1m] }]",
                "ip=10.0.0.0",
            ),
            (
                "[{ name: a, key: [user], cost: { attribute: tokens, max: 9, min: 2 }, quotas: [5/1m] }]",
                "user=alice&tokens=2",
            ),
            (
                "[{ name: a, key: [user], quotas: [5/1m] }, { name: b, key: [tenant], quotas: [5/1m] }]",
                "user=alice&tenant=example",
            ),
            (
                "[{ name: a, match: { any: [{ key: s3cret }, { method: POST }] }, key: [user], quotas: [5/1m] }]",
                "method=POST&user=alice",
            ),
            (
                "[{ name: a, match: { path: /a }, mode: shadow, key: [user], quotas: [5/1m] },
                  { name: b, match: { path: /b }, key: [user], quotas: [5/1m] }]",
                "path=/b&user=alice",
            ),
            (
                "[{ name: a, match: { path: /a }, mode: shadow, key: [user], quotas: [5/1m] }]",
                "path=/a&user=alice",
            ),
        ] {
            let suggestion = check(&policies(&format!("policies: {text}")));
            assert_eq!(suggestion.as_deref(), Some(&*format!("/v1/check?{suggested}")), "{text}");
        }
    }

    #[test]
    fn suggests_nothing_where_a_value_may_be_secret_or_nothing_is_counted() {
        for text in [
            "[{ name: a, match: { key: s3cret }, key: [user], quotas: [5/1m] }]",
            "[{ name: a, match: { path: { regex: '/[0-9]+' } }, key: [user], quotas: [5/1m] }]",
            "[{ name: a, key: [user], quotas: unlimited }]",
            "[{ name: a, exempt: true }, { name: b, key: [user], quotas: [5/1m] }]",
        ] {
            assert_eq!(check(&policies(&format!("policies: {text}"))), None, "{text}");
        }
    }

    /// The suggested command named a policy of the example, which other files do not have.
    #[test]
    fn another_systems_words_name_a_policy_that_is_there() {
        let starter = Dialect::of(AnswerSystem::SpringStarter);
        let of = |text: &str| check_as(starter, &policies(&format!("policies: {text}")));
        let named = of("[{ name: a, match: { name: login }, key: [key], quotas: [5/1m] }]");
        assert_eq!(named.as_deref(), Some("/evaluate?key=user:alice&name=login&scope=USER"));
        let all = of("[{ name: a, key: [key], quotas: [5/1m] }]");
        assert_eq!(all.as_deref(), Some(starter.example));
        assert_eq!(of("[{ name: a, match: { key: other }, key: [key], quotas: [5/1m] }]"), None);
        assert_eq!(
            check_as(
                Dialect::of(AnswerSystem::Rlaas),
                &policies("policies: [{ name: a, key: [user], quotas: [5/1m] }]")
            ),
            None
        );
    }
}
