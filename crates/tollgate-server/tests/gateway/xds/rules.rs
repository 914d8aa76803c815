//! Limits as users of Envoy Gateway write them: rules of routes, with conditions on requests.
//!
//! Its translator makes two things of a rule: a chain of descriptors for the limiter, and actions that let Envoy build
//! the same chain from a request. Both are made here as well, after a description of what it does.

use serde_json::{Value, json};

/// A listener of Envoy, whose name is a domain of the limiter.
pub(crate) struct Listener {
    pub(crate) name: &'static str,
    pub(crate) routes: Vec<Route>,
}

/// The requests whose path begins with this name.
pub(crate) struct Route {
    pub(crate) name: &'static str,
    pub(crate) rules: Vec<Rule>,
}

/// A limit for the requests that meet all conditions.
#[derive(Clone)]
pub(crate) struct Rule {
    /// A name such as `eg/policy/rule/0`, if all routes with this rule share its counters.
    pub(crate) shared: Option<&'static str>,
    pub(crate) conditions: Vec<Condition>,
    pub(crate) requests: u32,
    pub(crate) unit: &'static str,
    pub(crate) shadow: bool,
    pub(crate) cost: Cost,
    /// Whether Envoy sends the limit in the metadata of the request, which replaces the one in the set.
    pub(crate) has_own_limit: bool,
}

/// How many units a request takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cost {
    One,
    Fixed(u32),
    /// The number in the header `x-cost`, which Envoy keeps as metadata.
    FromRequest,
    /// One, and the tokens in the answer when its stream ends.
    FromAnswer,
}

