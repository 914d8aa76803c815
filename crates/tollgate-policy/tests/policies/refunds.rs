//! Refunds: by the receipt of a check, and by the windows of its answer.

use std::cell::Cell;
use std::time::Duration;

use tollgate::{ManualClock, MemoryStore, QuotaState, Timestamp};
use tollgate_policy::{
    Attributes, Config, MarkedCharge, Policies, PolicyDecision, PolicyLimiter, RefundError, Texts,
    UnknownValue, View,
};
use tollgate_testkit::block_on;

type Limiter = PolicyLimiter<MemoryStore<ManualClock>>;

fn policies_of(policies: &str) -> Policies {
    let config = Config::parse("tollgate.yaml", &format!("policies:\n{policies}"));
    config.unwrap_or_else(|error| panic!("{error}")).into_policies()
}

/// A limiter whose store has room for so many counters.
fn limiter(policies: &str, max_counters: usize) -> (Limiter, ManualClock) {
    let clock = ManualClock::at(Timestamp::from_unix_millis(1_700_000_000_000));
    let store = MemoryStore::builder().clock(clock.clone()).max_counters(max_counters).build();
    (PolicyLimiter::new(store, policies_of(policies), "test"), clock)
}

fn alice() -> Attributes<'static> {
    [("user", "alice"), ("tenant", "acme")].into_iter().collect()
}

fn check(limiter: &Limiter, cost: u32) -> PolicyDecision {
    let decision = block_on(limiter.check(&alice(), cost)).unwrap();
    assert!(decision.is_allowed());
    decision
}

fn windows(decision: &PolicyDecision) -> Vec<MarkedCharge> {
    decision.quotas().map(MarkedCharge::from).collect()
}

fn used(limiter: &Limiter) -> Vec<u64> {
    let decision = block_on(limiter.peek(&alice(), 1)).unwrap();
    decision.quotas().map(|quota| quota.state.used()).collect()
}

/// A reload changed the key of a policy, and a refund of an earlier check went to the counter that the same attributes
/// select now, which was another client's. A guard compared the clock of the process with windows of the store, so a
/// store that was 5 s ahead passed it, and so did a policy that was removed and came back with another key.
#[test]
fn a_refund_of_a_check_under_another_key_never_goes_to_another_client() {
    let by = |key: &str| policies_of(&format!("  - {{ name: a, key: [{key}], quotas: [9/1m] }}"));
    let (limiter, _clock) = limiter("  - { name: a, key: [user], quotas: [9/1m] }", 100);
    let first = check(&limiter, 1);
    let refund = |version| block_on(limiter.refund(&alice(), 1, version, &windows(&first)));

    limiter.replace(policies_of("  - { name: a, key: [user], quotas: [5/1m] }"), "test");
    let given = refund(first.version()).unwrap();
    assert_eq!(given.iter().next().map(|(.., one)| one.state.units()), Some(1), "only the limit has changed");

    // By another key and back: in between, others may have been counted.
    for key in ["tenant", "user"] {
        limiter.replace(by(key), "test");
        let (decision, live) = (check(&limiter, 1), limiter.live().version());
        let error = refund(first.version()).unwrap_err();
        let RefundError::CountsOthers { index: 0, policy, version: 1, since } = &error else {
            panic!("{error}")
        };
        assert_eq!((&**policy, *since), ("a", live));
        assert!(refund(decision.version()).is_ok(), "{key}");
    }

    // Removed and added again, with another key.
    let second = check(&limiter, 1);
    limiter.replace(policies_of("  - { name: b, key: [user], quotas: [9/1m] }"), "test");
    limiter.replace(by("tenant"), "test");
    let _ = check(&limiter, 1);
    let error = refund(second.version()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "nothing was given back: `a` has had its key only since version 6 of the policies, and the check was made \
         under version 4; only a hold names the counter that was charged"
    );
    assert_eq!(used(&limiter), [1]);

    // Another process, or the same one before a restart.
    assert!(matches!(refund(7), Err(RefundError::UnknownVersion { version: 7, live: 6 })));
}

