//! The time that limits add to a request, compared with tower_governor.
//!
//! Every service gets the same requests and is polled to its response, on one thread and without sockets. The time of
//! the bare service is subtracted. Each round measures all services in turn, so that a disturbance of the machine
//! affects all of them. The figure is the median of the rounds.

mod services;
mod subject;

use anyhow::{Context, Result};
use clap::Parser;
use tollgate_bench_harness::affinity::pin_this_thread;
use tollgate_bench_harness::samples::{Samples, figure};
use tollgate_bench_harness::stopwatch::Stopwatch;

use self::services::{
    Bare, DRAFT_11, DRAFT_11_NO_DECISION, GOVERNOR, GOVERNOR_HEADERS, NO_HEADERS, NO_HEADERS_NO_DECISION,
    POLICIES, X_RATELIMIT,
};
use self::subject::{Clients, Subject};

/// Measures what limits add to a request, compared with those of tower_governor.
#[derive(Debug, Parser)]
struct Args {
    /// Rounds; the figure is their median
    #[arg(long, default_value_t = 15)]
    rounds: u32,
    /// Requests of one measurement
    #[arg(long, default_value_t = 200_000)]
    requests: u32,
    /// Two rounds of a few requests: shows that the bench runs, not how fast anything is
    #[arg(long)]
    quick: bool,
}

/// All measurements with this many clients, which take turns.
struct Case {
    /// Follows the names of its lines.
    suffix: &'static str,
    clients: Clients,
    bare: Row,
    rows: Vec<Row>,
}

/// The time that a service adds to the bare one, in nanoseconds per request.
struct Row {
    subject: Box<dyn Subject>,
    added: Samples,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let (rounds, requests) = if args.quick { (2, 5_000) } else { (args.rounds, args.requests) };
    pin_this_thread(0)?;
    let mut cases = [Case::new("", Clients::FEW)?, Case::new("-1m", Clients::MILLION)?];
    for round in 1..=rounds {
        let watch = Stopwatch::start();
        for case in &mut cases {
            let bare = case.bare.subject.nanos_a_request(case.clients, requests)?;
            case.bare.added.push(bare);
            for row in &mut case.rows {
                row.added.push(row.subject.nanos_a_request(case.clients, requests)? - bare);
            }
        }
        eprintln!("round {round} of {rounds}: {:.1} s", watch.elapsed().as_secs_f64());
    }
    for case in &cases {
        case.print_results()?;
    }
    for case in &cases {
        case.print_table();
    }
    println!("ns: what a request takes beyond the bare service");
    Ok(())
}

impl Case {
    /// Sends one request from every client, so that no request of the rounds is a client's first.
    fn new(suffix: &'static str, clients: Clients) -> Result<Self> {
        let row = |subject| Row { subject, added: Samples::default() };
        let (bare, mut rows) =
            (row(Bare::subject()), services::subjects()?.into_iter().map(row).collect::<Vec<_>>());
        for row in &mut rows {
            row.subject.meet_all(clients)?;
        }
        Ok(Self { suffix, clients, bare, rows })
    }

    fn added(&self, name: &str) -> Result<f64> {
        let row = self.rows.iter().find(|row| row.subject.name() == name);
        row.map(|row| row.added.median()).with_context(|| format!("{name} was not measured"))
    }

    fn print_results(&self) -> Result<()> {
        let suffix = self.suffix;
        for name in [NO_HEADERS, DRAFT_11, X_RATELIMIT] {
            println!("RESULT tower/allowed/{name}{suffix} ns={}", figure(self.added(name)?));
        }
        let line = |case: &str, ours: f64, governor: f64| {
            let ratio = figure(ours / governor);
            println!(
                "RESULT tower/{case}{suffix} ours={} governor={} ratio={ratio}",
                figure(ours),
                figure(governor)
            );
        };
        println!("RESULT tower/policies{suffix} ns={}", figure(self.added(POLICIES)?));
        // Equal work: both tell the client its limit and the remaining units, and pass nothing to the handler.
        let governor = self.added(GOVERNOR_HEADERS)?;
        line("vs-tower-governor", self.added(DRAFT_11_NO_DECISION)?, governor);
        // More work: by default, ours passes the decision to the handler.
        line("vs-tower-governor-default", self.added(DRAFT_11)?, governor);
        line("vs-tower-governor-silent", self.added(NO_HEADERS_NO_DECISION)?, self.added(GOVERNOR)?);
        Ok(())
    }

    fn print_table(&self) {
        println!("\n{:<28} {:>8}  {:<16}", format!("{} clients", self.clients.count()), "ns", "spread");
        println!(
            "{:<28} {:>8}  {:<16}",
            "bare, in all",
            figure(self.bare.added.median()),
            self.bare.added.to_string()
        );
        for row in &self.rows {
            let (name, median) = (row.subject.name(), figure(row.added.median()));
            println!("{name:<28} {median:>8}  {:<16}", row.added.to_string());
        }
    }
}
