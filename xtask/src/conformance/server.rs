//! A server that follows a script, on raw sockets.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};

use super::difference::{CaseOutcome, Difference};
use super::reply::{AfterAnswer, ScriptedReply};
use super::request::{RequestReader, SeenRequest};
use super::request_rules;
use crate::stopwatch::Stopwatch;

/// Says what to do with a request, of which so many came before it.
type Script = dyn Fn(&SeenRequest, usize) -> ScriptedReply + Send + Sync;

/// A server that follows a script, and keeps what it saw. It ends when it is dropped.
pub(super) struct ScriptedServer {
    address: ServerAddress,
    shared: Arc<ServerState>,
}

/// The requests of a server.
pub(super) struct ServerRequests(Arc<ServerState>);

#[derive(Debug, Clone)]
enum ServerAddress {
    Tcp(&'static str, u16),
    Unix(PathBuf),
}

/// A request that arrived whole.
#[derive(Debug, Clone)]
pub(super) struct Arrival {
    pub(super) request: SeenRequest,
    /// Since the start of the server.
    pub(super) at: Duration,
}

struct ServerState {
    script: Box<Script>,
    host: Option<String>,
    token: Option<String>,
    watch: Stopwatch,
    log: Mutex<ServerLog>,
}

#[derive(Default)]
struct ServerLog {
    is_over: bool,
    connections: Vec<Socket>,
    open: usize,
    most_open: usize,
    arrivals: Vec<Arrival>,
    /// When the server began to send the answer to each.
    answers: Vec<Duration>,
    fault: Option<String>,
}

/// A connection.
enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

enum ServerListener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl ScriptedServer {
    /// Starts a server on a free port.
    pub(super) fn on_tcp(
        token: Option<&str>,
        script: impl Fn(&SeenRequest, usize) -> ScriptedReply + Send + Sync + 'static,
    ) -> Result<Self> {
        Self::on_tcp_as("127.0.0.1", token, script)
    }

    /// Starts a server on a free port that clients reach under this address too.
    pub(super) fn on_tcp_as(
        address: &'static str,
        token: Option<&str>,
        script: impl Fn(&SeenRequest, usize) -> ScriptedReply + Send + Sync + 'static,
    ) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen on 127.0.0.1")?;
        let port = listener.local_addr().context("a listener has no address")?.port();
        let host = format!("{address}:{port}");
        let address = ServerAddress::Tcp(address, port);
        Self::start(address, ServerListener::Tcp(listener), Some(host), token, Box::new(script))
    }

    /// Starts a server on a socket at this path.
    pub(super) fn on_unix(
        path: &Path,
        script: impl Fn(&SeenRequest, usize) -> ScriptedReply + Send + Sync + 'static,
    ) -> Result<Self> {
        let listener =
            UnixListener::bind(path).with_context(|| format!("cannot listen on {}", path.display()))?;
        // What a client on a socket sends as its Host is up to it.
        Self::start(
            ServerAddress::Unix(path.to_owned()),
            ServerListener::Unix(listener),
            None,
            None,
            Box::new(script),
        )
    }

