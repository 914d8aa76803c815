//! Environment variables that act like flags. An empty one counts as unset, and errors name the variable.

use std::ffi::{OsStr, OsString};
use std::fmt;

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, CommandFactory, FromArgMatches};
use tracing::warn;

use super::{Args, SHARED_STORE, Secret};

/// Displays a flag in messages: the environment variable, if the value came from there.
pub(crate) struct Flag(pub(crate) &'static str);

/// Displays a flag with its value.
pub(crate) struct FlagWith<'a>(pub(crate) &'static str, pub(crate) &'a dyn fmt::Display);

impl Args {
    /// Reads the arguments and variables of this process.
    ///
    /// # Errors
    ///
    /// If they are not valid. The help, if requested, is an error too.
    pub fn from_process() -> Result<Self, clap::Error> {
        let mut command =
            super::command().mut_subcommands(|command| command.mut_args(without_empty_variable));
        let words: Vec<OsString> = std::env::args_os().collect();
        let matches = command
            .try_get_matches_from_mut(&words)
            .map_err(|error| as_given(error, &mut command, &words))?;
        let mut args = Self::from_arg_matches(&matches)?;
        if let Some(store) = args.command.as_mut().and_then(super::Command::store_args_mut) {
            [store.password, store.sentinel_password] = SECRETS.map(secret);
        }
        Ok(args)
    }
}

impl Flag {
    /// Returns the variable that the value came from: it is set, and the flag was not given.
    fn variable(&self) -> Option<String> {
        let words: Vec<OsString> = std::env::args_os().collect();
        let name = self.0.trim_start_matches('-').replace('-', "_").to_ascii_uppercase();
        let variable = format!("TOLLGATE_{name}");
        let is_set = std::env::var_os(&variable).is_some_and(|value| !value.is_empty());
        (is_set && !is_among(self.0, &words)).then_some(variable)
    }
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.variable().as_deref().unwrap_or(self.0))
    }
}

impl fmt::Display for FlagWith<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Flag(self.0).variable() {
            Some(variable) => write!(f, "{variable}={}", self.1),
            None => write!(f, "{} {}", self.0, self.1),
        }
    }
}

/// Logs unknown variables that begin with `TOLLGATE_`: most are misspelled.
pub fn warn_of_unknown_variables() {
    let command = Args::command();
    let args = command.get_subcommands().flat_map(Command::get_arguments);
    let known: Vec<&str> = args.filter_map(|arg| arg.get_env()?.to_str()).chain(SECRETS).collect();
    for (variable, value) in std::env::vars_os() {
        let (Some(variable), Some(value)) = (variable.to_str(), value.to_str()) else { continue };
        if variable.starts_with("TOLLGATE_")
            && !known.contains(&variable)
            && !is_of_kubernetes(variable, value)
        {
            warn!(variable, meant = meant(variable, &known), "unknown environment variable");
        }
    }
}

/// Returns whether Kubernetes sets the variable, for a Service whose name begins with `tollgate`.
fn is_of_kubernetes(variable: &str, value: &str) -> bool {
    let is_of_service =
        ["TOLLGATE_PORT", "TOLLGATE_SERVICE_"].iter().any(|start| variable.starts_with(start));
    is_of_service
        || variable.contains("_SERVICE_")
        || variable.contains("_PORT_")
        || value.starts_with("tcp://")
}

/// Returns the known variable with the most similar name, if there is a similar one.
fn meant<'a>(variable: &str, known: &[&'a str]) -> Option<&'a str> {
    const NEAR: usize = 3;
    let distances = known.iter().map(|known| (strsim::damerau_levenshtein(variable, known), *known));
    distances.filter(|(distance, _)| *distance <= NEAR).min().map(|(_, known)| known)
}

/// Variables without a flag.
const SECRETS: [&str; 2] = ["TOLLGATE_STORE_PASSWORD", "TOLLGATE_STORE_SENTINEL_PASSWORD"];

fn secret(variable: &str) -> Option<Secret> {
    let text = std::env::var(variable).ok()?;
    (!text.is_empty()).then(|| text.into())
}

fn without_empty_variable(arg: Arg) -> Arg {
    let variable = arg.get_env().and_then(std::env::var_os);
    if variable.is_some_and(|value| value.is_empty()) { arg.env(Resettable::Reset) } else { arg }
}

/// Rewrites an error so that it names the source of the value: the flag, or its variable.
fn as_given(mut error: clap::Error, command: &mut Command, words: &[OsString]) -> clap::Error {
    let Some(subcommand) = words.get(1).and_then(|name| command.find_subcommand_mut(name)) else {
        return error;
    };
    let of_store = subcommand.get_arguments().find_map(|arg| of_store(arg, words));
    if let Some(given) = of_store.filter(|_| misses_store(&error)) {
        let message =
            format!("'{given}' applies to a shared store, and none is configured: add '--store <URL>'");
        return subcommand.error(ErrorKind::MissingRequiredArgument, message);
    }
    for kind in [ContextKind::InvalidArg, ContextKind::PriorArg] {
        let named = |name: &String| {
            let arg = subcommand.get_arguments().find(|arg| arg.to_string() == *name);
            arg.and_then(|arg| variable(arg, words)).unwrap_or(name).to_owned()
        };
        let value = match error.get(kind) {
            Some(ContextValue::String(name)) => ContextValue::String(named(name)),
            Some(ContextValue::Strings(names)) => ContextValue::Strings(names.iter().map(named).collect()),
            _ => continue,
        };
        error.insert(kind, value);
    }
    error
}

/// Returns whether the error is that no shared store was given.
fn misses_store(error: &clap::Error) -> bool {
    let missing = error.get(ContextKind::InvalidArg);
    error.kind() == ErrorKind::MissingRequiredArgument
        && matches!(missing, Some(ContextValue::Strings(names)) if names.iter().any(|name| name.starts_with("<--store ")))
}

/// Returns how a flag about the store was given; `None` for other flags, and if it was not given.
fn of_store(arg: &Arg, words: &[OsString]) -> Option<String> {
    let flag = format!("--{}", arg.get_long().filter(|_| arg.get_help_heading() == Some(SHARED_STORE))?);
    if is_among(&flag, words) { Some(flag) } else { variable(arg, words).map(str::to_owned) }
}

/// Returns the variable that the value came from: it is set, and the flag was not given.
fn variable<'a>(arg: &'a Arg, words: &[OsString]) -> Option<&'a str> {
    let variable = arg.get_env().and_then(OsStr::to_str).filter(|name| std::env::var_os(name).is_some())?;
    (!is_among(&format!("--{}", arg.get_long()?), words)).then_some(variable)
}

fn is_among(flag: &str, words: &[OsString]) -> bool {
    words.iter().any(|word| word.to_string_lossy().split('=').next() == Some(flag))
}
