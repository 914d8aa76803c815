//! Environment variables that act like flags. An empty one counts as unset, and errors name the variable.

use std::ffi::OsString;
use std::fmt;
use std::sync::OnceLock;

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, CommandFactory, FromArgMatches};
use tracing::warn;

use super::{Args, CommandLine, SHARED_STORE, Secret, ServiceAddress};

/// Displays a flag in messages: the environment variable, if the value came from there.
pub(crate) struct Flag(pub(crate) &'static str);

/// Displays a flag with its value.
pub(crate) struct FlagWith<'a>(pub(crate) &'static str, pub(crate) &'a dyn fmt::Display);

/// The variables that gave flags of this process their values.
static USED_VARIABLES: OnceLock<Vec<String>> = OnceLock::new();

/// Flags, each with the variable of another program that it came from.
static ORIGINAL_VARIABLES: OnceLock<Vec<(&'static str, &'static str)>> = OnceLock::new();

impl Args {
    /// Reads the arguments and variables of this process.
    ///
    /// # Errors
    ///
    /// If they are not valid. The help, if requested, is an error too.
    pub fn from_process() -> Result<Self, clap::Error> {
        Self::from_command_line(CommandLine::of_process())
    }

    /// Reads these words and the variables of this process.
    ///
    /// # Errors
    ///
    /// If they are not valid. The help, if requested, is an error too.
    pub fn from_command_line(line: CommandLine) -> Result<Self, clap::Error> {
        let CommandLine { words, original } = line;
        let mut command = without_empty_variables(super::command());
        let matches = command
            .try_get_matches_from_mut(&words)
            .map_err(|error| with_variables(error, &mut command, &words))?;
        if let Some((subcommand, matches)) = subcommand(&command, &matches) {
            expect_one_subject(subcommand, matches)?;
            let used = subcommand.get_arguments().filter_map(|arg| variable(arg, matches));
            // A program that parses its arguments again has the same variables.
            let _ = USED_VARIABLES.set(used.map(str::to_owned).collect());
        }
        let mut args = Self::from_arg_matches(&matches)?;
        if let Some(store) = args.command.as_mut().and_then(super::Command::store_args_mut) {
            [store.password, store.sentinel_password] = SECRETS.map(secret);
        }
        if let Some(super::Command::Serve(serve)) = &mut args.command {
            let _ = ORIGINAL_VARIABLES
                .set(original.as_ref().map(|original| original.sources.clone()).unwrap_or_default());
            serve.original = original;
        }
        Ok(args)
    }
}

impl Flag {
    /// Returns the variable that the value came from, if it did.
    fn variable(&self) -> Option<&'static str> {
        let name = variable_of(self.0);
        let used = USED_VARIABLES.get()?.iter().map(String::as_str);
        used.into_iter().find(|variable| *variable == name)
    }

    /// Returns the variable of another program that the value came from, if it did.
    pub(crate) fn original_variable(&self) -> Option<&'static str> {
        let mut sources = ORIGINAL_VARIABLES.get()?.iter();
        sources.find(|(flag, _)| *flag == self.0).map(|(_, variable)| *variable)
    }
}

impl fmt::Display for Flag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.variable().or_else(|| self.original_variable()).unwrap_or(self.0))
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

/// Returns the variable that acts like this flag, if it is set.
pub(crate) fn overriding_variable(flag: &str) -> Option<String> {
    let variable = variable_of(flag);
    std::env::var_os(&variable).filter(|value| !value.is_empty()).map(|_| variable)
}

fn variable_of(flag: &str) -> String {
    format!("TOLLGATE_{}", flag.trim_start_matches('-').replace('-', "_").to_ascii_uppercase())
}

/// Logs unknown variables that begin with `TOLLGATE_`: most are misspelled.
pub fn warn_of_unknown_variables() {
    let command = Args::command();
    let known: Vec<&str> = variables(&command).chain(SECRETS).collect();
    for (variable, value) in std::env::vars_os() {
        let (Some(variable), Some(value)) = (variable.to_str(), value.to_str()) else { continue };
        if variable.starts_with("TOLLGATE_")
            && !known.contains(&variable)
            && !is_set_by_kubernetes(variable, value)
        {
            warn!(variable, meant = similar(variable, &known), "unknown environment variable");
        }
    }
}

/// Returns the variables of a command, and of the commands below it.
fn variables(command: &Command) -> Box<dyn Iterator<Item = &str> + '_> {
    let own = command.get_arguments().filter_map(|arg| arg.get_env()?.to_str());
    Box::new(own.chain(command.get_subcommands().flat_map(variables)))
}

