//! A Cluster: many primaries, each with some of the slots.

use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::SlotShare;
use super::finder::{Find, Finder};
use super::status::ServerStatus;
use crate::address::Address;
use crate::node::{Health, Node, PeerRole, ask_once};
use crate::resp::{Command, RespValue, command};
use crate::settings::CheckedSettings;
use crate::slot::SLOTS;
use crate::time::instant;
use crate::trouble::{ConnectTrouble, Refusal, Trouble};

/// A Cluster: many primaries, each with some of the slots.
pub(crate) struct Cluster {
    members: Arc<Members>,
    finder: Finder<Arc<SlotMap>>,
}

/// The servers used so far, and the search for their slots.
struct Members {
    seeds: Vec<Address>,
    command: Command,
    checked: Arc<CheckedSettings>,
    known: Mutex<KnownSlots>,
}

/// The first and the last slot of each range, and its primary.
type SlotPlaces = Vec<(u16, u16, Address)>;

#[derive(Default)]
struct KnownSlots {
    nodes: HashMap<Address, Arc<Node>>,
    /// Primaries and replicas; all of them have the slot map.
    members: Vec<Address>,
    /// The server that took over a slot last, whose slot map is the newest.
    newest: Option<Address>,
    /// The places of the slots, and when they last changed.
    settled: Option<(SlotPlaces, Instant)>,
}

/// The slot map: the primary of each range of slots.
struct SlotMap {
    /// Sorted, not overlapping.
    ranges: Vec<Range>,
    /// When it last changed.
    settled: Instant,
}

struct Range {
    first: u16,
    last: u16,
    node: Arc<Node>,
}

impl Range {
    const fn slots(&self) -> RangeInclusive<u16> {
        self.first..=self.last
    }
}

impl Cluster {
    pub(super) fn start(seeds: Vec<Address>, checked: Arc<CheckedSettings>) -> Self {
        let command = command("CLUSTER").arg("SLOTS");
        let members = Arc::new(Members { seeds, command, checked, known: Mutex::default() });
        Self { finder: Finder::start(members.clone()), members }
    }

    pub(super) async fn serving(&self, slot: u16, deadline: Instant) -> Result<Arc<Node>, Trouble> {
        let node = self.finder.found(deadline).await?.node(slot).cloned();
        node.ok_or_else(|| {
            self.finder.look_again();
            ConnectTrouble::SlotUnserved.into()
        })
    }

    /// The server that has the slot, if that is known by now.
    pub(super) fn serving_already(&self, slot: u16) -> Option<Arc<Node>> {
        self.finder.with_found(|map| map?.node(slot).cloned())
    }

    /// Returns the server that has all of these slots, if there is one and it is known already.
    pub(super) fn serving_all(&self, mut slots: impl Iterator<Item = u16>) -> Option<Arc<Node>> {
        self.finder.with_found(|map| {
            let map = map?;
            let node = map.node(slots.next()?)?;
            let is_here = |slot| map.node(slot).is_some_and(|other| Arc::ptr_eq(other, node));
            slots.all(is_here).then(|| Arc::clone(node))
        })
    }

    /// Returns when the slot map last changed.
    pub(super) fn settled(&self) -> Instant {
        self.finder.with_found(|map| map.map_or_else(instant, |map| map.settled))
    }

    /// Returns the node at this address, whatever slots it has.
    pub(super) fn member(&self, address: &Address) -> Arc<Node> {
        self.members.known().node(address, &self.members.checked)
    }

    /// Records that the slot map has changed, and that the server at this address has the new one.
    pub(super) fn learn_from(&self, address: &Address) {
        self.members.known().newest = Some(address.clone());
        self.finder.look_again();
    }

