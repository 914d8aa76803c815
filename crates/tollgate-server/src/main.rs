//! The `tollgate` binary: a table of contents, and the only place where the process exits.

use std::process::ExitCode;

use tollgate_policy::ConfigError;
use tollgate_redis::Level;
use tollgate_server::args::{Args, CheckArgs, CheckConfigArgs, Command, DoctorArgs, ExplainArgs, ServeArgs};
use tollgate_server::explain::ExplainError;
use tollgate_server::{Ended, Settings, SettingsError, check_config, client, doctor, explain, logs};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What the command line said cannot be; the same as clap's own.
const USAGE: u8 = 2;
/// A second signal cut the drain short: 128 and the number of SIGINT, as shells report it.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let Args { command } = Args::from_process();
    let (outcome, failure) = match command {
        Command::Serve(args) => (serve(*args), ExitCode::FAILURE),
        Command::Doctor(args) => (doctor(&args), ExitCode::FAILURE),
        // For a check, status 1 is a denial.
        Command::Check(args) => (check(args), ExitCode::from(client::NO_ANSWER)),
        Command::CheckConfig(args) => (check_config(&args), ExitCode::FAILURE),
        Command::Explain(args) => (explain(&args), ExitCode::FAILURE),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        failure
    })
}

fn serve(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let settings = match Settings::new(args) {
        Ok(settings) => settings,
        Err(error) => return Ok(wrong_setting(&error)),
    };
    logs::start(settings.log_format);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(tollgate_server::serve(settings));
    // What is left over after the drain's time is up is not waited for.
    runtime.shutdown_background();
    Ok(match ended? {
        Ended::Drained => ExitCode::SUCCESS,
        Ended::Interrupted => ExitCode::from(INTERRUPTED),
    })
}

fn doctor(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match runtime.block_on(doctor::run(args)) {
        Ok(Level::Fail) => Ok(ExitCode::FAILURE),
        Ok(_) => Ok(ExitCode::SUCCESS),
        Err(error) => Ok(wrong_setting(&error)),
    }
}

fn wrong_setting(error: &SettingsError) -> ExitCode {
    eprintln!("error: {error}");
    ExitCode::from(USAGE)
}

fn check(args: CheckArgs) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(client::run(&args));
    if let Err(error) = &outcome {
        eprintln!("error: {error}");
    }
    Ok(ExitCode::from(client::exit_status(&outcome)))
}

fn check_config(args: &CheckConfigArgs) -> anyhow::Result<ExitCode> {
    match check_config::run(args) {
        Ok(true) => Ok(ExitCode::SUCCESS),
        Ok(false) => Ok(ExitCode::FAILURE),
        Err(error) => Ok(wrong_argument(error)),
    }
}

fn explain(args: &ExplainArgs) -> anyhow::Result<ExitCode> {
    match explain::run(args) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        // Each of its lines names the file.
        Err(ExplainError::File(error @ ConfigError::Invalid { .. })) => {
            eprintln!("{error}");
            Ok(ExitCode::FAILURE)
        }
        Err(error) => Ok(wrong_argument(error)),
    }
}

fn wrong_argument(error: impl Into<anyhow::Error>) -> ExitCode {
    eprintln!("error: {:#}", error.into());
    ExitCode::from(USAGE)
}
