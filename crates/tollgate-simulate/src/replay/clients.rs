//! How often each client was denied.

use tollgate::Timestamp;

use super::subjects::keep;

/// What became of the requests of each client.
#[derive(Debug, Default)]
pub(super) struct Clients(Vec<Client>);

/// What became of the requests of one client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Client {
    pub(super) requests: u64,
    pub(super) denied: u64,
    /// Requests that the policies to compare with deny.
    pub(super) denied_before: u64,
    /// Its first request and its last.
    pub(super) first: Timestamp,
    pub(super) last: Timestamp,
    /// The first class that a request of it is in: its place among all, counted from 1.
    pub(super) class: u8,
}

/// How many requests of each client one policy matched and denied. There is one for each policy, so it is small.
#[derive(Debug, Default)]
pub(super) struct Counts(Vec<Count>);

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    requests: u32,
    denied: u32,
}

impl Counts {
    pub(super) fn note(&mut self, number: u32, is_denied: bool) {
        let place = number as usize;
        if place >= self.0.len() {
            self.0.resize(place + 1, Count::default());
        }
        let Some(count) = self.0.get_mut(place) else { return };
        count.requests = count.requests.saturating_add(1);
        count.denied = count.denied.saturating_add(u32::from(is_denied));
    }

    /// Keeps the clients that had these numbers.
    pub(super) fn keep(&mut self, kept: &[u32]) {
        keep(&mut self.0, kept);
    }

    /// How many clients made a request.
    pub(super) fn all(&self) -> u64 {
        self.0.iter().filter(|count| count.requests > 0).count() as u64
    }

    /// How many clients were denied one.
    pub(super) fn denied(&self) -> u64 {
        self.0.iter().filter(|count| count.denied > 0).count() as u64
    }
}

impl Clients {
    /// Changes the figures of a client at the time of a request of it.
    pub(super) fn note(&mut self, number: u32, now: Timestamp, change: impl FnOnce(&mut Client)) {
        let place = number as usize;
        if place >= self.0.len() {
            self.0.resize(place + 1, Client::default());
        }
        let Some(client) = self.0.get_mut(place) else { return };
        if client.requests == 0 {
            client.first = now;
        }
        (client.requests, client.last) = (client.requests + 1, now);
        change(client);
    }

    /// Keeps the clients that had these numbers.
    pub(super) fn keep(&mut self, kept: &[u32]) {
        keep(&mut self.0, kept);
    }

    /// The clients that made requests, with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Client)> {
        (0..).zip(&self.0).filter(|(_, client)| client.requests > 0)
    }

    pub(super) fn count(&self, is_counted: impl Fn(&Client) -> bool) -> u64 {
        self.iter().filter(|(_, client)| is_counted(client)).count() as u64
    }

    /// The clients that were denied most often, the first of them first.
    pub(super) fn most_denied(&self, most: usize) -> Vec<(u32, Client)> {
        let denied = self.iter().filter(|(_, client)| client.denied > 0);
        let mut denied: Vec<(u32, Client)> = denied.map(|(number, client)| (number, *client)).collect();
        // Numbers are in the order of first requests, and the same for the same log.
        let order = |(number, client): &(u32, Client)| (std::cmp::Reverse(client.denied), *number);
        if denied.len() > most {
            denied.select_nth_unstable_by_key(most, order);
            denied.truncate(most);
        }
        denied.sort_unstable_by_key(order);
        denied
    }
}
