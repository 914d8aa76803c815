//! The figures of one route.

use tollgate::Timestamp;

use super::busiest::Busiest;
use super::{RouteRequest, WINDOW};
use crate::followed::{ClientLookup, FollowedClients};
use crate::limits::maxima::Maxima;
use tollgate_policy::Identity;

/// The figures of one route.
#[derive(Debug)]
pub(super) struct Track {
    pub(super) requests: u64,
    /// Those with a client.
    pub(super) client_requests: u64,
    pub(super) denied: u64,
    /// By the first digit of the status; those without a possible one are the first.
    pub(super) statuses: [u64; 6],
    pub(super) second: Busiest,
    pub(super) minute: Busiest,
    pub(super) clients: FollowedClients,
    /// The most that each of them requests in one window.
    pub(super) maxima: Maxima,
}

impl Track {
    pub(super) fn new() -> Self {
        Self {
            requests: 0,
            client_requests: 0,
            denied: 0,
            statuses: [0; 6],
            second: Busiest::new(1_000),
            minute: Busiest::new(60_000),
            // They are known by their digests alone, and never named.
            clients: FollowedClients::new(Identity::Global, usize::MAX),
            maxima: Maxima::new(WINDOW, WINDOW),
        }
    }

    /// Notes a request. Returns whether its client is one more.
    pub(super) fn note(&mut self, noted: &RouteRequest, now: Timestamp) -> bool {
        self.requests += 1;
        self.client_requests += u64::from(noted.client.is_some());
        self.denied += u64::from(noted.is_denied);
        let class = usize::from(noted.status / 100);
        if let Some(count) = self.statuses.get_mut(if class < 6 { class } else { 0 }) {
            *count += 1;
        }
        self.second.note(now, 1);
        self.minute.note(now, 1);
        self.maxima.pass(now);
        let before = self.clients.len();
        let Some(ClientLookup::Client(client)) = noted.client.map(|digest| self.clients.find(digest)) else {
            return false;
        };
        self.maxima.note(now, client, self.clients.one_in());
        if class == 4 {
            self.maxima.fail(client);
        }
        self.clients.len() > before
    }

    /// Follows only every other client from now on. Returns how many that are.
    pub(super) fn halve(&mut self) -> usize {
        let kept = self.clients.halve();
        self.maxima.keep(&kept);
        kept.len()
    }
}
