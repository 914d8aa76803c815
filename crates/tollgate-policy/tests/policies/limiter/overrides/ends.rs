//! The end of an override, to the millisecond of the store's clock.

use tollgate::{
    Answer, HoldAnswer, HoldId, HoldStep, ManualClock, QuotaStates, Step, StepDeadline, Store, StoreError,
};
use tollgate_policy::{AskedHold, PolicyDecision, PolicyLimiter, ReserveAnswer};
use tollgate_testkit::block_on;

use super::*;

/// A way to ask for a decision, with its name.
type Door = (&'static str, fn(&World) -> PolicyDecision);

const DOORS: &[Door] = &[
    ("check", |world| block_on(world.limiter.check(&alice(), 1)).unwrap()),
    ("at once", |world| world.at_once.check_at_once(&alice(), 1).unwrap().unwrap()),
    ("each", |world| {
        let (alice, bob) = (alice(), attributes(&[("user", "bob"), ("path", "/search")]));
        let mut each = block_on(world.limiter.check_each([(&bob, 1), (&alice, 1), (&bob, 1)]));
        assert!(each.iter().all(Result::is_ok), "{each:?}");
        each.remove(1).unwrap()
    }),
    ("together", |world| {
        let (alice, bob) = (alice(), attributes(&[("user", "bob"), ("path", "/search")]));
        block_on(world.limiter.check_together([(&bob, 1), (&alice, 1)])).unwrap().remove(1)
    }),
    ("hold", |world| {
        let answer = block_on(world.limiter.reserve(&alice(), AskedHold::new(HoldId::random(), 1))).unwrap();
        let ReserveAnswer::Decided { decision, .. } = answer else { panic!("{answer:?}") };
        decision
    }),
    ("peek", |world| block_on(world.limiter.peek(&alice(), 1)).unwrap()),
    ("peek of a check", |world| {
        block_on(world.limiter.peek_check_in(world.limiter.live(), &alice(), 1)).unwrap()
    }),
];

/// A process whose clock is ahead or behind must not decide by it: a minute's limit would end a second too early or too
/// late, and differently in each process.
#[test]
fn the_stores_clock_ends_an_override_to_the_millisecond() {
    for (door, decide) in DOORS {
        for ahead in [-1_500, 0, 1_500] {
            let world = World::new(SEARCH);
            world.set("alice", &Limits(&["7/1h"]), Some(10_000));
            let decided = |millis: u64| {
                world.go_apart(millis, millis.saturating_add_signed(ahead));
                let decision = decide(&world);
                assert!(decision.is_allowed(), "{door}");
                let standing = decision.quota().unwrap();
                let is_by_override = standing.by_override.is_some();
                assert_eq!(
                    standing.by_override.and_then(|by| by.until),
                    is_by_override.then(|| world.time(10_000))
                );
                assert_eq!(decision.applied_overrides().count(), usize::from(is_by_override), "{door}");
                (standing.quota.quota().to_string(), is_by_override)
            };
            let (overridden, own) = (("7/1h".to_owned(), true), ("2/1m@first_hit".to_owned(), false));
            assert_eq!(decided(9_998), overridden, "{door}, {ahead} ms ahead");
            assert_eq!(decided(9_999), overridden, "{door}, {ahead} ms ahead");
            assert_eq!(decided(10_000), own, "{door}, {ahead} ms ahead");
            assert_eq!(decided(10_001), own, "{door}, {ahead} ms ahead");
        }
    }
}

/// A step back of the store's clock makes an override apply once more until its end, and no call is stuck.
#[test]
fn an_override_applies_again_after_a_step_back_of_the_stores_clock() {
    let world = World::new(SEARCH);
    world.set("alice", &Limits(&["7/1h"]), Some(10_000));
    for (millis, quota) in [(10_000, "2/1m@first_hit"), (9_500, "7/1h"), (10_000, "2/1m@first_hit")] {
        world.go_apart(millis, 10_000);
        assert_eq!(quotas(&world.check(ALICE)).remove(0).0, quota);
    }
}

/// A request that is matched again is matched for the store's time: an override that ends later replaces the
/// one that has ended, even if the process believes that both have.
#[test]
fn the_next_override_takes_over_at_the_end_of_the_first() {
    for (door, decide) in DOORS {
        let world = World::new(SEARCH);
        world.set("alice", &Limits(&["7/1h"]), Some(10_000));
        world.set_tenant("search", "acme", &Limits(&["8/1h"]), Some(10_500));
        world.set_tenant("search", "ac*", &Limits(&["9/1h"]), Some(11_000));
        let decided = |millis| {
            world.go_apart(millis, 11_500);
            quotas(&decide(&world)).remove(0).0
        };
        assert_eq!([decided(9_999), decided(10_000), decided(10_499)], ["7/1h", "8/1h", "8/1h"], "{door}");
        assert_eq!([decided(10_500), decided(10_999)], ["9/1h", "9/1h"], "{door}");
        assert_eq!(decided(11_000), "2/1m@first_hit", "{door}");
        // Three ends in one step, as far as the process knows.
        world.go_apart(11_000, 9_000);
        assert_eq!(quotas(&decide(&world)).remove(0).0, "2/1m@first_hit", "{door}");
    }
}

/// Several requests in one step are decided at one time.
#[test]
fn requests_that_are_decided_together_are_under_the_same_overrides() {
    let world = World::new(SEARCH);
    world.set("alice", &Limits(&["7/1h"]), Some(10_000));
    world.set("bob", &Limits(&["8/1h"]), Some(10_500));
    let bob = attributes(&[("user", "bob"), ("path", "/search")]);
    let together = |millis, process| {
        world.go_apart(millis, process);
        let decisions = block_on(world.limiter.check_together([(&alice(), 1), (&bob, 1)])).unwrap();
        decisions.iter().map(|decision| quotas(decision).remove(0).0).collect::<Vec<_>>()
    };
    assert_eq!(together(9_999, 9_000), ["7/1h", "8/1h"]);
    assert_eq!(together(10_000, 9_000), ["2/1m@first_hit", "8/1h"]);
    assert_eq!(together(10_500, 9_000), ["2/1m@first_hit", "2/1m@first_hit"]);
}

/// What is charged before the end is charged once, although some of a batch is asked again.
#[test]
fn a_batch_asks_again_only_for_what_has_ended() {
    let world = World::new(SEARCH);
    world.set("alice", &Limits(&["7/1h"]), Some(10_000));
    world.go_apart(10_000, 9_000);
    let bob = attributes(&[("user", "bob"), ("path", "/search")]);
    let nobody = attributes(&[("path", "/search")]);
    let each = block_on(world.limiter.check_each([(&bob, 1), (&alice(), 1), (&nobody, 1), (&bob, 1)]));
    let used: Vec<Option<u64>> = each.iter().map(|it| Some(it.as_ref().ok()?.state()?.used())).collect();
    assert_eq!(used, [Some(1), Some(1), None, Some(2)]);
    assert_eq!(world.peek(ALICE).state().map(|state| state.used()), Some(1));
    let tally = world.limiter.live().tally().map(|(_, tally)| (tally.allowed, tally.failed)).next();
    assert_eq!(tally, Some((3, 0)));
}

/// A store that changes something whenever a step has ended.
struct Interrupted<S, F>(S, F);

impl<S: Store, F: Fn() + Send + Sync> Store for Interrupted<S, F> {
    fn step_until<'a>(
        &'a self,
        step: Step<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<QuotaStates, StoreError>> + Send> {
        self.0.step_until(step, deadline).map(|answer| {
            if let Err(StoreError::Ended { .. }) = answer {
                (self.1)();
            }
            answer
        })
    }

    fn step_each_until<'a>(
        &'a self,
        steps: &'a [Step<'a>],
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Vec<Result<QuotaStates, StoreError>>> + Send> {
        self.0.step_each_until(steps, deadline)
    }

    fn hold_until<'a>(
        &'a self,
        step: HoldStep<'a>,
        deadline: Option<StepDeadline>,
    ) -> Answer<impl Future<Output = Result<HoldAnswer, StoreError>> + Send> {
        self.0.hold_until(step, deadline)
    }
}

