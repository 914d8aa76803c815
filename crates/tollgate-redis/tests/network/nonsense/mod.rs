//! Replies of which one number is nonsense.
//!
//! A reply with a time of the year 287,000 was believed. It moved the store's estimate of the server's time, and
//! requests for other keys then named windows whose start no double can hold: the script took their counters for those
//! of a window that was over, and 502 used units became 1.

mod liar;

use tollgate::{
    Charge, CountDenied, Counter, HoldAnswer, HoldId, HoldLength, HoldStep, HoldTerms, InFlightCharge, Key,
    Mark, PolicyInFlight, PolicyQuota, Quota, QuotaState, Store, StoreError, Timestamp,
};
use tollgate_redis::{KeyLayout, RedisError, RedisStore};
use tollgate_testkit::StoreSteps;
use tollgate_testkit::servers::{Cluster, Server, ServerConnection, Settings, Software};

use self::liar::{Change, Kind, Liar, Lie};
use crate::support::{Caller, patient_builder, until};

/// Noon and half an hour, far from the ends of all windows.
const NOON: i64 = 1_728_045_030_000;

/// Soon after a midnight.
const MIDNIGHT: i64 = 1_728_000_000_300;

const DAY: i64 = 86_400_000;

/// Only a Cluster moves slots. Another server's reply that one moves was believed, and the step was sent again.
#[tokio::test]
async fn a_server_without_slots_that_moves_one_makes_no_sense() {
    let server = Server::start(Software::Redis);
    let liar = Liar::before(server.address());
    let store = patient_builder(&format!("redis://{}", liar.address())).build().unwrap();
    let (jobs, key) = (PolicyInFlight::new("jobs", "5~in_flight".parse().unwrap()), Key::from("alice"));
    let units = [InFlightCharge::new(&jobs, &key, 1)];
    let terms = HoldTerms::new(HoldId::random(), &units, &[], HoldLength::default());
    let reserved = store.hold_until(HoldStep::Reserve(terms), None).await;
    assert!(matches!(reserved, Ok(HoldAnswer::Decided(_))), "{reserved:?}");
    liar.tell(Lie { kind: Kind::Script, place: 1, change: Change::Become(-9) });
    let renewed = store.hold_until(HoldStep::Renew(terms), None).await;
    assert!(liar.has_told());
    assert!(
        matches!(&renewed, Err(error) if RedisError::of(error) == Some(&RedisError::BadReply)),
        "{renewed:?}"
    );
}

/// What is asked of the store.
#[derive(Debug, Clone, Copy)]
enum Act {
    Charge,
    /// A minute before an end.
    ChargeBefore,
    Peek,
    Record,
    Set,
    Reset,
    Refund,
    /// Of the window before.
    RefundClosed,
}

/// A request whose reply is a lie.
#[derive(Debug, Clone, Copy)]
struct Session {
    act: Act,
    quotas: &'static [&'static str],
    /// The index of a quota that is an overdraft.
    overdraft: Option<usize>,
    layout: Option<&'static str>,
    /// What is used of each quota before.
    used: u64,
    /// The server's time before.
    at: i64,
    /// How far the clock has stepped since.
    step: i64,
}

const HOUR: Session = Session {
    act: Act::Charge,
    quotas: &["4/1h"],
    overdraft: None,
    layout: None,
    used: 1,
    at: NOON,
    step: 0,
};
const LAYOUT: Option<&str> = Some("{prefix}:{policy}:{user}:{windows}:{window}");

