//! One bit for each client.

/// A set of clients, by their numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub(super) fn insert(&mut self, client: u32) {
        let place = client as usize / 64;
        if place >= self.0.len() {
            self.0.resize(place + 1, 0);
        }
        if let Some(word) = self.0.get_mut(place) {
            *word |= 1 << (client % 64);
        }
    }

    pub(super) fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Keeps the clients that had these numbers.
    pub(super) fn keep(&mut self, kept: &[u32]) {
        let before = std::mem::take(self);
        for (number, _) in (0..).zip(kept).filter(|(_, client)| before.contains(**client)) {
            self.insert(number);
        }
    }

    fn contains(&self, client: u32) -> bool {
        self.0.get(client as usize / 64).is_some_and(|word| word >> (client % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_clients_have_new_numbers() {
        let mut bits = Bits::default();
        [1, 63, 64, 200].into_iter().for_each(|client| bits.insert(client));
        assert_eq!(bits.count(), 4);
        bits.keep(&[0, 63, 100, 200]);
        let kept: Vec<u32> = (0..300).filter(|client| bits.contains(*client)).collect();
        assert_eq!(kept, [1, 3]);
    }
}
