//! Requests as they are kept in memory: their texts in one piece, and where each begins.

use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;

use crate::field::{Field, Precision};

/// A line that has been read, and the place where the next one is read into.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) head: RecordHead,
    /// One for each slot: first those of [`Field::ALL`], then the attributes.
    pub(crate) spans: Vec<Span>,
    pub(crate) bytes: Vec<u8>,
}

/// The parts of a request with a fixed size.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordHead {
    /// Microseconds since the epoch.
    pub(crate) time: i64,
    pub(crate) line: u64,
    pub(crate) sent: SentBytes,
    /// The beginning of its bytes in the bucket.
    start: u32,
    /// Which record of the bucket it was when it came.
    place: u32,
    pub(crate) file: u32,
    pub(crate) status: Option<u16>,
    pub(crate) precision: Precision,
}

impl Default for RecordHead {
    fn default() -> Self {
        let (precision, sent) = (Precision::Micros, SentBytes::default());
        Self { time: 0, line: 0, sent, start: 0, place: 0, file: 0, status: None, precision }
    }
}

/// A number of bytes, if it is known. It takes 8 bytes itself, so the greatest number of all is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SentBytes(Option<NonZeroU64>);

impl SentBytes {
    pub(crate) const fn of(bytes: Option<u64>) -> Self {
        match bytes {
            Some(bytes) => Self(NonZeroU64::new(bytes.wrapping_add(1))),
            None => Self(None),
        }
    }

    pub(crate) fn get(self) -> Option<u64> {
        self.0.map(|next| next.get() - 1)
    }
}

/// A text inside the bytes of its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

impl Default for Span {
    fn default() -> Self {
        Self::NONE
    }
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

    /// A part of this text, by its places in it.
    pub(crate) fn part(self, part: Range<usize>) -> Self {
        Self::new(self.start() + part.start, self.start() + part.end)
    }

    /// Whether it has no byte.
    pub(crate) fn is_empty(self) -> bool {
        self.start >= self.end
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
        self.head = RecordHead::default();
        self.spans.clear();
        self.spans.resize(slots, Span::NONE);
        self.bytes.clear();
    }
}

/// Records in temporary files. They are read by the process that wrote them, so the layout has no version.
impl Record {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let head = &self.head;
        let flags =
            [head.precision as u8, u8::from(head.sent.get().is_some()), u8::from(head.status.is_some()), 0];
        out.extend_from_slice(&head.time.to_le_bytes());
        out.extend_from_slice(&head.line.to_le_bytes());
        out.extend_from_slice(&head.sent.get().unwrap_or(0).to_le_bytes());
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
        let (sent, status) =
            (SentBytes::of((has_sent == 1).then_some(sent)), (has_status == 1).then_some(status));
        self.head = RecordHead { time, line, sent, file, status, precision, start: 0, place: 0 };
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
    pub(crate) heads: Vec<RecordHead>,
    spans: Vec<Span>,
    bytes: Vec<u8>,
    kept: KeptSlots,
}

/// The slots that are kept of each record, in order.
pub(crate) type KeptSlots = Arc<[usize]>;

impl Bucket {
    pub(crate) fn new(kept: KeptSlots) -> Self {
        Self { kept, ..Self::default() }
    }

    /// Removes all requests, and keeps the memory for others, of which these slots will be kept.
    pub(crate) fn clear(&mut self, kept: &KeptSlots) {
        self.kept.clone_from(kept);
        self.heads.clear();
        self.spans.clear();
        self.bytes.clear();
    }

    pub(crate) fn push(&mut self, record: &Record) {
        // A bucket has a gibibyte at most.
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let (start, place) = (number(self.bytes.len()), number(self.heads.len()));
        self.heads.push(RecordHead { start, place, ..record.head });
        let spans = self.kept.iter().map(|slot| record.spans.get(*slot).copied().unwrap_or(Span::NONE));
        self.spans.extend(spans);
        self.bytes.extend_from_slice(&record.bytes);
    }

    /// The memory that its requests take, nearly.
    pub(crate) fn size(&self) -> usize {
        size_of_val(&*self.heads) + size_of_val(&*self.spans) + self.bytes.len()
    }

    /// The memory that it has, nearly.
    pub(crate) fn capacity(&self) -> usize {
        self.heads.capacity() * size_of::<RecordHead>()
            + self.spans.capacity() * size_of::<Span>()
            + self.bytes.capacity()
    }

    pub(crate) fn text(&self, head: &RecordHead, slot: usize) -> Option<&[u8]> {
        let kept = self.kept.iter().position(|kept| *kept == slot)?;
        let span = self.spans.get(head.place as usize * self.kept.len() + kept)?;
        span.of(self.bytes.get(head.start as usize..)?)
    }
}

const _: () = assert!(Field::ALL.len() == Field::Referer as usize + 1);
