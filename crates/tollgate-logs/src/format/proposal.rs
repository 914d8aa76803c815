//! A format proposed for lines that no known format reads: written out from one of them, and tried on all.

use jiff::tz::TimeZone;

use super::audit::Sample;
use super::wrapping::Wrapping;
use crate::attribute::TimeForm;
use crate::client::{holds_address, is_address};
use crate::plan::Plan;
use crate::time;

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// What stands between the fields of a line.
const SEPARATORS: [char; 5] = [' ', '\t', ',', ';', '|'];

/// Writes out a format that reads nearly all of these lines, each with one client.
pub(crate) fn propose(lines: &[&[u8]], plan: &Plan, zone: Option<&TimeZone>) -> Option<String> {
    Wrapping::ways(lines).find_map(|(wrapping, inside)| {
        let line = inside.iter().find(|line| !line.trim_ascii().is_empty())?;
        let text = Proposal::of(std::str::from_utf8(line).ok()?.trim_ascii())?;
        let sample = Sample { lines, wrapping: &wrapping, plan, zone };
        sample.reads(&text.parse().ok()?).then_some(text)
    })
}

/// The format, as far as it is written.
#[derive(Debug, Default)]
struct Proposal {
    text: String,
    /// The fields with a meaning.
    names: Vec<&'static str>,
    texts: usize,
    /// How much of the text reaches to the last field with a meaning.
    known: usize,
}

impl Proposal {
    /// `None` if the line has no single address, no time or no request.
    fn of(line: &str) -> Option<String> {
        let mut proposal = Self::default();
        let mut rest = line;
        while !rest.is_empty() {
            rest = proposal.push_next(rest)?;
        }
        let has = |names: &[&str]| names.iter().any(|name| proposal.names.contains(name));
        let is_whole = has(&["remote_addr"])
            && has(&["time_local", "time_iso8601", "msec"])
            && has(&["request", "request_uri"]);
        // What comes after the fields that matter may change from line to line.
        let known = proposal.text.get(..proposal.known)?;
        let after = proposal.text.get(proposal.known..)?.chars().next();
        let format = after.map_or_else(|| known.to_owned(), |separator| format!("{known}{separator}$rest"));
        is_whole.then_some(format)
    }

    /// Writes out the next field with what stands before it, and returns the rest.
    fn push_next<'l>(&mut self, rest: &'l str) -> Option<&'l str> {
        let start = rest.len() - rest.trim_start_matches(SEPARATORS).len();
        let (separators, rest) = rest.split_at(start);
        self.text.push_str(separators);
        let is_name = |character: char| character.is_ascii_alphanumeric() || "_-.".contains(character);
        let named = rest.split_once('=').filter(|(name, _)| !name.is_empty() && name.chars().all(is_name));
        let (name, rest) = named.unwrap_or(("", rest));
        if named.is_some() {
            self.text.push_str(name);
            self.text.push('=');
        }
        let closing = match rest.chars().next() {
            Some('"') => Some('"'),
            Some('[') => Some(']'),
            _ => None,
        };
        let quoted = closing.and_then(|closing| Some((closing, rest.get(1..)?.split_once(closing)?)));
        let Some((closing, (value, after))) = quoted else {
            let length = request(rest).or_else(|| rest.find(SEPARATORS)).unwrap_or(rest.len());
            let (value, after) = rest.split_at(length);
            if !value.is_empty() {
                let is_known = self.push_field(name, value)?;
                self.end_field(is_known);
            }
            return Some(after);
        };
        self.text.push_str(rest.get(..1)?);
        let is_known = self.push_field(name, value)?;
        self.text.push(closing);
        self.end_field(is_known);
        Some(after)
    }

    fn end_field(&mut self, is_known: bool) {
        if is_known {
            self.known = self.text.len();
        }
    }

    /// Returns whether the field has a meaning; `None` if there are two addresses, or one somewhere in a text.
    fn push_field(&mut self, name: &str, value: &str) -> Option<bool> {
        let bytes = value.as_bytes();
        if is_address(bytes) {
            return (!self.names.contains(&"remote_addr")).then(|| self.push_known("remote_addr"));
        }
        if holds_address(bytes) {
            return None;
        }
        let is_time = |form| time::parse(form, bytes).is_some();
        let is_new = |names: &[&str]| !names.iter().any(|name| self.names.contains(name));
        let has_request = !is_new(&["request", "request_uri"]);
        let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
        let known = if is_new(&["time_local", "time_iso8601", "msec"]) && is_time(&TimeForm::Iso) {
            "time_iso8601"
        } else if is_new(&["time_local", "time_iso8601", "msec"]) && is_time(&TimeForm::Clf) {
            "time_local"
        } else if is_new(&["time_local", "time_iso8601", "msec"])
            && value.len() > 9
            && is_time(&TimeForm::Unix)
        {
            "msec"
        } else if !has_request && request(value) == Some(value.len()) {
            "request"
        } else if is_new(&["request", "request_method"]) && METHODS.contains(&value) {
            "request_method"
        } else if !has_request && (value.starts_with('/') || value.starts_with("http")) {
            "request_uri"
        } else if is_new(&["status"]) && is_number && value.len() == 3 && is_like(name, "status", has_request)
        {
            "status"
        } else if is_new(&["body_bytes_sent"])
            && (is_number || value == "-")
            && is_like(name, "bytes", self.text.ends_with("$status "))
        {
            "body_bytes_sent"
        } else {
            self.texts += 1;
            self.text.push_str(&format!("$text{}", self.texts));
            return Some(false);
        };
        Some(self.push_known(known))
    }

    fn push_known(&mut self, name: &'static str) -> bool {
        self.names.push(name);
        self.text.push('$');
        self.text.push_str(name);
        true
    }
}

