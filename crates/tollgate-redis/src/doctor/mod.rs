//! The doctor: examines a store in at most ten seconds.
//!
//! ```text
//! connect ──▶ server: version, eviction, persistence, cluster, clock, round trips, rights   of each server that counts
//!         ──▶ counters: expiry of those that are there, and whether many at once are exact  of the store as a whole
//! ```
//!
//! It changes only its own counter, which it removes.

mod advice;
mod counters;
mod finding;
mod server;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout_at};

pub use self::finding::{Diagnosis, Finding, Level};
use crate::builder::RedisStoreBuilder;
use crate::keys::Names;
use crate::node::Node;
use crate::resp::{Command, Take, Value, command};
use crate::settings::SettingsError;
use crate::time::{Instant, instant};
use crate::trouble::Trouble;
use crate::trouble::advice::on;

/// The time for everything; the rest of the ten seconds is for the process to start and end.
const TIME_LIMIT: Duration = Duration::from_millis(9_500);

/// The time to reach the servers. One that needs longer is down for a service too.
const CONNECT_LIMIT: Duration = Duration::from_secs(3);

/// The time to examine them after that. The rest is for the charges.
const EXAMINE_LIMIT: Duration = Duration::from_secs(4);

/// For one command.
const ANSWER_LIMIT: Duration = Duration::from_secs(1);

impl RedisStoreBuilder {
    /// Examines the store in at most ten seconds.
    ///
    /// | code | fails or warns if |
    /// |---|---|
    /// | `connect` | a server with counters cannot be reached, or is too old |
    /// | `version` | the server does not report its version |
    /// | `eviction` | the server evicts live counters when its memory is full, or is full and accepts no new ones |
    /// | `persistence` | counters are lost when the server restarts, or it cannot save |
    /// | `cluster` | slots of a cluster are not served |
    /// | `clock` | the server's clock differs from this machine's by more than 250 ms |
    /// | `round-trip` | answers take long, compared with the deadline of a decision |
    /// | `rights` | the user lacks rights that counting needs |
    /// | `expiry` | counters are there that never expire |
    /// | `exact` | of 1,000 concurrent charges, the number admitted is not exactly the limit |
    ///
    /// # Errors
    ///
    /// If settings contradict each other, or certificates are invalid.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime.
    pub async fn diagnose(self) -> Result<Diagnosis, SettingsError> {
        let deadline = instant() + TIME_LIMIT;
        let (timeout, names) = (self.timeout(), Arc::new(self.names()));
        // What is remembered here would answer in the store's place, a busy machine is none of its faults, and missing
        // rights are one finding of several.
        let store = self.local_denials(0).deadline(Duration::from_secs(4)).start()?;

        let mut findings = Vec::new();
        let connected_by = instant() + CONNECT_LIMIT;
        match store.topology().primaries(connected_by).await {
            Ok(nodes) => {
                // Concurrently, because a Cluster with many or slow servers has no more time than a single one.
                let look = |node| tokio::spawn(look_at(node, timeout, Arc::clone(&names), connected_by));
                let looked_at: Vec<_> = nodes.into_iter().map(look).collect();
                for server in looked_at {
                    findings.extend(server.await.unwrap_or_default());
                }
            }
            Err(trouble) => findings.push(Finding::fail(
                "connect",
                format!("no server that counts is known: {trouble}"),
                on(&trouble),
            )),
        }
        if findings.iter().all(|finding| finding.code() != "connect" || finding.level() == Level::Pass) {
            let exact = timeout_at(deadline, counters::exact(&store)).await;
            findings.push(exact.unwrap_or_else(|_| counters::too_slow()));
        }
        Ok(Diagnosis::new(findings))
    }
}

/// Examines one server.
async fn look_at(
    node: Arc<Node>,
    timeout: Duration,
    names: Arc<Names>,
    connected_by: Instant,
) -> Vec<Finding> {
    let name = node.address();
    let mut answer = ping(&node).await;
    while answer.is_err() && instant() < connected_by {
        sleep(Duration::from_millis(50)).await;
        answer = ping(&node).await;
    }
    if let Err(trouble) = answer {
        return vec![Finding::fail("connect", trouble.to_string(), on(&trouble)).of(name)];
    }
    let mut findings = vec![Finding::pass("connect", "it answers").of(name)];
    let examined = async {
        let prefix = String::from_utf8_lossy(&names.head()).into_owned();
        server::examine(&node, timeout, &prefix, &mut findings).await;
        findings.push(counters::expiry(&node, &prefix, &names).await);
    };
    if timeout_at(connected_by + EXAMINE_LIMIT, examined).await.is_err() {
        findings.push(server::too_slow().of(name));
    }
    findings
}

async fn ping(node: &Node) -> Result<(), Trouble> {
    match node.ask(&command("PING"), instant() + ANSWER_LIMIT).await? {
        Value::Error(error) => Err(Trouble::of_reply(&error, node.address())),
        _ => Ok(()),
    }
}

/// Returns a server's answer, or a readable reason why there is none.
async fn ask<T: Take>(node: &Node, command: &Command) -> Result<T, String> {
    let answer = node.ask(command, instant() + ANSWER_LIMIT).await.map_err(|trouble| trouble.to_string())?;
    match answer {
        Value::Error(error) => Err(format!("it says {:?}", error.text())),
        answer => T::take(answer).ok_or_else(|| "the answer makes no sense".to_owned()),
    }
}
