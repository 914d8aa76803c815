//! Holds across slots of a Cluster.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{
    Charge, CountDenied, HoldAdjustment, HoldAnswer, HoldId, HoldLength, HoldStates, HoldStep, HoldTerms,
    InFlightCharge, Key, PolicyInFlight, PolicyQuota, Reason, Store, StoreError,
};
use tollgate_redis::{AcrossSlots, KeyIdentity, RedisStore};
use tollgate_testkit::servers::{Cluster, SLOTS, Software};
use tollgate_testkit::{StoreSteps, block_on};

use super::{decided, take};
use crate::across::eventually;
use crate::servers::{build, on_cluster, shared_cluster};

/// A user's limits and those of a team, whose keys are in other slots.
struct Team {
    store: RedisStore,
    jobs: PolicyInFlight,
    team_jobs: PolicyInFlight,
    words: PolicyQuota,
    team_words: PolicyQuota,
    user: Key<'static>,
    team: Key<'static>,
    length: HoldLength,
}

impl Team {
    fn new(user: &'static str, team: &'static str) -> Self {
        Self::on(&shared_cluster(Software::Redis), user.into(), team.into())
    }

    fn on(cluster: &Cluster, user: Key<'static>, team: Key<'static>) -> Self {
        let in_flight = |policy, text: &str| PolicyInFlight::new(policy, text.parse().unwrap());
        let quota = |policy, text: &str| PolicyQuota::new(policy, text.parse().unwrap());
        let store = on_cluster(cluster).across_slots(AcrossSlots::Reserve).identity(KeyIdentity::Plain);
        Self {
            store: build(store),
            jobs: in_flight("user", "2~in_flight"),
            team_jobs: in_flight("team", "3~in_flight"),
            words: quota("user", "100/1h"),
            team_words: quota("team", "150/1h"),
            user,
            team,
            length: HoldLength::default(),
        }
    }

    /// Takes a step on a hold of so many units and this cost.
    async fn answer(
        &self,
        (id, units, cost): (HoldId, u32, u32),
        ask: Ask,
    ) -> Result<HoldAnswer, StoreError> {
        let flights = [
            InFlightCharge::new(&self.team_jobs, &self.team, units),
            InFlightCharge::new(&self.jobs, &self.user, units),
        ];
        let charges =
            [Charge::new(&self.words, &self.user, cost), Charge::new(&self.team_words, &self.team, cost)];
        let terms = HoldTerms::new(id, &flights, &charges, self.length);
        let adjustments =
            if let Ask::Settle(adjustments) = ask { adjustments } else { [HoldAdjustment::Keep; 2] };
        let step = match ask {
            Ask::Reserve => HoldStep::Reserve(terms),
            Ask::Look => HoldStep::Look(terms),
            Ask::Renew => HoldStep::Renew(terms),
            Ask::Settle(_) => HoldStep::Settle(terms, &adjustments),
        };
        self.store.hold_until(step, None).await
    }

    fn ask(&self, hold: (HoldId, u32, u32), ask: Ask) -> HoldAnswer {
        block_on(self.answer(hold, ask)).unwrap()
    }

    fn reserve(&self, hold: (HoldId, u32, u32)) -> HoldStates {
        decided(self.ask(hold, Ask::Reserve))
    }

    fn renew(&self, hold: (HoldId, u32, u32)) -> HoldAnswer {
        self.ask(hold, Ask::Renew)
    }

    fn settle(&self, hold: (HoldId, u32, u32), adjustments: [HoldAdjustment; 2]) -> HoldAnswer {
        self.ask(hold, Ask::Settle(adjustments))
    }

    /// The live units and the used ones, of the user and of the team.
    fn counts(&self) -> [(u32, u64); 2] {
        block_on(self.counted())
    }

    async fn counted(&self) -> [(u32, u64); 2] {
        let looked = decided(self.answer((HoldId::random(), 0, 0), Ask::Look).await.unwrap());
        let (flights, charged) = (looked.in_flight(), looked.charged());
        [(flights[1].live(), charged[0].used()), (flights[0].live(), charged[1].used())]
    }
}

/// What is asked of a hold.
#[derive(Debug, Clone, Copy)]
enum Ask {
    Reserve,
    Look,
    Renew,
    /// With what happens to the user's quota, and to the team's.
    Settle([HoldAdjustment; 2]),
}

