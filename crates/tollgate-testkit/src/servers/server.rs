//! One server.

use std::fmt;
use std::fs::{self, File};
use std::mem;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redis::{FromRedisValue, RedisResult, ToRedisArgs};
use rustix::process::Signal;
use tempfile::TempDir;
use tollgate::Timestamp;

use super::config::{self, Ports};
use super::patience::wait_for;
use super::process::Process;
use super::settings::{Clock, Persistence, Role, Settings};
use super::{Certificates, ServerClock, ServerConnection, Software};

/// What a server finds when it is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// What it had acknowledged.
    Kept,
    /// Nothing, as after a loss of its disk.
    Lost,
}

/// A running server, stopped when it is dropped.
///
/// It listens on a port of its own on 127.0.0.1 and on a Unix socket, and keeps both addresses however often it is
/// killed and started again.
#[derive(Debug)]
pub struct Server {
    // Dropped before the folder that it writes into.
    state: Mutex<State>,
    settings: Settings,
    ports: Ports,
    certificates: Option<Certificates>,
    clock: Option<ServerClock>,
    folder: TempDir,
}

#[derive(Debug)]
enum State {
    Running(Process),
    Paused(Process),
    Ended,
}

impl Server {
    /// Starts one whose data do not survive it, without password or TLS.
    ///
    /// # Panics
    ///
    /// As [`Settings::start`] does.
    #[must_use]
    pub fn start(software: Software) -> Self {
        Settings::new(software).start()
    }

    /// Starts one as the settings say.
    pub(super) fn with(settings: Settings) -> Self {
        let folder = tempfile::Builder::new().prefix("tollgate-").tempdir().expect("a temporary folder");
        let certificates = settings.tls.is_some().then(|| Certificates::make(folder.path()));
        let clock = (settings.clock == Clock::Steered).then(|| ServerClock::new(folder.path()));
        let ports = Ports::reserve(&settings);
        let state = Mutex::new(State::Ended);
        let mut server = Self { state, settings, ports, certificates, clock, folder };
        fs::create_dir(server.data_folder()).expect("a new folder is empty");
        server.write_config();
        // A program that does not reserve ports as we do may take one between our check and the server's start.
        while let Err(TakenPort) = server.launch() {
            server.ports = Ports::reserve(&server.settings);
            server.write_config();
        }
        server.expect_clock_to_be_heard();
        server
    }

    /// Which program it is.
    #[must_use]
    pub const fn software(&self) -> Software {
        self.settings.software
    }

