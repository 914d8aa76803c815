//! The script on a real server, compared with this crate's model of it.

mod ends;

use std::sync::OnceLock;

use proptest::prelude::*;
use redis::ConnectionLike;
use tollgate::{Quota, Timestamp};
use tollgate_testkit::servers::{Cluster, Server, ServerConnection, Settings, Software};

use super::step::NEVER;
use super::*;
use crate::batch::MergedRequests;
use crate::calls::Calls;
use crate::resp::RespValue;
use crate::slot::ClusterSlot;
use crate::time::{Probable, instant};
use crate::waiter::{AnswerReceiver, Waiter, WaitingRequest};

fn server() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(Software::Redis))
}

fn connect() -> ServerConnection {
    let mut connection = server().connection();
    for text in TEXTS {
        let _: String = redis::cmd("SCRIPT").arg("LOAD").arg(*text).query(&mut connection).unwrap();
    }
    connection
}

/// Takes these requests in one call, as a batch.
fn take(connection: &mut ServerConnection, requests: &[Request]) -> Vec<ScriptAnswer> {
    take_with(connection, requests, None)
}

fn take_with(
    connection: &mut ServerConnection,
    requests: &[Request],
    probable: Option<Timestamp>,
) -> Vec<ScriptAnswer> {
    let probable = probable.map(|now| Probable { now, settled: Timestamp::EPOCH });
    let (mut entries, answers) = entries(requests);
    let (merged, mut call) = (MergedRequests::new(&entries), Calls::default());
    merged.encode(0, &entries, probable, &mut call);
    let packed: Vec<u8> =
        redis::from_redis_value(connection.req_packed_command(call.bytes()).unwrap()).unwrap();
    let read = merged.read(0, &entries, decode(RespValue::Bulk(packed)).unwrap()).unwrap();
    merged.hand_out(0, &mut entries, read);
    answers.into_iter().map(|mut answer| answer.received_already().unwrap().unwrap()).collect()
}

/// The requests on their way, and where their answers are awaited.
fn entries(requests: &[Request]) -> (Vec<WaitingRequest>, Vec<AnswerReceiver>) {
    let entry = |request: &Request| {
        let (waiter, awaited) = Waiter::new(instant());
        (WaitingRequest { slot: ClusterSlot(0), request: request.clone(), waiter }, awaited)
    };
    requests.iter().map(entry).unzip()
}

/// In which order a batch takes its requests.
fn order(requests: &[Request]) -> Vec<usize> {
    let (entries, _) = entries(requests);
    MergedRequests::new(&entries).order(0).to_vec()
}

#[test]
fn the_digest_is_that_of_the_text() {
    for (text, sha1) in [(TEXT, SHA1), (hold::TEXT, hold::SHA1), (records::TEXT, records::SHA1)] {
        let digest: String = server().command(["SCRIPT", "LOAD", text]);
        assert_eq!(digest, sha1);
    }
}

/// An operation that the script does not know was taken for a refund of one counter, and for a charge of several.
#[test]
fn an_operation_that_the_script_does_not_know_is_an_error_and_writes_nothing() {
    let mut connection = connect();
    let keys = ["unknown-one", "unknown-other"].map(|key| key.as_bytes().into());
    for key in ["unknown-one", "unknown-other"] {
        let _: () = redis::cmd("SET").arg(key).arg(5).arg("PX").arg(60_000).query(&mut connection).unwrap();
    }
    for counters in [1, 2] {
        for windows in [
            WindowSpec::FirstHit { length: 60_000 },
            WindowSpec::Grid { origin: 0, length: 60_000 },
            WindowSpec::Burst { bucket: "5/1m~burst".parse::<Quota>().unwrap().bucket().unwrap() },
        ] {
            let charge = Shape { step: charge_of_one(9), windows };
            let request = Request {
                shapes: [charge; 2][..counters].into(),
                keys: keys[..counters].iter().cloned().collect(),
                ..Request::default()
            };
            let (entries, _) = entries(&[request]);
            let mut call = Calls::default();
            encode(&MergedRequests::new(&entries).groups(0, &entries), None, &mut call);
            let place = call.bytes().windows(7).position(|word| word == b"charge\0").unwrap();
            let mut bytes = call.bytes().to_vec();
            bytes[place..place + 6].copy_from_slice(b"double");
            let reply = connection.req_packed_command(&bytes).unwrap();
            assert!(format!("{reply:?}").contains("there is no operation double"), "{reply:?}");
        }
    }
    for key in ["unknown-one", "unknown-other"] {
        assert_eq!(redis::cmd("GET").arg(key).query::<u64>(&mut connection).unwrap(), 5);
    }
}

/// A step on a hold of one unit in flight that charges one counter; an undo asks for two units back.
fn hold_of_one(operation: HoldOperation, attempt: u8) -> Request {
    let windows = WindowSpec::Grid { origin: 0, length: 3_600_000_000 };
    let (step, keys): (_, &[&str]) = match operation {
        HoldOperation::Reset => (None, &["hold-units"]),
        HoldOperation::Renew => (None, &["hold-record", "hold-units"]),
        HoldOperation::Undo(_) => {
            let start = server().time().as_unix_millis() / 3_600_000_000 * 3_600_000_000;
            (Some(CounterStep::Refund { units: 2, start }), &["hold-record", "hold-units", "hold-used"])
        }
        _ => (Some(charge_of_one(5)), &["hold-record", "hold-units", "hold-used"]),
    };
    let name = HoldName { id: [7; 16], binding: [8; 16], attempt: [attempt; 8] };
    let flight = FlightShape { units: 1, limit: 3, longest: 60_000 };
    let hold = HoldShape { operation, name, length: 60_000, in_flight: [flight].into_iter().collect() };
    Request {
        hold: Some(Box::new(hold)),
        shapes: step.map(|step| Shape { step, windows }).into_iter().collect(),
        keys: keys.iter().map(|key| key.as_bytes().into()).collect(),
        before: None,
    }
}

