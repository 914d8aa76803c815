//! Connecting: the stream, login, database and script, and a check that the server can count.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::breaker::Breaker;
use super::connection::{ByteStream, Connection, Pump};
use crate::address::Address;
use crate::calls::Calls;
use crate::credentials::KnownCredentials;
use crate::dial::dial;
use crate::resp::{Command, RespValue, command};
use crate::script::COUNTING_SCRIPTS;
use crate::settings::CheckedSettings;
use crate::time::instant;
use crate::trouble::{ConnectTrouble, Flavor, Trouble};
use crate::url::StorePlace;

/// The role of a server, which decides its login, script and checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerRole {
    /// It keeps counters: it gets the script, and must be able to count.
    Store,
    /// It returns the members of its cluster.
    Member,
    /// It is a Sentinel that names the primary.
    Sentinel,
}

/// Connects within its time limit.
pub(super) async fn connect(
    address: &Address,
    peer: PeerRole,
    checked: &CheckedSettings,
) -> Result<(Connection, Pump), ConnectTrouble> {
    let set_up = async {
        let known = checked.credentials.current().await;
        open(address, peer, checked, &known)
            .await
            .map_err(|trouble| trouble.with_unread(known.unread.as_deref()))
    };
    timeout(checked.settings.connect_timeout, set_up).await.unwrap_or(Err(ConnectTrouble::TimedOut))
}

async fn open(
    address: &Address,
    peer: PeerRole,
    checked: &CheckedSettings,
    known: &KnownCredentials,
) -> Result<(Connection, Pump), ConnectTrouble> {
    let hello = hello(peer, checked, known);
    match (address, &known.tls) {
        (Address::Tcp(host, port), None) => {
            login(tcp(host, *port, checked).await?, address, peer, checked, hello).await
        }
        (Address::Tcp(host, port), Some(tls)) => {
            let name = ServerName::try_from(host.to_string()).map_err(|_| ConnectTrouble::UnknownHost)?;
            let stream = tcp(host, *port, checked).await?;
            let stream = TlsConnector::from(Arc::clone(&tls.config)).connect(name, stream).await;
            login(stream.map_err(of_tls)?, address, peer, checked, hello).await
        }
        (Address::Unix(path), _) => {
            login(UnixStream::connect(path).await?, address, peer, checked, hello).await
        }
    }
}

/// Connects, sends one command, and disconnects.
pub(crate) async fn ask_once(
    address: &Address,
    peer: PeerRole,
    checked: &CheckedSettings,
    command: &Command,
) -> Result<RespValue, ConnectTrouble> {
    let (connection, mut pump) = connect(address, peer, checked).await?;
    let answers = polled_in_time(&mut pump, &connection, &Calls::of(command), checked).await?;
    only(answers, address, "ask who serves")
}

/// The replies to commands, which come only while the connection is polled.
pub(super) async fn polled(
    pump: &mut Pump,
    connection: &Connection,
    commands: &Calls,
) -> Result<Vec<RespValue>, Trouble> {
    let mut answers = connection.send(commands)?;
    let mut all = pin!(async {
        let mut replies = Vec::with_capacity(commands.count());
        for _ in 0..commands.count() {
            replies.push(answers.next().await?);
        }
        Ok(replies)
    });
    tokio::select! {
        biased;
        () = pump => {}
        answered = &mut all => return answered,
    }
    // With its last step it has handed out the answers, or the reason why there are none.
    all.await
}

/// The same, within the time for a connection.
pub(super) async fn polled_in_time(
    pump: &mut Pump,
    connection: &Connection,
    commands: &Calls,
    checked: &CheckedSettings,
) -> Result<Vec<RespValue>, ConnectTrouble> {
    match timeout(checked.settings.connect_timeout, polled(pump, connection, commands)).await {
        Ok(answers) => answers.map_err(|trouble| of_login(&trouble)),
        Err(_) => Err(ConnectTrouble::TimedOut),
    }
}

/// The reply to a single command.
fn only(answers: Vec<RespValue>, asked: &Address, doing: &'static str) -> Result<RespValue, ConnectTrouble> {
    match answers.into_iter().next() {
        Some(RespValue::Error(error)) => Err(ConnectTrouble::of_reply(&error, asked, doing)),
        Some(answer) => Ok(answer),
        None => Err(NONSENSE),
    }
}

async fn tcp(host: &str, port: u16, checked: &CheckedSettings) -> Result<TcpStream, ConnectTrouble> {
    let stream = dial(host, port, &checked.look_ups, checked.settings.connect_timeout).await?;
    stream.set_nodelay(true)?;
    // Keepalive detects a connection that a firewall has dropped before a call is lost on it.
    let keepalive =
        TcpKeepalive::new().with_time(Duration::from_secs(15)).with_interval(Duration::from_secs(5));
    SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
    Ok(stream)
}

