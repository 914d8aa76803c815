//! `cargo xtask prove install`: runs the static binary in an empty root, as the image does, the service of the package
//! for Debian, and what `cargo install` makes. Builds and runs the image where a container engine is there.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::command::{CommandLine, command, program, target_directory};
use crate::debian;
use crate::dist;
use crate::servers;
use crate::service::free_address;
use crate::stopwatch::Stopwatch;

/// The size of the binary and the bundle of public CAs, the only contents of the image.
const MAX_IMAGE_BYTES: u64 = 15_000_000;

/// Of the service, which has answered once.
const MAX_ANONYMOUS_KIB: u64 = 8 * 1024;

const STARTS: usize = 21;
const PATIENCE: Duration = Duration::from_secs(60);
const PUBLIC_CAS: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The address of a name server, for names that are in no file.
const NAME_SERVER: &str = "127.0.0.77";

/// Runs a program in a read-only root, as a user without rights: the root, the user, the program and its arguments.
const IN_ROOT: &str = "mount --bind \"$0\" \"$0\" && mount --options remount,bind,ro \"$0\" && user=$1 && shift && \
                       exec chroot --userspec=\"$user:$user\" \"$0\" \"$@\"";

pub(crate) fn prove() -> Result<()> {
    ensure!(command("id -u").read()?.trim() == "0", "only root can change the root directory of a program");
    servers::require()?;
    let binary = target_directory()?.join("tollgate-of-image");
    fs::copy(dist::static_binary(&["--no-default-features"])?, &binary)?;
    let root = Root::make(&binary)?;
    expect_version(&root)?;
    let image = fs::metadata(&binary)?.len() + fs::metadata(PUBLIC_CAS)?.len();
    ensure!(image < MAX_IMAGE_BYTES, "the image would have {image} bytes");

    name_server()?;
    root.serves_days_of_a_zone()?;
    root.serves_as_ratelimit()?;
    let store = Store::start(&root)?;
    for name in ["by-hosts.test", "by-dns.test"] {
        root.serves_from(&format!("rediss://{name}:{}", store.tls.port()))?;
        println!("{name}: counted by the store, over TLS");
    }

    let memory = median_start(&binary, &[])?;
    let url = format!("redis://{}", store.plain);
    let redis = median_start(&binary, &["--store", &url, "--on-store-failure", "closed"])?;
    let (anonymous, file_kib) = memory_at_rest(&binary)?;
    ensure!(anonymous <= MAX_ANONYMOUS_KIB, "at rest the service has {anonymous} KiB of anonymous memory");
    println!(
        "RESULT prove/install image_bytes={image} start_ms={:.1} start_redis_ms={:.1} anonymous_kib={anonymous} \
         file_kib={file_kib}",
        memory.as_secs_f64() * 1e3,
        redis.as_secs_f64() * 1e3
    );
    dist::build()?;
    start_from_package()?;
    install_from_source()?;
    build_image()
}

/// Runs the command of the README, but into a folder of its own.
fn install_from_source() -> Result<()> {
    let root = target_directory()?.join("installed");
    let _ = fs::remove_dir_all(&root);
    command("cargo install --locked --profile dist --path crates/tollgate-server")
        .argument("--root")
        .argument(&root)
        .run()?;
    let said = program(&root.join("bin/tollgate")).argument("--version").read()?;
    ensure!(said.trim() == format!("tollgate {}", env!("CARGO_PKG_VERSION")), "it is {said}");
    println!("cargo install: {}", said.trim());
    fs::remove_dir_all(&root).with_context(|| format!("cannot remove {}", root.display()))
}

/// The limit is that of the settings that come with the package.
fn start_from_package() -> Result<()> {
    let package = debian::unpack()?;
    let (checks, admin) = (free_address()?, free_address()?);
    let service = InstalledService { process: package.serve(checks, admin)?.spawn_quiet()?, checks };
    let answer = service.check()?;
    ensure!(answer["limit"] == 100, "{answer}");
    println!("the package for Debian: its service answers by its settings");
    Ok(())
}

