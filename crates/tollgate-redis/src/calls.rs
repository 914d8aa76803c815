//! Commands that are sent to a server together.

use std::fmt::Debug;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::resp::{Command, command};

/// A value that exists for as long as a server may still have a call, and says so when it is dropped.
pub(crate) type InFlightGuard = Arc<dyn Debug + Send + Sync>;

/// Commands in their wire format, one after another.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls {
    bytes: Vec<u8>,
    /// The beginning of each.
    starts: SmallVec<[usize; 1]>,
    /// The number of first replies to ignore.
    unwanted: usize,
    /// Dropped once no server can have the calls any more.
    guard: Option<InFlightGuard>,
}

impl Calls {
    pub(crate) fn of(command: &Command) -> Self {
        Self::of_each([command])
    }

    /// All of these, in their order.
    pub(crate) fn of_each<'a>(commands: impl IntoIterator<Item = &'a Command>) -> Self {
        let mut calls = Self::default();
        for command in commands {
            command.write(calls.begin(0));
        }
        calls
    }

    /// Begins another command, which the caller writes at the end of these bytes; reserves about this many.
    pub(crate) fn begin(&mut self, room: usize) -> &mut Vec<u8> {
        self.starts.push(self.bytes.len());
        self.bytes.reserve(room);
        &mut self.bytes
    }

    /// Begins a command for a server that is about to take over the slot. If it refuses `ASKING`, it refuses the call
    /// as well.
    pub(crate) fn asking(&self) -> Self {
        let mut calls = Self::of(&command("ASKING"));
        calls.begin(self.bytes.len()).extend_from_slice(&self.bytes);
        calls.unwanted = 1;
        calls.guard.clone_from(&self.guard);
        calls
    }

    /// Keeps this guard until all replies have arrived or the connection ends, even if no caller waits for that.
    pub(crate) fn hold(&mut self, guard: InFlightGuard) {
        self.guard = Some(guard);
    }

    pub(crate) const fn guard(&self) -> Option<&InFlightGuard> {
        self.guard.as_ref()
    }

    /// Returns how many there are.
    pub(crate) fn count(&self) -> usize {
        self.starts.len()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The start of each command, and whether its reply is needed.
    pub(crate) fn starts(&self) -> impl Iterator<Item = (usize, bool)> {
        self.starts.iter().enumerate().map(|(index, start)| (*start, index >= self.unwanted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_behind_asking_is_the_only_one_whose_reply_is_wanted() {
        let mut calls = Calls::default();
        for call in ["first", "second"] {
            calls.begin(0).extend_from_slice(call.as_bytes());
        }
        assert_eq!(calls.bytes(), b"firstsecond");
        assert_eq!(calls.starts().collect::<Vec<_>>(), [(0, true), (5, true)]);
        let mut calls = Calls::default();
        calls.begin(0).extend_from_slice(b"call");
        let asking = calls.asking();
        assert_eq!(asking.bytes(), b"*1\r\n$6\r\nASKING\r\ncall");
        assert_eq!(asking.starts().collect::<Vec<_>>(), [(0, false), (16, true)]);
    }
}
