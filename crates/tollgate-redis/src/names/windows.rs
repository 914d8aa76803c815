//! Windows in names: which window a request names, and where its counter lies. Our own names contain no window; those
//! of other systems do.

use tollgate::{Mark, Quota, QuotaKind, Timestamp, Window};

use super::CounterNames;
use crate::script::Request;

/// How often a request is sent when the window that it names is not open: once for an estimate that was off, and again
/// where a window ended on the way or servers of a Cluster have different times.
const TRIES: usize = 4;

/// The time by which windows are named after a server has refused a window that was not open by its clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WindowTime {
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

/// The tries of one request to name a window that is open by the server's clock.
#[derive(Debug)]
pub(crate) struct WindowTries {
    count: usize,
    windows_have_slots: bool,
    /// The latest time that an answer gave.
    latest: Option<Timestamp>,
}

impl CounterNames {
    /// Returns whether several counters may have one name. In the server they are one.
    pub(crate) const fn may_be_shared(&self) -> bool {
        self.say_windows()
    }

    /// Returns the time by which a refund names its window, if it is not the server's.
    pub(crate) fn time_of_refund(&self, mark: Mark) -> Option<Timestamp> {
        self.say_windows().then(|| mark.time())
    }

    /// Returns whether a charge with this mark can be given back to this window of the quota. If the name contains the
    /// window, the script can only give back to that one.
    pub(crate) fn can_give_back(&self, quota: &Quota, window: &Window, mark: Mark) -> bool {
        !self.say_windows() || quota.kind() == QuotaKind::Log || window.start() == mark.time()
    }

    /// Returns whether the window of a refund, of which nothing was used, is not the counted one: it has not begun.
    pub(crate) fn is_early_refund(&self, window: &Window, used: u64, now: Timestamp) -> bool {
        self.windows_have_slots() && used == 0 && now < window.start()
    }

    /// Accepts windows that have not begun, if `time` names such windows, and in refunds: what was charged ahead can be
    /// given back.
    pub(crate) fn accept_windows_ahead(&self, request: &mut Request, time: Option<WindowTime>) {
        let is_ahead = matches!(time, Some(WindowTime::Ahead(_)));
        if is_ahead || (request.is_refund() && self.windows_have_slots()) {
            request.go_ahead();
        }
    }

    /// Returns the tries of a request that was sent once.
    pub(crate) fn tries(&self) -> WindowTries {
        WindowTries { count: 1, windows_have_slots: self.windows_have_slots(), latest: None }
    }

    const fn say_windows(&self) -> bool {
        matches!(self, Self::Layout(_))
    }

    /// Returns whether the counters of one key and quota may lie on different servers, window by window.
    fn windows_have_slots(&self) -> bool {
        !self.have_slot_for_each_key()
    }
}

impl WindowTries {
    /// Returns the windows to name after a request was stale by this time of its server; `None` after the last try.
    pub(crate) fn next(&mut self, now: Timestamp) -> Option<WindowTime> {
        if self.count == TRIES {
            return None;
        }
        self.count += 1;
        // The latest time may be that of another server.
        let time = match self.latest.filter(|_| self.windows_have_slots) {
            Some(latest) if now < latest || self.count == TRIES => WindowTime::Ahead(latest.max(now)),
            _ => WindowTime::At(now),
        };
        self.latest = self.latest.max(Some(now));
        Some(time)
    }
}

impl WindowTime {
    pub(crate) const fn time(self) -> Timestamp {
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

    fn named(windows_have_slots: bool, answers: [i64; TRIES]) -> [Option<WindowTime>; TRIES] {
        let mut tries = WindowTries { count: 1, windows_have_slots, latest: None };
        answers.map(|now| tries.next(at(now)))
    }

    #[test]
    fn windows_are_named_ahead_once_two_servers_refer_to_each_other() {
        use WindowTime::{Ahead, At};
        let [five, seven] = [at(5), at(7)];
        // The last try has to succeed.
        assert_eq!(named(true, [5, 7, 9, 9]), [Some(At(five)), Some(At(seven)), Some(Ahead(at(9))), None]);
        assert_eq!(
            named(true, [7, 5, 5, 5]),
            [Some(At(seven)), Some(Ahead(seven)), Some(Ahead(seven)), None]
        );
        // Where all windows of a counter are on one server, it knows best.
        assert_eq!(named(false, [7, 5, 5, 5]), [Some(At(seven)), Some(At(five)), Some(At(five)), None]);
    }
}
