//! One line of the journal: a JSON object with its length and checksum.
//!
//! ```text
//! > 5f1c02d9 83 {"set":"search:=xXvTx0caa3RWc8NUkisk5w","version":7,...}
//! ```
//!
//! `>` begins a write, `+` continues it: several changes that are written together are on the disk together, or were
//! never answered. No line contains a zero byte or a line feed, so both show what a write has left out.

use std::io::Write as _;

use flate2::Crc;
use thiserror::Error;

/// The form of journals that this version reads and writes.
pub(super) const FORM: u32 = 1;

/// Longer lines are not written, and are damage when they are read.
pub(super) const MAX_LINE: usize = 64 * 1024;

/// The place of a line in its write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LinePlace {
    First,
    Later,
}

/// A fault of a line that has its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum LineFault {
    /// The line is not in the form of the journal.
    #[error("it is not in the form of the journal")]
    Form,
    /// The length is that of another text.
    #[error("its length is not the one that it names")]
    Length,
    /// The checksum is that of another text.
    #[error("its checksum does not match")]
    Checksum,
}

impl LinePlace {
    const fn mark(self) -> char {
        match self {
            Self::First => '>',
            Self::Later => '+',
        }
    }
}

/// Adds a line with this JSON text.
pub(super) fn write(lines: &mut Vec<u8>, place: LinePlace, json: &str) {
    let checksum = checksum(place, json.as_bytes());
    // Writing to memory does not fail.
    let _ = writeln!(lines, "{} {checksum:08x} {} {json}", place.mark(), json.len());
}

/// Returns the length of a line with a JSON text of this length.
pub(super) fn length(json: usize) -> u64 {
    let digits = json.checked_ilog10().unwrap_or(0) as usize + 1;
    (2 + 9 + digits + 1 + json + 1) as u64
}

/// Reads a line without its line feed.
pub(super) fn read(line: &[u8]) -> Result<(LinePlace, &[u8]), LineFault> {
    let mut parts = line.splitn(4, |byte| *byte == b' ');
    let mut part = || parts.next().ok_or(LineFault::Form);
    let place = match part()? {
        b">" => LinePlace::First,
        b"+" => LinePlace::Later,
        _ => return Err(LineFault::Form),
    };
    let checksum_text = part()?;
    let (length, json) = (number(part()?, 10)?, part()?);
    if length as usize != json.len() {
        return Err(LineFault::Length);
    }
    let is_whole = checksum_text.len() == 8 && number(checksum_text, 16)? == checksum(place, json);
    if is_whole { Ok((place, json)) } else { Err(LineFault::Checksum) }
}

/// Returns whether a write that was cut short can have left these bytes, which have no line feed: the beginning of a line,
/// and perhaps zeros.
pub(super) fn may_be_cut(bytes: &[u8]) -> bool {
    let zeros = bytes.iter().rev().take_while(|byte| **byte == 0).count();
    let (written, _) = bytes.split_at(bytes.len() - zeros);
    let mut parts = written.splitn(4, |byte| *byte == b' ');
    let is_marked = parts.next().is_none_or(|mark| matches!(mark, b"" | b">" | b"+"));
    let (length, json) = (parts.nth(1), parts.next());
    let is_short =
        |(length, json): (_, &[u8])| number(length, 10).is_ok_and(|length| json.len() <= length as usize);
    is_marked && length.zip(json).is_none_or(is_short)
}

/// Only the digits that are written are read, so that a line has one form.
fn number(text: &[u8], radix: u32) -> Result<u32, LineFault> {
    let is_written = text.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'));
    let text = std::str::from_utf8(text).ok().filter(|_| is_written).ok_or(LineFault::Form)?;
    u32::from_str_radix(text, radix).map_err(|_| LineFault::Form)
}

fn checksum(place: LinePlace, json: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(&[place.mark() as u8]);
    crc.update(json);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_reads_back_and_every_changed_bit_is_found() {
        for json in ["{}", r#"{"delete":"search:tenant=acme","version":18446744073709551615}"#] {
            let mut lines = Vec::new();
            write(&mut lines, LinePlace::First, json);
            write(&mut lines, LinePlace::Later, json);
            let (first, later) = lines.split_at(lines.len() / 2);
            assert_eq!(first.len() as u64, length(json.len()));
            let first = first.strip_suffix(b"\n").unwrap();
            assert_eq!(read(first), Ok((LinePlace::First, json.as_bytes())));
            assert_eq!(read(later.strip_suffix(b"\n").unwrap()), Ok((LinePlace::Later, json.as_bytes())));
            for bit in 0..first.len() * 8 {
                let mut changed = first.to_vec();
                changed[bit / 8] ^= 1 << (bit % 8);
                assert!(read(&changed).is_err(), "bit {bit}: {}", String::from_utf8_lossy(&changed));
            }
            for shorter in 0..first.len() {
                assert!(read(&first[..shorter]).is_err(), "{shorter}");
                assert!(may_be_cut(&first[..shorter]), "{shorter}");
                assert!(may_be_cut(&[&first[..shorter], &[0; 7]].concat()), "{shorter}");
            }
            assert!(may_be_cut(first) && !may_be_cut(&[first, b"\t"].concat()));
            assert!(!may_be_cut(b"text") && !may_be_cut(b"> 5f1c02d9 x {"));
        }
    }
}
