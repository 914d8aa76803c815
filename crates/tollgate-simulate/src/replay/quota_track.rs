//! What one quota counted: the windows of each client.

use std::time::Duration;

use tollgate::{Anchor, PolicyQuota, QuotaState, Timestamp};

use super::burst::Burst;
use super::subjects::keep;
use crate::Histogram;

/// What one quota of a policy came to.
#[derive(Debug)]
pub(super) struct QuotaTrack {
    pub(super) quota: PolicyQuota,
    /// The line of the override that has it, if one does.
    pub(super) of_override: Option<usize>,
    /// Requests that it was asked about, and those for which it had no room.
    pub(super) requests: u64,
    pub(super) denied: u64,
    pub(super) denied_windows: u64,
    /// Units asked for in each window that is over. If only some clients are followed, each stands for several.
    pub(super) windows: Histogram,
    pub(super) longest_wait: Duration,
    pub(super) burst: Burst,
    clients: Vec<Client>,
}

/// The windows of one client.
#[derive(Debug, Clone, Copy, Default)]
struct Client {
    /// The window that was asked about last.
    start: Timestamp,
    asked: u64,
    is_denied: bool,
    most: u64,
    most_at: Timestamp,
}

/// A request as a quota saw it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    /// `None` if the client is not followed.
    pub(super) client: Option<u32>,
    /// How many clients one that is followed stands for.
    pub(super) one_in: u64,
    pub(super) cost: u32,
    pub(super) state: &'a QuotaState,
}

impl QuotaTrack {
    pub(super) fn new(quota: &PolicyQuota, of_override: Option<usize>) -> Self {
        Self {
            quota: quota.clone(),
            of_override,
            requests: 0,
            denied: 0,
            denied_windows: 0,
            windows: Histogram::default(),
            longest_wait: Duration::ZERO,
            burst: Burst::default(),
            clients: Vec::new(),
        }
    }

    pub(super) fn note(&mut self, seen: Seen<'_>) {
        let Seen { client, one_in, cost, state } = seen;
        self.requests += 1;
        if !state.has_room() {
            self.denied += 1;
            self.longest_wait = self.longest_wait.max(state.retry_after().unwrap_or_default());
        }
        // This quota or another one denied the request, so no window was opened, and the one in the state begins now.
        let is_unopened = self.quota.quota().anchor() == Anchor::FirstHit && state.used() == 0;
        let (Some(number), Some(window)) = (client, state.window()) else { return };
        if is_unopened {
            return;
        }
        if state.has_room() && state.units() > 0 {
            self.burst.admitted(state.now(), number, state.units(), window.length());
        }
        let place = number as usize;
        if place >= self.clients.len() {
            self.clients.resize(place + 1, Client::default());
        }
        let Some(client) = self.clients.get_mut(place) else { return };
        if client.start != window.start() || client.asked == 0 {
            client.close(one_in, &mut self.windows, &mut self.denied_windows);
            client.start = window.start();
        }
        client.asked = client.asked.saturating_add(u64::from(cost));
        client.is_denied |= !state.has_room();
        if client.asked > client.most {
            (client.most, client.most_at) = (client.asked, client.start);
        }
    }

    /// Keeps the clients that had these numbers.
    pub(super) fn keep(&mut self, kept: &[u32]) {
        keep(&mut self.clients, kept);
        self.burst.keep(kept);
    }

    /// Counts the windows that are still open.
    pub(super) fn close(&mut self, one_in: u64) {
        for client in &mut self.clients {
            client.close(one_in, &mut self.windows, &mut self.denied_windows);
        }
    }

    /// The most units that each client asked for in one window, of the clients that are followed.
    pub(super) fn maxima(&self) -> Histogram {
        let mut maxima = Histogram::default();
        let asking = self.clients.iter().filter(|client| client.most > 0);
        asking.for_each(|client| maxima.add(client.most));
        maxima
    }

    /// The window in which a client asked for the most, and how much that was.
    pub(super) fn fullest(&self, client: u32) -> Option<(Timestamp, u64)> {
        let client = self.clients.get(client as usize).filter(|client| client.most > 0)?;
        Some((client.most_at, client.most))
    }
}

impl Client {
    fn close(&mut self, one_in: u64, windows: &mut Histogram, denied: &mut u64) {
        if self.asked > 0 {
            windows.add_times(self.asked, one_in);
            *denied += if self.is_denied { one_in } else { 0 };
        }
        (self.asked, self.is_denied) = (0, false);
    }
}
