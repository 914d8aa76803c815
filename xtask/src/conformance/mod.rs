//! `cargo xtask conformance`: the contract of clients, `docs/clients.md`, played against a client program.
//!
//! The program gets calls as lines of JSON on its standard input. The server that it calls follows a script, and reads
//! requests without a library that a client may use too.

mod cases;
mod difference;
mod driver;
mod reply;
mod request;
mod request_rules;
mod server;
mod stage;
mod strict_json;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fs, thread};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::json;

use self::cases::ConformanceCase;
use self::difference::{CaseOutcome, Difference};
use self::driver::ClientDriver;
use self::stage::Stage;
use crate::command::{CommandLine, program};
use crate::stopwatch::Stopwatch;

/// How many client programs run at the same time. Most cases wait.
const DRIVERS: usize = 4;

/// The longest that a case takes.
const CASE_LIMIT: Duration = Duration::from_secs(15);

/// How often a case is played in which something came late, because a busy machine can cause this.
const ATTEMPTS: u32 = 5;

/// What to play, and against which program.
#[derive(Debug, Args)]
pub(crate) struct ConformanceRun {
    /// Play only this case; can be given several times
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Print the cases as the table of docs/clients.md, and play nothing
    #[arg(long, conflicts_with_all = ["cases", "json", "command"])]
    list: bool,
    /// The client program and its arguments
    #[arg(last = true, required_unless_present = "list", value_name = "COMMAND")]
    command: Vec<String>,
}

/// How a case ended.
#[derive(Debug)]
struct CaseResult {
    case: ConformanceCase,
    outcome: CaseOutcome,
    attempts: u32,
    time: Duration,
}

impl ConformanceRun {
    /// Plays the cases against the program, which runs in this directory, and prints a line for each.
    pub(crate) fn run(&self, directory: &Path) -> Result<()> {
        if self.list {
            print!("{}", table());
            return Ok(());
        }
        let Some((name, arguments)) = self.command.split_first() else { bail!("no command was given") };
        let command = program(Path::new(name)).arguments(arguments).directory(directory.to_owned());
        let report = play(&command, &self.chosen()?)?;
        if self.json {
            println!("{}", report.json());
        } else {
            println!("{}", report.text());
        }
        report.expect_all_passed()
    }

    fn chosen(&self) -> Result<Vec<ConformanceCase>> {
        let all = cases::all();
        if self.cases.is_empty() {
            return Ok(all);
        }
        let find = |name: &String| {
            let names = || all.iter().map(|case| case.name).collect::<Vec<_>>().join(", ");
            let case = all.iter().find(|case| case.name == name).copied();
            case.with_context(|| format!("there is no case `{name}`; the cases are {}", names()))
        };
        self.cases.iter().map(find).collect()
    }
}

/// The results of a run, in the order of the cases.
#[derive(Debug)]
pub(crate) struct ConformanceReport {
    results: Vec<CaseResult>,
    time: Duration,
}

/// Plays all cases against a client program.
pub(crate) fn play_all(command: &CommandLine) -> Result<ConformanceReport> {
    play(command, &cases::all())
}

fn play(command: &CommandLine, cases: &[ConformanceCase]) -> Result<ConformanceReport> {
    let watch = Stopwatch::start();
    expect_program(command)?;
    let folder = ConformanceFolder::new()?;
    let next = Mutex::new(cases.iter().enumerate());
    let results = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..DRIVERS.min(cases.len()))
            .map(|_| {
                scope.spawn(|| {
                    let mut driver = ClientDriver::start(command)?;
                    loop {
                        let Some((index, case)) = lock(&next).next() else { return Ok(()) };
                        if !driver.is_usable() {
                            driver = ClientDriver::start(command)?;
                        }
                        let result =
                            play_case(*case, &mut driver, command, &folder.0.join(index.to_string()));
                        lock(&results).push((index, result?));
                    }
                })
            })
            .collect();
        let joined = workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        joined.collect::<Result<()>>()
    })?;
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    let results = results.into_iter().map(|(_, result)| result).collect();
    Ok(ConformanceReport { results, time: watch.elapsed() })
}

/// Fails if the program does not even make a client, so that this is one error instead of one for each case.
fn expect_program(command: &CommandLine) -> Result<()> {
    let start = json!({"do": "start", "url": "http://127.0.0.1:9"});
    match ClientDriver::start(command)?.ask(&start) {
        Ok(answer) if answer == json!({}) => Ok(()),
        Ok(answer) => bail!("`{command}` answered {answer} to {start}, expected {{}}"),
        Err(difference) => bail!("`{command}` is no client program: {difference}"),
    }
}

fn play_case(
    case: ConformanceCase,
    driver: &mut ClientDriver,
    command: &CommandLine,
    folder: &Path,
) -> Result<CaseResult> {
    let watch = Stopwatch::start();
    for attempts in 1.. {
        let folder = folder.join(attempts.to_string());
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        driver.limit(CASE_LIMIT);
        let mut stage = Stage::new(driver, command, &folder);
        let outcome = (case.play)(&mut stage);
        // A request that broke a rule may be the cause of what the case found.
        let outcome = stage.expect_right_requests().and(outcome);
        let is_final = attempts == ATTEMPTS || !outcome.as_ref().is_err_and(Difference::is_late);
        if is_final || !driver.is_usable() {
            return Ok(CaseResult { case, outcome, attempts, time: watch.elapsed() });
        }
    }
    bail!("a case was played without end")
}

impl ConformanceReport {
    fn passed(&self) -> usize {
        self.results.iter().filter(|result| result.outcome.is_ok()).count()
    }

