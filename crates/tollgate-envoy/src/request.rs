//! A request in Envoy's form. It borrows its texts.

use smallvec::SmallVec;

use crate::Unit;

/// A question to the rate-limit service: may this request proceed?
///
/// It corresponds to `RateLimitRequest` of `envoy.service.ratelimit.v3`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Request<'a> {
    /// The domain, which chooses the limits.
    pub domain: &'a str,
    /// The descriptors to count. Each gets a status.
    pub descriptors: Descriptors<'a>,
    /// Cost of each descriptor without its own `hits_addend`; 0 means 1.
    pub hits_addend: u32,
}

/// The descriptors of a request, in their order.
pub type Descriptors<'a> = SmallVec<[Descriptor<'a>; 2]>;

/// The entries of a descriptor, in their order.
pub type Entries<'a> = SmallVec<[Entry<'a>; 3]>;

/// A subject of limits: a list of entries, which is looked up level by level.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Descriptor<'a> {
    /// The entries, from the outermost level.
    pub entries: Entries<'a>,
    /// A limit that replaces the configured one.
    pub limit: Option<Override>,
    /// Its cost, if it sets one; 0 only peeks.
    pub hits_addend: Option<u64>,
    /// Whether the units are given back instead.
    pub is_negative_hits: bool,
}

/// One key and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key. No file has a limit for an empty one.
    pub key: &'a str,
    /// The value, which may be empty.
    pub value: &'a str,
}

/// A limit that comes with a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Override {
    /// The units in each window; 0 denies everything.
    pub requests_per_unit: u32,
    /// The [number of the unit](Unit::number), as it was sent: it may be none.
    pub unit: i32,
}

impl Override {
    /// Returns a limit of this many requests in each unit.
    #[must_use]
    pub const fn new(requests_per_unit: u32, unit: Unit) -> Self {
        Self { requests_per_unit, unit: unit.number() }
    }
}

impl<'a> Descriptor<'a> {
    /// Creates a descriptor with these entries and the cost of the request.
    pub fn new(entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let entries = entries.into_iter().map(|(key, value)| Entry { key, value }).collect();
        Self { entries, ..Self::default() }
    }
}
