//! Decides on a request policy by policy, as docs/policies.md describes it.

use std::collections::{BTreeMap, BTreeSet};

use crate::address::{Address, is_within};
use crate::file::{
    Cost, Counting, File, Key, Lines, Match, Mode, Named, OnMissingCost, OnMissingKey, OnMissingLimit,
    Override, Policy, Quota, QuotaChoice, Quotas, Test,
};
use crate::path::rewritten;
use crate::run_override::{Moment, RunLimits, RunOverrides};

/// A request: the names and values of its caller, and its cost.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) attributes: Vec<(String, Said)>,
    /// The attributes that a client could have invented.
    pub(crate) unverified: BTreeSet<String>,
    /// The policies that may count it, or `None` for all.
    pub(crate) within: Option<BTreeSet<String>>,
    pub(crate) cost: u32,
}

/// A value.
#[derive(Debug, Clone)]
pub(crate) enum Said {
    Text(String),
    List(Vec<String>),
    /// It cannot be read, such as an expired token.
    Unreadable,
}

/// The outcome of a request.
#[derive(Debug, PartialEq)]
pub(crate) enum Outcome {
    /// By one of these policies; which one may depend on what was known of the request first.
    Exempt(BTreeSet<String>),
    DeniedAsUnmatched,
    /// By the deny list of the file.
    DeniedAsListed,
    /// By the first of these policies, which lack a key.
    DeniedAsUnknown(BTreeSet<String>),
    /// By an override of the first of these policies; another one if not all was known of the request first.
    DeniedByOverride(BTreeSet<String>),
    /// An error: by one of these policies, because one of these attributes cannot be read, or because one of these
    /// policies of other callers would count it.
    Wrong {
        policies: BTreeSet<String>,
        unreadable: BTreeSet<String>,
        foreign: BTreeSet<String>,
    },
    Counted {
        deciding: Vec<Counted>,
        tried: Vec<(Trial, Vec<Counted>)>,
        /// The policies in shadow mode that would deny the request, whatever its counters hold.
        would_deny: BTreeSet<String>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trial {
    Shadow,
    Candidate,
}

/// A charged quota. In place of the key, it has a description of the client.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Counted {
    pub(crate) policy: String,
    pub(crate) quota: String,
    pub(crate) cost: u32,
    pub(crate) who: String,
    pub(crate) overdraft: bool,
}

/// The values of a request, in normalized spelling.
#[derive(Debug, Clone)]
pub(crate) struct Values {
    pub(crate) said: BTreeMap<String, Said>,
    /// Its path as it was sent, if there is one; perhaps in the same spelling.
    pub(crate) sent_path: Option<Said>,
    pub(crate) unverified: BTreeSet<String>,
    pub(crate) within: Option<BTreeSet<String>>,
}

/// Why a policy cannot count a request.
pub(crate) enum Lack {
    /// A value of its key is missing.
    Missing,
    /// A value that it needs is wrong, or a cost or a limit is missing.
    Wrong,
    /// One of these attributes cannot be read.
    Unreadable(BTreeSet<String>),
}

impl Lack {
    fn unreadable(name: &str) -> Self {
        Self::Unreadable([name.to_owned()].into())
    }
}

impl Request {
    pub(crate) fn values(&self) -> Values {
        let mut said = BTreeMap::new();
        for (name, value) in &self.attributes {
            let value = match (name.as_str(), value) {
                // An empty list is no value.
                (_, Said::List(texts)) if texts.is_empty() => continue,
                (_, Said::List(texts)) => Said::List(texts.iter().map(|text| spelled(name, text)).collect()),
                (_, Said::Text(text)) => Said::Text(spelled(name, text)),
                (_, Said::Unreadable) => Said::Unreadable,
            };
            // For a repeated name, the first value counts.
            said.entry(name.clone()).or_insert(value);
        }
        let is_path = |(name, value): &&(String, Said)| {
            name == "path" && !matches!(value, Said::List(texts) if texts.is_empty())
        };
        let sent_path = self.attributes.iter().find(is_path).map(|(_, value)| value.clone());
        Values { said, sent_path, unverified: self.unverified.clone(), within: self.within.clone() }
    }
}

/// Normalizes a text of this attribute.
pub(crate) fn spelled(name: &str, text: &str) -> String {
    match name {
        "path" => rewritten(text),
        "ip" => Address::parse(text)
            .map_or(text.to_owned(), |address| address.unmapped().untranslated().spelled()),
        _ => text.to_owned(),
    }
}

impl Values {
    /// Returns the request as it may be read: with a normalized path, and with the path that was sent. Usually both are
    /// the same.
    fn readings(&self) -> [Self; 2] {
        let mut sent = self.clone();
        sent.said.extend(self.sent_path.clone().map(|path| ("path".to_owned(), path)));
        [self.clone(), sent]
    }

