//! The first requests, by which the names in paths are told from values.

use std::collections::{BTreeMap, HashMap};

use tollgate::Timestamp;

use super::RouteRequest;
use super::method::Method;
use super::segment::{self, ID, NAME, NOT_FOUND, REST};
use super::tree::{MAX_NAMES, PATHLESS, ROOT, Tree};

/// Requests of the sample, in some 10 MB.
pub(super) const MAX_REQUESTS: usize = 1 << 17;

/// Places in its paths, in at most some 20 MB: each has a name of up to 64 bytes, a map and an entry of another one.
const MAX_PLACES: usize = 1 << 16;

/// A name with one in so many of all requests is no value of many.
const BUSY: u64 = 100;

/// A name with one in so many of the requests for identifiers next to it is one of them.
const RARE: u64 = 100;

/// The first requests, with all of their paths. They are counted when it is known which names are folded.
#[derive(Debug)]
pub(super) struct Sample {
    places: Vec<SampledSegment>,
    requests: Vec<SampledRequest>,
    max_requests: usize,
}

/// A segment at a place of a path.
#[derive(Debug, Default)]
struct SampledSegment {
    children: HashMap<Box<[u8]>, u32>,
    /// Requests of paths that begin like this, and whether the server has found any of them.
    requests: u64,
    is_found: bool,
}

/// A request that is not counted yet.
#[derive(Debug)]
pub(super) struct SampledRequest {
    pub(super) place: u32,
    pub(super) method: Method,
    pub(super) noted: RouteRequest,
    pub(super) now: Timestamp,
}

impl Sample {
    /// Of so many requests at most.
    pub(super) fn new(max_requests: usize) -> Self {
        // As in the tree, the first two are that of `/` and that of all that is no path.
        Self {
            places: vec![SampledSegment::default(), SampledSegment::default()],
            requests: Vec::new(),
            max_requests,
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.requests.len() >= self.max_requests || self.places.len() >= MAX_PLACES
    }

    pub(super) fn note(
        &mut self,
        path: Option<&[u8]>,
        is_found: bool,
        method: Method,
        noted: RouteRequest,
        now: Timestamp,
    ) {
        let mut place = ROOT;
        self.pass(place, is_found);
        match path.filter(|path| path.starts_with(b"/")) {
            Some(path) => {
                for segment in segment::segments(path) {
                    place = self.child(place, segment);
                    self.pass(place, is_found);
                }
            }
            None => place = PATHLESS,
        }
        self.requests.push(SampledRequest { place, method, noted, now });
    }

    fn pass(&mut self, place: u32, is_found: bool) {
        if let Some(place) = self.places.get_mut(place as usize) {
            place.requests += 1;
            place.is_found |= is_found;
        }
    }

    fn child(&mut self, parent: u32, segment: &[u8]) -> u32 {
        let number = self.places.len() as u32;
        let Some(parent) = self.places.get_mut(parent as usize) else { return ROOT };
        if let Some(child) = parent.children.get(segment) {
            return *child;
        }
        parent.children.insert(segment.into(), number);
        self.places.push(SampledSegment::default());
        number
    }

    /// The tree of these paths, and the requests with their places in it.
    pub(super) fn end(self) -> (Tree, impl Iterator<Item = SampledRequest>) {
        let Self { places, requests, .. } = self;
        let mut folding =
            Folding { targets: vec![PATHLESS; places.len()], places: &places, tree: Tree::new() };
        folding.fold(&[ROOT], ROOT);
        let Folding { targets, tree, .. } = folding;
        let requests = requests.into_iter().map(move |request| {
            let place = targets.get(request.place as usize).copied().unwrap_or(PATHLESS);
            SampledRequest { place, ..request }
        });
        (tree, requests)
    }
}

/// The sample's places, as they are put into the tree.
struct Folding<'p> {
    places: &'p [SampledSegment],
    /// Where each of them is in the tree.
    targets: Vec<u32>,
    tree: Tree,
}

impl Folding<'_> {
    /// Puts these places, which are one in the tree, and all behind them into it.
    ///
    /// Names that the server never found are one name. Rare names next to many identifiers are identifiers that look
    /// like words, and perhaps secret. If the others are too many, they are one name too: but at the
    /// beginning of a path, a name with many requests is kept, as `/login` next to the pages of a wiki.
    fn fold(&mut self, places: &[u32], target: u32) {
        let mut children: BTreeMap<&[u8], Vec<u32>> = BTreeMap::new();
        for place in places {
            self.set(*place, target);
            for (name, child) in self.place(*place).into_iter().flat_map(|place| &place.children) {
                children.entry(name).or_default().push(*child);
            }
        }
        let all = self.place(ROOT).map_or(0, |root| root.requests);
        let is_busy = |requests: u64| requests.saturating_mul(BUSY) >= all;
        let mut folded: BTreeMap<&[u8], Vec<u32>> = BTreeMap::new();
        let mut names = Vec::new();
        for (name, places) in children {
            let (requests, is_found) = self.sum(&places);
            if segment::is_folded(name) {
                folded.entry(name).or_default().extend(places);
            } else if is_found || is_busy(requests) {
                names.push((name, places, requests));
            } else {
                folded.entry(NOT_FOUND).or_default().extend(places);
            }
        }
        let identifiers = folded.iter().filter(|(name, _)| name.starts_with(b"{id}"));
        let identifiers: u64 = identifiers.map(|(_, places)| self.sum(places).0).sum();
        let is_rare = |requests: u64| requests.saturating_mul(RARE) <= identifiers;
        let are_many = names.iter().filter(|(.., requests)| !is_rare(*requests)).count() > MAX_NAMES;
        match (is_rare(1), are_many) {
            (true, _) => self.tree.fold(target, ID),
            (false, true) => self.tree.fold(target, NAME),
            (false, false) => {}
        }
        for (name, places, requests) in names {
            let name = match name {
                _ if is_rare(requests) => segment::identifier(name),
                _ if are_many && !(target == ROOT && is_busy(requests)) => NAME,
                name => name,
            };
            folded.entry(name).or_default().extend(places);
        }
        for (name, places) in folded {
            let child = self.tree.child(target, name);
            if matches!(name, NOT_FOUND | REST) {
                self.end_at(&places, child);
            } else {
                self.fold(&places, child);
            }
        }
    }

    /// Puts places and all behind them at one place of the tree.
    fn end_at(&mut self, places: &[u32], target: u32) {
        for place in places {
            self.set(*place, target);
            let children = self.place(*place).into_iter().flat_map(|place| place.children.values().copied());
            let children: Vec<u32> = children.collect();
            self.end_at(&children, target);
        }
    }

    /// The requests of places, and whether the server has found any of their paths.
    fn sum(&self, places: &[u32]) -> (u64, bool) {
        let places = places.iter().filter_map(|place| self.place(*place));
        places.fold((0, false), |(requests, is_found), place| {
            (requests + place.requests, is_found || place.is_found)
        })
    }

    fn set(&mut self, place: u32, target: u32) {
        if let Some(old) = self.targets.get_mut(place as usize) {
            *old = target;
        }
    }
}

impl<'p> Folding<'p> {
    fn place(&self, place: u32) -> Option<&'p SampledSegment> {
        self.places.get(place as usize)
    }
}