/// Whether a field has this name, or none and stands where it is expected.
fn is_like(name: &str, expected: &str, is_there: bool) -> bool {
    if name.is_empty() { is_there } else { name.contains(expected) }
}

/// How long the request is with which the text begins: `GET /path HTTP/1.1`.
fn request(text: &str) -> Option<usize> {
    let mut words = text.splitn(3, ' ');
    let (method, target, rest) = (words.next()?, words.next()?, words.next()?);
    let version = rest.split(SEPARATORS).next()?;
    let is_request = METHODS.contains(&method) && version.starts_with("HTTP/");
    is_request.then_some(method.len() + target.len() + version.len() + 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;

    #[test]
    fn formats_are_written_out_from_a_line() {
        let cases = [
            (
                "192.0.2.1 - - [24/May/2026:10:00:00 +0000] GET /a HTTP/1.1 200 10",
                "$remote_addr $text1 $text2 [$time_local] $request $status $body_bytes_sent",
            ),
            (
                "[2026-05-24T10:00:00Z] 192.0.2.1 \"GET /a HTTP/1.1\" 200 - \"-\" \"curl/8.0\"",
                "[$time_iso8601] $remote_addr \"$request\" $status $body_bytes_sent $rest",
            ),
            (
                "ts=2026-05-24T10:00:00Z msg=\"request done\" remote=192.0.2.1 method=GET path=\"/a\" status=200 dur=3ms",
                "ts=$time_iso8601 msg=\"$text1\" remote=$remote_addr method=$request_method path=\"$request_uri\" status=$status $rest",
            ),
            (
                "1779616800.123|192.0.2.1|GET|/a|200",
                "$msec|$remote_addr|$request_method|$request_uri|$status",
            ),
            ("2026-05-24T10:00:00Z, 192.0.2.1, /a", "$time_iso8601, $remote_addr, $request_uri"),
            // Two addresses, no time, no request.
            ("[a b=\"10.0.0.1\"] 192.0.2.1 [2026-05-24T10:00:00Z] /a", ""),
            ("192.0.2.1 10.0.0.1 [2026-05-24T10:00:00Z] /a", ""),
            ("192.0.2.1 GET /a", ""),
            ("192.0.2.1 2026-05-24T10:00:00Z", ""),
        ];
        for (line, expected) in cases {
            let format = Proposal::of(line);
            assert_eq!(format.as_deref().unwrap_or_default(), expected, "{line}");
            assert!(format.is_none_or(|format| format.parse::<Format>().is_ok()), "{line}");
        }
    }
}
