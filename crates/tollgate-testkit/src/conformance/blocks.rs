//! Blocks of keys that have exceeded their limit: rule 6.

use std::time::Duration;

use tollgate::{BlockCharge, BlockQuota, Counter, Key, PolicyQuota, QuotaState};

use super::{anchored, quota};
use crate::{CounterUnderTest, StoreSteps, StoreUnderTest};

/// A length that no test waits for.
const LONG: Duration = Duration::from_secs(600);

/// A length that a test can wait for.
const SHORT: Duration = Duration::from_millis(700);

const MILLISECOND: Duration = Duration::from_millis(1);

/// A key that is blocked if it exceeds its quota.
struct BlockedKey<'a, S> {
    subject: &'a S,
    quota: BlockQuota,
    key: Key<'static>,
}

impl<'a, S: StoreUnderTest> BlockedKey<'a, S> {
    fn new(subject: &'a S, quota: &PolicyQuota, length: Duration, key: &'static str) -> Self {
        let quota = BlockQuota::new(quota.clone(), length).expect("a quota of fixed windows");
        Self { subject, quota, key: Key::from(key) }
    }

    /// Returns the counter and its block after this charge.
    async fn charges(&self, cost: u32) -> [QuotaState; 2] {
        let charge = BlockCharge::new(&self.quota, &self.key, cost);
        let states = self.subject.store().block(&charge).await.expect("the store answers");
        assert_eq!(states[0].now(), states[1].now(), "rule 11: one step has one time");
        states
    }

    /// Returns the block after this charge, while it lives.
    async fn is_blocked(&self, cost: u32) -> Option<QuotaState> {
        let [counter, block] = self.charges(cost).await;
        assert!(block.used() == 0 || counter.used() == 0 && counter.units() == 0, "{counter:?} {block:?}");
        (block.used() > 0).then_some(block)
    }

    /// Exceeds the limit with one charge, and returns the block.
    async fn exceeds(&self) -> QuotaState {
        let limit = u32::try_from(self.quota.quota().quota().limit()).expect("a small limit");
        let [_, block] = self.charges(limit + 1).await;
        assert_eq!(block.used(), u64::from(limit) + 1);
        block
    }
}

/// Rule 6: the charge that exceeds the limit begins the block in its own step, and the counter is reset.
pub async fn a_block_begins_with_the_charge_that_exceeds_the_limit<S: StoreUnderTest>(subject: &S) {
    for &anchor in subject.anchors() {
        let quota = anchored("3/1h", anchor);
        let alice = BlockedKey::new(subject, &quota, LONG, "alice");
        for cost in [2, 1] {
            let [counter, block] = alice.charges(cost).await;
            assert_eq!((counter.units(), block.used()), (cost, 0), "{anchor:?}: {counter:?} {block:?}");
        }
        let [counter, block] = alice.charges(2).await;
        assert_eq!((counter.used(), counter.units(), block.used()), (0, 2, 5), "{anchor:?}");
        assert_eq!(
            block.window().map(|it| (it.start(), it.length())),
            Some((block.now(), LONG)),
            "{anchor:?}"
        );
    }
}

/// Rule 6: a charge of nothing begins no block, and limit 0 blocks with the first unit.
pub async fn a_charge_of_nothing_begins_no_block<S: StoreUnderTest>(subject: &S) {
    let quota = quota("0/1h");
    let alice = BlockedKey::new(subject, &quota, LONG, "alice");
    assert!(alice.is_blocked(0).await.is_none());
    assert_eq!(alice.exceeds().await.used(), 1);
    assert!(alice.is_blocked(0).await.is_some());
}

/// Rule 6: while a key is blocked, it counts nothing, and no charge prolongs its block.
pub async fn a_charge_prolongs_no_block<S: StoreUnderTest>(subject: &S) {
    let quota = quota("2/1h");
    let alice = BlockedKey::new(subject, &quota, LONG, "alice");
    let begun = alice.exceeds().await;
    // A longer length does not either.
    let longer = BlockedKey::new(subject, &quota, 2 * LONG, "alice");
    for (caller, cost) in [(&alice, 1), (&alice, 0), (&longer, 1), (&alice, u32::MAX)] {
        subject.reach(begun.now() + MILLISECOND).await;
        let block = caller.is_blocked(cost).await.expect("it lives for minutes");
        assert_eq!((block.used(), block.reset_at()), (3, begun.reset_at()), "cost {cost}");
    }
}