/// A decision that was asked again under the overrides of that moment named two versions in one answer.
#[test]
fn a_decision_keeps_its_overrides_if_they_change_before_it_is_asked_again() {
    use std::sync::OnceLock;

    type Interrupter = Box<dyn Fn() + Send + Sync>;
    type Shared = Arc<PolicyLimiter<Interrupted<MemoryStore<ManualClock>, Interrupter>, ManualClock>>;

    let World { clock, estimate, limiter: template, at_once } = World::new(SEARCH);
    let limiter: Arc<OnceLock<Shared>> = Arc::default();
    let interrupter: Interrupter = {
        let limiter = Arc::clone(&limiter);
        Box::new(move || {
            let limiter = limiter.get().unwrap();
            limiter.replace_overrides(|set, _| {
                set.cleared().at_version(tollgate_policy::OverridesVersion { epoch: 1, number: 9 })
            });
        })
    };
    let store = Interrupted(MemoryStore::builder().clock(clock.clone()).build(), interrupter);
    let built = PolicyLimiter::new(store, policies_of(SEARCH), "test")
        .memory(MemoryStore::builder().clock(estimate.clone()).build());
    let world = World { clock, estimate, limiter: template, at_once };
    world.set("alice", &Limits(&["7/1h"]), Some(10_000));
    world.set_tenant("search", "acme", &Limits(&["8/1h"]), Some(20_000));
    let version = tollgate_policy::OverridesVersion { epoch: 1, number: 8 };
    let built = built.with_overrides(world.limiter.live().overrides().clone().at_version(version));
    assert!(limiter.set(Arc::new(built)).is_ok());
    let limiter = limiter.get().unwrap();
    world.go_apart(10_000, 9_000);

    let decision = block_on(limiter.check(&alice(), 1)).unwrap();
    assert_eq!(quotas(&decision), [("8/1h".to_owned(), 1)]);
    assert_eq!(decision.overrides_version(), Some(version));
    assert_eq!(limiter.live().overrides().version().map(|version| version.number), Some(9), "it has changed");
    assert_eq!(quotas(&block_on(limiter.check(&alice(), 1)).unwrap()), [("2/1m@first_hit".to_owned(), 1)]);
}