const SESSIONS: &[Session] = &[
    HOUR,
    Session { quotas: &["4/1h@first_hit"], ..HOUR },
    Session { quotas: &["4/day@Europe/Berlin"], ..HOUR },
    Session { quotas: &["4/500ms"], ..HOUR },
    Session { quotas: &["4/1m", "4/1h@first_hit"], ..HOUR },
    Session { layout: LAYOUT, ..HOUR },
    Session { used: 4, ..HOUR },
    Session { overdraft: Some(0), ..HOUR },
    Session { overdraft: Some(0), used: 4, ..HOUR },
    Session { quotas: &["4/1m", "4/1h@first_hit"], overdraft: Some(1), ..HOUR },
    Session { quotas: &["4/1m", "4/1h@first_hit"], overdraft: Some(0), used: 4, ..HOUR },
    Session { act: Act::ChargeBefore, ..HOUR },
    Session { act: Act::ChargeBefore, quotas: &["4/1m", "4/1h@first_hit", "4/1h~log"], ..HOUR },
    Session { act: Act::Peek, ..HOUR },
    Session { act: Act::Record, ..HOUR },
    Session { act: Act::Set, ..HOUR },
    Session { act: Act::Reset, ..HOUR },
    Session { act: Act::Refund, ..HOUR },
    Session { act: Act::Refund, layout: LAYOUT, ..HOUR },
    Session { act: Act::RefundClosed, ..HOUR },
    Session { act: Act::RefundClosed, layout: LAYOUT, ..HOUR },
    Session { quotas: &["4/1h~burst"], ..HOUR },
    Session { quotas: &["7/1h~burst:4"], used: 4, ..HOUR },
    Session { quotas: &["4/1h~sliding"], step: 3_600_000, ..HOUR },
    Session { quotas: &["4/1h~log"], ..HOUR },
    Session { quotas: &["4/1h~log:1m"], used: 4, ..HOUR },
    Session { quotas: &["4/1h~log", "4/day@UTC", "4/1h~burst:4", "4/1h~sliding"], ..HOUR },
    Session { quotas: &["4/1h~burst"], overdraft: Some(0), used: 4, ..HOUR },
    Session { act: Act::Peek, quotas: &["4/1h~log"], ..HOUR },
    Session { act: Act::Record, quotas: &["4/1h~sliding"], ..HOUR },
    Session { act: Act::Set, quotas: &["4/1h~log"], ..HOUR },
    Session { act: Act::Reset, quotas: &["4/1h~burst"], ..HOUR },
    Session { act: Act::Refund, quotas: &["4/1h~sliding"], ..HOUR },
    Session { act: Act::RefundClosed, quotas: &["4/1h~burst"], ..HOUR },
    // After a step back, by more than a counter may be ahead.
    Session { quotas: &["4/1h~sliding"], step: -7_200_000, ..HOUR },
    Session { quotas: &["4/1h~log"], step: -7_200_000, ..HOUR },
    // The window that was named is not open.
    Session { quotas: &["4/day@UTC"], step: 3 * DAY, ..HOUR },
    Session { layout: LAYOUT, step: 3 * DAY, ..HOUR },
    // The window of the counter has not begun.
    Session { quotas: &["4/1d"], at: MIDNIGHT, step: -500, ..HOUR },
    Session { quotas: &["4/1h@first_hit"], at: MIDNIGHT, step: -500, ..HOUR },
    Session { quotas: &["4/day@UTC"], at: MIDNIGHT, step: -500, ..HOUR },
    Session { quotas: &["4/1d"], layout: LAYOUT, at: MIDNIGHT, step: -500, ..HOUR },
];

/// A key with its value and its expiry.
type Contents = Vec<(String, String, i64)>;

/// What became of one request, and of others after it.
#[derive(Debug, PartialEq)]
struct RequestOutcome {
    /// What was used then, and in which window.
    answer: Result<Vec<(u64, Option<i64>)>, String>,
    before: Contents,
    after: Contents,
    others: Vec<u64>,
    in_the_end: Contents,
}

struct Stage {
    session: Session,
    server: Server,
    connection: ServerConnection,
    liar: Liar,
    quotas: Vec<PolicyQuota>,
    before: Contents,
}

impl Session {
    fn stage(self) -> Stage {
        let server = Settings::new(Software::Redis).steered_clock().start();
        server.clock().set(Timestamp::from_unix_millis(self.at));
        let quota = |(index, text): (usize, &&str)| {
            let is_overdraft = self.overdraft == Some(index);
            let count_denied = if is_overdraft { CountDenied::Overdraft } else { CountDenied::No };
            PolicyQuota::new("test", text.parse().unwrap()).with_count_denied(count_denied)
        };
        let quotas = self.quotas.iter().enumerate().map(quota).collect();
        let liar = Liar::before(server.address());
        Stage { session: self, connection: server.connection(), server, liar, quotas, before: Vec::new() }
    }
}

impl Stage {
    /// A store that remembers no denials: they would answer for the store.
    async fn store(&self) -> RedisStore {
        let builder =
            patient_builder(&format!("redis://{}", self.liar.address())).connections(1).local_denials(0);
        let builder = match self.session.layout {
            None => builder,
            Some(layout) => builder.layout(layout.parse::<KeyLayout>().unwrap()),
        };
        let store = builder.build().unwrap();
        self.greet(&store).await;
        store
    }

