//! The fields of a format that tell who the client is.

use crate::format::scanner::ClientWatch;
use crate::format::table::Style;
use crate::format::template::{Part, Template};
use crate::format::{Format, FormatShape};
use crate::meaning::{FieldNames, Meaning};

/// The fields of a format that tell who the client is.
#[derive(Debug, Default)]
pub(in crate::format) struct ClientFields {
    /// The client's, as it is preferred: the first that a line has.
    pub(super) client: Vec<String>,
    /// Those in which no address is expected, or in those of names, no other one than the client's.
    pub(in crate::format) others: Vec<String>,
    /// That of a virtual host, which its port follows.
    pub(super) host: Option<String>,
}

/// Fields with the address of a server.
const SERVER_FIELDS: [&str; 3] = ["local", "target", "backend"];

impl ClientFields {
    pub(in crate::format) fn of(format: &Format) -> Self {
        match &format.shape {
            FormatShape::Template(template) => Self::of_template(template),
            FormatShape::Objects(objects) => Self::of_names(objects.dialect.names, objects.is_open),
            FormatShape::Table(style) => {
                Self::of_names(style.dialect().names, matches!(style, Style::Separated(_)))
            }
        }
    }

    /// The fields of addresses. Those of one server are documented, and so is which is the client's.
    fn of_names(names: FieldNames, is_open: bool) -> Self {
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
        let host = names.contains(&"v").then(|| "v".to_owned());
        let others = others.map(|(_, name)| (*name).to_owned()).filter(|name| name != "p");
        Self { client: vec![(*client).to_owned()], others: others.collect(), host }
    }

    /// What is looked for in the field of a template.
    pub(in crate::format) fn watch(&self, name: &str) -> ClientWatch {
        match &self.host {
            Some(host) if host == name => ClientWatch::Host,
            _ if self.others.iter().any(|other| other == name) => ClientWatch::Text,
            _ => ClientWatch::Nothing,
        }
    }
}

impl Template {
    /// The names of its fields.
    pub(in crate::format) fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Field(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }
}
