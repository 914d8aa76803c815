//! The live page and its data.

#![allow(clippy::expect_used, reason = "this is a test")]

mod domains;
mod history;
mod inspect;
mod live;
mod named_talkers;
mod page;
mod public_url;
mod talkers;
mod what_if;

use std::net::SocketAddr;

use crate::support::{Connection, Reply};

fn ask(address: SocketAddr, method: &str, path: &str, headers: &str) -> Reply {
    let mut connection = Connection::open(address);
    connection.send(format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n").as_bytes());
    let reply = if method == "HEAD" { connection.head() } else { connection.reply() };
    reply.expect("an answer comes")
}
