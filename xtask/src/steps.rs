//! A list of steps, one after another, until one fails or takes too long.

use std::fmt;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::command::CommandLine;
use crate::group::{self, Ending};
use crate::stopwatch::Stopwatch;

/// One thing to do.
pub(crate) struct Step {
    name: &'static str,
    limit: Duration,
    action: Action,
}

enum Action {
    Command(CommandLine),
    Check(fn() -> Result<Checked>),
}

/// What came of a check that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checked {
    Passed,
    /// What it needs is not there: it has said what.
    No,
}

/// The exit status of a step's process that says [`Checked::No`], as other test runners have it.
pub(crate) const NOT_CHECKED: u8 = 77;

/// How long a step may take that builds what nobody has built before, on a busy machine.
const STEP_LIMIT: Duration = Duration::from_secs(15 * 60);

/// What came of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Passed,
    NotChecked,
    Failed,
    RanOver,
    NotRun,
}

/// What came of each step, and how long it took.
struct Report<'a>(Vec<(&'a Step, Outcome, Duration)>);

impl Step {
    pub(crate) fn command(name: &'static str, command: CommandLine) -> Self {
        Self { name, limit: STEP_LIMIT, action: Action::Command(command) }
    }

    pub(crate) fn check(name: &'static str, check: fn() -> Result<Checked>) -> Self {
        Self { name, limit: STEP_LIMIT, action: Action::Check(check) }
    }

    /// How long it may take instead.
    pub(crate) fn within(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Does it in this process, for as long as it takes.
    pub(crate) fn run(&self) -> Result<Checked> {
        match &self.action {
            Action::Command(command) => {
                eprintln!("$ {command}");
                command.run().map(|()| Checked::Passed)
            }
            Action::Check(check) => check(),
        }
    }
}

/// Runs the steps in their order, each by the command that belongs to its index, and says which, how long, and what came
/// of all.
///
/// A step takes no longer than its limit, multiplied by the patience.
pub(crate) fn run(steps: &[Step], patience: u32, start: impl Fn(usize) -> CommandLine) -> Result<()> {
    let all = Stopwatch::start();
    let mut report = Report(steps.iter().map(|step| (step, Outcome::NotRun, Duration::ZERO)).collect());
    for (index, step) in steps.iter().enumerate() {
        let place = format!("step {} of {}, {}", index + 1, steps.len(), step.name);
        eprintln!("\n=== {place}");
        let watch = Stopwatch::start();
        let limit = step.limit * patience;
        let outcome = Outcome::of(group::run(&start(index), limit)?);
        report.0[index] = (step, outcome, watch.elapsed());
        eprintln!("=== {place}: {outcome}, {:.1} s", watch.elapsed().as_secs_f64());
        let error = match outcome {
            Outcome::Failed => "failed, as said above the report".to_owned(),
            Outcome::RanOver => format!("had not ended after {:.0} s and was killed", limit.as_secs_f64()),
            _ => continue,
        };
        eprintln!("\n{report}{} in {:.1} s", report.summary(), all.elapsed().as_secs_f64());
        bail!("{place}: {error}");
    }
    eprintln!("\n{report}{} in {:.1} s", report.summary(), all.elapsed().as_secs_f64());
    Ok(())
}

impl Outcome {
    fn of(ending: Ending) -> Self {
        match ending {
            Ending::RanOver => Self::RanOver,
            Ending::Exit(status) if status.success() => Self::Passed,
            Ending::Exit(status) if status.code() == Some(NOT_CHECKED.into()) => Self::NotChecked,
            Ending::Exit(_) => Self::Failed,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Passed => "passed",
            Self::NotChecked => "not checked",
            Self::Failed => "failed",
            Self::RanOver => "ran over",
            Self::NotRun => "not run",
        })
    }
}

impl Report<'_> {
    fn summary(&self) -> String {
        let count = |wanted| self.0.iter().filter(|(_, outcome, _)| *outcome == wanted).count();
        if count(Outcome::Passed) == self.0.len() {
            return format!("all {} steps passed", self.0.len());
        }
        let rest = [Outcome::NotChecked, Outcome::Failed, Outcome::RanOver, Outcome::NotRun];
        let rest = rest.map(|outcome| (outcome, count(outcome))).into_iter().filter(|(_, count)| *count > 0);
        let rest: Vec<_> = rest.map(|(outcome, count)| format!("{count} {outcome}")).collect();
        format!("{} steps passed, {}", count(Outcome::Passed), rest.join(", "))
    }
}

/// A line for each step.
impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (step, outcome, time) in &self.0 {
            writeln!(f, "{:>7.1} s  {outcome:<11}  {}", time.as_secs_f64(), step.name)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::command;

    const HOUR: Duration = Duration::from_secs(3600);

    /// Steps of these names, each a line of shell.
    fn run_lines(lines: &[(&'static str, &str)], limit: Duration) -> Result<()> {
        let step = |(name, line): &(&'static str, &str)| {
            Step::command(name, command("sh -c").argument(line)).within(limit)
        };
        let steps: Vec<_> = lines.iter().map(step).collect();
        run(&steps, 1, |index| command("sh -c").argument(lines[index].1))
    }

    #[test]
    fn what_was_not_checked_has_not_passed() {
        let step = Step::check("any", || Ok(Checked::Passed));
        let summary = |outcomes: [Outcome; 3]| {
            Report(outcomes.map(|outcome| (&step, outcome, Duration::ZERO)).into()).summary()
        };
        assert_eq!(summary([Outcome::Passed; 3]), "all 3 steps passed");
        let not_checked = [Outcome::Passed, Outcome::Passed, Outcome::NotChecked];
        assert_eq!(summary(not_checked), "2 steps passed, 1 not checked");
        let ran_over = [Outcome::Passed, Outcome::RanOver, Outcome::NotRun];
        assert_eq!(summary(ran_over), "1 steps passed, 1 ran over, 1 not run");
    }

    #[test]
    fn a_report_has_a_line_for_each_step() {
        let step = Step::check("lints", || Ok(Checked::Passed));
        let report = Report(vec![
            (&step, Outcome::NotChecked, Duration::from_millis(1_250)),
            (&step, Outcome::NotRun, Duration::ZERO),
        ]);
        assert_eq!(report.to_string(), "    1.2 s  not checked  lints\n    0.0 s  not run      lints\n");
    }

    #[test]
    fn a_step_may_be_not_checked_and_the_rest_is_run() {
        run_lines(&[("fine", "true"), ("not checked", "exit 77"), ("fine", "true")], HOUR).unwrap();
    }

    #[test]
    fn stops_at_the_first_failure_and_says_where() {
        let file = std::env::temp_dir().join(format!("tollgate-steps-{}", std::process::id()));
        let touch = format!("touch {}", file.display());
        let lines = [("fine", "true"), ("broken", "false"), ("never reached", touch.as_str())];
        let error = run_lines(&lines, HOUR).unwrap_err();
        assert_eq!(error.to_string(), "step 2 of 3, broken: failed, as said above the report");
        assert!(!file.exists(), "the step before has failed");
    }

    #[test]
    fn a_step_that_hangs_is_named() {
        let lines = [("hangs", "sleep 600"), ("never reached", "true")];
        let error = run_lines(&lines, Duration::from_secs(1)).unwrap_err();
        assert_eq!(error.to_string(), "step 1 of 2, hangs: had not ended after 1 s and was killed");
    }
}