/// An undo that is late would take away what a later attempt of the same hold relies on.
#[test]
fn only_the_last_attempt_undoes_a_hold() {
    let mut connection = connect();
    let windows = [WindowSpec::Grid { origin: 0, length: 3_600_000_000 }].into_iter().collect();
    let adjusted = [AdjustedPlace { place: 0, limit: None }].into_iter().collect();
    let undo = HoldOperation::Undo(SettledCounters { windows, adjusted });
    let mut outcomes = |requests: &[Request]| -> Vec<HoldOutcome> {
        let answers = take(&mut connection, requests);
        let outcome = |answer: ScriptAnswer| match answer.outcome {
            ScriptOutcome::Hold(outcome) => *outcome,
            other => panic!("{other:?}"),
        };
        answers.into_iter().map(outcome).collect()
    };
    let reserve = |attempt| hold_of_one(HoldOperation::Reserve, attempt);
    let is_repeated = |outcome: &HoldOutcome| matches!(outcome, HoldOutcome::Decided(verdict) if verdict.is_admitted && verdict.is_repeated);
    assert!(matches!(&outcomes(&[reserve(1)])[..], [HoldOutcome::Decided(first)] if !first.is_repeated));
    assert!(is_repeated(&outcomes(&[reserve(2)])[0]));
    assert_eq!(outcomes(&[hold_of_one(undo.clone(), 1)]), [HoldOutcome::Expired]);
    assert!(is_repeated(&outcomes(&[reserve(2)])[0]));
    let undone = outcomes(&[hold_of_one(undo.clone(), 2)]);
    assert!(
        matches!(&undone[..], [HoldOutcome::Settled(settled)] if settled.counters[0].change.after == 0),
        "{undone:?}"
    );
    assert_eq!(outcomes(&[hold_of_one(undo, 2)]), [HoldOutcome::Expired], "it can be repeated");
    // The id is free.
    assert!(matches!(&outcomes(&[reserve(1)])[..], [HoldOutcome::Decided(again)] if !again.is_repeated));
    let reset = hold_of_one(HoldOperation::Reset, 0);
    assert_eq!(outcomes(&[reset]), [HoldOutcome::Forgotten(1)]);
    assert_eq!(outcomes(&[hold_of_one(HoldOperation::Renew, 1)]), [HoldOutcome::Lost]);
}

/// A server whose slot moves has no answer for a key that an earlier step of the same call has deleted. Callers of a
/// later step were told that the key had the wrong type.
#[test]
fn a_step_whose_key_was_deleted_in_the_same_call_while_the_slot_moves_is_sent_again() {
    for software in Software::ALL {
        let cluster = Cluster::start(software).calm();
        let slot = cluster.slot_of("{hold}");
        let mut connection = cluster.primary_of(slot).connection();
        let _: String = redis::cmd("SCRIPT").arg("LOAD").arg(hold::TEXT).query(&mut connection).unwrap();
        let step = |operation| {
            let mut request = hold_of_one(operation, 1);
            request.shapes.clear();
            request.keys.truncate(2);
            request.keys.iter_mut().for_each(|key| *key = [b"{hold}".as_slice(), key].concat().into());
            request
        };
        let nothing =
            SettledCounters { windows: [].into_iter().collect(), adjusted: [].into_iter().collect() };
        take(&mut connection, &[step(HoldOperation::Reserve)]);
        let _migration = cluster.migrate(slot, cluster.other_primary(slot));
        let steps = [step(HoldOperation::Undo(nothing)), step(HoldOperation::Renew)];
        let outcomes: Vec<ScriptOutcome> =
            take(&mut connection, &steps).into_iter().map(|answer| answer.outcome).collect();
        let is_undone = |outcome: &HoldOutcome| matches!(outcome, HoldOutcome::Settled(_));
        assert!(
            matches!(&outcomes[..], [ScriptOutcome::Hold(first), ScriptOutcome::Moving] if is_undone(first)),
            "{software:?}: {outcomes:?}"
        );
    }
}

/// Units that had ended were removed before all other counters were read. Nobody learnt how many there were if one of
/// those held no count, or was not local while the slot moved.
#[test]
fn a_step_that_fails_removes_no_ended_units() {
    let server = Server::start(Software::Redis);
    let mut connection = server.connection();
    server.command::<String>(["SCRIPT", "LOAD", hold::TEXT]);
    let reserve = || hold_of_one(HoldOperation::Reserve, 1);
    server.command::<u64>(["ZADD", "hold-units", "5", "ended", "6", "ended-too"]);
    server.command::<()>(["SET", "hold-used", "no number"]);
    assert_eq!(take(&mut connection, &[reserve()])[0].outcome, ScriptOutcome::NoCount);
    server.command::<u64>(["DEL", "hold-used"]);
    let ScriptOutcome::Hold(outcome) = take(&mut connection, &[reserve()]).remove(0).outcome else {
        panic!("it is answered")
    };
    assert!(
        matches!(&*outcome, HoldOutcome::Decided(verdict) if verdict.is_admitted && verdict.in_flight[0].expired == 2),
        "{outcome:?}"
    );
    assert_eq!(server.command::<u64>(["ZCARD", "hold-units"]), 1);
}

