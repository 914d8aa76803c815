//! Lines of a template, read field by field.

use memchr::{memchr, memchr_iter, memrchr, memrchr_iter};

use crate::draft::Draft;
use crate::escape::{Escape, closing_quote};
use crate::plan::{FieldUse, Plan};
use crate::reason::{Kind, Reason};
use crate::value::is_absent;

/// The text that may follow the last field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Nothing.
    Nothing,
    /// A blank and more fields. Formats grow, and people append fields to the known ones.
    More,
}

/// A template with what is taken from its fields.
#[derive(Debug)]
pub(crate) struct Scanner {
    pub(super) lead: Vec<u8>,
    pub(super) fields: Vec<Piece>,
    pub(super) escape: Escape,
    pub(super) tail: Tail,
}

/// A field, and the text that ends it.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) used: FieldUse,
    /// The value in lines about requests of the server itself.
    pub(super) own: Option<&'static [u8]>,
    pub(super) until: Vec<u8>,
    pub(super) end: End,
    pub(super) watch: ClientWatch,
}

/// What else a field shows of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientWatch {
    Nothing,
    /// No address may stand in it.
    Text,
    /// It begins a virtual host with its port, up to a blank, which may not be a client's address.
    Host,
}

/// How the end of a field is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// By the first text that may end it.
    First,
    /// By the first text that may end it and is not between two values: of several upstreams that were tried, nginx
    /// writes `a, b`, and after an internal redirect `a : b`.
    List,
    /// By the first quote that is not escaped. If the text does not go on behind it as the format does, a client's
    /// quote was not escaped, and a later one ends the field.
    Quote,
    /// By the text after the version of HTTP: a request line without quotes has blanks in it.
    Request,
    /// By the first text that may end it and stands before a time. Names of users may contain blanks and brackets, but
    /// never a whole time: a name in Basic authentication has no colon.
    BeforeTime,
    /// By the text after it has occurred so often within the field, as blanks do in times of a pattern.
    After(usize),
    /// By this byte, with which the next field begins. It is looked for within the fields up to the place of the last
    /// one that has no text before it.
    Before(u8, usize),
    /// By what follows: `X-Forwarded-For` without quotes has blanks and commas in it, and clients write what they
    /// want there. The fields after it have none, up to the next time in brackets, quote, or end of the line.
    Forwarded(Rear),
    /// By the end of the line.
    Line,
}

/// What follows a list without quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rear {
    /// The byte with which the text after the list begins.
    pub(super) mark: u8,
    /// How many of them follow up to what is found first.
    pub(super) count: usize,
    /// A bracket or a quote, and whether a time follows; `None` is the end of the line.
    pub(super) opening: Option<(u8, bool)>,
}

impl Scanner {
    pub(crate) fn read(&self, plan: &Plan, line: &[u8], draft: &mut Draft) -> Result<Kind, Reason> {
        if !starts_with(line, &self.lead) {
            return Err(Reason::Shape);
        }
        let mut rest = line.get(self.lead.len()..).unwrap_or_default();
        let last = self.fields.len().saturating_sub(1);
        let mut kind = Kind::Request;
        for (place, piece) in self.fields.iter().enumerate() {
            let end = match piece.end {
                // As most fields end: without a call.
                End::First => first_end(rest, &piece.until),
                _ => self.end(piece, rest, place == last),
            };
            let (text, from) = end.and_then(|end| rest.split_at_checked(end)).ok_or(Reason::Shape)?;
            match piece.watch {
                ClientWatch::Nothing => {}
                ClientWatch::Text if is_absent(text) => {}
                ClientWatch::Text => draft.watch(text, self.escape),
                ClientWatch::Host => {
                    draft.watch_host(rest.get(..memchr(b' ', rest).unwrap_or(rest.len())).unwrap_or_default())
                }
            }
            rest = from.get(piece.until.len()..).unwrap_or_default();
            if piece.own == Some(text) {
                kind = Kind::Other;
            }
            draft.put(plan, &piece.used, text, self.escape)?;
        }
        if self.may_end(rest) { Ok(kind) } else { Err(Reason::Shape) }
    }

    /// Whether this can follow the last field.
    fn may_end(&self, rest: &[u8]) -> bool {
        rest.is_empty() || (self.tail == Tail::More && rest.starts_with(b" "))
    }

