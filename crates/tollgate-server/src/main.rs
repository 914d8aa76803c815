//! The `tollgate` binary: a table of contents, and the place where the process exits.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use anyhow::Context;
use tollgate_policy::ConfigError;
use tollgate_server::args::exit_status::{FAILURE, INTERRUPTED, NO_DECISION, SUCCESS, UNWRITTEN, USAGE};
use tollgate_server::args::{
    Args, CheckArgs, CheckConfigArgs, Command, CommandLine, CompletionsArgs, DoctorArgs, ExplainArgs,
    ManArgs, NewTokenArgs, OverrideCommand, ServeArgs, TokenCommand,
};
use tollgate_server::cli::explain::ExplainError;
#[cfg(feature = "simulate")]
use tollgate_server::cli::simulate;
use tollgate_server::cli::{
    check, check_config, doctor, explain, man, new_token, output, overrides, runtime, version,
};
use tollgate_server::{ServiceEnd, Settings, SettingsError, args, logs};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let line = match CommandLine::of_process().of_environment() {
        Ok(line) => line,
        Err(error) => return ExitCode::from(wrong_argument(error)),
    };
    let Args { command, verbose, .. } = match Args::from_command_line(line) {
        Ok(args) => args,
        Err(error) => return ExitCode::from(usage(&error)),
    };
    let Some(command) = command else { return ExitCode::from(answer(&version::text(verbose), SUCCESS)) };
    let (outcome, failure) = match command {
        Command::Serve(args) => (serve(*args), FAILURE),
        Command::Doctor(args) => (doctor(&args), FAILURE),
        // For a check, status 1 is a denial.
        Command::Check(args) => (check(args), NO_DECISION),
        // For an override, status 1 is that it is missing, or not the expected one.
        Command::Override(command) => (change_override(&command), NO_DECISION),
        Command::CheckConfig(args) => (check_config(&args), FAILURE),
        Command::Explain(args) => (explain(&args), FAILURE),
        #[cfg(feature = "simulate")]
        Command::Simulate(args) => (Ok(replayed(simulate::run(&args))), FAILURE),
        #[cfg(feature = "simulate")]
        Command::Suggest(args) => (Ok(replayed(simulate::suggest(&args))), FAILURE),
        Command::Token(TokenCommand::New(args)) => (new_token(&args), FAILURE),
        Command::Completions(args) => (Ok(completions(&args)), FAILURE),
        Command::Man(args) => (Ok(man(&args)), FAILURE),
    };
    let status = outcome.unwrap_or_else(|error| {
        output::complain(format_args!("error: {error:#}"));
        failure
    });
    ExitCode::from(status)
}

/// Prints the help, or the error in the arguments.
fn usage(error: &clap::Error) -> u8 {
    let printed = error.print().and_then(|()| io::stdout().flush());
    match (error.use_stderr(), printed) {
        (true, _) => USAGE,
        (false, Err(error)) if error.kind() != io::ErrorKind::BrokenPipe => unwritten(&error),
        (false, _) => SUCCESS,
    }
}

/// Prints the answer. Returns its status, unless that would be 0 for an answer that could not be written to standard
/// output.
fn answer(text: &str, status: u8) -> u8 {
    let Err(error) = output::answer(text) else { return status };
    let lost = unwritten(&error);
    if status == SUCCESS { lost } else { status }
}

fn unwritten(error: &io::Error) -> u8 {
    output::complain(format_args!("error: cannot write to standard output: {error}"));
    UNWRITTEN
}

fn serve(args: ServeArgs) -> anyhow::Result<u8> {
    let settings = match Settings::new(args) {
        Ok(settings) => settings,
        Err(error) => return Ok(wrong_setting(&error)),
    };
    let _log = logs::start(settings.log_format, settings.log_level).context(runtime::ADVICE)?;
    args::warn_of_unknown_variables();
    let runtime = runtime::start()?;
    let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(tollgate_server::serve(settings))));
    // Do not wait for connections that are left after the drain, nor for anything after a panic.
    runtime.shutdown_background();
    let Ok(ended) = ended else { anyhow::bail!("the service ended unexpectedly") };
    Ok(match ended? {
        ServiceEnd::Drained => SUCCESS,
        ServiceEnd::Interrupted => INTERRUPTED,
    })
}

fn doctor(args: &DoctorArgs) -> anyhow::Result<u8> {
    let runtime = runtime::start()?;
    // Without a fleet, there is a store.
    let Some(store) = args.store.as_ref().filter(|_| args.fleet.fleet.is_empty()) else {
        let compared = runtime.block_on(doctor::compare(args));
        // Do not wait for names that are still looked up.
        runtime.shutdown_background();
        return Ok(match compared {
            Ok((text, status)) => answer(&text, status),
            Err(error) => wrong_argument(error),
        });
    };
    Ok(match runtime.block_on(doctor::run(args, store)) {
        Ok((text, level)) => answer(&text, if level == doctor::Level::Fail { FAILURE } else { SUCCESS }),
        Err(error) => wrong_setting(&error),
    })
}

fn wrong_setting(error: &SettingsError) -> u8 {
    output::complain(format_args!("error: {error}"));
    USAGE
}

fn check(args: CheckArgs) -> anyhow::Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if args.hold {
        return Ok(runtime.block_on(check::run_held(&args)));
    }
    let (text, outcome) = runtime.block_on(check::run(&args));
    let status = answer(&text, check::exit_status(&outcome));
    if let Err(error) = &outcome {
        output::complain(format_args!("error: {error}"));
    }
    Ok(status)
}

fn change_override(command: &OverrideCommand) -> anyhow::Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (text, outcome) = runtime.block_on(overrides::run(command));
    let status = answer(&text, overrides::exit_status(&outcome));
    if let Err(error) = &outcome {
        output::complain(format_args!("error: {error}"));
    }
    Ok(status)
}

fn check_config(args: &CheckConfigArgs) -> anyhow::Result<u8> {
    Ok(match check_config::run(args) {
        Ok((text, passes)) => answer(&text, if passes { SUCCESS } else { FAILURE }),
        Err(error) => wrong_argument(error),
    })
}

fn explain(args: &ExplainArgs) -> anyhow::Result<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    Ok(match runtime.block_on(explain::run(args)) {
        Ok(text) => answer(&text, SUCCESS),
        // Each line names the file.
        Err(ExplainError::Config(error @ ConfigError::Invalid { .. })) => {
            output::complain(&error);
            FAILURE
        }
        Err(error) => {
            let is_unanswered = matches!(error, ExplainError::Store(_));
            let status = wrong_argument(error);
            if is_unanswered { NO_DECISION } else { status }
        }
    })
}

#[cfg(feature = "simulate")]
fn replayed(outcome: Result<(String, u8), simulate::SimulateFailure>) -> u8 {
    match outcome {
        Ok((text, status)) => answer(&text, status),
        Err(failure) => {
            output::complain(format_args!("error: {failure:#}"));
            failure.status()
        }
    }
}

fn new_token(args: &NewTokenArgs) -> anyhow::Result<u8> {
    Ok(answer(&new_token::run(args)?, SUCCESS))
}

fn completions(args: &CompletionsArgs) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut args::command(), "tollgate", &mut script);
    answer(&String::from_utf8_lossy(&script), SUCCESS)
}

fn man(args: &ManArgs) -> u8 {
    match man::page(&args.command) {
        Ok(page) => answer(&page, SUCCESS),
        Err(error) => wrong_argument(error),
    }
}

fn wrong_argument(error: impl Into<anyhow::Error>) -> u8 {
    output::complain(format_args!("error: {:#}", error.into()));
    USAGE
}