    fn start(
        address: ServerAddress,
        listener: ServerListener,
        host: Option<String>,
        token: Option<&str>,
        script: Box<Script>,
    ) -> Result<Self> {
        let shared = Arc::new(ServerState {
            script,
            host,
            token: token.map(str::to_owned),
            watch: Stopwatch::start(),
            log: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accepting.accept(&listener));
        Ok(Self { address, shared })
    }

    /// Returns the address as a client is given it.
    pub(super) fn url(&self) -> String {
        match &self.address {
            ServerAddress::Tcp(address, port) => format!("http://{address}:{port}"),
            ServerAddress::Unix(path) => format!("unix:{}", path.display()),
        }
    }

    /// Returns the requests so far, or the rule that one of them broke.
    pub(super) fn arrivals(&self) -> CaseOutcome<Vec<Arrival>> {
        self.requests().expect_right()?;
        Ok(self.shared.lock().arrivals.clone())
    }

    /// Returns what judges the requests, also after the end of the server.
    pub(super) fn requests(&self) -> ServerRequests {
        ServerRequests(Arc::clone(&self.shared))
    }

    /// Returns when the server began to answer the request with this index, since its start.
    pub(super) fn answer_began(&self, index: usize) -> Option<Duration> {
        self.shared.lock().answers.get(index).copied()
    }

    /// Returns how many connections were opened.
    pub(super) fn connections(&self) -> usize {
        self.shared.lock().connections.len()
    }

    /// Returns the most connections that were open at the same time.
    pub(super) fn most_open(&self) -> usize {
        self.shared.lock().most_open
    }

    /// Closes all connections.
    pub(super) fn disconnect(&self) {
        self.shared.lock().connections.iter().for_each(Socket::close);
    }
}

impl ServerRequests {
    /// Fails if a request broke a rule.
    pub(super) fn expect_right(&self) -> CaseOutcome {
        match &self.0.lock().fault {
            Some(fault) => Err(Difference::wrong(format!("a request is wrong: {fault}"))),
            None => Ok(()),
        }
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.disconnect();
        // Wakes the thread that accepts.
        match &self.address {
            ServerAddress::Tcp(_, port) => drop(TcpStream::connect(("127.0.0.1", *port))),
            ServerAddress::Unix(path) => drop(UnixStream::connect(path)),
        }
    }
}

impl ServerState {
    fn lock(&self) -> MutexGuard<'_, ServerLog> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(self: &Arc<Self>, listener: &ServerListener) {
        while let Ok(socket) = listener.accept() {
            let Ok(copy) = socket.try_clone() else { continue };
            let mut log = self.lock();
            if log.is_over {
                return;
            }
            log.connections.push(copy);
            log.open += 1;
            log.most_open = log.most_open.max(log.open);
            drop(log);
            let serving = Arc::clone(self);
            thread::spawn(move || {
                if let Err(fault) = serving.serve(&socket) {
                    let mut log = serving.lock();
                    // The connections of a server that has ended are cut in the middle of requests.
                    if !log.is_over && log.fault.is_none() {
                        log.fault = Some(fault);
                    }
                }
                serving.lock().open -= 1;
                socket.close();
            });
        }
    }

    /// Serves a connection until one side closes it.
    fn serve(&self, socket: &Socket) -> Result<(), String> {
        let mut reader = RequestReader::new(socket);
        while let Some(request) = reader.next()? {
            let checked = request_rules::check(&request, self.host.as_deref(), self.token.as_deref());
            let index = {
                let mut log = self.lock();
                let at = self.watch.elapsed();
                log.arrivals.push(Arrival { request: request.clone(), at });
                log.answers.push(at);
                log.arrivals.len() - 1
            };
            checked?;
            let reply = (self.script)(&request, index);
            self.lock().answers[index] = self.watch.elapsed();
            // A client may have gone.
            if matches!(send(socket, &reply), Ok(AfterAnswer::Close) | Err(_)) {
                return Ok(());
            }
        }
        Ok(())
    }
}

fn send(mut socket: &Socket, reply: &ScriptedReply) -> io::Result<AfterAnswer> {
    match reply {
        ScriptedReply::Answer(answer) => answer.write(&mut socket).map(|()| answer.then),
        ScriptedReply::Bytes(bytes) => socket.write_all(bytes).map(|()| AfterAnswer::Close),
        ScriptedReply::Trickle(answer, pause) => {
            for byte in answer.bytes() {
                socket.write_all(&[byte])?;
                thread::sleep(*pause);
            }
            Ok(AfterAnswer::Keep)
        }
        ScriptedReply::Silence => Ok(AfterAnswer::Keep),
        ScriptedReply::Close => Ok(AfterAnswer::Close),
    }
}

impl ServerListener {
    fn accept(&self) -> io::Result<Socket> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                Ok(Socket::Tcp(stream))
            }
            Self::Unix(listener) => listener.accept().map(|(stream, _)| Socket::Unix(stream)),
        }
    }
}

impl Socket {
    fn try_clone(&self) -> io::Result<Self> {
        match self {
            Self::Tcp(stream) => stream.try_clone().map(Self::Tcp),
            Self::Unix(stream) => stream.try_clone().map(Self::Unix),
        }
    }

    fn close(&self) {
        // It may be closed already.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl Read for &Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => (&*stream).read(buffer),
            Socket::Unix(stream) => (&*stream).read(buffer),
        }
    }
}

impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => (&*stream).write(bytes),
            Socket::Unix(stream) => (&*stream).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
