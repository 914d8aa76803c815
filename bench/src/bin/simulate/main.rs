//! Lines of logs a second that `tollgate simulate` replays, compared with programs that count the same lines.
//!
//! Each program reads the same file from the page cache, in a process of its own with all its threads, and takes turns
//! with the others. Logs that are too large for a file are made while they are read.

mod endless;
mod log;
mod peers;
mod process;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use tollgate_bench_harness::samples::{Samples, figure};
use tollgate_bench_harness::stopwatch::Stopwatch;

use self::log::{Form, Traffic};
use self::process::{Ended, run};

/// Measures lines a second of `tollgate simulate`, compared with GoAccess and DuckDB.
#[derive(Debug, Parser)]
struct Args {
    /// Run only cases whose name contains this
    #[arg(default_value = "")]
    filter: String,
    /// The binary with `simulate`
    #[arg(long)]
    tollgate: PathBuf,
    /// A Python with the package `duckdb`
    #[arg(long)]
    python: PathBuf,
    /// Where logs are written
    #[arg(long)]
    folder: PathBuf,
    /// How often each program reads a file; a figure is the median
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Lines of a file
    #[arg(long, default_value_t = 2_000_000)]
    lines: u64,
    /// Lines of the case `flat`; 100 million take some two minutes
    #[arg(long, default_value_t = 30_000_000)]
    flat_lines: u64,
    /// A few lines: shows that the bench runs, not how fast anything is
    #[arg(long)]
    quick: bool,
}

/// Two policies that together match every request. A denied request takes nothing, so DuckDB can find by counting
/// alone what they deny.
const POLICIES: &str = "policies:
  - { name: login, match: { path: /login }, key: [ip], quotas: [5/1m] }
  - { name: pages, match: { path: { not: /login } }, key: [ip], quotas: [60/1m] }
";

/// Two policies of which one applies to every request. So the curve of neither can be calculated, and the engine tries
/// other limits.
const OVERLAPPING: &str = "policies:
  - { name: login, match: { path: /login }, key: [ip], quotas: [5/1m] }
  - { name: all, key: [ip], quotas: [60/1m] }
";

/// One policy, and several that apply to the same requests, so that the engine tries other limits of each.
const ONE: &str = "policies:
  - { name: all, key: [ip], quotas: [60/1m] }
";
const SEVERAL: &str = "policies:
  - { name: all, key: [ip], quotas: [60/1m] }
  - { name: hours, key: [ip], quotas: [600/1h] }
  - { name: pages, match: { path: { not: /login } }, key: [ip], quotas: [40/1m] }
";

/// Clients of the cases in files, and of `flat`.
const CLIENTS: u32 = 100_000;