/// Rule 6: a block lives for exactly its length, and then the key is counted from 0 again.
pub async fn a_block_ends_to_the_millisecond<S: StoreUnderTest>(subject: &S) {
    let quota = quota("2/1h");
    let alice = BlockedKey::new(subject, &quota, SHORT, "alice");
    let end = alice.exceeds().await.reset_at();
    subject.reach(end - MILLISECOND).await;
    let [_, last] = alice.charges(0).await;
    assert_eq!(last.used() > 0, last.now() < end, "{last:?}");
    subject.reach(end).await;
    let [counter, block] = alice.charges(2).await;
    assert_eq!((counter.used(), counter.units(), block.used()), (2, 2, 0));
    let [_, again] = alice.charges(1).await;
    assert_eq!(again.used(), 3);
}

/// Rule 6: a charge with a shorter length than is left ends the block that length later. A charge of nothing only says
/// so.
pub async fn a_shorter_length_ends_a_block_earlier<S: StoreUnderTest>(subject: &S) {
    let quota = quota("2/1h");
    let alice = BlockedKey::new(subject, &quota, LONG, "alice");
    let mut end = alice.exceeds().await.reset_at();
    // Less than a second shorter, unless the machine stalls, and more.
    for shorter in [LONG - SHORT, Duration::from_secs(60)] {
        let other = BlockedKey::new(subject, &quota, shorter, "alice");
        let looked = other.is_blocked(0).await.expect("it lives for minutes");
        assert_eq!(looked.reset_at(), end.min(looked.now() + shorter));
        let unchanged = alice.is_blocked(0).await.expect("it lives for minutes");
        assert_eq!(unchanged.reset_at(), end);
        let shortened = other.is_blocked(1).await.expect("it lives for minutes");
        end = end.min(shortened.now() + shorter);
        assert_eq!((shortened.used(), shortened.reset_at()), (3, end));
        let then = alice.is_blocked(0).await.expect("it lives for minutes");
        assert_eq!((then.used(), then.reset_at()), (3, end));
    }
}

/// Rule 6: a block belongs to its policy, key and windows alone.
pub async fn a_block_touches_no_other_key<S: StoreUnderTest>(subject: &S) {
    let (hour, day) = (quota("2/1h"), quota("2/1d"));
    BlockedKey::new(subject, &hour, LONG, "alice").exceeds().await;
    let elsewhere = PolicyQuota::new("elsewhere", hour.quota().clone());
    for (quota, key) in [(&hour, "bob"), (&day, "alice"), (&elsewhere, "alice")] {
        let other = BlockedKey::new(subject, quota, LONG, key);
        let [counter, block] = other.charges(2).await;
        assert_eq!((counter.used(), block.used()), (2, 0), "{key} under {quota:?}");
    }
}

/// Rule 6: steps without a block neither know of it nor end it.
pub async fn steps_without_a_block_do_not_know_of_it<S: StoreUnderTest>(subject: &S) {
    let quota = quota("2/1h");
    let alice = BlockedKey::new(subject, &quota, LONG, "alice");
    let begun = alice.exceeds().await;
    let plain = CounterUnderTest::new(subject, &quota, "alice");
    assert_eq!(plain.used().await, 0);
    assert!(plain.takes(2).await.is_allowed());
    assert!(!plain.takes(1).await.is_allowed());
    plain.resets().await;
    assert_eq!(plain.records(1).await.used, 1);
    let [counter, block] = alice.charges(1).await;
    assert_eq!((counter.used(), counter.units()), (1, 0));
    assert_eq!((block.used(), block.reset_at()), (3, begun.reset_at()));
}

/// Rule 6: a block is reset as a counter of its own.
pub async fn a_reset_ends_a_block<S: StoreUnderTest>(subject: &S) {
    let quota = quota("2/1h");
    let alice = BlockedKey::new(subject, &quota, LONG, "alice");
    alice.exceeds().await;
    let block = Counter::new(alice.quota.block(), &alice.key);
    subject.store().reset(&block).await.expect("the store answers");
    let [counter, block] = alice.charges(1).await;
    assert_eq!((counter.used(), counter.units(), block.used()), (1, 1, 0));
}
