//! The last points of a series, by their numbers.

/// A ring of so many points. Numbers only grow; a new point replaces the oldest one.
#[derive(Debug, Clone)]
pub(super) struct PointRing<T>(Box<[T]>);

impl<T: Copy + Default> PointRing<T> {
    pub(super) fn new(length: usize) -> Self {
        Self(vec![T::default(); length].into())
    }

    /// Returns the point of this number. The caller knows which numbers there are.
    pub(super) fn get(&self, number: u64) -> T {
        self.0.get(self.place(number)).copied().unwrap_or_default()
    }

    pub(super) fn point(&mut self, number: u64) -> Option<&mut T> {
        let place = self.place(number);
        self.0.get_mut(place)
    }

    /// Returns so many points, up to the one of this number, the oldest one first. Those before the first one ever are
    /// as they were made.
    pub(super) fn latest(&self, number: u64, count: usize) -> impl Iterator<Item = &T> {
        let (newer, older) = self.0.split_at_checked(self.place(number) + 1).unwrap_or_default();
        let (from_older, from_newer) = (count.saturating_sub(newer.len()), count.min(newer.len()));
        let end_of = |slice: &'_ [T], count: usize| slice.len().saturating_sub(count);
        let older = older.get(end_of(older, from_older)..).unwrap_or_default();
        let newer = newer.get(end_of(newer, from_newer)..).unwrap_or_default();
        older.iter().chain(newer)
    }

    /// Clears the points behind the last one up to this number, so that nothing of an earlier round is left.
    pub(super) fn clear(&mut self, last: u64, number: u64) {
        // Of a long gap, each place is cleared once.
        let first = number.saturating_sub(self.0.len() as u64).max(last);
        for number in first..number {
            if let Some(point) = self.point(number + 1) {
                *point = T::default();
            }
        }
    }

    fn place(&self, number: u64) -> usize {
        (number % self.0.len().max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_points_are_those_of_their_numbers_in_every_place() {
        let mut ring = PointRing::new(7);
        for number in 1..40_u64 {
            ring.clear(number - 1, number);
            ring.point(number).into_iter().for_each(|point| *point = number);
            for count in 0..=7 {
                let latest: Vec<u64> = ring.latest(number, count).copied().collect();
                let expected = (0..count as u64).rev().map(|ago| number.saturating_sub(ago));
                assert_eq!(latest, expected.collect::<Vec<_>>(), "{count} up to {number}");
            }
        }
    }
}
