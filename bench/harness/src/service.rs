//! An HTTP server under measurement, on a core of its own until it is dropped.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::affinity::pin_this_thread;
use crate::cpu_time::cpu_time;
use crate::stopwatch::Stopwatch;

const START_TIMEOUT: Duration = Duration::from_secs(10);

pub struct Service {
    pub name: &'static str,
    pub address: SocketAddr,
    /// The token that requests show.
    pub token: Option<String>,
    pub is_encrypted: bool,
    process: Child,
}

impl Service {
    /// Starts what this command of a free address says, on this core, and waits until it listens there.
    pub fn start(
        name: &'static str,
        core: usize,
        command: impl FnOnce(SocketAddr) -> Command,
    ) -> Result<Self> {
        pin_this_thread(core)?;
        let address = free_address()?;
        let mut command = command(address);
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let process = process.with_context(|| format!("{command:?}"))?;
        let mut service = Self { name, address, token: None, is_encrypted: false, process };
        let watch = Stopwatch::start();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = service.process.try_wait()? {
                bail!("{command:?} ended: {status}");
            }
            ensure!(watch.elapsed() < START_TIMEOUT, "{command:?} does not listen on {address}");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(service)
    }

    /// The same, where requests show this token.
    #[must_use]
    pub fn asked_with(mut self, token: String) -> Self {
        self.token = Some(token);
        self
    }

    /// The same, asked over TLS.
    #[must_use]
    pub fn asked_over_tls(mut self) -> Self {
        self.is_encrypted = true;
        self
    }

    /// User and system time of all its threads so far.
    pub fn cpu_time(&self) -> Result<Duration> {
        cpu_time(self.process.id())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended by itself, and there is nobody left to tell.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// An address that nobody listened on a moment ago.
fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
    Ok(listener.local_addr()?)
}
