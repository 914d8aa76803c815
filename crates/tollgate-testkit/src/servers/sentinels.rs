//! A primary and its replica, watched by three sentinels.

use std::collections::HashMap;

use super::cluster::{is_linked, start_all};
use super::config::ADMIN;
use super::patience::wait_for;
use super::server::names;
use super::settings::{Role, Settings};
use super::{Server, Software};

/// A primary and its replica, watched by three sentinels of which two have to agree.
///
/// They call a server down after a second without an answer.
#[derive(Debug)]
pub struct Sentinels {
    sentinels: Vec<Server>,
    servers: Vec<Server>,
}

/// How often sentinels look and talk, in milliseconds; left alone they take ten times as long to see that a primary
/// has come back. And how long they have to be held up before they distrust their own clock and do nothing for a
/// while, which 2 seconds of a busy machine would do.
const PERIODS: [&str; 6] = ["INFO-PERIOD", "1000", "PUBLISH-PERIOD", "500", "TILT-TRIGGER", "60000"];

impl Sentinels {
    /// The name under which the sentinels know the primary.
    pub const NAME: &'static str = "tollgate";

    /// Starts them and waits until all know each other and the replica is up to date.
    ///
    /// # Panics
    ///
    /// If it does not come about.
    #[must_use]
    pub fn start(software: Software) -> Self {
        Self::with(&Settings::new(software))
    }

    /// Starts them with these settings for the primary and the replica.
    ///
    /// # Panics
    ///
    /// If it does not come about.
    #[must_use]
    pub fn with(settings: &Settings) -> Self {
        let settings = settings.clone().config("repl-diskless-sync-delay", "0");
        let servers = start_all(vec![settings.clone(); 2]);
        let port = servers[0].address().port().to_string();
        servers[1].command::<()>(["REPLICAOF", "127.0.0.1", &port]);
        // Sentinels look for replicas when they start, and then every ten seconds.
        wait_for(format_args!("{} is up to date", servers[1]), || is_linked(&servers[1]).then_some(()));
        let name = Self::NAME;
        let sentinel = Settings::new(settings.software)
            .role(Role::Sentinel)
            .config("sentinel monitor", &format!("{name} 127.0.0.1 {port} 2"))
            .config("sentinel auth-user", &format!("{name} {ADMIN}"))
            .config("sentinel auth-pass", &format!("{name} {ADMIN}"))
            .config("sentinel down-after-milliseconds", &format!("{name} 1000"))
            .config("sentinel failover-timeout", &format!("{name} 5000"));
        let sentinels = Self { sentinels: start_all(vec![sentinel; 3]), servers };
        for sentinel in &sentinels.sentinels {
            sentinel.command::<()>(["SENTINEL", "DEBUG"].iter().chain(&PERIODS));
        }
        sentinels.wait_until_they_know_each_other();
        sentinels
    }

    /// The sentinels.
    #[must_use]
    pub fn sentinels(&self) -> &[Server] {
        &self.sentinels
    }

    /// Primary and replica, dead or alive; the first began as the primary.
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The primary, once all sentinels that run agree on it and it runs as one. After the death of the first that
    /// is its former replica.
    ///
    /// # Panics
    ///
    /// If they do not agree within a minute.
    #[must_use]
    pub fn primary(&self) -> &Server {
        self.wait_for("sentinels that agree on a primary", || {
            let mut running = self.sentinels.iter().filter(|sentinel| sentinel.is_running());
            let port = named_by(running.next()?)?;
            let agreed = running.all(|sentinel| named_by(sentinel) == Some(port));
            self.servers
                .iter()
                .find(|server| agreed && server.address().port() == port && server.is_running())
                .filter(|server| server.info("role") == "master")
        })
    }

    /// The replica, once it is up to date with the primary and all sentinels that run have seen it.
    ///
    /// # Panics
    ///
    /// If there is none within a minute.
    #[must_use]
    pub fn replica(&self) -> &Server {
        self.wait_for("a replica that is up to date", || {
            let primary = self.primary().address();
            let other = self.servers.iter().find(|server| server.address() != primary)?;
            (other.is_running() && is_linked(other) && self.is_known_as_replica(other)).then_some(other)
        })
    }

    /// Kills the primary, and gives it.
    pub fn kill_primary(&self) -> &Server {
        let primary = self.primary();
        primary.kill();
        primary
    }

    /// Makes the sentinels exchange the two, as an operator would, and gives the new primary.
    ///
    /// # Panics
    ///
    /// If it does not come about within a minute.
    pub fn fail_over(&self) -> &Server {
        let old = self.primary().address();
        let _ = self.replica();
        let sentinel = self.sentinels.iter().find(|sentinel| sentinel.is_running()).expect("a sentinel runs");
        // One that was promoted lately is refused for a while.
        self.wait_for("a failover that is accepted", || {
            sentinel.try_command::<()>(["SENTINEL", "FAILOVER", Self::NAME]).ok()
        });
        self.wait_for("a replica that takes over", || {
            Some(self.primary()).filter(|primary| primary.address() != old)
        })
    }

    /// A sentinel that has last seen a server as a primary would undo its next promotion.
    fn is_known_as_replica(&self, server: &Server) -> bool {
        let port = server.address().port().to_string();
        let knows = |sentinel: &Server| {
            let words = ["SENTINEL", "REPLICAS", Self::NAME];
            let replicas: Vec<HashMap<String, String>> = sentinel.try_command(words).unwrap_or_default();
            let says = |replica: &HashMap<_, _>, field: &str, value| {
                replica.get(field).is_some_and(|said| said == value)
            };
            replicas.iter().any(|replica| {
                says(replica, "port", &*port)
                    && says(replica, "flags", "slave")
                    && says(replica, "role-reported", "slave")
            })
        };
        self.sentinels.iter().filter(|sentinel| sentinel.is_running()).all(knows)
    }

    fn wait_for<T>(&self, what: &str, answer: impl FnMut() -> Option<T>) -> T {
        let (sentinels, servers) = (names(&self.sentinels), names(&self.servers));
        wait_for(format_args!("{what}, of sentinels {sentinels} and servers {servers}"), answer)
    }

    fn wait_until_they_know_each_other(&self) {
        self.wait_for("sentinels that know each other", || {
            let knows_all = |sentinel: &Server| {
                let info = sentinel.try_command::<String>(["INFO", "sentinel"]);
                info.is_ok_and(|info| info.contains("status=ok") && info.contains("slaves=1,sentinels=3"))
            };
            self.sentinels.iter().all(knows_all).then_some(())
        });
    }
}

/// The port of the primary that a sentinel names.
fn named_by(sentinel: &Server) -> Option<u16> {
    let words = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", Sentinels::NAME];
    let (_, port): (String, u16) = sentinel.try_command(words).ok()?;
    Some(port)
}
