//! What `cargo xtask prove` runs: many rounds of each fault, or of one, and many histories.

use std::env;

use tollgate::{Charge, Key, PolicyQuota, Quota};
use tollgate_testkit::servers::{Server, Software};
use tollgate_testkit::{StoreSteps, block_on};

use crate::crowd::{build, patient};
use crate::fault::{Bounds, Fault, Found};
use crate::histories::{self, Judged, Kind};
use crate::process::url;
use crate::{
    cancel, clock, cluster, commands, cut, ends, holders, holds, kinds, late, process, records, reserve,
    rotation, sentinel, skew, slow,
};

const FAULTS: [&Fault; 45] = [
    &cut::CUT,
    &cancel::CANCEL,
    &late::LATE,
    &process::HANG,
    &process::KILL_KEPT,
    &process::KILL_LOST,
    &commands::SCRIPT_FLUSH,
    &commands::FLUSHALL,
    &commands::CLIENT_KILL,
    &commands::CLIENT_PAUSE,
    &commands::OUT_OF_MEMORY,
    &commands::READONLY,
    &commands::FAILOVER,
    &clock::CLOCK,
    &clock::CLUSTER,
    &skew::SKEW,
    &kinds::KINDS,
    &ends::ENDS,
    &holds::HOLDS,
    &slow::SLOW,
    &slow::DEFAULT,
    &reserve::RESERVE,
    &reserve::FAILOVER,
    &rotation::PASSWORD,
    &rotation::CERTIFICATES,
    &sentinel::FAILOVER,
    &sentinel::KILL,
    &cluster::FAILOVER,
    &cluster::KILL,
    &cluster::MIGRATION,
    &holders::HANG,
    &holders::KILL,
    &holders::CUT,
    &holders::LATE,
    &holders::CLOCK,
    &holders::FAILOVER,
    &holders::MIGRATION,
    &holders::ACROSS,
    &holders::ACROSS_LATE,
    &holders::ACROSS_KILL,
    &holders::ACROSS_LOSS,
    &records::KEPT,
    &records::LOST,
    &records::KILL,
    &records::MIGRATION,
];

/// Rounds, and histories in each, among which a bug has to be found.
const ROUNDS: u64 = 20;
const HISTORIES: u64 = 100;

/// What cannot be measured next to other tests is measured here: run alone, on a machine that does nothing else.
#[test]
#[ignore = "takes minutes: cargo xtask prove redis"]
fn prove() {
    // Behind the name of the test, which has no line of its own.
    println!();
    let (rounds, seed) = (number("TOLLGATE_ROUNDS").unwrap_or(10), seed());
    let violations: usize =
        faults().iter().map(|fault| fault.run(seed, rounds, Bounds::Promised).violations.len()).sum();
    assert_eq!(violations, 0, "violations, see above");
}

#[test]
#[ignore = "takes minutes: cargo xtask prove histories"]
fn prove_histories() {
    println!();
    let (kinds, seed) = (kinds(), seed());
    let count = number("TOLLGATE_HISTORIES").unwrap_or(10_000).div_ceil(kinds.len() as u64);
    let (mut all, mut unknown) = (Judged::default(), None);
    for kind in &kinds {
        let judged = kind.judge(seed, count);
        if kind.leaves_unknown {
            *unknown.get_or_insert(0) += judged.unknown;
        }
        all.add(judged);
    }
    println!("RESULT prove/histories {all}");
    assert_eq!(all.violations.len(), 0, "violations, see above");
    assert_ne!(
        unknown,
        Some(0),
        "no outcome was unknown, so nothing is proven of those: record more histories"
    );
}

/// The sources have a bug, and the round that the variable names finds it soonest.
#[test]
#[ignore = "there is no bug: cargo xtask prove redis --planted"]
fn a_planted_bug_is_found() {
    let name = text("TOLLGATE_FOUND_BY").expect("TOLLGATE_FOUND_BY is set");
    // A script that was changed has another digest, and a server that never runs it would be found by all.
    let server = Server::start(Software::Redis);
    let (store, key) = (build(patient(&url(&server))), Key::from("peace"));
    let quota = PolicyQuota::new("peace", Quota::per_day(1));
    block_on(store.charge(&[Charge::new(&quota, &key, 1)])).expect("the store charges in peace");
    assert!(holders::holds(&store), "the store holds in peace");
    let round = |seed| -> Found {
        match name.strip_prefix("histories/") {
            Some(kind) => named(&histories::KINDS, kind, |kind| kind.name).found(seed, HISTORIES),
            None => named(&FAULTS, &name, |fault| fault.name).run(seed, 1, Bounds::Generous),
        }
    };
    let violation = (0..ROUNDS).find_map(|seed| Some((seed + 1, round(seed).violations.into_iter().next()?)));
    let (rounds, violation) = violation.expect("the bug is found");
    let violation = violation.lines().next().unwrap_or_default();
    println!("\nFOUND rounds={rounds} fault={name} by={violation}");
}

fn faults() -> Vec<&'static Fault> {
    match text("TOLLGATE_FAULT") {
        Some(name) => vec![named(&FAULTS, &name, |fault| fault.name)],
        None => FAULTS.into(),
    }
}

fn kinds() -> Vec<&'static Kind> {
    match text("TOLLGATE_KIND") {
        Some(name) => vec![named(&histories::KINDS, &name, |kind| kind.name)],
        None => histories::KINDS.into(),
    }
}

/// The one of this name.
fn named<T>(all: &[&'static T], name: &str, name_of: impl Fn(&T) -> &'static str) -> &'static T {
    let found = all.iter().find(|one| name_of(one) == name).copied();
    found.unwrap_or_else(|| {
        let names: Vec<_> = all.iter().map(|one| name_of(one)).collect();
        panic!("nothing has the name {name}; there are {}", names.join(", "))
    })
}

fn seed() -> u64 {
    number("TOLLGATE_SEED").unwrap_or_else(|| fastrand::u64(0..1 << 32))
}

fn text(variable: &str) -> Option<String> {
    env::var(variable).ok()
}

fn number(variable: &str) -> Option<u64> {
    let text = text(variable)?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} has to be a number and is {text:?}")))
}