/// Our own code, because the client library's login returns no version and no typed errors.
async fn login(
    stream: impl ByteStream + 'static,
    address: &Address,
    peer: PeerRole,
    checked: &CheckedSettings,
    hello: Command,
) -> Result<(Connection, Pump), ConnectTrouble> {
    let breaker = Breaker::new(checked.settings.timeout, instant(), Arc::clone(&checked.late_replies));
    let (connection, pump) = Connection::new(stream, breaker);
    let mut link = OpeningConnection { connection, pump, address };

    // Alone and first: a server that does not greet correctly gets nothing else.
    let greeting = link.ask(hello, "log in").await?;
    Greeting::read(greeting)?.check(peer, &checked.settings.url.place)?;
    if peer == PeerRole::Store {
        // The others are loaded when a server lacks one: each takes a round trip, and a slow server has time for few.
        for script in checked.scripts.iter().take(COUNTING_SCRIPTS) {
            let load = command("SCRIPT").arg("LOAD").arg(script);
            link.ask(load, "load scripts (SCRIPT LOAD)").await?;
        }
        let database = checked.settings.url.database;
        if database != 0 {
            let select = command("SELECT").arg(database.to_string());
            link.ask(select, "use the database (SELECT)").await.map_err(|error| match error {
                ConnectTrouble::Unfit(_) => ConnectTrouble::Unfit("the server does not have the database"),
                other => other,
            })?;
        }
    }
    Ok((link.connection, link.pump))
}

/// A connection that is being set up.
struct OpeningConnection<'a> {
    connection: Connection,
    pump: Pump,
    address: &'a Address,
}

impl OpeningConnection<'_> {
    async fn ask(&mut self, command: Command, doing: &'static str) -> Result<RespValue, ConnectTrouble> {
        let answers = polled(&mut self.pump, &self.connection, &Calls::of(&command)).await;
        only(answers.map_err(|trouble| of_login(&trouble))?, self.address, doing)
    }
}

/// `HELLO` and not `AUTH`, because its reply identifies the server, and every user may send it.
fn hello(peer: PeerRole, checked: &CheckedSettings, known: &KnownCredentials) -> Command {
    let mut hello = command("HELLO").arg("2");
    let settings = &checked.settings;
    let (user, password) = match peer {
        PeerRole::Store | PeerRole::Member => (&settings.url.user, &known.password),
        PeerRole::Sentinel => (&settings.sentinel_user, &known.sentinel_password),
    };
    if let Some(password) = password {
        hello = hello.arg("AUTH").arg(user.as_deref().unwrap_or("default")).arg(password.reveal());
    }
    hello.arg("SETNAME").arg("tollgate")
}

const NONSENSE: ConnectTrouble =
    ConnectTrouble::Unfit("the program that listens there does not answer like Redis or Valkey");

/// A server's description of itself.
#[derive(Debug, PartialEq)]
struct Greeting {
    flavor: Flavor,
    major: u32,
    minor: u32,
    mode: Mode,
    is_primary: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Standalone,
    Cluster,
    Sentinel,
}

impl Greeting {
    /// Reads names and values, one after another.
    fn read(reply: RespValue) -> Result<Self, ConnectTrouble> {
        let RespValue::Array(fields) = reply else { return Err(NONSENSE) };
        let value = |name: &[u8]| {
            let at = fields.iter().step_by(2).position(|field| text(field) == Some(name))?;
            std::str::from_utf8(text(fields.get(at * 2 + 1)?)?).ok()
        };
        let mut version = value(b"version").unwrap_or_default().split('.').map(str::parse);
        let (Some(Ok(major)), Some(Ok(minor))) = (version.next(), version.next()) else {
            return Err(NONSENSE);
        };
        Ok(Self {
            flavor: if value(b"server") == Some("valkey") { Flavor::Valkey } else { Flavor::Redis },
            major,
            minor,
            mode: match value(b"mode") {
                Some("standalone") => Mode::Standalone,
                Some("cluster") => Mode::Cluster,
                Some("sentinel") => Mode::Sentinel,
                _ => return Err(NONSENSE),
            },
            // A Sentinel does not say.
            is_primary: value(b"role").is_none_or(|role| role == "master"),
        })
    }

