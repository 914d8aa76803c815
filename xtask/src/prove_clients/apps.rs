//! The two processes of an app that each proof starts.
//!
//! An app takes its address, that of the service, that of Redis, the timeout of its client and a limit from its
//! environment. It answers `/limited` under the limit of the service, `/free` without one, `/bare` after a plain request
//! to the service, `/usual` under the framework's usual limiter on the same Redis, `/adapter` under a limiter of others
//! that counts the limit an hour in the service, and `/failures` with the client's counts. The plain request is made by the
//! HTTP library of the client, or by `java.net.http`, because the client for Java has none.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::command::CommandLine;
use crate::service::{KilledProcess, free_address, until};
use crate::stopwatch::Stopwatch;

use super::connection::AppConnection;

/// An app that can be started.
pub(super) struct PreparedApp {
    /// The command without its address.
    pub(super) line: CommandLine,
    /// Returns the arguments that name its address, if it does not read that from its environment.
    pub(super) address_arguments: fn(SocketAddr) -> Vec<String>,
    /// How long it is loaded before anything is judged or measured.
    pub(super) warm_up: Duration,
    /// What the app writes goes to the end of this file.
    pub(super) log: PathBuf,
}

impl PreparedApp {
    /// Starts two processes that ask the service at this address, waits until they answer, and warms them up.
    pub(super) fn start(
        &self,
        service: SocketAddr,
        redis: &str,
        timeout: Duration,
        limit: u32,
    ) -> Result<RunningApp> {
        let addresses = [free_address()?, free_address()?];
        let mut processes = Vec::new();
        for address in addresses {
            let line = self
                .line
                .clone()
                .arguments((self.address_arguments)(address))
                .environment("LISTEN", address.to_string())
                .environment("TOLLGATE_URL", format!("http://{service}"))
                .environment("REDIS_URL", redis)
                .environment("TIMEOUT", timeout.as_secs_f64().to_string())
                .environment("LIMIT", limit.to_string());
            let mut process = KilledProcess(line.spawn_into(&self.log)?);
            let mut has_ended = false;
            until("an app answers", || {
                has_ended = matches!(process.0.try_wait(), Ok(Some(_)));
                has_ended || AppConnection::new(address).get("/free", "").is_ok_and(|it| it.status == 200)
            })?;
            ensure!(!has_ended, "an app ended by itself, see {}: {line}", self.log.display());
            processes.push(process);
        }
        for address in addresses {
            let (mut connection, watch) = (AppConnection::new(address), Stopwatch::start());
            while watch.elapsed() < self.warm_up {
                connection.get("/limited", "warm-up")?;
            }
        }
        Ok(RunningApp { addresses, warm_up: self.warm_up, _processes: processes })
    }
}

/// Two processes of an app on free ports, which end on drop.
pub(super) struct RunningApp {
    pub(super) addresses: [SocketAddr; 2],
    pub(super) warm_up: Duration,
    _processes: Vec<KilledProcess>,
}

impl RunningApp {
    /// The kept-alive connections of all processes in turn.
    pub(super) fn connection(&self, index: usize) -> AppConnection {
        AppConnection::new(self.addresses[index % self.addresses.len()])
    }

    /// Returns how many calls of both processes' clients had no answer.
    pub(super) fn failures(&self) -> Result<u64> {
        let mut sum = 0;
        for address in self.addresses {
            let answer = AppConnection::new(address).get("/failures", "")?;
            let counts: Value = serde_json::from_slice(&answer.body).context("/failures sent no JSON")?;
            let counts = counts.as_object().context("/failures sent no object")?;
            sum += counts.values().filter_map(Value::as_u64).sum::<u64>();
        }
        Ok(sum)
    }
}
