//! What a server is to be like, before it is started.

use super::{Server, Software};

/// What survives the end of a server's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Persistence {
    /// Nothing.
    #[default]
    None,
    /// Whatever was acknowledged: each write is handed to the kernel before its reply, which is enough for
    /// `kill -9`, though not for a loss of power.
    EveryWrite,
}

/// Whether a server with TLS wants to know its clients by certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientCertificates {
    /// It admits only clients with a certificate of its authority.
    Required,
    /// It does not ask.
    Ignored,
}

/// Whose time a server has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    System,
    Steered,
}

/// What a server is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Data,
    ClusterNode,
    Sentinel,
}

/// What a server is to be like.
#[derive(Debug, Clone)]
pub struct Settings {
    pub(super) software: Software,
    pub(super) role: Role,
    pub(super) persistence: Persistence,
    pub(super) tls: Option<ClientCertificates>,
    pub(super) clock: Clock,
    pub(super) lines: Vec<String>,
}

impl Settings {
    /// A server of this software: no data survive, no password, no TLS.
    #[must_use]
    pub const fn new(software: Software) -> Self {
        Self {
            software,
            role: Role::Data,
            persistence: Persistence::None,
            tls: None,
            clock: Clock::System,
            lines: Vec::new(),
        }
    }

    /// What survives the end of its process.
    #[must_use]
    pub fn persistence(self, persistence: Persistence) -> Self {
        Self { persistence, ..self }
    }

    /// Listens for TLS on a second port.
    #[must_use]
    pub fn tls(self, clients: ClientCertificates) -> Self {
        Self { tls: Some(clients), ..self }
    }

    /// Has a clock that the test can move: see [`ServerClock`](super::ServerClock). Needs Linux and a C compiler.
    #[must_use]
    pub fn steered_clock(self) -> Self {
        Self { clock: Clock::Steered, ..self }
    }

    /// The password of the default user.
    #[must_use]
    pub fn password(self, password: &str) -> Self {
        self.config("requirepass", password)
    }

    /// An ACL user with a password, and rights such as `~tollgate:* +@all`.
    #[must_use]
    pub fn user(self, name: &str, password: &str, rights: &str) -> Self {
        self.config("user", &format!("{name} on >{password} {rights}"))
    }

    pub(super) fn role(self, role: Role) -> Self {
        Self { role, ..self }
    }

    /// A line of its configuration file, as in `maxmemory 10mb`.
    #[must_use]
    pub fn config(mut self, name: &str, value: &str) -> Self {
        self.lines.push(format!("{name} {value}"));
        self
    }

    /// Starts it and waits until it answers.
    ///
    /// # Panics
    ///
    /// If its program is missing or does not start; the message says what to install or what it wrote.
    #[must_use]
    pub fn start(self) -> Server {
        Server::with(self)
    }
}
