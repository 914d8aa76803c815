//! What the service announces at the start: its limits, and a request to try.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tollgate_policy::{Identity, Pattern, Policies, Policy, PolicyKind, Test};

use crate::policy_files::PolicyFiles;

/// All but the unreserved characters of RFC 3986, so that an address stays readable.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Describes the policy of the flags, or tells how many policies the files have.
pub(crate) fn rule(policies: &Policies, file: Option<&PolicyFiles>) -> String {
    match (policies.as_slice(), file) {
        ([policy], None) => {
            let quotas: Vec<String> = policy.quotas().iter().map(|quota| quota.quota().to_string()).collect();
            let whom = match policy.identity() {
                Identity::Every => "set of attributes".to_owned(),
                Identity::Global => return format!("{} for everybody together", quotas.join(" and ")),
                identity => names(identity).join(" + "),
            };
            format!("{} for each {whom}", quotas.join(" and "))
        }
        ([_], Some(file)) => format!("1 policy of {}", file.name()),
        (policies, file) => {
            format!("{} policies of {}", policies.len(), file.map_or("flags", PolicyFiles::name))
        }
    }
}

/// Returns the path of a check that counts, for the first policy that allows one.
pub(crate) fn example(policies: &Policies) -> String {
    let counting = policies.as_slice().iter().filter(|policy| policy.kind() == PolicyKind::Count);
    let query = counting.filter_map(example_of).next().unwrap_or_else(|| pair("user", "alice"));
    format!("/v1/check?{query}")
}

/// Returns the path of a check in another system's format. If that format names a policy, it is the first one.
pub(crate) fn example_as(example: &str, policies: &Policies) -> String {
    let name = |policy: &Policy| {
        let named = policy.conditions().all().iter().find(|condition| condition.attribute() == "name")?;
        match named.test() {
            Test::OneOf(patterns) => match patterns.first()? {
                Pattern::Exact(name) => Some(name.clone()),
                _ => None,
            },
            _ => None,
        }
    };
    let name = policies.as_slice().iter().filter(|policy| policy.kind() == PolicyKind::Count).find_map(name);
    let Some(name) = name else { return example.to_owned() };
    let (path, query) = example.split_once('?').unwrap_or((example, ""));
    let pairs =
        query.split('&').map(|it| if it.starts_with("name=") { pair("name", &name) } else { it.to_owned() });
    format!("{path}?{}", pairs.collect::<Vec<_>>().join("&"))
}

fn example_of(policy: &Policy) -> Option<String> {
    let mut pairs = Vec::new();
    let alternative = policy.conditions().any().next().unwrap_or_default();
    for condition in policy.conditions().all().iter().chain(alternative) {
        let (attribute, Test::OneOf(patterns)) = (condition.attribute(), condition.test()) else {
            return None;
        };
        match patterns.first()? {
            // Other values may be secrets.
            Pattern::Exact(text) | Pattern::Prefix(text) if ["path", "method"].contains(&attribute) => {
                pairs.push(pair(attribute, text));
            }
            _ => return None,
        }
    }
    let named: Vec<&str> = policy.conditions().iter().map(|condition| condition.attribute()).collect();
    let missing = names(policy.identity()).into_iter().filter(|name| !named.contains(name));
    pairs.extend(missing.map(|name| pair(name, value(name))));
    Some(if pairs.is_empty() { pair("user", "alice") } else { pairs.join("&") })
}

/// Returns the attributes of the key; of several choices, the first.
fn names(identity: &Identity) -> Vec<&str> {
    match identity {
        Identity::Attribute(name) | Identity::Address(name, _) => vec![name],
        Identity::All(parts) => parts.iter().flat_map(names).collect(),
        Identity::FirstOf(choices) => choices.first().map(names).unwrap_or_default(),
        _ => Vec::new(),
    }
}

fn value(name: &str) -> &'static str {
    match name {
        "user" => "alice",
        "ip" => "192.0.2.1",
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

    /// An address was shown as `192%2E0%2E2%2E1`.
    #[test]
    fn encodes_only_what_needs_it() {
        assert_eq!(pair("ip", "192.0.2.1"), "ip=192.0.2.1");
        assert_eq!(pair("api key", "a&b"), "api%20key=a%26b");
    }

    /// The suggested command named a policy of the example, which other files do not have.
    #[test]
    fn the_words_of_another_system_name_a_policy_that_is_there() {
        let policies = |text: &str| Config::parse("t.yaml", text).unwrap().into_policies();
        let example = "/evaluate?key=user:alice&name=invoice-create&scope=USER";
        let named = "policies: [{ name: a, match: { name: login }, key: [key], quotas: [5/1m] }]";
        assert_eq!(example_as(example, &policies(named)), "/evaluate?key=user:alice&name=login&scope=USER");
        let all = "policies: [{ name: a, key: [key], quotas: [5/1m] }]";
        assert_eq!(example_as(example, &policies(all)), example);
    }
}
