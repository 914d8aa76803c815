//! `cargo xtask prove upgrade`: replaces one version of the service with another on one store, behind nginx, while
//! clients charge. No request may be lost, and no unit counted twice.
//!
//! nginx learns of a leaving process as it would from an ingress controller: by a look at `/readyz`, which answers 503
//! from the signal on, and by a reload of its configuration.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::command::{command, program, target_directory};
use crate::servers;
use crate::service::{KilledProcess, free_address, until};
use crate::unpacked::NGINX;

/// The oldest version that can run together with this one. A change that breaks this names a new one here, and says so
/// in the changelog.
pub(crate) const OLDEST: &str = "e6acac5";

const PATIENCE: Duration = Duration::from_secs(120);

/// Longer than nginx takes to reload.
const DRAIN_DELAY: &str = "5s";

const CAP: u64 = 500;
const CLIENTS: usize = 4;

/// Windows of each anchor, in one policy that admits everybody during the proof and in one that does not.
const POLICIES: &str = "
policies:
  - { name: open, match: { path: /open }, key: [user], on_store_failure: closed,
      quotas: [1000000000/1d@first_hit, 1000000000/365d@staggered] }
  - { name: capped, match: { path: /capped }, key: [user], on_store_failure: closed,
      quotas: [500/1d@first_hit, 1000000/365d] }
";

pub(crate) fn prove(from: &str) -> Result<()> {
    servers::require()?;
    let folder = target_directory()?.join("upgrade");
    fs::create_dir_all(&folder)?;
    let old = build(from, &folder)?;
    command("cargo build --locked --package tollgate-server").run()?;
    let new = folder.join("new");
    fs::copy(target_directory()?.join("debug/tollgate"), &new)?;

    let store = free_address()?;
    let _store = KilledProcess(
        command("valkey-server --bind 127.0.0.1 --appendonly no --port")
            .argument(store.port().to_string())
            .arguments(["--save", ""])
            .directory(folder.clone())
            .spawn_quiet()?,
    );
    until("the store listens", || TcpStream::connect(store).is_ok())?;
    fs::write(folder.join("policies.yaml"), POLICIES)?;
    let service = |binary: &Path, checks| UpgradedService::start(binary, checks, store, &folder);
    let ports = [free_address()?, free_address()?];
    let mut services = [service(&old, ports[0])?, service(&old, ports[1])?];
    let nginx = Nginx::start(&folder, &ports)?;

    let is_over = AtomicBool::new(false);
    let (rolled, charged) = thread::scope(|scope| {
        let (is_over, address) = (&is_over, nginx.address);
        let clients: Vec<_> =
            (0..CLIENTS).map(|client| scope.spawn(move || charge(address, client, is_over))).collect();
        let rolled = (|| {
            for binary in [&new, &old, &new] {
                for (place, leaving) in services.iter_mut().enumerate() {
                    leaving.signal()?;
                    until("it says that it leaves", || {
                        status(leaving.checks, "/readyz").is_ok_and(|it| it != 200)
                    })?;
                    nginx.pass_to(&[ports[1 - place]])?;
                    leaving.expect_drained()?;
                    *leaving = service(binary, ports[place])?;
                    nginx.pass_to(&ports)?;
                }
            }
            anyhow::Ok(())
        })();
        is_over.store(true, Ordering::Relaxed);
        let joined =
            clients.into_iter().map(|client| client.join().unwrap_or_else(|_| bail!("a client panicked")));
        let charged: Result<Vec<ClientTally>> = joined.collect();
        (rolled, charged)
    });
    rolled?;
    let (mut admitted, mut denied) = (BTreeMap::new(), 0);
    for client in charged? {
        denied += client.denied;
        for (user, units) in client.admitted {
            *admitted.entry(user).or_insert(0) += units;
        }
    }
    ensure!(denied > 0, "nobody was denied: the machine is too slow for this proof");
    let mut violations = 0;
    for ((path, user), units) in &admitted {
        let (_, answer) = ask(services[0].checks, "/v1/peek", path, user)?;
        let used: Vec<_> = answer["quotas"].as_array().into_iter().flatten().map(|it| &it["used"]).collect();
        let is_exact = used.len() == 2 && used.iter().all(|used| **used == *units);
        if !is_exact || (*path == "/capped" && *units != CAP) {
            println!("{path} {user}: {units} admitted, counted as {used:?}");
            violations += 1;
        }
    }
    let units: u64 = admitted.values().sum();
    println!(
        "RESULT prove/upgrade from={from} exchanged=6 admitted={units} denied={denied} violations={violations}"
    );
    ensure!(violations == 0, "a unit was lost, or counted twice");
    Ok(())
}

/// Builds the service of this commit from a copy of its sources, unless it exists already.
fn build(commit: &str, folder: &Path) -> Result<PathBuf> {
    let commit = command("git rev-parse --verify").argument(format!("{commit}^{{commit}}")).read()?;
    let commit = commit.trim();
    let binary = folder.join(format!("tollgate-{commit}"));
    if binary.exists() {
        return Ok(binary);
    }
    let (source, archive) = (folder.join("source"), folder.join("source.tar"));
    let _ = fs::remove_dir_all(&source);
    fs::create_dir_all(&source)?;
    command("git archive --output").argument(&archive).argument(commit).run()?;
    command("tar --extract --file").argument(&archive).directory(source.clone()).run()?;
    let target = target_directory()?;
    let build = command("cargo build --locked --package tollgate-server --target-dir").argument(&target);
    build.directory(source).run()?;
    fs::copy(target.join("debug/tollgate"), &binary)?;
    Ok(binary)
}

