//! Random files and requests. Values are few and similar, so that they collide and overlap.

mod run_overrides;
mod values;

use std::collections::BTreeSet;

use fastrand::Rng;

use crate::address::Address;
use crate::expression::Expression;
use crate::file::{
    Cost, Counting, File, Key, Lines, Match, Mode, Named, OnMissingCost, OnMissingKey, OnMissingLimit,
    Override, Policy, Quota, QuotaChoice, Quotas, Spelling, Test,
};
use crate::judge::{Request, Said};
use crate::pattern::{Pattern, Piece};

const NAMES: [&str; 6] = ["x", "y", "method", "path", "ip", "units"];

/// The most common characters of texts first.
const ALPHABET: [char; 14] = ['a', 'b', '/', 'a', 'b', '/', 'A', '.', 'é', 'É', 'σ', 'ς', 'Σ', 'İ'];

const WORDS: [&str; 12] =
    ["GET", "HEAD", "get", "Head", "PUT", "1.10", "no", "gold", "free", "/login", "a, b", "\"ä\""];

const TIERS: [&str; 3] = ["free", "gold", "a"];

/// Each in the spelling of a file, and as Tollgate writes it.
type Spellings = &'static [(&'static str, &'static str)];

/// A list has at most one of each kind, because their windows are the same: as a text, or as windows alone.
const QUOTAS: [(Spellings, Spellings); 4] = [
    (
        &[("5/1m", "5/1m"), ("7/minute", "7/1m"), ("0/1m", "0/1m"), ("10/60s", "10/1m")],
        &[("1m", "1m"), ("60s", "1m"), ("minute", "1m")],
    ),
    (
        &[("3/1s@first_hit", "3/1s@first_hit"), ("4/1s@first_hit", "4/1s@first_hit")],
        &[("1s@first_hit", "1s@first_hit")],
    ),
    (&[("100/day@Europe/Berlin", "100/day@Europe/Berlin")], &[("day@Europe/Berlin", "day@Europe/Berlin")]),
    (
        &[("9/1h@staggered", "9/1h@staggered"), ("1 per 3 hours", "1/3h")],
        &[("1h@staggered", "1h@staggered"), ("3 hours", "3h")],
    ),
];

/// Limits in flight, of which a list has at most one. No two have the same limit.
const IN_FLIGHT: Spellings =
    &[("2~in_flight", "2~in_flight"), ("3~in_flight:30s", "3~in_flight:30s"), ("0~in_flight", "0~in_flight")];

