//! Addresses in the text behind the known fields, which people append to the known formats.

use super::Sample;
use super::head::LineHead;
use crate::client::address_in;
use crate::format::Format;
use crate::format::template::Template;
use crate::value::without_port;

/// The name of the field with this text.
pub(super) const REST: &str = "rest";

/// The addresses of such a text as a list. Those with ports are of servers behind this one.
pub(super) fn list(rest: &[u8]) -> Option<Vec<u8>> {
    let addresses = words(rest).filter(|word| is_client(word)).map(<[u8]>::to_vec);
    let list = addresses.collect::<Vec<_>>().join(&b","[..]);
    let list: Vec<u8> = list.into_iter().filter(|byte| *byte != b'"').collect();
    (!list.is_empty()).then_some(list)
}

/// Words, and texts in quotes. A list with blanks is one word.
fn words(rest: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut left = rest;
    std::iter::from_fn(move || {
        left = left.trim_ascii_start();
        let end = match left.strip_prefix(b"\"") {
            Some(inside) => inside.iter().position(|byte| *byte == b'"').map_or(left.len(), |at| at + 2),
            None => {
                let is_end = |at: usize| left.get(at) == Some(&b' ') && left.get(at - 1) != Some(&b',');
                (1..left.len()).find(|at| is_end(*at)).unwrap_or(left.len())
            }
        };
        let (word, after) = left.split_at_checked(end)?;
        left = after;
        (!word.is_empty()).then_some(word)
    })
}

/// Whether a word is an address without a port, or a list of them.
fn is_client(word: &[u8]) -> bool {
    let inner = word.strip_prefix(b"\"").and_then(|word| word.strip_suffix(b"\"")).unwrap_or(word);
    let mut entries = inner.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    entries.all(|entry| address_in(entry) == Some(0..entry.len()) && without_port(entry) == entry)
}

impl Sample<'_> {
    /// The flags by which the address behind the known fields of this line is `X-Forwarded-For`, if they read nearly
    /// all lines.
    pub(super) fn written_out(&self, line: usize, template: &Template) -> Option<String> {
        let text = self.wrapping.inside(self.lines.get(line)?)?;
        let head = LineHead::of(&text)?.written().into_iter().find(|written| !written.is_list)?.head;
        // The header that the format has is absent in these lines.
        let after = template.after_time()?.replace("$http_x_forwarded_for", "$known_forwarded_for");
        let known: Format = format!("{head}{after} ${REST}").parse().ok()?;
        let mut rest = None;
        self.each(&known, &[REST.to_owned()], |place, texts| {
            if place == line {
                rest = texts.first().copied().flatten().map(<[u8]>::to_vec);
            }
        });
        let rest = rest?;
        let place = words(&rest).position(is_client)?;
        let fields = words(&rest).enumerate().map(|(at, word)| {
            let name =
                if at == place { "http_x_forwarded_for".to_owned() } else { format!("more{}", at + 1) };
            if word.starts_with(b"\"") { format!("\"${name}\"") } else { format!("${name}") }
        });
        let written = format!("{head}{after} {}", fields.collect::<Vec<_>>().join(" "));
        let format: Format = written.parse().ok()?;
        let requests = self.each(&format, &[], |_, _| {});
        let all = self.lines.iter().filter(|line| !line.trim_ascii().is_empty()).count();
        (requests * 20 > all * 19).then(|| format!("--format '{written}' --attr ip=xff:NETWORKS"))
    }
}
