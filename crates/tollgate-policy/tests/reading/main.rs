//! Random files, and random requests for each, are decided twice: by Tollgate, and by a naive reading.
//!
//! The generator knows the content of a file before it is written, so nothing here parses YAML. The naive reading goes
//! policy by policy and condition by condition. It has its own wildcards, regular expressions, networks, paths, keys,
//! costs and precedence. A seed repeats one file with all its requests.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "this is a test")]

mod address;
mod draw;
mod expression;
mod file;
mod judge;
mod ledger;
mod path;
mod pattern;
mod run_override;
mod run_set;
mod shrink;
mod subject;
mod writer;

use std::env;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use tollgate::{Clock, SystemClock};

use self::draw::Draw;
use self::file::File;
use self::judge::{Outcome, Request};
use self::pattern::Pattern;
use self::run_override::{Moment, RunOverrides};
use self::subject::Subject;

/// Requests for each file; reading the file takes longer than deciding on them.
const REQUESTS: usize = 12;

/// A file, and the requests that are decided wrongly.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    file: File,
    overrides: RunOverrides,
    requests: Vec<Request>,
}

/// The number of each outcome, so that a proof in which nothing happens fails.
#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    requests: u64,
    exempt: u64,
    unmatched: u64,
    listed: u64,
    unknown: u64,
    wrong: u64,
    unreadable: u64,
    foreign: u64,
    charged: u64,
    tried: u64,
    would_deny: u64,
    /// Requests that are decided otherwise because of an override.
    overridden: u64,
    overridden_denials: u64,
    /// Requests with a path in whose two readings different policies match.
    read_twice: u64,
}

struct Found {
    seed: u64,
    case: Case,
    fault: String,
}

struct Search {
    files: u64,
    tally: Tally,
    found: Option<Found>,
}

#[test]
fn files_mean_what_a_naive_reading_of_them_says() {
    let search = run(1, 500);
    assert!(search.found.is_none(), "{}", search.told());
    search.tally.has_all();
}

#[test]
#[ignore = "takes its time: cargo xtask prove policies"]
fn prove() {
    let number = |name| env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let (first, files) =
        (number("TOLLGATE_SEED").unwrap_or(1), number("TOLLGATE_FILES").unwrap_or(1_000_000));
    let start = SystemClock.now();
    let search = run(first, files);
    let seconds = SystemClock.now().since(start).as_secs_f64().max(0.001);
    let Search { files, tally, found } = &search;
    println!(
        "\nRESULT prove/policies files={files} requests={} seconds={seconds:.0} charged={} exempt={} denied={} \
         wrong={} unreadable={} foreign={} overridden={} read_twice={} violations={}",
        tally.requests,
        tally.charged,
        tally.exempt,
        tally.unmatched + tally.listed + tally.unknown,
        tally.wrong,
        tally.unreadable,
        tally.foreign,
        tally.overridden,
        tally.read_twice,
        u8::from(found.is_some())
    );
    assert!(found.is_none(), "{}", search.told());
}

/// Finds the bug that was put into the sources.
#[test]
#[ignore = "no bug is planted: cargo xtask prove policies --planted"]
fn a_planted_bug_is_found() {
    let Search { files, found, .. } = run(1, 100_000);
    let found = found.expect("the bug is found");
    println!("\nFOUND files={files} by={}", found.fault.lines().next().unwrap_or_default());
}

/// Tries the files of these seeds on all cores, until one fails.
fn run(first: u64, files: u64) -> Search {
    let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let all = Mutex::new(Search { files: 0, tally: Tally::default(), found: None });
    let work = || {
        let mut tally = Tally::default();
        let mut judged = 0;
        while !stop.load(Ordering::Relaxed) {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= files {
                break;
            }
            if number > 0 && number.is_multiple_of(100_000) {
                eprintln!("{number} of {files} files");
            }
            let seed = first.wrapping_add(number);
            let mut draw = Draw::new(seed);
            let file = draw.file();
            let overrides = draw.run_overrides(&file);
            let requests = (0..REQUESTS).map(|_| draw.request()).collect();
            let case = Case { file, overrides, requests };
            judged += 1;
            if let Err(fault) = case.judge(&mut tally) {
                stop.store(true, Ordering::Relaxed);
                let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                all.found.get_or_insert(Found { seed, case, fault });
            }
        }
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        all.files += judged;
        all.tally.add(tally);
    };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(work))));
    all.into_inner().unwrap_or_else(PoisonError::into_inner)
}