/// A refusal ends a whole call, so a new hold in it must not come before steps on those that live.
#[test]
fn a_server_without_memory_does_not_refuse_what_shares_a_call_with_a_new_hold() {
    let server = Server::start(Software::Redis);
    let mut connection = server.connection();
    server.command::<String>(["SCRIPT", "LOAD", hold::TEXT]);
    let reserve = || hold_of_one(HoldOperation::Reserve, 1);
    take(&mut connection, &[reserve()]);
    let mut other = reserve();
    other.keys.iter_mut().for_each(|key| *key = [key, b"-other".as_slice()].concat().into());
    server.command::<()>(["CONFIG", "SET", "maxmemory", "1"]);
    let answers = take(&mut connection, &[other, hold_of_one(HoldOperation::Renew, 1)]);
    assert_eq!(answers[1].outcome, ScriptOutcome::Hold(Box::new(HoldOutcome::Renewed)));
}

/// A reply to a step on a hold with any number that the script never says.
#[test]
fn a_hold_whose_reply_cannot_be_is_an_error() {
    let now = server().time().as_unix_millis();
    let read = |operation: HoldOperation, numbers: &[i64]| {
        let request = hold_of_one(operation, 1);
        let mut packed = vec![0xdc];
        packed.extend(u16::try_from(numbers.len() + 1).unwrap().to_be_bytes());
        for number in [&[now], numbers].concat() {
            packed.push(0xd3);
            packed.extend(number.to_be_bytes());
        }
        let (entries, _) = entries(&[request]);
        MergedRequests::new(&entries).read(0, &entries, decode(RespValue::Bulk(packed))?)
    };
    let settled = || SettledCounters {
        windows: [WindowSpec::Grid { origin: 0, length: 3_600_000_000 }; 2].into_iter().collect(),
        adjusted: [AdjustedPlace { place: 0, limit: None }].into_iter().collect(),
    };
    let mark = now / 3_600_000_000 * 3_600_000_000;
    let reserve = || HoldOperation::Reserve;
    let undo = || HoldOperation::Undo(settled());
    let possible: &[(HoldOperation, &[i64])] = &[
        (reserve(), &[1, 0, 1, 0, now, 3, 2, 3]),
        (reserve(), &[1, 0, 0, 0, now, 3, 3, 3]),
        (reserve(), &[1, 0, 0, 0, now, 3, 2, 5]),
        (reserve(), &[1, 1, 1, now - 5_000, 9, 4, 7]),
        // The limit was lowered since the live units were taken.
        (reserve(), &[1, 0, 0, 0, now, 3, 1 << 20, 3]),
        (reserve(), &[1, 1, 1, now, 2, 1, 7]),
        // As many ended units as a step removes.
        (reserve(), &[1, 0, 1, 100, now, 3, 2, 3]),
        (HoldOperation::Look, &[1, 0, 0, 0, now, 3, 2, 3]),
        (HoldOperation::Renew, &[2]),
        (HoldOperation::Renew, &[-5]),
        (undo(), &[3, 0, now, 1, 0, 0, 2, mark, 4]),
        (undo(), &[3, 1, now - 9_000, 1, 0, 0, 2, mark, 4]),
        (HoldOperation::Reset, &[4, 3]),
        (reserve(), &[-8]),
    ];
    for (operation, numbers) in possible {
        let answer = read(operation.clone(), numbers);
        assert!(answer.is_ok(), "{operation:?} {numbers:?}: {answer:?}");
    }
    let impossible: &[(HoldOperation, &[i64])] = &[
        // The settlement of another cost.
        (undo(), &[3, 1, now - 9_000, 1, 1, 1, 77, 0, 4]),
        (undo(), &[3, 1, now - 9_000, 1, 0, 0, 3, mark, 4]),
        // Flags, times, limits and verdicts that are none or another's.
        (reserve(), &[1, 2, 1, now, 3, 2, 3]),
        (reserve(), &[1, 0, 2, 0, now, 3, 2, 3]),
        (reserve(), &[1, 0, 1, 0, now - 1, 3, 2, 3]),
        (reserve(), &[1, 1, 1, -1, 3, 2, 3]),
        (reserve(), &[1, 0, 1, 0, now, 4, 2, 3]),
        (reserve(), &[1, 1, 1, now, (1 << 20) + 1, 2, 3]),
        (reserve(), &[1, 0, 0, 0, now, 3, 2, 3]),
        (reserve(), &[1, 0, 1, 0, now, 3, 3, 3]),
        (reserve(), &[1, 0, 1, 0, now, 3, 2, 5]),
        (reserve(), &[1, 1, 0, now, 3, 2, 3]),
        (reserve(), &[1, 0, 1, 0, now, 3, -1, 3]),
        (reserve(), &[1, 0, 0, 0, now, 3, 1 << 32, 3]),
        (reserve(), &[1, 0, 1, 0, now, 3, 2, -3]),
        (reserve(), &[1, 0, 1, 0, now, 3, 2, 1 << 41]),
        (reserve(), &[1, 0, 1, 0, now, 3, 2]),
        (reserve(), &[1, 0, 1, 0, now, 3, 2, 3, 0]),
        (reserve(), &[1, 0, 0, 0, now, 3, (1 << 20) + 1, 3]),
        (reserve(), &[1, 1, 1, now, 3, 3, 3]),
        (reserve(), &[1, 1, 1, now, 3, i64::from(u32::MAX), 3]),
        (reserve(), &[1, 0, 1, 101, now, 3, 2, 3]),
        (reserve(), &[1, 0, 1, -1, now, 3, 2, 3]),
        (reserve(), &[1, 0, 1, now, 3, 2, 3]),
        (reserve(), &[1, 1, 1, 0, now, 3, 2, 3]),
        (HoldOperation::Look, &[1, 0, 0, 1, now, 3, 2, 3]),
        (HoldOperation::Look, &[1, 1, 1, now, 3, 2, 3]),
        (HoldOperation::Look, &[1, 0, 1, 0, now, 3, 2, 3]),
        // Answers to another question.
        (reserve(), &[2]),
        (reserve(), &[-5]),
        (reserve(), &[-6]),
        (reserve(), &[-1]),
        (HoldOperation::Look, &[-8]),
        (HoldOperation::Renew, &[1, 0, 1, 0, now, 3, 2, 3]),
        (HoldOperation::Renew, &[3, 0, now, 0]),
        (HoldOperation::Renew, &[0]),
        (HoldOperation::Reset, &[4, -1]),
        (HoldOperation::Reset, &[-6]),
        // Settlements of other counters, other units, or none.
        (undo(), &[3, 1, now, 1, 2, 1, 2, 0, 4]),
        (undo(), &[3, 1, now, 3, 0, 1, 2, 0, 4, 1, 1, 2, 0, 4, 2, 1, 2, 0, 4]),
        (undo(), &[3, 1, now, 2, 1, 1, 2, 0, 4, 0, 1, 2, 0, 4]),
        (undo(), &[3, 1, now, 1, 0, 1, -2, 0, 4]),
        (undo(), &[3, 1, now, 1, 0, 1, 1 << 32, 0, 4]),
        (undo(), &[3, 1, now, 1, 0, 2, 2, 0, 4]),
        (undo(), &[3, 0, now, 0]),
        (undo(), &[3, 0, now, 1, 0, 0, 3, mark, 4]),
        (undo(), &[3, 0, now, 1, 0, 1, 2, 0, 4]),
        (undo(), &[3, 0, now, 1, 1, 0, 2, mark, 4]),
    ];
    for (operation, numbers) in impossible {
        let answer = read(operation.clone(), numbers);
        assert!(answer.is_err(), "{operation:?} {numbers:?}: {answer:?}");
    }
}