const KEYS: [(&str, &str); 2] = [("alice", "red"), ("red", "alice")];

/// Whichever slot is first.
#[test]
fn a_hold_across_slots_is_taken_whole_and_settled_part_by_part() {
    for (user, team) in KEYS {
        let team = Team::new(user, team);
        let hold = (HoldId::random(), 2, 60);
        let states = team.reserve(hold);
        assert!(states.is_admitted() && !states.is_repeated());
        assert_eq!(states.in_flight().iter().map(|state| state.limit()).collect::<Vec<_>>(), [3, 2]);
        assert_eq!(states.charged().iter().map(|state| state.limit()).collect::<Vec<_>>(), [100, 150]);
        assert_eq!(team.reserve(hold), states.clone().repeated());
        assert_eq!(team.counts(), [(2, 60), (2, 60)]);
        let conflict = team.ask((hold.0, 2, 61), Ask::Reserve);
        assert_eq!(conflict, HoldAnswer::Conflict);
        assert_eq!(team.renew(hold), HoldAnswer::Renewed { left: Duration::from_secs(60) });
        let give =
            |place: usize, units| HoldAdjustment::GiveBack { units, mark: states.charged()[place].mark() };
        let adjustments = [give(0, 20), HoldAdjustment::Charge(5)];
        let answer = team.settle(hold, adjustments);
        let HoldAnswer::Settled(settled) = answer else { panic!("{answer:?}") };
        assert_eq!(
            settled.iter().map(|state| (state.limit(), state.units())).collect::<Vec<_>>(),
            [(100, 20), (150, 5)]
        );
        assert_eq!(team.counts(), [(0, 40), (0, 65)]);
        assert_eq!(team.settle(hold, adjustments), HoldAnswer::Settled(settled.repeated()));
        assert_eq!(team.settle(hold, [HoldAdjustment::Keep, give(1, 9)]), HoldAnswer::Conflict);
        assert_eq!(team.renew(hold), HoldAnswer::Ended);
        assert_eq!(team.counts(), [(0, 40), (0, 65)]);
    }
}

/// A denial by one slot leaves nothing in the other, and the same id is decided again.
#[test]
fn a_denial_in_one_slot_undoes_the_others() {
    for (user, team) in KEYS {
        let team = Team::new(user, team);
        let (first, second) = ((HoldId::random(), 1, 80), (HoldId::random(), 1, 80));
        assert!(team.reserve(first).is_admitted());
        let denied = team.reserve(second);
        assert_eq!(denied.reason(), Some(Reason::QuotaExceeded));
        assert_eq!(team.counts(), [(1, 80), (1, 80)]);
        assert!(denied.charged().iter().all(|state| state.units() == 0), "{denied:?}");
        // The team has room for three, the user for two.
        let small = [(HoldId::random(), 1, 1), (HoldId::random(), 1, 1)];
        assert!(team.reserve(small[0]).is_admitted());
        assert_eq!(team.reserve(small[1]).reason(), Some(Reason::InFlightExceeded));
        assert_eq!(team.counts(), [(2, 81), (2, 81)]);
        assert_eq!(team.renew(small[1]), HoldAnswer::Expired);
        let keep = [HoldAdjustment::Keep; 2];
        assert!(matches!(team.settle(small[0], keep), HoldAnswer::Settled(_)));
        assert!(team.reserve(small[1]).is_admitted());
        assert_eq!(team.counts(), [(2, 82), (2, 82)]);
    }
}

/// Each slot reports the units that have expired there once, whether or not its part is undone.
#[test]
fn expired_units_of_all_slots_are_reported_once() {
    for (user, team) in KEYS {
        let mut team = Team::new(user, team);
        // It outlives the other, so a slow machine loses no units with their counters.
        assert!(team.reserve((HoldId::random(), 1, 0)).is_admitted());
        team.length = HoldLength::new(Duration::from_millis(50)).unwrap();
        assert!(team.reserve((HoldId::random(), 1, 0)).is_admitted());
        team.length = HoldLength::default();
        while team.counts() != [(1, 0); 2] {}
        // The team has room for two more, the user for one.
        let (denied, admitted) = ((HoldId::random(), 2, 0), (HoldId::random(), 1, 0));
        let answers = [denied, denied, admitted, admitted].map(|hold| team.reserve(hold));
        assert_eq!(answers.each_ref().map(HoldStates::is_admitted), [false, false, true, true]);
        let expired =
            |place: usize| -> u32 { answers.iter().map(|states| states.in_flight()[place].expired()).sum() };
        assert_eq!([0, 1].map(expired), [1, 1], "{answers:?}");
    }
}

