//! The rules read a second time: lists are searched from the front, and counters are numbers under the texts that they
//! belong to. Requests and answers are JSON, and metrics have the names under which they are exported.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value, json};

use super::draw::{Asked, AskedDescriptor, Branch, File, Level, Limit, Modes, Unit};
use super::labels::{labels, loses_metadata};

#[derive(Clone)]
pub(crate) struct Model<'a> {
    file: &'a File,
    modes: Modes,
    reader: Reader,
    used: HashMap<String, u64>,
    /// By what follows `ratelimit_service_`, without zeros.
    pub(crate) metrics: BTreeMap<String, u64>,
}

/// Who reads the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// Tollgate: different entries and windows never share a counter.
    Tollgate,
    /// Tollgate with the layout of keys of envoyproxy/ratelimit, which joins the texts of counters.
    WithLayout,
    /// envoyproxy/ratelimit itself.
    Original,
}

/// What is counted for one descriptor.
#[derive(Clone)]
struct Item {
    place: usize,
    counter: String,
    cost: u64,
    requests: u32,
    unit: Unit,
    overdraft: bool,
    /// Charged whatever the verdict: an overdraft, or counted in one step on the counter of one.
    recorded: bool,
    name: Option<String>,
    kind: Kind,
    is_quota: bool,
    /// The labels of its metrics.
    labels: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Deny,
    Quota,
    Shadow,
    Refund,
}

#[derive(Clone, Default)]
struct Status {
    over: bool,
    /// Over the limit, whether or not that matters.
    full: bool,
    limit: Option<Value>,
    requests: u32,
    remaining: u32,
    reset: Option<u64>,
    used: u64,
}

/// What a descriptor finds in the file: the branches that lead to a limit.
type Found<'a> = Option<(Vec<&'a Branch>, &'a Limit)>;

impl<'a> Model<'a> {
    pub(crate) fn new(file: &'a File, modes: Modes, reader: Reader) -> Self {
        Self { file, modes, reader, used: HashMap::new(), metrics: BTreeMap::new() }
    }

    pub(crate) fn decide(&mut self, asked: &Asked, now: u64) -> Value {
        let (file, modes) = (self.file, self.modes);
        let mut statuses = vec![Status::default(); asked.descriptors.len()];
        if asked.domain != file.domain {
            let name = format!("rate_limit_{}_domain_not_found", asked.domain.replace('-', "_"));
            *self.metrics.entry(name).or_default() += asked.descriptors.len() as u64;
            return self.answer(asked, &[], &statuses, &vec![None; statuses.len()], false);
        }
        let found: Vec<Found<'_>> = asked.descriptors.iter().map(|one| find(&file.level, one)).collect();
        let items = self.items(asked, &found, now, &mut statuses);
        // A quota that is in order keeps the others from denying.
        let is_quota =
            |place: usize| modes.quota || items.iter().any(|item| item.place == place && item.is_quota);
        let is_unlimited = |place: usize| statuses[place].remaining == u32::MAX;
        let quotas: Vec<usize> =
            (0..statuses.len()).filter(|place| !is_unlimited(*place) && is_quota(*place)).collect();
        let decides = |place: usize| items.iter().any(|item| item.place == place && item.kind == Kind::Quota);
        let free_quota = quotas.iter().any(|place| !decides(*place));
        match modes.each {
            false => self.together(&items, free_quota, now, &mut statuses),
            true => self.each(&items, now, &mut statuses),
        }
        for item in items.iter().filter(|item| item.kind == Kind::Refund) {
            let used = self.used.entry(item.counter.clone()).or_default();
            *used = used.saturating_sub(item.cost);
            statuses[item.place] = self.status(item, false, now);
        }
        let over = |kind| items.iter().filter(|item| item.kind == kind && statuses[item.place].over).count();
        let is_denied = over(Kind::Deny) > 0 || !quotas.is_empty() && over(Kind::Quota) == quotas.len();
        for item in items.iter().filter(|item| item.kind != Kind::Refund) {
            self.count(item, &statuses[item.place], is_denied);
        }
        if is_denied && modes.shadow {
            *self.metrics.entry("global_shadow_mode".to_owned()).or_default() += 1;
        }
        self.answer(asked, &items, &statuses, &found, is_denied && !modes.shadow)
    }

