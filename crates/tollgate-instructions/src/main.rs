//! Runs one part of Tollgate so many times: `tollgate-instructions charge-hot 1000`.
//!
//! `cargo xtask bench instructions` runs it under callgrind with two numbers of runs; the difference is free of what
//! happens at startup. The allocator is that of the system, because another one does not run there.

#[cfg(feature = "all-cases")]
mod door;
mod library;
#[cfg(feature = "all-cases")]
mod logs;

use anyhow::{Context, Result, bail};

/// What a case does once.
type CaseRun = Box<dyn FnMut() -> Result<()>>;

/// Returns a case by its name, ready to run this many times.
type Prepare = fn(runs: usize) -> Result<CaseRun>;

/// The names of all cases.
const CASES: &[(&str, Prepare)] = &[
    ("charge-hot", library::charge_hot),
    ("charge-cold", library::charge_cold),
    ("charge-denied", library::charge_denied),
    ("charge-two-quotas", library::charge_two_quotas),
    ("hold", library::hold),
    ("reserve", library::reserve),
    ("policy-match", library::policy_match),
    ("headers", library::headers),
    ("headers-denied", library::headers_denied),
    #[cfg(feature = "all-cases")]
    ("log-line", logs::line),
    #[cfg(feature = "all-cases")]
    ("door-get", door::get),
    #[cfg(feature = "all-cases")]
    ("door-post", door::post),
    #[cfg(feature = "all-cases")]
    ("door-batch", door::batch),
    #[cfg(feature = "all-cases")]
    ("door-grpc", door::grpc),
];

/// Without arguments, prints the names of all cases.
fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, runs] = &arguments[..] else {
        CASES.iter().for_each(|(name, _)| println!("{name}"));
        return Ok(());
    };
    let Some((_, prepare)) = CASES.iter().find(|(case, _)| case == name) else {
        bail!("no case is named {name}")
    };
    let runs = runs.parse().context("the number of runs")?;
    let mut run = prepare(runs)?;
    for _ in 0..runs {
        run()?;
    }
    Ok(())
}
