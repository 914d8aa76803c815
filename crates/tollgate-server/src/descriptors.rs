//! How many connections the system's limit of open files allows, so that those of callers never take what the admin
//! listener, the store and the file of policies need.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// What everything but connections of clients opens at most: listeners, the store, files, and the runtime's own.
const RESERVE: u64 = 64;

/// However low the limit is, so many clients are served on each listener.
const FEWEST: u64 = 8;

/// Connections that may be open at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caps {
    /// On the listener for checks.
    pub(crate) public: u32,
    /// On the admin listener, and as many on that for metrics.
    pub(crate) admin: u32,
}

/// Raises the limit of open files as far as the process may. Returns what it is now; `None` without a limit.
pub(crate) fn raise_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // Without a limit to raise it to, the system may have one of its own and refuse.
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    if raised.is_ok() { maximum } else { current }
}

impl Caps {
    /// As many on each listener as are asked for, if the limit of open files has room for all; else an eighth of the
    /// room for each of the `others`, and the rest for the one for checks.
    pub(crate) fn fitted(asked: u32, others: u32, limit: Option<u64>) -> Self {
        let (wanted, others) = (u64::from(asked), u64::from(others));
        let room = limit.unwrap_or(u64::MAX).saturating_sub(RESERVE);
        if room >= (1 + others) * wanted {
            return Self { public: asked, admin: asked };
        }
        let most = |connections: u64| connections.max(FEWEST).min(wanted) as u32;
        let admin = most(room / 8);
        Self { public: most(room.saturating_sub(others * u64::from(admin))), admin }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caps_leave_room_for_everything_else() {
        let caps = |asked, others, limit| {
            let Caps { public, admin } = Caps::fitted(asked, others, limit);
            (public, admin)
        };
        assert_eq!(caps(10_000, 1, None), (10_000, 10_000));
        assert_eq!(caps(10_000, 1, Some(20_064)), (10_000, 10_000));
        assert_eq!(caps(10_000, 1, Some(20_063)), (10_000, 2_499));
        assert_eq!(caps(10_000, 1, Some(1_024)), (840, 120));
        assert_eq!(caps(10_000, 1, Some(100)), (28, 8));
        assert_eq!(caps(10_000, 1, Some(0)), (8, 8));
        assert_eq!(caps(1, 1, Some(0)), (1, 1));
        assert_eq!(caps(10_000, 2, Some(30_064)), (10_000, 10_000));
        assert_eq!(caps(10_000, 2, Some(30_063)), (10_000, 3_749));
        assert_eq!(caps(10_000, 2, Some(1_024)), (720, 120));
        assert_eq!(caps(10_000, 2, Some(100)), (20, 8));
    }
}
