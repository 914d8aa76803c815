//! The oracle itself, under a manual clock. It finds nothing in a correct limiter, whatever the machine does between
//! two readings, and it finds the faults of others.

use tollgate_testkit::realtime::{
    Allowance, ClockReading, Group, Ledger, LoadPlan, LoadedKey, Nanos, OracleFigures, Start,
};

use crate::reference::{DOUBTED, Fault, Reference};
use crate::terms;

const MILLI: Nanos = 1_000_000;

/// A time that is not a multiple of any window here.
const BEGIN: i64 = 1_700_000_000_123;

fn plan() -> LoadPlan {
    let group = |policy, quotas: &[_]| Group { policy, quotas: quotas.into(), crowd: 2, obedient: 0 };
    LoadPlan {
        groups: vec![
            group("one", &[terms(1, 250, Start::Epoch)]),
            group("staggered", &[terms(2, 300, Start::Staggered)]),
            group("first_hit", &[terms(2, 250, Start::FirstHit)]),
            group("pair", &[terms(2, 250, Start::Epoch), terms(3, 400, Start::Staggered)]),
            group("trio", &[terms(3, 350, Start::FirstHit), terms(1, 100, Start::Epoch)]),
        ],
    }
}

/// How far the time of the last tick and the readings around a call are from the true time.
#[derive(Clone, Copy)]
struct Spread {
    before: Nanos,
    tick: Nanos,
    after: Nanos,
}

/// Judges a limiter with this fault. Every key makes two requests in each millisecond, with readings spread as the
/// function says.
fn judged(fault: Option<Fault>, spread: impl Fn(u64) -> Spread) -> OracleFigures {
    let plan = plan();
    let reference = Reference::new(&plan, fault);
    let mut ledger = Ledger::new(&plan, Allowance { skew: 0, lag: DOUBTED * MILLI });
    let victims: Vec<LoadedKey> =
        (0..5).flat_map(|group| (0..2).map(move |index| LoadedKey { group, index })).collect();
    let mut answers = Vec::new();
    let mut calls = 0;
    for now in BEGIN..BEGIN + 1_300 {
        for victim in victims.iter().chain(&victims) {
            calls += 1;
            let Spread { before, tick, after } = spread(calls);
            let precise = now * MILLI;
            let decided = reference.decide(*victim, || ClockReading { coarse: precise - tick, precise });
            let read_before = ClockReading { coarse: precise - before - tick, precise: precise - before };
            answers.push(decided.between(*victim, read_before, precise + after));
        }
    }
    ledger.judge(&answers);
    ledger.figures().clone()
}

fn exactly(_call: u64) -> Spread {
    Spread { before: 0, tick: 0, after: 0 }
}

#[test]
fn finds_nothing_in_a_right_limiter() {
    let figures = judged(None, exactly);
    assert!(figures.are_clean(), "{figures:#?}");
    assert!(figures.charged > 50 && figures.asked > 10 * figures.charged, "{figures}");
}

/// A machine that stops for up to a second, at any moment of a call, and with late ticks.
#[test]
fn a_machine_that_stands_still_breaks_no_promise() {
    let spread = |call: u64| {
        // Different for each of the three, and sometimes long.
        let pause = |prime: u64, longest: i64| {
            let random = call.wrapping_mul(prime).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
            let share = i64::try_from(random % 1_000).unwrap();
            longest * share * share / 1_000_000
        };
        Spread { before: pause(3, 500 * MILLI), tick: pause(5, 200 * MILLI), after: pause(7, 1_000 * MILLI) }
    };
    let figures = judged(None, spread);
    assert!(figures.are_clean(), "{figures:#?}");
}

/// Checks that a limiter with this fault breaks these promises.
#[track_caller]
fn breaks(fault: Fault, promises: &[&str]) {
    let figures = judged(Some(fault), exactly);
    for promise in promises {
        let is_told = figures.stories.keys().any(|told| told.contains(promise));
        assert!(is_told, "{fault:?} does not break `{promise}`: {figures} {:#?}", figures.stories.keys());
    }
}

#[test]
fn finds_a_unit_too_many() {
    breaks(Fault::OneMore, &["G1: the window of its answer"]);
    breaks(Fault::AdmitsAgainAtTheEnd, &["G1: the window of its answer"]);
}

/// A wrong window in the answer must not hide the unit; then the clock shows it.
#[test]
fn finds_a_unit_too_many_despite_a_wrong_window() {
    breaks(Fault::NamesTheNextWindow, &["G1: the window of its time", "G3", "no unit was admitted when"]);
}

#[test]
fn finds_denials_of_clients_that_waited() {
    breaks(Fault::WaitsOneShort, &["rule 10: a client that waited as told is denied by the same", "rule 8"]);
    breaks(
        Fault::CountsThePreviousWindow,
        &["rule 10: a client that waited as told is denied by a window with"],
    );
    breaks(Fault::HoldsItsEnd, &["rule 10: a window denies that was over"]);
}

#[test]
fn finds_windows_in_the_wrong_place() {
    breaks(Fault::IgnoresTheKey, &["rule 1: the window does not start where"]);
    breaks(Fault::ExtendsFirstHit, &["rule 2: the window overlaps"]);
    breaks(Fault::HoldsItsEnd, &["rule 1: the window does not hold"]);
    breaks(Fault::LongWindows, &["rule 1: the window is not as long"]);
    breaks(Fault::LivesInThePast, &["rule 11: the limiter's time is not that of the call"]);
}

#[test]
fn finds_units_that_a_denial_has_taken() {
    breaks(Fault::ChargesHalf, &["G2: a window with room denies"]);
}

/// Faults that the readings prove are found on a busy machine too.
#[test]
fn finds_faults_between_readings_that_are_milliseconds_apart() {
    let spread = |_| Spread { before: MILLI, tick: 4 * MILLI, after: MILLI };
    for fault in [Fault::OneMore, Fault::AdmitsAgainAtTheEnd, Fault::NamesTheNextWindow] {
        let figures = judged(Some(fault), spread);
        assert!(figures.over > 0, "{fault:?}: {figures:#?}");
    }
    let figures = judged(Some(Fault::CountsThePreviousWindow), spread);
    assert!(figures.early_denials > 0, "{figures:#?}");
}
