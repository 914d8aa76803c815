//! What each of several rungs denies.

use crate::replay::clients::bits::Bits;

/// Rungs of a ladder, a bit for each.
pub(super) type RungBits = u32;

/// Requests that some rungs deny, and the clients that made them. Most are denied by all of these rungs or by none.
#[derive(Debug, Default)]
pub(super) struct Denials {
    rungs: RungBits,
    by_all: DeniedRequests,
    by_rung: Vec<DeniedRequests>,
}

#[derive(Debug, Default)]
struct DeniedRequests {
    requests: u64,
    clients: Bits,
}

impl Denials {
    /// None yet, of these rungs.
    pub(super) fn of(rungs: RungBits) -> Self {
        let count = (RungBits::BITS - rungs.leading_zeros()) as usize;
        let by_rung = std::iter::repeat_with(DeniedRequests::default).take(count).collect();
        Self { rungs, by_all: DeniedRequests::default(), by_rung }
    }

    /// Notes a request that these rungs deny, among others that do not count here.
    pub(super) fn note(&mut self, rungs: RungBits, client: Option<u32>) {
        let mut denying = rungs & self.rungs;
        if denying != 0 && denying == self.rungs {
            return self.by_all.note(client);
        }
        while denying != 0 {
            if let Some(denied) = self.by_rung.get_mut(denying.trailing_zeros() as usize) {
                denied.note(client);
            }
            denying &= denying - 1;
        }
    }

    /// How many requests of how many clients a rung denies.
    pub(super) fn of_rung(&self, rung: usize) -> Option<(u64, u64)> {
        let DeniedRequests { requests, clients } = self.by_rung.get(rung)?;
        let all = &self.by_all;
        Some((requests + all.requests, all.clients.count() + clients.count_without(&all.clients)))
    }

    /// How many clients that are of interest a rung denies.
    pub(super) fn clients_of_rung(&self, rung: usize, is_of_interest: impl Fn(u32) -> bool) -> Option<u64> {
        let (own, all) = (&self.by_rung.get(rung)?.clients, &self.by_all.clients);
        let clients = all.iter().chain(own.iter().filter(|client| !all.contains(*client)));
        Some(clients.filter(|client| is_of_interest(*client)).count() as u64)
    }

    /// Keeps the clients that had these numbers.
    pub(super) fn keep(&mut self, kept: &[u32]) {
        self.by_all.clients.keep(kept);
        self.by_rung.iter_mut().for_each(|denied| denied.clients.keep(kept));
    }
}

impl DeniedRequests {
    fn note(&mut self, client: Option<u32>) {
        self.requests += 1;
        client.into_iter().for_each(|client| self.clients.insert(client));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rung_has_what_all_deny_and_its_own() {
        let mut denials = Denials::of(0b1011);
        denials.note(0b1111, Some(1));
        denials.note(0b1100, Some(2));
        denials.note(0b0100, Some(3));
        denials.note(0b0001, None);
        denials.note(0b1001, Some(1));
        let by_rung = [0, 1, 2, 3, 4].map(|rung| denials.of_rung(rung));
        assert_eq!(by_rung, [Some((3, 1)), Some((1, 1)), Some((1, 1)), Some((3, 2)), None]);
        assert_eq!(denials.clients_of_rung(0, |client| client > 1), Some(0));
        assert_eq!(denials.clients_of_rung(3, |client| client > 1), Some(1));
        denials.keep(&[2]);
        assert_eq!(denials.of_rung(3), Some((3, 1)));
    }
}
