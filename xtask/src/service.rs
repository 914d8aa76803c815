//! A running service on free ports, which stops on drop.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Child;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::command::{CommandLine, command, program, target_directory};
use crate::stopwatch::Stopwatch;

const START_TIMEOUT: Duration = Duration::from_secs(10);

/// How long [`until`] polls.
const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct BuiltService {
    pub(crate) public: SocketAddr,
    pub(crate) admin: SocketAddr,
    process: Child,
}

impl BuiltService {
    /// Builds the service and starts it with this limit.
    pub(crate) fn start(limit: &str) -> Result<Self> {
        command("cargo build --locked --package tollgate-server").run()?;
        let binary = target_directory()?.join("debug").join("tollgate");
        let (public, admin) = (free_address()?, free_address()?);
        let line = program(&binary).arguments(["serve", "--limit", limit]);
        let line = line.argument("--listen").argument(public.to_string());
        let line = line.argument("--admin-listen").argument(admin.to_string());
        let mut service = Self { public, admin, process: line.spawn()? };
        service.wait_until_it_listens(&line)?;
        Ok(service)
    }

    /// Fails if the service has ended by itself.
    pub(crate) fn expect_running(&mut self) -> Result<()> {
        match self.process.try_wait()? {
            Some(status) => bail!("the service ended ({status})"),
            None => Ok(()),
        }
    }

    fn wait_until_it_listens(&mut self, line: &CommandLine) -> Result<()> {
        let watch = Stopwatch::start();
        while [self.public, self.admin].iter().any(|address| TcpStream::connect(address).is_err()) {
            self.expect_running()?;
            ensure!(watch.elapsed() < START_TIMEOUT, "does not listen after {START_TIMEOUT:?}: {line}");
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for BuiltService {
    fn drop(&mut self) {
        // It may have ended by itself; there is nobody to report an error to.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Polls until it holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) -> Result<()> {
    let watch = Stopwatch::start();
    while !holds() {
        ensure!(watch.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// A process that is killed on drop.
pub(crate) struct KilledProcess(pub(crate) Child);

impl Drop for KilledProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The ports that this process was given. The system may give a port again as soon as nobody listens there.
static GIVEN_PORTS: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Returns an address that was free a moment ago, another one in each call.
pub(crate) fn free_address() -> Result<SocketAddr> {
    loop {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port")?;
        let address = listener.local_addr()?;
        if GIVEN_PORTS.lock().unwrap_or_else(PoisonError::into_inner).insert(address.port()) {
            return Ok(address);
        }
    }
}
