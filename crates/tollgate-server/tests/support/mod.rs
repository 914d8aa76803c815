//! A real server on free ports, and a small client that sends exactly the given bytes.

#![allow(dead_code, reason = "every test file uses a part of it")]
#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

pub(crate) mod folder;
pub(crate) mod http2;
pub(crate) mod override_guide;
pub(crate) mod shell;

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Longer than any time limit of the server on a busy machine. A test that waits this long hangs.
pub(crate) const HANG: Duration = Duration::from_secs(60);

/// The value of `RUST_LOG` for every line of our own and of the libraries that see what clients and stores send.
pub(crate) const EVERY_LINE: &str = "trace,h2=trace,hyper=trace,hyper_util=trace,mio=trace,notify=trace,rustls=trace,tokio=trace,tonic=trace,tower=trace";

/// A `tollgate serve` that is killed when it is dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) public: SocketAddr,
    pub(crate) admin: SocketAddr,
    /// The address of `--metrics-listen`.
    pub(crate) metrics: Option<SocketAddr>,
    /// The address of `--plain-probes`.
    pub(crate) probes: Option<SocketAddr>,
    /// The address of `--grpc`.
    pub(crate) grpc: Option<SocketAddr>,
    /// The lines on its standard output.
    pub(crate) said: Vec<String>,
    /// Reads its log, so that the server never waits for a reader.
    log: Option<JoinHandle<String>>,
}

/// A complete reply.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// Runs a test of a time that the service promises, such as the five seconds of a drain. Repeats it if it fails and the
/// machine stood still meanwhile, because the service did not have that time.
pub(crate) fn undisturbed(test: impl Fn()) {
    const TRIES: u32 = 5;
    /// A fraction of every promised time.
    const STILL: Duration = Duration::from_secs(1);
    for _ in 0..TRIES {
        let is_over = AtomicBool::new(false);
        let (outcome, pause) = thread::scope(|scope| {
            let pause = scope.spawn(|| longest_pause(&is_over));
            let outcome = catch_unwind(AssertUnwindSafe(&test));
            is_over.store(true, Ordering::Relaxed);
            (outcome, pause.join().expect("it only looks at a clock"))
        });
        match outcome {
            Ok(()) => return,
            Err(failure) if pause < STILL => resume_unwind(failure),
            // Not by a macro, whose output the tests drop if they pass: the test command counts these lines.
            Err(_) => {
                let thread = thread::current();
                let test = thread.name().unwrap_or_default();
                let _ = writeln!(io::stderr(), "REPEATED {test}: the machine stood still for {pause:?}");
            }
        }
    }
    panic!("the machine stood still in each of {TRIES} tries");
}

/// Returns the longest time between two looks at the clock, which should be milliseconds apart.
fn longest_pause(is_over: &AtomicBool) -> Duration {
    let mut longest = Duration::ZERO;
    while !is_over.load(Ordering::Relaxed) {
        let look = Instant::now();
        thread::sleep(Duration::from_millis(10));
        longest = longest.max(look.elapsed());
    }
    longest
}

/// Waits until the condition holds.
#[track_caller]
pub(crate) fn until(what: &str, holds: impl FnMut() -> bool) {
    within(HANG, what, holds);
}

/// Waits until the condition holds, for this long at most.
#[track_caller]
pub(crate) fn within(time: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < time, "not within {time:?}: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The states of all quotas of a decision. A single one has no list.
pub(crate) fn quotas(decision: &Value) -> Vec<Value> {
    match decision["quotas"].as_array() {
        Some(several) => several.clone(),
        None if decision["quota"].is_null() => Vec::new(),
        None => vec![decision.clone()],
    }
}

/// Returns the charges that a refund of this decision names.
pub(crate) fn charged(decision: &Value) -> Vec<Value> {
    let charged = |quota: &Value| {
        let mut charge = json!({ "policy": quota["policy"], "quota": quota["quota"] });
        match quota.get("mark") {
            Some(mark) => charge["mark"] = mark.clone(),
            None => charge["start"] = quota["window"]["start"].clone(),
        }
        charge
    };
    quotas(decision).iter().map(charged).collect()
}

pub(crate) fn tollgate() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.env_clear();
    command
}