struct UpgradedService {
    process: KilledProcess,
    checks: SocketAddr,
}

impl UpgradedService {
    /// Starts the service and waits until it is ready.
    fn start(binary: &Path, checks: SocketAddr, store: SocketAddr, folder: &Path) -> Result<Self> {
        let line = program(binary)
            .directory(folder.to_owned())
            .arguments(["serve", "--config", "policies.yaml", "--listen", &checks.to_string()])
            .arguments(["--admin-listen", "127.0.0.1:0", "--store", &format!("redis://{store}")])
            // A busy machine is not trouble of the store.
            .arguments(["--store-timeout", "30s", "--drain-delay", DRAIN_DELAY]);
        let mut service = Self { process: KilledProcess(line.spawn_quiet()?), checks };
        let mut has_ended = false;
        until("a service is ready", || {
            has_ended = matches!(service.process.0.try_wait(), Ok(Some(_)));
            has_ended || status(checks, "/readyz").is_ok_and(|it| it == 200)
        })?;
        ensure!(!has_ended, "a service ended by itself: {line}");
        Ok(service)
    }

    fn signal(&self) -> Result<()> {
        Ok(kill_process(Pid::from_child(&self.process.0), Signal::TERM)?)
    }

    fn expect_drained(&mut self) -> Result<()> {
        let status = self.process.0.wait()?;
        ensure!(status.success(), "a drain ended with {status}");
        Ok(())
    }
}

struct Nginx {
    process: KilledProcess,
    address: SocketAddr,
    folder: PathBuf,
}

impl Nginx {
    fn start(folder: &Path, services: &[SocketAddr]) -> Result<Self> {
        let (address, folder) = (free_address()?, folder.join("nginx"));
        fs::create_dir_all(&folder)?;
        configure(&folder, address, services)?;
        let prefix = folder.to_str().context("the target directory is no text")?;
        let process = program(&NGINX.program()?)
            .arguments(["-p", prefix, "-c", "nginx.conf", "-e", "error.log"])
            .spawn()?;
        let nginx = Self { process: KilledProcess(process), address, folder };
        until("nginx listens", || TcpStream::connect(address).is_ok())?;
        Ok(nginx)
    }

    fn pass_to(&self, services: &[SocketAddr]) -> Result<()> {
        configure(&self.folder, self.address, services)?;
        Ok(kill_process(Pid::from_child(&self.process.0), Signal::HUP)?)
    }
}

impl Drop for Nginx {
    /// Also ends its workers, which outlive a master that is killed.
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.process.0), Signal::TERM);
        let _ = self.process.0.wait();
    }
}

/// With nginx's default: a POST that was sent to one service is not sent to another.
fn configure(folder: &Path, address: SocketAddr, services: &[SocketAddr]) -> Result<()> {
    let servers: String = services.iter().map(|service| format!("server {service} max_fails=0; ")).collect();
    let text = format!(
        "daemon off; worker_processes 1; pid nginx.pid;\n\
         events {{}}\n\
         http {{ access_log off; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;\n\
         uwsgi_temp_path uwsgi; scgi_temp_path scgi; upstream tollgate {{ {servers}}}\n\
         server {{ listen {address}; location / {{ proxy_pass http://tollgate; }} }} }}\n"
    );
    Ok(fs::write(folder.join("nginx.conf"), text)?)
}

/// The answers to one client.
struct ClientTally {
    admitted: BTreeMap<(&'static str, String), u64>,
    denied: u64,
}

/// Charges until the end. A request that is neither admitted nor denied was lost.
fn charge(nginx: SocketAddr, client: usize, is_over: &AtomicBool) -> Result<ClientTally> {
    let mut charged = ClientTally { admitted: BTreeMap::new(), denied: 0 };
    for turn in client.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        // Each user is charged by every client.
        let (path, user) = (["/open", "/capped"][turn % 2], format!("user-{}", turn / 2 % 2));
        match ask(nginx, "/v1/check", path, &user)? {
            (200, _) => *charged.admitted.entry((path, user)).or_insert(0) += 1,
            (429, _) => charged.denied += 1,
            (status, answer) => bail!("a request was lost: {status} {answer}"),
        }
    }
    Ok(charged)
}

fn ask(address: SocketAddr, operation: &str, path: &str, user: &str) -> Result<(u16, Value)> {
    let body = json!({ "attributes": { "path": path, "user": user } }).to_string();
    let head = format!(
        "POST {operation} HTTP/1.1\r\nHost: t\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    let (status, answer) = converse(address, &(head + &body))?;
    Ok((status, serde_json::from_str(&answer).unwrap_or(Value::String(answer))))
}

fn status(address: SocketAddr, path: &str) -> Result<u16> {
    Ok(converse(address, &format!("GET {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n"))?.0)
}

/// Returns the status and the body of the answer.
fn converse(address: SocketAddr, request: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer has no head")?;
    let status = head.split(' ').nth(1).context("the answer has no status")?;
    Ok((status.parse()?, body.to_owned()))
}
