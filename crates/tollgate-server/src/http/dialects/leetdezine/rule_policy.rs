//! The policy whose limits a rule replaces.
//!
//! An override is for all requests of a policy that have the tier. So a rule needs a policy that counts the requests of its
//! endpoint and dimension and no others: else it would change limits that nobody asked to change.

use std::collections::BTreeSet;

use tollgate_policy::{Attributes, Condition, Identity, Mode, Pattern, Policy, PolicyKind, Test, Value};

use super::dimension::Dimension;
use crate::answer::rejection::Rejection;

/// The requests that a rule limits.
pub(super) struct RuleRequests<'a> {
    /// `None` for all endpoints.
    pub(super) endpoint: Option<&'a str>,
    pub(super) dimension: Dimension,
    pub(super) tier: &'a str,
}

/// What a policy counts, compared with the requests of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coverage {
    /// None of them, or by another key.
    None,
    /// Requests of other endpoints as well.
    OtherEndpoints,
    /// Not all of them.
    Some,
    /// Exactly these.
    Exact,
}

impl RuleRequests<'_> {
    /// Returns the one policy that counts these requests and no others.
    ///
    /// # Errors
    ///
    /// If there is none, or there are several.
    pub(super) fn policy<'p>(
        &self,
        policies: impl Iterator<Item = &'p Policy>,
    ) -> Result<&'p Policy, Rejection> {
        let all: Vec<(&Policy, Coverage)> = policies.map(|policy| (policy, self.coverage(policy))).collect();
        let named = |coverage: Coverage| {
            let meant = all.iter().filter(|(_, other)| *other == coverage);
            meant.map(|(policy, _)| format!("`{}`", policy.name())).collect::<Vec<_>>().join(", ")
        };
        let mut exact = all.iter().filter(|(_, coverage)| *coverage == Coverage::Exact);
        match (exact.next(), exact.next()) {
            (Some((policy, _)), None) => Ok(policy),
            (Some(_), Some(_)) => {
                let detail = format!(
                    "several policies count these requests: {}; set an override of one of them with `PUT /v1/overrides`",
                    named(Coverage::Exact)
                );
                Err(Rejection::conflict(self.field(), detail))
            }
            (None, _) => {
                let mut detail = format!("no policy counts these requests and no others: {}", self.wanted());
                for (coverage, what) in [
                    (Coverage::OtherEndpoints, "count other endpoints too"),
                    (Coverage::Some, "count only some of these requests"),
                ] {
                    let names = named(coverage);
                    if !names.is_empty() {
                        detail += &format!("; these {what}: {names}");
                    }
                }
                Err(Rejection::conflict(self.field(), detail))
            }
        }
    }

    const fn field(&self) -> &'static str {
        if self.endpoint.is_some() { "endpoint" } else { "dimension" }
    }

    /// Says which policy is needed.
    const fn wanted(&self) -> &'static str {
        match self.dimension {
            Dimension::PerUser | Dimension::PerUserEndpoint => {
                "it needs this `endpoint` in `match`, and the key [user] or [user, endpoint]"
            }
            Dimension::PerIp => "it needs this `endpoint` in `match`, and the key [ip] or [ip, endpoint]",
            Dimension::PerEndpoint => {
                "it needs this `endpoint` in `match`, and the key `global` or [endpoint]"
            }
            Dimension::Global => "it needs no `endpoint` in `match`, and the key `global`",
        }
    }

    fn coverage(&self, policy: &Policy) -> Coverage {
        if policy.kind() != PolicyKind::Count
            || policy.mode() == Mode::Off
            || !self.has_key(policy.identity())
        {
            return Coverage::None;
        }
        let request: Attributes<'_> = [("tier", Some(self.tier)), ("endpoint", self.endpoint)]
            .into_iter()
            .filter_map(|(name, text)| Some((name, text?)))
            .collect();
        let (mut has_endpoint, mut is_whole) = (false, true);
        for condition in policy.conditions().all() {
            match condition.attribute() {
                "endpoint" if self.is_endpoint(condition.test()) => has_endpoint = true,
                "endpoint" if self.endpoint.is_none() => is_whole = false,
                // Who is there is a matter of the key, unless all are counted together.
                name @ ("user" | "ip") if is_of_presence(condition.test()) => {
                    if self.counted() == [name] && !condition.test().holds(Some(Value::of(name, "-"))) {
                        return Coverage::None;
                    }
                    is_whole &= !self.counted().is_empty();
                }
                "user" | "ip" => is_whole = false,
                // Checks of the study have no other attributes.
                _ if condition.holds(&request) != Ok(true) => return Coverage::None,
                _ => {}
            }
        }
        // An alternative for another endpoint adds no requests to those that `endpoint` above admits, but an alternative
        // for a user leaves some out.
        let mut alternatives = policy.conditions().any().peekable();
        if alternatives.peek().is_some() {
            let is_decided = |condition: &Condition| !matches!(condition.attribute(), "user" | "ip");
            let holds = |condition: &Condition| condition.holds(&request) == Ok(true);
            let alternatives: Vec<&[Condition]> = alternatives.collect();
            let is_met =
                |alternative: &&[Condition]| alternative.iter().all(|it| is_decided(it) && holds(it));
            let may_be_met =
                |alternative: &&[Condition]| alternative.iter().all(|it| !is_decided(it) || holds(it));
            if !alternatives.iter().any(may_be_met) {
                return Coverage::None;
            }
            is_whole &= self.endpoint.is_some() && alternatives.iter().any(is_met);
        }
        match (self.endpoint.is_none() || has_endpoint, is_whole) {
            (false, _) => Coverage::OtherEndpoints,
            (true, false) => Coverage::Some,
            (true, true) => Coverage::Exact,
        }
    }

    /// Returns whether only this endpoint passes the test.
    fn is_endpoint(&self, test: &Test) -> bool {
        let Test::OneOf(patterns) = test else { return false };
        matches!((&**patterns, self.endpoint), ([Pattern::Exact(text)], Some(endpoint)) if **text == *endpoint)
    }

    /// Returns whether the key counts by this dimension. Tier and endpoint are the same in all requests of a rule.
    fn has_key(&self, identity: &Identity) -> bool {
        let Some(mut names) = key_attributes(identity) else { return false };
        names.remove("tier");
        if self.endpoint.is_some() {
            names.remove("endpoint");
        }
        names.into_iter().eq(self.counted().iter().copied())
    }

    /// Returns the attribute that tells counters of these requests apart; none if there is one counter.
    const fn counted(&self) -> &'static [&'static str] {
        match self.dimension {
            Dimension::PerUser | Dimension::PerUserEndpoint => &["user"],
            Dimension::PerIp => &["ip"],
            Dimension::PerEndpoint | Dimension::Global => &[],
        }
    }
}