/// What an overdraft was charged stays charged, in every slot.
#[test]
fn a_denial_in_one_slot_charges_overdrafts_in_all() {
    for (user, team) in KEYS {
        let mut team = Team::new(user, team);
        team.words = team.words.with_count_denied(CountDenied::Overdraft);
        assert!(team.reserve((HoldId::random(), 2, 10)).is_admitted());
        let denied = team.reserve((HoldId::random(), 1, 20));
        assert_eq!(denied.reason(), Some(Reason::InFlightExceeded));
        assert_eq!(team.counts(), [(2, 30), (2, 10)]);
        assert_eq!(denied.charged().iter().map(|state| state.units()).collect::<Vec<_>>(), [20, 0]);
    }
}

/// One slot has lost its part: the hold is lost, and each other part is settled.
#[test]
fn a_part_that_is_lost_says_so_and_the_others_are_settled() {
    let cluster = shared_cluster(Software::Redis);
    let team = Team::new("alice", "red");
    let hold = (HoldId::random(), 1, 10);
    let states = team.reserve(hold);
    assert!(states.is_admitted());
    // Only the team's part, which is reserved alone, is settled.
    let flights = [InFlightCharge::new(&team.team_jobs, &team.team, 0)];
    let reset = take(&team.store, HoldStep::Reset(flights[0])).unwrap();
    assert_eq!(reset, HoldAnswer::Forgotten { units: 1 });
    assert_eq!(team.renew(hold), HoldAnswer::Lost);
    let answer = team.settle(hold, [HoldAdjustment::Charge(1), HoldAdjustment::Charge(2)]);
    assert!(matches!(answer, HoldAnswer::Settled(states) if states.len() == 2));
    assert_eq!(team.counts(), [(0, 11), (0, 12)]);
    drop(cluster);
}

/// The second slot hangs: what the first one has taken is given back, and the id is forgotten there.
#[test]
fn a_caller_that_goes_away_between_two_slots_leaves_nothing() {
    let cluster = Cluster::start(Software::Redis).calm();
    let [user, _, team] = names_by_slot(&cluster);
    let slots = [&user, &team].map(|name| cluster.slot_of(&format!("{{{name}}}")));
    let [first, second] = slots.map(|slot| cluster.primary_of(slot));
    let team = Arc::new(Team::on(&cluster, Key::from(user), Key::from(team)));
    let hold = (HoldId::random(), 1, 10);
    assert!(team.reserve(hold).is_admitted());
    let gone = (HoldId::random(), 1, 10);
    block_on(async {
        second.pause();
        let owned = Arc::clone(&team);
        let caller = tokio::spawn(async move { owned.answer(gone, Ask::Reserve).await });
        let records = async || {
            let records: Vec<String> = first.command(["KEYS", "*~hold*"]);
            if records.len() == 2 { Ok(()) } else { Err("the first slot has not reserved") }
        };
        eventually(records).await;
        caller.abort();
        assert!(caller.await.unwrap_err().is_cancelled());
        second.resume();
        let undone = async || {
            let records: Vec<String> = first.command(["KEYS", "*~hold*"]);
            if records.len() == 1 { Ok(()) } else { Err("the first slot still has the hold") }
        };
        eventually(undone).await;
        let counted = async || match team.counted().await {
            [(1, 10), (1, 10)] => Ok(()),
            other => Err(format!("{other:?}")),
        };
        eventually(counted).await;
    });
    assert_eq!(team.renew(gone), HoldAnswer::Expired);
    assert!(team.reserve(gone).is_admitted());
}

/// A name in each third of the slots.
fn names_by_slot(cluster: &Cluster) -> [String; 3] {
    [0, 1, 2].map(|third| {
        let slots = third * (SLOTS / 3) + 1..(third + 1) * (SLOTS / 3);
        let mut names = (0..).map(|user| format!("user-{user}"));
        names.find(|name| slots.contains(&cluster.slot_of(&format!("{{{name}}}")))).unwrap()
    })
}

