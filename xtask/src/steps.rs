//! Steps in two parallel lanes, which run until all have passed or one has failed.

use std::fmt;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::command::CommandLine;
use crate::group::{self, GroupEnding};
use crate::stopwatch::Stopwatch;

/// One thing to do.
pub(crate) struct Step {
    name: &'static str,
    lane: Lane,
    /// A step of the other lane that must pass before this one starts.
    after: Option<&'static str>,
    limit: Duration,
    action: Action,
}

/// The steps of a lane run one after another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Commands that build, which need the processors and the lock of the target directory.
    Build,
    /// Commands that mostly wait: for downloads, for servers, for time to pass.
    Run,
}

enum Action {
    Command(CommandLine),
    Check(fn() -> Result<CheckOutcome>),
}

/// The result of a check that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CheckOutcome {
    Passed,
    /// Something it needs is unavailable; it has printed what.
    No,
}

/// The exit status of a step's process for [`CheckOutcome::No`], the same as in other test runners.
pub(crate) const NOT_CHECKED: u8 = 77;

/// Enough for a step that builds everything on a busy machine.
const STEP_LIMIT: Duration = Duration::from_secs(15 * 60);

/// The result of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepOutcome {
    NotRun,
    Passed,
    NotChecked,
    Failed,
    /// It was killed at its time limit.
    RanOver,
    /// It was killed because a step of the other lane had failed.
    Stopped,
}

/// How each step ended.
struct StepTable<'a>(Vec<(&'a Step, StepEnd)>);

/// How a step ended, and what it took.
#[derive(Debug, Clone, Copy)]
struct StepEnd {
    outcome: StepOutcome,
    time: Duration,
    processor_time: Duration,
}

/// The state that the lanes share.
struct StepProgress {
    /// In the order of the steps.
    ends: Mutex<Vec<StepEnd>>,
    changed: Condvar,
}

impl Step {
    pub(crate) fn command(name: &'static str, command: CommandLine) -> Self {
        Self::new(name, Action::Command(command))
    }

    pub(crate) fn check(name: &'static str, check: fn() -> Result<CheckOutcome>) -> Self {
        Self::new(name, Action::Check(check))
    }

    fn new(name: &'static str, action: Action) -> Self {
        Self { name, lane: Lane::Build, after: None, limit: STEP_LIMIT, action }
    }

    /// What the page about the tests calls it.
    #[cfg(test)]
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    /// Moves the step to the other lane.
    pub(crate) fn beside(self) -> Self {
        Self { lane: Lane::Run, ..self }
    }

    /// Starts the step only when that step of the other lane has passed.
    pub(crate) fn after(self, name: &'static str) -> Self {
        Self { after: Some(name), ..self }
    }

    /// Runs the step in this process, without a time limit.
    pub(crate) fn run(&self) -> Result<CheckOutcome> {
        match &self.action {
            Action::Command(command) => {
                eprintln!("$ {command}");
                command.run().map(|()| CheckOutcome::Passed)
            }
            Action::Check(check) => check(),
        }
    }
}