    fn end(&self, piece: &Piece, rest: &[u8], is_last: bool) -> Option<usize> {
        let until = piece.until.as_slice();
        let may_grow = is_last && self.tail == Tail::More;
        match piece.end {
            End::Line if may_grow => Some(memchr(b' ', rest).unwrap_or(rest.len())),
            End::Line => Some(rest.len()),
            End::Quote => {
                let end = closing_quote(rest, self.escape)?;
                let after = rest.get(end..)?;
                let after = after.get(until.len()..).filter(|_| starts_with(after, until));
                let is_end = after.is_some_and(|after| !is_last || self.may_end(after));
                if is_end { Some(end) } else { self.late_quote(until, rest, end, is_last) }
            }
            End::Request => ends(rest, until)
                .find(|&end| rest.get(..end).is_some_and(ends_with_version))
                // What is no request of HTTP has no version.
                .or_else(|| ends(rest, until).next()),
            End::First => first_end(rest, until),
            End::List => ends(rest, until).find(|&end| !is_between(rest, end)),
            End::Before(byte, last) => {
                let whole = self.end(self.fields.get(last)?, rest, is_last)?;
                let group = rest.get(..whole)?;
                // Without it, the second one is absent, or `*` of OPTIONS.
                memchr(byte, group).or_else(|| {
                    let is_other =
                        byte == b'/' && group.len() > 1 && matches!(group.last(), Some(b'-' | b'*'));
                    Some(group.len() - usize::from(is_other))
                })
            }
            End::After(count) => ends(rest, until).nth(count),
            End::Forwarded(rear) => rear.list(rest).filter(|&end| ends_at(rest, until, end)),
            End::BeforeTime => ends(rest, until)
                .find(|end| rest.get(end + until.len()..).is_some_and(begins_with_time))
                // The time may be absent or of another form; then the line is told to have no valid one.
                .or_else(|| ends(rest, until).next()),
        }
    }

    /// The first quote behind this one with which the field can end. Where quotes of clients are not escaped, that of
    /// the last field is told from them by those that follow: there are no fields with only one.
    #[cold]
    fn late_quote(&self, until: &[u8], rest: &[u8], first: usize, is_last: bool) -> Option<usize> {
        let next = |at: usize| Some(at + 1 + closing_quote(rest.get(at + 1..)?, self.escape)?);
        let quotes = || std::iter::successors(next(first), |&at| next(at));
        let count = quotes().count();
        let mut last = quotes().enumerate().filter(|(place, _)| !is_last || (count - place) % 2 == 1);
        last.find_map(|(_, at)| {
            let after = rest.get(at..)?.strip_prefix(until)?;
            (!is_last || self.may_end(after)).then_some(at)
        })
    }
}

impl Rear {
    /// How long the list is. An entry with a blank in it may be a part of another field, so its line is not read.
    fn list(self, rest: &[u8]) -> Option<usize> {
        let end = match self.opening {
            None => rest.len(),
            Some((opening, false)) => memchr(opening, rest)?,
            Some((opening, true)) => {
                memchr_iter(opening, rest).find(|at| rest.get(at + 1..).is_some_and(begins_with_time))?
            }
        };
        let group = rest.get(..end)?;
        let end = memrchr_iter(self.mark, group).nth(self.count.checked_sub(1)?)?;
        let last = group.get(..end)?.rsplit(|&byte| byte == b',').next()?.trim_ascii();
        (!last.contains(&b' ')).then_some(end)
    }
}

/// Whether the text is at this place.
fn ends_at(rest: &[u8], until: &[u8], end: usize) -> bool {
    rest.get(end..).is_some_and(|rest| rest.starts_with(until))
}

/// Whether the text ends with ` HTTP/1.1`.
fn ends_with_version(text: &[u8]) -> bool {
    let Some(blank) = memrchr(b' ', text) else { return false };
    let version = text.get(blank + 1..).and_then(|last| last.strip_prefix(b"HTTP/"));
    version.is_some_and(|version| version.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.'))
}

/// Whether the blank at this place stands between two values of a list.
fn is_between(rest: &[u8], blank: usize) -> bool {
    let (before, after) = rest.split_at(blank.min(rest.len()));
    before.ends_with(b",") || before.ends_with(b" :") || after.starts_with(b" : ")
}

/// Where the text occurs.
fn ends<'r>(rest: &'r [u8], until: &'r [u8]) -> impl Iterator<Item = usize> + 'r {
    let mut from = 0;
    std::iter::from_fn(move || {
        let at = from + first_end(rest.get(from..)?, until)?;
        from = at + 1;
        Some(at)
    })
}

/// Where the text occurs first. Nearly every field ends so, and a call would take as long as the search.
#[inline(always)]
fn first_end(rest: &[u8], until: &[u8]) -> Option<usize> {
    let first = *until.first()?;
    let mut from = 0;
    loop {
        let at = from + memchr(first, rest.get(from..)?)?;
        if starts_with(rest.get(at..)?, until) {
            return Some(at);
        }
        from = at + 1;
    }
}

/// As the method of slices. Texts between fields have up to three bytes, for which no call to compare memory is made.
/// For none, such a call is slow: the C library reads under a mask where an empty vector points, which takes the
/// processor as long as a fifth of a line.
fn starts_with(rest: &[u8], text: &[u8]) -> bool {
    match (text, rest) {
        ([], _) => true,
        ([a], [x, ..]) => a == x,
        ([a, b], [x, y, ..]) => a == x && b == y,
        ([a, b, c], [x, y, z, ..]) => a == x && b == y && c == z,
        _ => rest.starts_with(text),
    }
}

/// Returns whether this begins as a time does: with `10/Oct/2000:`, `2000-10-` or ten digits.
pub(super) fn begins_with_time(rest: &[u8]) -> bool {
    match rest.first_chunk::<12>() {
        Some(&[_, _, b'/', _, _, _, b'/', _, _, _, _, b':']) => true,
        Some(&[_, _, _, _, b'-', _, _, b'-', ..]) => true,
        Some(digits) => digits.iter().take(10).all(u8::is_ascii_digit),
        None => false,
    }
}
