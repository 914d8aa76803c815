//! The measured limiters, on a manual clock if possible.

use std::time::Duration;

use anyhow::{Context, Result};
use governor::clock::FakeRelativeClock;
use tollgate::ManualClock;
use tollgate_bench::contestants::{
    Build, Contestant, HARNESS, Limit, PEERS, governor_with_fake_clock, tollgate_with_clock,
};

pub(crate) const OURS: &str = "ours";
const GOVERNOR: &str = "governor";

/// Longer than any window here, and than governor's GCRA needs to forget a unit.
const NEXT_WINDOW: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) enum Subject {
    Ours,
    Governor,
    Peer(Build),
}

/// A limiter without keys.
pub(crate) struct Empty {
    pub(crate) limiter: Box<dyn Contestant>,
    /// Moves its clock past the end of every window.
    pub(crate) close_windows: Option<Box<dyn Fn()>>,
}

pub(crate) fn names(with_peers: bool) -> impl Iterator<Item = &'static str> {
    let peers = if with_peers { PEERS } else { &[] };
    let peers = peers.iter().map(|(name, _)| *name).filter(|name| *name != HARNESS);
    [OURS, GOVERNOR].into_iter().chain(peers)
}

impl Subject {
    pub(crate) fn named(name: &str) -> Result<Self> {
        Ok(match name {
            OURS => Self::Ours,
            GOVERNOR => Self::Governor,
            _ => {
                let peer = PEERS.iter().find(|(peer, _)| *peer == name);
                Self::Peer(peer.with_context(|| format!("no limiter is called `{name}`"))?.1)
            }
        })
    }

    /// Builds one for this many keys; ours has this cap.
    pub(crate) fn build(&self, keys: u32) -> Empty {
        match self {
            Self::Ours => {
                let clock = ManualClock::default();
                let limiter = tollgate_with_clock(clock.clone(), keys as usize);
                Empty { limiter, close_windows: Some(Box::new(move || clock.advance(NEXT_WINDOW))) }
            }
            Self::Governor => {
                let clock = FakeRelativeClock::default();
                let limiter = governor_with_fake_clock(clock.clone());
                Empty { limiter, close_windows: Some(Box::new(move || clock.advance(NEXT_WINDOW))) }
            }
            Self::Peer(build) => Empty { limiter: build(Limit::NeverReached, keys), close_windows: None },
        }
    }
}
