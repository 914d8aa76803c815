//! Traffic that is of interest without any policy: routes, and the busiest clients.

use super::clients::examples::cut;
use crate::routes::Routes;

/// Routes, and the busiest clients.
pub(super) struct Traffic {
    pub(super) routes: Routes,
    pub(super) clients: BusiestClients,
}

/// The clients with most requests so far; of those with as many, the ones that came first.
///
/// Only the client of the current request can overtake another. So the list is exact, unless fewer clients are followed
/// later on.
#[derive(Debug)]
pub(super) struct BusiestClients {
    clients: Vec<BusiestClient>,
    most: usize,
}

/// A client with many requests.
#[derive(Debug)]
pub(super) struct BusiestClient {
    pub(super) number: u32,
    requests: u64,
    pub(super) user_agent: Option<Box<str>>,
}

impl Traffic {
    pub(super) fn new(listed_clients: usize) -> Self {
        Self { routes: Routes::new(), clients: BusiestClients { clients: Vec::new(), most: listed_clients } }
    }
}

impl BusiestClients {
    /// Notes that a client has made so many requests, the last one with this program. Returns whether it has come
    /// into the list.
    pub(super) fn note(&mut self, number: u32, requests: u64, user_agent: Option<&[u8]>) -> bool {
        let is_full = self.clients.len() >= self.most;
        let last = self.clients.last().map_or((0, 0), |last| (last.requests, last.number));
        let is_above = |last: (u64, u32)| requests > last.0 || requests == last.0 && number < last.1;
        if is_full && !is_above(last) && number != last.1 {
            return false;
        }
        let known = self.clients.iter().position(|client| client.number == number);
        let mut place = match known {
            Some(place) => place,
            None => {
                if is_full {
                    self.clients.pop();
                }
                self.clients.push(BusiestClient { number, requests, user_agent: user_agent.map(cut) });
                self.clients.len() - 1
            }
        };
        if let Some(client) = self.clients.get_mut(place) {
            client.requests = requests;
        }
        while let Some(above) = place.checked_sub(1).and_then(|above| self.clients.get(above))
            && is_above((above.requests, above.number))
        {
            self.clients.swap(place - 1, place);
            place -= 1;
        }
        known.is_none()
    }

    /// The busiest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &BusiestClient> {
        self.clients.iter()
    }

    /// Keeps the clients that had these numbers.
    pub(super) fn keep(&mut self, kept: &[u32]) {
        self.clients.retain_mut(|client| {
            let number =
                kept.binary_search(&client.number).ok().and_then(|number| u32::try_from(number).ok());
            client.number = number.unwrap_or_default();
            number.is_some()
        });
    }
}