/// The records of ids of this key.
fn records(cluster: &Cluster, name: &str) -> Vec<String> {
    let server = cluster.primary_of(cluster.slot_of(&format!("{{{name}}}")));
    let records: Vec<String> = server.command(["KEYS", "*~hold*"]);
    records.into_iter().filter(|record| record.contains(name)).collect()
}

/// A repetition of which a slot fails takes nothing away from the hold that was taken before.
#[test]
fn a_repetition_that_fails_leaves_the_hold() {
    let cluster = Cluster::start(Software::Redis).calm();
    let [user, _, last] = names_by_slot(&cluster);
    let team = Team::on(&cluster, Key::from(user), Key::from(last.clone()));
    let hold = (HoldId::random(), 1, 10);
    assert!(team.reserve(hold).is_admitted());
    let server = cluster.primary_of(cluster.slot_of(&format!("{{{last}}}")));
    let record = records(&cluster, &last).remove(0);
    server.command::<()>(["RENAME", &record, &format!("{record}-kept")]);
    server.command::<()>(["SET", &record, "nonsense"]);
    let failed = block_on(team.answer(hold, Ask::Reserve)).unwrap_err();
    assert!(failed.may_have_charged(), "the first slot has its part");
    server.command::<()>(["RENAME", &format!("{record}-kept"), &record]);
    assert_eq!(team.renew(hold), HoldAnswer::Renewed { left: Duration::from_secs(60) });
    assert_eq!(team.counts(), [(1, 10), (1, 10)]);
}

/// A slot has the id for something else: what this repetition took itself is undone, and what it found stays.
#[test]
fn a_repetition_that_conflicts_undoes_what_it_took_itself() {
    let cluster = Cluster::start(Software::Redis).calm();
    let names = names_by_slot(&cluster);
    let team = Team::on(&cluster, Key::from("alice"), Key::from("red"));
    let keys = names.clone().map(Key::from);
    let charges: Vec<_> = keys.iter().map(|key| Charge::new(&team.words, key, 10)).collect();
    let terms = HoldTerms::new(HoldId::random(), &[], &charges, HoldLength::default());
    assert!(decided(take(&team.store, HoldStep::Reserve(terms)).unwrap()).is_admitted());
    // The last two slots have lost the id, and another call has used it in the last one.
    for name in &names[1..] {
        let server = cluster.primary_of(cluster.slot_of(&format!("{{{name}}}")));
        server.command::<i64>(["DEL", &records(&cluster, name)[0]]);
    }
    let alone = HoldTerms::new(terms.id(), &[], &charges[2..], HoldLength::default());
    assert!(decided(take(&team.store, HoldStep::Reserve(alone)).unwrap()).is_admitted());
    assert_eq!(take(&team.store, HoldStep::Reserve(terms)).unwrap(), HoldAnswer::Conflict);
    let used = keys
        .each_ref()
        .map(|key| block_on(team.store.peek(&[Charge::new(&team.words, key, 0)])).unwrap()[0].used());
    assert_eq!(used, [10, 10, 20]);
    assert_eq!(names.each_ref().map(|name| records(&cluster, name).len()), [1, 0, 1]);
}

/// Many callers who repeat the same ids across slots never hold more than the limits.
#[test]
fn repetitions_at_the_same_time_take_a_hold_once() {
    let team = Team::new("alice", "red");
    let ids: Vec<HoldId> = (0..4).map(|_| HoldId::random()).collect();
    std::thread::scope(|scope| {
        for worker in 0..8 {
            let (team, ids) = (&team, &ids);
            scope.spawn(move || {
                for round in 0..20 {
                    let hold = (ids[(worker + round) % ids.len()], 1, 1);
                    let _ = team.reserve(hold);
                }
            });
        }
    });
    let admitted: Vec<bool> =
        ids.iter().map(|id| team.renew((*id, 1, 1))).map(|it| it != HoldAnswer::Expired).collect();
    let live = u32::try_from(admitted.iter().filter(|is_live| **is_live).count()).unwrap();
    assert_eq!(team.counts(), [(live, live.into()), (live, live.into())], "{admitted:?}");
    assert!(live <= 2, "{live}");
    let used = block_on(team.store.peek(&[Charge::new(&team.words, &team.user, 0)])).unwrap()[0].used();
    assert_eq!(used, u64::from(live));
}
