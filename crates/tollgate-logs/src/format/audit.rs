//! Who the client of each sampled line is, by a format that reads the line.
//!
//! A format that fits may still read the wrong client: `PROXY CLIENT - - [time] ...` has the shape of Apache's formats. So a
//! detected format is accepted only if there is one address in the place of the client, and none where it reads something
//! else. This takes no time later: only the first lines are looked at.

use std::collections::HashSet;

use jiff::tz::TimeZone;
use memchr::memrchr;

use super::head::{Head, Written};
use super::table::Style;
use super::template::{Part, Template};
use super::wrapping::Wrapping;
use super::{Format, Parser, Shape};
use crate::attribute::{Attribute, Source};
use crate::client::{ClientText, holds_address, is_address, is_forwarded};
use crate::meaning::{Meaning, Names};
use crate::options::Options;
use crate::plan::Plan;
use crate::reason::Kind;
use crate::value::{is_absent, without_brackets, without_port};

/// The first lines of a log, and what the user says of them.
pub(super) struct Sample<'l> {
    pub(super) lines: &'l [&'l [u8]],
    pub(super) wrapping: &'l Wrapping,
    pub(super) plan: &'l Plan,
    pub(super) zone: Option<&'l TimeZone>,
}

/// The clients of the lines that a format reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Clients {
    /// Lines whose client is one address or a host name.
    pub(crate) single: usize,
    /// Those with a host name.
    pub(crate) names: usize,
    /// Lines with another text in its place.
    pub(crate) others: usize,
}

/// A line that does not say for certain who its client is, by its place, and what it may mean.
#[derive(Debug)]
pub(crate) struct Unclear {
    pub(crate) line: usize,
    pub(crate) readings: Vec<Meant>,
}

/// One meaning of a line.
#[derive(Debug)]
pub(crate) struct Meant {
    pub(crate) place: String,
    pub(crate) client: Vec<u8>,
    pub(crate) different: usize,
    pub(crate) lines: usize,
    pub(crate) flags: String,
}

/// The fields of a format that tell who the client is.
#[derive(Debug, Default)]
struct Fields {
    /// The client's, as it is preferred: the first that a line has.
    client: Vec<String>,
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

impl Sample<'_> {
    /// Looks at the clients of all lines that this format reads.
    ///
    /// # Errors
    ///
    /// The first line whose client is not certain.
    pub(super) fn audit(&self, format: &Format) -> Result<Clients, Unclear> {
        let fields = Fields::of(format);
        let mut clients = Clients::default();
        let mut unclear = None;
        self.each(format, &fields.names(), |line, texts| {
            let (kind, is_certain) = fields.judge(texts);
            if !is_certain {
                unclear = unclear.or(Some(line));
            }
            match kind {
                Some(ClientText::Address) => clients.single += 1,
                Some(ClientText::Name) => {
                    (clients.single, clients.names) = (clients.single + 1, clients.names + 1)
                }
                Some(ClientText::List | ClientText::Other) => clients.others += 1,
                None => {}
            }
        });
        // Single lines with another text do not fit, and are counted as such when all are read.
        if unclear.is_none() && clients.others * 19 <= clients.single {
            return Ok(clients);
        }
        let line = unclear.or_else(|| self.first_other(format, &fields)).unwrap_or(0);
        let readings = match &format.shape {
            Shape::Template(template) => self.readings(line, Some((format, template))),
            Shape::Objects(_) | Shape::Table(_) => self.readings_of_fields(line, format, &fields),
        };
        Err(Unclear { line, readings })
    }

    fn first_other(&self, format: &Format, fields: &Fields) -> Option<usize> {
        let mut first = None;
        self.each(format, &fields.names(), |line, texts| {
            let is_other = matches!(fields.judge(texts).0, Some(ClientText::List | ClientText::Other));
            first = first.or(Some(line).filter(|_| is_other));
        });
        first
    }

    /// Calls back with the fields of these names of each request, by the place of its line.
    fn each(
        &self,
        format: &Format,
        names: &[String],
        mut call: impl FnMut(usize, &[Option<&[u8]>]),
    ) -> usize {
        let source = |name: &String| match name.starts_with('/') {
            true => Source::Json(name.clone()),
            false => Source::Field(name.clone()),
        };
        let attribute = |name: &String| Attribute { name: String::new(), source: source(name) };
        let options = Options {
            attributes: names.iter().map(attribute).collect(),
            fields: Vec::new(),
            time: self.plan.time.clone(),
            ..Options::default()
        };
        let plan = Plan::for_detection(&options);
        let Ok(mut parser) = Parser::new(format, self.wrapping, &plan, self.zone) else { return 0 };
        let mut requests = 0;
        for (place, line) in self.lines.iter().enumerate() {
            if parser.read(&plan, line) != Ok(Kind::Request) {
                continue;
            }
            requests += 1;
            let record = parser.record();
            let text = |place: usize| record.spans.get(Plan::slot(place))?.of(&record.bytes);
            let texts: Vec<_> = (0..names.len()).map(text).collect();
            call(place, &texts);
        }
        requests
    }