    pub(crate) fn is_readable(&self, name: &str) -> bool {
        !matches!(self.said.get(name), Some(Said::Unreadable))
    }

    pub(crate) fn are_readable(&self) -> bool {
        self.said.keys().all(|name| self.is_readable(name))
    }

    /// Returns those of these attributes that are invalid.
    pub(crate) fn unreadable<'a>(&self, names: impl Iterator<Item = &'a str>) -> BTreeSet<String> {
        names.filter(|name| !self.is_readable(name)).map(str::to_owned).collect()
    }

    /// Returns the texts that a value stands for: each of its own, and GET for HEAD. Empty if there is no value.
    pub(crate) fn texts<'a>(&'a self, name: &str) -> Result<Vec<&'a str>, Lack> {
        let mut texts: Vec<&str> = match self.said.get(name) {
            None => Vec::new(),
            Some(Said::Text(text)) => vec![text],
            Some(Said::List(texts)) => texts.iter().map(String::as_str).collect(),
            Some(Said::Unreadable) => return Err(Lack::unreadable(name)),
        };
        if name == "method" && texts.contains(&"HEAD") {
            texts.push("GET");
        }
        Ok(texts)
    }

    /// Returns the value if it is a single text, and not empty.
    fn text<'a>(&'a self, name: &str) -> Result<Option<&'a str>, Lack> {
        match self.said.get(name) {
            Some(Said::Text(text)) if !text.is_empty() => Ok(Some(text)),
            Some(Said::Unreadable) => Err(Lack::unreadable(name)),
            _ => Ok(None),
        }
    }

    /// Returns the value if it is a whole number; the largest possible one if it is larger.
    fn number(&self, name: &str) -> Result<Option<u128>, Lack> {
        let digits = |text: &str| {
            text.chars().try_fold(0_u128, |number, digit| {
                Some((number * 10 + u128::from(digit.to_digit(10)?)).min(1 << 99))
            })
        };
        Ok(self.text(name)?.and_then(digits))
    }
}

/// Returns the names of the policies that match: exempt ones by name, the deny list, and counting ones in the order of the
/// file.
pub(crate) fn matching<'a>(file: &'a File, values: &Values) -> Vec<&'a str> {
    let matching = file.policies.iter().filter(|policy| matches(file, policy, values) == Some(true));
    let (exempt, counting): (Vec<_>, Vec<_>) = matching.partition(|policy| policy.counting.is_none());
    let listed = |name, is_listed| (is_listed == Some(true)).then_some(name);
    let names = |policies: Vec<&'a Policy>| policies.into_iter().map(|policy| policy.name.as_str());
    let allowed = listed("allow", is_allowed(file, values)).into_iter().chain(names(exempt));
    let allowed: BTreeSet<&str> = allowed.collect();
    allowed.into_iter().chain(listed("deny", is_denied(file, values))).chain(names(counting)).collect()
}

/// Whether the list of the whole file that allows requests has this one.
fn is_allowed(file: &File, values: &Values) -> Option<bool> {
    let [normalized, sent] = readings_in(file, &file.allow, values);
    Some(normalized? && sent?)
}

/// Whether the list of the whole file that denies requests has this one.
fn is_denied(file: &File, values: &Values) -> Option<bool> {
    let [normalized, sent] = readings_in(file, &file.deny, values);
    Some(normalized? | sent?)
}

/// Whether a list of the whole file has each reading of a request.
fn readings_in(file: &File, lines: &Lines, values: &Values) -> [Option<bool>; 2] {
    values.readings().map(|values| match file.mode {
        Mode::Off => Some(false),
        _ => any(lines.iter().map(|line| holds(line, &values))),
    })
}