    /// Where it listens without TLS.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.ports.plain.address()
    }

    /// Where it listens with TLS.
    ///
    /// # Panics
    ///
    /// If its settings asked for no TLS.
    #[must_use]
    pub fn tls_address(&self) -> SocketAddr {
        self.ports.tls.as_ref().expect(WITHOUT_TLS).address()
    }

    /// The certificates of a server with TLS.
    ///
    /// # Panics
    ///
    /// If its settings asked for no TLS.
    #[must_use]
    pub fn certificates(&self) -> &Certificates {
        self.certificates.as_ref().expect(WITHOUT_TLS)
    }

    /// The Unix socket that it listens on.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        config::socket(self.folder.path())
    }

    /// Its time, as `TIME` says it.
    #[must_use]
    pub fn time(&self) -> Timestamp {
        let (seconds, micros): (i64, i64) = self.command(["TIME"]);
        Timestamp::from_unix_millis(seconds * 1000 + micros / 1000)
    }

    /// Its clock.
    ///
    /// # Panics
    ///
    /// If its settings asked for no [`steered_clock`](Settings::steered_clock).
    #[must_use]
    pub fn clock(&self) -> &ServerClock {
        self.clock.as_ref().expect("a server whose settings ask for a steered clock")
    }

    /// What it wrote to its log since it was first started.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read(self.log_path()).map(|log| String::from_utf8_lossy(&log).into_owned()).unwrap_or_default()
    }

    /// Sends a command and gives its reply, as in `server.command::<Option<u64>>(["GET", "key"])`.
    ///
    /// It goes over a [connection](Self::connection) of its own.
    ///
    /// # Panics
    ///
    /// If the reply is an error, or cannot be read as asked for, or does not come within a minute.
    pub fn command<T: FromRedisValue>(&self, words: impl IntoIterator<Item = impl ToRedisArgs>) -> T {
        self.try_command(words).unwrap_or_else(|error| panic!("{self}: {error}"))
    }

    /// The count of a counter, as people read it: the last 13 digits of its value. Before them may be a number of its
    /// window.
    #[must_use]
    pub fn count(&self, name: &str) -> Option<u64> {
        self.command::<Option<u64>>(["GET", name]).map(|value| value % 10_u64.pow(13))
    }

    /// Sends a command, as [`command`](Self::command) does, to be judged by the caller.
    ///
    /// # Errors
    ///
    /// If the server cannot be reached or answers with an error.
    ///
    /// # Panics
    ///
    /// If the reply does not come within a minute.
    pub fn try_command<T: FromRedisValue>(
        &self,
        words: impl IntoIterator<Item = impl ToRedisArgs>,
    ) -> RedisResult<T> {
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(word);
        }
        command.query(&mut ServerConnection::open(&self.socket(), self.to_string())?)
    }

    /// A connection to send several commands on.
    ///
    /// # Panics
    ///
    /// If the server cannot be reached.
    #[must_use]
    pub fn connection(&self) -> ServerConnection {
        ServerConnection::open(&self.socket(), self.to_string())
            .unwrap_or_else(|error| panic!("{self}: {error}"))
    }

    /// Where the nodes of its cluster talk to it.
    pub(super) fn bus_address(&self) -> SocketAddr {
        self.ports.bus.as_ref().expect("a node of a cluster").address()
    }

    /// A field of what `INFO` says, such as `used_memory`.
    ///
    /// # Panics
    ///
    /// If the server does not answer, or says nothing of it.
    #[must_use]
    pub fn info(&self, field: &str) -> String {
        let info: String = self.command(["INFO"]);
        text_field(&info, field).unwrap_or_else(|| panic!("INFO has no {field}:\n{info}")).to_owned()
    }

    /// Returns how many calls of this command it has run. Those that failed are not among them.
    ///
    /// # Panics
    ///
    /// If the server does not answer.
    #[must_use]
    pub fn calls_of(&self, command: &str) -> u64 {
        let info: String = self.command(["INFO", "commandstats"]);
        let Some(statistics) = text_field(&info, &format!("cmdstat_{command}")) else { return 0 };
        let count = |name: &str| {
            let value = statistics.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
            value.and_then(|value| value.parse::<u64>().ok()).unwrap_or_default()
        };
        count("calls") - count("failed_calls")
    }

    /// Ends it at once (`kill -9`). Does nothing if it has ended.
    pub fn kill(&self) {
        *self.state() = State::Ended;
    }

    /// Starts it again on the same addresses, after [`kill`](Self::kill), and waits until it answers.
    ///
    /// # Panics
    ///
    /// If it still runs or does not start, or if it is to keep what its [`Persistence`] does not keep.
    pub fn start_again(&self, data: Data) {
        match data {
            Data::Kept => assert_eq!(
                self.settings.persistence,
                Persistence::EveryWrite,
                "a server without persistence keeps nothing"
            ),
            Data::Lost => {
                fs::remove_dir_all(self.data_folder()).expect("the server's own folder");
                fs::create_dir(self.data_folder()).expect("the server's own folder");
            }
        }
        assert!(self.launch().is_ok(), "somebody took the port {} while nobody listened", self.address());
    }

    /// Kills it and starts it again.
    ///
    /// # Panics
    ///
    /// As [`start_again`](Self::start_again) does.
    pub fn restart(&self, data: Data) {
        self.kill();
        self.start_again(data);
    }

    /// Lets it hang (`SIGSTOP`): the kernel goes on taking connections and bytes for it, and nothing answers.
    ///
    /// # Panics
    ///
    /// If it was killed.
    pub fn pause(&self) {
        self.signal(Signal::STOP, State::Paused);
    }

    /// Lets it go on after [`pause`](Self::pause), with whatever arrived meanwhile.
    ///
    /// # Panics
    ///
    /// If it was killed.
    pub fn resume(&self) {
        self.signal(Signal::CONT, State::Running);
    }

    /// Returns whether it is neither killed nor paused.
    #[must_use]
    pub fn is_running(&self) -> bool {
        matches!(*self.state(), State::Running(_))
    }

    fn signal(&self, signal: Signal, next: impl FnOnce(Process) -> State) {
        let mut state = self.state();
        match mem::replace(&mut *state, State::Ended) {
            State::Running(process) | State::Paused(process) => {
                process.signal(signal);
                *state = next(process);
            }
            State::Ended => panic!("a server that was killed gets no {signal:?}"),
        }
    }

    /// Starts the process and waits until it answers.
    fn launch(&self) -> Result<(), TakenPort> {
        let mut state = self.state();
        assert!(matches!(*state, State::Ended), "the server runs already");
        // A server that was killed leaves its socket, which would look like a server that is slow to answer.
        let _ = fs::remove_file(self.socket());
        let log =
            File::options().create(true).append(true).open(self.log_path()).expect("the server's own folder");
        let start = log.metadata().expect("an open file").len();
        let mut command = Command::new(self.software().path());
        command.arg(self.config_path());
        if self.settings.role == Role::Sentinel {
            command.arg("--sentinel");
        }
        command.stdout(log.try_clone().expect("an open file")).stderr(log);
        if let Some(clock) = &self.clock {
            clock.preload(&mut command);
        }
        let mut process = Process::start(&mut command, self.folder.path());
        let outcome = wait_for(format_args!("{self} starts"), || match process.ended() {
            Some(status) => Some(Err(status)),
            None => self.try_command::<String>(["PING"]).ok().map(|_| Ok(())),
        });
        let Err(status) = outcome else {
            *state = State::Running(process);
            return Ok(());
        };
        let log = self.log().split_off(start as usize);
        if log.contains("Address already in use") {
            return Err(TakenPort);
        }
        panic!("{} did not start ({status}):\n{log}", self.software().program());
    }

    /// Once, because servers write into it what they have learnt.
    fn write_config(&self) {
        let folder = self.folder.path();
        let config = config::file(&self.settings, &self.ports, self.certificates.as_ref(), folder);
        fs::write(self.config_path(), config).expect("the server's own folder");
    }

    /// A library that cannot be preloaded is no error to the system.
    fn expect_clock_to_be_heard(&self) {
        let Some(clock) = &self.clock else { return };
        let long_ago = Timestamp::from_unix_millis(1_000_000_000_001);
        clock.set(long_ago);
        assert_eq!(self.time(), long_ago, "the server does not hear its clock:\n{}", self.log());
        clock.follow_the_system();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn config_path(&self) -> PathBuf {
        self.folder.path().join("server.conf")
    }

    fn data_folder(&self) -> PathBuf {
        config::data(self.folder.path())
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("log")
    }
}

/// Its program and where it listens.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {}", self.software().program(), self.address())
    }
}

/// Several, and which of them do not run.
pub(super) fn names(servers: &[Server]) -> String {
    let name = |server: &Server| match *server.state() {
        State::Running(_) => server.to_string(),
        State::Paused(_) => format!("{server} (paused)"),
        State::Ended => format!("{server} (ended)"),
    };
    servers.iter().map(name).collect::<Vec<_>>().join(", ")
}

const WITHOUT_TLS: &str = "a server whose settings ask for TLS";

/// The value of a field in lines of `name:value`.
pub(super) fn text_field<'a>(text: &'a str, field: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':')).map(str::trim_end)
}

/// Another program listens on the server's port.
struct TakenPort;