impl Server {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_by(tollgate(), arguments)
    }

    /// As `start`, with a command of the caller.
    pub(crate) fn start_by(command: Command, arguments: &[&str]) -> Self {
        Self::spawn(command, arguments, Stdio::piped())
    }

    /// As `start`, with the log at a place that this process does not read.
    pub(crate) fn start_logging_to(stderr: impl Into<Stdio>, arguments: &[&str]) -> Self {
        Self::spawn(tollgate(), arguments, stderr.into())
    }

    fn spawn(mut command: Command, arguments: &[&str], stderr: Stdio) -> Self {
        // In the environment, so that flags of a test win.
        command
            .envs([("TOLLGATE_LISTEN", "127.0.0.1:0"), ("TOLLGATE_ADMIN_LISTEN", "127.0.0.1:0")])
            .arg("serve")
            .args(arguments)
            .stderr(stderr);
        Self::of_command(command)
    }

    /// Starts the server by this command, whose arguments and variables are complete. Where there is no listener for
    /// checks, that for probes takes its place.
    pub(crate) fn of_command(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the server starts");
        let stdout = child.stdout.take().expect("its output is piped");
        // The server writes all lines at once, so nothing is left to read after the last one.
        let (mut said, mut stdout) = (Vec::<String>::new(), BufReader::new(stdout));
        let mut line = String::new();
        while stdout.read_line(&mut line).is_ok_and(|read| read > 0) {
            said.push(line.trim_end().to_owned());
            line.clear();
            if stdout.buffer().is_empty() {
                break;
            }
        }
        let address = |name: &str| {
            let line = said.iter().find(|line| line.starts_with(name))?;
            if line.contains(" unix:") {
                // The test knows the path, and nothing listens here.
                return Some(SocketAddr::from(([0; 4], 0)));
            }
            let address: SocketAddr = line.split("://").nth(1)?.parse().ok()?;
            // One of all addresses, which certificates name.
            let ip =
                if address.ip().is_unspecified() { IpAddr::from(Ipv4Addr::LOCALHOST) } else { address.ip() };
            Some(SocketAddr::new(ip, address.port()))
        };
        let (probes, grpc, metrics) = (address("probes"), address("grpc"), address("metrics"));
        let both = address("checks").or(probes).zip(address("admin"));
        let (public, admin) = both.expect("it says its addresses");
        let log = child.stderr.take().map(|mut stderr| {
            thread::spawn(move || {
                let mut log = String::new();
                stderr.read_to_string(&mut log).expect("the log is text");
                log
            })
        });
        Self { child, public, admin, metrics, probes, grpc, said, log }
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.public)
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.connect().ask(&get(path))
    }

    pub(crate) fn post(&self, path: &str, body: &str) -> Reply {
        self.connect().ask(&post(path, body))
    }

    pub(crate) fn admin_get(&self, path: &str) -> Reply {
        Connection::open(self.admin).ask(&get(path))
    }

    pub(crate) fn admin_post(&self, path: &str, body: &str) -> Reply {
        Connection::open(self.admin).ask(&post(path, body))
    }

    /// Returns the value of a metric, named with its labels.
    pub(crate) fn metric(&self, name: &str) -> Option<f64> {
        let text = String::from_utf8(self.admin_get("/metrics").body).expect("metrics are text");
        let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
        text.lines().find_map(value)
    }

    /// Returns the number of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        // The shell's own `kill`: small systems have no other.
        let kill = format!("kill -s {name} {}", self.child.id());
        let sent = Command::new("sh").args(["-c", &kill]).status().expect("a shell is there");
        assert!(sent.success());
    }

    /// Waits for its end. Returns its log as well, if this process reads it.
    pub(crate) fn wait(mut self) -> (ExitStatus, String) {
        let until = Instant::now() + HANG;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().expect("it can be waited for") {
                let log = self.log.take().map(|log| log.join().expect("the log is read"));
                return (status, log.unwrap_or_default());
            }
            thread::sleep(Duration::from_millis(5));
        }
        panic!("the server did not end");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}

