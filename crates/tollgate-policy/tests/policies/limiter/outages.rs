//! Stores that fail, are full or late.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tollgate::{FallbackStore, ManualClock, MemoryStore, OnStoreFailure, Source, StoreError};
use tollgate_policy::{CheckError, MarkedCharge, PolicyDecision, PolicyLimiter, RefundError, WhenFull};
use tollgate_testkit::{FaultyStore, StoreFault, Unreachable, block_on};

use super::{ALICE, attributes, check, limiter, policies_of, policy, reserve, try_check, used};

#[test]
fn on_store_failure_is_that_of_the_strictest_policy_that_applies() {
    let limiter = limiter(
        "  - { name: open, key: [user], quotas: [9/1m] }
  - { name: local, match: { path: [/local, /both] }, key: [user], quotas: [4/1m], on_store_failure: local,
      local_share: 1/2 }
  - { name: closed, match: { path: [/closed, /both] }, key: [user], quotas: [9/1m], on_store_failure: closed }
  - { name: dark, mode: shadow, key: [user], quotas: [1/1m], on_store_failure: closed }",
    );
    limiter.store().begin(StoreFault::unreachable());
    let at = |path| try_check(&limiter, &[("user", "alice"), ("path", path)]);

    let open = at("/").unwrap();
    assert_eq!((open.is_allowed(), open.source(), used(&open)), (true, Source::Fallback, vec![("open", 0)]));
    for counted in 1..=2 {
        assert_eq!(used(&at("/local").unwrap()), [("open", 0), ("local", counted)]);
    }
    let denied = at("/local").unwrap();
    assert_eq!((denied.is_allowed(), policy(&denied)), (false, Some("local")));
    for path in ["/closed", "/both"] {
        let CheckError::Store(error) = at(path).unwrap_err() else { panic!("{path}") };
        assert_eq!(error.trouble_of(), Some(&Unreachable));
    }

    let set = limiter.live();
    let tally = |name: &str| set.tally().find(|(policy, _)| policy.name() == name).unwrap().1;
    assert_eq!((tally("closed").failed, tally("open").failed, tally("local").failed), (2, 0, 0));
    assert_eq!((tally("open").allowed_by_fallback, tally("local").denied_by_fallback), (1, 1));
    assert_eq!(tally("dark").shadow, Default::default(), "nothing is tried out meanwhile");
}

#[test]
fn a_full_store_refuses_unseen_keys_or_admits_them_uncounted() {
    let clock = ManualClock::default();
    let store = || MemoryStore::builder().clock(clock.clone()).max_counters(1).build();
    let policies = || policies_of("  - { name: a, key: [user], quotas: [2/1m] }");
    let full = |limiter: &PolicyLimiter<MemoryStore<ManualClock>>| {
        assert!(block_on(limiter.check(&attributes(ALICE), 1)).unwrap().is_allowed());
        block_on(limiter.check(&attributes(&[("user", "bob")]), 1))
    };
    let deny = PolicyLimiter::new(store(), policies(), "test");
    assert!(matches!(full(&deny).unwrap_err(), CheckError::Store(StoreError::Full)));
    let allow = PolicyLimiter::new(store(), policies(), "test").when_full(WhenFull::Allow);
    let decision = full(&allow).unwrap();
    assert_eq!(
        (decision.is_allowed(), decision.source(), used(&decision)),
        (true, Source::Fallback, vec![("a", 0)])
    );
    let never = block_on(allow.check(&attributes(&[("user", "bob")]), 3)).unwrap();
    assert!(!never.is_allowed());
}