fn main() -> Result<()> {
    let mut args = Args::parse();
    if args.quick {
        (args.rounds, args.lines, args.flat_lines) = (1, 20_000, 12_000);
    }
    fs::create_dir_all(&args.folder).with_context(|| format!("cannot make {}", args.folder.display()))?;
    let (policies, overlapping) = (args.folder.join("policies.yaml"), args.folder.join("overlapping.yaml"));
    for (path, text) in [(&policies, POLICIES), (&overlapping, OVERLAPPING)] {
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mut has_run = false;
    for (name, form) in [("combined", Form::Combined), ("json", Form::Json)] {
        if name.contains(&args.filter) {
            files(&args, name, form, &policies)?;
            has_run = true;
        }
    }
    if "overlapping".contains(&args.filter) {
        tries(&args, &overlapping)?;
        has_run = true;
    }
    if "several".contains(&args.filter) {
        several(&args)?;
        has_run = true;
    }
    if "clients-10m".contains(&args.filter) {
        let clients = if args.quick { 5_000 } else { 10_000_000 };
        many_clients(&args, clients, &policies)?;
        has_run = true;
    }
    if "flat".contains(&args.filter) {
        endless::flat(&tollgate(&args, &policies), args.flat_lines, Traffic::of(CLIENTS))?;
        has_run = true;
    }
    ensure!(has_run, "no case has `{}` in its name", args.filter);
    Ok(())
}

fn tollgate(args: &Args, policies: &Path) -> impl Fn(&[&str]) -> Command + use<> {
    let (binary, policies) = (args.tollgate.clone(), policies.to_owned());
    move |more| {
        let mut command = Command::new(&binary);
        command.arg("simulate").arg(&policies).arg("--json").args(more);
        command
    }
}

/// A program, and how it did.
struct Row {
    name: &'static str,
    command: Box<dyn Fn() -> Command>,
    lines_per_s: Samples,
    resident_mib: Samples,
}

impl Row {
    fn new(name: &'static str, command: impl Fn() -> Command + 'static) -> Self {
        let (lines_per_s, resident_mib) = Default::default();
        Self { name, command: Box::new(command), lines_per_s, resident_mib }
    }
}

/// All programs on one file.
fn files(args: &Args, case: &str, form: Form, policies: &Path) -> Result<()> {
    let path = args.folder.join(format!("{case}.log"));
    log::write(&path, form, args.lines, Traffic::of(CLIENTS))?;
    let (ours, file) = (tollgate(args, policies), path.display().to_string());
    let mut rows = vec![Row::new("tollgate", move || ours(&[&file]))];
    if form == Form::Combined {
        rows.push(Row::new("goaccess", {
            let path = path.clone();
            move || peers::goaccess(&path)
        }));
    }
    let python = args.python.clone();
    rows.push(Row::new("duckdb", {
        let path = path.clone();
        move || peers::duckdb(&python, form, &path)
    }));
    for round in 1..=args.rounds {
        let watch = Stopwatch::start();
        let mut denied = Vec::new();
        for row in &mut rows {
            let Ended { seconds, resident_bytes, output, .. } = run((row.command)())?;
            row.lines_per_s.push(args.lines as f64 / seconds);
            row.resident_mib.push(resident_bytes as f64 / f64::from(1 << 20));
            denied.extend(peers::denied(row.name, &output)?);
        }
        // The clients of both are the same, and so are the windows: whole minutes.
        ensure!(denied.iter().all(|other| Some(other) == denied.first()), "they deny {denied:?} requests");
        eprintln!("round {round} of {}: {:.1} s", args.rounds, watch.elapsed().as_secs_f64());
    }
    fs::remove_file(&path).with_context(|| format!("cannot delete {}", path.display()))?;
    print(case, &rows);
    Ok(())
}

/// With and without other limits that the engine tries.
fn tries(args: &Args, policies: &Path) -> Result<()> {
    let path = args.folder.join("overlapping.log");
    log::write(&path, Form::Combined, args.lines, Traffic::of(CLIENTS))?;
    let (ours, file) = (tollgate(args, policies), path.display().to_string());
    for tries in ["0", "4"] {
        let (mut lines_per_s, mut resident_mib) = (Samples::default(), Samples::default());
        for _ in 0..args.rounds {
            let ended = run(ours(&[&file, "--try-limits", tries]))?;
            lines_per_s.push(args.lines as f64 / ended.seconds);
            resident_mib.push(ended.resident_bytes as f64 / f64::from(1 << 20));
        }
        println!(
            "RESULT simulate/overlapping/tries-{tries} lines_per_s={:.0} resident_mib={:.0}",
            lines_per_s.median(),
            resident_mib.median()
        );
    }
    fs::remove_file(&path).with_context(|| format!("cannot delete {}", path.display()))
}

/// The processor time of several policies with tried limits, and of one without.
fn several(args: &Args) -> Result<()> {
    let path = args.folder.join("several.log");
    log::write(&path, Form::Combined, args.lines, Traffic::of(CLIENTS))?;
    let file = path.display().to_string();
    let run_with = |name: &str, text: &str, more: &[&str]| -> Result<Ended> {
        let policies = args.folder.join(name);
        fs::write(&policies, text).with_context(|| format!("cannot write {}", policies.display()))?;
        run(tollgate(args, &policies)(&[&[file.as_str()], more].concat()))
    };
    let (mut one, mut several, mut resident_mib) =
        (Samples::default(), Samples::default(), Samples::default());
    for _ in 0..args.rounds {
        one.push(run_with("one.yaml", ONE, &["--try-limits", "0"])?.processor_seconds);
        let ended = run_with("several.yaml", SEVERAL, &[])?;
        several.push(ended.processor_seconds);
        resident_mib.push(ended.resident_bytes as f64 / f64::from(1 << 20));
    }
    println!(
        "RESULT simulate/several processor_s={} one_processor_s={} ratio={} resident_mib={:.0}",
        figure(several.median()),
        figure(one.median()),
        figure(several.ratios(&one).median()),
        resident_mib.median()
    );
    fs::remove_file(&path).with_context(|| format!("cannot delete {}", path.display()))
}

fn print(case: &str, rows: &[Row]) {
    let Some((ours, others)) = rows.split_first() else { return };
    for other in others {
        println!(
            "RESULT simulate/{case}/{} lines_per_s={:.0} peer_lines_per_s={:.0} ratio={} resident_mib={:.0} peer_resident_mib={:.0}",
            other.name,
            ours.lines_per_s.median(),
            other.lines_per_s.median(),
            figure(ours.lines_per_s.ratios(&other.lines_per_s).median()),
            ours.resident_mib.median(),
            other.resident_mib.median(),
        );
    }
    println!("\n{case:<12} {:>12}  {:<24} {:>9}", "lines/s", "spread", "MiB");
    for row in rows {
        println!(
            "{:<12} {:>12.0}  {:<24} {:>9.0}",
            row.name,
            row.lines_per_s.median(),
            row.lines_per_s.to_string(),
            row.resident_mib.median()
        );
    }
    println!();
}

/// Twice as many lines as clients, all of whom are followed.
fn many_clients(args: &Args, clients: u32, policies: &Path) -> Result<()> {
    let ours = tollgate(args, policies);
    for max in [20_000_000, 2_000_000] {
        let command = ours(&["-", "--max-clients", &max.to_string()]);
        let lines = u64::from(clients) * 2;
        let Ended { seconds, resident_bytes, output, .. } =
            endless::run(command, lines, Traffic::growing_to(clients), |_, _| {})?;
        let report = peers::report(&output)?;
        let followed = clients <= max;
        ensure!(!followed || report.clients == u64::from(clients), "{} clients", report.clients);
        println!(
            "RESULT simulate/clients-10m/max-{max} lines_per_s={:.0} resident_mib={:.0}",
            lines as f64 / seconds,
            resident_bytes as f64 / f64::from(1 << 20)
        );
    }
    Ok(())
}
