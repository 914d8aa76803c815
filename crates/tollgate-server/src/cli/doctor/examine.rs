//! The examination of a store, in at most ten seconds.
//!
//! ```text
//! connect ──▶ server: version, eviction, persistence, cluster, clock, round trips, rights   of each server that counts
//!         ──▶ counters: expiry of those that are there, and whether many at once are exact  of the store as a whole
//! ```
//!
//! It changes only its own counter, which it removes.

use std::time::Duration;

use tokio::time::{sleep, timeout};
use tollgate_redis::{CommandError, RedisStore, RedisStoreBuilder, SettingsError, StoreServer};

use super::ask::ANSWER_LIMIT;
use super::finding::{Diagnosis, Finding, Level};
use super::{counters, server};
use crate::observe::stopwatch::Stopwatch;

/// The time for everything; the rest of the ten seconds is for the process to start and end.
const TIME_LIMIT: Duration = Duration::from_millis(9_500);

/// The time to reach the servers. One that needs longer is down for a service too.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);

/// The time to examine them after that. The rest is for the charges.
const EXAMINE_LIMIT: Duration = Duration::from_secs(4);

/// Examines the store in at most ten seconds. `docs/warnings.md` explains each check. `deadline` is that of a decision.
///
/// # Errors
///
/// If settings contradict each other, or certificates are invalid.
pub(super) async fn diagnose(
    builder: RedisStoreBuilder,
    deadline: Duration,
) -> Result<Diagnosis, SettingsError> {
    let clock = Stopwatch::start();
    // Remembered denials would answer in the store's place, a busy machine is not the store's fault, and missing rights
    // are one finding of several.
    let store = builder.local_denials(0).deadline(Duration::from_secs(4)).build_without_rights()?;

    let mut findings = Vec::new();
    match store.servers(CONNECT_LIMIT).await {
        Ok(servers) => {
            // Concurrently, because a Cluster with many or slow servers has no more time than a single one.
            let examine = |server| tokio::spawn(examine_server(store.clone(), server, deadline, clock));
            let examined: Vec<_> = servers.into_iter().map(examine).collect();
            for server in examined {
                findings.extend(server.await.unwrap_or_default());
            }
        }
        Err(error) => {
            findings.push(unreachable(format!("no server that counts is known: {error}"), &error));
        }
    }
    if findings.iter().all(|finding| finding.code() != "connect" || finding.level() == Level::Pass) {
        let exact = timeout(TIME_LIMIT.saturating_sub(clock.elapsed()), counters::exact(&store)).await;
        findings.push(exact.unwrap_or_else(|_| counters::too_slow()));
    }
    Ok(Diagnosis::new(findings))
}

/// Examines one server of the store.
async fn examine_server(
    store: RedisStore,
    server: StoreServer,
    deadline: Duration,
    clock: Stopwatch,
) -> Vec<Finding> {
    let mut answer = server.ping(ANSWER_LIMIT).await;
    while answer.is_err() && clock.elapsed() < CONNECT_LIMIT {
        sleep(Duration::from_millis(50)).await;
        answer = server.ping(ANSWER_LIMIT).await;
    }
    if let Err(error) = answer {
        return vec![unreachable(error.to_string(), &error).of(&server)];
    }
    let mut findings = vec![Finding::pass("connect", "it answers").of(&server)];
    let examined = async {
        let prefix = String::from_utf8_lossy(&store.key_prefix()).into_owned();
        server::examine(&server, deadline, &prefix, &store, &mut findings).await;
        findings.push(counters::expiry(&server, &prefix, &store).await);
    };
    let left = (CONNECT_LIMIT + EXAMINE_LIMIT).saturating_sub(clock.elapsed());
    if timeout(left, examined).await.is_err() {
        findings.push(server::too_slow().of(&server));
    }
    findings
}

fn unreachable(found: String, error: &CommandError) -> Finding {
    // There is always advice on a missing reply.
    Finding::fail("connect", found, error.advice().unwrap_or(StoreServer::ADVICE_ON_SILENCE))
}
