//! Addresses in other fields than the client's.
//!
//! Behind a proxy, a server logs the proxy as the client, and the client in a header. So the addresses of such fields
//! are compared with the clients of the same lines.

use std::collections::HashSet;
use std::net::IpAddr;

use super::fields::ClientFields;
use super::{ClientReading, Clients, Sample, Unclear};
use crate::attribute::AttributeSource;
use crate::client::is_address;
use crate::format::template::{Part, Template};
use crate::format::{Format, FormatShape};
use crate::meaning::Meaning;
use crate::summary::OtherAddresses;
use crate::value::{address, is_absent, without_brackets, without_port};

/// A field in which other addresses may stand.
pub(super) struct AddressField {
    /// How people call it.
    pub(super) label: String,
    /// The name by which it is read.
    pub(super) name: String,
    /// The flags that take the client from it.
    pub(super) flags: String,
    pub(super) kind: PlaceKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PlaceKind {
    /// `X-Forwarded-For`, or the text behind the known fields.
    Header,
    /// A field of which nothing is known, or which is usually another text.
    Unknown,
}

/// The addresses of one field in the first lines.
#[derive(Default)]
pub(super) struct Addresses {
    /// Lines in which it has an address.
    present: usize,
    /// Lines in which it has an address, and none of them is the client.
    lines: usize,
    different: HashSet<IpAddr>,
    /// The first of these lines, and the text in it.
    first: Option<(usize, Vec<u8>)>,
    /// Lines without a client in which it has an address,
    alone: usize,
    /// and those among them with several entries.
    lists: usize,
    different_lists: HashSet<Vec<u8>>,
    first_list: Option<(usize, Vec<u8>)>,
}

/// What a comparison has found.
struct Comparison {
    requests: usize,
    /// The name of the client's field.
    client: Option<String>,
    /// Their addresses or names.
    clients: HashSet<Vec<u8>>,
    first_clients: Vec<(usize, Vec<u8>)>,
    places: Vec<(AddressField, Addresses)>,
}

/// Fewer lines do not show that a log is one of proxies.
const LEAST: usize = 20;

/// So many times as many different addresses as clients are those of clients behind proxies.
const MANY: usize = 4;

impl Sample<'_> {
    /// Compares the clients with the addresses in other fields. Returns a field in which most lines have another
    /// address.
    ///
    /// # Errors
    ///
    /// A line, if the clients of these lines are probably proxies, or if only a list tells who the clients are.
    pub(in crate::format) fn compare(
        &self,
        format: &Format,
        clients: Clients,
    ) -> Result<Option<OtherAddresses>, Unclear> {
        let is_walked = matches!(self.plan.client(), Some(AttributeSource::Xff(_)));
        let mut compared = self.comparison(format);
        if is_walked {
            let has_header = |(place, seen): &(AddressField, Addresses)| {
                place.kind == PlaceKind::Header && seen.present > 0
            };
            if compared.places.iter().any(has_header) {
                return Ok(None);
            }
        } else if let Some(unclear) = compared.list() {
            return Err(unclear);
        } else if clients.single == 0 && self.plan.needs_client && !compared.has_alone() {
            return Err(Unclear { line: 0, readings: self.without_client(format) });
        }
        if let FormatShape::Template(template) = &format.shape
            && let Some(tail) = self.tail(format, template)
        {
            compared.places.push(tail);
        }
        if is_walked {
            compared.places.retain(|(place, _)| place.kind == PlaceKind::Header);
        }
        compared.conclusion(format, is_walked)
    }

    fn comparison(&self, format: &Format) -> Comparison {
        let client_names = ClientFields::of(format).client;
        let places = self.places(format);
        let names: Vec<String> =
            client_names.iter().cloned().chain(places.iter().map(|place| place.name.clone())).collect();
        let mut seen: Vec<Addresses> = places.iter().map(|_| Addresses::default()).collect();
        let (mut client_name, mut clients, mut first_clients) = (None, HashSet::new(), Vec::new());
        let requests = self.each(format, &names, |line, texts| {
            let (client, others) = texts.split_at(client_names.len().min(texts.len()));
            let client = client.iter().enumerate().find_map(|(at, text)| Some((at, (*text)?)));
            let client = client.filter(|(_, text)| !is_absent(text));
            if let Some((at, text)) = client {
                client_name = client_name.take().or_else(|| client_names.get(at).cloned());
                clients.insert(without_brackets(without_port(text)).to_vec());
                first_clients.push((line, text.to_vec()));
            }
            for (seen, text) in seen.iter_mut().zip(others) {
                if let Some(text) = text {
                    seen.note(line, client.map(|(_, text)| text), text);
                }
            }
        });
        let places = places.into_iter().zip(seen).collect();
        Comparison { requests, client: client_name, clients, first_clients, places }
    }

