//! Bursts of 50 parallel requests over two processes of an app: exactly 20 are admitted.

use std::sync::{Barrier, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;

use super::apps::RunningApp;
use super::connection::AppAnswer;
use super::served::AskedService;

pub(super) const LIMIT: u32 = 20;

/// The timeout of the apps' clients: a busy machine is no failure of the service.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

const CLIENTS: usize = 50;

#[derive(Debug, Serialize)]
pub(super) struct BurstResult {
    pub(super) rounds: u32,
    /// Rounds that admitted exactly the limit.
    pub(super) exact: u32,
    /// What was wrong in the other rounds, and with single answers.
    pub(super) violations: Vec<String>,
}

/// Sends the bursts to `/limited`, whose answers and counts must be right in every respect.
pub(super) fn prove(app: &RunningApp, service: &AskedService, rounds: u32) -> Result<BurstResult> {
    let mut result = BurstResult { rounds, exact: 0, violations: Vec::new() };
    for (round, answers) in (0..rounds).zip(bursts(app, "/limited", rounds)?) {
        let mut wrong: Vec<_> = answers.iter().filter_map(fault).collect();
        let used = service.used(&user(round))?;
        if used != u64::from(LIMIT) {
            wrong.push(format!("{used} used"));
        }
        result.add(round, &answers, wrong);
    }
    Ok(result)
}

/// Sends the bursts to `/adapter`, under a limiter of others that counts in the service.
pub(super) fn prove_adapter(app: &RunningApp, rounds: u32) -> Result<BurstResult> {
    let mut result = BurstResult { rounds, exact: 0, violations: Vec::new() };
    for (round, answers) in (0..rounds).zip(bursts(app, "/adapter", rounds)?) {
        let others = answers.iter().filter(|answer| ![200, 429].contains(&answer.status));
        let wrong = others.map(|answer| format!("status {}", answer.status)).collect();
        result.add(round, &answers, wrong);
    }
    Ok(result)
}

impl BurstResult {
    fn add(&mut self, round: u32, answers: &[AppAnswer], mut wrong: Vec<String>) {
        let admitted = answers.iter().filter(|answer| answer.status == 200).count();
        if admitted != LIMIT as usize || answers.len() != CLIENTS {
            wrong.push(format!("{admitted} of {} admitted", answers.len()));
        }
        self.exact += u32::from(wrong.is_empty());
        self.violations.extend(wrong.into_iter().map(|fault| format!("burst {}: {fault}", round + 1)));
    }
}

/// Returns the answers of each burst. Each has a user of its own, and every connection is open before it.
fn bursts(app: &RunningApp, path: &str, rounds: u32) -> Result<Vec<Vec<AppAnswer>>> {
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
                        let answer = connected.and_then(|()| connection.get(path, &user(round)));
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
    Ok(answers.into_inner().unwrap_or_else(PoisonError::into_inner))
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
