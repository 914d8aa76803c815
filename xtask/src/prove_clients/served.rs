//! The service on a Redis of its own, which the apps ask.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::command::{command, program};
use crate::service::{KilledProcess, free_address, until};

use super::connection::AppConnection;

/// A Redis that starts empty and keeps nothing.
pub(super) struct EmptyRedis {
    pub(super) address: SocketAddr,
    _process: KilledProcess,
}

impl EmptyRedis {
    pub(super) fn start(folder: &Path) -> Result<Self> {
        let address = free_address()?;
        let line = command("redis-server --bind 127.0.0.1 --appendonly no --port");
        let line = line.argument(address.port().to_string()).arguments(["--save", ""]);
        let process = KilledProcess(line.directory(folder.to_owned()).spawn_quiet()?);
        until("Redis listens", || TcpStream::connect(address).is_ok())?;
        Ok(Self { address, _process: process })
    }

    pub(super) fn url(&self) -> String {
        format!("redis://{}", self.address)
    }
}

/// The service, with one policy for the checks that apps call `search`.
pub(super) struct AskedService {
    pub(super) address: SocketAddr,
    folder: PathBuf,
    binary: PathBuf,
    store: String,
    process: KilledProcess,
}

impl AskedService {
    /// Starts the service with this limit for each user.
    pub(super) fn start(binary: &Path, folder: &Path, redis: &EmptyRedis, limit: u32) -> Result<Self> {
        let policies = json!({ "policies": [{
            "name": "search",
            "match": { "action": "search" },
            "key": ["user"],
            "quotas": [format!("{limit}/365d")],
            "headers": "draft-11",
        }]});
        fs::write(folder.join("policies.yaml"), policies.to_string())?;
        let address = free_address()?;
        let process = Self::spawn(binary, folder, address, &redis.url())?;
        let (folder, binary, store) = (folder.to_owned(), binary.to_owned(), redis.url());
        Ok(Self { address, folder, binary, store, process })
    }

    fn spawn(binary: &Path, folder: &Path, address: SocketAddr, store: &str) -> Result<KilledProcess> {
        let line = program(binary)
            .directory(folder.to_owned())
            .arguments(["serve", "--config", "policies.yaml", "--caller-quotas", "--store", store])
            // A busy machine is not trouble of the store, which would answer in its place.
            .arguments(["--store-timeout", "30s"])
            .arguments(["--listen", &address.to_string(), "--admin-listen", "127.0.0.1:0"]);
        let mut process = KilledProcess(line.spawn_into(&folder.join("service.log"))?);
        let mut has_ended = false;
        until("the service is ready", || {
            has_ended = matches!(process.0.try_wait(), Ok(Some(_)));
            has_ended || AppConnection::new(address).get("/readyz", "").is_ok_and(|it| it.status == 200)
        })?;
        ensure!(!has_ended, "the service ended by itself: {line}");
        Ok(process)
    }

    pub(super) fn kill(&mut self) -> Result<()> {
        self.process.0.kill()?;
        self.process.0.wait()?;
        Ok(())
    }

    /// Starts it again on its address.
    pub(super) fn restart(&mut self) -> Result<()> {
        self.process = Self::spawn(&self.binary, &self.folder, self.address, &self.store)?;
        Ok(())
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.process.0), signal)?)
    }

    /// Returns how much of this user's limit is used.
    pub(super) fn used(&self, user: &str) -> Result<u64> {
        let request = json!({ "attributes": { "action": "search", "user": user } });
        let answer = AppConnection::new(self.address).post("/v1/peek", &request)?;
        let body: Value = serde_json::from_slice(&answer.body).context("the service sent no JSON")?;
        body["used"].as_u64().with_context(|| format!("the service peeked at nothing: {body}"))
    }
}