    /// The fields of a format in which other addresses may stand.
    fn places(&self, format: &Format) -> Vec<AddressField> {
        let known = match &format.shape {
            FormatShape::Template(template) => template.dialect.names,
            FormatShape::Objects(objects) => objects.dialect.names,
            FormatShape::Table(style) => style.dialect().names,
        };
        let has = |name: &str| match &format.shape {
            FormatShape::Template(template) => {
                template.parts.iter().any(|part| matches!(part, Part::Field(field) if field == name))
            }
            _ => true,
        };
        let forwarded = known.iter().filter(|(name, meaning)| *meaning == Meaning::Forwarded && has(name));
        let mut places: Vec<AddressField> =
            forwarded.map(|(name, _)| AddressField::forwarded(name)).collect();
        match &format.shape {
            FormatShape::Template(template) if template.after_time().is_some() && has("http_referer") => {
                places.push(AddressField::field("http_referer", false));
            }
            FormatShape::Template(_) => {}
            _ if self.is_open(format) => places.extend(self.unknown(format)),
            _ => {}
        }
        places
    }

    fn is_open(&self, format: &Format) -> bool {
        use crate::format::table::Style;
        match &format.shape {
            FormatShape::Template(_) => false,
            FormatShape::Objects(objects) => objects.is_open,
            FormatShape::Table(style) => matches!(style, Style::Separated(_)),
        }
    }

    /// What lines may mean in which no client stands: each field with addresses may be the client's.
    fn without_client(&self, format: &Format) -> Vec<ClientReading> {
        if matches!(format.shape, FormatShape::Template(_)) {
            return Vec::new();
        }
        let readings = self.unknown(format).into_iter().filter_map(|place| {
            let (mut client, mut different, mut lines) = (None, HashSet::new(), 0);
            self.each(format, std::slice::from_ref(&place.name), |_, texts| {
                let Some(&Some(text)) = texts.first() else { return };
                lines += 1;
                different.insert(text.to_vec());
                client = client.take().or_else(|| Some(text.to_vec()));
            });
            let (client, different) = (client?, different.len());
            Some(ClientReading { place: place.label, client, different, lines, flags: place.flags })
        });
        readings.collect()
    }

    /// The text behind the known fields, if it has addresses and a format can be written out that reads it.
    fn tail(&self, format: &Format, template: &Template) -> Option<(AddressField, Addresses)> {
        let client_names = ClientFields::of(format).client;
        let mut longer = format.clone();
        let FormatShape::Template(parts) = &mut longer.shape else { return None };
        Template::push_text(&mut parts.parts, b" ");
        parts.parts.push(Part::Field(super::tail::REST.to_owned()));
        parts.tail = crate::format::scanner::Tail::Nothing;
        let mut names = client_names;
        names.push(super::tail::REST.to_owned());
        let mut seen = Addresses::default();
        self.each(&longer, &names, |line, texts| {
            let Some((rest, client)) = texts.split_last() else { return };
            let client = client.iter().flatten().next().copied();
            if let Some(list) = rest.and_then(super::tail::list) {
                seen.note(line, client, &list);
            }
        });
        let flags = self.written_out(seen.first.as_ref()?.0, template)?;
        let label = "the text behind the known fields".to_owned();
        // The address of the server itself is the same in all lines.
        (seen.different.len() > 1).then(|| {
            (AddressField { label, name: super::tail::REST.to_owned(), flags, kind: PlaceKind::Header }, seen)
        })
    }
}

impl AddressField {
    fn forwarded(name: &str) -> Self {
        let flags = "--attr ip=xff:NETWORKS".to_owned();
        Self { label: "X-Forwarded-For".to_owned(), name: name.to_owned(), flags, kind: PlaceKind::Header }
    }

    /// A field of JSON by its pointer, or one of another format.
    pub(super) fn field(name: &str, is_json: bool) -> Self {
        let label = format!("the field {}", name.trim_start_matches('/'));
        Self { label, name: name.to_owned(), flags: flag(name, is_json), kind: PlaceKind::Unknown }
    }
}

