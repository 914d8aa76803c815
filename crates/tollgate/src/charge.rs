//! A charge: units of a quota for a key.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, LazyLock};

use siphasher::sip128::SipHasher13;
use smallvec::SmallVec;

use crate::key::write_length;
use crate::{Key, LocalShare, OnStoreFailure, Quota};

/// A quota under the name of its policy: with a key, it names one counter.
///
/// A counter belongs to the policy's name, the key, and how the quota counts: its kind, the window's length, the step of
/// a log, the anchor and the zone. So quotas of different policies never share counters, and a quota keeps its counters
/// when its limit or its burst changes.
///
/// Clones are cheap: they share the texts.
#[derive(Clone, PartialEq, Eq)]
pub struct PolicyQuota {
    quota: Quota,
    count_denied: CountDenied,
    on_store_failure: Option<OnStoreFailure>,
    /// A digest of the scope, 128 bits.
    scope_digest: u128,
    scope: Arc<CounterScope>,
}

/// The part of a counter's identity that is not its key.
#[derive(PartialEq, Eq)]
struct CounterScope {
    policy: Box<str>,
    /// The windows in their written form.
    windows: Box<str>,
    is_block: bool,
}

/// Whether denied requests are charged.
///
/// Charges of one step on one counter are charged together: if a denial charges one of them, it charges all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CountDenied {
    /// A denied request consumes nothing.
    #[default]
    No,
    /// A denied request is charged to the quotas that had no room for it, as systems do that count attempts.
    /// Then `used` may pass the limit. A cost above the limit is never charged.
    Yes,
    /// Every request is charged, whatever the verdict and whichever quota denied it, and any cost is admitted while
    /// `used` is below the limit. For costs that are known only after the work: a denial cannot undo them.
    ///
    /// `used` may pass the limit, and the last request that is admitted may pass it by any cost. Limit 0 still denies
    /// everything, and cost 0 still charges nothing.
    Overdraft,
}

impl PolicyQuota {
    /// Returns the quota under this policy's name; denied requests consume nothing.
    #[must_use]
    pub fn new(policy: &str, quota: Quota) -> Self {
        let windows = quota.series().to_string();
        Self::in_scope(
            quota,
            CounterScope { policy: policy.into(), windows: windows.into(), is_block: false },
        )
    }

    /// The quota that counts the blocks of this one, which last as long as a window of `block`. The length is no part of
    /// their name.
    pub(crate) fn blocked_by(&self, block: Quota) -> Self {
        let windows = [self.windows(), "~block"].concat();
        let scope = CounterScope { policy: self.policy().into(), windows: windows.into(), is_block: true };
        Self { on_store_failure: self.on_store_failure, ..Self::in_scope(block, scope) }
    }

    fn in_scope(quota: Quota, scope: CounterScope) -> Self {
        let scope_digest = scope_digest(&scope.policy, &scope.windows);
        let (count_denied, on_store_failure) = (CountDenied::No, None);
        Self { quota, count_denied, on_store_failure, scope_digest, scope: Arc::new(scope) }
    }

    /// Returns whether it counts the blocks of another quota.
    pub(crate) fn is_block(&self) -> bool {
        self.scope.is_block
    }

    /// Sets whether denied requests are charged.
    #[must_use]
    pub fn with_count_denied(self, count_denied: CountDenied) -> Self {
        Self { count_denied, ..self }
    }

    /// Sets what happens while the store cannot answer. It overrides the policy of the
    /// [`FallbackStore`](crate::FallbackStore) above the store.
    #[must_use]
    pub fn with_on_store_failure(self, on_store_failure: OnStoreFailure) -> Self {
        Self { on_store_failure: Some(on_store_failure), ..self }
    }

    /// Returns the same counters under another limit, at most [`Quota::MAX_LIMIT`].
    #[must_use]
    pub fn with_limit(&self, limit: u64) -> Self {
        Self { quota: self.quota.with_limit_up_to_max(limit), ..self.clone() }
    }

    /// The same counters under this share of the limit.
    pub(crate) fn with_share(&self, share: LocalShare) -> Self {
        Self { quota: self.quota.with_share(share), ..self.clone() }
    }

    /// Returns the policy's name.
    #[must_use]
    pub fn policy(&self) -> &str {
        &self.scope.policy
    }

    /// Returns the quota.
    #[must_use]
    pub const fn quota(&self) -> &Quota {
        &self.quota
    }

    /// Returns whether denied requests are charged.
    #[must_use]
    pub const fn count_denied(&self) -> CountDenied {
        self.count_denied
    }

    /// Returns the policy for outages of the store, if the quota has its own.
    #[must_use]
    pub const fn on_store_failure(&self) -> Option<OnStoreFailure> {
        self.on_store_failure
    }

    /// Returns the windows in their written form: the quota's without the limit, such as `1m@first_hit`. With the
    /// policy and the key it names a counter. Those of a [block](crate::BlockQuota) are `1m@first_hit~block`.
    #[must_use]
    pub fn windows(&self) -> &str {
        &self.scope.windows
    }

    /// Returns whether both count on the same counters, whatever their limits.
    #[must_use]
    pub fn shares_counters_with(&self, other: &Self) -> bool {
        self.scope == other.scope
    }