    /// Returns `40 of 40 passed in 3.2 s`, and which cases were repeated.
    pub(crate) fn summary(&self) -> String {
        let repeated = self.results.iter().filter(|result| result.attempts > 1);
        let repeated: Vec<_> = repeated.map(|result| result.case.name).collect();
        let more = if repeated.is_empty() {
            String::new()
        } else {
            format!("; repeated because something came late: {}", repeated.join(", "))
        };
        let (passed, count) = (self.passed(), self.results.len());
        format!("{passed} of {count} passed in {:.1} s{more}", self.time.as_secs_f64())
    }

    /// Returns a line for each case, and the summary.
    fn text(&self) -> String {
        let mut text = String::new();
        for CaseResult { case, outcome, .. } in &self.results {
            match outcome {
                Ok(()) => text += &format!("ok    {}\n", case.name),
                Err(difference) => {
                    text += &format!("FAIL  {} ({}): {difference}\n", case.name, rules(case));
                }
            }
        }
        text + &self.summary()
    }

    /// Returns the lines of the cases that did not pass.
    pub(crate) fn failures(&self) -> String {
        let text = self.text();
        text.lines().filter(|line| line.starts_with("FAIL")).map(|line| format!("{line}\n")).collect()
    }

    fn json(&self) -> serde_json::Value {
        let results = self.results.iter().map(|CaseResult { case, outcome, attempts, time }| {
            json!({
                "name": case.name, "rules": case.rules, "passed": outcome.is_ok(), "attempts": attempts,
                "seconds": time.as_secs_f64(),
                "difference": outcome.as_ref().err().map(ToString::to_string),
            })
        });
        json!({
            "passed": self.passed(), "cases": results.collect::<Vec<_>>(), "seconds": self.time.as_secs_f64(),
        })
    }

    /// Returns an error that names the failed cases, if there are any.
    pub(crate) fn expect_all_passed(&self) -> Result<()> {
        let failed = self.results.iter().filter(|result| result.outcome.is_err());
        let failed: Vec<_> = failed.map(|result| result.case.name).collect();
        ensure!(failed.is_empty(), "the client differs from docs/clients.md: {}", failed.join(", "));
        Ok(())
    }
}

fn rules(case: &ConformanceCase) -> String {
    let numbers: Vec<_> = case.rules.iter().map(u8::to_string).collect();
    format!("rule{} {}", if numbers.len() == 1 { "" } else { "s" }, numbers.join(", "))
}

/// Returns the table of the cases in docs/clients.md.
fn table() -> String {
    let mut table = "| Case | Rules | Plays |\n|---|---|---|\n".to_owned();
    for case in cases::all() {
        let numbers: Vec<_> = case.rules.iter().map(u8::to_string).collect();
        table += &format!("| `{}` | {} | {} |\n", case.name, numbers.join(", "), case.plays);
    }
    table
}

/// A folder for the sockets of a run. Paths of sockets are short, so it is not under the target directory.
struct ConformanceFolder(PathBuf);

impl ConformanceFolder {
    fn new() -> Result<Self> {
        let path = std::env::temp_dir().join(format!("tollgate-conformance-{}", std::process::id()));
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for ConformanceFolder {
    fn drop(&mut self) {
        // Left to the system's cleaning if it cannot be removed.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    #[test]
    fn there_are_forty_cases_with_names_of_their_own() {
        let cases = cases::all();
        let names: BTreeSet<_> = cases.iter().map(|case| case.name).collect();
        assert_eq!((cases.len(), names.len()), (40, 40));
    }

    fn page() -> String {
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/clients.md")).unwrap()
    }

    #[test]
    fn the_page_lists_every_case() {
        let page = page();
        assert!(
            page.contains(&table()),
            "put the output of `cargo xtask conformance --list` into docs/clients.md"
        );
    }

    /// A rule of middleware has no case, because the client program has no server.
    #[test]
    fn every_rule_of_the_page_is_played_except_those_of_middleware() {
        let numbers: BTreeSet<u8> =
            page().lines().filter_map(|line| line.split_once(". ")?.0.parse().ok()).collect();
        let played: BTreeSet<u8> = cases::all().iter().flat_map(|case| case.rules).copied().collect();
        let rest: Vec<u8> = numbers.difference(&played).copied().collect();
        assert_eq!((rest, numbers.len()), (vec![22, 25], 25));
        assert!(played.is_subset(&numbers));
    }

    #[test]
    fn a_wrong_request_fails_a_case_that_does_not_look_at_requests() {
        fn send_get(stage: &mut Stage<'_>) -> CaseOutcome {
            let server = stage.serve(|_, _| stage::admit())?;
            let address = server.url().replace("http://", "");
            let mut stream = TcpStream::connect(address).map_err(anyhow::Error::from)?;
            let request = "GET /v1/check HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}";
            stream.write_all(request.as_bytes()).map_err(anyhow::Error::from)?;
            // The server closes the connection.
            stream.read_to_end(&mut Vec::new()).map_err(anyhow::Error::from)?;
            Ok(())
        }
        let case = ConformanceCase { name: "any", rules: &[4], plays: "a wrong request", play: send_get };
        let command = crate::command::command("sh -c").argument("while read -r line; do echo {}; done");
        let error = play(&command, &[case]).unwrap().results[0].outcome.as_ref().unwrap_err().to_string();
        assert_eq!(error, "a request is wrong: the method is GET");
    }

    #[test]
    fn a_program_that_is_no_client_is_one_error() {
        let error = |name: &str| play(&crate::command::command(name), &cases::all()).unwrap_err().to_string();
        assert!(error("true").starts_with("`true` is no client program"), "{}", error("true"));
        assert!(error("cat").starts_with("`cat` answered {"), "{}", error("cat"));
        assert!(error("no-such-program").starts_with("cannot run"), "{}", error("no-such-program"));
    }
}