    /// Returns the server of the slot, if it is not the one that was asked. Waits for the search if there is time.
    pub(super) async fn resolve(
        &self,
        slot: u16,
        asked: &Arc<Node>,
        patience: Option<Instant>,
    ) -> Option<Arc<Node>> {
        let other = |map: &Arc<SlotMap>| map.node(slot).filter(|node| !Arc::ptr_eq(node, asked)).cloned();
        match patience {
            Some(deadline) => self.finder.found_anew(deadline, other).await,
            None => {
                self.finder.look_again();
                self.finder.with_found(|map| map.and_then(other))
            }
        }
    }

    /// Returns the slots of each server, and those without a server.
    pub(super) fn shares(&self) -> Vec<SlotShare> {
        let Some(map) = self.finder.found_already() else { return vec![vec![0..=SLOTS - 1]] };
        let share_of = |node: &Arc<Node>| {
            map.ranges.iter().filter(|range| Arc::ptr_eq(&range.node, node)).map(Range::slots).collect()
        };
        let mut shares: Vec<SlotShare> = map.nodes().iter().map(share_of).collect();
        let unserved = map.gaps();
        if !unserved.is_empty() {
            shares.push(unserved);
        }
        shares
    }

    pub(super) async fn primaries(&self, deadline: Instant) -> Result<Vec<Arc<Node>>, Trouble> {
        Ok(self.finder.found(deadline).await?.nodes())
    }

    pub(super) fn status(&self) -> Vec<ServerStatus> {
        let Some(map) = self.finder.found_already() else {
            let trouble = self.finder.trouble().unwrap_or(ConnectTrouble::Untried);
            return vec![ServerStatus::unknown("cluster", &trouble)];
        };
        let mut servers: Vec<_> = map.nodes().iter().map(|node| ServerStatus::of(node)).collect();
        if map.served() < u32::from(SLOTS) {
            servers.push(ServerStatus::unknown("cluster", &ConnectTrouble::SlotUnserved));
        }
        servers
    }
}

impl Find for Members {
    type Found = Arc<SlotMap>;

    /// The former server of a slot reports its move. This only keeps the list of servers current.
    fn keeps(&self) -> Option<Duration> {
        Some(Duration::from_secs(30))
    }

    /// Asks one server after another until one returns all slots; otherwise uses the most complete answer.
    async fn find(&self) -> Result<Arc<SlotMap>, ConnectTrouble> {
        let mut best: Result<Vec<ReportedRange>, ConnectTrouble> = Err(ConnectTrouble::SlotUnserved);
        for address in self.candidates() {
            let answer = ask_once(&address, PeerRole::Member, &self.checked, &self.command).await;
            match answer.and_then(|reply| read(&address, reply)) {
                Ok(ranges) => {
                    let served = served(&ranges);
                    if best.as_ref().map_or(0, |best| self::served(best)) < served {
                        best = Ok(ranges);
                    }
                    if served == u32::from(SLOTS) {
                        break;
                    }
                }
                Err(trouble) => {
                    if let Err(worst) = &mut best {
                        *worst = trouble;
                    }
                }
            }
        }
        Ok(Arc::new(self.map(best?)))
    }
}

impl Members {
    fn known(&self) -> std::sync::MutexGuard<'_, KnownSlots> {
        // Nothing that holds it can be left half done.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the servers to ask, best first: the one that took over a slot last, then connected ones, then the rest.
    fn candidates(&self) -> Vec<Address> {
        let mut known = self.known();
        let mut candidates: Vec<_> = known.members.iter().chain(&self.seeds).cloned().collect();
        fastrand::shuffle(&mut candidates);
        candidates.sort_by_key(|address| {
            known.nodes.get(address).is_none_or(|node| node.health() != Health::Connected)
        });
        candidates.splice(0..0, known.newest.take());
        let mut seen = Vec::new();
        candidates.retain(|address| {
            let is_new = !seen.contains(address);
            if is_new {
                seen.push(address.clone());
            }
            is_new
        });
        candidates
    }

