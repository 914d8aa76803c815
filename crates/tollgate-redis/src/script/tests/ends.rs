//! Charges and holds with an end: the script compares it with its own reading of the server's clock.

use std::time::Duration;

use super::*;

/// One counter of each kind, and a request of all of them.
fn requests_of_all_kinds() -> Vec<Request> {
    let quota = |text: &str| text.parse::<Quota>().unwrap();
    let all = [
        WindowSpec::Grid { origin: 0, length: 3_600_000 },
        WindowSpec::Grid { origin: 0, length: 500 },
        WindowSpec::FirstHit { length: 3_600_000 },
        WindowSpec::Given { start: 0, end: 1 << 50 },
        WindowSpec::Named { start: 0, end: 1 << 50 },
        WindowSpec::Burst { bucket: quota("9/1h~burst").bucket().unwrap() },
        WindowSpec::Sliding { origin: 0, length: 3_600_000 },
        WindowSpec::Log { step: 1, length: 3_600_000 },
        WindowSpec::SortedLog { length: 3_600_000 },
    ];
    let shape = |windows| Shape { step: charge_of_one(9), windows };
    let key = |windows: &WindowSpec| format!("{windows:?}").into_bytes().into_boxed_slice();
    let single = |windows: &WindowSpec| Request {
        shapes: [shape(*windows)].into_iter().collect(),
        keys: [key(windows)].into_iter().collect(),
        ..Request::default()
    };
    let several = Request {
        shapes: all.into_iter().map(shape).collect(),
        keys: all.iter().map(|windows| [b"several", &*key(windows)].concat().into()).collect(),
        ..Request::default()
    };
    all.iter().map(single).chain([several]).collect()
}

/// Every key with its value, as the server writes it, and its expiry.
fn exact_contents(connection: &mut ServerConnection) -> Vec<(String, Vec<u8>, i64)> {
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query(connection).unwrap();
    keys.sort();
    let content = |key: String| {
        let value = redis::cmd("DUMP").arg(&key).query(connection).unwrap();
        let expiry = redis::cmd("PEXPIRETIME").arg(&key).query(connection).unwrap();
        (key, value, expiry)
    };
    keys.into_iter().map(content).collect()
}

/// An end is compared with the reading of the server's clock by which the charge is counted.
#[test]
fn a_charge_is_made_in_the_last_millisecond_before_its_end_and_not_at_its_end() {
    for software in Software::ALL {
        let server = Settings::new(software).steered_clock().start();
        let noon = server.time();
        let mut connection = server.connection();
        let _: String = redis::cmd("SCRIPT").arg("LOAD").arg(TEXT).query(&mut connection).unwrap();
        // The counters exist from the second charge on, and tell the time themselves.
        for (count, later) in [(1, 0), (2, 250), (3, 1_000)] {
            let now = noon + Duration::from_millis(later);
            server.clock().set(now);
            let before = |end: Timestamp| -> Vec<Request> {
                let requests = requests_of_all_kinds().into_iter();
                requests.map(|request| Request { before: Some(end), ..request }).collect()
            };
            for end in [now, now - Duration::from_millis(1), Timestamp::EPOCH] {
                let there = exact_contents(&mut connection);
                for answer in take(&mut connection, &before(end)) {
                    assert_eq!(answer, ScriptAnswer { now, outcome: ScriptOutcome::TooLate }, "{software:?}");
                }
                assert_eq!(exact_contents(&mut connection), there, "{software:?}");
            }
            // One by one, and some that are too late in the same batch.
            let ends = before(now + Duration::from_millis(1));
            for (place, request) in ends.into_iter().enumerate() {
                let late = Request { before: Some(now), ..request.clone() };
                let answers = take(&mut connection, &[late, request.clone()]);
                assert_eq!(answers[0].outcome, ScriptOutcome::TooLate, "{software:?} {request:?}");
                let ScriptOutcome::Taken(found) = &answers[1].outcome else { panic!("{answers:?}") };
                // A window of half a second is another one each time but the second.
                let is_new = |shape: &Shape| matches!(shape.windows, WindowSpec::Grid { length: 500, .. });
                for (shape, found) in request.shapes.iter().zip(found) {
                    assert!(is_new(shape) || found.after == count, "{software:?} {place} {found:?}");
                }
            }
        }
    }
}

/// What a denial charges is charged before the end as well.
#[test]
fn a_charge_that_is_too_late_counts_no_denial_and_takes_no_overdraft() {
    let mut connection = connect();
    let overdraft = (Room { below: 1, within: NEVER }, ChargedDenials { above: 0 });
    let denied = (Room { below: NEVER, within: 1 }, ChargedDenials { above: 1 });
    for ((room, denials), key) in [(overdraft, "late-overdraft"), (denied, "late-denial")] {
        let step = CounterStep::Charge { units: 1, room, denials, is_renewal: false };
        let charge = |end| Request {
            before: Some(Timestamp::from_unix_millis(end)),
            shapes: [Shape { step, windows: WindowSpec::FirstHit { length: 60_000 } }].into_iter().collect(),
            keys: [key.as_bytes().into()].into_iter().collect(),
            ..Request::default()
        };
        for after in [1, 2, 3] {
            let late = take(&mut connection, &[charge(1), charge(1)]);
            assert!(late.iter().all(|answer| answer.outcome == ScriptOutcome::TooLate), "{late:?}");
            let answer = take(&mut connection, &[charge(1 << 50)]).remove(0);
            assert!(
                matches!(&answer.outcome, ScriptOutcome::Taken(found) if found[0].after == after),
                "{key}: {answer:?}"
            );
        }
    }
}