/// A folder with the binary, the bundle of CAs, and the files for name resolution that an engine mounts into a
/// container.
struct Root {
    path: PathBuf,
    /// Keys and certificates, outside the root.
    secrets: PathBuf,
}

/// A service that is killed when it is dropped.
struct InstalledService {
    process: Child,
    checks: SocketAddr,
}

impl Root {
    fn make(binary: &Path) -> Result<Self> {
        let folder = target_directory()?.join("install");
        let root = Self { path: folder.join("root"), secrets: folder.join("secrets") };
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(root.path.join("etc/ssl/certs"))?;
        fs::create_dir_all(&root.secrets)?;
        fs::copy(binary, root.path.join("tollgate"))?;
        fs::create_dir_all(root.path.join("bin"))?;
        symlink("../tollgate", root.path.join("bin/ratelimit"))?;
        let limits = root.path.join("data/ratelimit/config");
        fs::create_dir_all(&limits)?;
        fs::write(
            limits.join("shop.yaml"),
            "domain: shop\ndescriptors: [{ key: user, rate_limit: { unit: day, requests_per_unit: 5 } }]\n",
        )?;
        fs::write(root.path.join("etc/hosts"), "127.0.0.1 localhost by-hosts.test\n")?;
        fs::write(root.path.join("etc/resolv.conf"), format!("nameserver {NAME_SERVER}\n"))?;
        let public = fs::read_to_string(PUBLIC_CAS)
            .with_context(|| format!("cannot read {PUBLIC_CAS}: install ca-certificates"))?;
        fs::write(root.path.join(&PUBLIC_CAS[1..]), public + &root.make_authority()?)?;
        Ok(root)
    }

    /// Creates an authority and a certificate for the store. Returns the authority's certificate.
    fn make_authority(&self) -> Result<String> {
        let new = || {
            command("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1")
                .directory(self.secrets.clone())
        };
        new()
            .arguments(["-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.crt"])
            .arguments(["-addext", "keyUsage=keyCertSign"])
            .run()?;
        new()
            .arguments(["-CA", "ca.crt", "-CAkey", "ca.key", "-subj", "/CN=store"])
            .arguments(["-keyout", "store.key", "-out", "store.crt"])
            .arguments(["-addext", "basicConstraints=critical,CA:FALSE"])
            .arguments(["-addext", "subjectAltName=DNS:by-hosts.test,DNS:by-dns.test"])
            .run()?;
        Ok(fs::read_to_string(self.secrets.join("ca.crt"))?)
    }

    fn tollgate(&self, arguments: &[&str]) -> CommandLine {
        self.program(&[], "65532", "/tollgate").arguments(arguments)
    }

    /// Runs this program in the root with these variables, as this user.
    fn program(&self, variables: &[String], user: &str, path: &str) -> CommandLine {
        command("env --ignore-environment PATH=/usr/sbin:/usr/bin:/sbin:/bin")
            .arguments(variables)
            .arguments(["unshare", "--mount", "sh", "-c", IN_ROOT])
            .argument(&self.path)
            .arguments([user, path])
    }

    /// Starts what Envoy Gateway starts: the other name of the program, without arguments, as its user, with variables
    /// of envoyproxy/ratelimit and those that the image sets for `tollgate serve`.
    fn serves_as_ratelimit(&self) -> Result<()> {
        let (probes, grpc, admin) = (free_address()?, free_address()?, free_address()?);
        let variables = [
            "RUNTIME_ROOT=/data".to_owned(),
            "RUNTIME_SUBDIRECTORY=ratelimit".to_owned(),
            format!("HOST={}", probes.ip()),
            format!("PORT={}", probes.port()),
            format!("GRPC_PORT={}", grpc.port()),
            format!("TOLLGATE_ADMIN_LISTEN={admin}"),
            "TOLLGATE_LISTEN=0.0.0.0:8080".to_owned(),
            "TOLLGATE_METRICS_LISTEN=0.0.0.0:9100".to_owned(),
        ];
        let process = self.program(&variables, "65534", "/bin/ratelimit").spawn_quiet()?;
        let service = InstalledService { process, checks: probes };
        ensure!(service.ask("/healthcheck")? == "OK", "it is not healthy");
        println!("/bin/ratelimit: healthy in a read-only root, as the user 65534");
        Ok(())
    }