    /// Returns the nodes of the reported servers. Unreachable nodes without slots are dropped.
    fn map(&self, reported: Vec<ReportedRange>) -> SlotMap {
        let mut known = self.known();
        known.members = reported.iter().flat_map(|range| range.servers.iter().cloned()).collect();
        known.members.sort_by_key(Address::to_string);
        known.members.dedup();
        let ranges = reported.into_iter().filter_map(|range| {
            let node = known.node(range.servers.first()?, &self.checked);
            Some(Range { first: range.first, last: range.last, node })
        });
        let ranges: Vec<Range> = ranges.collect();
        let places = ranges.iter().map(|range| (range.first, range.last, range.node.address().clone()));
        let settled = known.settle(places.collect());
        let map = SlotMap { ranges, settled };
        known.nodes.retain(|_, node| Arc::strong_count(node) > 1 || node.health() == Health::Connected);
        map
    }
}

impl KnownSlots {
    /// Returns when these became the places of the slots.
    fn settle(&mut self, places: SlotPlaces) -> Instant {
        match &self.settled {
            Some((same, since)) if *same == places => *since,
            _ => self.settled.insert((places, instant())).1,
        }
    }

    fn node(&mut self, address: &Address, checked: &Arc<CheckedSettings>) -> Arc<Node> {
        let start = || Arc::new(Node::start(address.clone(), checked.clone()));
        self.nodes.entry(address.clone()).or_insert_with(start).clone()
    }
}

impl SlotMap {
    fn node(&self, slot: u16) -> Option<&Arc<Node>> {
        let next = self.ranges.partition_point(|range| range.first <= slot);
        let range = self.ranges.get(next.checked_sub(1)?)?;
        (slot <= range.last).then_some(&range.node)
    }

    fn nodes(&self) -> Vec<Arc<Node>> {
        let mut nodes: Vec<Arc<Node>> = Vec::new();
        for range in &self.ranges {
            if !nodes.iter().any(|node| Arc::ptr_eq(node, &range.node)) {
                nodes.push(range.node.clone());
            }
        }
        nodes
    }

    /// The slots between the ranges.
    fn gaps(&self) -> SlotShare {
        let ends = self.ranges.iter().map(|range| range.first).chain([SLOTS]);
        let starts = [0].into_iter().chain(self.ranges.iter().map(|range| range.last + 1));
        starts.zip(ends).filter(|(start, end)| start < end).map(|(start, end)| start..=end - 1).collect()
    }

    fn served(&self) -> u32 {
        self.ranges.iter().map(|range| u32::from(range.last - range.first) + 1).sum()
    }
}

/// One range of slots, as a server reported it: the primary first, then its replicas.
#[derive(Debug, Clone, PartialEq)]
struct ReportedRange {
    first: u16,
    last: u16,
    servers: Vec<Address>,
}

fn served(ranges: &[ReportedRange]) -> u32 {
    ranges.iter().map(|range| u32::from(range.last - range.first) + 1).sum()
}

/// Reads the reply to `CLUSTER SLOTS`: for each range its first and last slot, then host, port and more for each
/// server. The ranges come in the order of slots.
fn read(asked: &Address, reply: RespValue) -> Result<Vec<ReportedRange>, ConnectTrouble> {
    let RespValue::Array(ranges) = reply else { return Err(NONSENSE) };
    if ranges.is_empty() {
        return Err(ConnectTrouble::NotReady(Refusal::ClusterDown));
    }
    let mut ranges: Vec<ReportedRange> =
        ranges.into_iter().map(|range| read_range(asked, range)).collect::<Option<_>>().ok_or(NONSENSE)?;
    ranges.sort_by_key(|range| range.first);
    // A slot has one primary.
    let overlaps = ranges.iter().zip(ranges.iter().skip(1)).any(|(range, next)| next.first <= range.last);
    if overlaps { Err(NONSENSE) } else { Ok(ranges) }
}

const NONSENSE: ConnectTrouble =
    ConnectTrouble::Unfit("the server does not report which server has which slot");

