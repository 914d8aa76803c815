//! The oracle itself, under a clock that is set by hand: it finds nothing in a limiter that is right, whatever the
//! machine does between two readings, and finds what is wrong with others.

use tollgate_testkit::realtime::{Allowance, Figures, Group, Ledger, Nanos, Plan, Reading, Start, Victim};

use crate::reference::{Fault, Reference};
use crate::terms;

const MILLI: Nanos = 1_000_000;

/// A time that is no multiple of any window here.
const BEGIN: i64 = 1_700_000_000_123;

fn plan() -> Plan {
    let group = |policy, quotas: &[_]| Group { policy, quotas: quotas.into(), crowd: 3, obedient: 0 };
    Plan {
        groups: vec![
            group("one", &[terms(1, 250, Start::Epoch)]),
            group("staggered", &[terms(2, 300, Start::Staggered)]),
            group("first_hit", &[terms(2, 250, Start::FirstHit)]),
            group("pair", &[terms(2, 250, Start::Epoch), terms(3, 400, Start::Staggered)]),
            group("trio", &[terms(3, 350, Start::FirstHit), terms(1, 100, Start::Epoch)]),
        ],
    }
}

/// How far readings around a call are from the time by which it is decided.
#[derive(Clone, Copy)]
struct Spread {
    before: Nanos,
    tick: Nanos,
    after: Nanos,
}

/// Every key asks twice in each of so many milliseconds, by a limiter with this fault and with readings spread as the
/// function says.
fn judged(fault: Option<Fault>, spread: impl Fn(u64) -> Spread) -> Figures {
    let plan = plan();
    let reference = Reference::new(&plan, fault);
    let mut ledger = Ledger::new(&plan, Allowance { skew: 0, lag: 48 * MILLI });
    let victims: Vec<Victim> =
        (0..5).flat_map(|group| (0..3).map(move |index| Victim { group, index })).collect();
    let mut answers = Vec::new();
    let mut calls = 0;
    for now in BEGIN..BEGIN + 2_500 {
        for victim in victims.iter().chain(&victims) {
            calls += 1;
            let Spread { before, tick, after } = spread(calls);
            let precise = now * MILLI - before;
            let before = Reading { coarse: precise - tick, precise };
            answers.push(reference.decide(*victim, || now).between(*victim, before, now * MILLI + after));
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
    assert!(figures.charged > 200 && figures.asked > 10 * figures.charged, "{figures}");
}

/// A machine that stops for up to a second, at any moment of a call, and whose ticks come late.
#[test]
fn a_machine_that_stands_still_breaks_no_promise() {
    let spread = |call: u64| {
        // Unlike for each of the three, and now and then long.
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

#[test]
fn finds_a_unit_too_many() {
    for fault in [Fault::OneMore, Fault::AdmitsAgainAtTheEnd] {
        let figures = judged(Some(fault), exactly);
        assert!(figures.over > 0, "{fault:?}: {figures:#?}");
    }
}

/// A wrong window in the answer must not hide it: then the clock tells.
#[test]
fn finds_a_unit_too_many_that_is_said_to_be_of_the_next_window() {
    let figures = judged(Some(Fault::NamesTheNextWindow), exactly);
    let by_time = |promise: &&&str| promise.contains("of its time") || promise.starts_with("G3");
    assert!(figures.stories.keys().filter(by_time).count() > 0, "{figures:#?}");
}

#[test]
fn finds_denials_of_clients_that_waited() {
    for fault in [Fault::WaitsOneShort, Fault::CountsThePreviousWindow, Fault::HoldsItsEnd] {
        let figures = judged(Some(fault), exactly);
        assert!(figures.early_denials > 0, "{fault:?}: {figures:#?}");
    }
}

#[test]
fn finds_windows_in_the_wrong_place() {
    for fault in [Fault::IgnoresTheKey, Fault::ExtendsFirstHit, Fault::HoldsItsEnd] {
        let figures = judged(Some(fault), exactly);
        assert!(figures.wrong_answers > 0, "{fault:?}: {figures:#?}");
    }
}

#[test]
fn finds_units_that_a_denial_has_taken() {
    let figures = judged(Some(Fault::ChargesHalf), exactly);
    assert!(figures.false_denials > 0, "{figures:#?}");
}

/// What the readings prove is found on a busy machine too.
#[test]
fn finds_faults_between_readings_that_are_milliseconds_apart() {
    let spread = |_| Spread { before: MILLI, tick: 4 * MILLI, after: MILLI };
    let faults = [Fault::OneMore, Fault::AdmitsAgainAtTheEnd, Fault::CountsThePreviousWindow];
    for fault in faults {
        let figures = judged(Some(fault), spread);
        assert!(!figures.are_clean(), "{fault:?}: {figures:#?}");
    }
}

#[test]
fn print_all() {
    use Fault::*;
    for fault in [OneMore, AdmitsAgainAtTheEnd, NamesTheNextWindow, WaitsOneShort, CountsThePreviousWindow, HoldsItsEnd, IgnoresTheKey, ExtendsFirstHit, ChargesHalf] {
        let a = judged(Some(fault), exactly);
        println!("{fault:?} {a}\n   {:#?}", a.stories.keys());
        let a = judged(Some(fault), |_| Spread { before: MILLI, tick: 4 * MILLI, after: MILLI });
        println!("   WIDE {fault:?} {a}\n   {:#?}", a.stories.keys());
    }
}
