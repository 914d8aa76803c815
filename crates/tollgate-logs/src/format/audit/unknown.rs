//! Fields of JSON and columns of tables with addresses, whose names no table knows.

use std::collections::BTreeMap;

use super::Sample;
use super::others::AddressField;
use crate::client::is_address;
use crate::format::json::Text;
use crate::format::table::Style;
use crate::format::{Format, FormatShape};
use crate::meaning::FieldNames;

/// So deep are objects looked into.
const DEEPEST: usize = 3;

/// More fields are not compared.
const MOST: usize = 8;

/// Parts of the names of fields that tell the addresses of servers,
const SERVERS: [&str; 9] =
    ["server", "upstream", "local", "backend", "target", "host", "dest", "pod", "node"];
/// unless the name has one of these.
const CLIENTS: [&str; 4] = ["client", "remote", "forward", "real"];

impl Sample<'_> {
    /// The fields with addresses in the first lines whose names are not known.
    pub(super) fn unknown(&self, format: &Format) -> Vec<AddressField> {
        let lines = self.lines.iter().filter_map(|line| self.wrapping.inside(line));
        let (names, is_json) = match &format.shape {
            FormatShape::Template(_) => return Vec::new(),
            FormatShape::Objects(objects) => {
                let mut counts = BTreeMap::new();
                lines.for_each(|line| add_addresses(&line, "", DEEPEST, &mut counts));
                counts.retain(|name, _| !is_known(name, objects.dialect.names));
                (most_frequent(counts), true)
            }
            FormatShape::Table(style) => {
                let columns = columns(*style, lines);
                let mut counts = BTreeMap::new();
                self.each(format, &columns, |_, texts| {
                    for (name, text) in columns.iter().zip(texts) {
                        let is_one = text.is_some_and(is_address);
                        *counts.entry(name.clone()).or_insert(0) += usize::from(is_one);
                    }
                });
                counts.retain(|name, count| *count > 0 && !is_known(name, style.dialect().names));
                (most_frequent(counts), false)
            }
        };
        names.iter().filter(|name| !is_server(name)).map(|name| AddressField::field(name, is_json)).collect()
    }
}

fn most_frequent(counts: BTreeMap<String, usize>) -> Vec<String> {
    let mut counts: Vec<(String, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts.into_iter().map(|(name, _)| name).take(MOST).collect()
}

fn is_known(name: &str, names: FieldNames) -> bool {
    let name = name.trim_start_matches('/');
    names.iter().any(|(known, _)| known.trim_start_matches('/') == name)
}

fn is_server(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let has = |part: &&str| name.contains(*part);
    SERVERS.iter().any(has) && !CLIENTS.iter().any(has)
}

/// Counts the strings of an object that are addresses, by their pointers.
fn add_addresses(object: &[u8], above: &str, depth: usize, counts: &mut BTreeMap<String, usize>) {
    let mut text = Text::new(object);
    while let Some((name, value)) = text.member() {
        let Ok(name) = std::str::from_utf8(name) else { continue };
        if name.contains(['\\', '\'']) {
            continue;
        }
        let pointer = || format!("{above}/{}", name.replace('~', "~0").replace('/', "~1"));
        let string = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
        if string.is_some_and(is_address) {
            *counts.entry(pointer()).or_insert(0) += 1;
        } else if value.starts_with(b"{") && depth > 1 {
            add_addresses(value, &pointer(), depth - 1, counts);
        }
    }
}

/// The names of columns, as a table reads them.
fn columns(style: Style, mut lines: impl Iterator<Item = Vec<u8>>) -> Vec<String> {
    let header = lines.find_map(|line| match style {
        Style::Separated(_) => (!line.trim_ascii().is_empty()).then_some(line),
        Style::W3c => line.strip_prefix(b"#Fields:").map(<[u8]>::to_vec),
    });
    let header = header.unwrap_or_default();
    let is_between = |byte: &u8| match style {
        Style::Separated(separator) => *byte == separator,
        Style::W3c => byte.is_ascii_whitespace(),
    };
    let names =
        header.split(is_between).map(|name| String::from_utf8_lossy(name).trim().to_ascii_lowercase());
    let names = names.map(|name| name.trim_matches('"').to_owned());
    names.filter(|name| !name.is_empty() && !name.contains('\'')).collect()
}
