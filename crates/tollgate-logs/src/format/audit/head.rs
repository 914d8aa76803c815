//! Formats written out for lines whose client stands in an unexpected place.
//!
//! Only lines of the family of Apache's common format are written out: with a time in brackets, and the request
//! behind it.

use std::ops::Range;

use memchr::memmem;

use crate::client::{ClientText, address_in, is_address};
use crate::format::scanner::begins_with_time;
use crate::value::is_absent;

/// The begin of a line until its time, as words.
#[derive(Debug)]
pub(super) struct LineHead<'l> {
    words: Vec<Word<'l>>,
}

/// A word before the time. A list with blanks is one.
#[derive(Debug)]
struct Word<'l> {
    text: &'l [u8],
    /// Where its address is, or its list of addresses.
    client: Option<Range<usize>>,
}

/// A format that takes one of the addresses for the client's.
#[derive(Debug)]
pub(super) struct AddressFormat<'l> {
    /// Which of the addresses it is, from 1.
    pub(super) number: usize,
    pub(super) client: &'l [u8],
    /// Whether it is a list, which only `--attr ip=xff:` reads.
    pub(super) is_list: bool,
    /// The format until its time.
    pub(super) head: String,
    /// Whether the client is followed by two words, as in the known formats.
    pub(super) is_usual: bool,
}

/// More addresses are not shown.
const MOST: usize = 9;

impl<'l> LineHead<'l> {
    /// `None` if the line has no time in brackets.
    pub(super) fn of(line: &'l [u8]) -> Option<Self> {
        let (head, words) = words(line)?;
        let words = words.into_iter().filter_map(|range| head.get(range)).map(Word::of);
        Some(Self { words: words.collect() })
    }

    /// The same, if the second word after the last address is a user with blanks. `None` if it has none.
    pub(super) fn with_blanks_in_user(line: &'l [u8]) -> Option<Self> {
        let (head, mut words) = words(line)?;
        let has_address = |range: &Range<usize>| {
            head.get(range.clone()).is_some_and(|text| Word::of(text).client.is_some())
        };
        let user = words.iter().rposition(has_address)? + 2;
        let end = words.last()?.end;
        words.truncate(user + 1);
        words.get_mut(user).filter(|user| user.end < end)?.end = end;
        let words = words.into_iter().filter_map(|range| head.get(range)).map(Word::of);
        Some(Self { words: words.collect() })
    }

    /// What follows it.
    pub(super) fn rest(line: &'l [u8]) -> Option<&'l [u8]> {
        let (head, _) = words(line)?;
        line.get(head.len()..)
    }

    /// All formats that read this line, by the place of the client.
    pub(super) fn written(&self) -> Vec<AddressFormat<'l>> {
        let places =
            self.words.iter().enumerate().filter_map(|(place, word)| Some((place, word.client.clone()?)));
        let written = places.enumerate().filter_map(|(number, (place, range))| {
            let text = self.words.get(place)?.text;
            let client = text.get(range)?;
            Some(AddressFormat {
                number: number + 1,
                client,
                is_list: ClientText::of(client) == ClientText::List,
                head: self.head(place)?,
                is_usual: place + 3 == self.words.len(),
            })
        });
        written.take(MOST).collect()
    }

    /// The format until its time, if the word at this place has the client.
    fn head(&self, client: usize) -> Option<String> {
        let (mut texts, mut proxies) = (0, 0);
        let last = self.words.len() - 1;
        let is_list = |word: &Word<'_>| word.is_list();
        // The name tells `--attr ip=xff:` which list is meant, so only one has it.
        let mut has_list = self.words.get(client).is_some_and(is_list);
        let singles = self.words.iter().filter(|word| word.client.is_some() && !word.is_list()).count();
        let is_walk = has_list && singles == 1;
        let words = self.words.iter().enumerate().map(|(place, word)| {
            let number = |count: &mut usize| {
                *count += 1;
                if *count == 1 { String::new() } else { count.to_string() }
            };
            let name = match &word.client {
                Some(_) if place == client && word.is_list() => "http_x_forwarded_for".to_owned(),
                Some(_) if place == client => "remote_addr".to_owned(),
                Some(_) if word.is_list() && !has_list => {
                    has_list = true;
                    "http_x_forwarded_for".to_owned()
                }
                // The walk through a list begins with the address that the server saw.
                Some(_) if is_walk => "remote_addr".to_owned(),
                Some(_) => format!("proxy{}", number(&mut proxies)),
                None if place == last => "remote_user".to_owned(),
                None if place > client && is_absent(word.text) => return Some("-".to_owned()),
                None => format!("text{}", number(&mut texts)),
            };
            let around = word.client.clone().unwrap_or(0..word.text.len());
            let [before, after] = [word.text.get(..around.start)?, word.text.get(around.end..)?];
            Some(format!("{}${name}{}", std::str::from_utf8(before).ok()?, std::str::from_utf8(after).ok()?))
        });
        let words: Option<Vec<String>> = words.collect();
        Some(words?.join(" "))
    }
}

/// The begin of a line until its time, and its words.
fn words(line: &[u8]) -> Option<(&[u8], Vec<Range<usize>>)> {
    let end = memmem::find_iter(line, b" [").find(|at| line.get(at + 2..).is_some_and(begins_with_time))?;
    let head = line.get(..end)?;
    let mut words: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    for text in head.split(|byte| *byte == b' ') {
        let range = start..start + text.len();
        start = range.end + 1;
        match words.last_mut() {
            // A list has blanks behind its commas.
            Some(last)
                if !is_absent(text) && head.get(last.clone()).is_some_and(|last| last.ends_with(b",")) =>
            {
                last.end = range.end
            }
            _ => words.push(range),
        }
    }
    Some((head, words))
}

impl<'l> Word<'l> {
    fn of(text: &'l [u8]) -> Self {
        // The comma after one address is a text of the format.
        if let Some(alone) = text.strip_suffix(b",").filter(|alone| is_address(alone)) {
            return Self { text, client: Some(0..alone.len()) };
        }
        let list = || (ClientText::of(text) == ClientText::List).then_some(0..text.len());
        Self { text, client: list().or_else(|| address_in(text)) }
    }

    fn is_list(&self) -> bool {
        self.client == Some(0..self.text.len()) && ClientText::of(self.text) == ClientText::List
    }
}
