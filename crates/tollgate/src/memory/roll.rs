//! A counter as it stands now: pure functions of what is stored and the time.

use super::state::State;
use crate::{Counter, Timestamp, Window};

/// What is used in which window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rolled {
    pub(super) used: u64,
    pub(super) window: Window,
}

/// Takes what is stored into the window that holds now.
///
/// - Its window is open: it goes on.
/// - Its window has closed, or nothing is stored: a new one begins, with nothing used.
/// - Its window has not begun, so the clock has stepped back: what was used stays used, and the key waits no
///   longer than the window that holds now.
pub(super) fn roll(counter: &Counter<'_>, stored: Option<State>, now: Timestamp) -> Rolled {
    let fresh = || Rolled { used: 0, window: window_at(counter, now) };
    let Some(stored) = stored else { return fresh() };
    roll_forward(counter, stored, now)
        .unwrap_or_else(|| Rolled { used: stored.used, window: window_at(counter, now) })
}

/// As [`roll`]; `None` if the window has not begun.
#[inline(always)]
pub(super) fn roll_forward(counter: &Counter<'_>, stored: State, now: Timestamp) -> Option<Rolled> {
    if stored.end <= now {
        return Some(Rolled { used: 0, window: window_at(counter, now) });
    }
    let window = counter.quota().quota().window_ending(stored.end);
    (window.start() <= now).then_some(Rolled { used: stored.used, window })
}

/// Whether the window of what is stored begins after now: the clock has stepped back, or the reading is
/// coarser than the one by which the window was opened.
pub(super) fn has_not_begun(counter: &Counter<'_>, stored: State, now: Timestamp) -> bool {
    roll_forward(counter, stored, now).is_none()
}

#[inline(never)]
fn window_at(counter: &Counter<'_>, now: Timestamp) -> Window {
    counter.quota().quota().window_at(counter.key(), now)
}