/// Draws a file, then requests that come near its conditions.
pub(crate) struct Draw {
    random: Rng,
    /// Values of attributes that may match something in the file.
    near: Vec<(String, String)>,
}

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: Rng::with_seed(seed), near: Vec::new() }
    }

    pub(crate) fn file(&mut self) -> File {
        let tiers = if self.once_in(2) { TIERS.to_vec() } else { Vec::new() };
        let tiers: Vec<(String, Quotas)> =
            tiers.into_iter().map(|name| (name.to_owned(), self.quotas())).collect();
        let most = if self.once_in(20) { 60 } else { 8 };
        let policies = (0..self.random.usize(..=most)).map(|number| self.policy(number, !tiers.is_empty()));
        let mut policies: Vec<Policy> = policies.collect();
        // No denial can charge units in flight.
        for counting in policies.iter_mut().filter_map(|policy| policy.counting.as_mut()) {
            counting.overdraft &= !counting.has_in_flight(&tiers);
        }
        File {
            mode: if self.once_in(6) { self.mode() } else { Mode::Enforce },
            denies_unmatched: self.once_in(3).then(|| self.random.bool()),
            on_missing_key: self.once_in(3).then(|| self.on_missing_key()),
            tiers,
            allow: self.listed(12),
            deny: self.listed(6),
            policies,
            style: self.random.u64(..),
        }
    }

    pub(crate) fn request(&mut self) -> Request {
        let mut attributes = Vec::new();
        for name in NAMES {
            if self.once_in(8) {
                continue;
            }
            let value = match self.random.u32(..8) {
                0..5 => self.value_near(name),
                _ => None,
            };
            let value = value.unwrap_or_else(|| self.value_of(name));
            let value = if self.once_in(4) { self.damaged(&value) } else { value };
            let value = match self.value_near(name) {
                Some(near) if name == "path" && self.once_in(4) => self.detour(&near, &value),
                _ => value,
            };
            let said = match self.once_in(if ["x", "y", "units"].contains(&name) { 5 } else { 40 }) {
                true => Said::List(self.list(name, value)),
                false => Said::Text(value),
            };
            attributes.push((name.to_owned(), said));
        }
        if self.once_in(10) {
            for _ in 0..self.random.usize(1..3) {
                let at = self.random.usize(..=attributes.len());
                attributes.insert(at, (self.name(), Said::Unreadable));
            }
        }
        self.random.shuffle(&mut attributes);
        if self.once_in(8) {
            let name = self.name();
            let value = self.value_of(&name);
            attributes.push((name, Said::Text(value)));
        }
        let unverified: BTreeSet<String> = match self.once_in(8) {
            true => NAMES.iter().filter(|_| self.random.bool()).map(|name| (*name).to_owned()).collect(),
            false => BTreeSet::new(),
        };
        let within = self.once_in(12).then(|| {
            let policies = (0..8).filter(|_| !self.once_in(3));
            policies.map(|number| format!("p{number}")).collect()
        });
        Request {
            attributes,
            unverified,
            within,
            cost: if self.once_in(8) { 0 } else { self.random.u32(1..4) },
        }
    }

    /// Draws this text, possibly with others; or an empty list, which is no value.
    fn list(&mut self, name: &str, text: String) -> Vec<String> {
        if self.once_in(5) {
            return Vec::new();
        }
        let mut texts = vec![text];
        for _ in 0..self.random.usize(..3) {
            texts.extend(self.value_near(name));
        }
        self.random.shuffle(&mut texts);
        texts
    }

    fn policy(&mut self, number: usize, has_tiers: bool) -> Policy {
        let name = format!("p{number}");
        let most = self.random.usize(..3);
        let conditions = self.conditions(most);
        let counting = (!self.once_in(10)).then(|| self.counting(has_tiers));
        Policy { name, is_enabled: !self.once_in(15), conditions, counting }
    }

    fn counting(&mut self, has_tiers: bool) -> Counting {
        let quotas = match has_tiers && self.once_in(3) {
            true => QuotaChoice::Tier { attribute: self.name(), default: self.pick(&TIERS).to_owned() },
            false => QuotaChoice::List(self.quotas()),
        };
        if let QuotaChoice::Tier { attribute, .. } = &quotas {
            self.near.extend(TIERS.map(|tier| (attribute.clone(), tier.to_owned())));
        }
        let overrides =
            (0..self.random.usize(..3).saturating_sub(self.random.usize(..2))).map(|_| self.over()).collect();
        Counting {
            mode: if self.once_in(4) { self.mode() } else { Mode::Enforce },
            key: self.key(),
            on_missing_key: self.once_in(2).then(|| self.on_missing_key()),
            cost: self.cost(),
            overdraft: self.once_in(3),
            quotas,
            candidates: self.once_in(6).then(|| self.quotas()),
            overrides,
        }
    }

    /// Draws some lines, and sometimes alternatives, instead of the lines or in addition.
    fn conditions(&mut self, most: usize) -> Match {
        let any = if self.once_in(5) { self.random.usize(1..4) } else { 0 };
        let any: Vec<Lines> = (0..any)
            .map(|_| {
                let most = self.random.usize(1..3);
                self.lines(most)
            })
            .collect();
        Match {
            lines: if any.is_empty() || self.random.bool() { self.lines(most) } else { Lines::new() },
            any,
        }
    }

    /// Draws the lines of a list for the whole file, once in `times`.
    fn listed(&mut self, times: u32) -> Lines {
        if !self.once_in(times) {
            return Lines::new();
        }
        let mut names = NAMES.to_vec();
        self.random.shuffle(&mut names);
        names.truncate(self.random.usize(1..3));
        let listed = names.into_iter().map(|name| {
            let count = self.random.usize(1..3);
            let test = match (name, self.once_in(3)) {
                ("ip", false) => Named::Cidr((0..count).map(|_| self.network(name)).collect()),
                ("ip", true) => Named::CidrFrom((0..count).map(|_| self.network(name)).collect()),
                (_, true) => {
                    let lines = (0..count).map(|_| self.noted(name)).filter(|line| !line.is_empty());
                    Named::OneOfFrom(lines.collect())
                }
                (_, false) => return (name.to_owned(), Test::OneOf(self.patterns(name))),
            };
            (name.to_owned(), Test::Braces { tests: vec![test], ignores_case: None })
        });
        listed.collect()
    }

    fn lines(&mut self, most: usize) -> Lines {
        let mut names = NAMES.to_vec();
        self.random.shuffle(&mut names);
        names.truncate(most);
        names.into_iter().map(|name| (name.to_owned(), self.test(name, 2))).collect()
    }

    fn test(&mut self, name: &str, depth: u32) -> Test {
        if self.once_in(3) {
            return Test::OneOf(self.patterns(name));
        }
        let mut tests: Vec<Named> = Vec::new();
        for _ in 0..self.random.usize(1..3) {
            let test = self.named(name, depth);
            let is_there = |other: &Named| std::mem::discriminant(other) == std::mem::discriminant(&test);
            if !tests.iter().any(is_there) {
                tests.push(test);
            }
        }
        let is_text = |test: &Named| {
            matches!(
                test,
                Named::Equal(_) | Named::OneOf(_) | Named::Prefix(_) | Named::Glob(_) | Named::Regex(_)
            )
        };
        let ignores_case = (tests.iter().any(is_text) && self.once_in(3)).then(|| !self.once_in(4));
        Test::Braces { tests, ignores_case }
    }

    fn named(&mut self, name: &str, depth: u32) -> Named {
        let is_address = name == "ip" || self.once_in(8);
        match self.random.u32(..16) {
            0..8 if is_address => {
                let networks = (0..self.random.usize(1..4)).map(|_| self.network(name)).collect();
                if self.once_in(3) { Named::CidrFrom(networks) } else { Named::Cidr(networks) }
            }
            0..3 => Named::Equal(self.noted(name)),
            3..6 => Named::Prefix(self.beginning(name)),
            6..8 => Named::OneOf(self.patterns(name)),
            8..10 => Named::Glob(self.pattern(name)),
            10 => {
                let expression = Expression::draw(&mut self.random, &ALPHABET, 2);
                for _ in 0..3 {
                    let example = expression.example(&mut self.random);
                    self.near.push((name.to_owned(), example));
                }
                Named::Regex(expression)
            }
            11 => {
                let lines =
                    (0..self.random.usize(..4)).map(|_| self.noted(name)).filter(|line| !line.is_empty());
                Named::OneOfFrom(lines.collect())
            }
            12 => Named::Present,
            13 => Named::Absent,
            _ if depth > 0 => Named::Not(Box::new(self.test(name, depth - 1))),
            _ => Named::Equal(self.noted(name)),
        }
    }

    fn patterns(&mut self, name: &str) -> Vec<Pattern> {
        (0..self.random.usize(1..4)).map(|_| self.pattern(name)).collect()
    }

    /// Draws a pattern that may match the value, with wildcards in some places.
    fn pattern(&mut self, name: &str) -> Pattern {
        let text = self.noted(name);
        if self.once_in(2) {
            return Pattern::of(&text);
        }
        if self.once_in(6) {
            // A `*` in a variable is not special; then only the end may have a special one.
            let text = text + self.pick(&["*", "?", "a*b"]);
            let end = if self.random.bool() { vec![Piece::Star] } else { Vec::new() };
            self.near.push((name.to_owned(), format!("a{text}")));
            return Pattern([vec![Piece::Text("a".to_owned()), Piece::Variable(text)], end].concat());
        }
        let mut pieces = Vec::new();
        for character in text.chars() {
            match self.random.u32(..8) {
                0 | 1 => pieces.push(Piece::Star),
                2 => pieces.push(Piece::Any),
                3 => {}
                _ => pieces.push(Piece::Text(character.to_string())),
            }
        }
        // More often at the end, which makes it a prefix.
        if self.random.bool() {
            pieces.push(Piece::Star);
        }
        Pattern(pieces)
    }

    fn beginning(&mut self, name: &str) -> String {
        let text = self.noted(name);
        let length = self.random.usize(1..4);
        let beginning: String = text.chars().take(length).collect();
        if beginning.is_empty() { "a".to_owned() } else { beginning }
    }

    fn network(&mut self, name: &str) -> String {
        let is_mapped = self.once_in(6);
        let (mut bytes, bits): (Vec<u8>, usize) = match self.random.bool() {
            true => (self.ipv4().to_vec(), 32),
            false => (self.ipv6().to_vec(), 128),
        };
        let length = if self.once_in(4) { bits } else { self.random.usize(..=bits) };
        // Half of all lengths are the usual ones.
        let length = if self.random.bool() { length / 8 * 8 } else { length };
        let mut last = bytes.clone();
        for bit in length..bits {
            bytes[bit / 8] &= !(0x80 >> (bit % 8));
            last[bit / 8] |= 0x80 >> (bit % 8);
        }
        let number = |bytes: &[u8]| bytes.iter().fold(0_u128, |all, byte| all << 8 | u128::from(*byte));
        for near in
            [number(&bytes).wrapping_sub(1), number(&bytes), number(&last), number(&last).wrapping_add(1)]
        {
            let near = Address::of(&near.to_be_bytes()[16 - bits / 8..]).spelled();
            self.near.push((name.to_owned(), near));
        }
        let first = Address::of(&bytes).spelled();
        match () {
            () if is_mapped && bits == 32 => format!("::ffff:{first}/{}", length + 96),
            // A mapped network with 96 bits only means any IPv4 address.
            () if first.starts_with("::ffff:") && length < 96 => "::/0".to_owned(),
            () if length == bits && self.random.bool() => first,
            () => format!("{first}/{length}"),
        }
    }

    fn quotas(&mut self) -> Quotas {
        self.quotas_of(|draw| draw.once_in(6))
    }

    /// Draws quotas; the limit of one comes from an attribute if this returns true.
    fn quotas_of(&mut self, is_by_attribute: impl Fn(&mut Self) -> bool) -> Quotas {
        if self.once_in(8) {
            return Quotas::new();
        }
        let mut kinds = QUOTAS.to_vec();
        self.random.shuffle(&mut kinds);
        let count = self.random.usize(1..4);
        let quota = |(fixed, windows)| match is_by_attribute(self) {
            true => self.quota_by(windows),
            false => Quota::Fixed(self.spelling(fixed)),
        };
        let mut quotas: Quotas = kinds.into_iter().take(count).map(quota).collect();
        if self.once_in(6) {
            let at = self.random.usize(..=quotas.len());
            quotas.insert(at, Quota::Fixed(self.spelling(IN_FLIGHT)));
        }
        quotas
    }

    fn quota_by(&mut self, windows: Spellings) -> Quota {
        let attribute = if self.once_in(4) { self.name() } else { "units".to_owned() };
        let max = self.random.u64(1..50);
        let on_missing = match self.random.u32(..4) {
            0 => None,
            1 => Some(OnMissingLimit::Error),
            _ => Some(OnMissingLimit::Fixed(self.random.u64(..=max))),
        };
        for near in [max.saturating_sub(1), max, max + 1] {
            self.near.push((attribute.clone(), near.to_string()));
        }
        Quota::By { attribute, on_missing, max, windows: self.spelling(windows) }
    }

    fn spelling(&mut self, spellings: Spellings) -> Spelling {
        let (in_file, usual) = *self.random.choice(spellings).expect("there are some");
        Spelling { in_file, usual }
    }

    fn over(&mut self) -> Override {
        if self.random.bool() {
            let most = self.random.usize(1..3);
            let conditions = self.conditions(most);
            let candidates = self.once_in(4).then(|| self.quotas());
            return Override::When { conditions, quotas: self.quotas(), candidates };
        }
        let attribute = self.name();
        let mut values: Vec<String> = (0..self.random.usize(1..6)).map(|_| self.noted(&attribute)).collect();
        values.sort();
        values.dedup();
        let beside = self.random.bool().then(|| values.split_off(self.random.usize(..values.len())));
        let values = values.into_iter().map(|value| (value, self.quotas())).collect();
        // A line of a table cannot have a limit from an attribute.
        let line = |value| (value, self.quotas_of(|_| false));
        let beside = beside.map(|beside| beside.into_iter().map(line).collect());
        Override::Table { attribute, values, beside }
    }

    fn key(&mut self) -> Key {
        match self.random.u32(..8) {
            0 => Key::Global,
            1 | 2 => Key::All(self.parts(0)),
            3 | 4 => Key::FirstOf(self.parts(1)),
            _ => self.part(),
        }
    }

    /// Draws different keys, some of them made of several.
    fn parts(&mut self, depth: u32) -> Vec<Key> {
        let mut parts = Vec::new();
        for _ in 0..self.random.usize(2..4) {
            let part = match self.random.u32(..6) {
                0 if depth > 0 => Key::All(self.parts(0)),
                1 if depth == 0 => Key::FirstOf(self.parts(2)),
                _ => self.part(),
            };
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        // A list of one key is that key.
        if parts.len() == 1 { vec![parts.remove(0), Key::Attribute("z".to_owned())] } else { parts }
    }

    fn part(&mut self) -> Key {
        let name = self.name();
        match self.random.u32(..4) {
            0 => Key::Address { name: "ip".to_owned(), ipv4: 32, ipv6: 64 },
            1 => Key::Address { name, ipv4: self.random.usize(..=32), ipv6: self.random.usize(..=128) },
            _ => Key::Attribute(name),
        }
    }

    fn cost(&mut self) -> Cost {
        match self.random.u32(..8) {
            0 => Cost::Fixed(self.random.u32(1..5)),
            1 | 2 => {
                let max = self.random.u32(1..50);
                let on_missing = match self.random.u32(..4) {
                    0 => None,
                    1 => Some(OnMissingCost::Error),
                    2 => Some(OnMissingCost::Asked),
                    _ => Some(OnMissingCost::Fixed(self.random.u32(1..9))),
                };
                let min = self.random.bool().then(|| self.random.u32(..=max.min(4)));
                self.near.push(("units".to_owned(), max.to_string()));
                self.near.push(("units".to_owned(), (max + 1).to_string()));
                Cost::Attribute { name: "units".to_owned(), min, max, on_missing }
            }
            _ => Cost::Asked,
        }
    }

    fn mode(&mut self) -> Mode {
        *self.random.choice(&[Mode::Off, Mode::Shadow, Mode::Shadow]).expect("there are some")
    }

    fn on_missing_key(&mut self) -> OnMissingKey {
        let all = [OnMissingKey::Error, OnMissingKey::Deny, OnMissingKey::Skip];
        *self.random.choice(&all).expect("there are some")
    }

    fn name(&mut self) -> String {
        self.pick(&NAMES).to_owned()
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.random.usize(..choices.len())]
    }

    /// Returns true once in `times`.
    fn once_in(&mut self, times: u32) -> bool {
        self.random.u32(..times) == 0
    }
}