/// Returns the attributes that are the key together; `None` if it is another kind of key.
fn key_attributes(identity: &Identity) -> Option<BTreeSet<&str>> {
    match identity {
        Identity::Global => Some(BTreeSet::new()),
        Identity::Attribute(name) | Identity::Address(name, _) => Some(BTreeSet::from([&**name])),
        Identity::All(parts) => {
            let parts: Option<Vec<_>> = parts.iter().map(key_attributes).collect();
            Some(parts?.into_iter().flatten().collect())
        }
        _ => None,
    }
}

/// Returns whether the test asks only whether there is a value. The key says which requests those are.
fn is_of_presence(test: &Test) -> bool {
    match test {
        Test::Present | Test::Absent => true,
        Test::All(tests) => tests.iter().all(is_of_presence),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use tollgate_policy::Config;

    use super::*;

    const POLICIES: &str = "
policies:
  - { name: user, match: { endpoint: /search, user: { present: true } }, key: [user, endpoint], quotas: [5/1m] }
  - { name: guest, match: { endpoint: /search, user: { absent: true } }, key: [ip, endpoint], quotas: [5/1m] }
  - { name: shared, match: { endpoint: /search }, key: [endpoint], quotas: [5/1m] }
  - { name: either, match: { endpoint: /search }, key: { first_of: [user, ip] }, quotas: [5/1m] }
  - { name: two, match: { endpoint: [/a, /b] }, key: [user], quotas: [5/1m] }
  - { name: bobs, match: { endpoint: /bob, user: bob* }, key: [user], quotas: [5/1m] }
  - { name: gold, match: { endpoint: /gold, tier: premium }, key: [user, tier], quotas: [5/1m] }
  - { name: members, match: { endpoint: /home, user: { present: true } }, key: global, quotas: [5/1m] }
  - { name: off, match: { endpoint: /off }, key: [user], quotas: [5/1m], mode: off }
  - { name: free, match: { endpoint: /off }, exempt: true }
  - { name: one, match: { endpoint: /twice }, key: [user], quotas: [5/1m] }
  - { name: other, match: { endpoint: /twice }, key: [user, endpoint], quotas: [9/1h] }
  - { name: all, key: global, quotas: [9/1m] }
";

    /// Returns the name of the policy, or the error.
    fn chosen(endpoint: Option<&str>, dimension: Dimension, tier: &str) -> Result<String, String> {
        let config = Config::parse("p.yaml", POLICIES).expect("a valid file");
        let policy = RuleRequests { endpoint, dimension, tier }.policy(config.policies().as_slice().iter());
        policy.map(|policy| policy.name().to_owned()).map_err(|rejection| rejection.detail().to_owned())
    }

    #[test]
    fn finds_the_policy_that_counts_these_requests_and_no_others() {
        use Dimension::{Global, PerEndpoint, PerIp, PerUser, PerUserEndpoint};
        for (endpoint, dimension, tier, name) in [
            (Some("/search"), PerUser, "free", "user"),
            (Some("/search"), PerUserEndpoint, "free", "user"),
            (Some("/search"), PerIp, "free", "guest"),
            (Some("/search"), PerEndpoint, "free", "shared"),
            (Some("/gold"), PerUser, "premium", "gold"),
            (None, Global, "free", "all"),
        ] {
            assert_eq!(chosen(endpoint, dimension, tier).as_deref(), Ok(name), "{endpoint:?} {dimension:?}");
        }
    }

    #[test]
    fn refuses_policies_that_count_more_or_less() {
        use Dimension::{PerEndpoint, PerUser};
        for (endpoint, dimension, said) in [
            ("/a", PerUser, "; these count other endpoints too: `two`"),
            ("/bob", PerUser, "; these count only some of these requests: `bobs`"),
            ("/home", PerEndpoint, "these count only some of these requests: `members`"),
            ("/gold", PerUser, "and the key [user] or [user, endpoint]"),
            ("/off", PerUser, "and the key [user] or [user, endpoint]"),
            ("/twice", PerUser, "several policies count these requests: `one`, `other`;"),
        ] {
            let error = chosen(Some(endpoint), dimension, "free").expect_err(endpoint);
            assert!(error.contains(said), "{endpoint}: {error}");
            assert!(!error.contains(endpoint), "it may be a part of a key: {error}");
        }
    }
}
