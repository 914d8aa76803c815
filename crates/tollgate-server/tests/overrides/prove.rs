//! What `cargo xtask prove overrides` runs, and a little of it for every test run.

use std::env;
use std::time::Duration;

use tollgate_testkit::servers::Software;

use crate::found::Found;
use crate::rounds::{LOSSY, Manner, PEACE, RESTART, ROUNDS, Round, STOP};
use crate::support::EVERY_LINE;

/// On a machine that does nothing else.
const STRICT: Manner = Manner { bound: Duration::from_millis(100), log_level: "info" };

/// For a machine that is busy with other tests.
const GENEROUS: Manner = Manner { bound: Duration::from_secs(10), log_level: "info" };

/// For a search for bugs, each of which is plain enough.
const SEARCHING: Manner = Manner { bound: Duration::from_millis(500), log_level: "info" };

/// Rounds among which a bug has to be found, and changes in each.
const SEARCHED: u64 = 10;
const CHANGES: u32 = 1_000;

#[test]
fn every_decision_is_what_the_version_that_it_names_says() {
    // Everything is logged, so that a key that is logged anywhere is found.
    let manner = Manner { log_level: EVERY_LINE, ..GENEROUS };
    expect_none(&PEACE.run(Software::Redis, 1, 150, manner));
    expect_none(&PEACE.run(Software::Valkey, 2, 150, GENEROUS));
}

#[test]
fn overrides_go_on_after_an_outage_and_a_restart() {
    expect_none(&STOP.run(Software::Valkey, 3, 50, GENEROUS));
    expect_none(&RESTART.run(Software::Redis, 4, 100, GENEROUS));
}

#[test]
fn a_failover_that_loses_changes_takes_them_back_in_both_services() {
    expect_none(&LOSSY.run(Software::Redis, 5, 100, GENEROUS));
}

/// Many changes: `TOLLGATE_CHANGES` in all. `TOLLGATE_FOUND_BY` chooses one kind of round.
#[test]
#[ignore = "takes minutes: cargo xtask prove overrides"]
fn prove() {
    println!();
    let (changes, seed) =
        (number("TOLLGATE_CHANGES").unwrap_or(10_000), number("TOLLGATE_SEED").unwrap_or(1));
    let rounds: Vec<Round> = match env::var("TOLLGATE_ROUND") {
        Ok(name) => vec![named(&name)],
        Err(_) => ROUNDS.into(),
    };
    let each = changes.div_ceil(2 * rounds.len() as u64);
    let mut all = Found::default();
    for (place, round) in rounds.iter().enumerate() {
        for software in Software::ALL {
            let seed = seed.wrapping_add(2 * place as u64);
            let found = round.run(software, seed, u32::try_from(each).expect("a small number"), STRICT);
            println!(
                "RESULT prove/overrides/{}/{} {found}",
                round.name,
                format!("{software:?}").to_lowercase()
            );
            all.add(found);
        }
    }
    println!("RESULT prove/overrides {all}");
    expect_none(&all);
}

/// The sources have a bug, and the round that the variable names finds it soonest.
#[test]
#[ignore = "there is no bug: cargo xtask prove overrides --planted"]
fn a_planted_bug_is_found() {
    let round = named(&env::var("TOLLGATE_FOUND_BY").expect("TOLLGATE_FOUND_BY is set"));
    let violation = (0..SEARCHED).find_map(|seed| {
        let found = round.run(Software::ALL[(seed % 2) as usize], seed, CHANGES, SEARCHING);
        Some((seed + 1, found.violations.into_iter().next()?))
    });
    let (rounds, violation) = violation.expect("the bug is found");
    let violation = violation.lines().next().unwrap_or_default();
    println!("\nFOUND rounds={rounds} round={} by={violation}", round.name);
}

fn expect_none(found: &Found) {
    assert!(found.violations.is_empty(), "{} violations, see above", found.violations.len());
}

fn named(name: &str) -> Round {
    let found = ROUNDS.into_iter().find(|round| round.name == name);
    found.unwrap_or_else(|| {
        let names: Vec<_> = ROUNDS.iter().map(|round| round.name).collect();
        panic!("no round has the name {name}; there are {}", names.join(", "))
    })
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} has to be a number and is {text:?}")))
}
