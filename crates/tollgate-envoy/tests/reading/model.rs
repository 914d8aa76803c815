//! The rules read a second time: lists are searched from the front, and counters are
//! numbers under the texts that they belong to.

use std::collections::HashMap;

use tollgate_envoy::{Charging, Code, Response, Settings, Unit};

use crate::draw::{Asked, Branch, DOMAIN, Level, Limit};

pub(crate) struct Model<'a> {
    tree: &'a Level,
    pub(crate) settings: Settings,
    used: HashMap<Counter, u64>,
}

/// The entries, the length of windows and the number of the window. A shared value is told from one that is written
/// like the pattern.
type Counter = (Vec<(String, String, bool)>, u64, u64);

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) denied: bool,
    pub(crate) statuses: Vec<ToldStatus>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ToldStatus {
    pub(crate) over: bool,
    pub(crate) limit: Option<(u32, Unit, Option<String>)>,
    pub(crate) remaining: u32,
    pub(crate) reset: Option<u64>,
}

impl Told {
    pub(crate) fn of(response: &Response) -> Self {
        let statuses = response.statuses.iter().map(|status| ToldStatus {
            over: status.code == Code::OverLimit,
            limit: status.current_limit.as_ref().map(|limit| {
                (limit.requests_per_unit, limit.unit, limit.name.as_deref().map(ToOwned::to_owned))
            }),
            remaining: status.limit_remaining,
            reset: status.duration_until_reset.map(|reset| {
                assert_eq!(reset.subsec_nanos(), 0);
                reset.as_secs()
            }),
        });
        Self { denied: response.overall == Code::OverLimit, statuses: statuses.collect() }
    }
}

/// What is counted for one descriptor.
#[derive(Clone)]
struct Item {
    place: usize,
    counter: Counter,
    cost: u64,
    limit: (u32, Unit, Option<String>),
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Deny,
    Quota,
    Shadow,
    Refund,
}

const NO_LIMIT: ToldStatus = ToldStatus { over: false, limit: None, remaining: 0, reset: None };

impl<'a> Model<'a> {
    pub(crate) fn new(tree: &'a Level, settings: Settings) -> Self {
        Self { tree, settings, used: HashMap::new() }
    }

    pub(crate) fn decide(&mut self, asked: &Asked, now: u64) -> Told {
        let mut statuses = vec![NO_LIMIT; asked.descriptors.len()];
        if asked.domain != DOMAIN {
            return Told { denied: false, statuses };
        }
        let (items, free_quota) = self.items(asked, now, &mut statuses);
        match self.settings.charging {
            Charging::AllOrNothing => self.together(&items, free_quota, now, &mut statuses),
            Charging::Each => self.each(&items, now, &mut statuses),
        }
        for item in items.iter().filter(|item| item.kind == Kind::Refund) {
            let used = self.used.entry(item.counter.clone()).or_default();
            *used = used.saturating_sub(item.cost);
            statuses[item.place] = self.status(item, false, now);
        }
        let over = |kind| items.iter().filter(move |item| item.kind == kind);
        let is_denied = over(Kind::Deny).any(|item| statuses[item.place].over)
            || over(Kind::Quota).count() > 0
                && over(Kind::Quota).all(|item| statuses[item.place].over)
                && !free_quota;
        Told { denied: is_denied && !self.settings.shadow_mode, statuses }
    }

    /// What is counted, and whether a quota has room in any case.
    fn items(&self, asked: &Asked, now: u64, statuses: &mut [ToldStatus]) -> (Vec<Item>, bool) {
        let found: Vec<_> = asked
            .descriptors
            .iter()
            .map(|descriptor| match descriptor.limit {
                Some(_) => None,
                None => find(self.tree, &descriptor.entries),
            })
            .collect();
        let replaced: Vec<&String> = found.iter().flatten().flat_map(|(.., limit)| &limit.replaces).collect();
        let (mut items, mut free_quota) = (Vec::new(), false);
        for (place, (descriptor, found)) in asked.descriptors.iter().zip(&found).enumerate() {
            let texts = |shared: &[bool], path: &[&Branch]| -> Vec<(String, String, bool)> {
                let entry = |(level, (key, value)): (usize, &(String, String))| match shared.get(level) {
                    Some(true) => (key.clone(), path[level].value.clone().unwrap(), true),
                    _ => (key.clone(), value.clone(), false),
                };
                descriptor.entries.iter().enumerate().map(entry).collect()
            };
            let (entries, requests, unit, name, branch) = match (descriptor.limit, found) {
                (Some((requests, unit)), _) => (texts(&[], &[]), requests, unit, None, None),
                (None, None) => continue,
                (None, Some((path, limit))) => {
                    if limit.name.as_ref().is_some_and(|name| replaced.contains(&name)) {
                        continue;
                    }
                    let branch = *path.last().unwrap();
                    let Some((requests, unit)) = limit.counted else {
                        statuses[place].remaining = u32::MAX;
                        free_quota |= branch.quota || self.settings.quota_mode;
                        continue;
                    };
                    let is_shared = |branch: &&Branch| {
                        branch.share && branch.value.as_ref().is_some_and(|value| value.contains('*'))
                    };
                    let shared: Vec<bool> = path.iter().map(is_shared).collect();
                    (texts(&shared, path), requests, unit, limit.name.clone(), Some(branch))
                }
            };
            let is_quota = self.settings.quota_mode || branch.is_some_and(|branch| branch.quota);
            let kind = match () {
                () if descriptor.negative => Kind::Refund,
                () if branch.is_some_and(|branch| branch.shadow) => Kind::Shadow,
                () if is_quota => Kind::Quota,
                () => Kind::Deny,
            };
            free_quota |= is_quota && matches!(kind, Kind::Refund | Kind::Shadow);
            let cost = descriptor.hits.unwrap_or(u64::from(asked.hits.max(1)));
            let counter = (entries, seconds(unit), now / seconds(unit));
            items.push(Item { place, counter, cost, limit: (requests, unit, name), kind });
        }
        (items, free_quota)
    }

