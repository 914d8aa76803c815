//! A command to try, which the service prints at startup.
//!
//! For limits from flags or another system's settings, it is a check that they count. Whether policies of a file count
//! a request depends on its attributes, so `tollgate explain` says which ones they match.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tollgate_policy::{Identity, Pattern, Policies, Policy, Test};

use crate::decide::policy_files::PolicyFiles;
use crate::http::Dialect;

/// Characters that a query cannot hold or that shells and readers stumble over.
const ENCODED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/').remove(b':');

/// See the [module](self).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StartExample {
    /// A request for this path.
    Request(Cow<'static, str>),
    /// `tollgate explain` with these policies.
    Explain(String),
}

impl StartExample {
    /// Returns the example for these policies. Requests may be in the format of another system.
    pub(crate) fn of_policies(
        policies: &Policies,
        file: Option<&PolicyFiles>,
        dialect: Option<&'static Dialect>,
    ) -> Option<Self> {
        match (file, dialect) {
            (Some(file), _) => explain(policies, file),
            (None, Some(dialect)) => Some(Self::Request(dialect.example.into())),
            (None, None) => {
                let mut names = policies.as_slice().first().map(|policy| key_names(policy.identity()))?;
                if names.is_empty() {
                    names.push("user");
                }
                let query: Vec<String> = names.into_iter().map(|name| pair(name, sample(name))).collect();
                Some(Self::Request(format!("/v1/check?{}", query.join("&")).into()))
            }
        }
    }

    /// Returns the example for domains: their checks are not in a query.
    pub(crate) const fn of_domains() -> Self {
        Self::Request(Cow::Borrowed("/healthcheck"))
    }
}

fn explain(policies: &Policies, file: &PolicyFiles) -> Option<StartExample> {
    // `explain` takes one path, and some of the policies alone may be invalid or match other requests.
    let [path] = file.paths() else { return None };
    let path = path.display().to_string();
    let asked = policies.as_slice().first().and_then(named_check).unwrap_or_else(|| "user=alice".to_owned());
    (!path.contains('\'')).then(|| StartExample::Explain(format!("tollgate explain '{path}' {asked}")))
}

/// Returns the attributes of a check that a client makes by its name, `action`, if the policy is about such checks.
fn named_check(policy: &Policy) -> Option<String> {
    let action = policy.conditions().all().iter().find_map(|condition| match condition.test() {
        Test::OneOf(patterns) if condition.attribute() == "action" => match patterns.first() {
            Some(Pattern::Exact(name)) if Policy::is_name(name) => Some(name),
            _ => None,
        },
        _ => None,
    })?;
    // What a shell could read in another way is left out.
    let names = key_names(policy.identity()).into_iter().filter(|name| Policy::is_name(name));
    let key = names.filter(|name| *name != "action").map(|name| format!(" {name}={}", sample(name)));
    Some(format!("action={action}{}", key.collect::<String>()))
}

/// Returns the attributes of the key; of several choices, those of the first.
pub(crate) fn key_names(identity: &Identity) -> Vec<&str> {
    match identity {
        Identity::Attribute(name) | Identity::Address(name, _) => vec![name],
        Identity::All(parts) => parts.iter().flat_map(key_names).collect(),
        Identity::FirstOf(choices) => choices.first().map(key_names).unwrap_or_default(),
        _ => Vec::new(),
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
    use super::*;

    /// An address was shown as `192%2E0%2E2%2E1`.
    #[test]
    fn encodes_only_what_needs_it() {
        assert_eq!(pair("ip", "192.0.2.1"), "ip=192.0.2.1");
        assert_eq!(pair("path", "/v1/a"), "path=/v1/a");
        assert_eq!(pair("api key", "a&b'"), "api%20key=a%26b%27");
    }
}
