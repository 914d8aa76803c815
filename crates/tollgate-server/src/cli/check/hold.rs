//! `tollgate check --hold`: reserves, runs a command, renews the hold meanwhile, and settles it.
//!
//! Standard output is the command's; messages go to standard error. The id of the hold is made here, so that each call
//! can be repeated after a lost reply.

use std::cell::Cell;
use std::future::pending;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use tokio::time::{sleep, timeout};
use tollgate::HoldId;
use tollgate_policy::Attributes;

use super::command::{AfterLoss, CaughtSignals, RunningCommand, not_started};
use super::decision::Decision;
use super::loss::Loss;
use super::{as_object, exchange};
use crate::args::CheckArgs;
use crate::args::exit_status::{FAILURE, NOT_ADMITTED, USAGE};
use crate::cli::client::{ClientError, NO_SERVICE, problem};
use crate::cli::output;
use crate::observe::stopwatch::Stopwatch;
use crate::request::attributes;

/// How often a call is sent that gets no answer.
const TRIES: u32 = 3;

/// The pause before it is sent again.
const PAUSE: Duration = Duration::from_millis(200);

/// A hold is renewed when this part of its length has passed, so that two renewals may be late.
const RENEWALS_A_LENGTH: u32 = 3;

/// A hold of the service.
struct ServedHold {
    /// Names it to the service.
    sealed: String,
    length: Duration,
    /// Since when it may have been counted.
    asked: Stopwatch,
}

#[derive(Serialize)]
struct ReserveBody<'a> {
    #[serde(serialize_with = "as_object")]
    attributes: Attributes<'a>,
    cost: u32,
    units: u32,
    expires_after: String,
    id: String,
}

#[derive(Serialize)]
struct RenewBody<'a> {
    hold: &'a str,
}

#[derive(Serialize)]
struct SettleBody<'a> {
    hold: &'a str,
    cost: u32,
}

/// What the service admitted the command with.
struct AdmittedCommand {
    /// None if nothing limits the request.
    hold: Option<ServedHold>,
    /// Whether units in flight are held.
    has_units: bool,
}

/// The printed part of a reservation is a decision. Without a hold, nothing limits the request.
#[derive(Deserialize)]
struct ReservationBody {
    hold: Option<String>,
    expires_after_ms: Option<u64>,
    /// Whether a call whose answer was lost has made it.
    #[serde(default)]
    repeated: bool,
}

#[derive(Deserialize)]
struct HoldStatusBody {
    status: String,
    expires_after_ms: Option<u64>,
}

/// Runs a command while it holds. Returns the exit status, which is the command's if it ran.
pub async fn run_held(args: &CheckArgs) -> u8 {
    let Some((program, arguments)) = args.command.split_first() else { return USAGE };
    let AdmittedCommand { hold, has_units } = match reserve(args).await {
        Ok(Ok(reservation)) => reservation,
        Ok(Err(denied)) => {
            output::complain(denied);
            return NOT_ADMITTED;
        }
        Err(error) => {
            output::complain(format_args!("error: {error}"));
            return if error.is_of_arguments() { USAGE } else { NOT_ADMITTED };
        }
    };
    match &hold {
        _ if has_units => {}
        hold if args.units.is_some() => {
            output::complain("error: no limit in flight applies to this request, so --units has no effect");
            settle(args, hold.as_ref(), 0).await;
            return USAGE;
        }
        None => output::complain(
            "warning: no limit applies to this request, so nothing is held while the command runs",
        ),
        Some(_) => output::complain(
            "warning: no limit in flight applies to this request, so any number of commands run at once",
        ),
    }
    let signals = match CaughtSignals::catch() {
        Ok(signals) => signals,
        Err(error) => {
            output::complain(format_args!("error: cannot listen to signals: {error}"));
            settle(args, hold.as_ref(), 0).await;
            return FAILURE;
        }
    };
    let command = match RunningCommand::start(program, arguments, signals) {
        Ok(command) => command,
        Err((error, signals)) => {
            output::complain(format_args!("error: cannot run {}: {error}", program.display()));
            settle_within(signals, args, hold.as_ref(), 0).await;
            return not_started(&error);
        }
    };
    let after_loss = if args.keep_running { AfterLoss::KeepRunning } else { AfterLoss::Terminate };
    let (ended, signals) = command.wait(until_lost(args, hold.as_ref()), after_loss).await;
    settle_within(signals, args, hold.as_ref(), args.cost).await;
    ended.unwrap_or_else(|error| {
        output::complain(format_args!("error: cannot wait for {}: {error}", program.display()));
        FAILURE
    })
}

