//! Holds while replies are lost, scripts are forgotten and servers change places.

use std::time::Duration;

use tollgate::{
    Charge, HoldAdjustment, HoldAnswer, HoldId, HoldLength, HoldStates, HoldStep, HoldTerms, InFlightCharge,
    Key, PolicyInFlight, PolicyQuota, Step, Store, StoreError,
};
use tollgate_redis::{KeyIdentity, RedisError, RedisStore};
use tollgate_testkit::StoreSteps;
use tollgate_testkit::servers::{ByteDirection, Cluster, FaultProxy, Sentinels, Server, Software};

use crate::sentinel;
use crate::support::{PATIENCE, builder, patient_builder, until};

struct Desk {
    store: RedisStore,
    jobs: PolicyInFlight,
    words: PolicyQuota,
    key: Key<'static>,
}

/// What is asked of a hold of one unit at the cost of ten.
#[derive(Debug, Clone, Copy)]
enum Ask {
    Reserve,
    Look,
    Renew,
    Settle(HoldAdjustment),
}

impl Desk {
    fn new(store: RedisStore) -> Self {
        Self {
            store,
            jobs: PolicyInFlight::new("jobs", "5~in_flight".parse().unwrap()),
            words: PolicyQuota::new("jobs", "100/3653d".parse().unwrap()),
            key: "alice".into(),
        }
    }

    async fn ask(&self, id: HoldId, ask: Ask) -> Result<HoldAnswer, StoreError> {
        let units = [InFlightCharge::new(&self.jobs, &self.key, 1)];
        let charges = [Charge::new(&self.words, &self.key, 10)];
        let terms = HoldTerms::new(id, &units, &charges, HoldLength::default());
        let adjustments = [if let Ask::Settle(adjustment) = ask { adjustment } else { HoldAdjustment::Keep }];
        let step = match ask {
            Ask::Reserve => HoldStep::Reserve(terms),
            Ask::Look => HoldStep::Look(terms),
            Ask::Renew => HoldStep::Renew(terms),
            Ask::Settle(_) => HoldStep::Settle(terms, &adjustments),
        };
        self.store.hold_until(step, None).await
    }

    async fn decided(&self, id: HoldId, ask: Ask) -> HoldStates {
        match self.ask(id, ask).await {
            Ok(HoldAnswer::Decided(states)) => states,
            other => panic!("{other:?}"),
        }
    }

    /// The live units and the used ones.
    async fn counts(&self) -> (u32, u64) {
        let looked = self.decided(HoldId::random(), Ask::Look).await;
        (looked.in_flight()[0].live(), looked.charged()[0].used())
    }
}

fn url(address: impl std::fmt::Display) -> String {
    format!("redis://{address}")
}

/// The store sends nothing again. Its caller may, with the same id: the first step counts once.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_whose_reply_was_lost_can_be_repeated() {
    for software in Software::ALL {
        let server = Server::start(software);
        let proxy = FaultProxy::before(server.address());
        let desk = Desk::new(patient_builder(&url(server.address())).build().unwrap());
        let behind = builder(&url(proxy.address())).deadline(Duration::from_millis(300));
        let behind = Desk::new(behind.build().unwrap());
        behind.store.warm_up(PATIENCE).await.unwrap();
        let id = HoldId::random();
        let lost = async |ask: Ask| {
            proxy.hold(ByteDirection::Reply);
            let error = behind.ask(id, ask).await.unwrap_err();
            assert!(
                matches!(RedisError::of(&error), Some(RedisError::TimedOut | RedisError::TooSlow)),
                "{error}"
            );
            let may_charge = matches!(ask, Ask::Reserve | Ask::Settle(_));
            assert_eq!(error.may_have_charged(), may_charge, "{ask:?}");
            proxy.heal();
        };
        lost(Ask::Reserve).await;
        assert_eq!(desk.counts().await, (1, 10));
        let again = desk.decided(id, Ask::Reserve).await;
        assert!(again.is_admitted() && again.is_repeated());
        assert_eq!((again.in_flight()[0].live(), again.charged()[0].used()), (1, 10));
        lost(Ask::Renew).await;
        assert!(matches!(desk.ask(id, Ask::Renew).await, Ok(HoldAnswer::Renewed { .. })));
        let settle = Ask::Settle(HoldAdjustment::Charge(7));
        lost(settle).await;
        assert_eq!(desk.counts().await, (0, 17));
        let Ok(HoldAnswer::Settled(states)) = desk.ask(id, settle).await else { panic!("it was settled") };
        assert_eq!((states[0].units(), states[0].used()), (7, 17));
        assert_eq!(desk.counts().await, (0, 17));
    }
}

