//! Bursts of 50 parallel requests over two processes of an app: exactly 20 are admitted.

use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;

use anyhow::{Result, ensure};
use serde::Serialize;

use super::apps::RunningApp;
use super::connection::AppAnswer;
use super::served::AskedService;

pub(super) const LIMIT: u32 = 20;
const CLIENTS: usize = 50;

#[derive(Debug, Serialize)]
pub(super) struct BurstResult {
    pub(super) rounds: u32,
    /// Rounds that admitted exactly the limit.
    pub(super) exact: u32,
    /// What was wrong in the other rounds, and with single answers.
    pub(super) violations: Vec<String>,
}

/// Each round has a user of its own, and every connection is open before it.
pub(super) fn prove(app: &RunningApp, service: &AskedService, rounds: u32) -> Result<BurstResult> {
    let answers = Mutex::new((0..rounds).map(|_| Vec::new()).collect::<Vec<Vec<AppAnswer>>>());
    let start = Barrier::new(CLIENTS);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|index| {
                let (answers, start) = (&answers, &start);
                scope.spawn(move || {
                    let mut connection = app.connection(index);
                    for round in 0..rounds {
                        let connected = connection.connect();
                        start.wait();
                        // After the barrier, so that nobody waits for a client that is gone.
                        let answer = connected.and_then(|()| connection.get("/limited", &user(round)));
                        let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
                        if let (Ok(answer), Some(answers)) = (answer, answers.get_mut(round as usize)) {
                            answers.push(answer);
                        }
                    }
                })
            })
            .collect();
        let panicked = clients.into_iter().filter_map(|client| client.join().err()).count();
        ensure!(panicked == 0, "a client panicked");
        Ok(())
    })?;
    let mut result = BurstResult { rounds, exact: 0, violations: Vec::new() };
    let answers = answers.into_inner().unwrap_or_else(PoisonError::into_inner);
    for (round, answers) in (0..rounds).zip(answers) {
        let mut wrong: Vec<_> = answers.iter().filter_map(fault).collect();
        let admitted = answers.iter().filter(|answer| answer.status == 200).count();
        let used = service.used(&user(round))?;
        if admitted != LIMIT as usize || used != u64::from(LIMIT) || answers.len() != CLIENTS {
            wrong.push(format!("{admitted} of {} admitted, {used} used", answers.len()));
        }
        result.exact += u32::from(wrong.is_empty());
        result.violations.extend(wrong.into_iter().map(|fault| format!("round {}: {fault}", round + 1)));
    }
    Ok(result)
}

fn user(round: u32) -> String {
    format!("burst-{round}")
}

/// Returns what is wrong with an answer by itself.
fn fault(answer: &AppAnswer) -> Option<String> {
    let seconds = answer.header("retry-after").and_then(|seconds| seconds.parse::<u64>().ok());
    match answer.status {
        200 if answer.has_limit_headers() => None,
        200 => Some("admitted without a count".to_owned()),
        429 if seconds.is_none_or(|seconds| seconds == 0) => Some("denied without Retry-After".to_owned()),
        429 if answer.header("cache-control") != Some("no-store") => {
            Some("a denial may be cached".to_owned())
        }
        429 => None,
        status => Some(format!("status {status}")),
    }
}
