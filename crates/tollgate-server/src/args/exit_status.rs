//! The exit statuses of the binary, as commands return them and as help and manual pages list them.

use clap::Command;

/// The answer is yes, or the request was carried out.
pub const SUCCESS: u8 = 0;
/// The answer is no (denied, not ready, invalid), the service cannot run, or the store failed a check.
pub const FAILURE: u8 = 1;
/// The command line is invalid; clap uses the same status.
pub const USAGE: u8 = 2;
/// `check` or `override` got no answer, or `simulate` found none. Status 1 would mean a denial.
pub const NO_DECISION: u8 = 3;
/// Success, but the answer could not be written to standard output.
pub const UNWRITTEN: u8 = 4;
/// `check --hold` was not admitted, so its command did not run: the "temporary failure" of sysexits.h.
pub const NOT_ADMITTED: u8 = 75;
/// The command of `check --hold` cannot be executed, as shells say it.
pub const NOT_EXECUTABLE: u8 = 126;
/// The command of `check --hold` does not exist, as shells say it.
pub const NOT_FOUND: u8 = 127;
/// A signal ended the command of `check --hold`: this plus the number of the signal, as shells say it.
pub const SIGNALED: u8 = 128;
/// A second signal cut the drain short: 128 plus the number of SIGINT, the convention of shells.
pub const INTERRUPTED: u8 = 130;

const LOST: (u8, &str) = (UNWRITTEN, "like 0, but the answer could not be written to standard output");
const WRONG_ARGUMENTS: (u8, &str) = (USAGE, "the arguments are wrong");
const UNKNOWN_CHANGE: (u8, &str) =
    (NO_DECISION, "no answer; the message says whether the change may have been made");
const PRINTED: &[(u8, &str)] = &[(SUCCESS, "printed"), WRONG_ARGUMENTS, LOST];

/// Returns the exit statuses of the command with this name, and their meanings. A command that only groups others has
/// none.
pub(crate) fn of(name: &str) -> &'static [(u8, &'static str)] {
    match name {
        "tollgate" => &[
            (SUCCESS, "success"),
            (FAILURE, "the answer is no (denied, not ready, not valid), or the command failed"),
            WRONG_ARGUMENTS,
            (
                NO_DECISION,
                "`check`, `override` or `doctor --fleet` got no answer, or `simulate` and `suggest` found none",
            ),
            LOST,
            (INTERRUPTED, "a second signal stopped `serve` at once"),
        ],
        "serve" => &[
            (SUCCESS, "stopped by a signal; accepted requests were finished, or ran out of time"),
            (FAILURE, "the service cannot run, for example because an address is in use"),
            (USAGE, "the arguments or the settings in files are wrong"),
            (INTERRUPTED, "a second signal stopped it at once"),
        ],
        "check" => &[
            (SUCCESS, "allowed; with --health, ready"),
            (FAILURE, "denied; with --health, not ready"),
            (USAGE, "the arguments are wrong, or the service rejected the request"),
            (NO_DECISION, "no answer, or one that is not a decision"),
            LOST,
            (
                NOT_ADMITTED,
                "with --hold: denied, or no answer; the command did not run. Otherwise, the status is the command's",
            ),
            (NOT_EXECUTABLE, "with --hold: the command cannot be executed"),
            (NOT_FOUND, "with --hold: the command does not exist"),
            (SIGNALED, "with --hold: this plus the number of the signal that ended the command"),
        ],
        "doctor" => &[
            (SUCCESS, "nothing fails; with --fleet, all replicas are ready and have the same limits"),
            (
                FAILURE,
                "something fails; with --fleet, replicas have different limits, or one is not ready or behind",
            ),
            WRONG_ARGUMENTS,
            (NO_DECISION, "with --fleet: an answer is missing, and the others are in step"),
            LOST,
        ],
        "check-config" => &[
            (SUCCESS, "the files are valid"),
            (FAILURE, "they are not valid"),
            (USAGE, "the arguments are wrong, or a file cannot be read"),
            LOST,
        ],
        "explain" => &[
            (SUCCESS, "the request is explained, whatever its verdict"),
            (FAILURE, "the file is not valid"),
            (USAGE, "the arguments are wrong, or the file or the folder cannot be read"),
            (NO_DECISION, "the store with the overrides does not answer"),
            LOST,
        ],
        "simulate" => &[
            (SUCCESS, "replayed; all gates held"),
            (FAILURE, "a gate failed"),
            (USAGE, "the arguments or the policies are wrong, or a log cannot be opened or understood"),
            (NO_DECISION, "no answer: nothing to measure, damaged data, or too many lines cannot be read"),
            LOST,
        ],
        "suggest" => &[
            (SUCCESS, "a limit is suggested"),
            (USAGE, "the arguments are wrong, or a log cannot be opened or understood"),
            (NO_DECISION, "no answer: too few clients, damaged data, or too many lines cannot be read"),
            LOST,
        ],
        "set" => &[
            (SUCCESS, "set, and live in the process that answered"),
            (FAILURE, "nothing was changed: the override is not as --if-match or --if-absent expects it"),
            (USAGE, "the arguments are wrong, or the service rejected the request"),
            UNKNOWN_CHANGE,
            LOST,
        ],
        "delete" => &[
            (SUCCESS, "deleted, and without effect in the process that answered"),
            (FAILURE, "nothing was changed: there is none, or it is not as --if-match expects it"),
            (USAGE, "the arguments are wrong, or the service rejected the request"),
            UNKNOWN_CHANGE,
            LOST,
        ],
        "get" => &[
            (SUCCESS, "shown, whether it has an effect or not"),
            (FAILURE, "there is none"),
            (USAGE, "the arguments are wrong, or the service rejected the request"),
            (NO_DECISION, "no answer, or one that is not about overrides"),
            LOST,
        ],
        "list" => &[
            (SUCCESS, "listed, even if there are none"),
            (USAGE, "the arguments are wrong, or the service rejected the request"),
            (NO_DECISION, "no answer, or one that is not about overrides"),
            LOST,
        ],
        "new" => &[
            (SUCCESS, "made"),
            (FAILURE, "the system provides no random bytes, or a file cannot be written"),
            WRONG_ARGUMENTS,
            LOST,
        ],
        "completions" | "man" => PRINTED,
        _ => &[],
    }
}

/// Appends the exit statuses to the help of the command and its subcommands.
pub(crate) fn listed(command: Command) -> Command {
    let command = command.mut_subcommands(listed);
    let statuses = of(command.get_name());
    if statuses.is_empty() {
        return command;
    }
    let mut help: Vec<String> =
        command.get_after_help().map(|help| format!("{help}\n")).into_iter().collect();
    help.push("Exit status:".to_owned());
    help.extend(statuses.iter().map(|(status, meaning)| format!("  {status:<4} {meaning}")));
    command.after_help(help.join("\n"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Args;

    #[test]
    fn every_command_that_does_something_lists_its_exit_statuses() {
        fn expect_statuses(command: &Command) {
            let is_listed = of(command.get_name()).iter().any(|(status, _)| *status == USAGE);
            assert!(is_listed || command.has_subcommands(), "{}", command.get_name());
            command.get_subcommands().for_each(expect_statuses);
        }
        expect_statuses(&Args::command());
    }
}