/// A reservation that comes too late takes nothing, but one that is known gets its first answer at any time.
#[test]
fn a_hold_is_reserved_before_its_end_and_may_be_repeated_after_it() {
    let server = Settings::new(Software::Redis).steered_clock().start();
    let now = server.time();
    server.clock().set(now);
    let mut connection = server.connection();
    let _: String = redis::cmd("SCRIPT").arg("LOAD").arg(hold::TEXT).query(&mut connection).unwrap();
    let reserve = |attempt, end: Option<Timestamp>| Request {
        before: end,
        ..hold_of_one(HoldOperation::Reserve, attempt)
    };
    let (end, last) = (Some(now), Some(now + Duration::from_millis(1)));
    let late = take(&mut connection, &[reserve(1, end)]).remove(0);
    assert_eq!(late, ScriptAnswer { now, outcome: ScriptOutcome::TooLate });
    assert_eq!(server.command::<u64>(["DBSIZE"]), 0);
    let is_admitted = |answer: &ScriptAnswer, is_repeated| matches!(&answer.outcome, ScriptOutcome::Hold(outcome) if matches!(&**outcome, HoldOutcome::Decided(verdict) if verdict.is_admitted && verdict.is_repeated == is_repeated));
    let answers = take(&mut connection, &[reserve(1, last)]);
    assert!(is_admitted(&answers[0], false), "{answers:?}");
    for end in [end, last, None, Some(Timestamp::EPOCH)] {
        let answers = take(&mut connection, &[reserve(1, end)]);
        assert!(is_admitted(&answers[0], true), "{end:?} {answers:?}");
    }
}

/// What the script never says of a request with an end.
#[test]
fn only_a_request_whose_end_has_come_is_too_late() {
    const NOW: i64 = 1_728_045_030_000;
    let answer = |request: &Request, end: Option<i64>, numbers: &[i64]| {
        let request = Request { before: end.map(Timestamp::from_unix_millis), ..request.clone() };
        let mut packed = vec![0x91 + u8::try_from(numbers.len()).unwrap()];
        for number in [&[NOW], numbers].concat() {
            packed.push(0xd3);
            packed.extend(number.to_be_bytes());
        }
        let (entries, _) = entries(&[request]);
        let merged = MergedRequests::new(&entries);
        merged.read(0, &entries, decode(RespValue::Bulk(packed)).unwrap()).ok().map(|mut it| it.remove(0))
    };
    let charge = &requests_of_all_kinds()[0];
    let is_late =
        |answer: Option<ScriptAnswer>| answer.is_some_and(|it| it.outcome == ScriptOutcome::TooLate);
    let is_taken =
        |answer: Option<ScriptAnswer>| answer.is_some_and(|it| it.outcome != ScriptOutcome::TooLate);
    for end in [NOW, NOW - 1, 0] {
        assert!(is_late(answer(charge, Some(end), &[-10])));
        for numbers in [&[0][..], &[], &[-10, -10], &[-10, 0], &[-1], &[-2], &[-9]] {
            assert!(answer(charge, Some(end), numbers).is_none(), "{end} {numbers:?}");
        }
    }
    for end in [Some(NOW + 1), None] {
        assert!(is_taken(answer(charge, end, &[0])));
        assert!(answer(charge, end, &[-10]).is_none(), "{end:?}");
    }
    let admitted = [1, 0, 1, 0, NOW, 3, 2, 3];
    let repeated = [1, 1, 1, NOW - 5_000, 9, 4, 7];
    let reserve = &hold_of_one(HoldOperation::Reserve, 1);
    assert!(is_late(answer(reserve, Some(NOW), &[-10])));
    assert!(is_taken(answer(reserve, Some(NOW), &repeated)));
    assert!(is_taken(answer(reserve, Some(NOW), &[-8])));
    assert!(is_taken(answer(reserve, Some(NOW + 1), &admitted)));
    assert!(answer(reserve, Some(NOW), &admitted).is_none());
    assert!(answer(reserve, Some(NOW), &[1, 0, 0, 0, NOW, 3, 3, 3]).is_none(), "a denial");
    for (operation, end) in [
        (HoldOperation::Reserve, Some(NOW + 1)),
        (HoldOperation::Reserve, None),
        (HoldOperation::Renew, None),
    ] {
        assert!(answer(&hold_of_one(operation, 1), end, &[-10]).is_none());
    }
}