    /// What a line may mean whose client stands in an unexpected place.
    pub(super) fn readings(&self, line: usize, read: Option<(&Format, &Template)>) -> Vec<Meant> {
        let Some(text) = self.lines.get(line).and_then(|line| self.wrapping.inside(line)) else {
            return Vec::new();
        };
        let Some(head) = Head::of(&text) else { return Vec::new() };
        let own = read.and_then(|(format, template)| Some((format, template.after_time()?)));
        let written = head.written();
        let count = written.len();
        let readings = written.into_iter().filter_map(|written| {
            let tails = own.iter().map(|(_, tail)| tail.clone()).chain(TAILS.map(str::to_owned));
            let formats = tails.map(|tail| format!("{}{tail}", written.head));
            let named = read.filter(|(format, _)| {
                written.is_usual && !written.is_list && self.takes(format, line, written.client)
            });
            let named = named.map(|(format, _)| format.name.clone());
            named.into_iter().chain(formats).find_map(|text| self.meant(&text, &written, count))
        });
        readings.collect()
    }

    /// What the first line with a time in brackets may mean, if no format reads these lines inside of the wrapping.
    pub(super) fn unexpected(&self, inside: &[Vec<u8>]) -> Option<Unclear> {
        inside.iter().find(|line| Head::of(line).is_some())?;
        let line = self
            .lines
            .iter()
            .position(|line| self.wrapping.inside(line).is_some_and(|text| Head::of(&text).is_some()))?;
        let readings = self.readings(line, None);
        (!readings.is_empty()).then_some(Unclear { line, readings })
    }

    /// Whether the format takes this for the client of the line.
    fn takes(&self, format: &Format, line: usize, client: &[u8]) -> bool {
        let fields = Fields::of(format);
        let mut is_it = false;
        self.each(format, &fields.client, |place, texts| {
            is_it |= place == line && texts.iter().flatten().next() == Some(&client);
        });
        is_it
    }

    /// The reading by this format; `None` if it does not read nearly all lines, each with one client.
    fn meant(&self, text: &str, written: &Written<'_>, count: usize) -> Option<Meant> {
        let format: Format = text.parse().ok()?;
        let name = if written.is_list {
            vec!["http_x_forwarded_for".to_owned()]
        } else {
            Fields::of(&format).client
        };
        let mut different = HashSet::new();
        let (mut lines, mut wrong) = (0, 0);
        let requests = self.each(&format, &name, |_, texts| {
            let Some(text) = texts.iter().flatten().next() else { return };
            lines += 1;
            let is_list = || written.is_list && holds_address(text);
            wrong += usize::from(
                !is_list() && !matches!(ClientText::of(text), ClientText::Address | ClientText::Name),
            );
            different.insert(text.to_vec());
        });
        let all = self.lines.iter().filter(|line| !line.trim_ascii().is_empty()).count();
        if wrong > 0 || requests * 20 <= all * 19 {
            return None;
        }
        let quoted = if text.contains('$') { format!("'{text}'") } else { text.to_owned() };
        let flags = match written.is_list {
            true => format!("--format {quoted} --attr ip=xff:NETWORKS"),
            false => format!("--format {quoted}"),
        };
        let ordinal = ["1st", "2nd", "3rd"].get(written.number - 1).copied().unwrap_or("next");
        let place = match (written.is_list, count) {
            (true, _) => "an address of the list".to_owned(),
            (false, 1) => "the only address".to_owned(),
            (false, _) => format!("the {ordinal} address"),
        };
        Some(Meant { place, client: written.client.to_vec(), different: different.len(), lines, flags })
    }

    /// What a line of JSON or of a table may mean: each of its fields with an address may be the client's.
    fn readings_of_fields(&self, line: usize, format: &Format, fields: &Fields) -> Vec<Meant> {
        let is_json = matches!(format.shape, Shape::Objects(_));
        let mut readings = Vec::new();
        for name in &fields.client {
            let (mut client, mut different, mut lines) = (None, HashSet::new(), 0);
            self.each(format, std::slice::from_ref(name), |place, texts| {
                let Some(&Some(text)) = texts.first() else { return };
                lines += 1;
                different.insert(text.to_vec());
                if place == line {
                    client = Some(text.to_vec());
                }
            });
            let Some(client) = client else { continue };
            let flags = match (ClientText::of(&client), is_json) {
                (ClientText::Other, _) => continue,
                (ClientText::List, _) if !is_forwarded(&client) => continue,
                (ClientText::List, _) => "--attr ip=xff:NETWORKS".to_owned(),
                (_, true) => format!("--attr ip=json:/{}", name.trim_start_matches('/')),
                (_, false) => format!("--attr 'ip=field:{name}'"),
            };
            let place = format!("the field {}", name.trim_start_matches('/'));
            readings.push(Meant { place, client, different: different.len(), lines, flags });
        }
        readings
    }
}

/// What may follow the time in brackets, the richest first.
const TAILS: [&str; 4] = [
    r#" [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent""#,
    r#" [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $rest"#,
    r#" [$time_local] "$request" $status $body_bytes_sent"#,
    r#" [$time_local] "$request" $status $body_bytes_sent $rest"#,
];

impl Fields {
    fn of(format: &Format) -> Self {
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
    fn names(&self) -> Vec<String> {
        let host = self.host.iter().flat_map(|(host, port)| [host.clone(), port.clone()]);
        self.client.iter().chain(&self.others).cloned().chain(host).collect()
    }

    /// The kind of the client's text, and whether it is certain that this is the client.
    fn judge(&self, texts: &[Option<&[u8]>]) -> (Option<ClientText>, bool) {
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
