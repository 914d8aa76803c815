//! Commands of the manual's pages, as a shell would read them.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tollgate_testkit::manual::blocks;

use super::{Connection, Reply, Server};

/// A request as `curl` sends it.
#[derive(Debug)]
pub(crate) struct Curl {
    method: Option<String>,
    url: String,
    headers: Vec<String>,
    body: Option<String>,
}

/// Returns what this returns within one minute of the clock. It is repeated if a minute ends meanwhile.
pub(crate) fn within_a_minute<T>(play: impl Fn() -> T) -> T {
    let minute = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs() / 60;
    for _ in 0..5 {
        let began = minute();
        let played = play();
        if minute() == began {
            return played;
        }
    }
    panic!("it takes a minute");
}

/// Plays the commands of a section on this service, and returns the answers. A variable keeps what `sed` leaves.
pub(crate) fn played(section: &str, server: &Server) -> Vec<Value> {
    let mut hold = None::<String>;
    let mut answers = Vec::new();
    for block in blocks(section).into_iter().filter(|block| block.language == "sh") {
        let command = block.text.trim();
        let kept = command.strip_prefix("hold=$(");
        let asked = kept.map_or(command, |kept| kept.split(" | sed ").next().expect("a first part"));
        let asked = match &hold {
            Some(hold) => asked.replace("'\"$hold\"'", hold),
            None => asked.to_owned(),
        };
        let reply = Curl::parse(&asked).send(server);
        assert_eq!(reply.status, 200, "{asked}: {}", reply.json());
        let answer = reply.json();
        if kept.is_some() {
            hold = answer["hold"].as_str().map(str::to_owned);
        }
        answers.push(answer);
    }
    answers
}

/// Returns the words of a command. Quotes and a backslash at the end of a line are all that it may have.
pub(crate) fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in command.replace("\\\n", " ").chars() {
        match quote {
            Some(open) if letter == open => quote = None,
            Some(_) => word.get_or_insert_default().push(letter),
            None if letter == '\'' || letter == '"' => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            None if letter.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(letter),
        }
    }
    assert_eq!(quote, None, "a quote is open: {command}");
    words.extend(word);
    words
}

/// Returns what `tollgate` or `cargo run` is given, for a command that starts with one of them.
pub(crate) fn arguments(command: &str) -> Option<Vec<String>> {
    let ways = ["tollgate ", "cargo run --release -- "];
    ways.iter().find_map(|way| command.strip_prefix(way)).map(words)
}

impl Curl {
    /// Reads a command that starts with `curl` and inserts files of a folder, as in `$(cat token.txt)`.
    pub(crate) fn parse_in(folder: &Path, command: &str) -> Self {
        let mut parts = command.split("$(cat ");
        let mut inserted = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (file, rest) = part.split_once(')').expect("the end of the command");
            inserted += fs::read_to_string(folder.join(file)).expect("the file is there").trim_end();
            inserted += rest;
        }
        Self::parse(&inserted)
    }

    /// Reads a command that starts with `curl`.
    pub(crate) fn parse(command: &str) -> Self {
        let mut curl = Self { method: None, url: String::new(), headers: Vec::new(), body: None };
        let mut words = words(command).into_iter();
        assert_eq!(words.next().as_deref(), Some("curl"), "{command}");
        while let Some(word) = words.next() {
            match word.as_str() {
                "-i" | "-s" => {}
                "-X" => curl.method = words.next(),
                "-H" => curl.headers.extend(words.next()),
                "-d" => curl.body = words.next(),
                url if curl.url.is_empty() && url.starts_with("http://") => curl.url = word,
                _ => panic!("no test knows `{word}` of {command}"),
            }
        }
        curl
    }

    /// Sends the request to the listener of this server that the port of the command stands for: 8090 is the
    /// administrator's.
    pub(crate) fn send(&self, server: &Server) -> Reply {
        let (address, path) = self.place(server);
        let mut head = format!("{} {path} HTTP/1.1\r\nHost: localhost\r\n", self.method());
        for header in &self.headers {
            head += &format!("{header}\r\n");
        }
        let body = self.body.as_deref().unwrap_or_default();
        if self.body.is_some() {
            let is_told =
                |header: &String| header.split(':').next().is_some_and(|name| name == "content-type");
            if !self.headers.iter().any(is_told) {
                head += "Content-Type: application/x-www-form-urlencoded\r\n";
            }
            head += &format!("Content-Length: {}\r\n", body.len());
        }
        Connection::open(address).ask(format!("{head}\r\n{body}").as_bytes())
    }

    fn method(&self) -> &str {
        self.method.as_deref().unwrap_or(if self.body.is_some() { "POST" } else { "GET" })
    }

    fn place(&self, server: &Server) -> (SocketAddr, &str) {
        let local = self.url.strip_prefix("http://127.0.0.1:").expect("it asks this machine");
        let slash = local.find('/').expect("it has a path");
        let (port, path) = local.split_at(slash);
        match port {
            "8090" => (server.admin, path),
            _ if port.starts_with("808") => (server.public, path),
            _ => panic!("no listener of the service has port {port}"),
        }
    }
}
