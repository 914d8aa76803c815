//! Random files and requests, with few different texts, so that they often meet. Nothing here is shared with the crate.

use fastrand::Rng;
use serde_json::{Map, Value, json};

/// A file, which has one domain.
#[derive(Debug, Clone)]
pub(crate) struct File {
    pub(crate) domain: String,
    pub(crate) level: Level,
    words: &'static Words,
}

/// The texts that files and requests are made of.
#[derive(Debug)]
pub(crate) struct Words {
    keys: &'static [&'static str],
    metadata: &'static [&'static str],
    has_overdrafts: bool,
}

/// The settings of all domains.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Modes {
    /// Each limit is charged by itself.
    pub(crate) each: bool,
    /// `SHADOW_MODE`.
    pub(crate) shadow: bool,
    /// `QUOTA_MODE`.
    pub(crate) quota: bool,
    /// `LIMIT_RESPONSE_HEADERS_ENABLED`.
    pub(crate) headers: bool,
    /// `RESPONSE_DYNAMIC_METADATA`.
    pub(crate) metadata: bool,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Level(pub Vec<Branch>);

#[derive(Debug, Clone)]
pub(crate) struct Branch {
    pub(crate) key: String,
    pub(crate) value: Option<String>,
    pub(crate) limit: Option<Limit>,
    pub(crate) shadow: bool,
    pub(crate) quota: bool,
    pub(crate) share: bool,
    /// `detailed_metric`.
    pub(crate) detailed: bool,
    /// `value_to_metric`.
    pub(crate) tells: bool,
    pub(crate) metadata: Option<Value>,
    pub(crate) children: Level,
}

#[derive(Debug, Clone)]
pub(crate) struct Limit {
    /// `None` for an unlimited one.
    pub(crate) counted: Option<(u32, Unit)>,
    pub(crate) overdraft: bool,
    pub(crate) name: Option<String>,
    pub(crate) replaces: Vec<String>,
}

/// The name of a unit and its seconds.
pub(crate) type Unit = (&'static str, u64);

#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) domain: String,
    pub(crate) hits: u32,
    pub(crate) descriptors: Vec<AskedDescriptor>,
}

#[derive(Debug, Clone)]
pub(crate) struct AskedDescriptor {
    pub(crate) entries: Vec<(String, String)>,
    pub(crate) limit: Option<(u32, Unit)>,
    pub(crate) hits: Option<u64>,
    pub(crate) negative: bool,
}