    fn serve(&self, arguments: &[&str]) -> Result<InstalledService> {
        let running = InstalledService::start(|own| self.tollgate(&[&["serve"], arguments, own].concat()))?;
        // Like the image's HEALTHCHECK, as soon as the service listens.
        running.ask("/healthz")?;
        self.tollgate(&["check", "--health", "--server", &running.checks.to_string()]).run()?;
        Ok(running)
    }

    /// The binary contains the time zones.
    fn serves_days_of_a_zone(&self) -> Result<()> {
        const HOUR: u64 = 3_600_000;
        let service = self.serve(&["--limit", "100/day@Europe/Berlin"])?;
        let answer = service.check()?;
        let start = answer["window"]["start"].as_u64().context("the answer has no window")?;
        let hour = start % (24 * HOUR);
        ensure!([22 * HOUR, 23 * HOUR].contains(&hour), "a day of Berlin starts at {hour} ms UTC");
        println!("100/day@Europe/Berlin: the day starts at {} h UTC", hour / HOUR);
        Ok(())
    }

    /// Names are resolved, and the bundle of CAs is found.
    fn serves_from(&self, store: &str) -> Result<()> {
        let more = ["--store", store, "--on-store-failure", "closed", "--store-timeout", "10s"];
        let service = self.serve(&[&["--limit", "100/1d"], &more[..]].concat())?;
        let answer = service.check()?;
        ensure!(answer["source"] == "store", "{answer}");
        Ok(())
    }
}

fn expect_version(root: &Root) -> Result<()> {
    let version = root.tollgate(&["--version", "--verbose"]).read()?;
    print!("{version}");
    let commit = command("git rev-parse HEAD").read()?;
    ensure!(version.contains(commit.trim()), "the commit is not {commit}");
    ensure!(version.contains("features  crt-static"), "it is not static");
    Ok(())
}

impl InstalledService {
    /// Starts the service with this command, which gets free addresses, and waits until it listens.
    fn start(line: impl FnOnce(&[&str]) -> CommandLine) -> Result<Self> {
        let (checks, admin) = (free_address()?, free_address()?);
        let own = ["--listen", &checks.to_string(), "--admin-listen", &admin.to_string()];
        Ok(Self { process: line(&own).spawn_quiet()?, checks })
    }

    fn check(&self) -> Result<Value> {
        let answer = self.ask("/v1/check?user=alice")?;
        serde_json::from_str(&answer).with_context(|| format!("no decision: {answer}"))
    }

    /// Returns the body of the first answer with status 200.
    fn ask(&self, path: &str) -> Result<String> {
        let watch = Stopwatch::start();
        let mut last = String::new();
        while watch.elapsed() < PATIENCE {
            match get(self.checks, path) {
                Ok(answer) if answer.starts_with("HTTP/1.1 200") => {
                    return Ok(answer.split_once("\r\n\r\n").unwrap_or_default().1.to_owned());
                }
                Ok(answer) => last = answer,
                Err(error) => last = error.to_string(),
            }
            thread::sleep(Duration::from_micros(200));
        }
        bail!("not answered with 200 after {PATIENCE:?}: {path}: {last}")
    }
}