/// To learn the time, a refund looked at all counters of its request. With a full store, one that did not exist yet,
/// because a reload had added its quota, failed the refund of one that did.
#[test]
fn a_refund_in_a_full_store_concerns_the_named_counters_only() {
    let (limiter, _clock) = limiter("  - { name: a, key: [user], quotas: [9/1m] }", 2);
    let (first, windows) = (check(&limiter, 3), |decision: &PolicyDecision| windows(decision));
    let bob: Attributes<'_> = [("user", "bob")].into_iter().collect();
    assert!(block_on(limiter.check(&bob, 1)).unwrap().is_allowed());
    limiter.replace(policies_of("  - { name: a, key: [user], quotas: [9/1m, 90/1h] }"), "test");
    assert!(block_on(limiter.peek(&alice(), 1)).is_err(), "the store is full");

    let given = block_on(limiter.refund(&alice(), 3, first.version(), &windows(&first))).unwrap();
    assert_eq!(
        given.iter().map(|(.., one)| (one.is_open, one.state.units())).collect::<Vec<_>>(),
        [(true, 3)]
    );
}

/// A request with a token that expires between the decision and the receipt.
struct Expiring {
    is_expired: Cell<bool>,
}

impl View for Expiring {
    fn value(&self, name: &str) -> Result<Option<Texts<'_>>, UnknownValue> {
        match name {
            "user" if self.is_expired.get() => Err(UnknownValue::Wrong),
            "user" => Ok(Some(Texts::One("alice"))),
            _ => Ok(None),
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        ["user"].into_iter()
    }
}

/// The receipt matched the request a second time. When its token had expired in between, the receipt was empty, and the
/// units could not be given back.
#[test]
fn a_receipt_names_what_was_charged_whatever_becomes_of_the_request() {
    let (limiter, _clock) = limiter("  - { name: a, key: [user], quotas: [9/1m] }", 100);
    let view = Expiring { is_expired: Cell::new(false) };
    let decision = block_on(limiter.check(&view, 4)).unwrap();
    view.is_expired.set(true);
    assert!(block_on(limiter.check(&view, 4)).is_err());
    assert_eq!(used(&limiter), [4]);
    block_on(decision.receipt().refund(limiter.fallback())).unwrap();
    assert_eq!(used(&limiter), [0]);
}

/// Requests are counted at a fixed cost next to tokens. A refund of unused tokens gave the request back as well, so the
/// limit of requests was never reached.
#[test]
fn a_refund_of_some_units_and_settling_leave_fixed_costs_alone() {
    let policies = "  - { name: requests, key: [user], quotas: [9/1h], cost: 1 }
  - { name: bytes, key: [user], quotas: [90/1h], cost: { attribute: bytes, max: 90, on_missing: 7 } }
  - { name: tokens, key: [user], quotas: [90/1h] }";
    let (limiter, clock) = limiter(policies, 100);
    let mut receipt = check(&limiter, 50).receipt();
    assert_eq!(used(&limiter), [1, 7, 50]);
    let given = block_on(receipt.refund_units(limiter.fallback(), 20)).unwrap();
    let given: Vec<_> = given.iter().map(QuotaState::units).collect();
    assert_eq!((given, used(&limiter)), (vec![20], vec![1, 7, 30]));

    for cost in [45, 10, 10] {
        let settled = block_on(receipt.adjust(limiter.fallback(), cost)).unwrap();
        let settled: Vec<_> = settled.iter().map(QuotaState::units).collect();
        let expected = match cost {
            45 => vec![15],
            _ if settled.is_empty() => vec![],
            _ => vec![35],
        };
        assert_eq!((settled, used(&limiter)), (expected, vec![1, 7, u64::from(cost)]));
    }
    clock.advance(Duration::from_secs(1));
    block_on(receipt.refund(limiter.fallback())).unwrap();
    assert_eq!((used(&limiter), receipt.items().len()), (vec![0, 0, 0], 0));
}
