//! `cargo xtask prove --all`: every proof in turn, and one table of their results.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::command::program;
use crate::prove;
use crate::stopwatch::Stopwatch;

/// The end of one proof, and the RESULT lines that it printed.
struct ProofRun {
    proof: String,
    passed: bool,
    time: Duration,
    results: Vec<String>,
}

struct ProofTable(Vec<ProofRun>);

/// Runs all proofs, even after one has failed, and fails if any did. If `is_brief`, long searches take only minutes.
pub(crate) fn run(is_brief: bool) -> Result<()> {
    let proofs = prove::names();
    let (count, mut runs) = (proofs.len(), Vec::new());
    for (index, proof) in proofs.into_iter().enumerate() {
        eprintln!("\n=== proof {} of {count}, {proof}", index + 1);
        let arguments = if is_brief { prove::brief(&proof) } else { &[] };
        runs.push(ProofRun::of(proof, arguments)?);
    }
    let table = ProofTable(runs);
    println!("\n{table}");
    let failed: Vec<_> = table.0.iter().filter(|run| !run.passed).map(|run| run.proof.as_str()).collect();
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

impl ProofRun {
    fn of(proof: String, arguments: &[&str]) -> Result<Self> {
        let watch = Stopwatch::start();
        let this = std::env::current_exe().context("cannot find xtask's own program")?;
        let (mut child, output) =
            program(&this).arguments(["prove", &proof]).arguments(arguments).spawn_piped()?;
        let mut results = Vec::new();
        for line in BufReader::new(output).lines() {
            let line = line.with_context(|| format!("cannot read what the proof {proof} prints"))?;
            println!("{line}");
            // Some test harnesses print on a line that they have already begun.
            results.extend(line.split_once("RESULT ").map(|(_, result)| result.to_owned()));
        }
        let status = child.wait().with_context(|| format!("lost sight of the proof {proof}"))?;
        Ok(Self { proof, passed: status.success(), time: watch.elapsed(), results })
    }
}

/// Prints a line for each proof, and below it one for each of its results, with their names in one column.
impl fmt::Display for ProofTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let results = || self.0.iter().flat_map(|run| &run.results);
        let split = |line: &str| match line.split_once(' ') {
            Some((name, figures)) => (name.to_owned(), figures.to_owned()),
            None => (line.to_owned(), String::new()),
        };
        let width = results().map(|line| split(line).0.len()).max().unwrap_or_default();
        for run in &self.0 {
            let outcome = if run.passed { "passed" } else { "FAILED" };
            writeln!(f, "{:<8} {outcome} {:>8.1} s", run.proof, run.time.as_secs_f64())?;
            for line in &run.results {
                let (name, figures) = split(line);
                writeln!(f, "  {name:<width$}  {figures}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_every_proof_with_its_results_in_columns() {
        let run = |proof: &str, passed, results: &[&str]| ProofRun {
            proof: proof.to_owned(),
            passed,
            time: Duration::from_millis(1_250),
            results: results.iter().map(|&line| line.to_owned()).collect(),
        };
        let table = ProofTable(vec![
            run("alerts", true, &["prove/alerts violations=0"]),
            run("redis", false, &["prove/redis/cut rounds=1 violations=2", "prove/redis/clock rounds=1"]),
            run("miri", false, &[]),
        ]);
        let lines = [
            "alerts   passed      1.2 s",
            "  prove/alerts       violations=0",
            "redis    FAILED      1.2 s",
            "  prove/redis/cut    rounds=1 violations=2",
            "  prove/redis/clock  rounds=1",
            "miri     FAILED      1.2 s",
        ];
        assert_eq!(table.to_string(), lines.map(|line| format!("{line}\n")).concat());
    }
}