/// Returns the outcome by exempt policies and the lists of the file, if any applies.
fn before_any_count(file: &File, values: &Values) -> Option<Outcome> {
    let names = |lines: &Lines| values.unreadable(lines.iter().map(|(name, _)| name.as_str()));
    let undecided =
        |unreadable| Outcome::Wrong { policies: BTreeSet::new(), unreadable, foreign: BTreeSet::new() };

    let (mut exempt, mut may_exempt) = (BTreeSet::new(), BTreeSet::new());
    match is_allowed(file, values) {
        Some(true) => _ = exempt.insert("allow".to_owned()),
        Some(false) => {}
        None => may_exempt.extend(names(&file.allow)),
    }
    for policy in file.policies.iter().filter(|policy| policy.counting.is_none()) {
        match matches(file, policy, values) {
            Some(true) => _ = exempt.insert(policy.name.clone()),
            Some(false) => {}
            None => may_exempt.extend(values.unreadable(policy.conditions.names())),
        }
    }
    match (is_denied(file, values), file.mode) {
        _ if !exempt.is_empty() => Some(Outcome::Exempt(exempt)),
        // A trial can do without.
        (_, Mode::Off | Mode::Shadow) => None,
        _ if !may_exempt.is_empty() => Some(undecided(may_exempt)),
        (Some(true), Mode::Enforce) => Some(Outcome::DeniedAsListed),
        (Some(false), Mode::Enforce) => None,
        (None, Mode::Enforce) => Some(undecided(names(&file.deny))),
    }
}

pub(crate) fn outcome(
    file: &File,
    values: &Values,
    asked: u32,
    (overrides, moment): (&RunOverrides, Moment),
) -> Outcome {
    if let Some(outcome) = before_any_count(file, values) {
        return outcome;
    }
    let mut would_deny = BTreeSet::new();
    if is_denied(file, values) == Some(true) {
        would_deny.insert("deny".to_owned());
    }
    // A reading without any policy is unmatched, even if another reading has one.
    let both = |[normalized, sent]: [bool; 2], [next_normalized, next_sent]: [Option<bool>; 2]| {
        [normalized | (next_normalized == Some(true)), sent | (next_sent == Some(true))]
    };
    let mut matched = both([false, false], readings_in(file, &file.allow, values));
    let (mut wrong, mut unknown, mut unread) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let (mut foreign, mut denying) = (BTreeSet::new(), BTreeSet::new());
    let (mut deciding, mut tried) = (Vec::new(), Vec::new());
    for policy in &file.policies {
        let readings = readings_of(file, policy, values);
        let Some(counting) = &policy.counting else {
            matched = both(matched, readings);
            continue;
        };
        let is_shadow = mode(file, policy) == Mode::Shadow;
        match matches(file, policy, values) {
            Some(true) => {}
            None if !is_shadow => {
                unread.extend(values.unreadable(policy.conditions.names()));
                continue;
            }
            _ => continue,
        }
        if values.within.as_ref().is_some_and(|within| !within.contains(&policy.name)) {
            foreign.insert(policy.name.clone());
            continue;
        }
        let who = who(&counting.key, values);
        let on_missing_key = counting.on_missing_key.or(file.on_missing_key).unwrap_or(OnMissingKey::Error);
        if matches!(who, Err(Lack::Missing)) && on_missing_key == OnMissingKey::Skip && !is_shadow {
            continue;
        }
        matched = both(matched, readings);
        let is_unknown = match (&who, on_missing_key) {
            (Err(Lack::Missing), OnMissingKey::Deny) => true,
            // What is not an address is not missing.
            (Err(Lack::Wrong), OnMissingKey::Deny | OnMissingKey::Skip) => true,
            _ => false,
        };
        let over = match &who {
            Ok(_) => overrides.find(&policy.name, &counting.key, counting.overdraft, values, moment),
            Err(_) => Ok(None),
        };
        if matches!(over, Ok(Some(RunLimits::Denied))) {
            _ = if is_shadow { &mut would_deny } else { &mut denying }.insert(policy.name.clone());
            continue;
        }
        let counted = who.and_then(|who| {
            let over = over?;
            let cost = cost(&counting.cost, values, asked)?;
            // Both are looked up before any limit is read.
            let lists = match (lists(file, counting, values, readings), over) {
                // Only candidates are left of them, and a trial is left out.
                (Err(Lack::Unreadable(_)), Some(_)) => Vec::new(),
                (lists, _) => lists?,
            };
            let mut charged = Vec::new();
            for (quotas, candidates) in lists {
                // A trial is left out if its limits are invalid.
                let quotas = if over.is_some() { Vec::new() } else { limited(&quotas, values)? };
                charged.push((quotas, limited(&candidates, values).unwrap_or_default()));
            }
            let (mut quotas, candidates): (Vec<_>, Vec<_>) = charged.into_iter().unzip();
            if let Some(RunLimits::Quotas(limits)) = over {
                quotas = vec![limited(limits, values)?];
            }
            // A unit in flight is a request, whatever it costs.
            let counted = |quota: String| Counted {
                policy: policy.name.clone(),
                cost: if is_in_flight(&quota) { 1 } else { cost },
                quota,
                who: who.clone(),
                overdraft: counting.overdraft,
            };
            let all = |quotas: Vec<String>| quotas.into_iter().map(counted).collect::<Vec<Counted>>();
            Ok((all(strictest(quotas)), all(strictest(candidates))))
        });
        match counted {
            Ok((quotas, candidates)) => {
                match is_shadow {
                    false => deciding.extend(quotas),
                    true => tried.push((Trial::Shadow, quotas)),
                }
                tried.push((Trial::Candidate, candidates));
            }
            Err(Lack::Missing | Lack::Wrong) if is_unknown && is_shadow => {
                _ = would_deny.insert(policy.name.clone())
            }
            Err(_) if is_shadow => {}
            Err(Lack::Missing | Lack::Wrong) if is_unknown => _ = unknown.insert(policy.name.clone()),
            Err(Lack::Missing | Lack::Wrong) => _ = wrong.insert(policy.name.clone()),
            Err(Lack::Unreadable(names)) => unread.extend(names),
        }
    }
    if !denying.is_empty() {
        return Outcome::DeniedByOverride(denying);
    }
    if !wrong.is_empty() || !unread.is_empty() || !foreign.is_empty() {
        return Outcome::Wrong { policies: wrong, unreadable: unread, foreign };
    }
    if matched != [true, true] && file.denies_unmatched == Some(true) && file.mode == Mode::Enforce {
        return Outcome::DeniedAsUnmatched;
    }
    if !unknown.is_empty() {
        return Outcome::DeniedAsUnknown(unknown);
    }
    tried.retain(|(_, counted)| !counted.is_empty());
    Outcome::Counted { deciding, tried, would_deny }
}