/// Returns the reservation, or the denial.
async fn reserve(args: &CheckArgs) -> Result<Result<AdmittedCommand, String>, ClientError> {
    let body = ReserveBody {
        attributes: attributes::of_arguments(&args.attributes),
        cost: args.cost,
        units: args.units.unwrap_or(1),
        expires_after: args.expires_after.to_string(),
        id: HoldId::random().to_string(),
    };
    let first_call = Stopwatch::start();
    let last_call = Cell::new(first_call);
    let answer = repeat(async || {
        last_call.set(Stopwatch::start());
        exchange::post(args, "/v1/reserve", &body).await
    });
    let (status, body) = answer.await?;
    let server = args.server.to_string();
    let decision = Decision::read(&server, status, &body, args.token_file.is_some())?;
    if !decision.allowed {
        return Ok(Err(decision.readable()));
    }
    let reservation: ReservationBody = serde_json::from_slice(&body)
        .map_err(|_| ClientError::Unexpected { server, status, detail: NO_SERVICE.to_owned() })?;
    let length = reservation.expires_after_ms.map_or(args.expires_after.duration(), Duration::from_millis);
    let asked = if reservation.repeated { first_call } else { last_call.get() };
    let hold = reservation.hold.map(|sealed| ServedHold { sealed, length, asked });
    let has_units = hold.is_some() && decision.may_hold_units();
    Ok(Ok(AdmittedCommand { hold, has_units }))
}

/// Renews the hold until it is lost.
async fn until_lost(args: &CheckArgs, hold: Option<&ServedHold>) -> Loss {
    let Some(ServedHold { sealed, length, asked }) = hold else { return pending().await };
    let (mut renewed, mut length) = (*asked, *length);
    loop {
        sleep((length / RENEWALS_A_LENGTH).saturating_sub(renewed.elapsed())).await;
        let mut last_error = None;
        loop {
            let asked = Stopwatch::start();
            let left = length.saturating_sub(renewed.elapsed());
            if left.is_zero() {
                return Loss::Unrenewed(last_error);
            }
            match timeout(left, renew(args, sealed)).await {
                Ok(Ok(answer)) => match (&*answer.status, answer.expires_after_ms) {
                    ("renewed", left) => {
                        (renewed, length) = (asked, left.map_or(length, Duration::from_millis));
                        break;
                    }
                    ("lost", _) => return Loss::Lost,
                    ("ended", _) => return Loss::Ended,
                    // The service admitted it without a count, as its policy says. When it is settled, it says so.
                    ("gone", _) => return pending().await,
                    _ => return Loss::Expired,
                },
                Ok(Err(error)) => {
                    last_error = Some(error);
                    sleep(PAUSE.min(left)).await;
                }
                Err(_) => return Loss::Unrenewed(last_error),
            }
        }
    }
}

async fn renew(args: &CheckArgs, sealed: &str) -> Result<HoldStatusBody, ClientError> {
    let answer = exchange::post(args, "/v1/renew", &RenewBody { hold: sealed }).await?;
    read(args, &answer)
}

/// Settles the hold as far as signals leave time for it.
async fn settle_within(mut signals: CaughtSignals, args: &CheckArgs, hold: Option<&ServedHold>, cost: u32) {
    if signals.bound(settle(args, hold, cost)).await.is_none() {
        output::complain("warning: a signal came before the hold was settled, which will expire");
    }
}

/// Ends the hold at this cost. If that fails, the hold ends by itself.
async fn settle(args: &CheckArgs, hold: Option<&ServedHold>, cost: u32) {
    let Some(ServedHold { sealed, .. }) = hold else { return };
    let body = SettleBody { hold: sealed, cost };
    let answer = repeat(async || exchange::post(args, "/v1/settle", &body).await).await;
    match answer.and_then(|answer| read(args, &answer)) {
        Ok(answer) if answer.status == "expired" => {
            output::complain("warning: the hold had expired before the command ended");
        }
        Ok(answer) if answer.status == "gone" => {
            output::complain(
                "warning: the store could not count the hold, so the command may not have run alone",
            );
        }
        Ok(_) => {}
        Err(error) => {
            output::complain(format_args!("warning: the hold was not settled, and will expire: {error}"));
        }
    }
}

fn read(args: &CheckArgs, (status, body): &(StatusCode, Bytes)) -> Result<HoldStatusBody, ClientError> {
    let problem = |_| problem(&args.server.to_string(), *status, body, args.token_file.is_some());
    serde_json::from_slice(body).map_err(problem)
}

/// Sends a call again if its answer is lost, or the service cannot decide now.
async fn repeat(
    call: impl AsyncFn() -> Result<(StatusCode, Bytes), ClientError>,
) -> Result<(StatusCode, Bytes), ClientError> {
    let mut tries = 1;
    loop {
        let answer = call().await;
        let may_pass = match &answer {
            Ok((status, _)) => *status == StatusCode::SERVICE_UNAVAILABLE,
            Err(
                ClientError::Unreachable { .. } | ClientError::Broken { .. } | ClientError::Timeout { .. },
            ) => true,
            Err(_) => false,
        };
        if !may_pass || tries == TRIES {
            return answer;
        }
        tries += 1;
        sleep(PAUSE).await;
    }
}