/// Returns whether Kubernetes sets the variable, for a Service whose name begins with `tollgate`.
fn is_set_by_kubernetes(variable: &str, value: &str) -> bool {
    let starts = ["TOLLGATE_PORT", "TOLLGATE_SERVICE_"];
    starts.iter().any(|start| variable.starts_with(start))
        || variable.contains("_SERVICE_")
        || variable.contains("_PORT_")
        || value.starts_with("tcp://")
}

/// Returns the known variable with the most similar name, if there is a similar one.
fn similar<'a>(variable: &str, known: &[&'a str]) -> Option<&'a str> {
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

fn without_empty_variables(command: Command) -> Command {
    command.mut_args(without_empty_variable).mut_subcommands(without_empty_variables)
}

fn without_empty_variable(arg: Arg) -> Arg {
    let variable = arg.get_env().and_then(std::env::var_os);
    if variable.is_some_and(|value| value.is_empty()) { arg.env(Resettable::Reset) } else { arg }
}

/// Rewrites an error so that it names the source of the value: the flag, or its variable.
fn with_variables(mut error: clap::Error, command: &mut Command, words: &[OsString]) -> clap::Error {
    // An error comes without the arguments, so they are read once more: by a new description, because one that was used
    // ignores no errors in commands below other commands.
    let given = without_empty_variables(super::command()).ignore_errors(true).try_get_matches_from(words);
    let Some((subcommand, matches)) = given.as_ref().ok().and_then(|given| subcommand(command, given)) else {
        return error;
    };
    let given_for_store = subcommand.get_arguments().find_map(|arg| given_for_store(arg, matches));
    if let Some(given) = given_for_store.filter(|_| misses_store(&error)) {
        let message =
            format!("'{given}' applies to a shared store, and none is configured: add '--store <URL>'");
        return subcommand.clone().error(ErrorKind::MissingRequiredArgument, message);
    }
    for kind in [ContextKind::InvalidArg, ContextKind::PriorArg] {
        let named = |name: &String| {
            let arg = subcommand.get_arguments().find(|arg| arg.to_string() == *name);
            arg.and_then(|arg| variable(arg, matches)).unwrap_or(name).to_owned()
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

/// Returns the command that was given, such as `set` of `override`.
fn subcommand<'a>(command: &'a Command, matches: &'a ArgMatches) -> Option<(&'a Command, &'a ArgMatches)> {
    let (name, matches) = matches.subcommand()?;
    let command = command.find_subcommand(name)?;
    Some(subcommand(command, matches).unwrap_or((command, matches)))
}

/// Checks that the doctor has a store or a fleet, and no certificates that it would never use. A store or a certificate in
/// a variable is there for other commands as well, and gives way.
fn expect_one_subject(subcommand: &Command, matches: &ArgMatches) -> Result<(), clap::Error> {
    let source = |name: &str| matches.try_contains_id(name).ok().and_then(|_| matches.value_source(name));
    if source("fleet").is_some() && source("store") == Some(ValueSource::CommandLine) {
        let message = "'--store' examines a store, and '--fleet' compares replicas: give one of them";
        return Err(subcommand.clone().error(ErrorKind::ArgumentConflict, message));
    }
    let fleet = matches.try_get_many::<ServiceAddress>("fleet").ok().flatten();
    let is_plain = fleet.is_some_and(|mut addresses| addresses.all(|address| !address.has_tls()));
    if is_plain && ["ca", "client_cert"].iter().any(|name| source(name) == Some(ValueSource::CommandLine)) {
        let message = "'--ca', '--client-cert' and '--client-key' require an https:// URL, but all addresses of '--fleet' are \
                       called without TLS";
        return Err(subcommand.clone().error(ErrorKind::ArgumentConflict, message));
    }
    Ok(())
}

/// Returns whether the error is that no shared store was given.
fn misses_store(error: &clap::Error) -> bool {
    let missing = error.get(ContextKind::InvalidArg);
    error.kind() == ErrorKind::MissingRequiredArgument
        && matches!(missing, Some(ContextValue::Strings(names)) if names.iter().any(|name| name.starts_with("<--store ")))
}

/// Returns how a flag about the store was given; `None` for other flags, and if it was not given.
fn given_for_store(arg: &Arg, matches: &ArgMatches) -> Option<String> {
    let flag = arg.get_long().filter(|_| arg.get_help_heading() == Some(SHARED_STORE))?;
    match matches.value_source(arg.get_id().as_str())? {
        ValueSource::CommandLine => Some(format!("--{flag}")),
        _ => variable(arg, matches).map(str::to_owned),
    }
}

/// Returns the variable that the value came from, if it did.
fn variable<'a>(arg: &'a Arg, matches: &ArgMatches) -> Option<&'a str> {
    let source = matches.value_source(arg.get_id().as_str())?;
    arg.get_env()?.to_str().filter(|_| source == ValueSource::EnvVariable)
}
