//! Random files and requests, with few different texts, so that they often meet.

use fastrand::Rng;
use serde_json::{Map, Value, json};
use tollgate_envoy::{Descriptor, Override, Request, Unit};

pub(crate) const DOMAIN: &str = "shop";

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
    pub(crate) children: Level,
}

#[derive(Debug, Clone)]
pub(crate) struct Limit {
    /// `None` for an unlimited one.
    pub(crate) counted: Option<(u32, Unit)>,
    pub(crate) name: Option<String>,
    pub(crate) replaces: Vec<String>,
}

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

const KEYS: [&str; 4] = ["a", "a_b", "b", "path"];
const VALUES: [&str; 12] = ["", "c", "b_c", "ab", "abc", "aab", "*", "a*", "/x/y.png", "/x/z", "é", "a*c"];
const PATTERNS: [&str; 12] =
    ["*", "a*", "*b", "a*c", "*a*", "/x/*", "*.png", "/x/*.png", "a**", "*é*", "*b*b*", "a*b*"];
const NAMES: [&str; 3] = ["n1", "n2", "n3"];

impl Asked {
    pub(crate) fn request(&self) -> Request<'_> {
        let descriptors = self.descriptors.iter().map(|asked| Descriptor {
            limit: asked.limit.map(|(requests, unit)| Override::new(requests, unit)),
            hits_addend: asked.hits,
            is_negative_hits: asked.negative,
            ..Descriptor::new(asked.entries.iter().map(|(key, value)| (&**key, &**value)))
        });
        Request { domain: &self.domain, descriptors: descriptors.collect(), hits_addend: self.hits }
    }
}

pub(crate) fn tree(rng: &mut Rng) -> Level {
    level(rng, 0)
}

fn level(rng: &mut Rng, depth: u32) -> Level {
    let mut branches: Vec<Branch> = Vec::new();
    for _ in 0..rng.usize(1..7) {
        let value = match rng.u8(..4) {
            0 => None,
            1 => Some(pick(rng, &VALUES)).filter(|value| !value.is_empty()),
            _ => Some(pick(rng, &PATTERNS)),
        };
        let key = pick(rng, &KEYS);
        if branches.iter().any(|known| known.key == key && known.value == value) {
            continue;
        }
        let children = if depth < 2 && rng.u8(..3) == 0 { level(rng, depth + 1) } else { Level::default() };
        let limit = (rng.u8(..5) > 0).then(|| limit(rng));
        let [shadow, quota, share] = [6, 3, 2].map(|of| rng.u8(..of) == 0);
        branches.push(Branch { key, value, limit, shadow, quota, share, children });
    }
    Level(branches)
}

fn limit(rng: &mut Rng) -> Limit {
    let counted = (rng.u8(..8) > 0).then(|| (rng.u32(..6), unit(rng)));
    let name = rng.bool().then(|| pick(rng, &NAMES));
    let mut replaces: Vec<String> = Vec::new();
    if rng.u8(..6) == 0 {
        replaces.push(pick(rng, &NAMES));
    }
    replaces.retain(|replaced| Some(replaced) != name.as_ref());
    Limit { counted, name, replaces }
}

/// Often short ones, so that windows end.
fn unit(rng: &mut Rng) -> Unit {
    Unit::ALL[rng.usize(..7).min(rng.usize(..7))]
}

fn pick(rng: &mut Rng, texts: &[&str]) -> String {
    texts[rng.usize(..texts.len())].to_owned()
}

/// JSON, which is YAML as well.
pub(crate) fn written(level: &Level) -> String {
    json!({ "domain": DOMAIN, "descriptors": descriptors(level) }).to_string()
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
                Some((requests, unit)) => json!({ "unit": unit.name(), "requests_per_unit": requests }),
            };
            if let Some(name) = &limit.name {
                rate_limit["name"] = name.clone().into();
            }
            let replaces = limit.replaces.iter().map(|name| json!({ "name": name }));
            rate_limit["replaces"] = replaces.collect();
            written.insert("rate_limit".into(), rate_limit);
        }
        written.insert("shadow_mode".into(), branch.shadow.into());
        written.insert("quota_mode".into(), branch.quota.into());
        written.insert("share_threshold".into(), branch.share.into());
        written.insert("descriptors".into(), descriptors(&branch.children));
        Value::Object(written)
    });
    branches.collect()
}

pub(crate) fn request(rng: &mut Rng, tree: &Level) -> Asked {
    let descriptors = (0..rng.usize(1..5)).map(|_| descriptor(rng, tree)).collect();
    let domain = if rng.u8(..20) == 0 { "unknown" } else { DOMAIN }.to_owned();
    Asked { domain, hits: rng.u32(..3), descriptors }
}

fn descriptor(rng: &mut Rng, tree: &Level) -> AskedDescriptor {
    let mut entries = Vec::new();
    let mut here = Some(tree);
    for _ in 0..rng.usize(1..4) {
        // Mostly along the file, so that limits are reached.
        let branch = here.filter(|level| !level.0.is_empty() && rng.u8(..5) > 0);
        let branch = branch.map(|level| &level.0[rng.usize(..level.0.len())]);
        let key = branch.map_or_else(|| pick(rng, &KEYS), |branch| branch.key.clone());
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
