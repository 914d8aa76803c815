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
use super::connection::{Connection, Pump, Stream};
use crate::address::Address;
use crate::calls::Calls;
use crate::credentials::Known;
use crate::dial::dial;
use crate::resp::{Command, Value, command};
use crate::rights::Rights;
use crate::settings::Checked;
use crate::time::instant;
use crate::trouble::{Flavor, Trouble, Unconnected};
use crate::url::Place;

/// The role of a server, which decides its login, script and checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
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
    peer: Peer,
    checked: &Checked,
) -> Result<(Connection, Pump), Unconnected> {
    let set_up = async {
        let known = checked.credentials.current().await;
        open(address, peer, checked, &known)
            .await
            .map_err(|trouble| trouble.with_unread(known.unread.as_deref()))
    };
    timeout(checked.settings.connect_timeout, set_up).await.unwrap_or(Err(Unconnected::TimedOut))
}

async fn open(
    address: &Address,
    peer: Peer,
    checked: &Checked,
    known: &Known,
) -> Result<(Connection, Pump), Unconnected> {
    let hello = hello(peer, checked, known);
    match (address, &known.tls) {
        (Address::Tcp(host, port), None) => {
            login(tcp(host, *port, checked).await?, address, peer, checked, hello).await
        }
        (Address::Tcp(host, port), Some(tls)) => {
            let name = ServerName::try_from(host.to_string()).map_err(|_| Unconnected::UnknownHost)?;
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
    peer: Peer,
    checked: &Checked,
    command: &Command,
) -> Result<Value, Unconnected> {
    let (connection, mut pump) = connect(address, peer, checked).await?;
    let command = Calls::of(command);
    match timeout(checked.settings.connect_timeout, polled(&mut pump, &connection, &command)).await {
        Ok(Ok(answers)) => only(answers, address, "ask who serves"),
        Ok(Err(trouble)) => Err(of_login(&trouble)),
        Err(_) => Err(Unconnected::TimedOut),
    }
}

/// The replies to commands, which come only while the connection is polled.
pub(super) async fn polled(
    pump: &mut Pump,
    connection: &Connection,
    commands: &Calls,
) -> Result<Vec<Value>, Trouble> {
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

/// Checks that the user has the rights that counting needs. Otherwise the first request of its kind would be the one to
/// find out, and some kinds are rare.
pub(super) async fn expect_rights(
    pump: &mut Pump,
    connection: &Connection,
    rights: &Rights,
    asked: &Address,
    checked: &Checked,
) -> Result<(), Unconnected> {
    match timeout(checked.settings.connect_timeout, polled(pump, connection, rights.commands())).await {
        Ok(Ok(answers)) => rights.judge(&answers, asked),
        Ok(Err(trouble)) => Err(of_login(&trouble)),
        Err(_) => Err(Unconnected::TimedOut),
    }
}

/// The reply to a single command.
fn only(answers: Vec<Value>, asked: &Address, doing: &'static str) -> Result<Value, Unconnected> {
    match answers.into_iter().next() {
        Some(Value::Error(error)) => Err(Unconnected::of_reply(&error, asked, doing)),
        Some(answer) => Ok(answer),
        None => Err(NONSENSE),
    }
}

async fn tcp(host: &str, port: u16, checked: &Checked) -> Result<TcpStream, Unconnected> {
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
    stream: impl Stream + 'static,
    address: &Address,
    peer: Peer,
    checked: &Checked,
    hello: Command,
) -> Result<(Connection, Pump), Unconnected> {
    let breaker = Breaker::new(checked.settings.timeout, instant(), Arc::clone(&checked.late_replies));
    let (connection, pump) = Connection::new(stream, breaker);
    let mut link = Opening { connection, pump, address };

    // Alone and first: a server that does not greet correctly gets nothing else.
    let greeting = link.ask(hello, "log in").await?;
    Greeting::read(greeting)?.check(peer, &checked.settings.url.place)?;
    if peer == Peer::Store {
        let load = command("SCRIPT").arg("LOAD").arg(checked.script);
        link.ask(load, "load scripts (SCRIPT LOAD)").await?;
        let database = checked.settings.url.database;
        if database != 0 {
            let select = command("SELECT").arg(database.to_string());
            link.ask(select, "use the database (SELECT)").await.map_err(|error| match error {
                Unconnected::Unfit(_) => Unconnected::Unfit("the server does not have the database"),
                other => other,
            })?;
        }
    }
    Ok((link.connection, link.pump))
}

/// A connection that is being set up.
struct Opening<'a> {
    connection: Connection,
    pump: Pump,
    address: &'a Address,
}

impl Opening<'_> {
    async fn ask(&mut self, command: Command, doing: &'static str) -> Result<Value, Unconnected> {
        let answers = polled(&mut self.pump, &self.connection, &Calls::of(&command)).await;
        only(answers.map_err(|trouble| of_login(&trouble))?, self.address, doing)
    }
}

/// `HELLO` and not `AUTH`, because its reply identifies the server, and every user may send it.
fn hello(peer: Peer, checked: &Checked, known: &Known) -> Command {
    let mut hello = command("HELLO").arg("2");
    let settings = &checked.settings;
    let (user, password) = match peer {
        Peer::Store | Peer::Member => (&settings.url.user, &known.password),
        Peer::Sentinel => (&settings.sentinel_user, &known.sentinel_password),
    };
    if let Some(password) = password {
        hello = hello.arg("AUTH").arg(user.as_deref().unwrap_or("default")).arg(password.reveal());
    }
    hello.arg("SETNAME").arg("tollgate")
}

const NONSENSE: Unconnected =
    Unconnected::Unfit("the program that listens there does not answer like Redis or Valkey");

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
    fn read(reply: Value) -> Result<Self, Unconnected> {
        let Value::Array(fields) = reply else { return Err(NONSENSE) };
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

    fn check(&self, peer: Peer, place: &Place) -> Result<(), Unconnected> {
        let oldest = match self.flavor {
            Flavor::Redis => (7, 0),
            Flavor::Valkey => (7, 2),
        };
        if (self.major, self.minor) < oldest {
            return Err(Unconnected::TooOld { server: self.flavor, major: self.major, minor: self.minor });
        }
        let unfit = match (peer, place, self.mode) {
            (Peer::Sentinel, _, Mode::Sentinel) => return Ok(()),
            (Peer::Sentinel, ..) => "a server that should name the primary is not a sentinel",
            (_, _, Mode::Sentinel) => "the server is a sentinel: use redis+sentinel:// and name the primary",
            (_, Place::Cluster { .. }, Mode::Cluster) => return Ok(()),
            (_, Place::Cluster { .. }, Mode::Standalone) => {
                "the server is not part of a cluster: use redis://"
            }
            (_, _, Mode::Cluster) => "the server is part of a cluster: use redis+cluster://",
            (_, _, Mode::Standalone) if !self.is_primary => return Err(Unconnected::Replica),
            (_, _, Mode::Standalone) => return Ok(()),
        };
        Err(Unconnected::Unfit(unfit))
    }
}

fn text(value: &Value) -> Option<&[u8]> {
    match value {
        Value::Bulk(text) => Some(text),
        Value::Simple(text) => Some(text.as_bytes()),
        _ => None,
    }
}

/// The TLS library wraps its errors in system errors.
fn of_tls(error: io::Error) -> Unconnected {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    inner.cloned().map_or_else(|| error.into(), Unconnected::Tls)
}

pub(super) fn of_login(trouble: &Trouble) -> Unconnected {
    match trouble {
        Trouble::BadReply => NONSENSE,
        _ => Unconnected::HungUp,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting(server: &str, version: &str, mode: &str, role: &str) -> Result<Greeting, Unconnected> {
        let texts = ["server", server, "version", version, "mode", mode, "role", role];
        Greeting::read(Value::Array(texts.iter().map(|text| Value::Bulk(text.as_bytes().to_vec())).collect()))
    }

    fn single() -> Place {
        Place::Single(Address::Tcp("h".into(), 1))
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
                greeting(server, version, "standalone", "master").unwrap().check(Peer::Store, &single());
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
        let cluster = Place::Cluster { seeds: vec![] };
        for (peer, place, mode, role, fits) in [
            (Peer::Store, single(), "standalone", "master", true),
            (Peer::Store, single(), "standalone", "slave", false),
            (Peer::Store, single(), "standalone", "replica", false),
            (Peer::Store, single(), "cluster", "master", false),
            (Peer::Store, single(), "sentinel", "master", false),
            (Peer::Store, cluster.clone(), "cluster", "master", true),
            (Peer::Member, cluster.clone(), "cluster", "slave", true),
            (Peer::Member, cluster.clone(), "standalone", "master", false),
            (Peer::Sentinel, single(), "sentinel", "sentinel", true),
            (Peer::Sentinel, single(), "standalone", "master", false),
        ] {
            let checked = greeting("redis", "7.0.15", mode, role).unwrap().check(peer, &place);
            assert_eq!(checked.is_ok(), fits, "{peer:?} {mode} {role}: {checked:?}");
        }
    }

    #[test]
    fn nonsense_is_no_greeting() {
        for reply in [
            Value::Nil,
            Value::Simple("OK".into()),
            Value::Int(7),
            Value::Array(vec![]),
            Value::Array(vec![Value::Nil]),
        ] {
            assert_eq!(Greeting::read(reply), Err(NONSENSE));
        }
        assert_eq!(greeting("redis", "seven", "standalone", "master"), Err(NONSENSE));
        assert_eq!(greeting("redis", "7", "standalone", "master"), Err(NONSENSE));
        assert_eq!(greeting("redis", "7.0", "adrift", "master"), Err(NONSENSE));
    }
}
