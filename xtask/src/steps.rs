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
    Check(fn() -> Result<()>),
}

impl Step {
    pub(crate) fn command(name: &'static str, command: CommandLine) -> Self {
        Self { name, action: Action::Command(command) }
    }

    pub(crate) fn check(name: &'static str, check: fn() -> Result<()>) -> Self {
        Self { name, action: Action::Check(check) }
    }

    fn run(&self) -> Result<()> {
        match &self.action {
            Action::Command(command) => {
                eprintln!("$ {command}");
                command.run()
            }
            Action::Check(check) => check(),
        }
    }
}

/// Runs the steps in their order and says which, how long, and where it ended.
pub(crate) fn run(steps: &[Step]) -> Result<()> {
    let all = Stopwatch::start();
    for (index, step) in steps.iter().enumerate() {
        let place = format!("step {} of {}, {}", index + 1, steps.len(), step.name);
        eprintln!("\n=== {place}");
        let watch = Stopwatch::start();
        step.run().with_context(|| place.clone())?;
        eprintln!("=== {place}: {:.1} s", watch.elapsed().as_secs_f64());
    }
    eprintln!("\nall {} steps passed in {:.1} s", steps.len(), all.elapsed().as_secs_f64());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::command;

    #[test]
    fn stops_at_the_first_failure_and_says_where() {
        let steps = [
            Step::check("fine", || Ok(())),
            Step::command("broken", command("false")),
            Step::check("never reached", || panic!("the step before has failed")),
        ];
        let error = format!("{:#}", run(&steps).unwrap_err());
        assert_eq!(error, "step 2 of 3, broken: this command failed (exit status: 1): false");
    }
}