/// The level of a bucket is read with the numbers of the limit under which it was written.
#[test]
fn a_repeated_answer_is_read_with_the_bucket_of_its_time() {
    let now = server().time().as_unix_millis();
    let bucket = |text: &str| text.parse::<Quota>().unwrap().bucket().unwrap();
    let numbers = |bucket: tollgate::kind::Bucket| {
        let all = [bucket.unit(), bucket.parts(), bucket.highest_level(), bucket.kept_level()];
        all.map(u64::cast_signed)
    };
    let read = |is_repeated: i64, [unit, parts, highest, kept]: [i64; 4], level: i64| {
        let mut request = hold_of_one(HoldOperation::Reserve, 1);
        request.shapes[0].windows = WindowSpec::Burst { bucket: bucket("10/1m~burst") };
        let mut numbers = vec![now, 1, is_repeated, 1];
        numbers.extend((is_repeated == 0).then_some(0));
        numbers.extend([now, 3, 2, unit, parts, highest, kept, level]);
        let mut packed = vec![0xdc, 0, u8::try_from(numbers.len()).unwrap()];
        for number in numbers {
            packed.push(0xd3);
            packed.extend(number.to_be_bytes());
        }
        let (entries, _) = entries(&[request]);
        let reply = decode(RespValue::Bulk(packed)).unwrap();
        MergedRequests::new(&entries).read(0, &entries, reply).is_ok()
    };
    let own = numbers(bucket("10/1m~burst"));
    assert!(read(0, own, 18_000) && read(1, own, 18_000));
    for earlier in ["7/1m~burst", "0/1m~burst", "1/1m~burst:1000", "1000003/1m~burst", "999999937/1h~burst:1"]
    {
        let Some(earlier) = earlier.parse::<Quota>().ok().and_then(|quota| quota.bucket()) else { continue };
        let earlier = numbers(earlier);
        assert!(read(1, earlier, 2 * earlier[0]), "{earlier:?}");
        assert!(!read(0, earlier, 2 * earlier[0]), "{earlier:?}");
        assert!(!read(1, earlier, earlier[3] + 1), "{earlier:?}");
        let [unit, parts, highest, kept] = earlier;
        for none in [
            [0, parts, highest, kept],
            [unit, 0, highest, kept],
            [unit, 1 << 23, highest, kept],
            [unit, parts, highest + 1, kept.max(highest + 1)],
            [unit, parts, highest, highest - 1],
            [unit, parts, highest, 1 << 53],
            [unit, parts, highest, -1],
        ] {
            assert!(!read(1, none, 0), "{none:?}");
        }
    }
}