    fn check(&self, peer: PeerRole, place: &StorePlace) -> Result<(), ConnectTrouble> {
        let oldest = match self.flavor {
            Flavor::Redis => (7, 0),
            Flavor::Valkey => (7, 2),
        };
        if (self.major, self.minor) < oldest {
            return Err(ConnectTrouble::TooOld { server: self.flavor, major: self.major, minor: self.minor });
        }
        let unfit = match (peer, place, self.mode) {
            (PeerRole::Sentinel, _, Mode::Sentinel) => return Ok(()),
            (PeerRole::Sentinel, ..) => "a server that should name the primary is not a sentinel",
            (_, _, Mode::Sentinel) => "the server is a sentinel: use redis+sentinel:// and name the primary",
            (_, StorePlace::Cluster { .. }, Mode::Cluster) => return Ok(()),
            (_, StorePlace::Cluster { .. }, Mode::Standalone) => {
                "the server is not part of a cluster: use redis://"
            }
            (_, _, Mode::Cluster) => "the server is part of a cluster: use redis+cluster://",
            (_, _, Mode::Standalone) if !self.is_primary => return Err(ConnectTrouble::Replica),
            (_, _, Mode::Standalone) => return Ok(()),
        };
        Err(ConnectTrouble::Unfit(unfit))
    }
}

fn text(value: &RespValue) -> Option<&[u8]> {
    match value {
        RespValue::Bulk(text) => Some(text),
        RespValue::Simple(text) => Some(text.as_bytes()),
        _ => None,
    }
}

/// The TLS library wraps its errors in system errors.
fn of_tls(error: io::Error) -> ConnectTrouble {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    inner.cloned().map_or_else(|| error.into(), ConnectTrouble::Tls)
}

fn of_login(trouble: &Trouble) -> ConnectTrouble {
    match trouble {
        Trouble::BadReply => NONSENSE,
        _ => ConnectTrouble::HungUp,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting(server: &str, version: &str, mode: &str, role: &str) -> Result<Greeting, ConnectTrouble> {
        let texts = ["server", server, "version", version, "mode", mode, "role", role];
        Greeting::read(RespValue::Array(
            texts.iter().map(|text| RespValue::Bulk(text.as_bytes().to_vec())).collect(),
        ))
    }

    fn single() -> StorePlace {
        StorePlace::Single(Address::Tcp("h".into(), 1))
    }

    #[test]
    fn refuses_what_is_too_old_by_name() {
        for (server, version, refused) in [
            ("redis", "7.0.0", None),
            ("redis", "7.4.1", None),
            ("redis", "8.8.0", None),
            ("valkey", "7.2.0", None),
            ("valkey", "8.1.0-rc1", None),
            ("redis", "6.2.14", Some("Redis 6.2")),
            ("valkey", "7.1.9", Some("Valkey 7.1")),
        ] {
            let checked =
                greeting(server, version, "standalone", "master").unwrap().check(PeerRole::Store, &single());
            match refused {
                None => assert_eq!(checked, Ok(()), "{server} {version}"),
                Some(name) => {
                    let error = checked.unwrap_err().to_string();
                    assert!(error.starts_with(&format!("{name} is too old")), "{error}");
                }
            }
        }
    }

    #[test]
    fn refuses_a_server_of_another_kind_than_the_url_says() {
        let cluster = StorePlace::Cluster { seeds: vec![] };
        for (peer, place, mode, role, fits) in [
            (PeerRole::Store, single(), "standalone", "master", true),
            (PeerRole::Store, single(), "standalone", "slave", false),
            (PeerRole::Store, single(), "standalone", "replica", false),
            (PeerRole::Store, single(), "cluster", "master", false),
            (PeerRole::Store, single(), "sentinel", "master", false),
            (PeerRole::Store, cluster.clone(), "cluster", "master", true),
            (PeerRole::Member, cluster.clone(), "cluster", "slave", true),
            (PeerRole::Member, cluster.clone(), "standalone", "master", false),
            (PeerRole::Sentinel, single(), "sentinel", "sentinel", true),
            (PeerRole::Sentinel, single(), "standalone", "master", false),
        ] {
            let checked = greeting("redis", "7.0.15", mode, role).unwrap().check(peer, &place);
            assert_eq!(checked.is_ok(), fits, "{peer:?} {mode} {role}: {checked:?}");
        }
    }

    #[test]
    fn nonsense_is_no_greeting() {
        for reply in [
            RespValue::Nil,
            RespValue::Simple("OK".into()),
            RespValue::Int(7),
            RespValue::Array(vec![]),
            RespValue::Array(vec![RespValue::Nil]),
        ] {
            assert_eq!(Greeting::read(reply), Err(NONSENSE));
        }
        assert_eq!(greeting("redis", "seven", "standalone", "master"), Err(NONSENSE));
        assert_eq!(greeting("redis", "7", "standalone", "master"), Err(NONSENSE));
        assert_eq!(greeting("redis", "7.0", "adrift", "master"), Err(NONSENSE));
    }
}
