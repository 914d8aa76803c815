//! One item for each client.

use std::collections::HashMap;

use prefetch_index::prefetch_index;

/// One item for each client, by its number.
///
/// The items lie in pieces, each twice as long as the one before. So no item is moved when there are more clients,
/// which would take as much memory once more, and a few clients take little. Clients far behind the others are kept
/// apart until they are many: a quota of one override sees one client, and that may have any number.
#[derive(Debug, Clone)]
pub(crate) struct PerClient<T> {
    /// The items of the clients up to a number, also of those that have none.
    pieces: Vec<Vec<T>>,
    /// Those of clients behind them.
    far: HashMap<u32, T>,
    /// The greatest number among these.
    farthest: u32,
}

/// Items that pieces may hold for each client that has one.
const SPARSE: u64 = 32;

/// The binary logarithm of the first piece's length.
const FIRST: u32 = 10;

impl<T> Default for PerClient<T> {
    fn default() -> Self {
        Self { pieces: Vec::new(), far: HashMap::new(), farthest: 0 }
    }
}

/// The piece of a client, and its place there.
fn place(client: u32) -> (usize, usize) {
    let shifted = u64::from(client) + (1 << FIRST);
    let piece = shifted.ilog2() - FIRST;
    (piece as usize, (shifted - (1 << (piece + FIRST))) as usize)
}

impl<T> PerClient<T> {
    pub(crate) fn get(&self, client: u32) -> Option<&T> {
        let (piece, place) = place(client);
        let near = self.pieces.get(piece).and_then(|piece| piece.get(place));
        near.or_else(|| if self.far.is_empty() { None } else { self.far.get(&client) })
    }

    /// Prefetches the memory of a client's item, which may be longer than the rest of a cache line.
    pub(crate) fn prefetch(&self, client: u32) {
        let (piece, place) = place(client);
        if let Some(piece) = self.pieces.get(piece) {
            prefetch_index(piece, place);
            prefetch_index(piece, place + 1);
        }
    }

    /// All items, with the numbers of their clients.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let near = (0..).zip(self.pieces.iter().flatten());
        near.chain(self.far.iter().map(|(client, item)| (*client, item)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.pieces.iter_mut().flatten().chain(self.far.values_mut())
    }
}

impl<T: Clone + Default> PerClient<T> {
    /// The item of a client, which is the default at first.
    pub(crate) fn of(&mut self, client: u32) -> Option<&mut T> {
        let (piece, place) = place(client);
        if self.pieces.get(piece).is_none_or(|piece| place >= piece.len()) && !self.reach(client) {
            return self.far.get_mut(&client);
        }
        self.pieces.get_mut(piece)?.get_mut(place)
    }

    /// Makes room for a client behind all pieces. Returns whether it is in the pieces now.
    #[cold]
    fn reach(&mut self, client: u32) -> bool {
        if self.far.contains_key(&client) {
            return false;
        }
        let farthest = if self.far.is_empty() { client } else { self.farthest.max(client) };
        let near: u64 = self.pieces.iter().map(|piece| piece.len() as u64).sum();
        let clients = self.far.len() as u64 + 1;
        if (u64::from(farthest) + 1).saturating_sub(near) > SPARSE * clients {
            self.far.insert(client, T::default());
            self.farthest = farthest;
            return false;
        }
        let (piece, last) = place(farthest);
        self.grow(piece, last);
        for (client, item) in std::mem::take(&mut self.far) {
            let (piece, place) = place(client);
            if let Some(slot) = self.pieces.get_mut(piece).and_then(|piece| piece.get_mut(place)) {
                *slot = item;
            }
        }
        true
    }

    fn grow(&mut self, piece: usize, place: usize) {
        while self.pieces.len() <= piece {
            let length = 1 << (self.pieces.len() + FIRST as usize);
            if let Some(last) = self.pieces.last_mut() {
                last.resize(length / 2, T::default());
            }
            // Memory that is not written to is not taken.
            self.pieces.push(Vec::with_capacity(length));
        }
        if let Some(items) = self.pieces.get_mut(piece) {
            items.resize(items.len().max(place + 1), T::default());
        }
    }

    /// Keeps the items of the clients that had these numbers, in ascending order, and renumbers them.
    pub(crate) fn keep(&mut self, kept: &[u32]) {
        let mut before = std::mem::take(self);
        for (number, client) in (0..).zip(kept) {
            let (piece, place) = place(*client);
            let near = before.pieces.get_mut(piece).and_then(|items| items.get_mut(place));
            let item = near.map(std::mem::take).or_else(|| before.far.remove(client));
            if let Some((item, slot)) = item.and_then(|item| Some((item, self.of(number)?))) {
                *slot = item;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_its_own_item() {
        let mut items = PerClient::default();
        for client in (0..20_000).rev().step_by(7) {
            *items.of(client).unwrap() = client + 1;
        }
        let expected = |client: u32| if (19_999 - client).is_multiple_of(7) { client + 1 } else { 0 };
        for client in 0..20_000 {
            assert_eq!(items.get(client), Some(&expected(client)), "{client}");
        }
        assert_eq!(items.get(20_000), None);
        assert!(items.iter().map(|(_, item)| *item).eq((0..20_000).map(expected)));
    }

    #[test]
    fn kept_clients_have_new_numbers() {
        let mut items = PerClient::default();
        (0..5_000).for_each(|client| *items.of(client).unwrap() = client);
        // Of the last one nothing is known.
        let kept: Vec<u32> = (0..5_000).step_by(3).chain([70_000]).collect();
        items.keep(&kept);
        assert!(items.iter().map(|(_, item)| *item).eq((0..5_000).step_by(3)));
    }

    /// A quota of an override with one late client took as much memory as one of all clients: a table of a hundred
    /// thousand tenants, more than the machine has.
    #[test]
    fn few_clients_take_little_whatever_their_numbers_are() {
        let near = |items: &PerClient<u32>| items.pieces.iter().map(Vec::len).sum::<usize>();
        let mut items = PerClient::default();
        *items.of(2_000_000).unwrap() = 7;
        *items.of(5).unwrap() = 8;
        *items.of(1_000_000).unwrap() = 9;
        assert_eq!((near(&items), items.far.len()), (0, 3));
        let all: Vec<Option<&u32>> = [5, 1_000_000, 2_000_000, 6].map(|client| items.get(client)).into();
        assert_eq!(all, [Some(&8), Some(&9), Some(&7), None]);
        items.keep(&[6, 1_000_000, 2_000_000]);
        let mut kept: Vec<(u32, u32)> = items.iter().map(|(client, item)| (client, *item)).collect();
        kept.retain(|(_, item)| *item > 0);
        kept.sort_unstable();
        assert_eq!(kept, [(1, 9), (2, 7)]);
        // Where every thirtieth client has an item, they are found by place.
        (0..60_000).step_by(30).for_each(|client| *items.of(client).unwrap() = client + 1);
        assert!(near(&items) > 50_000 && items.far.len() < 40, "{} {}", near(&items), items.far.len());
        assert!((0..60_000).step_by(30).all(|client| items.get(client) == Some(&(client + 1))));
    }
}