#[test]
fn a_given_window_that_is_not_open_is_stale_and_nothing_is_written() {
    let mut connection = connect();
    let now = server().time().as_unix_millis();
    let one = charge_of_one(5);
    let shape = |start, end| Shape { step: one, windows: WindowSpec::Given { start, end } };
    let first_hit = Shape { step: one, windows: WindowSpec::FirstHit { length: 1_000 } };
    let request = |shapes: &[Shape], keys: &[&str]| Request {
        shapes: shapes.into(),
        keys: keys.iter().map(|key| key.as_bytes().into()).collect(),
        ..Request::default()
    };
    let named = |Shape { windows, .. }| match windows {
        WindowSpec::Given { start, end } => {
            Shape { windows: WindowSpec::Named { start, end }, ..shape(0, 0) }
        }
        _ => unreachable!("only given windows can be named"),
    };
    let (over, yet, open) =
        (shape(now - 9_000, now), shape(now + 60_000, now + 99_000), shape(0, now + 60_000));
    let requests = [
        request(&[over], &["over"]),
        request(&[yet], &["yet"]),
        request(&[open], &["open"]),
        request(&[first_hit, over], &["first", "over"]),
        request(&[open, yet], &["open", "yet"]),
        request(&[named(over)], &["over"]),
        request(&[named(open), named(yet)], &["open", "yet"]),
    ];
    let answers = take(&mut connection, &requests);
    for stale in [0, 1, 3, 4, 5, 6] {
        assert_eq!(answers[stale].outcome, ScriptOutcome::Stale, "{stale}");
    }
    assert!(matches!(&answers[2].outcome, ScriptOutcome::Taken(found) if found[0].before == 0));
    let written: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
    assert!(!written.iter().any(|key| ["over", "yet", "first"].contains(&key.as_str())), "{written:?}");
}

/// A refund across slots names the window that was charged, also while the clock is back before its start. The counter
/// of the window before it would have been taken into it.
#[test]
fn a_refund_in_a_given_window_that_has_not_begun_finds_only_counters_that_are_in_it() {
    let server = Settings::new(Software::Redis).steered_clock().start();
    let now = server.time().as_unix_millis();
    server.clock().set(Timestamp::from_unix_millis(now));
    let mut connection = server.connection();
    let _: String = redis::cmd("SCRIPT").arg("LOAD").arg(TEXT).query(&mut connection).unwrap();
    let mut refund = |start, end, expiry: i64| {
        let _: () =
            redis::cmd("SET").arg("key").arg(5).arg("PXAT").arg(expiry).query(&mut connection).unwrap();
        let windows = WindowSpec::Given { start, end };
        let request = Request {
            shapes: [Shape { step: CounterStep::Refund { units: 2, start }, windows }].into_iter().collect(),
            keys: [b"key".as_slice().into()].into_iter().collect(),
            ..Request::default()
        };
        let answer = take(&mut connection, &[request]).remove(0);
        let left = redis::cmd("GET").arg("key").query::<i64>(&mut connection).unwrap();
        let expiry_then = redis::cmd("PEXPIRETIME").arg("key").query::<i64>(&mut connection).unwrap();
        (answer.outcome, left, expiry_then == expiry)
    };
    let (start, end) = (now + 1_000, now + 86_400_000);
    assert_eq!(refund(start, end, start + 1_000), (ScriptOutcome::Stale, 5, true));
    let found = CountChange { before: 5, after: 3, given: 2, ..CountChange::of_count(5, None) };
    assert_eq!(
        refund(start, end, end + 1_000),
        (ScriptOutcome::Taken([found].into_iter().collect()), 3, true)
    );
    assert_eq!(refund(start + 1, end, end + 1_000), (ScriptOutcome::Stale, 5, true));
}

fn charge_of_one(limit: u64) -> CounterStep {
    let (room, denials) = (Room { below: NEVER, within: limit }, ChargedDenials { above: NEVER });
    CounterStep::Charge { units: 1, room, denials, is_renewal: false }
}

/// A kind of step, whose counters differ in their numbers.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Charge,
    Renewal,
    Record,
    Deny,
    Look,
    Set,
    Refund,
    Reset,
}

fn shape(kind: Kind) -> impl Strategy<Value = Shape> {
    let units = prop_oneof![1 => Just(0), 6 => 1..=4_u64, 1 => Just(u64::from(u32::MAX))];
    let limit = prop_oneof![8 => 0..=4_u64, 4 => 5..=12_u64, 1 => Just((1 << 40) - 1)];
    let windows = prop::sample::select(vec![
        WindowSpec::Grid { origin: 0, length: 3_600_000_000 },
        WindowSpec::Grid { origin: -7, length: 7_200_000_000 },
        WindowSpec::FirstHit { length: 3_600_000 },
        WindowSpec::Given { start: 0, end: 1 << 50 },
        WindowSpec::Named { start: 0, end: 1 << 50 },
        // Nothing drains or leaves while a test runs, and the mark of a refund names the first window and step.
        WindowSpec::Burst { bucket: "1/1d~burst:7".parse::<Quota>().unwrap().bucket().unwrap() },
        WindowSpec::Sliding { origin: 0, length: 1 << 42 },
        WindowSpec::Log { step: 1 << 42, length: 1 << 43 },
        WindowSpec::SortedLog { length: 1 << 42 },
    ]);
    let counts = prop_oneof![4 => Just(None), 1 => Just(Some(0)), 1 => (-1..=1_i64).prop_map(Some)];
    let overdraft =
        prop_oneof![6 => Just(None), 2 => (0..=12_u64).prop_map(Some), 1 => Just(Some((1 << 40) - 1))];
    (units, limit, counts, overdraft, windows).prop_map(move |(units, limit, counts, overdraft, windows)| {
        let counted = counts.map(|more| limit.saturating_add_signed(more));
        let counted = counted.filter(|counted| *counted >= units.max(1)).unwrap_or(NEVER);
        let (room, denials) = match overdraft {
            None => (Room { below: NEVER, within: limit }, ChargedDenials { above: counted }),
            // Alone, or on one counter with another charge.
            Some(below) if counts.is_none() => (Room { below, within: NEVER }, ChargedDenials { above: 0 }),
            Some(below) => (Room { below, within: limit }, ChargedDenials { above: 0 }),
        };
        let step = match kind {
            Kind::Charge => CounterStep::Charge { units, room, denials, is_renewal: false },
            Kind::Renewal => CounterStep::Charge { units, room, denials, is_renewal: true },
            Kind::Record => CounterStep::Record { units },
            Kind::Deny => CounterStep::Deny { units, denials },
            Kind::Look => CounterStep::Look,
            Kind::Set => CounterStep::Set { used: limit },
            // In a window of the first grid.
            Kind::Refund if matches!(windows, WindowSpec::Burst { .. }) => {
                CounterStep::Refund { units, start: 1 << 50 }
            }
            Kind::Refund => CounterStep::Refund { units, start: 0 },
            Kind::Reset => CounterStep::Reset,
        };
        Shape { step, windows }
    })
}

