//! What it takes to find the policies of a request among many, and to make charges of them.
//!
//! The same mix of policies is built small and large; rounds measure all sizes one after another, so that a
//! disturbance of the machine meets all of them. The figure is the median of the rounds. Of each request exactly
//! two policies apply, and a run that finds others fails.

mod mix;

use std::collections::HashMap;
use std::hint::black_box;

use anyhow::{Result, anyhow, bail};
use clap::Parser;
use limitador::RateLimiter;
use limitador::limit::{Context, Limit, Namespace};
use tollgate_bench_harness::affinity::pin_this_thread;
use tollgate_bench_harness::samples::{Samples, figure};
use tollgate_bench_harness::stopwatch::time_on_core;
use tollgate_policy::{Attributes, Config, Outcome};

use self::mix::{Mix, Request};

/// Measures what matching costs in files of 100 and of 10,000 policies, beside limitador on equal rules.
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

fn main() -> Result<()> {
    let args = Args::parse();
    let (rounds, millis) = if args.quick { (2, 20) } else { (args.rounds, args.millis) };
    pin_this_thread(0)?;
    let subjects = [Subject::new(SMALL)?, Subject::new(LARGE)?];
    let mut ours = [Samples::default(), Samples::default()];
    let mut theirs = ours.clone();
    for round in 1..=rounds {
        for ((subject, ours), theirs) in subjects.iter().zip(&mut ours).zip(&mut theirs) {
            ours.push(nanoseconds(millis, subject.mix.requests.len(), || subject.ours())?);
            // A check of limitador's may take milliseconds, so there it is a few requests at a time.
            theirs.push(nanoseconds(millis, FEW, || subject.limitador())?);
        }
        eprintln!("round {round} of {rounds}");
    }
    let ([small, large], [small_limitador, large_limitador]) =
        (ours.each_ref().map(Samples::median), theirs.each_ref().map(Samples::median));
    println!("RESULT policy/match-100 ns={} limitador={}", figure(small), figure(small_limitador));
    println!("RESULT policy/match-10k ns={} limitador={}", figure(large), figure(large_limitador));
    println!(
        "RESULT policy/growth-10k ratio={} limitador={}",
        figure(large / small),
        figure(large_limitador / small_limitador)
    );
    println!("\n{:<10} {:>12} {:>12}", "policies", "spread ns", "limitador");
    for ((size, ours), theirs) in [SMALL, LARGE].iter().zip(&ours).zip(&theirs) {
        println!("{size:<10} {ours:>12} {theirs:>12}");
    }
    Ok(())
}

/// Nanoseconds on a core that one request takes: the batch, of so many requests, is run until the time is over.
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

/// Requests of limitador's in one batch.
const FEW: usize = 8;

/// One size of the mix, in both limiters.
struct Subject {
    mix: Mix,
    config: Config,
    limitador: RateLimiter,
    namespace: Namespace,
}

impl Subject {
    fn new(policies: usize) -> Result<Self> {
        let mix = Mix::new(policies);
        let config = Config::parse("mix.yaml", &mix.file)?;
        let limitador = RateLimiter::new(100_000);
        for (number, expression) in mix.expressions.iter().enumerate() {
            let condition =
                expression.as_str().try_into().map_err(|error| anyhow!("{expression}: {error}"))?;
            let variable = "user".try_into().map_err(|error| anyhow!("user: {error}"))?;
            // Rules are told apart by their windows and conditions.
            let mut limit = Limit::new("bench", 1_000_000, 60, [condition], [variable]);
            limit.set_name(format!("p{number}"));
            limitador.add_limit(limit);
        }
        Ok(Self { mix, config, limitador, namespace: "bench".into() })
    }

    /// Every request, from its attributes to its charges.
    fn ours(&self) -> Result<()> {
        for request in &self.mix.requests {
            let Request(pairs) = request;
            let attributes: Attributes<'_> =
                pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
            match self.config.policies().charges(&attributes, 1) {
                Ok(Outcome::Charge(matched)) if black_box(matched.enforced().count()) == 2 => {}
                other => bail!("{request:?} is charged by others than two: {other:?}"),
            }
        }
        Ok(())
    }

    /// A few requests, from their attributes to whether they have room.
    fn limitador(&self) -> Result<()> {
        for request in self.mix.requests.iter().take(FEW) {
            let values: HashMap<String, String> =
                request.0.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
            let answer = self.limitador.is_rate_limited(&self.namespace, &Context::from(values), 1);
            let answer = answer.map_err(|error| anyhow!("limitador: {error}"))?;
            if black_box(answer.counters.len()) != 2 {
                bail!("{request:?} is charged by others than two: {:?}", answer.counters);
            }
        }
        Ok(())
    }
}
