//! The log of changes, and how a reader follows it.

use super::record::{Record, end, number};
use super::state::{ReadState, RecordsVersion};

/// A change that a reader has not seen yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LoggedChange {
    /// The record was created or replaced.
    Set(Record),
    /// The record was deleted.
    Deleted {
        /// Its name.
        name: Box<str>,
        /// The number of the change.
        number: u64,
    },
}

/// An entry of the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LogEntry {
    number: u64,
    mark: u64,
    /// The mark of the change before.
    previous: u64,
    change: LoggedChange,
}

/// What a reader gets.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FollowedLog {
    pub(super) state: ReadState,
    pub(super) changes: Vec<LoggedChange>,
    pub(super) is_more: bool,
}

impl LoggedChange {
    /// Returns the name of the record.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Set(record) => &record.name,
            Self::Deleted { name, .. } => name,
        }
    }
}

impl LogEntry {
    /// Reads `NUMBER MARK PREVIOUS END LENGTH NAME TEXT`; `None` if no change has written this.
    fn read(entry: &[u8]) -> Option<Self> {
        let mut fields = std::str::from_utf8(entry).ok()?.splitn(6, ' ');
        let change_number = number(fields.next()?)?;
        let (mark, previous) = (hexadecimal(fields.next()?)?, hexadecimal(fields.next()?)?);
        let (ends, length) = (fields.next()?, usize::try_from(number(fields.next()?)?).ok()?);
        let (name, text) = fields.next()?.split_at_checked(length)?;
        let change = if ends == "x" {
            LoggedChange::Deleted { name: name.into(), number: change_number }
        } else {
            let record =
                Record { name: name.into(), version: change_number, until: end(ends)?, text: text.into() };
            LoggedChange::Set(record)
        };
        Some(Self { number: change_number, mark, previous, change })
    }
}

/// Follows the log from what is known to the head or to the end of the page. `None` if that is impossible: the log does
/// not reach back, or the history is another.
pub(super) fn follow(known: ReadState, head: ReadState, page: &[Vec<u8>]) -> Option<FollowedLog> {
    let epoch = head.version.epoch;
    if known.version.number > 0 && known.version.epoch != epoch {
        return None;
    }
    let (mut state, mut changes) = (known, Vec::with_capacity(page.len()));
    for entry in page {
        let LogEntry { number, mark, previous, change } = LogEntry::read(entry)?;
        let is_next = number == state.version.number + 1 && previous == state.mark;
        if !is_next || number > head.version.number {
            return None;
        }
        state = ReadState { version: RecordsVersion { epoch, number }, mark };
        changes.push(change);
    }
    let is_more = state.version.number < head.version.number;
    let is_at_head = state == head;
    // A page that ends before the head must have brought something, or the log has a gap.
    (is_at_head || is_more && !changes.is_empty()).then_some(FollowedLog { state, changes, is_more })
}

/// Reads 64 bits as the script writes them.
pub(super) fn hexadecimal(digits: &str) -> Option<u64> {
    let is_number = digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_number { u64::from_str_radix(digits, 16).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(number: u64, mark: u64) -> ReadState {
        ReadState { version: RecordsVersion { epoch: 9, number }, mark }
    }

    /// The entry of a deletion.
    fn entry(number: u64, mark: u64, previous: u64) -> Vec<u8> {
        format!("{number} {mark:016x} {previous:016x} x 1 a").into_bytes()
    }

    #[test]
    fn an_entry_is_read_as_the_script_writes_it() {
        let read = LogEntry::read(b"7 00000000000000aa 00000000000000bb - 3 a bc d").unwrap();
        let record = Record { name: "a b".into(), version: 7, until: None, text: "c d".into() };
        assert_eq!(
            read,
            LogEntry { number: 7, mark: 0xaa, previous: 0xbb, change: LoggedChange::Set(record) }
        );
        let read = LogEntry::read(b"7 00000000000000aa 00000000000000bb x 2 ab").unwrap();
        assert_eq!(read.change, LoggedChange::Deleted { name: "ab".into(), number: 7 });
        for entry in [
            &b""[..],
            b"7",
            b"7 aa bb - 1 a",
            b"7 00000000000000aa 00000000000000bb - 9 a",
            b"7 00000000000000aa 00000000000000bb y 1 a",
            b"7 00000000000000aa +0000000000000bb - 1 a",
            b"7 00000000000000aa 00000000000000bb - 1 \xff",
        ] {
            assert_eq!(LogEntry::read(entry), None, "{}", entry.escape_ascii());
        }
    }

    #[test]
    fn a_reader_follows_to_the_head_page_by_page() {
        let pages = [vec![entry(5, 50, 40), entry(6, 60, 50)], vec![entry(7, 70, 60)]];
        let first = follow(state(4, 40), state(7, 70), &pages[0]).unwrap();
        assert_eq!((first.state, first.is_more, first.changes.len()), (state(6, 60), true, 2));
        let last = follow(first.state, state(7, 70), &pages[1]).unwrap();
        assert_eq!((last.state, last.is_more), (state(7, 70), false));
        let nothing = follow(last.state, state(7, 70), &[]).unwrap();
        assert_eq!((nothing.state, nothing.changes), (last.state, vec![]));
    }

    #[test]
    fn a_reader_of_an_empty_state_follows_any_history_from_its_beginning() {
        let followed = follow(ReadState::default(), state(1, 10), &[entry(1, 10, 0)]).unwrap();
        assert_eq!(followed.state, state(1, 10));
        assert_eq!(follow(ReadState::default(), state(1, 10), &[entry(1, 10, 9)]), None);
    }

    #[test]
    fn another_history_cannot_be_followed() {
        let other_epoch = ReadState { version: RecordsVersion { epoch: 8, number: 4 }, mark: 40 };
        for (why, known, head, page) in [
            ("another epoch", other_epoch, state(5, 50), vec![entry(5, 50, 40)]),
            ("another epoch of the same number", other_epoch, state(4, 40), vec![]),
            ("a lower number", state(4, 40), state(3, 30), vec![]),
            ("the same number with another mark", state(4, 40), state(4, 41), vec![]),
            ("marks that do not chain", state(4, 40), state(5, 50), vec![entry(5, 50, 41)]),
            ("a gap at the beginning", state(4, 40), state(6, 60), vec![entry(6, 60, 50)]),
            ("a gap inside", state(4, 40), state(7, 70), vec![entry(5, 50, 40), entry(7, 70, 60)]),
            ("nothing although there is more", state(4, 40), state(5, 50), vec![]),
            ("an end that is not the head", state(4, 40), state(5, 51), vec![entry(5, 50, 40)]),
            ("more than the head", state(4, 40), state(5, 50), vec![entry(5, 50, 40), entry(6, 60, 50)]),
            ("no entry", state(4, 40), state(5, 50), vec![b"nonsense".to_vec()]),
            ("no records any more", state(4, 40), ReadState::default(), vec![]),
        ] {
            assert_eq!(follow(known, head, &page), None, "{why}");
        }
    }
}