    /// Has the store learn the server's time.
    async fn greet(&self, store: &RedisStore) {
        for _ in 0..2 {
            until("a greeting", async || store.peek(&self.charges(&Key::from("greeting"), 0)).await.ok())
                .await;
        }
    }

    fn charges<'a>(&'a self, key: &'a Key<'a>, cost: u32) -> Vec<Charge<'a>> {
        self.quotas.iter().map(|quota| Charge::new(quota, key, cost)).collect()
    }

    async fn prepare(&mut self) {
        let store = self.store().await;
        for (key, used) in [("own", self.session.used), ("one", 2), ("other", 3)] {
            for quota in &self.quotas {
                store.set(&Counter::new(quota, &Key::from(key)), used).await.unwrap();
            }
        }
        self.before = self.contents();
    }

    fn contents(&mut self) -> Contents {
        let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut self.connection).unwrap();
        keys.sort();
        let content = |key: String| {
            let value = redis::cmd("GET").arg(&key).query(&mut self.connection).unwrap();
            let expiry = redis::cmd("PEXPIRETIME").arg(&key).query(&mut self.connection).unwrap();
            (key, value, expiry)
        };
        keys.into_iter().map(content).collect()
    }

    /// Puts everything back, so that a request can come once more.
    fn rewind(&mut self) {
        self.server.clock().set(Timestamp::from_unix_millis(self.session.at));
        let _: () = redis::cmd("FLUSHALL").query(&mut self.connection).unwrap();
        for (key, value, expiry) in &self.before {
            let mut set = redis::cmd("SET");
            let _: () = set.arg(key).arg(value).arg("PXAT").arg(expiry).query(&mut self.connection).unwrap();
        }
    }

    /// Makes the request, and charges two other keys.
    async fn run(&mut self, store: &RedisStore, lie: Option<Lie>) -> RequestOutcome {
        self.rewind();
        self.greet(store).await;
        self.server.clock().step(self.session.step);
        let before = self.contents();
        if let Some(lie) = lie {
            self.liar.tell(lie);
        }
        let answer = self.act(store).await;
        if let Err(error) = &answer {
            let is_unknown =
                error.may_have_charged() || RedisError::of(error) == Some(&RedisError::WrongType);
            assert!(is_unknown || matches!(self.session.act, Act::Peek), "{error:?}");
        }
        let after = self.contents();
        let mut others = Vec::new();
        for key in ["one", "other"] {
            let counted = store.charge(&self.charges(&Key::from(key), 1)).await.unwrap();
            others.extend(counted.iter().map(QuotaState::used));
        }
        let answer = answer.map_err(|error| format!("{:?}", RedisError::of(&error)));
        let answer = answer.map(|states| {
            let shown = |state: &QuotaState| {
                assert!(is_possible(state), "{state:?}");
                (state.used(), state.window().map(|window| window.end().as_unix_millis()))
            };
            states.iter().map(shown).collect()
        });
        RequestOutcome { answer, before, after, others, in_the_end: self.contents() }
    }

    async fn act(&self, store: &RedisStore) -> Result<Vec<QuotaState>, StoreError> {
        let key = Key::from("own");
        let charges = self.charges(&key, 1);
        let (quota, charge) = (&self.quotas[0], charges[0]);
        let window = quota.quota().window_at(&key, Timestamp::from_unix_millis(self.session.at));
        let counter = Counter::new(quota, &key);
        let state = match self.session.act {
            Act::Charge => return Ok(store.charge(&charges).await?.iter().copied().collect()),
            Act::ChargeBefore => {
                let end = Timestamp::from_unix_millis(self.session.at + 60_000);
                return Ok(store.charge_before(&charges, end).await?.iter().copied().collect());
            }
            Act::Peek => return Ok(store.peek(&charges).await?.iter().copied().collect()),
            Act::Record => store.record(&charge).await,
            Act::Set => store.set(&counter, 3).await,
            Act::Reset => store.reset(&counter).await,
            Act::Refund => store.refund(&charge, Mark::at(window.start())).await,
            Act::RefundClosed => {
                let length = window.end().since(window.start());
                store.refund(&charge, Mark::at(window.start() - length)).await
            }
        };
        Ok(vec![state?])
    }
}