/// Requests of few kinds on few keys, so that many are equal.
fn requests() -> impl Strategy<Value = Vec<Request>> {
    let kind = prop_oneof![
        8 => Just(Kind::Charge),
        2 => Just(Kind::Renewal),
        1 => Just(Kind::Record),
        1 => Just(Kind::Deny),
        2 => Just(Kind::Look),
        1 => Just(Kind::Set),
        1 => Just(Kind::Refund),
        1 => Just(Kind::Reset),
    ];
    let shapes = kind.prop_flat_map(|kind| {
        let most = if matches!(kind, Kind::Charge | Kind::Renewal | Kind::Deny | Kind::Look) { 3 } else { 1 };
        prop::collection::vec(shape(kind), 1..=most)
    });
    // Ends that have come, and two that will not.
    let ends = prop_oneof![
        4 => Just(None),
        3 => prop::sample::select(vec![0, 1 << 50, 1 << 51]).prop_map(|end| Some(Timestamp::from_unix_millis(end))),
    ];
    let kinds = prop::collection::vec((shapes, ends), 1..=3);
    let picks = prop::collection::vec((0..3_usize, 0..3_usize), 1..24);
    (kinds, picks).prop_map(|(kinds, picks)| {
        let request = |(kind, key): (usize, usize)| {
            let (shapes, end) = &kinds[kind % kinds.len()];
            let may_end =
                |shape: &Shape| matches!(shape.step, CounterStep::Charge { .. } | CounterStep::Deny { .. });
            // Counters of other windows have other names.
            let name = |(place, shape): (usize, &Shape)| {
                format!("{key}:{place}:{:?}", shape.windows).into_bytes().into_boxed_slice()
            };
            Request {
                before: end.filter(|_| shapes.iter().all(may_end)),
                shapes: shapes.iter().copied().collect(),
                keys: shapes.iter().enumerate().map(name).collect(),
                ..Request::default()
            }
        };
        picks.into_iter().map(request).collect()
    })
}

/// Equal charges of one counter on a grid, which are the only ones that a probable time makes cheaper.
fn grid_charges() -> impl Strategy<Value = Vec<Request>> {
    let origin = prop::sample::select(vec![0, -7]);
    (shape(Kind::Charge), 1..4_usize, origin).prop_map(|(Shape { step, .. }, times, origin)| {
        let shape = Shape { step, windows: WindowSpec::Grid { origin, length: 3_600_000_000 } };
        let key = b"key".as_slice().into();
        vec![
            Request {
                shapes: [shape].into_iter().collect(),
                keys: [key].into_iter().collect(),
                ..Request::default()
            };
            times
        ]
    })
}

/// What was answered, without the time at which it was.
fn timeless(answers: &[ScriptAnswer]) -> Vec<ScriptOutcome> {
    let endless = |found: &CountChange| CountChange { end: None, standing: None, ..found.clone() };
    let timeless = |answer: &ScriptAnswer| match &answer.outcome {
        ScriptOutcome::Taken(found) => ScriptOutcome::Taken(found.iter().map(endless).collect()),
        ScriptOutcome::Closed(found) => ScriptOutcome::Closed(found.as_ref().map(endless)),
        other => other.clone(),
    };
    answers.iter().map(timeless).collect()
}

/// Every key with its count and whether it expires.
fn contents(connection: &mut ServerConnection) -> Vec<(String, u64, bool)> {
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query(connection).unwrap();
    keys.sort();
    let content = |key: String| {
        let count = if key.contains("SortedLog") {
            redis::cmd("ZCARD").arg(&key).query(connection).unwrap()
        } else {
            count_in(&key, &redis::cmd("GET").arg(&key).query::<String>(connection).unwrap())
        };
        let expiry: i64 = redis::cmd("PEXPIRETIME").arg(&key).query(connection).unwrap();
        (key, count, expiry > 0)
    };
    keys.into_iter().map(content).collect()
}

