//! A server under measurement, on core 0 until it is dropped.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tollgate_bench::affinity::pin_this_thread;
use tollgate_bench::stopwatch::Stopwatch;

const CORE: usize = 0;
const START_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    process: Child,
}

impl Server {
    /// The service, with a limit that is never reached.
    pub(crate) fn service(binary: &Path) -> Result<Self> {
        let address = free_address()?;
        let mut command = Command::new(binary);
        command.args(["serve", "--limit", "1000000000/1h", "--key", "user"]);
        command.args(["--listen", &address.to_string(), "--admin-listen", "127.0.0.1:0"]);
        Self::start("ours", address, command)
    }

    /// The floor.
    pub(crate) fn hello(binary: &Path) -> Result<Self> {
        let address = free_address()?;
        let mut command = Command::new(binary);
        command.arg(address.to_string());
        Self::start("hyper", address, command)
    }

    fn start(name: &'static str, address: SocketAddr, mut command: Command) -> Result<Self> {
        pin_this_thread(CORE)?;
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut server = Self { name, address, process: process.with_context(|| format!("{command:?}"))? };
        let watch = Stopwatch::start();
        while TcpStream::connect(address).is_err() {
            if let Some(status) = server.process.try_wait()? {
                bail!("{command:?} ended: {status}");
            }
            ensure!(watch.elapsed() < START_TIMEOUT, "{command:?} does not listen on {address}");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    /// User and system time of all its threads so far. A thread that ended would be missing; these servers
    /// keep theirs.
    pub(crate) fn cpu_time(&self) -> Result<Duration> {
        let tasks = format!("/proc/{}/task", self.process.id());
        let mut nanos = 0;
        for task in fs::read_dir(&tasks).with_context(|| tasks.clone())? {
            let schedstat = task?.path().join("schedstat");
            let text = fs::read_to_string(&schedstat).with_context(|| schedstat.display().to_string())?;
            // Time on a core, time waiting for one, time slices; in nanoseconds, where `stat` counts ticks.
            let on_core = text.split_whitespace().next().context("an empty schedstat")?;
            nanos += on_core.parse::<u64>()?;
        }
        Ok(Duration::from_nanos(nanos))
    }
}

impl Drop for Server {
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