/// If an error claims that nothing was changed, callers retry, and a refund would give back twice. Errors of resets, of
/// sets and of settling a receipt claimed so even after a change.
#[test]
fn an_error_after_a_part_may_have_charged() {
    let limiter = limiter("  - { name: a, key: [user], quotas: [99/1m, 99/1h], on_store_failure: closed }");
    let store = limiter.store();
    let alice = attributes(ALICE);
    let windows: Vec<MarkedCharge> = check(&limiter, ALICE).quotas().map(Into::into).collect();
    let reserved = || reserve(&limiter, &alice, 5).1;
    let begin = |spared| store.begin_after(spared, StoreFault::unreachable());
    let told = |error: CheckError| match error {
        CheckError::Store(error) => (error, Vec::new()),
        CheckError::Partly { changed, error, .. } => {
            (error, changed.iter().map(|quota| quota.quota().to_string()).collect())
        }
        other => panic!("{other}"),
    };
    for (spared, may_have) in [(0, false), (1, true)] {
        let refund = || match block_on(limiter.refund(&alice, 1, 1, &windows)).unwrap_err() {
            RefundError::Check(error) => told(error),
            other => panic!("{other}"),
        };
        /// The error, and the quotas that it names.
        type Change<'a> = Box<dyn Fn() -> (StoreError, Vec<String>) + 'a>;
        let changes: [(&str, Change<'_>); 5] = [
            (
                "refund",
                Box::new(|| {
                    // The call peeks at both counters first, for the time.
                    begin(spared + 2);
                    refund()
                }),
            ),
            (
                "reset",
                Box::new(|| {
                    begin(spared);
                    told(block_on(limiter.reset(&alice, None, |_| true)).unwrap_err())
                }),
            ),
            (
                "set",
                Box::new(|| {
                    begin(spared);
                    told(block_on(limiter.set(&alice, 3, None, |_| true)).unwrap_err())
                }),
            ),
            (
                "settle",
                Box::new(|| {
                    let mut receipt = reserved();
                    begin(spared);
                    told(block_on(limiter.settle(&mut receipt, 3)).unwrap_err().into())
                }),
            ),
            (
                "give back",
                Box::new(|| {
                    let mut receipt = reserved();
                    begin(spared);
                    told(block_on(receipt.refund(limiter.fallback())).unwrap_err().into())
                }),
            ),
        ];
        for (name, change) in changes {
            let (error, changed) = change();
            assert_eq!(error.may_have_charged(), may_have, "{name} after {spared}");
            assert_eq!(error.trouble_of(), Some(&Unreachable), "{name} after {spared}");
            assert_eq!(changed, if may_have { vec!["99/1m"] } else { vec![] }, "{name} after {spared}");
            store.end();
        }
    }
}

/// Each quota of a refund, a reset or a set by attributes had its own deadline, and so did each trial that only peeks
/// (G6).
#[test]
fn a_call_over_several_quotas_has_one_deadline() {
    let clock = ManualClock::default();
    let memory = || MemoryStore::builder().clock(clock.clone()).max_counters(100).build();
    let hanging = FaultyStore::new(memory());
    let deadlines = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&deadlines);
    let store = FallbackStore::new(hanging.clone(), OnStoreFailure::Closed).deadline(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        std::future::ready(())
    });
    let policies = policies_of(
        "
  - { name: a, key: [user], quotas: [1/1m, 99/1h, 99/1d] }
  - { name: b, key: [user], quotas: [99/1m], mode: shadow }
  - { name: c, key: [user], quotas: [99/1m], mode: shadow }
  - { name: d, key: [user], quotas: [99/1m], mode: shadow }",
    );
    let limiter = PolicyLimiter::new(store, policies, "test").memory(memory());
    let alice = attributes(ALICE);
    let made = || deadlines.swap(0, Ordering::Relaxed);
    block_on(async {
        let decision = limiter.check(&alice, 1).await.unwrap();
        let mut receipt = decision.receipt();

        hanging.begin_after(1, StoreFault::Hangs);
        assert!(!limiter.check(&alice, 1).await.unwrap().is_allowed());
        assert_eq!(made(), 1, "trials of a denied request");

        let windows: Vec<MarkedCharge> = decision.quotas().map(Into::into).collect();
        // The call peeks at the three counters first, for the time.
        hanging.begin_after(3, StoreFault::Hangs);
        limiter.refund(&alice, 1, 1, &windows).await.unwrap_err();
        assert_eq!(made(), 1, "a refund");
        hanging.begin(StoreFault::Hangs);
        receipt.refund_units(limiter.fallback(), 1).await.unwrap_err();
        assert_eq!(made(), 1, "a refund by receipt");
        limiter.reset(&alice, None, |_| true).await.unwrap_err();
        assert_eq!(made(), 1, "a reset");
        limiter.set(&alice, 3, None, |_| true).await.unwrap_err();
        assert_eq!(made(), 1, "a set");
    });
}

/// A client on a list of those who are denied passed during an outage: the call that also asked about a counter failed,
/// and Envoy admits what fails.
#[test]
fn a_denial_without_a_count_holds_while_the_store_fails() {
    let limiter = limiter(
        "
  - { name: paths, match: { path: '*' }, key: [path], quotas: [5/1m], on_store_failure: closed }
deny:
  user: alice",
    );
    let (alice, path) = (attributes(&ALICE[..1]), attributes(&ALICE[1..]));
    let both = || block_on(limiter.check_together([(&path, 1), (&alice, 1)])).unwrap();
    let allowed = |decisions: &[PolicyDecision]| -> Vec<bool> {
        decisions.iter().map(PolicyDecision::is_allowed).collect()
    };
    let decisions = both();
    assert_eq!(allowed(&decisions), [true, false]);
    assert!(decisions[0].state().is_some());

    limiter.store().begin(StoreFault::unreachable());
    let decisions = both();
    assert_eq!(allowed(&decisions), [true, false]);
    assert!(decisions[0].state().is_none() && decisions[0].policy().is_none(), "nobody looked");
    let failed = block_on(limiter.check_together([(&path, 1), (&path, 1)]));
    assert!(failed.is_err(), "the store decides");
}

/// Units that a reset had forgotten before the store failed were not named.
#[test]
fn a_reset_that_fails_names_the_units_that_it_has_forgotten() {
    let limiter = limiter(
        "  - { name: a, key: [user], quotas: 3~in_flight, on_store_failure: closed }
  - { name: b, key: [user], quotas: 4~in_flight, on_store_failure: closed }",
    );
    limiter.store().begin_after(1, StoreFault::unreachable());
    let error = block_on(limiter.reset(&attributes(ALICE), None, |_| true)).unwrap_err();
    assert!(error.to_string().ends_with("it changed 3~in_flight of a"), "{error}");
    let CheckError::Partly { changed, forgotten, .. } = error else { panic!("{error}") };
    assert_eq!((changed.len(), forgotten.len(), forgotten[0].policy()), (0, 1, "a"));
}