/// What the value of a counter of these tests says.
fn count_in(key: &str, value: &str) -> u64 {
    let numbers: Vec<u64> = value.split(' ').map(|number| number.parse().unwrap()).collect();
    if key.contains("Burst") {
        let day = 24 * 60 * 60 * 1_000;
        let now = server().time().as_unix_millis().unsigned_abs();
        numbers[0].saturating_sub(now).div_ceil(day)
    } else if key.contains("Sliding") || key.contains("Log") {
        assert!(numbers[0] == 0 && numbers.len() == 2, "{value}");
        numbers[1]
    } else {
        numbers[0] % 10_u64.pow(13)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    /// Merged requests are answered, and leave the counters, as if each had been a call of its own.
    #[test]
    fn a_batch_is_its_requests_one_by_one(requests in requests()) {
        let mut connection = connect();
        // A database of its own, for the other tests use the first.
        let _: () = redis::cmd("SELECT").arg(1).query(&mut connection).unwrap();
        let _: () = redis::cmd("FLUSHDB").query(&mut connection).unwrap();
        let batched = take(&mut connection, &requests);
        let after_batch = contents(&mut connection);
        let _: () = redis::cmd("FLUSHDB").query(&mut connection).unwrap();
        let mut serial = vec![None; requests.len()];
        for index in order(&requests) {
            serial[index] = take(&mut connection, &requests[index..=index]).pop();
        }
        let serial: Vec<ScriptAnswer> = serial.into_iter().map(Option::unwrap).collect();
        prop_assert_eq!(timeless(&batched), timeless(&serial));
        let after_serial = contents(&mut connection);
        prop_assert_eq!(&after_batch, &after_serial);
        prop_assert!(after_batch.iter().all(|(.., expires)| *expires));
        // What this crate believes the counters say after a step, they say.
        for (request, answer) in requests.iter().zip(&serial) {
            if let ScriptOutcome::Taken(found) = &answer.outcome {
                prop_assert_eq!(found.len(), request.keys.len());
            }
        }
        let last_word = |name: &str| {
            let takers = order(&requests).into_iter().rev();
            takers.filter_map(|index| {
                let ScriptOutcome::Taken(found) = &batched[index].outcome else { return None };
                let place = requests[index].keys.iter().position(|key| **key == *name.as_bytes())?;
                Some(found[place].after)
            }).next()
        };
        for (name, value, _) in &after_batch {
            prop_assert_eq!(last_word(name), Some(*value), "{}", name);
        }
    }
}

/// The functions for counters that are not read and written in the shortest way were created without those for other
/// kinds, if an earlier group of the call had none of them. The script then failed in the middle of a batch.
#[test]
fn a_batch_may_need_the_other_kinds_after_windows_that_are_unusual() {
    let mut connection = connect();
    let grid = WindowSpec::Grid { origin: 0, length: 60_000 };
    let log = WindowSpec::Log { step: 1, length: 60_000 };
    let request = |windows: &[WindowSpec], names: &[&str]| Request {
        shapes: windows.iter().map(|windows| Shape { step: charge_of_one(1), windows: *windows }).collect(),
        keys: names.iter().map(|name| name.as_bytes().into()).collect(),
        ..Request::default()
    };
    let one = request(&[grid], &["batch-window"]);
    take(&mut connection, std::slice::from_ref(&one));
    let several = request(&[grid, log], &["batch-other-window", "batch-log"]);
    let answers = take(&mut connection, &[one, several]);
    let used = |answer: &ScriptAnswer| match &answer.outcome {
        ScriptOutcome::Taken(found) => found.iter().map(|found| found.after).collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(answers.iter().map(used).collect::<Vec<_>>(), [vec![1], vec![1, 1]]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() })]

    /// A probable time changes no count, however wrong it is. Only if it is wrong by 899 windows, it changes the time
    /// of an answer.
    #[test]
    fn a_probable_time_changes_nothing(
        requests in prop_oneof![requests(), grid_charges()],
        off in prop_oneof![Just(0), -3_i64..=3, prop::sample::select(vec![-899_i64, 899])],
        millis in prop_oneof![Just(0), -2_000_i64..=2_000],
    ) {
        let mut connection = connect();
        let _: () = redis::cmd("SELECT").arg(2).query(&mut connection).unwrap();
        let now = server().time().as_unix_millis();
        // By windows of the first grid.
        let probable = Timestamp::from_unix_millis(now + off * 3_600_000_000 + millis);
        let mut run = |probable| {
            let _: () = redis::cmd("FLUSHDB").query(&mut connection).unwrap();
            let before = server().time();
            // The counters exist when they are asked for again.
            let calls = [(); 2].map(|()| take_with(&mut connection, &requests, probable));
            let times = before..=server().time();
            let is_timely = calls.iter().flatten().all(|answer| times.contains(&answer.now));
            (calls.map(|answers| timeless(&answers)), contents(&mut connection), is_timely)
        };
        let (with, without) = (run(Some(probable)), run(None));
        prop_assert_eq!((&with.0, &with.1), (&without.0, &without.1));
        // A window's number repeats after 899.
        prop_assert!(with.2 || off.abs() == 899, "{:?}", with);
        prop_assert!(without.2, "{:?}", without);
    }
}

