//! Holds while the store cannot answer.

use tollgate::{HoldId, HoldPlace, Reason, Source};
use tollgate_policy::{
    AskedHold, CheckError, PolicyDecision, PolicyHold, RenewAnswer, ReserveAnswer, SettleAnswer,
};
use tollgate_testkit::{StoreFault, block_on};

use super::{ALICE, Limiter, attributes, limiter, used};

const POLICIES: &str = "
  - { name: open, key: [user], quotas: [9/1m, 9~in_flight] }
  - { name: local, match: { path: [/local, /both] }, key: [user], quotas: [8/1m, 4~in_flight], overrun: cap,
      on_store_failure: local, local_share: 1/2 }
  - { name: closed, match: { path: [/closed, /both] }, key: [user], quotas: [9/1m], on_store_failure: closed }";

fn try_reserve(
    limiter: &Limiter,
    path: &str,
    cost: u32,
) -> Result<(PolicyDecision, Option<PolicyHold>), CheckError> {
    let request = attributes(&[("user", "alice"), ("path", path)]);
    match block_on(limiter.reserve(&request, AskedHold::new(HoldId::random(), cost)))? {
        ReserveAnswer::Decided { decision, hold, .. } => Ok((decision, hold)),
        other => panic!("{other:?}"),
    }
}

fn renew(limiter: &Limiter, hold: &PolicyHold) -> RenewAnswer {
    block_on(limiter.renew_until(None, hold)).unwrap()
}

#[test]
fn an_open_policy_admits_a_hold_that_nothing_counts() {
    let limiter = limiter(POLICIES);
    limiter.store().begin(StoreFault::unreachable());
    let (decision, hold) = try_reserve(&limiter, "/", 3).unwrap();
    assert_eq!((decision.source(), used(&decision)), (Source::Fallback, vec![("open", 0)]));
    let hold = hold.unwrap();
    assert_eq!((hold.place(), hold.parts().len(), hold.in_flight().len()), (HoldPlace::Nowhere, 1, 1));
    limiter.store().end();
    assert_eq!(renew(&limiter, &hold), RenewAnswer::Gone);
    assert_eq!(block_on(limiter.settle_until(None, &hold, 1)).unwrap(), SettleAnswer::Gone);
    let (never, hold) = {
        limiter.store().begin(StoreFault::unreachable());
        try_reserve(&limiter, "/", 10).unwrap()
    };
    assert_eq!((never.reason(), hold.is_none()), (Some(Reason::CostExceedsLimit), true));
}

#[test]
fn a_local_policy_counts_holds_in_the_process_against_its_share() {
    let limiter = limiter(POLICIES);
    limiter.store().begin(StoreFault::unreachable());
    let (decision, first) = try_reserve(&limiter, "/local", 2).unwrap();
    assert_eq!(used(&decision), [("open", 0), ("local", 2)]);
    let standings: Vec<(&str, u32, u32)> = decision
        .in_flight()
        .map(|standing| (standing.policy.name(), standing.state.live(), standing.state.limit()))
        .collect();
    assert_eq!(standings, [("open", 0, 9), ("local", 1, 2)]);
    let first = first.unwrap();
    assert_eq!((first.place(), first.policies().collect::<Vec<_>>()), (HoldPlace::Process, vec!["local"]));

    let (_, second) = try_reserve(&limiter, "/local", 1).unwrap();
    let (denied, third) = try_reserve(&limiter, "/local", 1).unwrap();
    assert_eq!((denied.reason(), denied.source()), (Some(Reason::InFlightExceeded), Source::Fallback));
    assert!(third.is_none());

    // Also once the store is back: this process has them.
    limiter.store().end();
    assert!(matches!(renew(&limiter, &first), RenewAnswer::Renewed { .. }));
    let SettleAnswer::Settled(settled) = block_on(limiter.settle_until(None, &first, 9)).unwrap() else {
        panic!("it lives")
    };
    // The share of 8 is 4, of which 3 are used.
    let units: Vec<_> = settled.iter().map(|one| (one.charged, one.forgiven, one.state.used())).collect();
    assert_eq!(units, [(1, 6, 4)]);
    assert!(matches!(renew(&limiter, &second.unwrap()), RenewAnswer::Renewed { .. }));
    let looked = block_on(limiter.peek(&attributes(ALICE), 0)).unwrap();
    assert_eq!(used(&looked), [("open", 0)], "the store counts its own");
}

#[test]
fn a_closed_policy_refuses_and_later_calls_fail_with_the_store() {
    let limiter = limiter(POLICIES);
    let (_, hold) = try_reserve(&limiter, "/", 3).unwrap();
    let hold = hold.unwrap();
    limiter.store().begin(StoreFault::unreachable());
    for path in ["/closed", "/both"] {
        assert!(matches!(try_reserve(&limiter, path, 1).unwrap_err(), CheckError::Store(_)), "{path}");
    }
    assert!(block_on(limiter.renew_until(None, &hold)).is_err());
    assert!(block_on(limiter.settle_until(None, &hold, 1)).is_err());
    assert!(matches!(block_on(limiter.reset(&attributes(ALICE), None, |_| true)), Err(CheckError::Store(_))));
    limiter.store().end();
    assert!(matches!(block_on(limiter.settle_until(None, &hold, 1)).unwrap(), SettleAnswer::Settled(_)));
    let set = limiter.live();
    let failed: Vec<u64> = set.tally().map(|(_, tally)| tally.failed).collect();
    assert_eq!(failed, [0, 0, 2]);
}