fn read_range(asked: &Address, range: RespValue) -> Option<ReportedRange> {
    let RespValue::Array(fields) = range else { return None };
    let mut fields = fields.into_iter();
    let (RespValue::Int(first), RespValue::Int(last)) = (fields.next()?, fields.next()?) else { return None };
    let (first, last) = (u16::try_from(first).ok()?, u16::try_from(last).ok()?);
    if first > last || last >= SLOTS {
        return None;
    }
    let servers: Vec<_> = fields.map(|server| read_server(asked, server)).collect::<Option<_>>()?;
    (!servers.is_empty()).then_some(ReportedRange { first, last, servers })
}

/// An empty or missing host means the server that was asked.
fn read_server(asked: &Address, server: RespValue) -> Option<Address> {
    let RespValue::Array(fields) = server else { return None };
    let mut fields = fields.into_iter();
    let host = match fields.next()? {
        RespValue::Bulk(host) => String::from_utf8(host).ok()?,
        RespValue::Nil => String::new(),
        _ => return None,
    };
    let RespValue::Int(port) = fields.next()? else { return None };
    asked.at(&host, u16::try_from(port).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(host: RespValue, port: i64) -> RespValue {
        RespValue::Array(vec![
            host,
            RespValue::Int(port),
            RespValue::Bulk(b"id".to_vec()),
            RespValue::Array(vec![]),
        ])
    }

    fn host(name: &str) -> RespValue {
        RespValue::Bulk(name.as_bytes().to_vec())
    }

    fn range(first: i64, last: i64, servers: Vec<RespValue>) -> RespValue {
        RespValue::Array([vec![RespValue::Int(first), RespValue::Int(last)], servers].concat())
    }

    fn asked() -> Address {
        Address::Tcp("10.0.0.9".into(), 7000)
    }

    #[test]
    fn reads_who_serves_what() {
        let reply = RespValue::Array(vec![
            range(0, 5460, vec![server(host("10.0.0.1"), 7001), server(host("10.0.0.4"), 7004)]),
            range(5461, 16382, vec![server(RespValue::Nil, 7002)]),
            range(16383, 16383, vec![server(host(""), 7003)]),
        ]);
        let ranges = read(&asked(), reply).unwrap();
        let shown: Vec<_> = ranges
            .iter()
            .map(|range| {
                let servers: Vec<_> = range.servers.iter().map(Address::to_string).collect();
                (range.first, range.last, servers.join(" "))
            })
            .collect();
        assert_eq!(
            shown,
            [
                (0, 5460, "10.0.0.1:7001 10.0.0.4:7004".to_owned()),
                (5461, 16382, "10.0.0.9:7002".to_owned()),
                (16383, 16383, "10.0.0.9:7003".to_owned()),
            ]
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for reply in [
            RespValue::Nil,
            RespValue::Simple("OK".into()),
            RespValue::Array(vec![]),
            RespValue::Array(vec![RespValue::Nil]),
            RespValue::Array(vec![range(0, 1, vec![])]),
            RespValue::Array(vec![range(1, 0, vec![server(host("a"), 1)])]),
            RespValue::Array(vec![range(-1, 0, vec![server(host("a"), 1)])]),
            RespValue::Array(vec![range(0, 16384, vec![server(host("a"), 1)])]),
            RespValue::Array(vec![range(0, 1, vec![server(host("a"), 0)])]),
            RespValue::Array(vec![
                range(1, 5, vec![server(host("a"), 1)]),
                range(0, 1, vec![server(host("b"), 1)]),
            ]),
            RespValue::Array(vec![range(0, 1, vec![server(host("a"), 65536)])]),
            RespValue::Array(vec![range(0, 1, vec![server(RespValue::Int(1), 1)])]),
            RespValue::Array(vec![range(0, 1, vec![RespValue::Array(vec![])])]),
        ] {
            assert!(read(&asked(), reply.clone()).is_err(), "{reply:?}");
        }
    }
}
