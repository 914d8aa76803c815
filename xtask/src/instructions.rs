//! `cargo xtask bench instructions`: counts the instructions of hot paths under callgrind. Other than times, they
//! depend neither on the machine nor on what else it does, so a test can guard them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::command::{command, program, target_directory};
use crate::steps::CheckOutcome;
use crate::system;

/// The accepted figures: the compiler in the first line, then a case and its instructions in each.
const FIGURES: &str = "bench/results/instructions.txt";

/// How many times a case is run for each of the two counts. The second includes what happens at startup only once more.
const RUNS: [u64; 2] = [300, 1_300];

/// The runs of a case that takes few instructions.
const MANY_RUNS: [u64; 2] = [3_000, 23_000];

/// How much more a case may take, in hundredths.
const TOLERANCE: u64 = 3;

type InstructionCounts = BTreeMap<String, u64>;

/// Counts all cases and compares them with the accepted figures, or accepts them.
pub(crate) fn run(accept: bool) -> Result<CheckOutcome> {
    let mut counted = count_libraries()?;
    counted.extend(count_others()?);
    if accept {
        let compiler = compiler()?;
        let lines = counted.iter().fold(compiler + "\n", |mut text, (case, figure)| {
            // Writing into a string does not fail.
            let _ = writeln!(text, "{case} {figure}");
            text
        });
        fs::write(FIGURES, lines).with_context(|| format!("cannot write {FIGURES}"))?;
        return Ok(CheckOutcome::Passed);
    }
    match accepted()? {
        Some(accepted) => compare(&counted, &accepted),
        None => Ok(CheckOutcome::No),
    }
}

/// Counts the cases that are soon built, and compares them with the accepted figures.
pub(crate) fn check_libraries() -> Result<CheckOutcome> {
    match accepted()? {
        Some(accepted) => compare(&count_libraries()?, &accepted),
        None => Ok(CheckOutcome::No),
    }
}

/// Returns the accepted figures, if they are those of our compiler.
fn accepted() -> Result<Option<InstructionCounts>> {
    let text = fs::read_to_string(FIGURES).with_context(|| format!("cannot read {FIGURES}"))?;
    let (theirs, accepted) = parse(&text)?;
    if theirs != compiler()? {
        eprintln!("not compared, because {FIGURES} has the figures of {theirs}");
        return Ok(None);
    }
    Ok(Some(accepted))
}

fn compiler() -> Result<String> {
    Ok(command("rustc --version").read()?.trim().to_owned())
}

fn compare(counted: &InstructionCounts, accepted: &InstructionCounts) -> Result<CheckOutcome> {
    let wrong = beyond(counted, accepted);
    ensure!(
        wrong.is_empty(),
        "{}\nTo accept this, run `cargo xtask bench instructions --accept`, and say in the commit why",
        wrong.join("\n")
    );
    Ok(CheckOutcome::Passed)
}

fn count_libraries() -> Result<InstructionCounts> {
    count_all(&[], |_| true)
}

/// Those of the libraries are left out, because they have other features in this build.
fn count_others() -> Result<InstructionCounts> {
    count_all(&["--features", "all-cases"], |case| asks_service(case) || case == "log-line")
}

fn asks_service(case: &str) -> bool {
    case.starts_with("door-")
}

fn count_all(features: &[&str], is_chosen: impl Fn(&str) -> bool) -> Result<InstructionCounts> {
    system::VALGRIND.require()?;
    command("cargo build --locked --profile instructions --package tollgate-instructions")
        .arguments(features)
        // An incremental build inlines less.
        .environment("CARGO_INCREMENTAL", "0")
        .run()?;
    let binary = target_directory()?.join("instructions/tollgate-instructions");
    let cases = program(&binary).read()?;
    let mut figures = InstructionCounts::new();
    for case in cases.lines().filter(|case| is_chosen(case)) {
        let figure = count(&binary, case)?;
        println!("RESULT instructions/{case} count={figure}");
        figures.insert(case.to_owned(), figure);
    }
    Ok(figures)
}

/// Returns the instructions of one run of a case.
fn count(binary: &Path, case: &str) -> Result<u64> {
    let runs = if asks_service(case) { RUNS } else { MANY_RUNS };
    let [few, many] = runs.map(|runs| instructions(binary, case, runs));
    Ok(many?.saturating_sub(few?) / (runs[1] - runs[0]))
}

/// Returns the instructions of a process that runs a case so many times.
fn instructions(binary: &Path, case: &str, runs: u64) -> Result<u64> {
    let file = output()?;
    command("valgrind --quiet --tool=callgrind")
        .argument(format!("--callgrind-out-file={}", file.display()))
        .argument(binary)
        .arguments([case, &runs.to_string()])
        .run()?;
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok());
    total.with_context(|| format!("{} has no total", file.display()))
}

fn output() -> Result<PathBuf> {
    Ok(target_directory()?.join("callgrind.out"))
}

fn parse(text: &str) -> Result<(&str, InstructionCounts)> {
    let (compiler, lines) = text.split_once('\n').context("no line with the compiler")?;
    let figure = |line: &str| {
        let (case, figure) = line.split_once(' ').with_context(|| format!("`{line}` is not a figure"))?;
        Ok((case.to_owned(), figure.parse().with_context(|| format!("`{line}` is not a figure"))?))
    };
    Ok((compiler, lines.lines().map(figure).collect::<Result<_>>()?))
}

/// Returns a line for each case that takes more instructions than accepted, and for each without an accepted figure.
fn beyond(counted: &InstructionCounts, accepted: &InstructionCounts) -> Vec<String> {
    let mut wrong = Vec::new();
    for (case, figure) in counted {
        match accepted.get(case) {
            None => wrong.push(format!("{case}: {figure} instructions, and no figure in {FIGURES}")),
            Some(accepted) if figure * 100 > accepted * (100 + TOLERANCE) => wrong.push(format!(
                "{case}: {figure} instructions, more than {TOLERANCE} % above the {accepted} in {FIGURES}"
            )),
            Some(accepted) if figure * (100 + TOLERANCE) < accepted * 100 => {
                eprintln!("{case}: {figure} instructions instead of {accepted}: accept this with --accept");
            }
            Some(_) => {}
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_three_hundredths_above_is_wrong() {
        let (compiler, accepted) = parse("rustc 1.95.0\na 1000\nb 1000\nc 1000\n").unwrap();
        assert_eq!(compiler, "rustc 1.95.0");
        let counted = [("a", 1_030), ("b", 1_031), ("c", 500), ("d", 1)];
        let counted = counted.map(|(case, figure)| (case.to_owned(), figure)).into();
        let wrong = beyond(&counted, &accepted);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].starts_with("b: 1031 instructions") && wrong[1].starts_with("d: "), "{wrong:?}");
    }

    #[test]
    fn a_line_without_a_figure_is_refused() {
        assert!(parse("rustc\ncase\n").is_err());
    }
}