/// Checks were refused for two seconds after the end of an override with a limit in flight, because only a hold can take
/// its units and no step compared its end.
#[test]
fn a_limit_in_flight_that_has_ended_needs_no_hold() {
    for (door, decide) in DOORS.iter().filter(|(door, _)| *door != "hold") {
        let world = World::new(SEARCH);
        world.set("alice", &Limits(&["5~in_flight"]), Some(10_000));
        for millis in [10_000, 11_999] {
            world.go_to(millis);
            assert_eq!(quotas(&decide(&world)).remove(0).0, "2/1m@first_hit", "{door} at {millis}");
        }
    }
}

/// An override that had just ended hid the denial by another one, and another policy was named.
#[test]
fn an_override_that_has_ended_hides_no_denial_where_no_step_is_taken() {
    let both = "  - { name: a, match: { path: /search }, key: [user], quotas: [2/1m] }
  - { name: search, match: { path: /search }, key: [user], quotas: [2/1m], on_missing_key: error }";
    for (door, decide) in DOORS {
        let world = World::new(both);
        world.set_tenant("a", "acme", &Limits(&["7/1h"]), Some(10_000));
        world.set_tenant("a", "ac*", &Denied, None);
        world.set_tenant("search", "acme", &Denied, None);
        let denying = |millis| {
            world.go_to(millis);
            decide(&world).policy().map(|policy| policy.name().to_owned())
        };
        assert_eq!(denying(9_999).as_deref(), Some("search"), "{door}");
        assert_eq!(denying(10_000).as_deref(), Some("a"), "{door}");
    }
}