/// The flag that takes the client from this field.
fn flag(name: &str, is_json: bool) -> String {
    let source = match is_json {
        true => format!("ip=json:/{}", name.trim_start_matches('/')),
        false => format!("ip=field:{name}"),
    };
    let is_plain = source.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"=:/_-.@".contains(&byte));
    if is_plain { format!("--attr {source}") } else { format!("--attr '{source}'") }
}

impl Addresses {
    fn note(&mut self, line: usize, client: Option<&[u8]>, text: &[u8]) {
        let addresses: Vec<IpAddr> = entries(text).filter_map(ip).collect();
        if addresses.is_empty() {
            return;
        }
        self.present += 1;
        let Some(client) = client else {
            self.alone += 1;
            if entries(text).count() > 1 && !entries(text).any(|entry| entry.contains(&b' ')) {
                self.lists += 1;
                self.different_lists.insert(text.to_vec());
                self.first_list = self.first_list.take().or_else(|| Some((line, text.to_vec())));
            }
            return;
        };
        let client = ip(client);
        if addresses.iter().all(|address| Some(*address) != client) {
            self.lines += 1;
            self.different.extend(addresses);
            self.first = self.first.take().or_else(|| Some((line, text.to_vec())));
        }
    }
}

impl Comparison {
    /// Whether a header tells the clients of lines without another.
    fn has_alone(&self) -> bool {
        self.places.iter().any(|(place, seen)| place.kind == PlaceKind::Header && seen.alone > 0)
    }

    /// A list that alone tells who the client is. Which of its entries are proxies, only the user knows. Clients send a
    /// few of their own.
    fn list(&self) -> Option<Unclear> {
        let is_list = |(place, seen): &&(AddressField, Addresses)| {
            place.kind == PlaceKind::Header && seen.lists * 20 > seen.alone
        };
        let (place, seen) = self.places.iter().find(is_list)?;
        let (line, client) = seen.first_list.clone()?;
        let meant = ClientReading {
            place: "an address of the list".to_owned(),
            client,
            different: seen.different_lists.len(),
            lines: seen.lists,
            flags: place.flags.clone(),
        };
        Some(Unclear { line, readings: vec![meant] })
    }

    fn conclusion(self, format: &Format, is_walked: bool) -> Result<Option<OtherAddresses>, Unclear> {
        let Self { requests, client, clients, first_clients, places } = self;
        let Some(client) = client else { return Ok(None) };
        let is_json = matches!(format.shape, FormatShape::Objects(_));
        let mut note = None;
        for (place, seen) in places {
            let is_frequent = match place.kind {
                PlaceKind::Header => seen.lines * 2 > requests,
                PlaceKind::Unknown => {
                    seen.lines * 10 >= requests * 9 && seen.different.len() >= clients.len()
                }
            };
            if !is_frequent {
                continue;
            }
            let is_many = seen.lines >= LEAST && seen.different.len() >= MANY * clients.len();
            if is_many || is_walked {
                let Some((line, text)) = seen.first else { continue };
                let peer = first_clients.into_iter().find(|(place, _)| *place == line);
                let readings = vec![
                    ClientReading {
                        place: place.label,
                        client: text,
                        different: seen.different.len(),
                        lines: seen.lines,
                        flags: place.flags,
                    },
                    ClientReading {
                        place: format!("the field {}", client.trim_start_matches('/')),
                        client: peer.map_or_else(Vec::new, |(_, text)| text),
                        different: clients.len(),
                        lines: requests,
                        flags: flag(&client, is_json),
                    },
                ];
                return Err(Unclear { line, readings });
            }
            note = note.or_else(|| {
                Some(OtherAddresses {
                    place: place.label,
                    lines: seen.lines,
                    requests,
                    client: client.trim_start_matches('/').to_owned(),
                    flags: place.flags,
                })
            });
        }
        Ok(note)
    }
}

/// The entries of a list, or of a JSON array of lists.
fn entries(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let text = text.strip_prefix(b"[\"").and_then(|text| text.strip_suffix(b"\"]")).unwrap_or(text);
    let entries = text.split(|byte| *byte == b',').map(|entry| {
        let entry = entry.trim_ascii();
        entry.strip_prefix(b"\"").or_else(|| entry.strip_suffix(b"\"")).unwrap_or(entry).trim_ascii()
    });
    entries.filter(|entry| !entry.is_empty())
}

/// The address of an entry or a client.
fn ip(text: &[u8]) -> Option<IpAddr> {
    let bare = without_brackets(without_port(text));
    is_address(text).then(|| address(bare)).flatten().map(|address| address.to_canonical())
}
