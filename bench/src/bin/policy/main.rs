//! The cost of finding the policies of a request among many, and of building charges.
//!
//! The same mix of policies is built small and large. Each round measures all sizes in turn, so that a disturbance of
//! the machine affects all of them. The figure is the median of the rounds. Exactly two policies apply to each request,
//! and a run that finds others fails.
//!
//! A third policy, which applies to all requests, shows the cost of a table of overrides: it is measured without one,
//! and with one of 100,000 values.

#[cfg(feature = "limitador")]
mod limitador;
mod mix;

use std::hint::black_box;

use anyhow::{Result, bail};
use clap::Parser;
use tollgate_bench_harness::affinity::pin_this_thread;
use tollgate_bench_harness::samples::{Samples, figure};
use tollgate_bench_harness::stopwatch::time_on_core;
use tollgate_policy::{Attributes, Config, Outcome};

use self::mix::{Mix, Request};

/// Measures what matching costs in files of 100 and of 10,000 policies, compared with limitador on equal rules if it
/// was built with the feature `limitador`.
#[derive(Debug, Parser)]
struct Args {
    /// Rounds; the figure is their median
    #[arg(long, default_value_t = 9)]
    rounds: u32,
    /// Length of one measurement in milliseconds
    #[arg(long, default_value_t = 300)]
    millis: u64,
    /// Two rounds of 20 ms: shows that the bench runs, not how fast anything is
    #[arg(long)]
    quick: bool,
}

const SMALL: usize = 100;
const LARGE: usize = 10_000;

/// Values in the table; each request looks up one of them.
const VALUES: usize = 100_000;

fn main() -> Result<()> {
    let args = Args::parse();
    let (rounds, millis) = if args.quick { (2, 20) } else { (args.rounds, args.millis) };
    pin_this_thread(0)?;
    let subjects = [Subject::new(SMALL)?, Subject::new(LARGE)?];
    let tables = [Subject::with_table(SMALL, 0)?, Subject::with_table(SMALL, VALUES)?];
    let mut ours = [Samples::default(), Samples::default()];
    let mut theirs = ours.clone();
    let mut table_samples = ours.clone();
    for round in 1..=rounds {
        for ((subject, ours), theirs) in subjects.iter().zip(&mut ours).zip(&mut theirs) {
            let Subject { mix, limitador, .. } = subject;
            ours.push(nanoseconds(millis, mix.requests.len(), || subject.ours())?);
            // A check of limitador may take milliseconds, so it gets a few requests at a time.
            if let (Some(limitador), Some(few)) = (limitador, mix.requests.get(..FEW)) {
                theirs.push(nanoseconds(millis, FEW, || limitador(few))?);
            }
        }
        for (subject, samples) in tables.iter().zip(&mut table_samples) {
            samples.push(nanoseconds(millis, subject.mix.requests.len(), || subject.ours())?);
        }
        eprintln!("round {round} of {rounds}");
    }
    let is_beside = subjects.iter().all(|subject| subject.limitador.is_some());
    let print_result = |name: &str, ours: f64, theirs: f64| {
        let beside = if is_beside { format!(" limitador={}", figure(theirs)) } else { String::new() };
        println!("RESULT policy/{name}={}{beside}", figure(ours));
    };
    let ([small, large], [small_limitador, large_limitador]) =
        (ours.each_ref().map(Samples::median), theirs.each_ref().map(Samples::median));
    print_result("match-100 ns", small, small_limitador);
    print_result("match-10k ns", large, large_limitador);
    print_result("growth-10k ratio", large / small, large_limitador / small_limitador);
    let [without, with] = table_samples.each_ref().map(Samples::median);
    println!("RESULT policy/table-none ns={}", figure(without));
    println!("RESULT policy/table-100k ns={} ratio={}", figure(with), figure(with / without));
    println!("\n{:<10} {:>12} {:>12}", "policies", "spread ns", "limitador");
    for ((size, ours), theirs) in [SMALL, LARGE].iter().zip(&ours).zip(&theirs) {
        println!("{size:<10} {ours:>12} {theirs:>12}");
    }
    Ok(())
}

/// Returns the nanoseconds on the core for one request. Repeats the batch of this many requests until the time is over.
fn nanoseconds(millis: u64, batch: usize, mut run: impl FnMut() -> Result<()>) -> Result<f64> {
    let began = time_on_core();
    let elapsed = || time_on_core().saturating_sub(began);
    let mut batches = 0_u32;
    while batches == 0 || elapsed().as_millis() < u128::from(millis) {
        run()?;
        batches += 1;
    }
    Ok(elapsed().as_nanos() as f64 / f64::from(batches) / batch as f64)
}

/// Requests in one batch for limitador.
const FEW: usize = 8;

/// Checks each of these requests with another limiter. Fails unless exactly two policies apply.
type Peer = Box<dyn Fn(&[Request]) -> Result<()>>;

/// One size of the mix, in both limiters.
struct Subject {
    mix: Mix,
    config: Config,
    limitador: Option<Peer>,
    /// Policies that apply to each request.
    applying: usize,
}

impl Subject {
    fn new(policies: usize) -> Result<Self> {
        let mix = Mix::new(policies);
        Ok(Self {
            config: Config::parse("mix.yaml", &mix.file)?,
            limitador: limitador(&mix)?,
            mix,
            applying: 2,
        })
    }

    /// The same with one more policy, which applies to all requests and has a table of this many values.
    fn with_table(policies: usize, values: usize) -> Result<Self> {
        let mut mix = Mix::new(policies);
        mix.add_table(values);
        Ok(Self { config: Config::parse("mix.yaml", &mix.file)?, limitador: None, mix, applying: 3 })
    }

    /// Takes every request from its attributes to its charges.
    fn ours(&self) -> Result<()> {
        for request in &self.mix.requests {
            let Request(pairs) = request;
            let attributes: Attributes<'_> =
                pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
            match self.config.policies().charges(&attributes, 1) {
                Ok(Outcome::Charge(matched)) if black_box(matched.enforced().count()) == self.applying => {}
                other => bail!("{request:?} is not charged by {} policies: {other:?}", self.applying),
            }
        }
        Ok(())
    }
}

#[cfg(feature = "limitador")]
fn limitador(mix: &Mix) -> Result<Option<Peer>> {
    limitador::with(mix).map(Some)
}

#[cfg(not(feature = "limitador"))]
fn limitador(_: &Mix) -> Result<Option<Peer>> {
    Ok(None)
}
