//! Named steps, one after another, until one fails.

use anyhow::{Context, Result};

use crate::command::CommandLine;
use crate::stopwatch::Stopwatch;

/// One thing to do.
pub(crate) struct Step {
    name: &'static str,
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

impl Step {
    pub(crate) fn command(name: &'static str, command: CommandLine) -> Self {
        Self { name, action: Action::Command(command) }
    }

    pub(crate) fn check(name: &'static str, check: fn() -> Result<Checked>) -> Self {
        Self { name, action: Action::Check(check) }
    }

    fn run(&self) -> Result<Checked> {
        match &self.action {
            Action::Command(command) => {
                eprintln!("$ {command}");
                command.run().map(|()| Checked::Passed)
            }
            Action::Check(check) => check(),
        }
    }
}

/// Runs the steps in their order and says which, how long, and where it ended.
pub(crate) fn run(steps: &[Step]) -> Result<()> {
    let all = Stopwatch::start();
    let mut outcomes = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        let place = format!("step {} of {}, {}", index + 1, steps.len(), step.name);
        eprintln!("\n=== {place}");
        let watch = Stopwatch::start();
        outcomes.push(step.run().with_context(|| place.clone())?);
        eprintln!("=== {place}: {:.1} s", watch.elapsed().as_secs_f64());
    }
    eprintln!("\n{} in {:.1} s", summary(&outcomes), all.elapsed().as_secs_f64());
    Ok(())
}

fn summary(outcomes: &[Checked]) -> String {
    let passed = outcomes.iter().filter(|outcome| **outcome == Checked::Passed).count();
    match outcomes.len() - passed {
        0 => format!("all {passed} steps passed"),
        rest => format!("{passed} steps passed, {rest} not checked"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::command;

    #[test]
    fn what_was_not_checked_has_not_passed() {
        assert_eq!(summary(&[Checked::Passed; 3]), "all 3 steps passed");
        assert_eq!(
            summary(&[Checked::Passed, Checked::Passed, Checked::No]),
            "2 steps passed, 1 not checked"
        );
    }

    #[test]
    fn stops_at_the_first_failure_and_says_where() {
        let steps = [
            Step::check("fine", || Ok(Checked::Passed)),
            Step::command("broken", command("false")),
            Step::check("never reached", || panic!("the step before has failed")),
        ];
        let error = format!("{:#}", run(&steps).unwrap_err());
        assert_eq!(error, "step 2 of 3, broken: this command failed (exit status: 1): false");
    }
}
