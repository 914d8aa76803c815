//! How often each client was denied.

pub(crate) mod bits;
pub(crate) mod denier;
pub(crate) mod examples;
pub(crate) mod in_routes;
pub(crate) mod packed;
pub(crate) mod per_client;

use tollgate::Timestamp;

use self::bits::Bits;
use self::denier::Denier;
use self::packed::{Count, Moment};
use self::per_client::PerClient;
use super::verdict::Verdict;

/// The outcomes of each client's requests.
#[derive(Debug, Default)]
pub(crate) struct Clients(PerClient<Compact>);

/// A [`Client`] in 32 bytes, of which two fill a cache line.
#[derive(Debug, Clone, Copy, Default)]
struct Compact {
    first: Moment,
    last: Moment,
    requests: Count,
    denied: Count,
    denied_before: Count,
    denier: Denier,
    class: u8,
}

/// The outcomes of one client's requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ClientRecord {
    pub(crate) requests: u64,
    pub(crate) denied: u64,
    /// Requests that the policies to compare with deny.
    pub(crate) denied_before: u64,
    pub(crate) denier: Denier,
    /// Its first request and its last.
    pub(crate) first: Timestamp,
    pub(crate) last: Timestamp,
    /// The first class that a request of it is in: its place among all, counted from 1.
    pub(crate) class: u8,
}

/// Which clients one policy matched and denied.
#[derive(Debug, Default)]
pub(crate) struct Met {
    all: Bits,
    denied: Bits,
    /// Those of which the policies to compare with deny such a request.
    denied_before: Bits,
    /// Whether there are policies to compare with.
    is_compared: bool,
}

impl Met {
    pub(crate) fn note(&mut self, number: u32, verdict: Verdict, before: Option<Verdict>) {
        self.all.insert(number);
        if verdict.is_denied() {
            self.denied.insert(number);
        }
        self.is_compared |= before.is_some();
        if before.is_some_and(Verdict::is_denied) {
            self.denied_before.insert(number);
        }
    }

    /// Keeps the clients that had these numbers.
    pub(crate) fn keep(&mut self, kept: &[u32]) {
        self.all.keep(kept);
        self.denied.keep(kept);
        self.denied_before.keep(kept);
    }

    /// The memory that it takes.
    pub(crate) const fn bytes(&self) -> usize {
        self.all.bytes() + self.denied.bytes() + self.denied_before.bytes()
    }

    /// Returns how many clients made a request.
    pub(crate) fn all(&self) -> u64 {
        self.all.count()
    }

    /// Returns how many clients were denied one.
    pub(crate) fn denied(&self) -> u64 {
        self.denied.count()
    }

    /// How many of these the policies to compare with denied none.
    pub(crate) fn newly_denied(&self) -> u64 {
        if self.is_compared { self.denied.count_without(&self.denied_before) } else { 0 }
    }
}

impl Clients {
    /// Notes a request of a client: whether it is denied, whether the policies to compare with deny it, and its class.
    pub(crate) fn note(&mut self, number: u32, now: Timestamp, is_denied: bool, was_denied: bool, class: u8) {
        let Some(client) = self.0.of(number) else { return };
        client.last = Moment::at(now);
        if client.requests == Count::default() {
            client.first = client.last;
        }
        client.requests.add(1);
        if is_denied {
            client.denied.add(1);
        }
        if was_denied {
            client.denied_before.add(1);
        }
        if client.class == 0 {
            client.class = class;
        }
    }

    /// Notes what has denied a request of a client.
    pub(crate) fn note_denier(&mut self, number: u32, denier: Denier) {
        if let Some(client) = self.0.of(number) {
            client.denier.note(denier);
        }
    }

    /// What has denied requests of a client.
    pub(crate) fn denier(&self, number: u32) -> Denier {
        self.0.get(number).map_or(Denier::default(), |client| client.denier)
    }

    /// Keeps the clients that had these numbers.
    pub(crate) fn keep(&mut self, kept: &[u32]) {
        self.0.keep(kept);
    }

    /// The clients that made requests, with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, ClientRecord)> {
        self.0
            .iter()
            .map(|(number, client)| (number, ClientRecord::of(client)))
            .filter(|(_, client)| client.requests > 0)
    }

    pub(crate) fn count(&self, is_counted: impl Fn(&ClientRecord) -> bool) -> u64 {
        self.iter().filter(|(_, client)| is_counted(client)).count() as u64
    }

    /// How many requests a client has made.
    pub(crate) fn requests(&self, number: u32) -> u64 {
        self.0.get(number).map_or(0, |client| client.requests.get())
    }

    /// A client, by its number.
    pub(crate) fn get(&self, number: u32) -> Option<ClientRecord> {
        self.0.get(number).map(ClientRecord::of)
    }

    /// How many requests of a client were denied.
    pub(crate) fn denied(&self, number: u32) -> u64 {
        self.0.get(number).map_or(0, |client| client.denied.get())
    }

    /// How many requests of a client the policies to compare with denied.
    pub(crate) fn denied_before(&self, number: u32) -> u64 {
        self.0.get(number).map_or(0, |client| client.denied_before.get())
    }

    /// Prefetches the memory of a client.
    pub(crate) fn prefetch(&self, number: u32) {
        self.0.prefetch(number);
    }

    /// The clients that were denied most often.
    pub(crate) fn most_denied(&self, most: usize) -> Vec<(u32, ClientRecord)> {
        most_denied(self.iter().filter(|(_, client)| client.denied > 0).collect(), most, |client| {
            client.denied
        })
    }
}

/// Those of the clients that were denied most often, as `denied` counts it, the first of them first.
pub(crate) fn most_denied(
    mut clients: Vec<(u32, ClientRecord)>,
    most: usize,
    denied: impl Fn(&ClientRecord) -> u64,
) -> Vec<(u32, ClientRecord)> {
    // Numbers are in the order of first requests, and the same for the same log.
    let order = |(number, client): &(u32, ClientRecord)| (std::cmp::Reverse(denied(client)), *number);
    if clients.len() > most {
        clients.select_nth_unstable_by_key(most, order);
        clients.truncate(most);
    }
    clients.sort_unstable_by_key(order);
    clients
}

impl ClientRecord {
    fn of(compact: &Compact) -> Self {
        let Compact { first, last, requests, denied, denied_before, denier, class } = *compact;
        let (requests, denied, denied_before) = (requests.get(), denied.get(), denied_before.get());
        Self { requests, denied, denied_before, denier, first: first.time(), last: last.time(), class }
    }
}
