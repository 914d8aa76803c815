//! An HTTP server under measurement on its own core, which stops on drop.

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
    /// The token of every request.
    pub token: Option<String>,
    pub is_encrypted: bool,
    process: Child,
}

impl Service {
    /// Starts this command, which gets a free address, on this core. Waits until it listens there.
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

    /// Sends this token with every request.
    #[must_use]
    pub fn asked_with(mut self, token: String) -> Self {
        self.token = Some(token);
        self
    }

    /// Sends requests over TLS.
    #[must_use]
    pub fn asked_over_tls(mut self) -> Self {
        self.is_encrypted = true;
        self
    }

    /// Returns the user and system time of all its threads so far.
    pub fn cpu_time(&self) -> Result<Duration> {
        cpu_time(self.process.id())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended by itself; there is nobody to report an error to.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns an address that was free a moment ago.
fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
    Ok(listener.local_addr()?)
}
