//! A naive reading of rules: it sees requests, and knows no descriptors.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use crate::xds::rules::{Condition, Cost, Listener, Rule, ValueMatch};

/// A request that a client sends.
#[derive(Debug, Clone)]
pub(crate) struct ClientRequest {
    pub(crate) method: &'static str,
    /// The name of the route, with what follows it.
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) query: Vec<(&'static str, &'static str)>,
    pub(crate) address: Ipv4Addr,
}

/// What a client should get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expectation {
    pub(crate) status: u16,
    /// The fewest units that a limit has left, if all rules are of one domain and none is in shadow mode.
    pub(crate) remaining: Option<u32>,
}

/// The units that were used, by the rule and the values that it tells apart.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    used: BTreeMap<(String, Vec<String>), u64>,
}

impl ClientRequest {
    /// The path with the query, as the first line of the request has it.
    pub(crate) fn target(&self) -> String {
        let query = self.query.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
        if query.is_empty() { self.path.clone() } else { format!("{}?{}", self.path, query.join("&")) }
    }

    fn header(&self, name: &str) -> Option<&'static str> {
        self.headers.iter().find(|(other, _)| *other == name).map(|(_, value)| *value)
    }
}

impl Reading {
    /// Counts a request, and says what its client gets. Every limit that it meets is charged, even if another one
    /// denies it, but a call of a later domain is never made for a request that is denied.
    pub(crate) fn decide(&mut self, listener: &Listener, request: &ClientRequest) -> Expectation {
        let route =
            listener.routes.iter().find(|route| request.path.starts_with(&format!("/{}", route.name)));
        let route = route.expect("every request has a route");
        let mut seen = Vec::new();
        for domain in listener.domains() {
            let mut is_denied = false;
            for (position, rule) in route.rules.iter().enumerate() {
                let Some(values) = counted(rule, request).filter(|_| rule.domain(listener.name) == domain)
                else {
                    continue;
                };
                let own = format!("{} {} {position}", listener.name, route.name);
                let counter = (rule.shared.map_or(own, str::to_owned), values);
                let used = self.used.entry(counter).or_default();
                *used += u64::from(cost(rule, request));
                let is_over = *used > u64::from(rule.requests);
                is_denied |= is_over && !rule.shadow;
                let left = u64::from(rule.requests).saturating_sub(*used);
                seen.push((domain, rule.shadow, u32::try_from(left).expect("limits are small numbers")));
            }
            if is_denied {
                return Expectation { status: 429, remaining: remaining(&seen) };
            }
        }
        Expectation { status: 200, remaining: remaining(&seen) }
    }
}

fn remaining(seen: &[(&str, bool, u32)]) -> Option<u32> {
    let is_plain = seen.iter().all(|(domain, shadow, _)| !shadow && *domain == seen[0].0);
    seen.iter().map(|(_, _, left)| *left).min().filter(|_| is_plain)
}

fn cost(rule: &Rule, request: &ClientRequest) -> u32 {
    match rule.cost {
        Cost::One | Cost::FromAnswer => 1,
        Cost::Fixed(number) => number,
        Cost::FromRequest => request.header("x-cost").map_or(1, |cost| cost.parse().expect("a number")),
    }
}

/// Returns the values that have counters of their own, if the request meets all conditions.
fn counted(rule: &Rule, request: &ClientRequest) -> Option<Vec<String>> {
    let mut values = Vec::new();
    for condition in &rule.conditions {
        let found = |found: Option<&str>, expected| value(found, expected);
        match *condition {
            Condition::Header(name, expected) => values.extend(found(request.header(name), expected)?),
            Condition::Method(methods) => methods.contains(&request.method).then_some(())?,
            Condition::Path(expected) => values.extend(found(Some(&request.target()), expected)?),
            Condition::Query(name, expected) => {
                let value = request.query.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
                values.extend(found(value, expected)?);
            }
            Condition::Address { range, is_inverted, is_distinct } => {
                (is_within(request.address, range) != is_inverted).then_some(())?;
                values.extend(is_distinct.then(|| request.address.to_string()));
            }
        }
    }
    Some(values)
}

/// Whether the value meets the condition, and the value if it has a counter of its own.
fn value(value: Option<&str>, expected: ValueMatch) -> Option<Option<String>> {
    match expected {
        ValueMatch::Exact(text) => (value == Some(text)).then_some(None),
        ValueMatch::Not(text) => (value != Some(text)).then_some(None),
        ValueMatch::Numbered(text) => {
            let digits = value?.strip_prefix(text)?;
            (!digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())).then_some(None)
        }
        ValueMatch::Distinct => value.map(|value| Some(value.to_owned())),
    }
}

fn is_within(address: Ipv4Addr, range: &str) -> bool {
    let (prefix, length) = range.split_once('/').expect("a range has a length");
    let (prefix, length): (Ipv4Addr, u32) =
        (prefix.parse().expect("an address"), length.parse().expect("a number"));
    let bits = |address: Ipv4Addr| u64::from(u32::from(address)) >> (32 - length);
    bits(address) == bits(prefix)
}