    fn together(&mut self, items: &[Item], free_quota: bool, now: u64, statuses: &mut [ToldStatus]) {
        let deciding = |item: &&Item| matches!(item.kind, Kind::Deny | Kind::Quota);
        let mut chosen: Vec<&Item> = items.iter().filter(deciding).collect();
        let is_admitted = loop {
            let rooms: Vec<bool> = chosen.iter().map(|item| self.has_room(item, &chosen)).collect();
            let is_admitted = rooms.iter().all(|room| *room);
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
            if !free_quota && !chosen.iter().any(|item| item.kind == Kind::Quota) {
                break false;
            }
        };
        for item in items.iter().filter(|item| item.kind == Kind::Shadow) {
            let room = self.has_room(item, &[item]);
            if is_admitted && room {
                *self.used.entry(item.counter.clone()).or_default() += item.cost;
            }
            let status = self.status(item, !room, now);
            statuses[item.place] = ToldStatus { over: false, ..status };
        }
    }

    fn each(&mut self, items: &[Item], now: u64, statuses: &mut [ToldStatus]) {
        for item in items.iter().filter(|item| item.kind != Kind::Refund) {
            let limit = u64::from(item.limit.0);
            let used = self.used.entry(item.counter.clone()).or_default();
            *used += item.cost;
            let is_over = *used > limit;
            let status = self.status(item, is_over, now);
            statuses[item.place] = ToldStatus { over: is_over && item.kind != Kind::Shadow, ..status };
        }
    }

    /// Whether the costs of all that have its counter fit.
    fn has_room(&self, item: &Item, chosen: &[&Item]) -> bool {
        let same = chosen.iter().filter(|other| other.counter == item.counter);
        let cost: u64 = same.map(|other| other.cost).sum();
        let used = self.used.get(&item.counter).copied().unwrap_or(0);
        used + cost.max(1) <= u64::from(item.limit.0)
    }

    fn status(&self, item: &Item, over: bool, now: u64) -> ToldStatus {
        let used = self.used.get(&item.counter).copied().unwrap_or(0);
        let left = u64::from(item.limit.0).saturating_sub(used);
        let remaining = if over { 0 } else { left as u32 };
        let length = item.counter.1;
        ToldStatus { over, limit: Some(item.limit.clone()), remaining, reset: Some(length - now % length) }
    }
}

/// The limit at the last entry, and the branches that lead there.
fn find<'a>(tree: &'a Level, entries: &[(String, String)]) -> Option<(Vec<&'a Branch>, &'a Limit)> {
    let mut level = tree;
    let mut path = Vec::new();
    for (key, value) in entries {
        let of_key = || level.0.iter().filter(|branch| branch.key == *key);
        let exact = of_key().find(|branch| branch.value.as_ref() == Some(value) && !value.is_empty());
        let wildcard = || {
            let mut patterns =
                of_key().filter(|branch| branch.value.as_ref().is_some_and(|pattern| pattern.contains('*')));
            patterns.find(|branch| {
                let pattern: Vec<char> = branch.value.as_deref().unwrap().chars().collect();
                matches(&pattern, &value.chars().collect::<Vec<_>>())
            })
        };
        let bare = || of_key().find(|branch| branch.value.is_none());
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

fn seconds(unit: Unit) -> u64 {
    match unit {
        Unit::Second => 1,
        Unit::Minute => 60,
        Unit::Hour => 60 * 60,
        Unit::Day => 24 * 60 * 60,
        Unit::Week => 7 * 24 * 60 * 60,
        Unit::Month => 30 * 24 * 60 * 60,
        Unit::Year => 365 * 24 * 60 * 60,
    }
}
