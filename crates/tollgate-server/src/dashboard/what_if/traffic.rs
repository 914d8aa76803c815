//! The requests of a sample, by key.

use tollgate::Timestamp;

use crate::sample::{SampledRequest, SampledRequests, is_sampled};

/// The requests of a sample, in the order of their keys, and those of each key in the order of their times.
#[derive(Debug)]
pub(super) struct Traffic {
    requests: Vec<SampledRequest>,
    /// One key in two to the power of this is sampled.
    pub(super) rarity: u8,
    /// Since when the requests of these keys are complete; `None` if there are none.
    pub(super) since: Option<Timestamp>,
    /// Whether there were requests before that.
    pub(super) is_cut: bool,
    pub(super) skipped: u64,
}

impl Traffic {
    pub(super) fn new(sample: SampledRequests) -> Self {
        let SampledRequests { mut requests, rarity, since, is_cut, skipped } = sample;
        requests.sort_by_key(|request| (request.key, request.at));
        Self { requests, rarity, since, is_cut, skipped }
    }

    pub(super) fn requests(&self) -> &[SampledRequest] {
        &self.requests
    }

    /// Returns the requests of each key.
    pub(super) fn keys(&self) -> impl Iterator<Item = &[SampledRequest]> {
        self.requests.chunk_by(|one, other| one.key == other.key)
    }

    /// Leaves out the requests before this time.
    pub(super) fn begin_at(&mut self, time: Timestamp) {
        self.since = self.since.max(Some(time));
        self.requests.retain(|request| request.at >= time);
    }

    /// Leaves out requests until there are no more than so many: those of every second key as long as many keys remain,
    /// and then the oldest ones. Returns whether there were more.
    pub(super) fn reduce(&mut self, most: usize) -> bool {
        /// With fewer keys, half of them say too little.
        const MANY_KEYS: usize = 256;
        if self.requests.len() <= most {
            return false;
        }
        while self.requests.len() > most && self.keys().nth(MANY_KEYS).is_some() {
            self.rarity += 1;
            let rarity = self.rarity;
            self.requests.retain(|request| is_sampled(request.key, rarity));
        }
        let older = self.requests.len().saturating_sub(most);
        let mut times: Vec<Timestamp> = self.requests.iter().map(|request| request.at).collect();
        if older > 0 && older < times.len() {
            let (_, first, _) = times.select_nth_unstable(older);
            let first = *first;
            self.begin_at(first);
            self.is_cut = true;
        }
        true
    }
}
