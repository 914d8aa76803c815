//! How a counter counts: which of its windows is meant, and which answers are possible for it.

use std::time::Duration;

use tollgate::kind::Bucket;
use tollgate::{Anchor, Counter, Quota, QuotaKind, Timestamp, WindowLength};

/// Shorter windows have no number (`SHORTEST` in the script), and without one the script cannot check a probable time.
/// In milliseconds.
pub(super) const SHORTEST_NUMBERED: i64 = 1_000;

/// How far the clock may step back without reopening a window, in milliseconds (`GRACE` in the script).
pub(super) const GRACE: i64 = 1_000;

/// More than any count (`SPAN` in the script).
const SPAN: u64 = 10_000_000_000_000;

/// The start of a window that may not have begun by the server's clock. The script uses the start only to refuse what
/// is too early. No window that a key names starts then.
pub(super) const MAY_BEGIN_LATER: i64 = -1;

/// Which window is meant, or the kind of quota that has no such windows; times and lengths in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum WindowSpec {
    /// The one that is open by the server's clock, of windows that follow each other from `origin` on.
    Grid { origin: i64, length: u64 },
    /// The one that the first unit opened or opens.
    FirstHit { length: u64 },
    /// This one and no other; if it is not open, the request is stale.
    Given { start: i64, end: i64 },
    /// Like `Given`, but the key contains the window, so the expiry does not identify it. If the start is
    /// [`MAY_BEGIN_LATER`], the window may not have begun by the server's clock.
    Named { start: i64, end: i64 },
    /// None: a bucket.
    Burst { bucket: Bucket },
    /// The one that is open by the server's clock, of windows that follow each other from `origin` on, and the one before.
    Sliding { origin: i64, length: u64 },
    /// None: a log of steps, whose units count for the length after the last millisecond of their step.
    Log { step: u64, length: u64 },
    /// None: a log of milliseconds that another system shares, as a sorted set.
    SortedLog { length: u64 },
}

/// The most units of a log in a sorted set: each is a member, and every step reads all of them (`MOST_MEMBERS` in the
/// script).
pub(super) const MOST_MEMBERS: u64 = 1_024;

impl WindowSpec {
    /// Returns whether the key of the counter contains the window.
    pub(super) const fn are_named(&self) -> bool {
        matches!(self, Self::Named { .. })
    }

    /// Returns whether the quota counts in fixed windows.
    pub(super) const fn are_fixed(&self) -> bool {
        !matches!(self, Self::Burst { .. } | Self::Sliding { .. } | Self::Log { .. } | Self::SortedLog { .. })
    }

    /// Returns the most units to which steps lead.
    pub(super) const fn most_kept(&self) -> u64 {
        match self {
            Self::SortedLog { .. } => MOST_MEMBERS,
            _ => u64::MAX,
        }
    }

    /// Returns the start and the end of the window, if only one is meant.
    pub(super) const fn bounds(&self) -> Option<(i64, i64)> {
        match *self {
            Self::Grid { .. }
            | Self::FirstHit { .. }
            | Self::Burst { .. }
            | Self::Sliding { .. }
            | Self::Log { .. }
            | Self::SortedLog { .. } => None,
            Self::Given { start, end } | Self::Named { start, end } => Some((start, end)),
        }
    }

    /// Returns the largest count that the script reports. If the counter has no number of its window, another program
    /// may have counted further than we do.
    pub(super) const fn most_used(&self) -> u64 {
        match self {
            Self::Grid { length, .. } if *length >= SHORTEST_NUMBERED.unsigned_abs() => Quota::MAX_LIMIT,
            _ => SPAN - 1,
        }
    }

    /// Returns whether a window can end then of which the script says the end: the one that a first unit has opened, or
    /// one that has not begun by a clock that has stepped back.
    pub(super) fn may_end(&self, end: Option<i64>, now: Timestamp) -> bool {
        let Some(end) = end else { return true };
        // An end that overflows is far from any time.
        let (now, until_end) = (now.as_unix_millis(), end.saturating_sub(now.as_unix_millis()));
        match *self {
            Self::FirstHit { length } => {
                (1..=length.cast_signed().saturating_add(GRACE)).contains(&until_end)
            }
            Self::Grid { origin, length } => {
                let length = length.cast_signed();
                let until_start = until_end.saturating_sub(length);
                (1..=GRACE).contains(&until_start) && until_end.saturating_add(now - origin) % length == 0
            }
            // The script does not know how long the next window is, but that it is less than half as long again.
            Self::Given { start, end: own } => {
                let next = end.saturating_sub(own);
                own - now <= GRACE && next > 0 && next.saturating_mul(2) < (own - start).saturating_mul(3)
            }
            Self::Named { .. }
            | Self::Burst { .. }
            | Self::Sliding { .. }
            | Self::Log { .. }
            | Self::SortedLog { .. } => false,
        }
    }

    /// Returns those of a counter whose key does not contain them. Of a calendar the one that is open at `now`.
    pub(crate) fn of(counter: &Counter<'_>, now: impl FnOnce() -> Timestamp) -> Self {
        let quota = counter.quota().quota();
        let window_at = |time| quota.window_at(counter.key(), time);
        if let Some(bucket) = quota.bucket() {
            return Self::Burst { bucket };
        }
        if let (Some(step), WindowLength::Fixed(length)) = (quota.log_step(), quota.window()) {
            return Self::Log { step: millis(step), length: millis(length) };
        }
        match (quota.anchor(), quota.window()) {
            (anchor, WindowLength::Fixed(length)) if quota.kind() == QuotaKind::Sliding => {
                let is_aligned = anchor == Anchor::Epoch;
                let origin = if is_aligned { Timestamp::EPOCH } else { window_at(Timestamp::EPOCH).start() };
                Self::Sliding { origin: origin.as_unix_millis(), length: millis(length) }
            }
            (Anchor::Epoch, WindowLength::Fixed(length)) => Self::Grid { origin: 0, length: millis(length) },
            (Anchor::Staggered, WindowLength::Fixed(length)) => {
                let origin = window_at(Timestamp::EPOCH).start().as_unix_millis();
                Self::Grid { origin, length: millis(length) }
            }
            (Anchor::FirstHit, WindowLength::Fixed(length)) => Self::FirstHit { length: millis(length) },
            _ => {
                let window = window_at(now());
                Self::Given { start: window.start().as_unix_millis(), end: window.end().as_unix_millis() }
            }
        }
    }
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}