impl Drop for InstalledService {
    fn drop(&mut self) {
        // It may have ended by itself; there is nobody to report an error to.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn get(address: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: t\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// A Valkey server, with and without TLS.
struct Store {
    process: Child,
    plain: SocketAddr,
    tls: SocketAddr,
}

impl Store {
    fn start(root: &Root) -> Result<Self> {
        let (plain, tls) = (free_address()?, free_address()?);
        let (plain_port, tls_port) = (plain.port().to_string(), tls.port().to_string());
        let process = command("valkey-server --bind 127.0.0.1 --appendonly no --tls-auth-clients no")
            .directory(root.secrets.clone())
            .arguments(["--save", "", "--port", &plain_port, "--tls-port", &tls_port])
            .arguments(["--tls-cert-file", "store.crt", "--tls-key-file", "store.key"])
            .arguments(["--tls-ca-cert-file", "ca.crt"])
            .spawn_quiet()?;
        let store = Self { process, plain, tls };
        let watch = Stopwatch::start();
        while TcpStream::connect(tls).is_err() {
            ensure!(watch.elapsed() < PATIENCE, "valkey-server does not listen");
            thread::sleep(Duration::from_millis(10));
        }
        Ok(store)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Answers until this process ends: every name has the address 127.0.0.1 (RFC 1035, section 4.1).
fn name_server() -> Result<()> {
    let socket = UdpSocket::bind((NAME_SERVER, 53))
        .with_context(|| format!("cannot listen on port 53 of {NAME_SERVER}"))?;
    thread::spawn(move || {
        let mut query = [0; 512];
        while let Ok((length, client)) = socket.recv_from(&mut query) {
            let Some(question) = question(&query[..length]) else { continue };
            let asks_ipv4 = question.ends_with(&[0, 1, 0, 1]);
            let answers = u8::from(asks_ipv4);
            let mut reply = [&query[..2], &[0x81, 0x80, 0, 1, 0, answers, 0, 0, 0, 0], question].concat();
            if asks_ipv4 {
                reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
            }
            let _ = socket.send_to(&reply, client);
        }
    });
    Ok(())
}

/// Returns the name in the query, with its type and class.
fn question(query: &[u8]) -> Option<&[u8]> {
    const HEADER: usize = 12;
    let name = query.get(HEADER..)?.iter().position(|&byte| byte == 0)?;
    query.get(HEADER..HEADER + name + 5)
}

/// Measures the time from the start of the process to the first decision.
fn median_start(binary: &Path, more: &[&str]) -> Result<Duration> {
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let watch = Stopwatch::start();
        let service = InstalledService::start(|own| {
            program(binary).arguments(["serve", "--limit", "1000/1d"]).arguments(more).arguments(own)
        })?;
        service.check()?;
        times.push(watch.elapsed());
    }
    times.sort();
    Ok(times[STARTS / 2])
}

/// Measures anonymous memory, and that of mapped files, in KiB. The first is small because of `CFLAGS` in
/// `.cargo/config.toml`.
fn memory_at_rest(binary: &Path) -> Result<(u64, u64)> {
    let service = InstalledService::start(|own| {
        program(binary).arguments(["serve", "--limit", "1000/1d"]).arguments(own)
    })?;
    service.check()?;
    let status = fs::read_to_string(format!("/proc/{}/status", service.process.id()))?;
    let line = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    };
    line("RssAnon:").zip(line("RssFile:")).context("the system does not tell what memory is used for")
}

/// Builds the image if an engine is installed, and waits until it is healthy.
fn build_image() -> Result<()> {
    if !command("docker info").succeeds() {
        println!("no container engine answers: the Dockerfile was not built");
        return Ok(());
    }
    command("docker build --tag tollgate:prove .").run()?;
    let healthy = "id=$(docker run --detach --rm --read-only --env TOLLGATE_LIMIT=5/1m tollgate:prove) && \
                   trap 'docker kill $id' EXIT && for _ in $(seq 60); do sleep 1; \
                   docker exec $id /tollgate check --health && exit 0; done; exit 1";
    command("sh -c").argument(healthy).run()?;
    println!("the image was built, and is healthy with a read-only root");
    Ok(())
}
