//! The two services, and how they are asked.

use std::fs::{self, Permissions};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, RwLock};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::attributes::POLICIES;
use crate::client::CANARY;
use crate::support::folder::Folder;
use crate::support::{Connection, Reply, Server, tollgate};
use crate::versions::Process;

/// Two services with one configuration. Either may be down.
pub(crate) struct Services {
    arguments: Vec<String>,
    log_level: &'static str,
    pub(crate) token: String,
    slots: [RwLock<Option<Address>>; 2],
    /// Whether clients and drivers take it for one that does not run.
    hidden: [AtomicBool; 2],
    running: Mutex<[Option<Server>; 2]>,
    /// The logs of processes that have ended.
    logs: Mutex<Vec<String>>,
    /// Answers that had a key.
    leaks: Mutex<Vec<String>>,
    _folder: Folder,
}

/// Where a process listens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Address {
    pub(crate) process: Process,
    public: SocketAddr,
    admin: SocketAddr,
}

/// A door of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Listener {
    Checks,
    Admin,
}

/// A connection to a process, which is opened again when another process has taken the place of that one.
pub(crate) struct ServiceClient<'s> {
    services: &'s Services,
    service: usize,
    listener: Listener,
    open: Option<(Process, Connection)>,
    /// Whether it asks a process that is hidden from others.
    may_be_hidden: bool,
}

/// How a service ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Terminated,
    Killed,
}

impl Services {
    /// Starts both on this store.
    pub(crate) fn start(store: &str, more: &[&str], log_level: &'static str) -> Self {
        let folder = Folder::new();
        let (token, line) = new_token();
        let (policies, tokens) = (folder.write("limits.yaml", POLICIES), folder.write("tokens.jsonl", &line));
        // Each of them settles what the other one has reserved.
        let secret = folder.write("holds.secret", &"0123456789abcdef".repeat(4));
        fs::set_permissions(&secret, Permissions::from_mode(0o600)).expect("it is ours");
        let holds = ["--hold-secret-file", &secret];
        let words =
            [["--config", &policies, "--tokens", &tokens, "--store", store].as_slice(), &holds].concat();
        let arguments = words.iter().chain(more).map(|word| (*word).to_owned()).collect();
        let services = Self {
            arguments,
            log_level,
            token,
            slots: [RwLock::new(None), RwLock::new(None)],
            hidden: [AtomicBool::new(false), AtomicBool::new(false)],
            leaks: Mutex::new(Vec::new()),
            running: Mutex::new([None, None]),
            logs: Mutex::new(Vec::new()),
            _folder: folder,
        };
        services.start_one(0, 0);
        services.start_one(1, 0);
        services
    }

    fn start_one(&self, service: usize, start: u32) {
        let mut command = tollgate();
        command.env("RUST_LOG", self.log_level);
        let words: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        let server = Server::start_by(command, &words);
        let process = Process { service, start };
        let address = Address { process, public: server.public, admin: server.admin };
        self.running.lock().expect("no panic")[service] = Some(server);
        *self.slots[service].write().expect("no panic") = Some(address);
    }

    /// Ends a process and starts the next one.
    pub(crate) fn restart(&self, service: usize, ending: Ending) {
        let address = self.slots[service].write().expect("no panic").take().expect("it runs");
        self.end(service, ending);
        self.start_one(service, address.process.start + 1);
    }

    fn end(&self, service: usize, ending: Ending) {
        let server = self.running.lock().expect("no panic")[service].take();
        if let Some(server) = server {
            server.signal(if ending == Ending::Killed { "KILL" } else { "TERM" });
            self.logs.lock().expect("no panic").push(server.wait().1);
        }
    }

    /// Ends both, and returns everything that they logged.
    pub(crate) fn end_all(&self) -> Vec<String> {
        (0..2).for_each(|service| self.end(service, Ending::Terminated));
        self.logs.lock().expect("no panic").clone()
    }