/// Whether this further attribute may matter to a caller that knows only the values of these: no exempt policy matches
/// for certain, and a policy that may match names the attribute.
pub(crate) fn may_ask(
    file: &File,
    overrides: &RunOverrides,
    values: &Values,
    known: &BTreeSet<String>,
    attribute: &str,
) -> bool {
    let mut values = values.clone();
    // An unknown attribute counts as unreadable.
    let unknown = file.names().into_iter().filter(|name| !known.contains(*name));
    values.said.extend(unknown.map(|name| (name.to_owned(), Said::Unreadable)));
    let may_match = |policy: &&Policy| matches(file, policy, &values) != Some(false);
    let is_exempt =
        |policy: &Policy| policy.counting.is_none() && matches(file, policy, &values) == Some(true);
    let names = |policy: &Policy| {
        let mut compared = overrides.names(&policy.name);
        policy.names(file).contains(&attribute) || compared.any(|name| name == attribute)
    };
    let mut listed = file.allow.iter().chain(&file.deny);
    !known.contains(attribute)
        && !file.policies.iter().any(is_exempt)
        && is_allowed(file, &values) != Some(true)
        && (file.policies.iter().filter(may_match).any(names) || listed.any(|(name, _)| name == attribute))
}

fn mode(file: &File, policy: &Policy) -> Mode {
    let own = policy.counting.as_ref().map_or(Mode::Enforce, |counting| counting.mode);
    if policy.is_enabled { own.min(file.mode) } else { Mode::Off }
}

/// Whether a policy, or a list of the whole file, matches only one of the two readings of a request.
pub(crate) fn depends_on_reading(file: &File, values: &Values) -> bool {
    let lists = [&file.allow, &file.deny].map(|lines| readings_in(file, lines, values));
    let policies = file.policies.iter().map(|policy| readings_of(file, policy, values));
    lists.into_iter().chain(policies).any(|[normalized, sent]| normalized != sent)
}

