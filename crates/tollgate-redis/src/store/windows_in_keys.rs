//! Windows in keys, as layouts of other systems write them: which window a request names, and where its counter lies.

use tollgate::{Mark, Timestamp, Window};

use super::StoreInner;
use crate::script::Request;

/// How often a request is sent when the window that it names is not open: once for an estimate that was off, and again
/// where a window ended on the way or servers of a Cluster have different times.
pub(super) const TRIES: usize = 4;

/// The time by which windows are named after a server has refused a window that was not open by its clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WindowTime {
    /// The time of the server that refused.
    At(Timestamp),
    /// The latest time that any server gave. The window may not have begun by the clock of the server that has its
    /// counter.
    ///
    /// Only where the window is part of the name, without a slot for each key. There the counter of the next window may
    /// lie on a server whose clock is behind, and each server would refer to the other for ever. The later window is
    /// the right one, because a closed window is never counted again.
    Ahead(Timestamp),
}

impl StoreInner {
    /// Whether the counters of one key and quota may lie on different servers, window by window.
    pub(super) fn windows_have_slots(&self) -> bool {
        self.committer.topology().is_cluster() && !self.names.have_slot_for_each_key()
    }

    /// Accepts windows that have not begun, if `told` names such windows, and in refunds: what was charged ahead can be
    /// given back.
    pub(super) fn accept_windows_ahead(&self, request: &mut Request, told: Option<WindowTime>) {
        let is_ahead = matches!(told, Some(WindowTime::Ahead(_)));
        if is_ahead || (request.is_refund() && self.windows_have_slots()) {
            request.go_ahead();
        }
    }

    /// Returns whether a charge with this mark can be given back to this window. If the key names the window, the script
    /// can only give back to that one.
    pub(super) fn can_give_back(&self, window: &Window, mark: Mark) -> bool {
        !self.names.say_windows() || window.start() == mark.time()
    }

    /// Returns whether the window of a refund, of which nothing was used, is not the counted one: it has not begun.
    pub(super) fn is_early_refund(&self, window: &Window, used: u64, now: Timestamp) -> bool {
        self.windows_have_slots() && used == 0 && now < window.start()
    }
}

impl WindowTime {
    /// The windows to name after a request was stale by this time of its server. `latest` is the latest time that an
    /// earlier answer gave, if another server may have given it.
    pub(super) fn of(now: Timestamp, latest: Option<Timestamp>, tries: usize) -> Self {
        match latest {
            Some(latest) if now < latest || tries == TRIES => Self::Ahead(latest.max(now)),
            _ => Self::At(now),
        }
    }

    pub(super) const fn time(self) -> Timestamp {
        match self {
            Self::At(time) | Self::Ahead(time) => time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(millis: i64) -> Timestamp {
        Timestamp::from_unix_millis(millis)
    }

    #[test]
    fn windows_are_named_ahead_once_two_servers_refer_to_each_other() {
        assert_eq!(WindowTime::of(at(5), None, 2), WindowTime::At(at(5)));
        assert_eq!(WindowTime::of(at(7), Some(at(5)), 3), WindowTime::At(at(7)));
        assert_eq!(WindowTime::of(at(5), Some(at(7)), 3), WindowTime::Ahead(at(7)));
        // The last try has to succeed.
        assert_eq!(WindowTime::of(at(9), Some(at(7)), TRIES), WindowTime::Ahead(at(9)));
    }
}
