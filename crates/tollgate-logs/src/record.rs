//! Requests as they are kept in memory: their texts in one piece, and where each begins.

use crate::request::{Field, Precision, Request};

/// A line that has been read, and the place where the next one is read into.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) head: Head,
    /// One for each slot: first those of [`Field::ALL`], then the attributes.
    pub(crate) spans: Vec<Span>,
    pub(crate) bytes: Vec<u8>,
}

/// What a request has of fixed size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    /// Microseconds since the epoch.
    pub(crate) time: i64,
    pub(crate) line: u64,
    pub(crate) sent: Option<u64>,
    /// Where its bytes begin in the bucket.
    start: usize,
    /// Which record of the bucket it was when it came.
    place: usize,
    pub(crate) file: u32,
    pub(crate) status: Option<u16>,
    pub(crate) precision: Precision,
}

impl Default for Head {
    fn default() -> Self {
        let precision = Precision::Micros;
        Self { time: 0, line: 0, sent: None, start: 0, place: 0, file: 0, status: None, precision }
    }
}

/// A text inside the bytes of its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// No text, which differs from an empty one.
    pub(crate) const NONE: Self = Self { start: u32::MAX, end: 0 };

    pub(crate) fn new(start: usize, end: usize) -> Self {
        match (u32::try_from(start), u32::try_from(end)) {
            (Ok(start), Ok(end)) => Self { start, end },
            _ => Self::NONE,
        }
    }

    pub(crate) fn start(self) -> usize {
        self.start as usize
    }

    pub(crate) fn of(self, bytes: &[u8]) -> Option<&[u8]> {
        bytes.get(self.start as usize..self.end as usize)
    }
}

impl Record {
    /// Makes room for a line with so many slots.
    pub(crate) fn clear(&mut self, slots: usize) {
        self.head = Head::default();
        self.spans.clear();
        self.spans.resize(slots, Span::NONE);
        self.bytes.clear();
    }
}

/// Records in temporary files. They are read by the process that wrote them, so the layout has no version.
impl Record {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let head = &self.head;
        let flags = [head.precision as u8, u8::from(head.sent.is_some()), u8::from(head.status.is_some()), 0];
        out.extend_from_slice(&head.time.to_le_bytes());
        out.extend_from_slice(&head.line.to_le_bytes());
        out.extend_from_slice(&head.sent.unwrap_or(0).to_le_bytes());
        out.extend_from_slice(&head.file.to_le_bytes());
        out.extend_from_slice(&u32::from(head.status.unwrap_or(0)).to_le_bytes());
        out.extend_from_slice(&flags);
        out.extend_from_slice(&u32::try_from(self.spans.len()).unwrap_or(u32::MAX).to_le_bytes());
        for span in &self.spans {
            out.extend_from_slice(&span.start.to_le_bytes());
            out.extend_from_slice(&span.end.to_le_bytes());
        }
        out.extend_from_slice(&self.bytes);
    }

    /// `None` if these are not the bytes of a record.
    pub(crate) fn decode(&mut self, mut from: &[u8]) -> Option<()> {
        let from = &mut from;
        let time = i64::from_le_bytes(take(from)?);
        let line = u64::from_le_bytes(take(from)?);
        let sent = u64::from_le_bytes(take(from)?);
        let file = u32::from_le_bytes(take(from)?);
        let status = u16::try_from(u32::from_le_bytes(take(from)?)).ok()?;
        let [precision, has_sent, has_status, _] = take(from)?;
        let precision = match precision {
            0 => Precision::Micros,
            1 => Precision::Millis,
            _ => Precision::Seconds,
        };
        let (sent, status) = ((has_sent == 1).then_some(sent), (has_status == 1).then_some(status));
        self.head = Head { time, line, sent, file, status, precision, start: 0, place: 0 };
        self.spans.clear();
        for _ in 0..u32::from_le_bytes(take(from)?) {
            let (start, end) = (u32::from_le_bytes(take(from)?), u32::from_le_bytes(take(from)?));
            self.spans.push(Span { start, end });
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(from);
        Some(())
    }
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(*first)
}

/// Requests that lie near each other in time.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    pub(crate) heads: Vec<Head>,
    spans: Vec<Span>,
    bytes: Vec<u8>,
    /// How many spans each request has.
    slots: usize,
}

impl Bucket {
    pub(crate) fn push(&mut self, record: &Record) {
        self.slots = record.spans.len();
        self.heads.push(Head { start: self.bytes.len(), place: self.heads.len(), ..record.head });
        self.spans.extend_from_slice(&record.spans);
        self.bytes.extend_from_slice(&record.bytes);
    }

    /// The memory that its requests take, nearly.
    pub(crate) fn size(&self) -> usize {
        size_of_val(&*self.heads) + size_of_val(&*self.spans) + self.bytes.len()
    }

    pub(crate) fn text(&self, head: &Head, slot: usize) -> Option<&[u8]> {
        if slot >= self.slots {
            return None;
        }
        let span = self.spans.get(head.place * self.slots + slot)?;
        span.of(self.bytes.get(head.start..)?)
    }

    pub(crate) fn request(&self, place: usize) -> Option<Request<'_>> {
        Some(Request { bucket: self, head: self.heads.get(place)? })
    }
}

const _: () = assert!(Field::ALL.len() == Field::Referer as usize + 1);
