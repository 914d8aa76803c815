//! One item for each client.

/// One item for each client, by its number.
///
/// The items lie in pieces, each twice as long as the one before. So no item is moved when there are more clients, which
/// would take as much memory once more, and a few clients take little.
#[derive(Debug, Clone)]
pub(super) struct PerClient<T> {
    pieces: Vec<Vec<T>>,
}

/// The binary logarithm of the first piece's length.
const FIRST: u32 = 10;

impl<T> Default for PerClient<T> {
    fn default() -> Self {
        Self { pieces: Vec::new() }
    }
}

/// The piece of a client, and its place there.
fn place(client: u32) -> (usize, usize) {
    let shifted = u64::from(client) + (1 << FIRST);
    let piece = shifted.ilog2() - FIRST;
    (piece as usize, (shifted - (1 << (piece + FIRST))) as usize)
}

impl<T> PerClient<T> {
    pub(super) fn get(&self, client: u32) -> Option<&T> {
        let (piece, place) = place(client);
        self.pieces.get(piece)?.get(place)
    }

    /// All items, from the first client's on.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pieces.iter().flatten()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.pieces.iter_mut().flatten()
    }
}

impl<T: Clone + Default> PerClient<T> {
    /// The item of a client. Clients without one up to it get the default.
    pub(super) fn of(&mut self, client: u32) -> Option<&mut T> {
        let (piece, place) = place(client);
        if self.pieces.get(piece).is_none_or(|piece| place >= piece.len()) {
            self.grow(piece, place);
        }
        self.pieces.get_mut(piece)?.get_mut(place)
    }

    #[cold]
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

    /// Keeps the items of the clients that had these numbers, in ascending order, and numbers them anew.
    pub(super) fn keep(&mut self, kept: &[u32]) {
        let mut before = std::mem::take(&mut self.pieces);
        for (number, client) in (0..).zip(kept) {
            let (piece, place) = place(*client);
            let item = before.get_mut(piece).and_then(|items| items.get_mut(place)).map(std::mem::take);
            let Some(item) = item else { return };
            if let Some(of_client) = self.of(number) {
                *of_client = item;
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
        assert!(items.iter().copied().eq((0..20_000).map(expected)));
    }

    #[test]
    fn kept_clients_have_new_numbers() {
        let mut items = PerClient::default();
        (0..5_000).for_each(|client| *items.of(client).unwrap() = client);
        // Of the last one nothing is known.
        let kept: Vec<u32> = (0..5_000).step_by(3).chain([70_000]).collect();
        items.keep(&kept);
        assert!(items.iter().copied().eq((0..5_000).step_by(3)));
    }
}
