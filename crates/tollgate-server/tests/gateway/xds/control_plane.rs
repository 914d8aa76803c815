//! The control plane's process: go-control-plane's server, in `tests/control_plane`.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde_json::{Value, json};

use crate::certificates::{Authority, Identity};
use crate::proxy::program;
use crate::support::until;

/// The type of resource that Envoy Gateway sends.
pub(crate) const LIMITS: &str = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig";

/// A control plane that is killed when it is dropped.
pub(crate) struct ControlPlane {
    child: Child,
    commands: ChildStdin,
    pub(crate) address: SocketAddr,
    events: Arc<Mutex<Vec<Value>>>,
}

/// The answer of a client to one response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Acknowledgement {
    /// The version of the response.
    pub(crate) answers: String,
    /// The version that the client has applied last.
    pub(crate) version: String,
    /// Why it refuses the response; empty if it does not.
    pub(crate) error: String,
}

impl ControlPlane {
    pub(crate) fn start(address: SocketAddr) -> Self {
        Self::with(address, &[])
    }

    /// Requires client certificates of this authority, as Envoy Gateway does.
    pub(crate) fn start_tls(address: SocketAddr, identity: &Identity, authority: &Authority) -> Self {
        let Identity { certificate, key } = identity;
        let path = |path: &std::path::Path| path.to_str().expect("text").to_owned();
        let files = [path(certificate), path(key), path(&authority.file)];
        Self::with(address, &["-cert", &files[0], "-key", &files[1], "-client-ca", &files[2]])
    }

    fn with(address: SocketAddr, flags: &[&str]) -> Self {
        let mut child = Command::new(program("TOLLGATE_CONTROL_PLANE"))
            .args(["-listen", &address.to_string()])
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the control plane starts");
        let commands = child.stdin.take().expect("its input is piped");
        let output = BufReader::new(child.stdout.take().expect("its output is piped"));
        let events = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&events);
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let event = serde_json::from_str(&line).expect("a line is JSON");
                lock(&seen).push(event);
            }
        });
        let plane = Self { child, commands, address, events };
        until("the control plane listens", || !plane.events("listening").is_empty());
        plane
    }

    /// Sends these domains as the whole set of limits from now on.
    pub(crate) fn set(&mut self, version: &str, domains: &[Value]) {
        self.command(&json!({ "version": version, "domains": domains }));
    }

    /// Sends a set with a resource of these bytes, in base64.
    pub(crate) fn set_bytes(&mut self, version: &str, base64: &str) {
        self.command(&json!({ "version": version, "bytes": [base64] }));
    }

    pub(crate) fn disconnect(&mut self) {
        self.command(&json!({ "disconnect": true }));
    }

    fn command(&mut self, command: &Value) {
        writeln!(self.commands, "{command}").expect("the control plane reads");
    }

    /// Returns all events of this name so far.
    pub(crate) fn events(&self, name: &str) -> Vec<Value> {
        lock(&self.events).iter().filter(|event| event["event"] == name).cloned().collect()
    }

    /// Returns how clients answered responses so far. Requests that open a stream are no answers.
    pub(crate) fn acknowledgements(&self) -> Vec<Acknowledgement> {
        let (responses, requests) = (self.events("response"), self.events("request"));
        let text = |event: &Value, name: &str| event[name].as_str().unwrap_or_default().to_owned();
        let acknowledgement = |request: &Value| {
            let is_answered =
                |response: &&Value| ["stream", "nonce"].iter().all(|name| response[*name] == request[*name]);
            let response = responses.iter().find(is_answered)?;
            let (answers, version) = (text(response, "version"), text(request, "version"));
            Some(Acknowledgement { answers, version, error: text(request, "error") })
        };
        requests.iter().filter_map(acknowledgement).collect()
    }

    /// Sets these domains, and waits until they are live.
    pub(crate) fn apply(&mut self, version: &str, domains: &[Value]) {
        self.set(version, domains);
        let answer = self.answer(version);
        assert_eq!((&*answer.version, &*answer.error), (version, ""));
    }

    /// Waits until a client has answered a response of this version, which no earlier response had.
    pub(crate) fn answer(&self, version: &str) -> Acknowledgement {
        let mut answer = None;
        until("the client answers", || {
            answer = self.acknowledgements().into_iter().find(|one| one.answers == version);
            answer.is_some()
        });
        answer.expect("it has answered")
    }
}

impl Drop for ControlPlane {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