    /// Stops a process: it goes on later with what it knows now. Until it is [shown](Self::show), it gets no requests of
    /// clients and drivers.
    pub(crate) fn pause(&self, service: usize) {
        self.hidden[service].store(true, SeqCst);
        self.signal(service, "STOP");
    }

    /// Lets it go on.
    pub(crate) fn resume(&self, service: usize) {
        self.signal(service, "CONT");
    }

    pub(crate) fn show(&self, service: usize) {
        self.hidden[service].store(false, SeqCst);
    }

    fn signal(&self, service: usize, name: &str) {
        if let Some(server) = &self.running.lock().expect("no panic")[service] {
            server.signal(name);
        }
    }

    /// Notes an answer that has a key.
    fn note_leak(&self, path: &str, reply: &Reply) {
        let body = String::from_utf8_lossy(&reply.body);
        if body.contains(CANARY) || reply.headers.iter().any(|(_, value)| value.contains(CANARY)) {
            let leak = format!("an answer to {path}: {:?} {body}", reply.headers);
            self.leaks.lock().expect("no panic").push(leak);
        }
    }

    /// Returns the answers that had a key.
    pub(crate) fn leaks(&self) -> Vec<String> {
        self.leaks.lock().expect("no panic").clone()
    }

    pub(crate) fn client(&self, service: usize, listener: Listener) -> ServiceClient<'_> {
        ServiceClient { services: self, service, listener, open: None, may_be_hidden: false }
    }

    /// Asks a process on its admin listener until it answers.
    pub(crate) fn ask_admin(&self, service: usize, method: &str, path: &str, body: Option<&Value>) -> Reply {
        let mut client = ServiceClient { may_be_hidden: true, ..self.client(service, Listener::Admin) };
        let began = Instant::now();
        loop {
            match client.ask(method, path, &[], body) {
                Ok((_, Some(reply))) => return reply,
                _ => assert!(began.elapsed() < Duration::from_secs(60), "no answer to {path}"),
            }
        }
    }
}

impl ServiceClient<'_> {
    /// Sends a request. Returns the process, and its reply unless the connection ended before.
    ///
    /// # Errors
    ///
    /// If there is no connection, so nothing was sent.
    pub(crate) fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[String],
        body: Option<&Value>,
    ) -> io::Result<(Process, Option<Reply>)> {
        let slot = *self.services.slots[self.service].read().expect("no panic");
        let is_hidden = !self.may_be_hidden && self.services.hidden[self.service].load(SeqCst);
        let address = slot.filter(|_| !is_hidden).ok_or(io::ErrorKind::ConnectionRefused)?;
        let (process, mut connection) = match self.open.take() {
            Some(open) if open.0 == address.process => open,
            _ => (address.process, self.connect(address)?),
        };
        let body = body.map(Value::to_string).unwrap_or_default();
        let kind = if body.is_empty() { "" } else { "Content-Type: application/json\r\n" };
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let (token, length) = (&self.services.token, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{kind}{headers}Content-Length: {length}\r\n\r\n{body}"
        );
        let reply = if connection.try_send(request.as_bytes()) { connection.reply() } else { None };
        if let Some(reply) = &reply {
            self.services.note_leak(path, reply);
            self.open = Some((process, connection));
        }
        Ok((process, reply))
    }

    fn connect(&self, address: Address) -> io::Result<Connection> {
        let to = if self.listener == Listener::Checks { address.public } else { address.admin };
        let stream = TcpStream::connect(to)?;
        stream.set_nodelay(true)?;
        Ok(Connection::of(stream))
    }
}

/// A token for everything that a proof asks, and its line in the file.
fn new_token() -> (String, String) {
    let scopes = "check,peek,overrides,read,metrics";
    let made = tollgate().args(["token", "new", "--json", "--name", "proof", "--scope", scopes]).output();
    let printed: Value = serde_json::from_slice(&made.expect("it runs").stdout).expect("JSON");
    let text = |field: &str| printed[field].as_str().expect("a text").to_owned();
    (text("token"), text("line"))
}