pub(crate) fn post(path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = "Host: localhost\r\nContent-Type: application/json";
    format!("POST {path} HTTP/1.1\r\n{head}\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
}

/// A connection for several requests.
pub(crate) struct Connection(BufReader<TcpStream>);

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Self {
        Self::of(TcpStream::connect(address).expect("the server listens"))
    }

    pub(crate) fn open_unix(path: &str) -> Self {
        let stream = UnixStream::connect(path).expect("the server listens");
        // What this client does is the same call of the system for both.
        Self::of(OwnedFd::from(stream).into())
    }

    pub(crate) fn of(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(HANG)).expect("a timeout can be set");
        Self(BufReader::new(stream))
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).expect("the server reads");
    }

    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.0.get_mut().write_all(bytes).is_ok()
    }

    pub(crate) fn ask(&mut self, request: &[u8]) -> Reply {
        self.send(request);
        self.reply().expect("an answer comes")
    }

    /// Reads the next reply; `None` if the connection ends before it is complete.
    pub(crate) fn reply(&mut self) -> Option<Reply> {
        let mut reply = self.head()?;
        let length = reply.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        reply.body = vec![0; length];
        self.0.read_exact(&mut reply.body).ok()?;
        Some(reply)
    }

    /// Ends the sending half, and reads the next reply if one comes.
    pub(crate) fn finish(&mut self) -> Option<Reply> {
        self.0.get_ref().shutdown(std::net::Shutdown::Write).ok()?;
        self.reply()
    }

    /// Reads the next reply without a body.
    pub(crate) fn head(&mut self) -> Option<Reply> {
        let status = self.line()?.split(' ').nth(1)?.parse().ok()?;
        let mut headers = Vec::new();
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        Some(Reply { status, headers, body: Vec::new() })
    }

    /// Waits for bytes or the end. Returns whether the server has closed the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        let mut byte = [0];
        loop {
            match self.0.read(&mut byte) {
                Ok(read) => return read == 0,
                // This process was stopped meanwhile: whatever has a timeout fails then.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    assert_ne!(error.kind(), ErrorKind::WouldBlock, "the connection hangs");
                    return true;
                }
            }
        }
    }

    /// Returns whether nothing arrives within this time.
    pub(crate) fn stays_silent(&mut self, time: Duration) -> bool {
        self.0.get_ref().set_read_timeout(Some(time)).expect("a timeout can be set");
        let nothing = [ErrorKind::WouldBlock, ErrorKind::Interrupted];
        let silent = self.0.fill_buf().is_err_and(|error| nothing.contains(&error.kind()));
        self.0.get_ref().set_read_timeout(Some(HANG)).expect("a timeout can be set");
        silent
    }

    pub(crate) fn into_stream(self) -> TcpStream {
        self.0.into_inner()
    }

    /// Whether the last read timed out.
    pub(crate) fn timed_out(&mut self) -> bool {
        let nothing = self.0.get_ref().peek(&mut [0]);
        nothing.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    /// Reads the next frame of HTTP/2: its kind, flags, stream and payload; `None` if the connection ends before.
    pub(crate) fn frame(&mut self) -> Option<(u8, u8, u32, Vec<u8>)> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head).ok()?;
        let mut payload =
            vec![0; usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2])];
        self.0.read_exact(&mut payload).ok()?;
        let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        Some((head[3], head[4], stream, payload))
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).ok()?;
        (read > 0).then(|| line.trim_end().to_owned())
    }
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut named = self.headers.iter().filter(|(other, _)| other == name);
        let value = named.next().map(|(_, value)| value.as_str());
        assert!(named.next().is_none(), "{name} is there twice");
        value
    }

    /// Asserts that `RateLimit` says this, and a time just within a day.
    #[track_caller]
    pub(crate) fn assert_limit_of_a_day(&self, said: &str) {
        let limit = self.header("ratelimit").and_then(|limit| limit.split_once(";t="));
        let (limit, reset) = limit.unwrap_or_else(|| panic!("{:?}", self.headers));
        assert_eq!(limit, said);
        assert!(reset.parse().is_ok_and(|reset: u32| (86_000..=86_400).contains(&reset)), "{reset}");
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the body is JSON")
    }

    /// Asserts that it is a problem with this status that names this field.
    #[track_caller]
    pub(crate) fn assert_problem(&self, status: u16, field: Option<&str>) {
        let body = self.json();
        assert_eq!(self.status, status, "{body}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(body["status"], status);
        assert_eq!(body["field"].as_str(), field, "{body}");
    }
}