#[test]
fn a_reply_that_makes_no_sense_is_an_error() {
    let windows = WindowSpec::Grid { origin: 0, length: 1_000 };
    let request = Request {
        shapes: [Shape { step: charge_of_one(5), windows }].into_iter().collect(),
        keys: [b"key".as_slice().into()].into_iter().collect(),
        ..Request::default()
    };
    let requests = [request];
    let hand_out = |reply| {
        let reply = decode(reply)?;
        let now = reply.now();
        let (entries, _) = entries(&requests);
        MergedRequests::new(&entries).read(0, &entries, reply).map(|_| now)
    };
    let packed = |bytes: &[u8]| RespValue::Bulk(bytes.to_vec());
    assert_eq!(hand_out(packed(b"\x92\x07\x00")).unwrap(), Timestamp::from_unix_millis(7));
    for nonsense in [
        RespValue::Nil,
        RespValue::Simple("OK".into()),
        RespValue::Array(vec![RespValue::Int(7), RespValue::Int(0)]),
        packed(b""),
        packed(b"\x90"),
        packed(b"\x91\x07"),
        packed(b"\x92\x07\xf7"),
        // Of a window that has not begun: without a count, without an end, and with a fault for a count.
        packed(b"\x92\x07\xfc"),
        packed(b"\x93\x07\xfc\x00"),
        packed(b"\x94\x07\xfc\xfc\x00"),
        // A closed window, of a charge.
        packed(b"\x92\x07\xfd"),
        packed(b"\x93\x07\xfd\x00"),
        packed(b"\x93\x07\x00\x00"),
        packed(b"\x92\x07\xc0"),
    ] {
        let error = hand_out(nonsense).unwrap_err();
        assert_eq!(crate::RedisError::of(&error), Some(&crate::RedisError::BadReply));
    }
}

/// What the script never says of a counter of another kind, at 1,000,000 ms.
#[test]
fn a_state_that_cannot_be_is_an_error() {
    const NOW: i64 = 1_000_000;
    let read = |step: CounterStep, windows: WindowSpec, numbers: &[i64]| {
        let request = Request {
            shapes: [Shape { step, windows }].into_iter().collect(),
            keys: [b"key".as_slice().into()].into_iter().collect(),
            ..Request::default()
        };
        let mut packed = vec![0xdc];
        packed.extend(u16::try_from(numbers.len() + 1).unwrap().to_be_bytes());
        for number in [&[NOW], numbers].concat() {
            packed.push(0xd3);
            packed.extend(number.to_be_bytes());
        }
        let (entries, _) = entries(&[request]);
        MergedRequests::new(&entries).read(0, &entries, decode(RespValue::Bulk(packed))?)
    };
    // A unit takes 600 ms, and no level is kept that does not drain in a window.
    let burst = WindowSpec::Burst { bucket: "100/1m~burst:5".parse::<Quota>().unwrap().bucket().unwrap() };
    let sliding = WindowSpec::Sliding { origin: 7, length: 60_000 };
    let log = WindowSpec::Log { step: 10, length: 60_000 };
    let sorted = WindowSpec::SortedLog { length: 60_000 };
    let (latest, earliest) = (NOW / 10, (NOW - 60_000) / 10);
    let possible: &[(WindowSpec, &[i64])] = &[
        (burst, &[0]),
        (burst, &[60_000]),
        (sliding, &[3, 2, 960_007]),
        (sliding, &[1_000_000, 1_000_000, 960_007]),
        (log, &[0]),
        (log, &[2, earliest, 1, latest, 16_777_214]),
        (sorted, &[2, NOW - 59_999, 1, NOW, 1_023]),
    ];
    for (windows, numbers) in possible {
        read(charge_of_one(5), *windows, numbers).unwrap();
    }
    let impossible: &[(WindowSpec, &[i64])] = &[
        (burst, &[60_001]),
        (burst, &[-3, 0]),
        (burst, &[-4, 0, NOW]),
        (burst, &[0, 0]),
        (sliding, &[3, 2]),
        (sliding, &[3, -2, 960_007]),
        (sliding, &[1_000_001, 0, 960_007]),
        (sliding, &[0, 1_000_001, 960_007]),
        (sliding, &[3, 2, 960_008]),
        (sliding, &[3, 2, 900_007]),
        (sliding, &[3, 2, 1_020_007]),
        (sliding, &[3, 2, i64::MAX]),
        (sliding, &[3, 2, i64::MIN]),
        (log, &[1]),
        (log, &[1, latest]),
        (log, &[1, latest, 0]),
        (log, &[1, latest, 16_777_216]),
        (log, &[1, latest, -1]),
        (log, &[1, latest + 1, 1]),
        (log, &[1, earliest - 1, 1]),
        (log, &[2, latest, 1, latest, 1]),
        (log, &[2, latest, 1, latest - 1, 1]),
        // 2^40 steps later, which the place of an entry does not hold.
        (log, &[2, latest, 1, latest + (1 << 40), 1]),
        (log, &[2, latest - 1, 16_777_215, latest, 1]),
        (log, &[257]),
        (log, &[i64::MAX]),
        (sorted, &[1, NOW + 1, 1]),
        (sorted, &[1, NOW - 60_000, 1]),
        (sorted, &[1, NOW, 1_025]),
        (sorted, &[2, NOW - 1, 1_000, NOW, 25]),
    ];
    // No window of these can be closed.
    let refund = CounterStep::Refund { units: 1, start: NOW };
    for (step, (windows, numbers)) in
        [charge_of_one(5), refund].into_iter().flat_map(|step| impossible.iter().map(move |it| (step, *it)))
    {
        assert!(read(step, windows, numbers).is_err(), "{step:?} {windows:?} {numbers:?}");
    }
    let too_many: Vec<i64> =
        [257].into_iter().chain((0..257).flat_map(|place| [latest - 256 + place, 1])).collect();
    assert!(read(charge_of_one(5), log, &too_many).is_err());
}
