//! What a line may mean whose client is not certain, and the flag that chooses each meaning.
//!
//! A flag is shown only if it reads the first lines.

use std::collections::HashSet;

use super::fields::ClientFields;
use super::head::{AddressFormat, LineHead};
use super::{Sample, Unclear};
use crate::client::{ClientText, holds_address, is_forwarded};
use crate::format::template::Template;
use crate::format::{Format, FormatShape};

/// One meaning of a line.
#[derive(Debug)]
pub(crate) struct ClientReading {
    pub(crate) place: String,
    pub(crate) client: Vec<u8>,
    pub(crate) different: usize,
    pub(crate) lines: usize,
    pub(crate) flags: String,
}

/// What may follow the time in brackets, the richest first.
const TAILS: [&str; 4] = [
    r#" [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent""#,
    r#" [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $rest"#,
    r#" [$time_local] "$request" $status $body_bytes_sent"#,
    r#" [$time_local] "$request" $status $body_bytes_sent $rest"#,
];

impl Sample<'_> {
    /// What a line may mean whose client stands in an unexpected place.
    pub(super) fn readings(&self, line: usize, read: Option<(&Format, &Template)>) -> Vec<ClientReading> {
        let Some(text) = self.lines.get(line).and_then(|line| self.wrapping.inside(line)) else {
            return Vec::new();
        };
        let heads = [LineHead::of(&text), LineHead::with_blanks_in_user(&text)].map(|head| {
            let head = head.as_ref();
            head.map(LineHead::written).unwrap_or_default()
        });
        let [exact, _] = &heads;
        // Envoy writes such a time first, and the client behind it.
        let has_more = LineHead::rest(&text).is_some_and(holds_address);
        let numbers = exact.iter().map(|written| written.number);
        let readings = numbers.filter_map(|number| {
            let mut written = heads.iter().flatten().filter(|written| written.number == number);
            written.find_map(|written| self.reading(line, read, written, exact.len(), has_more))
        });
        readings.collect()
    }

    /// The reading by the name of a format, which reads the client field. `None` if that is often no
    /// address.
    pub(super) fn named(&self, line: usize, format: &Format) -> Option<ClientReading> {
        let (mut client, mut different, mut lines, mut wrong) = (None, HashSet::new(), 0, 0);
        self.each(format, &ClientFields::of(format).client, |place, texts| {
            let Some(text) = texts.iter().flatten().next() else { return };
            lines += 1;
            wrong += usize::from(!matches!(ClientText::of(text), ClientText::Address | ClientText::Name));
            different.insert(text.to_vec());
            client = client.take().or_else(|| (place == line).then(|| text.to_vec()));
        });
        let (place, flags) = ("the text in its usual place".to_owned(), format!("--format {}", format.name));
        let meant = ClientReading { place, client: client?, different: different.len(), lines, flags };
        (wrong * 19 <= lines).then_some(meant)
    }

    /// The reading that begins so, if one of the known ends makes a format of it that reads these lines.
    fn reading(
        &self,
        line: usize,
        read: Option<(&Format, &Template)>,
        written: &AddressFormat<'_>,
        count: usize,
        has_more: bool,
    ) -> Option<ClientReading> {
        let own = read.and_then(|(_, template)| template.after_time());
        let tails: Vec<String> = own.into_iter().chain(TAILS.map(str::to_owned)).collect();
        let iso = tails.iter().filter(|_| !has_more).map(|tail| tail.replace("$time_local", "$time_iso8601"));
        let formats = tails.iter().cloned().chain(iso).map(|tail| format!("{}{tail}", written.head));
        let named = read.filter(|(format, _)| {
            written.is_usual && !written.is_list && self.takes(format, line, written.client)
        });
        let named = named.map(|(format, _)| format.name.clone());
        named.into_iter().chain(formats).find_map(|text| self.meant(&text, written, count))
    }

    /// What the first line with a time in brackets may mean, if no format reads these lines inside of the wrapping.
    pub(in crate::format) fn unexpected(&self, inside: &[Vec<u8>]) -> Option<Unclear> {
        inside.iter().find(|line| LineHead::of(line).is_some())?;
        let line = self
            .lines
            .iter()
            .position(|line| self.wrapping.inside(line).is_some_and(|text| LineHead::of(&text).is_some()))?;
        let readings = self.readings(line, None);
        (!readings.is_empty()).then_some(Unclear { line, readings })
    }

    /// Whether the format reads nearly all lines, each with one client.
    pub(in crate::format) fn reads(&self, format: &Format) -> bool {
        let (mut single, mut others) = (0, 0);
        let requests = self.each(format, &ClientFields::of(format).client, |_, texts| {
            let is_single = |text: &&&[u8]| matches!(ClientText::of(text), ClientText::Address);
            let is_one = texts.iter().flatten().next().filter(is_single).is_some();
            (single, others) = (single + usize::from(is_one), others + usize::from(!is_one));
        });
        self.is_nearly_all(requests) && others * 19 < single
    }

    /// Whether so many are more than 95 % of the lines.
    fn is_nearly_all(&self, requests: usize) -> bool {
        let all = self.lines.iter().filter(|line| !line.trim_ascii().is_empty()).count();
        requests * 20 > all * 19
    }

    /// Whether the format takes this for the client of the line.
    fn takes(&self, format: &Format, line: usize, client: &[u8]) -> bool {
        let fields = ClientFields::of(format);
        let mut is_it = false;
        self.each(format, &fields.client, |place, texts| {
            is_it |= place == line && texts.iter().flatten().next() == Some(&client);
        });
        is_it
    }

    /// The reading by this format; `None` if it does not read nearly all lines, each with one client.
    fn meant(&self, text: &str, written: &AddressFormat<'_>, count: usize) -> Option<ClientReading> {
        let format: Format = text.parse().ok()?;
        let name = if written.is_list {
            vec!["http_x_forwarded_for".to_owned()]
        } else {
            ClientFields::of(&format).client
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
        if wrong > 0 || !self.is_nearly_all(requests) {
            return None;
        }
        let quoted = if text.contains('$') { in_quotes(text) } else { text.to_owned() };
        let flags = match written.is_list {
            true => format!("--format {quoted} --attr ip=xff:NETWORKS"),
            false => format!("--format {quoted}"),
        };
        let number = written.number;
        let ordinal = match number {
            1 => "1st".to_owned(),
            2 => "2nd".to_owned(),
            3 => "3rd".to_owned(),
            _ => format!("{number}th"),
        };
        let place = match (written.is_list, count) {
            (true, _) => "an address of the list".to_owned(),
            (false, 1) => "the only address".to_owned(),
            (false, _) => format!("the {ordinal} address"),
        };
        Some(ClientReading {
            place,
            client: written.client.to_vec(),
            different: different.len(),
            lines,
            flags,
        })
    }

    /// What a line of JSON or of a table may mean: each of its fields with an address may be the client's.
    pub(super) fn readings_of_fields(
        &self,
        line: usize,
        format: &Format,
        fields: &ClientFields,
    ) -> Vec<ClientReading> {
        let is_json = matches!(format.shape, FormatShape::Objects(_));
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
            readings.push(ClientReading { place, client, different: different.len(), lines, flags });
        }
        readings
    }
}

/// The text as one word of a shell.
fn in_quotes(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
