//! The counts of one quota: the windows of each client.

use std::time::Duration;

use tollgate::{Anchor, PolicyQuota, Quota, QuotaState, Reason, Timestamp};
use tollgate_policy::QuotaSpec;

use super::burst::Burst;
use crate::histogram::Histogram;
use crate::replay::clients::packed::{Count, Moment};
use crate::replay::clients::per_client::PerClient;
use crate::replay::counted_window::counted_window;

/// The counts of one quota of a policy.
#[derive(Debug)]
pub(crate) struct QuotaTrack {
    pub(crate) quota: PolicyQuota,
    /// The line of the override that has it, if one does.
    pub(crate) of_override: Option<usize>,
    /// The attribute that says the limit, if one does. Then that of the quota is the most that it may be.
    pub(crate) limit_attribute: Option<Box<str>>,
    /// Requests that it was asked about, and those for which it had no room.
    pub(crate) requests: u64,
    pub(crate) denied: u64,
    /// Requests that ask for more than the limit: no window has room for them.
    pub(crate) above_limit: u64,
    pub(crate) denied_windows: u64,
    /// Units asked for in each window that is over. If only some clients are followed, each stands for several.
    pub(crate) windows: Histogram,
    pub(crate) longest_wait: Duration,
    /// The most units that were in use at once, under its own limit.
    pub(crate) most_used: u64,
    pub(crate) burst: Burst,
    clients: PerClient<ClientWindows>,
}

/// The windows of one client, in 25 bytes.
#[derive(Debug, Clone, Copy, Default)]
struct ClientWindows {
    /// The window that was asked about last.
    start: Moment,
    asked: Count,
    is_denied: bool,
    most: Count,
    most_at: Moment,
}

/// A request as a quota saw it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QuotaRequest<'a> {
    /// `None` if the client is not followed.
    pub(crate) client: Option<u32>,
    /// How many clients one that is followed stands for.
    pub(crate) one_in: u64,
    pub(crate) cost: u32,
    /// The quota that was charged.
    pub(crate) quota: &'a Quota,
    pub(crate) state: &'a QuotaState,
}

impl QuotaTrack {
    pub(crate) fn new(spec: QuotaSpec<'_>, of_override: Option<usize>) -> Self {
        Self {
            quota: spec.quota().clone(),
            of_override,
            limit_attribute: spec.limit_attribute().map(|attribute| attribute.name().into()),
            requests: 0,
            denied: 0,
            above_limit: 0,
            denied_windows: 0,
            windows: Histogram::default(),
            longest_wait: Duration::ZERO,
            most_used: 0,
            burst: Burst::default(),
            clients: PerClient::default(),
        }
    }

    pub(crate) fn note(&mut self, seen: QuotaRequest<'_>) {
        let QuotaRequest { client, one_in, cost, quota, state } = seen;
        self.requests += 1;
        self.most_used = self.most_used.max(state.used());
        if !state.has_room() {
            self.denied += 1;
            self.above_limit += u64::from(state.reason() == Some(Reason::CostExceedsLimit));
            self.longest_wait = self.longest_wait.max(state.retry_after().unwrap_or_default());
        }
        // This quota or another one denied the request, so no window was opened, and the one in the state begins now.
        let is_unopened = self.quota.quota().anchor() == Anchor::FirstHit && state.used() == 0;
        let Some(number) = client.filter(|_| !is_unopened) else { return };
        let window = counted_window(quota, state);
        if state.has_room() && state.units() > 0 {
            self.burst.admitted(state.now(), number, state.units(), quota.limit(), window.length());
        }
        let Some(client) = self.clients.of(number) else { return };
        let start = Moment::at(window.start());
        if client.start != start || client.asked == Count::default() {
            client.close(one_in, &mut self.windows, &mut self.denied_windows);
            client.start = start;
        }
        client.asked.add(u64::from(cost));
        client.is_denied |= !state.has_room();
        if client.asked.get() > client.most.get() {
            (client.most, client.most_at) = (client.asked, client.start);
        }
    }

    /// Keeps the clients that had these numbers.
    pub(crate) fn keep(&mut self, kept: &[u32]) {
        self.clients.keep(kept);
        self.burst.keep(kept);
    }

    /// Counts the windows that are still open.
    pub(crate) fn close(&mut self, one_in: u64) {
        for client in self.clients.iter_mut() {
            client.close(one_in, &mut self.windows, &mut self.denied_windows);
        }
    }

    /// The most units that each of these clients asked for in one window, of the clients that are followed.
    pub(crate) fn maxima(&self, is_counted: impl Fn(u32) -> bool) -> Histogram {
        let mut maxima = Histogram::default();
        let counted = self.clients.iter().filter(|(number, _)| is_counted(*number));
        let most = counted.map(|(_, client)| client.most.get());
        most.filter(|most| *most > 0).for_each(|most| maxima.add(most));
        maxima
    }

    /// The window in which a client asked for the most, and how much that was.
    pub(crate) fn fullest(&self, client: u32) -> Option<(Timestamp, u64)> {
        let client = self.clients.get(client).filter(|client| client.most.get() > 0)?;
        Some((client.most_at.time(), client.most.get()))
    }

    /// Prefetches the memory of a client.
    pub(crate) fn prefetch(&self, client: u32) {
        self.clients.prefetch(client);
        self.burst.prefetch(client);
    }
}

impl ClientWindows {
    fn close(&mut self, one_in: u64, windows: &mut Histogram, denied: &mut u64) {
        if self.asked.get() > 0 {
            windows.add_times(self.asked.get(), one_in);
            *denied += if self.is_denied { one_in } else { 0 };
        }
        (self.asked, self.is_denied) = (Count::default(), false);
    }
}