    /// Returns a digest of policy and windows, so of all that identifies a counter besides its key. For stores, which
    /// can tell counters apart by it without the texts.
    ///
    /// It is a hash with a random key of this process: callers who choose names of policies cannot find two with the
    /// same digest. Another process returns another digest: do not keep it.
    #[must_use]
    pub const fn scope_digest(&self) -> u128 {
        self.scope_digest
    }
}

/// A digest of what names a counter besides its key, by the hash of this process.
pub(crate) fn scope_digest(policy: &str, series: &str) -> u128 {
    digest(&encoded(policy, series))
}

/// A digest of these bytes, by the hash of this process.
pub(crate) fn digest(bytes: &[u8]) -> u128 {
    digest_function().hash(bytes).as_u128()
}

/// The hash of this process: SipHash with a random key, which the standard library has from the operating system. In
/// this crate's own tests it is the same each time, so that simulations can be run again.
fn digest_function() -> SipHasher13 {
    static KEY: LazyLock<[u64; 2]> = LazyLock::new(|| {
        let source = RandomState::new();
        if cfg!(test) { [0; 2] } else { [source.hash_one(0), source.hash_one(1)] }
    });
    let [first, second] = *KEY;
    SipHasher13::new_with_keys(first, second)
}

/// The policy's length in LEB128 and the policy in UTF-8, then window and anchor in the same form.
fn encoded(policy: &str, windows: &str) -> SmallVec<[u8; 64]> {
    let mut bytes = SmallVec::<[u8; 64]>::new();
    write_length(&mut bytes, policy.len());
    bytes.extend_from_slice(policy.as_bytes());
    write_length(&mut bytes, windows.len());
    bytes.extend_from_slice(windows.as_bytes());
    bytes
}

impl fmt::Debug for PolicyQuota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.policy(), self.quota)
    }
}

/// One counter: a quota for a key.
#[derive(Debug, Clone, Copy)]
pub struct Counter<'a> {
    quota: &'a PolicyQuota,
    key: &'a Key<'a>,
}

impl<'a> Counter<'a> {
    /// Returns the counter of this quota for this key.
    #[must_use]
    pub const fn new(quota: &'a PolicyQuota, key: &'a Key<'a>) -> Self {
        Self { quota, key }
    }

    /// Returns the quota that is counted.
    #[must_use]
    pub const fn quota(&self) -> &'a PolicyQuota {
        self.quota
    }

    /// Returns the key of the counter.
    #[must_use]
    pub const fn key(&self) -> &'a Key<'a> {
        self.key
    }

    /// Returns a charge of `cost` units.
    pub(crate) const fn charge(&self, cost: u32) -> Charge<'a> {
        Charge { counter: *self, cost }
    }
}

/// Two are equal if they name the same counter, whatever their limits.
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
    /// Creates a charge of `cost` units under the quota for the key. Cost 0 only peeks.
    #[must_use]
    pub const fn new(quota: &'a PolicyQuota, key: &'a Key<'a>, cost: u32) -> Self {
        Self { counter: Counter::new(quota, key), cost }
    }

    /// Returns the counter charged.
    #[must_use]
    pub const fn counter(&self) -> Counter<'a> {
        self.counter
    }

    /// Returns the most units that the counter may have used: the limit of the quota, or the burst of a bucket.
    #[must_use]
    #[inline(always)]
    pub const fn limit(&self) -> u64 {
        self.counter.quota.quota.capacity()
    }

    /// Returns the units to charge.
    #[must_use]
    pub const fn cost(&self) -> u32 {
        self.cost
    }

    /// Units that a step of these charges takes from this one's counter. Charges on one counter add up.
    pub(crate) fn cost_in(&self, charges: &[Self]) -> u64 {
        let on_counter = charges.iter().filter(|other| other.counter == self.counter);
        on_counter.map(|charge| u64::from(charge.cost)).sum()
    }

    /// Returns whether a denial of these charges charges this one's counter as an [overdraft](CountDenied::Overdraft).
    pub(crate) fn is_overdraft_in(&self, charges: &[Self]) -> bool {
        let mut on_counter = charges.iter().filter(|other| other.counter == self.counter);
        on_counter.any(|charge| charge.counter.quota.count_denied == CountDenied::Overdraft)
    }

    /// Units that must fit for the charge to be admitted: at least one, because cost 0 is answered as cost 1.
    pub(crate) fn asked_in(&self, charges: &[Self]) -> u64 {
        self.units_needed(self.cost_in(charges))
    }

    /// Returns the units that must be left for this charge to be admitted, if the charges of its step take `cost` units
    /// from its counter: an [overdraft](CountDenied::Overdraft) needs one unit, whatever the cost, and cost 0 is
    /// answered like cost 1.
    #[must_use]
    #[inline]
    pub const fn units_needed(&self, cost: u64) -> u64 {
        match self.counter.quota.count_denied {
            CountDenied::Overdraft => 1,
            CountDenied::No | CountDenied::Yes => {
                if cost == 0 {
                    1
                } else {
                    cost
                }
            }
        }
    }
}