/// Whether a policy applies, as far as the readable values show: one that counts if it matches a reading of the
/// request, an exempt one if it matches both.
fn matches(file: &File, policy: &Policy, values: &Values) -> Option<bool> {
    let [normalized, sent] = readings_of(file, policy, values);
    let (normalized, sent) = (normalized?, sent?);
    Some(if policy.counting.is_none() { normalized && sent } else { normalized || sent })
}

/// Whether a policy matches each reading of a request, as far as the readable values show.
fn readings_of(file: &File, policy: &Policy, values: &Values) -> [Option<bool>; 2] {
    values.readings().map(|values| match mode(file, policy) {
        Mode::Off => Some(false),
        _ => is_met(&policy.conditions, &values),
    })
}

fn is_met(conditions: &Match, values: &Values) -> Option<bool> {
    let all_hold = |lines: &Lines| all(lines.iter().map(|line| holds(line, values)));
    let any_holds = match conditions.any.as_slice() {
        [] => Some(true),
        matches => any(matches.iter().map(all_hold)),
    };
    all([all_hold(&conditions.lines), any_holds].into_iter())
}

/// Whether all are true; some may be unknown.
fn all(each: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let each: Vec<Option<bool>> = each.collect();
    match each.contains(&Some(false)) {
        true => Some(false),
        false => (!each.contains(&None)).then_some(true),
    }
}

/// Whether any is true; some may be unknown.
fn any(each: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    all(each.map(|one| one.map(|one| !one))).map(|none| !none)
}

/// Whether a line holds; unknown if its value cannot be read.
fn holds((name, test): &(String, Test), values: &Values) -> Option<bool> {
    values.texts(name).ok().map(|texts| passes(test, &texts, matches!(values.text(name), Ok(Some(_)))))
}

fn passes(test: &Test, texts: &[&str], is_key: bool) -> bool {
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
        Named::Present => is_key,
        Named::Absent => !is_key,
        Named::Not(test) => !passes(test, texts, is_key),
    })
}

/// Describes whom a key counts.
pub(crate) fn who(key: &Key, values: &Values) -> Result<String, Lack> {
    let value = |name: &str| values.text(name)?.ok_or(Lack::Missing);
    match key {
        Key::Global => Ok("all requests".to_owned()),
        Key::Attribute(name) => {
            let value = value(name)?;
            let is_head = name == "method" && value == "HEAD";
            Ok(format!("{name} = {:?}", if is_head { "GET" } else { value }))
        }
        Key::Address { name, ipv4, ipv6 } => {
            let address = Address::parse(value(name)?).ok_or(Lack::Wrong)?.unmapped().untranslated();
            Ok(format!("{name} in {}", address.client(*ipv4, *ipv6)))
        }
        Key::All(parts) => {
            let (mut all, mut unreadable, mut is_wrong) = (Vec::new(), BTreeSet::new(), false);
            for part in parts {
                match who(part, values) {
                    Ok(who) => all.push(who),
                    // Then the key is missing, whatever the other parts are.
                    Err(Lack::Missing) => return Err(Lack::Missing),
                    Err(Lack::Wrong) => is_wrong = true,
                    Err(Lack::Unreadable(names)) => unreadable.extend(names),
                }
            }
            match unreadable.is_empty() {
                false => Err(Lack::Unreadable(unreadable)),
                true if is_wrong => Err(Lack::Wrong),
                true => Ok(format!("{all:?}")),
            }
        }
        Key::FirstOf(choices) => {
            let mut lack = Lack::Missing;
            for choice in choices {
                match who(choice, values) {
                    Err(Lack::Missing) => {}
                    Err(Lack::Wrong) => lack = Lack::Wrong,
                    // The later choices are for requests without this attribute, and an unreadable one is not missing.
                    found => return found,
                }
            }
            Err(lack)
        }
    }
}