/// A server that has lost its scripts gets both again, and each step is taken once.
#[tokio::test(flavor = "multi_thread")]
async fn scripts_that_a_server_has_lost_are_loaded_again() {
    let server = Server::start(Software::Redis);
    let desk = Desk::new(patient_builder(&url(server.address())).build().unwrap());
    for round in 1..=4_u32 {
        server.command::<()>(["SCRIPT", "FLUSH"]);
        assert!(desk.decided(HoldId::random(), Ask::Reserve).await.is_admitted());
        assert_eq!(desk.counts().await, (round, u64::from(round) * 10));
    }
}

/// A server whose slot moves has no answer for a key that an earlier step of the same call has deleted. The later step is
/// sent again, to where the slot goes.
#[tokio::test]
async fn a_step_whose_key_was_deleted_in_the_same_call_follows_its_slot() {
    for software in Software::ALL {
        let cluster = Cluster::start(software).calm();
        let url = format!("redis+cluster://{}", cluster.nodes()[5].address());
        let desk = Desk::new(patient_builder(&url).identity(KeyIdentity::Plain).build().unwrap());
        let [lost, last] = [HoldId::random(), HoldId::random()];
        assert!(desk.decided(lost, Ask::Reserve).await.is_admitted());
        let reset = HoldStep::Reset(InFlightCharge::new(&desk.jobs, &desk.key, 0));
        assert!(matches!(desk.store.hold_until(reset, None).await, Ok(HoldAnswer::Forgotten { units: 1 })));
        assert!(desk.decided(last, Ask::Reserve).await.is_admitted());
        let quotas = ["1h", "2h", "3h", "4h", "5h", "6h"].map(|window| format!("9/{window}@first_hit"));
        let quotas = quotas.map(|text| PolicyQuota::new("others", text.parse().unwrap()));
        let others = quotas.each_ref().map(|quota| Charge::new(quota, &desk.key, 1));
        assert!(desk.store.charge(&others).await.unwrap().is_admitted());
        let slot = cluster.slot_of("{alice}");
        let migration = cluster.migrate(slot, cluster.other_primary(slot));
        // The runtime has one thread. Two batches are in flight, so the others wait for a reply, and go together.
        let peek = || desk.store.peek(&others);
        let settled = async {
            let settled = desk.ask(last, Ask::Settle(HoldAdjustment::Keep)).await;
            migration.finish();
            settled
        };
        let (.., settled, renewed) = tokio::join!(peek(), peek(), settled, desk.ask(lost, Ask::Renew));
        assert!(matches!(settled, Ok(HoldAnswer::Settled(_))), "{settled:?}");
        assert!(matches!(renewed, Ok(HoldAnswer::Lost)), "{software:?}: {renewed:?}");
        assert_eq!(desk.counts().await, (0, 20));
    }
}

/// A server without memory takes no new hold, but those that live are renewed and end.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_out_of_memory_renews_and_settles_what_lives() {
    for software in Software::ALL {
        let server = Server::start(software);
        let desk = Desk::new(patient_builder(&url(server.address())).build().unwrap());
        let id = HoldId::random();
        assert!(desk.decided(id, Ask::Reserve).await.is_admitted());
        server.command::<()>(["CONFIG", "SET", "maxmemory", "1"]);
        let error = desk.ask(HoldId::random(), Ask::Reserve).await.unwrap_err();
        assert_eq!(RedisError::of(&error), Some(&RedisError::OutOfMemory));
        // Within the same millisecond, nothing is freed or moved that can be written first.
        let renewed = until("a renewal", async || desk.ask(id, Ask::Renew).await.ok()).await;
        assert!(matches!(renewed, HoldAnswer::Renewed { .. }), "{renewed:?}");
        let settled = desk.ask(id, Ask::Settle(HoldAdjustment::Charge(7))).await;
        assert!(matches!(settled, Ok(HoldAnswer::Settled(_))), "{settled:?}");
        assert_eq!(desk.counts().await, (0, 17));
    }
}

