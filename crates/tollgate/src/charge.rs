//! What is asked of a store: units of a quota, for a key.

use std::fmt;

use siphasher::sip128::SipHasher13;
use smallvec::SmallVec;

use crate::key::write_length;
use crate::quota::Windows;
use crate::{Key, Quota};

/// A quota under the name of its policy: with a key, it names one counter.
///
/// A counter belongs to the policy's name, the key, the window length, the anchor and the zone. So two quotas
/// of different policies never share counters, and a quota with another limit but the same windows goes on
/// with the counters there are.
#[derive(Clone, PartialEq, Eq)]
pub struct PolicyQuota {
    policy: Box<str>,
    quota: Quota,
    count_denied: CountDenied,
    /// What a counter belongs to besides its key: policy and windows, injectively encoded.
    scope: Box<[u8]>,
    /// 128 bits that stand for the scope where it is hashed.
    scope_digest: (u64, u64),
}

/// Whether a denied request uses up what it was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CountDenied {
    /// A denied request consumes nothing.
    #[default]
    No,
    /// A denied request is charged to the quotas that had no room for it, as systems do that count attempts.
    /// Then `used` may pass the limit. A cost above the limit is never charged.
    Yes,
}

impl PolicyQuota {
    /// The quota under this policy's name; denied requests consume nothing.
    #[must_use]
    pub fn new(policy: &str, quota: Quota) -> Self {
        let scope = scope(policy, &quota);
        let scope_digest = SipHasher13::new().hash(&scope).as_u64();
        Self { policy: policy.into(), quota, count_denied: CountDenied::No, scope, scope_digest }
    }

    /// Sets whether denied requests are charged.
    #[must_use]
    pub fn with_count_denied(self, count_denied: CountDenied) -> Self {
        Self { count_denied, ..self }
    }

    /// The policy's name.
    #[must_use]
    pub fn policy(&self) -> &str {
        &self.policy
    }

    /// The quota.
    #[must_use]
    pub const fn quota(&self) -> &Quota {
        &self.quota
    }

    /// Whether denied requests are charged.
    #[must_use]
    pub const fn count_denied(&self) -> CountDenied {
        self.count_denied
    }

    /// Whether both count on the same counters, whatever their limits.
    #[must_use]
    pub fn shares_counters_with(&self, other: &Self) -> bool {
        self.scope == other.scope
    }

    /// What stands for policy and windows in a hash. Policies come from the operator, so an unkeyed hash of 128
    /// bits tells them apart.
    pub(crate) const fn scope_digest(&self) -> (u64, u64) {
        self.scope_digest
    }
}

/// The policy's length in LEB128, the policy in UTF-8, then the written form of window and anchor likewise.
fn scope(policy: &str, quota: &Quota) -> Box<[u8]> {
    let windows: &Windows = quota.windows();
    let mut bytes = SmallVec::<[u8; 64]>::new();
    write_length(&mut bytes, policy.len());
    bytes.extend_from_slice(policy.as_bytes());
    let windows = windows.to_string();
    write_length(&mut bytes, windows.len());
    bytes.extend_from_slice(windows.as_bytes());
    bytes.into_boxed_slice()
}

impl fmt::Debug for PolicyQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.policy, self.quota)
    }
}

/// One counter: a quota for a key.
#[derive(Debug, Clone, Copy)]
pub struct Counter<'a> {
    quota: &'a PolicyQuota,
    key: &'a Key<'a>,
}

impl<'a> Counter<'a> {
    /// The counter of this quota for this key.
    #[must_use]
    pub const fn new(quota: &'a PolicyQuota, key: &'a Key<'a>) -> Self {
        Self { quota, key }
    }

    /// The quota that is counted.
    #[must_use]
    pub const fn quota(&self) -> &'a PolicyQuota {
        self.quota
    }

    /// Who is counted.
    #[must_use]
    pub const fn key(&self) -> &'a Key<'a> {
        self.key
    }
}

/// Two are equal if they name the same counter: the limit does not matter.
impl PartialEq for Counter<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.quota.shares_counters_with(other.quota) && self.key == other.key
    }
}

impl Eq for Counter<'_> {}

/// One quota, for one key, at one cost.
#[derive(Debug, Clone, Copy)]
pub struct Charge<'a> {
    counter: Counter<'a>,
    cost: u32,
}

impl<'a> Charge<'a> {
    /// Takes `cost` units of the quota for the key. Cost 0 only peeks.
    #[must_use]
    pub const fn new(quota: &'a PolicyQuota, key: &'a Key<'a>, cost: u32) -> Self {
        Self { counter: Counter::new(quota, key), cost }
    }

    /// The counter charged.
    #[must_use]
    pub const fn counter(&self) -> Counter<'a> {
        self.counter
    }

    /// The limit of the quota charged.
    #[must_use]
    pub const fn limit(&self) -> u64 {
        self.counter.quota.quota.limit()
    }

    /// Units to take.
    #[must_use]
    pub const fn cost(&self) -> u32 {
        self.cost
    }
}
