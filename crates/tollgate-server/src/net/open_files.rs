//! Fits the number of connections to the system's limit of open files, so that callers never use up the files that the
//! admin listener, the store and the policy files need.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The maximum number of files that are open in addition to clients' connections: listeners, the store, files, and the
/// runtime's own.
const RESERVE: u64 = 64;

/// The number of clients that each listener serves, even if the limit is lower.
const FEWEST: u64 = 8;

/// The maximum numbers of open connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caps {
    /// On the listener for checks; the one for gRPC has the same number.
    pub(crate) public: u32,
    /// On the admin listener; those for metrics and for probes have the same number.
    pub(crate) admin: u32,
}

/// Raises the limit of open files as far as the process may. Returns the new limit; `None` if there is none.
pub(crate) fn raise_limit() -> Option<u64> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // If the hard limit is infinite, the system may have another one and refuse.
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    if raised.is_ok() { maximum } else { current }
}

impl Caps {
    /// Returns the requested number for each listener if the limit of open files has room for all. Otherwise each of
    /// the `others` gets an eighth of the room, and the listeners for `checks` share the rest.
    pub(crate) fn fitted(asked: u32, others: u32, checks: u32, limit: Option<u64>) -> Self {
        let (wanted, others, checks) = (u64::from(asked), u64::from(others), u64::from(checks.max(1)));
        let room = limit.unwrap_or(u64::MAX).saturating_sub(RESERVE);
        if room >= (checks + others) * wanted {
            return Self { public: asked, admin: asked };
        }
        let most = |connections: u64| connections.max(FEWEST).min(wanted) as u32;
        let admin = most(room / 8);
        Self { public: most(room.saturating_sub(others * u64::from(admin)) / checks), admin }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caps_leave_room_for_everything_else() {
        let caps_of = |asked, others, checks, limit| {
            let Caps { public, admin } = Caps::fitted(asked, others, checks, limit);
            (public, admin)
        };
        let caps = |asked, others, limit| caps_of(asked, others, 1, limit);
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
        assert_eq!(caps_of(10_000, 1, 2, Some(30_064)), (10_000, 10_000));
        assert_eq!(caps_of(10_000, 1, 2, Some(1_024)), (420, 120), "gRPC has as many as HTTP");
    }
}
