//! Clients, with a clock of their own.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::app::App;
use crate::support::{Connection, until};

/// The header that tells users apart.
pub(crate) const KEY: &str = "x-api-key";
/// The number of a request, for the app.
pub(crate) const NUMBER: &str = "x-number";
/// How many milliseconds the app waits.
pub(crate) const WAIT: &str = "x-wait";

/// The clients' clock: microseconds since 1970.
pub(crate) fn micros() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
    i64::try_from(since.as_micros()).expect("a time of this age")
}

/// A request that a client makes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Request {
    pub(crate) target: Vec<u8>,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) forwarded: Option<&'static str>,
    pub(crate) over_ipv6: bool,
    pub(crate) wait: Duration,
    /// Whether the client goes away as soon as the app has the request.
    pub(crate) is_aborted: bool,
}

/// How it went.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) number: u64,
    pub(crate) began: i64,
    /// The decision was made before.
    pub(crate) decided: i64,
    /// `None` of a client that went away.
    pub(crate) status: Option<u16>,
}

impl Request {
    pub(crate) fn to(target: impl Into<Vec<u8>>) -> Self {
        Self { target: target.into(), ..Self::default() }
    }

    /// Makes the request on a connection of its own.
    pub(crate) fn ask(&self, server: SocketAddr, app: &App) -> Answer {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let server =
            if self.over_ipv6 { SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], server.port())) } else { server };
        let mut connection = Connection::open(server);
        let began = micros();
        connection.send(&self.bytes(number));
        if self.is_aborted {
            until("the app has the request", || app.arrival(number).is_some());
            drop(connection);
            let arrived = app.arrival(number).map_or(i64::MAX, |arrival| arrival.at);
            return Answer { number, began, decided: arrived, status: None };
        }
        let status = connection.reply().expect("an answer comes").status;
        let decided = app.arrival(number).map_or_else(micros, |arrival| arrival.at);
        Answer { number, began, decided, status: Some(status) }
    }

    fn bytes(&self, number: u64) -> Vec<u8> {
        let mut bytes = b"GET ".to_vec();
        bytes.extend_from_slice(&self.target);
        let head = format!(" HTTP/1.1\r\nHost: shop.example\r\nConnection: close\r\n{NUMBER}: {number}\r\n");
        bytes.extend_from_slice(head.as_bytes());
        if let Some(key) = &self.key {
            bytes.extend_from_slice(format!("{KEY}: ").as_bytes());
            bytes.extend_from_slice(key);
            bytes.extend_from_slice(b"\r\n");
        }
        if let Some(forwarded) = self.forwarded {
            bytes.extend_from_slice(format!("X-Forwarded-For: {forwarded}\r\n").as_bytes());
        }
        if !self.wait.is_zero() {
            bytes.extend_from_slice(format!("{WAIT}: {}\r\n", self.wait.as_millis()).as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes
    }
}
