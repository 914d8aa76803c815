//! The fields of a format that tell who the client is.

use memchr::memrchr;

use crate::client::{ClientText, holds_address, is_address};
use crate::format::table::Style;
use crate::format::template::{Part, Template};
use crate::format::{Format, Shape};
use crate::meaning::{Meaning, Names};
use crate::value::{is_absent, without_brackets, without_port};

/// The fields of a format that tell who the client is.
#[derive(Debug, Default)]
pub(super) struct Fields {
    /// The client's, as it is preferred: the first that a line has.
    pub(super) client: Vec<String>,
    /// Whether it always has a port, also one of IPv6 without brackets.
    is_peer: bool,
    /// Those in which no address is expected.
    others: Vec<String>,
    /// That of a virtual host, and that of its port. A server without a name calls itself by its address.
    host: Option<(String, String)>,
}

/// Fields with the address of a server.
const SERVER_FIELDS: [&str; 3] = ["local", "target", "backend"];

/// Ports that servers listen on. Those of clients are higher.
const SERVERS: [&[u8]; 6] = [b"80", b"443", b"8000", b"8080", b"8081", b"8443"];

impl Fields {
    pub(super) fn of(format: &Format) -> Self {
        match &format.shape {
            Shape::Template(template) => Self::of_template(template),
            Shape::Objects(objects) => Self::of_names(objects.dialect.names, objects.is_open),
            Shape::Table(style) => {
                Self::of_names(style.dialect().names, matches!(style, Style::Separated(_)))
            }
        }
    }

    /// The fields of addresses. Those of one server are documented, and so is which is the client's.
    fn of_names(names: Names, is_open: bool) -> Self {
        let addresses =
            names.iter().filter(|(_, meaning)| matches!(meaning, Meaning::Address | Meaning::Peer));
        let client: Vec<String> = addresses.map(|(name, _)| (*name).to_owned()).collect();
        let others = if is_open { client.clone() } else { Vec::new() };
        Self { client, others, ..Self::default() }
    }

    fn of_template(template: &Template) -> Self {
        let names: Vec<&str> = template.names().collect();
        let meaning = |name: &str| {
            template.dialect.names.iter().find(|(known, _)| *known == name).map(|(_, meaning)| meaning)
        };
        // Of several, the first of the table is taken.
        let mut known = template.dialect.names.iter().filter(|(name, _)| names.contains(name));
        let client = known.find(|(_, meaning)| matches!(meaning, Meaning::Address | Meaning::Peer));
        let Some((client, _)) = client else { return Self::default() };
        let place = names.iter().position(|name| name == client).unwrap_or(0);
        let is_other = |(at, name): (usize, &&str)| match meaning(name) {
            Some(Meaning::User) => true,
            // The addresses of servers, of which formats say so.
            None if name.starts_with("upstream") || SERVER_FIELDS.contains(name) => false,
            // A field too much before the client moves it by one.
            None => at <= place + 1 || ["ident", "l"].contains(name),
            _ => false,
        };
        let others = names.iter().enumerate().filter(|(at, name)| is_other((*at, *name)));
        let host = names.contains(&"v").then(|| ("v".to_owned(), "p".to_owned()));
        let others = others.map(|(_, name)| (*name).to_owned()).filter(|name| name != "p");
        let is_peer = meaning(client) == Some(&Meaning::Peer);
        Self { client: vec![(*client).to_owned()], is_peer, others: others.collect(), host }
    }

    /// All of them: the client's, the others, and those of the host.
    pub(super) fn names(&self) -> Vec<String> {
        let host = self.host.iter().flat_map(|(host, port)| [host.clone(), port.clone()]);
        self.client.iter().chain(&self.others).cloned().chain(host).collect()
    }

    /// The kind of the client's text, and whether it is certain that this is the client.
    pub(super) fn judge(&self, texts: &[Option<&[u8]>]) -> (Option<ClientText>, bool) {
        let (clients, rest) = texts.split_at(self.client.len().min(texts.len()));
        let (others, host) = rest.split_at(self.others.len().min(rest.len()));
        let client = clients.iter().flatten().next();
        let without_peer = |text: &[u8]| match memrchr(b':', text).filter(|_| self.is_peer) {
            Some(at) => text.get(..at).unwrap_or_default().to_vec(),
            None => text.to_vec(),
        };
        let client = client.map(|client| without_peer(client)).filter(|client| !is_absent(client));
        let client = client.as_deref();
        let kind = client.map(ClientText::of);
        let bare = |text: &[u8]| without_brackets(without_port(text)).to_vec();
        let is_other_client = |text: &&[u8]| match client {
            // Fields of the same meaning may have the same address.
            Some(client) if self.client == self.others => is_address(text) && bare(text) != bare(client),
            _ => holds_address(text),
        };
        let is_host = |host: &[Option<&[u8]>]| match host {
            [Some(host), port] => holds_address(host) && port.is_none_or(|port| !SERVERS.contains(&port)),
            _ => false,
        };
        let is_certain =
            kind != Some(ClientText::List) && !others.iter().flatten().any(is_other_client) && !is_host(host);
        (kind, is_certain)
    }
}

impl Template {
    /// The names of its fields.
    fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Field(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }
}