/// Returns the cost of a request.
fn cost(cost: &Cost, values: &Values, asked: u32) -> Result<u32, Lack> {
    let (name, min, max, on_missing) = match cost {
        _ if asked == 0 => return Ok(0),
        Cost::Asked => return Ok(asked),
        Cost::Fixed(units) => return Ok(*units),
        Cost::Attribute { name, min, max, on_missing } => (name, min, max, on_missing),
    };
    match (values.number(name)?, on_missing) {
        (Some(number), _) if number > u128::from(*max) => Err(Lack::Wrong),
        (Some(number), _) => Ok(u32::max(number as u32, min.unwrap_or(1))),
        (None, Some(OnMissingCost::Asked)) => Ok(asked),
        (None, Some(OnMissingCost::Fixed(units))) => Ok(*units),
        (None, Some(OnMissingCost::Error) | None) => Err(Lack::Wrong),
    }
}

/// Returns the quotas of all these lists, of each window the one with the lowest limit.
fn strictest(lists: Vec<Vec<String>>) -> Vec<String> {
    let mut limits = BTreeMap::<String, u64>::new();
    let (in_flight, quotas): (Vec<String>, Vec<String>) =
        lists.into_iter().flatten().partition(|quota| is_in_flight(quota));
    let most = |limit: &String| limit.split('~').next().and_then(|digits| digits.parse::<u64>().ok());
    let in_flight = in_flight.into_iter().min_by_key(most);
    for quota in quotas {
        let (limit, windows) = quota.split_once('/').expect("it has a limit and windows");
        let limit = limit.parse().expect("it is a number");
        let known = limits.entry(windows.to_owned()).or_insert(limit);
        *known = limit.min(*known);
    }
    limits.into_iter().map(|(windows, limit)| format!("{limit}/{windows}")).chain(in_flight).collect()
}

fn is_in_flight(limit: &str) -> bool {
    limit.contains("~in_flight")
}

/// Returns the quotas for each reading of a request that matches: those that decide, and those on trial.
fn lists(
    file: &File,
    counting: &Counting,
    values: &Values,
    matches: [Option<bool>; 2],
) -> Result<Vec<(Quotas, Quotas)>, Lack> {
    let (mut lists, mut unreadable) = (Vec::new(), BTreeSet::new());
    for (values, _) in values.readings().iter().zip(matches).filter(|(_, matches)| *matches == Some(true)) {
        match quotas(file, counting, values) {
            Ok(list) => lists.push(list),
            Err(Lack::Unreadable(names)) => unreadable.extend(names),
            Err(other) => return Err(other),
        }
    }
    if unreadable.is_empty() { Ok(lists) } else { Err(Lack::Unreadable(unreadable)) }
}

/// Returns the quotas that decide for a request, and those on trial.
fn quotas(file: &File, counting: &Counting, values: &Values) -> Result<(Quotas, Quotas), Lack> {
    for over in &counting.overrides {
        match over {
            Override::When { conditions, quotas, candidates } => match is_met(conditions, values) {
                Some(true) => return Ok((quotas.clone(), candidates.clone().unwrap_or_default())),
                Some(false) => {}
                None => return Err(Lack::Unreadable(values.unreadable(conditions.names()))),
            },
            Override::Table { attribute, values: table, beside } => {
                let rows = || table.iter().chain(beside.iter().flatten());
                let row = |text: &&str| rows().find(|(value, _)| value == text);
                if let Some((_, quotas)) = values.texts(attribute)?.iter().find_map(row) {
                    return Ok((quotas.clone(), Quotas::new()));
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
            let named = values.texts(attribute)?.into_iter().find_map(tier);
            named.or_else(|| tier(default)).expect("there is the default tier")
        }
    };
    Ok((quotas, counting.candidates.clone().unwrap_or_default()))
}

/// Returns these quotas as Tollgate writes them, with the limits of a request.
fn limited(quotas: &Quotas, values: &Values) -> Result<Vec<String>, Lack> {
    let limited = |quota: &Quota| {
        let (attribute, on_missing, max, windows) = match quota {
            Quota::Fixed(spelling) => return Ok(spelling.usual.to_owned()),
            Quota::By { attribute, on_missing, max, windows } => (attribute, on_missing, max, windows.usual),
        };
        if values.unverified.contains(attribute) {
            return Err(Lack::Wrong);
        }
        let limit = match (values.number(attribute)?, on_missing) {
            (Some(number), _) => number.min(u128::from(*max)),
            (None, Some(OnMissingLimit::Fixed(limit))) => u128::from(*limit),
            (None, Some(OnMissingLimit::Error) | None) => return Err(Lack::Wrong),
        };
        Ok(format!("{limit}/{windows}"))
    };
    quotas.iter().map(limited).collect()
}