/// A condition on requests. A rule has its conditions in the order of these variants.
#[derive(Clone, Copy)]
pub(crate) enum Condition {
    Header(&'static str, ValueMatch),
    /// One of these methods.
    Method(&'static [&'static str]),
    Path(ValueMatch),
    Address {
        range: &'static str,
        is_inverted: bool,
        /// Whether each address has a counter of its own.
        is_distinct: bool,
    },
    Query(&'static str, ValueMatch),
}

/// The values that meet a condition.
#[derive(Clone, Copy)]
pub(crate) enum ValueMatch {
    Exact(&'static str),
    /// This text with digits after it.
    Numbered(&'static str),
    /// All others, and none.
    Not(&'static str),
    /// All, and each has a counter of its own.
    Distinct,
}

/// A level of a chain of descriptors, and the action of Envoy that makes its entry.
struct Link {
    key: String,
    /// Without it, the level has a counter for each value.
    value: Option<String>,
    action: Value,
}

impl Rule {
    /// Counts in years, so that no window ends during a test.
    pub(crate) fn new<const N: usize>(requests: u32, conditions: [Condition; N]) -> Self {
        let conditions = conditions.to_vec();
        Self {
            shared: None,
            conditions,
            requests,
            unit: "YEAR",
            shadow: false,
            cost: Cost::One,
            has_own_limit: false,
        }
    }

    pub(crate) fn per(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    pub(crate) fn shared(self, name: &'static str) -> Self {
        Self { shared: Some(name), ..self }
    }

    pub(crate) fn shadow(self) -> Self {
        Self { shadow: true, ..self }
    }

    pub(crate) fn costing(self, cost: Cost) -> Self {
        Self { cost, ..self }
    }

    pub(crate) fn with_own_limit(self) -> Self {
        Self { has_own_limit: true, ..self }
    }

    /// The domain in which it counts, on this listener.
    pub(crate) fn domain(&self, listener: &'static str) -> &'static str {
        self.shared.map_or(listener, |name| name.split("/rule/").next().unwrap_or(name))
    }

    /// The key and the value of the first level. A route without a hostname has a name with `*`.
    fn head(&self, route: &'static str) -> String {
        let own = || format!("httproute/default/{route}/rule/0/match/0/*");
        self.shared.map_or_else(own, str::to_owned)
    }

    /// The levels below the first, for a request of this method. `index` counts the rules of a route, the shared and the
    /// others each for themselves.
    fn links(&self, index: usize, method: &'static str) -> Vec<Link> {
        let headers = self.conditions.iter().filter(|condition| matches!(condition, Condition::Header(..)));
        let (mut header, mut query) = (0, headers.count());
        let next = |number: &mut usize| {
            *number += 1;
            format!("rule-{index}-match-{}", *number - 1)
        };
        let mut links = Vec::new();
        for condition in &self.conditions {
            match *condition {
                Condition::Header(name, value) => {
                    links.push(header_link(next(&mut header), name, value));
                }
                Condition::Method(_) => {
                    let method = ValueMatch::Exact(method);
                    links.push(header_link(format!("rule-{index}-method"), ":method", method));
                }
                Condition::Path(value) => {
                    links.push(header_link(format!("rule-{index}-path"), ":path", value));
                }
                Condition::Address { range, is_inverted, is_distinct } => {
                    links.extend(address_links(range, is_inverted, is_distinct));
                }
                Condition::Query(name, value) => links.push(query_link(next(&mut query), name, value)),
            }
        }
        if links.is_empty() {
            links.push(generic_link(format!("rule-{index}-match--1")));
        }
        links
    }

    /// The descriptor below the first level, with the limit at its last level.
    fn descriptor(&self, index: usize) -> Value {
        let links = self.links(index, "");
        let limit = json!({ "unit": self.unit, "requests_per_unit": self.requests });
        let chain = links.iter().rev().fold(None, |below: Option<Value>, link| {
            let mut level =
                json!({ "key": link.key, "value": link.value.clone().unwrap_or_default(), "shadow_mode": self.shadow });
            match below {
                None => level["rate_limit"] = limit.clone(),
                Some(below) => level["descriptors"] = json!([below]),
            }
            Some(level)
        });
        chain.expect("a rule has a level")
    }

    /// What Envoy sends to the limiter: once for each method, and once more for the cost of an answer.
    fn rate_limits(&self, route: &'static str, index: usize) -> Vec<Value> {
        let methods = self.conditions.iter().find_map(|condition| match condition {
            Condition::Method(methods) => Some(*methods),
            _ => None,
        });
        let mut all = Vec::new();
        for method in methods.unwrap_or(&[""]) {
            let links = self.links(index, method).into_iter().map(|link| link.action);
            let head = generic_link(self.head(route)).action;
            let actions: Vec<_> = std::iter::once(head).chain(links).collect();
            let mut limit = json!({ "actions": actions });
            match self.cost {
                Cost::One | Cost::FromAnswer => {}
                Cost::Fixed(number) => limit["hits_addend"] = json!({ "number": number }),
                Cost::FromRequest => {
                    limit["hits_addend"] = json!({ "format": "%DYNAMIC_METADATA(costs:request)%" });
                }
            }
            if self.has_own_limit {
                let key = json!({ "key": "limits", "path": [{ "key": "plan" }] });
                limit["limit"] = json!({ "dynamic_metadata": { "metadata_key": key } });
            }
            all.push(limit);
            if self.cost == Cost::FromAnswer {
                let hits = json!({ "format": "%DYNAMIC_METADATA(costs:answer)%" });
                all.push(json!({ "actions": actions, "apply_on_stream_done": true, "hits_addend": hits }));
            }
        }
        all
    }
}

/// Returns the set of limits that Envoy Gateway would send, one resource for each domain.
pub(crate) fn domains<'a>(listeners: impl IntoIterator<Item = &'a Listener>) -> Vec<Value> {
    let mut domains: Vec<(&str, Vec<Value>)> = Vec::new();
    for listener in listeners {
        for (route, rule, index) in listener.routes.iter().flat_map(Route::indexed) {
            let (domain, head) = (rule.domain(listener.name), rule.head(route.name));
            let at = domains.iter().position(|(name, _)| *name == domain).unwrap_or_else(|| {
                domains.push((domain, Vec::new()));
                domains.len() - 1
            });
            let descriptors = &mut domains[at].1;
            let at = descriptors.iter().position(|level| level["key"] == *head).unwrap_or_else(|| {
                descriptors.push(json!({ "key": head, "value": head, "descriptors": [] }));
                descriptors.len() - 1
            });
            let below = descriptors[at]["descriptors"].as_array_mut().expect("levels");
            let descriptor = rule.descriptor(index);
            if !below.contains(&descriptor) {
                below.push(descriptor);
            }
        }
    }
    let resource = |(name, levels)| json!({ "name": name, "domain": name, "descriptors": levels });
    domains.into_iter().map(resource).collect()
}

impl Listener {
    /// The domains that its requests can count in: one filter of Envoy each, in the order in which they are called.
    pub(crate) fn domains(&self) -> Vec<&'static str> {
        let rules = self.routes.iter().flat_map(|route| &route.rules);
        let mut domains: Vec<_> = rules.map(|rule| rule.domain(self.name)).chain([self.name]).collect();
        domains.sort_unstable();
        domains.dedup();
        domains
    }
}

impl Route {
    /// What Envoy sends to the limiter for this domain.
    pub(crate) fn rate_limits(&self, listener: &'static str, domain: &str) -> Vec<Value> {
        let rules = self.indexed().filter(|(_, rule, _)| rule.domain(listener) == domain);
        rules.flat_map(|(_, rule, index)| rule.rate_limits(self.name, index)).collect()
    }

    fn indexed(&self) -> impl Iterator<Item = (&Self, &Rule, usize)> {
        self.rules.iter().enumerate().map(move |(position, rule)| {
            let alike = |other: &&Rule| other.shared.is_some() == rule.shared.is_some();
            (self, rule, self.rules[..position].iter().filter(alike).count())
        })
    }
}

fn generic_link(key: String) -> Link {
    let action = json!({ "generic_key": { "descriptor_key": key, "descriptor_value": key } });
    Link { value: Some(key.clone()), key, action }
}

fn header_link(key: String, name: &str, value: ValueMatch) -> Link {
    let Some((expected, matcher)) = matcher(value) else {
        let action = json!({ "request_headers": { "descriptor_key": key, "header_name": name } });
        return Link { key, value: None, action };
    };
    let headers = json!([{ "name": name, "string_match": matcher }]);
    let action = json!({ "header_value_match": {
        "descriptor_key": key, "descriptor_value": key, "expect_match": expected, "headers": headers,
    } });
    Link { value: Some(key.clone()), key, action }
}

fn query_link(key: String, name: &str, value: ValueMatch) -> Link {
    let Some((expected, matcher)) = matcher(value) else {
        let action = json!({ "query_parameters": { "descriptor_key": key, "query_parameter_name": name } });
        return Link { key, value: None, action };
    };
    let parameters = json!([{ "name": name, "string_match": matcher }]);
    let action = json!({ "query_parameter_value_match": {
        "descriptor_key": key, "descriptor_value": key, "expect_match": expected, "query_parameters": parameters,
    } });
    Link { value: Some(key.clone()), key, action }
}

/// Whether Envoy's matcher has to match, and the matcher.
fn matcher(value: ValueMatch) -> Option<(bool, Value)> {
    match value {
        ValueMatch::Exact(text) => Some((true, json!({ "exact": text }))),
        ValueMatch::Not(text) => Some((false, json!({ "exact": text }))),
        ValueMatch::Numbered(text) => {
            Some((true, json!({ "safe_regex": { "regex": format!("{text}[0-9]+") } })))
        }
        ValueMatch::Distinct => None,
    }
}

fn address_links(range: &str, is_inverted: bool, is_distinct: bool) -> Vec<Link> {
    let (prefix, length) = range.split_once('/').expect("a range has a length");
    let length: u32 = length.parse().expect("a length is a number");
    let ranges = json!([{ "address_prefix": prefix, "prefix_len": length }]);
    let link = |key: &str, told: String, value: Option<String>| Link {
        key: key.to_owned(),
        action: json!({ "remote_address_match": {
            "descriptor_key": key, "descriptor_value": told,
            "address_matcher": { "ranges": ranges, "invert_match": is_inverted },
        } }),
        value,
    };
    let masked = if is_inverted { format!("invert:{range}") } else { range.to_owned() };
    let mut links = vec![link("masked_remote_address", masked.clone(), Some(masked))];
    if is_distinct {
        links.push(link("remote_address", "%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%".to_owned(), None));
    }
    links
}