impl Case {
    /// Returns what is wrong, if anything.
    fn judge(&self, tally: &mut Tally) -> Result<(), String> {
        let mut subject = Subject::read(&self.file, &self.overrides)?;
        let none = RunOverrides::default();
        for request in &self.requests {
            let outcome = |overrides| {
                judge::outcome(&self.file, &request.values(), request.cost, (overrides, Moment::Known))
            };
            tally.count(&outcome(&none));
            let under = outcome(subject.overrides());
            tally.overridden += u64::from(under != outcome(&none));
            tally.overridden_denials += u64::from(matches!(under, Outcome::DeniedByOverride(_)));
            tally.read_twice += u64::from(judge::depends_on_reading(&self.file, &request.values()));
            subject.agrees(request).map_err(|fault| format!("{fault}\n{request:?}"))?;
        }
        Ok(())
    }
}

impl Search {
    /// Reports the failure in its shortest form, with the command that repeats it.
    fn told(&self) -> String {
        let Some(Found { seed, case, fault }) = &self.found else { return "nothing was found".to_owned() };
        let small = shrink::shrink(case, |case| case.judge(&mut Tally::default()).is_err());
        let fault = small.judge(&mut Tally::default()).err().unwrap_or_else(|| fault.clone());
        let texts = small.file.written();
        let beside: String =
            texts.beside.iter().map(|(name, text)| format!("\n--- {name}\n{text}")).collect();
        format!(
            "seed {seed}: {fault}\n\n--- file\n{}{beside}\n\
             Run it again: cargo xtask prove policies --seed {seed} --files 1\n",
            texts.policies
        )
    }
}

impl Tally {
    fn count(&mut self, outcome: &Outcome) {
        self.requests += 1;
        match outcome {
            Outcome::Exempt(_) => self.exempt += 1,
            Outcome::DeniedAsUnmatched => self.unmatched += 1,
            Outcome::DeniedAsListed => self.listed += 1,
            Outcome::DeniedAsUnknown(_) => self.unknown += 1,
            Outcome::DeniedByOverride(_) => {}
            Outcome::Wrong { foreign, .. } if !foreign.is_empty() => self.foreign += 1,
            Outcome::Wrong { unreadable, .. } if !unreadable.is_empty() => self.unreadable += 1,
            Outcome::Wrong { .. } => self.wrong += 1,
            Outcome::Counted { deciding, tried, would_deny } => {
                self.charged += u64::from(!deciding.is_empty());
                self.tried += u64::from(!tried.is_empty());
                self.would_deny += u64::from(!would_deny.is_empty());
            }
        }
    }

    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.exempt += other.exempt;
        self.unmatched += other.unmatched;
        self.listed += other.listed;
        self.unknown += other.unknown;
        self.wrong += other.wrong;
        self.unreadable += other.unreadable;
        self.foreign += other.foreign;
        self.charged += other.charged;
        self.tried += other.tried;
        self.would_deny += other.would_deny;
        self.overridden += other.overridden;
        self.overridden_denials += other.overridden_denials;
        self.read_twice += other.read_twice;
    }

    /// Demands that each outcome occurs in at least one of a hundred requests.
    fn has_all(&self) {
        let Self {
            requests,
            exempt,
            unmatched,
            listed,
            unknown,
            wrong,
            unreadable,
            foreign,
            charged,
            tried,
            would_deny,
            overridden,
            overridden_denials,
            read_twice,
        } = *self;
        let outcomes = [
            exempt,
            unmatched,
            listed,
            unknown,
            wrong,
            unreadable,
            foreign,
            charged,
            tried,
            would_deny,
            overridden,
            overridden_denials,
            read_twice,
        ];
        let rarest = outcomes.into_iter().min();
        assert!(rarest.is_some_and(|rarest| rarest * 100 > requests), "{self:?}");
    }
}
