//! Lines that Kubernetes or Docker has split: those above 16 KiB come in parts.

use std::mem;

use crate::lines::LONGEST;
use crate::reason::Reason;

/// The begins of lines of which more parts follow, for each of the two streams of a container.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    begun: [Vec<u8>; 2],
    /// The line that was ended last.
    whole: Vec<u8>,
}

/// Which of its streams a container has written a line to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputStream {
    Out,
    Err,
}

/// The text of a line inside its prefix, or a part of one.
#[derive(Debug, Clone, Copy)]
pub(super) struct LinePart<'l> {
    pub(super) text: &'l [u8],
    pub(super) stream: OutputStream,
    /// Whether the line ends with it.
    pub(super) is_last: bool,
}

impl Parts {
    /// Whether no line is begun, as in nearly all logs.
    pub(crate) fn is_empty(&self) -> bool {
        self.begun.iter().all(Vec::is_empty)
    }

    /// How many lines are begun and not ended.
    pub(super) fn begun(&self) -> usize {
        self.begun.iter().filter(|begun| !begun.is_empty()).count()
    }

    /// Keeps a part. Of a line that is too long, no more is kept than shows that.
    pub(crate) fn push(&mut self, stream: OutputStream, part: &[u8]) {
        let [out, err] = &mut self.begun;
        let begun = if stream == OutputStream::Out { out } else { err };
        let room = (LONGEST + 1).saturating_sub(begun.len());
        begun.extend_from_slice(part.get(..room).unwrap_or(part));
    }

    /// Ends a line by its last part, and returns all of it.
    pub(crate) fn end(&mut self, stream: OutputStream, part: &[u8]) -> Result<&[u8], Reason> {
        self.push(stream, part);
        let [out, err] = &mut self.begun;
        let begun = if stream == OutputStream::Out { out } else { err };
        mem::swap(begun, &mut self.whole);
        begun.clear();
        if self.whole.len() > LONGEST { Err(Reason::TooLong) } else { Ok(&self.whole) }
    }
}
