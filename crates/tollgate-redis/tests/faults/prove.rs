//! `cargo xtask prove redis`: many rounds of each fault, or of one, on a machine that does nothing else.

use std::env;

use crate::fault::{Bounds, Fault};
use crate::{cancel, clock, cluster, commands, cut, late, process, rotation, sentinel};

const FAULTS: [&Fault; 21] = [
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
    &rotation::PASSWORD,
    &rotation::CERTIFICATES,
    &sentinel::FAILOVER,
    &sentinel::KILL,
    &cluster::FAILOVER,
    &cluster::KILL,
    &cluster::MIGRATION,
];

/// What cannot be measured beside other tests is measured here: run alone, by the command above.
#[test]
#[ignore = "takes minutes: cargo xtask prove redis"]
fn prove() {
    // Behind the name of the test, which has no line of its own.
    println!();
    let rounds = number("TOLLGATE_ROUNDS").unwrap_or(10);
    let seed = number("TOLLGATE_SEED").unwrap_or_else(|| fastrand::u64(0..1 << 32));
    let violations: usize =
        chosen().map(|fault| fault.run(seed, rounds, Bounds::Promised).violations.len()).sum();
    assert_eq!(violations, 0, "violations, see above");
}

fn chosen() -> impl Iterator<Item = &'static Fault> {
    let name = env::var("TOLLGATE_FAULT").ok();
    let known = |name: &String| FAULTS.iter().any(|fault| fault.name == name);
    if let Some(name) = name.as_ref().filter(|name| !known(name)) {
        panic!("no fault has the name {name}; there are {}", FAULTS.map(|fault| fault.name).join(", "));
    }
    FAULTS.into_iter().filter(move |fault| name.as_ref().is_none_or(|name| fault.name == name))
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} has to be a number and is {text:?}")))
}