/// Whether a store whose clock is right can have given it.
fn is_possible(state: &QuotaState) -> bool {
    let second = std::time::Duration::from_secs(1);
    // Quotas that are not fixed windows last an hour here, and count twice as long at most.
    let hour = std::time::Duration::from_secs(3_600);
    let length = state.window().map_or(2 * hour, |window| window.end().since(window.start()));
    let now = state.reset_at() - state.reset_after();
    state.used() <= Quota::MAX_LIMIT
        && state.reset_after() <= length + second
        && (0..=253_402_300_799_999).contains(&now.as_unix_millis())
}

/// Every number of every reply is numbers that differ by a bit, and others. The request is taken at most once, and its
/// answer is an error or possible. No other key's counter changes, then or by later requests.
#[tokio::test(flavor = "multi_thread")]
async fn a_number_of_a_reply_that_is_nonsense_changes_no_other_counter_and_nothing_is_sent_again() {
    // Each number has other bits, so that many sessions have all of them.
    lie_in_every_reply(Change::some).await;
}

/// The same with every bit of every number.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes a minute; `cargo xtask prove redis` runs it"]
async fn prove() {
    lie_in_every_reply(|_| Change::all()).await;
    lie_about_slots(|_| Change::all()).await;
    println!("RESULT prove/redis/nonsense sessions={} violations=0", SESSIONS.len());
}

/// Changes every number of the reply to each session. `changes` returns what becomes of a number with this index.
async fn lie_in_every_reply(changes: impl Fn(usize) -> Vec<Change>) {
    let mut count = 0;
    for session in SESSIONS {
        let mut stage = session.stage();
        stage.prepare().await;
        let store = stage.store().await;
        let truth = stage.run(&store, None).await;
        assert!(truth.answer.is_ok(), "{session:?}: {truth:?}");
        stage.rewind();
        stage.greet(&store).await;
        stage.server.clock().step(session.step);
        let (mut errors, mut answers) = (0, 0);
        let replies = stage.liar.replies();
        stage.act(&store).await.unwrap();
        let (numbers, is_answered_at_once) =
            (stage.liar.last(Kind::Script), stage.liar.replies() == replies + 1);
        for place in 0..numbers.len() {
            count += 1;
            for change in changes(count) {
                let what = format!("{session:?}, number {place} of {numbers:?}, {change:?}");
                let course = stage.run(&store, Some(Lie { kind: Kind::Script, place, change })).await;
                assert!(stage.liar.has_told(), "{what}");
                // A request of a window that is not open is not taken, and comes again.
                let is_taken = course.after == truth.after || course.after == course.before;
                assert!(is_taken, "{what}: {:?}\nnot {:?}", course.after, truth.after);
                assert_eq!(course.others, truth.others, "{what}");
                if is_answered_at_once {
                    assert_eq!(course.in_the_end, truth.in_the_end, "{what}");
                    let is_time = place == 0;
                    let became = change.of(numbers[place]);
                    let is_nonsense = became.len() != 1
                        || became[0] < if is_time { 0 } else { -4 }
                        || became[0] > if is_time { 253_402_300_799_999 } else { 10_000_000_000_000 };
                    assert!(!is_nonsense || course.answer.is_err(), "{what}: {:?}", course.answer);
                }
                if course.answer.is_err() { errors += 1 } else { answers += 1 }
            }
        }
        println!("{session:?}: {errors} errors, {answers} answers to {} numbers", numbers.len());
    }
}

/// The slots of a Cluster are believed only if they can be right. What is wrong and possible, servers correct.
#[tokio::test(flavor = "multi_thread")]
async fn slots_that_are_nonsense_make_no_charge_twice() {
    lie_about_slots(Change::some).await;
}

async fn lie_about_slots(changes: impl Fn(usize) -> Vec<Change>) {
    let cluster = Cluster::start(Software::Redis).calm();
    let liar = Liar::before(cluster.nodes()[0].address());
    let builder = || patient_builder(&format!("redis+cluster://{}", liar.address())).connections(1);
    let caller = Caller::new(builder());
    caller.until_served("alice").await;
    let numbers = liar.last(Kind::Slots);
    for (place, change) in
        (0..4).flat_map(|place| changes(place).into_iter().map(move |change| (place, change)))
    {
        liar.tell(Lie { kind: Kind::Slots, place, change });
        let caller = Caller::new(builder());
        let key = format!("{place} {change:?}");
        let tally = caller.until_served(&key).await;
        assert!(liar.has_told(), "{key} of {numbers:?}");
        tally.expect_counted(caller.used(&key).await);
    }
}