    /// What is counted.
    fn items(&self, asked: &Asked, found: &[Found<'_>], now: u64, statuses: &mut [Status]) -> Vec<Item> {
        let replaced: Vec<&String> = found.iter().flatten().flat_map(|(.., limit)| &limit.replaces).collect();
        let mut items = Vec::new();
        for (place, (descriptor, found)) in asked.descriptors.iter().zip(found).enumerate() {
            let (path, requests, unit, overdraft, name) = match (descriptor.limit, found) {
                (Some((requests, unit)), _) => (&[][..], requests, unit, false, None),
                (None, None) => continue,
                (None, Some((path, limit))) => match limit.counted {
                    None => {
                        statuses[place].remaining = u32::MAX;
                        continue;
                    }
                    Some(_) if limit.name.as_ref().is_some_and(|name| replaced.contains(&name)) => continue,
                    Some((requests, unit)) => {
                        (&path[..], requests, unit, limit.overdraft, limit.name.clone())
                    }
                },
            };
            let last = path.last();
            let is_quota = self.modes.quota || last.is_some_and(|branch| branch.quota);
            let kind = match () {
                () if descriptor.negative => Kind::Refund,
                () if last.is_some_and(|branch| branch.shadow) => Kind::Shadow,
                () if is_quota => Kind::Quota,
                () => Kind::Deny,
            };
            let cost = descriptor.hits.unwrap_or(u64::from(asked.hits.max(1)));
            let counter = self.counter(descriptor, path, unit, now);
            let labels = labels(&self.file.domain, descriptor, path, self.reader);
            items.push(Item {
                place,
                counter,
                cost,
                requests,
                unit,
                overdraft,
                recorded: overdraft,
                name,
                kind,
                is_quota,
                labels,
            });
        }
        let decides = |item: &Item| matches!(item.kind, Kind::Deny | Kind::Quota);
        let overdrafts = items.iter().filter(|item| item.overdraft && decides(item));
        let counters: Vec<String> = overdrafts.map(|item| item.counter.clone()).collect();
        for item in &mut items {
            item.recorded |= decides(item) && counters.contains(&item.counter);
        }
        items
    }

    /// The name of a counter. A shared value is told from one that is written like the pattern.
    fn counter(
        &self,
        descriptor: &AskedDescriptor,
        path: &[&Branch],
        (_, seconds): Unit,
        now: u64,
    ) -> String {
        let start = now - now % seconds;
        let text = |(level, (key, value)): (usize, &(String, String))| match path.get(level) {
            Some(Branch { share: true, value: Some(pattern), .. }) => (key.clone(), pattern.clone(), true),
            _ => (key.clone(), value.clone(), false),
        };
        let texts: Vec<_> = descriptor.entries.iter().enumerate().map(text).collect();
        match self.reader {
            Reader::Tollgate => format!("{texts:?} {seconds} {start}"),
            Reader::WithLayout | Reader::Original => {
                let joined: String = texts.iter().map(|(key, value, _)| format!("{key}_{value}_")).collect();
                format!("{joined}{start}")
            }
        }
    }

    fn together(&mut self, items: &[Item], free_quota: bool, now: u64, statuses: &mut [Status]) {
        let deciding = |item: &&Item| matches!(item.kind, Kind::Deny | Kind::Quota);
        let (mut recorded, mut chosen): (Vec<&Item>, Vec<&Item>) =
            items.iter().filter(deciding).partition(|item| item.recorded);
        let rooms: Vec<bool> = recorded.iter().map(|item| self.has_room(item, &recorded)).collect();
        for item in &recorded {
            *self.used.entry(item.counter.clone()).or_default() += item.cost;
        }
        for (item, room) in recorded.iter().zip(rooms) {
            statuses[item.place] = self.status(item, !room, now);
        }
        let is_admitted = loop {
            let rooms: Vec<bool> = chosen.iter().map(|item| self.has_room(item, &chosen)).collect();
            let is_admitted =
                rooms.iter().all(|room| *room) && recorded.iter().all(|item| !statuses[item.place].full);
            if is_admitted {
                for item in &chosen {
                    *self.used.entry(item.counter.clone()).or_default() += item.cost;
                }
            }
            for (item, room) in chosen.iter().zip(&rooms) {
                statuses[item.place] = self.status(item, !room, now);
            }
            if is_admitted {
                break true;
            }
            if recorded.iter().any(|item| item.kind == Kind::Deny && statuses[item.place].full) {
                break false;
            }
            recorded.retain(|item| !statuses[item.place].full);
            // One after another as if each came alone: limits that deny by themselves, then quotas.
            let mut kept: Vec<&Item> = Vec::new();
            let (denying, quotas): (Vec<&Item>, Vec<&Item>) =
                chosen.into_iter().partition(|item| item.kind == Kind::Deny);
            for item in denying.iter().chain(&quotas) {
                kept.push(item);
                if kept.iter().any(|item| !self.has_room(item, &kept)) {
                    kept.pop();
                }
            }
            if denying.iter().any(|item| !kept.iter().any(|kept| kept.place == item.place)) {
                break false;
            }
            kept.sort_by_key(|item| item.place);
            chosen = kept;
            let mut left = recorded.iter().chain(&chosen);
            if !free_quota && !left.any(|item| item.kind == Kind::Quota) {
                break false;
            }
        };
        for item in items.iter().filter(|item| item.kind == Kind::Shadow) {
            let room = self.has_room(item, &[item]);
            if item.overdraft || is_admitted && room {
                *self.used.entry(item.counter.clone()).or_default() += item.cost;
            }
            statuses[item.place] = Status { over: false, ..self.status(item, !room, now) };
        }
    }

    fn each(&mut self, items: &[Item], now: u64, statuses: &mut [Status]) {
        for item in items.iter().filter(|item| item.kind != Kind::Refund) {
            let used = self.used.entry(item.counter.clone()).or_default();
            let before = *used;
            *used += item.cost;
            let limit = u64::from(item.requests);
            let is_over = if item.overdraft { before >= limit } else { *used > limit };
            let status = self.status(item, is_over, now);
            statuses[item.place] = Status { over: is_over && item.kind != Kind::Shadow, ..status };
        }
    }

    /// Whether the costs of all that have its counter fit; for an overdraft, whether a unit is left.
    fn has_room(&self, item: &Item, chosen: &[&Item]) -> bool {
        let same = chosen.iter().filter(|other| other.counter == item.counter);
        let cost: u64 = same.map(|other| other.cost).sum();
        let used = self.used.get(&item.counter).copied().unwrap_or(0);
        let needed = if item.overdraft { 1 } else { cost.max(1) };
        used + needed <= u64::from(item.requests)
    }

    fn status(&self, item: &Item, over: bool, now: u64) -> Status {
        let used = self.used.get(&item.counter).copied().unwrap_or(0);
        let left = u64::from(item.requests).saturating_sub(used);
        let (unit, seconds) = item.unit;
        let mut limit = json!({ "unit": unit });
        if let Some(name) = &item.name {
            limit["name"] = name.clone().into();
        }
        if item.requests > 0 {
            limit["requestsPerUnit"] = item.requests.into();
        }
        let remaining = if over { 0 } else { left as u32 };
        let reset = Some(seconds - now % seconds);
        Status { over, full: over, limit: Some(limit), requests: item.requests, remaining, reset, used }
    }

    /// Counts the units of a descriptor one by one.
    fn count(&mut self, item: &Item, status: &Status, is_denied: bool) {
        let limit = u64::from(item.requests);
        let near = f64::from((limit as f32) * 0.8).floor() as u64;
        let is_charged = self.modes.each || item.recorded || !is_denied && !status.full;
        let before = if is_charged { status.used.saturating_sub(item.cost) } else { status.used };
        let mut add = |kind: &str, units: u64| {
            if units > 0 {
                let series = format!("rate_limit_{kind}{{{}}}", item.labels);
                *self.metrics.entry(series).or_default() += units;
            }
        };
        let units = || before + 1..=before + item.cost;
        add("total_hits", item.cost);
        if !status.full {
            add("within_limit", item.cost);
            add("near_limit", units().filter(|unit| *unit > near && *unit <= limit).count() as u64);
            return;
        }
        // All or nothing, none of them had room.
        let has_room = |unit: &u64| self.modes.each && *unit <= limit;
        let over = units().filter(|unit| !has_room(unit)).count() as u64;
        add("over_limit", over);
        add("near_limit", units().filter(|unit| has_room(unit) && *unit > near).count() as u64);
        if item.kind == Kind::Shadow {
            add("shadow_mode", over);
        }
    }

    fn answer(
        &self,
        asked: &Asked,
        items: &[Item],
        statuses: &[Status],
        found: &[Found<'_>],
        is_denied: bool,
    ) -> Value {
        let code = |is_over: bool| if is_over { "OVER_LIMIT" } else { "OK" };
        let each = statuses.iter().map(|status| {
            let mut json = json!({ "code": code(status.over) });
            if let Some(limit) = &status.limit {
                json["currentLimit"] = limit.clone();
            }
            if status.remaining > 0 {
                json["limitRemaining"] = status.remaining.into();
            }
            if let Some(reset) = status.reset {
                json["durationUntilReset"] = format!("{reset}s").into();
            }
            json
        });
        let mut json = json!({ "overallCode": code(is_denied), "statuses": each.collect::<Value>() });
        // The last that denies by itself, or the first of those with the least left.
        let mut told = None;
        for item in items {
            let status = &statuses[item.place];
            let is_least = |told: &Status| status.remaining < told.remaining;
            if status.over && item.kind == Kind::Deny || told.is_none_or(is_least) {
                told = Some(status);
            }
        }
        if let Some(told) = told.filter(|_| self.modes.headers) {
            let header = |name: &str, value: u64| json!({ "key": name, "value": value.to_string() });
            json["responseHeadersToAdd"] = json!([
                header("RateLimit-Limit", told.requests.into()),
                header("RateLimit-Remaining", told.remaining.into()),
                header("RateLimit-Reset", told.reset.unwrap_or_default()),
            ]);
        }
        if self.modes.metadata {
            json["dynamicMetadata"] = self.metadata(asked, items, statuses, found);
        }
        json
    }

    fn metadata(&self, asked: &Asked, items: &[Item], statuses: &[Status], found: &[Found<'_>]) -> Value {
        let descriptors = asked.descriptors.iter().map(|descriptor| {
            let entries = descriptor.entries.iter().map(|(key, value)| Value::from(format!("{key}={value}")));
            let mut json = json!({ "entries": entries.collect::<Value>() });
            match descriptor.limit {
                Some((0, (unit, _))) => json["limit"] = format!("unit:{unit}").into(),
                Some((requests, (unit, _))) => {
                    json["limit"] = format!("requests_per_unit:{requests} unit:{unit}").into();
                }
                None => {}
            }
            if let Some(hits) = descriptor.hits {
                json["hitsAddend"] = hits.into();
            }
            json
        });
        let mut json = json!({ "domain": asked.domain, "descriptors": descriptors.collect::<Value>() });
        if asked.hits > 0 {
            json["hitsAddend"] = asked.hits.into();
        }
        let mut merged = Value::Object(Map::new());
        for item in items.iter().filter(|item| !statuses[item.place].over) {
            if let Some((path, _)) = &found[item.place]
                && let Some(metadata) = &path[path.len() - 1].metadata
                && !(self.reader == Reader::Original && loses_metadata(&asked.descriptors[item.place], path))
            {
                merge(&mut merged, metadata);
            }
        }
        if merged != json!({}) {
            json["metadata"] = merged;
        }
        json
    }
}

/// Of two values that are no mappings, the first stays.
fn merge(into: &mut Value, from: &Value) {
    let (Value::Object(into), Value::Object(from)) = (into, from) else { return };
    for (key, value) in from {
        match into.get_mut(key) {
            Some(known) => merge(known, value),
            None => _ = into.insert(key.clone(), value.clone()),
        }
    }
}

/// The limit at the last entry, and the branches that lead there. A limit that comes with the descriptor replaces it.
fn find<'a>(level: &'a Level, descriptor: &AskedDescriptor) -> Found<'a> {
    let mut level = level;
    let mut path = Vec::new();
    if descriptor.limit.is_some() {
        return None;
    }
    for (key, value) in &descriptor.entries {
        let same_key = || level.0.iter().filter(|branch| branch.key == *key);
        let exact = same_key().find(|branch| branch.value.as_ref() == Some(value) && !value.is_empty());
        let wildcard = || {
            let mut patterns = same_key()
                .filter(|branch| branch.value.as_ref().is_some_and(|pattern| pattern.contains('*')));
            patterns.find(|branch| {
                let pattern: Vec<char> = branch.value.as_deref().unwrap_or_default().chars().collect();
                matches(&pattern, &value.chars().collect::<Vec<_>>())
            })
        };
        let bare = || same_key().find(|branch| branch.value.is_none());
        let branch = exact.or_else(wildcard).or_else(bare)?;
        path.push(branch);
        level = &branch.children;
    }
    let limit = path.last()?.limit.as_ref()?;
    Some((path, limit))
}

/// A star takes nothing, or a character and perhaps more.
fn matches(pattern: &[char], text: &[char]) -> bool {
    match (pattern, text) {
        ([], []) => true,
        (['*', rest @ ..], _) if matches(rest, text) => true,
        (['*', ..], [_, text @ ..]) => matches(pattern, text),
        ([one, rest @ ..], [other, text @ ..]) => one == other && matches(rest, text),
        _ => false,
    }
}
