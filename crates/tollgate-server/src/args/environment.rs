//! Environment variables beside the flags: an empty one counts as unset, and an error about one names it.

use std::ffi::{OsStr, OsString};

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, Command, CommandFactory, FromArgMatches};

use super::{Args, Secret};

impl Args {
    /// Reads what the process was started with; where that cannot be, says so and ends the process.
    #[must_use]
    pub fn from_process() -> Self {
        let mut command = Args::command().mut_subcommands(|command| command.mut_args(without_empty_variable));
        let words: Vec<OsString> = std::env::args_os().collect();
        let matches = command.try_get_matches_from_mut(&words).unwrap_or_else(|mut error| {
            if let Some(variable) = wrong_variable(&command, &words, &error) {
                error.insert(ContextKind::InvalidArg, ContextValue::String(variable));
            }
            error.exit()
        });
        let mut args = Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
        if let Some(store) = args.command.store_args_mut() {
            store.password = secret("TOLLGATE_STORE_PASSWORD");
            store.sentinel_password = secret("TOLLGATE_STORE_SENTINEL_PASSWORD");
        }
        args
    }
}

/// What has a variable and no flag.
fn secret(variable: &str) -> Option<Secret> {
    let text = std::env::var(variable).ok()?;
    (!text.is_empty()).then(|| text.into())
}

fn without_empty_variable(arg: Arg) -> Arg {
    let variable = arg.get_env().and_then(std::env::var_os);
    if variable.is_some_and(|value| value.is_empty()) { arg.env(Resettable::Reset) } else { arg }
}

/// The variable that a wrong value came from: its flag is not among the words.
fn wrong_variable(command: &Command, words: &[OsString], error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidArg) else { return None };
    error.get(ContextKind::InvalidValue)?;
    let subcommand = command.find_subcommand(words.get(1)?)?;
    let arg = subcommand.get_arguments().find(|arg| arg.to_string() == *wrong)?;
    let flag = format!("--{}", arg.get_long()?);
    let is_flag = |word: &OsString| word.to_string_lossy().split('=').next() == Some(flag.as_str());
    let variable = arg.get_env().and_then(OsStr::to_str)?;
    (!words.iter().any(is_flag)).then(|| variable.to_owned())
}