/// Runs the steps of both lanes in parallel. Prints their output, their durations and a report of all.
///
/// `start` returns the command that runs the step with an index. A step is killed at its time limit times `patience`,
/// and when a step of the other lane has failed.
pub(crate) fn run(steps: &[Step], patience: u32, start: impl Fn(usize) -> CommandLine + Sync) -> Result<()> {
    let watch = Stopwatch::start();
    let progress = StepProgress::new(steps.len());
    let failures = thread::scope(|scope| {
        let (start, progress) = (&start, &progress);
        let lanes = [Lane::Build, Lane::Run]
            .map(|lane| scope.spawn(move || run_lane(lane, steps, patience, start, progress)));
        lanes.map(|lane| lane.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let ends = progress.ends.into_inner().unwrap_or_else(PoisonError::into_inner);
    let table = StepTable(steps.iter().zip(ends).collect());
    let (time, processor_time) = (watch.elapsed().as_secs_f64(), table.processor_time().as_secs_f64());
    eprintln!("\n{table}{} in {time:.1} s, {processor_time:.0} s of the processors", table.summary());
    for failure in failures {
        failure?;
    }
    Ok(())
}

/// Runs the steps of one lane until one fails, here or in the other lane.
fn run_lane(
    lane: Lane,
    steps: &[Step],
    patience: u32,
    start: &(impl Fn(usize) -> CommandLine + Sync),
    progress: &StepProgress,
) -> Result<()> {
    for (index, step) in steps.iter().enumerate().filter(|(_, step)| step.lane == lane) {
        let after = step.after.and_then(|name| steps.iter().position(|step| step.name == name));
        if !after.map_or(!progress.has_failed(), |after| progress.wait_for(after)) {
            return Ok(());
        }
        let place = format!("step {} of {}, {}", index + 1, steps.len(), step.name);
        eprintln!("\n=== {place}");
        let watch = Stopwatch::start();
        let limit = step.limit * patience;
        let ending = group::run(&start(index), step.name, limit, || progress.has_failed());
        let outcome = ending.as_ref().map_or(StepOutcome::Failed, |end| StepOutcome::of(&end.ending));
        let processor_time = ending.as_ref().map_or(Duration::ZERO, |end| end.processor_time);
        progress.set(index, StepEnd { outcome, time: watch.elapsed(), processor_time });
        ending?;
        eprintln!(
            "\n=== {place}: {outcome}, {:.1} s, {:.1} s of the processors",
            watch.elapsed().as_secs_f64(),
            processor_time.as_secs_f64()
        );
        match outcome {
            StepOutcome::Failed => bail!("{place}: failed; see the lines that begin with `[{}]`", step.name),
            StepOutcome::RanOver => {
                bail!("{place}: was killed because it had not ended after {:.0} s", limit.as_secs_f64())
            }
            StepOutcome::Stopped => return Ok(()),
            StepOutcome::NotRun | StepOutcome::Passed | StepOutcome::NotChecked => {}
        }
    }
    Ok(())
}

impl StepProgress {
    fn new(steps: usize) -> Self {
        Self { ends: Mutex::new(vec![StepEnd::NOT_RUN; steps]), changed: Condvar::new() }
    }

    fn set(&self, index: usize, end: StepEnd) {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)[index] = end;
        self.changed.notify_all();
    }

    fn has_failed(&self) -> bool {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).iter().any(StepEnd::is_failure)
    }

    /// Waits until the step has an outcome, or another has failed. Returns whether to continue.
    fn wait_for(&self, index: usize) -> bool {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        while ends[index].outcome == StepOutcome::NotRun && !ends.iter().any(StepEnd::is_failure) {
            ends = self.changed.wait(ends).unwrap_or_else(PoisonError::into_inner);
        }
        !ends.iter().any(StepEnd::is_failure)
    }
}

impl StepEnd {
    const NOT_RUN: Self =
        Self { outcome: StepOutcome::NotRun, time: Duration::ZERO, processor_time: Duration::ZERO };

    fn is_failure(&self) -> bool {
        matches!(self.outcome, StepOutcome::Failed | StepOutcome::RanOver | StepOutcome::Stopped)
    }
}

impl StepOutcome {
    fn of(ending: &GroupEnding) -> Self {
        match ending {
            GroupEnding::RanOver => Self::RanOver,
            GroupEnding::Stopped => Self::Stopped,
            GroupEnding::Exit(status) if status.success() => Self::Passed,
            GroupEnding::Exit(status) if status.code() == Some(NOT_CHECKED.into()) => Self::NotChecked,
            GroupEnding::Exit(_) => Self::Failed,
        }
    }
}

impl fmt::Display for StepOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::NotRun => "not run",
            Self::Passed => "passed",
            Self::NotChecked => "not checked",
            Self::Failed => "failed",
            Self::RanOver => "ran over",
            Self::Stopped => "stopped",
        })
    }
}

impl StepTable<'_> {
    fn processor_time(&self) -> Duration {
        self.0.iter().map(|(_, end)| end.processor_time).sum()
    }

    fn summary(&self) -> String {
        let count = |wanted| self.0.iter().filter(|(_, end)| end.outcome == wanted).count();
        if count(StepOutcome::Passed) == self.0.len() {
            return format!("all {} steps passed", self.0.len());
        }
        let rest = [StepOutcome::Failed, StepOutcome::RanOver, StepOutcome::Stopped, StepOutcome::NotRun];
        let mut parts = vec![format!("{} steps passed", count(StepOutcome::Passed))];
        parts.extend(rest.iter().filter(|o| count(**o) > 0).map(|o| format!("{} {o}", count(*o))));
        // Named, because no other passed step makes up for it.
        let unchecked = self.0.iter().filter(|(_, end)| end.outcome == StepOutcome::NotChecked);
        parts.extend(unchecked.map(|(step, _)| format!("{} not checked", step.name)));
        parts.join(", ")
    }
}