impl Words {
    pub(crate) const ALL: Self = Self {
        // Often those that are one text with a value: `a` with `b_c`, and `a_b` with `c`.
        keys: &["a", "a", "a_b", "a_b", "b", "path", "k.d", "x:y"],
        metadata: &[r#"{"tier": 1}"#, r#"{"tier": 2, "deep": {"a": 1}}"#, r#"{"deep": {"a": 2, "b": "c"}}"#],
        has_overdrafts: true,
    };

    /// Those that envoyproxy/ratelimit reads without mistaking one for another.
    pub(crate) const CLEAR: Self = Self {
        keys: &["a", "b", "path", "k.d", "x:y"],
        metadata: &[r#"{"tier": 1}"#, r#"{"deep": {"a": 1}}"#],
        has_overdrafts: false,
    };
}

const UNITS: [Unit; 7] = [
    ("SECOND", 1),
    ("MINUTE", 60),
    ("HOUR", 60 * 60),
    ("DAY", 24 * 60 * 60),
    ("WEEK", 7 * 24 * 60 * 60),
    ("MONTH", 30 * 24 * 60 * 60),
    ("YEAR", 365 * 24 * 60 * 60),
];
const VALUES: [&str; 14] = [
    "",
    "c",
    "b_c",
    "ab",
    "abc",
    "aab",
    "*",
    "a*",
    "/x/y.png",
    "/x/z",
    "é",
    "a*c",
    "192.0.2.7",
    "x1.2.3.4567:8|9",
];
const PATTERNS: [&str; 12] =
    ["*", "a*", "*b", "a*c", "*a*", "/x/*", "*.png", "/x/*.png", "a**", "*é*", "*b*b*", "a*b*"];
const NAMES: [&str; 3] = ["n1", "n2", "n3"];
const DOMAINS: [&str; 3] = ["shop", "shop.example", "eu:1"];

impl Asked {
    pub(crate) fn json(&self) -> Value {
        let descriptors = self.descriptors.iter().map(|asked| {
            let entries = asked.entries.iter().map(|(key, value)| json!({ "key": key, "value": value }));
            let mut written = json!({ "entries": entries.collect::<Value>() });
            if let Some((requests, (unit, _))) = asked.limit {
                written["limit"] = json!({ "requestsPerUnit": requests, "unit": unit });
            }
            if let Some(hits) = asked.hits {
                written["hitsAddend"] = hits.into();
            }
            if asked.negative {
                written["isNegativeHits"] = true.into();
            }
            written
        });
        json!({ "domain": self.domain, "hitsAddend": self.hits, "descriptors": descriptors.collect::<Value>() })
    }
}

pub(crate) fn modes(rng: &mut Rng) -> Modes {
    let [shadow, quota] = [(); 2].map(|()| rng.u8(..6) == 0);
    Modes { each: rng.bool(), shadow, quota, headers: rng.bool(), metadata: rng.bool() }
}

pub(crate) fn file(rng: &mut Rng, words: &'static Words) -> File {
    File { domain: pick(rng, &DOMAINS), level: level(rng, words, 0), words }
}

fn level(rng: &mut Rng, words: &Words, depth: u32) -> Level {
    let mut branches: Vec<Branch> = Vec::new();
    for _ in 0..rng.usize(1..7) {
        let value = match rng.u8(..4) {
            0 => None,
            1 => Some(pick(rng, &VALUES)).filter(|value| !value.is_empty()),
            _ => Some(pick(rng, &PATTERNS)),
        };
        let key = pick(rng, words.keys);
        if branches.iter().any(|known| known.key == key && known.value == value) {
            continue;
        }
        let children =
            if depth < 2 && rng.u8(..3) == 0 { level(rng, words, depth + 1) } else { Level::default() };
        let limit = (rng.u8(..5) > 0).then(|| limit(rng, words));
        let [shadow, quota, share, detailed, tells, has_metadata] =
            [6, 3, 2, 5, 5, 3].map(|of| rng.u8(..of) == 0);
        let share = share && value.as_ref().is_some_and(|value| value.contains('*'));
        let metadata =
            has_metadata.then(|| serde_json::from_str(&pick(rng, words.metadata)).expect("it is JSON"));
        branches.push(Branch {
            key,
            value,
            limit,
            shadow,
            quota,
            share,
            detailed,
            tells,
            metadata,
            children,
        });
    }
    Level(branches)
}

fn limit(rng: &mut Rng, words: &Words) -> Limit {
    let counted = (rng.u8(..8) > 0).then(|| (rng.u32(..6), unit(rng)));
    let overdraft = words.has_overdrafts && counted.is_some() && rng.u8(..3) == 0;
    let name = rng.bool().then(|| pick(rng, &NAMES));
    let mut replaces: Vec<String> = Vec::new();
    if rng.u8(..6) == 0 {
        replaces.push(pick(rng, &NAMES));
    }
    replaces.retain(|replaced| Some(replaced) != name.as_ref());
    Limit { counted, overdraft, name, replaces }
}

/// Often short ones, so that windows end.
fn unit(rng: &mut Rng) -> Unit {
    UNITS[rng.usize(..7).min(rng.usize(..7))]
}

fn pick(rng: &mut Rng, texts: &[&str]) -> String {
    texts[rng.usize(..texts.len())].to_owned()
}

impl File {
    /// JSON, which is YAML as well.
    pub(crate) fn written(&self) -> String {
        json!({ "domain": self.domain, "descriptors": descriptors(&self.level) }).to_string()
    }
}

fn descriptors(level: &Level) -> Value {
    let branches = level.0.iter().map(|branch| {
        let mut written = Map::new();
        written.insert("key".into(), branch.key.clone().into());
        if let Some(value) = &branch.value {
            written.insert("value".into(), value.clone().into());
        }
        if let Some(limit) = &branch.limit {
            let mut rate_limit = match limit.counted {
                None => json!({ "unlimited": true }),
                Some((requests, (unit, _))) => json!({ "unit": unit, "requests_per_unit": requests }),
            };
            if limit.overdraft {
                rate_limit["overdraft"] = true.into();
            }
            if let Some(name) = &limit.name {
                rate_limit["name"] = name.clone().into();
            }
            let replaces = limit.replaces.iter().map(|name| json!({ "name": name }));
            rate_limit["replaces"] = replaces.collect();
            written.insert("rate_limit".into(), rate_limit);
        }
        for (key, flag) in [
            ("shadow_mode", branch.shadow),
            ("quota_mode", branch.quota),
            ("share_threshold", branch.share),
            ("detailed_metric", branch.detailed),
            ("value_to_metric", branch.tells),
        ] {
            written.insert(key.into(), flag.into());
        }
        if let Some(metadata) = &branch.metadata {
            written.insert("metadata".into(), metadata.clone());
        }
        written.insert("descriptors".into(), descriptors(&branch.children));
        Value::Object(written)
    });
    branches.collect()
}

pub(crate) fn request(rng: &mut Rng, file: &File) -> Asked {
    let descriptors = (0..rng.usize(1..5)).map(|_| descriptor(rng, file)).collect();
    let domain = if rng.u8(..20) == 0 { "un-known" } else { &file.domain }.to_owned();
    Asked { domain, hits: rng.u32(..3), descriptors }
}

fn descriptor(rng: &mut Rng, file: &File) -> AskedDescriptor {
    let mut entries = Vec::new();
    let mut here = Some(&file.level);
    for _ in 0..rng.usize(1..4) {
        if rng.u8(..50) == 0 {
            // Nothing more, or not even one entry.
            break;
        }
        // Mostly along the file, so that limits are reached.
        let branch = here.filter(|level| !level.0.is_empty() && rng.u8(..5) > 0);
        let branch = branch.map(|level| &level.0[rng.usize(..level.0.len())]);
        let no_key = || if rng.u8(..10) == 0 { String::new() } else { pick(rng, file.words.keys) };
        let key = branch.map_or_else(no_key, |branch| branch.key.clone());
        let value = match branch.and_then(|branch| branch.value.clone()) {
            Some(value) if rng.bool() => value.replace('*', ["", "c", "b", "x"][rng.usize(..4)]),
            _ => pick(rng, &VALUES),
        };
        entries.push((key, value));
        here = branch.map(|branch| &branch.children);
        if here.is_none_or(|level| level.0.is_empty()) && rng.u8(..4) > 0 {
            break;
        }
    }
    let limit = (rng.u8(..8) == 0).then(|| (rng.u32(..6), unit(rng)));
    let hits = (rng.u8(..4) == 0).then(|| rng.u64(..4));
    AskedDescriptor { entries, limit, hits, negative: rng.u8(..10) == 0 }
}