/// Nothing but their own is asked of a server without memory: no unit that has ended is removed, and no expiry moves.
#[tokio::test]
async fn a_server_that_is_out_of_memory_refuses_no_step_on_what_lives() {
    for software in Software::ALL {
        let server = Server::start(software);
        let desk = Desk::new(patient_builder(&url(server.address())).build().unwrap());
        let (units, charges) =
            ([InFlightCharge::new(&desk.jobs, &desk.key, 1)], [Charge::new(&desk.words, &desk.key, 10)]);
        let length = |seconds| HoldLength::new(Duration::from_secs(seconds)).unwrap();
        let long = HoldTerms::new(HoldId::random(), &units, &charges, length(3_600));
        let short = HoldTerms::new(HoldId::random(), &units, &charges, length(60));
        let only_charged = HoldTerms::new(HoldId::random(), &[], &charges, length(60));
        let take = async |step| desk.store.hold_until(step, None).await;
        for terms in [long, short, only_charged] {
            assert!(
                matches!(take(HoldStep::Reserve(terms)).await, Ok(HoldAnswer::Decided(it)) if it.is_admitted())
            );
        }
        server.command::<()>(["CONFIG", "SET", "maxmemory", "1"]);
        for terms in [short, only_charged, long] {
            let renewed = take(HoldStep::Renew(terms)).await;
            assert!(matches!(renewed, Ok(HoldAnswer::Renewed { .. })), "{renewed:?}");
        }
        for terms in [only_charged, short, long] {
            let settled = take(HoldStep::Settle(terms, &[HoldAdjustment::Charge(7)])).await;
            assert!(matches!(settled, Ok(HoldAnswer::Settled(_))), "{settled:?}");
        }
    }
}

/// The calls of a batch for which no server is known are sent apart, that of its holds too.
#[tokio::test]
async fn holds_that_wait_for_the_first_primary_are_sent_with_charges() {
    let sentinels = Sentinels::start(Software::Redis);
    let desk = std::sync::Arc::new(Desk::new(patient_builder(&sentinel::url(&sentinels)).build().unwrap()));
    let charged = {
        let desk = std::sync::Arc::clone(&desk);
        tokio::spawn(async move {
            let charges = [Charge::new(&desk.words, &desk.key, 1)];
            desk.store.step_each(&[Step::Charge(&charges); 8]).await
        })
    };
    // These come before the batch of the charges is taken.
    let mut looks = tokio::task::JoinSet::new();
    for _ in 0..24 {
        let desk = std::sync::Arc::clone(&desk);
        looks.spawn(async move { desk.decided(HoldId::random(), Ask::Look).await });
    }
    looks.join_all().await;
    assert!(charged.await.unwrap().iter().all(Result::is_ok));
    assert_eq!(desk.counts().await, (0, 8));
}

/// Many callers at once share calls, with charges between them.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_never_holds_more_than_the_limit() {
    let server = Server::start(Software::Redis);
    let desk = std::sync::Arc::new(Desk::new(patient_builder(&url(server.address())).build().unwrap()));
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..64 {
        let desk = std::sync::Arc::clone(&desk);
        callers.spawn(async move {
            let mut admitted = 0;
            for _ in 0..50 {
                let id = HoldId::random();
                let states = desk.decided(id, Ask::Reserve).await;
                assert!(states.in_flight()[0].live() <= 5);
                if states.is_admitted() {
                    admitted += 1;
                    let mark = states.charged()[0].mark();
                    let settle = Ask::Settle(HoldAdjustment::GiveBack { units: 10, mark });
                    assert!(matches!(desk.ask(id, settle).await, Ok(HoldAnswer::Settled(_))));
                }
            }
            admitted
        });
    }
    let admitted: u32 = callers.join_all().await.into_iter().sum();
    assert!(admitted > 50, "{admitted}");
    assert_eq!(desk.counts().await, (0, 0));
}

/// A new primary that has the writes knows the holds.
#[tokio::test(flavor = "multi_thread")]
async fn holds_outlive_a_failover() {
    let sentinels = Sentinels::start(Software::Redis);
    let desk = Desk::new(patient_builder(&sentinel::url(&sentinels)).build().unwrap());
    let id = HoldId::random();
    assert!(desk.decided(id, Ask::Reserve).await.is_admitted());
    let old = sentinels.primary();
    assert_eq!(old.command::<u64>(["WAIT", "1", "60000"]), 1, "the replica has the hold");
    let new = sentinels.fail_over();
    assert_ne!(new.address(), old.address());
    // Until the new primary is known, a renewal may fail.
    let renewed = until("a renewal", async || desk.ask(id, Ask::Renew).await.ok()).await;
    assert!(matches!(renewed, HoldAnswer::Renewed { .. }), "{renewed:?}");
    assert_eq!(desk.counts().await, (1, 10));
}