/// Prints a line for each step.
impl fmt::Display for StepTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "     wall  processors")?;
        for (step, end) in &self.0 {
            let [time, processor_time] = [end.time, end.processor_time].map(|time| time.as_secs_f64());
            writeln!(f, "{time:>7.1} s  {processor_time:>8.1} s  {:<11}  {}", end.outcome, step.name)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::command;

    const HOUR: Duration = Duration::from_secs(3600);

    fn step(name: &'static str, line: &str) -> Step {
        Step { limit: HOUR, ..Step::command(name, command("sh -c").argument(line)) }
    }

    fn run_all(steps: &[Step]) -> Result<()> {
        run(steps, 1, |index| match &steps[index].action {
            Action::Command(command) => command.clone(),
            Action::Check(_) => unreachable!("these steps are all commands"),
        })
    }

    /// Returns an unused path, for this test alone.
    fn path(name: &str) -> String {
        let file = std::env::temp_dir().join(format!("tollgate-steps-{name}-{}", std::process::id()));
        file.display().to_string()
    }

    #[test]
    fn the_last_line_names_what_was_not_checked() {
        let step = Step::check("advisories", || Ok(CheckOutcome::Passed));
        let summary = |outcomes: [StepOutcome; 3]| {
            StepTable(outcomes.map(|outcome| (&step, StepEnd { outcome, ..StepEnd::NOT_RUN })).into())
                .summary()
        };
        assert_eq!(summary([StepOutcome::Passed; 3]), "all 3 steps passed");
        let not_checked = [StepOutcome::Passed, StepOutcome::Passed, StepOutcome::NotChecked];
        assert_eq!(summary(not_checked), "2 steps passed, advisories not checked");
        let ran_over = [StepOutcome::Stopped, StepOutcome::RanOver, StepOutcome::NotRun];
        assert_eq!(summary(ran_over), "0 steps passed, 1 ran over, 1 stopped, 1 not run");
    }

    #[test]
    fn the_table_has_a_line_for_each_step() {
        let step = Step::check("lints", || Ok(CheckOutcome::Passed));
        let unchecked = StepEnd {
            outcome: StepOutcome::NotChecked,
            time: Duration::from_millis(1_250),
            processor_time: Duration::from_secs(2),
        };
        let table = StepTable(vec![(&step, unchecked), (&step, StepEnd::NOT_RUN)]);
        assert_eq!(
            table.to_string(),
            "     wall  processors\n    1.2 s       2.0 s  not checked  lints\n    0.0 s       0.0 s  not run      lints\n"
        );
    }

    #[test]
    fn goes_on_after_a_step_that_was_not_checked() {
        run_all(&[step("fine", "true"), step("not checked", "exit 77"), step("also fine", "true")]).unwrap();
    }

    #[test]
    fn stops_at_the_first_failure_and_names_it() {
        let file = path("failure");
        let touch = step("never reached", &format!("touch {file}"));
        let error = run_all(&[step("fine", "true"), step("broken", "false"), touch]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "step 2 of 3, broken: failed; see the lines that begin with `[broken]`"
        );
        assert!(!std::path::Path::new(&file).exists(), "a step ran after the failure");
    }

    #[test]
    fn a_step_that_hangs_is_killed_and_named() {
        let hangs = Step { limit: Duration::from_secs(1), ..step("hangs", "sleep 600") };
        let error = run_all(&[hangs, step("never reached", "true")]).unwrap_err();
        assert_eq!(error.to_string(), "step 1 of 2, hangs: was killed because it had not ended after 1 s");
    }

    #[test]
    fn lanes_run_side_by_side() {
        let (ours, theirs) = (path("ours"), path("theirs"));
        let meet = |own: &str, other: &str| format!("touch {own}; until [ -e {other} ]; do sleep 0.01; done");
        run_all(&[step("build", &meet(&ours, &theirs)), step("run", &meet(&theirs, &ours)).beside()])
            .unwrap();
        for file in [ours, theirs] {
            std::fs::remove_file(file).unwrap();
        }
    }

    #[test]
    fn a_failure_stops_the_other_lane() {
        let error = run_all(&[step("waits", "sleep 600"), step("broken", "false").beside()]).unwrap_err();
        assert!(error.to_string().starts_with("step 2 of 2, broken: failed"), "{error}");
    }

    #[test]
    fn a_step_waits_for_the_one_that_it_comes_after() {
        let file = path("after");
        let first = step("first", &format!("sleep 0.2; touch {file}"));
        run_all(&[first, step("second", &format!("rm {file}")).beside().after("first")]).unwrap();
    }

    #[test]
    fn a_step_after_a_failed_one_is_not_run() {
        let file = path("after-failure");
        let second = step("second", &format!("touch {file}")).beside().after("first");
        run_all(&[step("first", "false"), second]).unwrap_err();
        assert!(!std::path::Path::new(&file).exists());
    }
}
