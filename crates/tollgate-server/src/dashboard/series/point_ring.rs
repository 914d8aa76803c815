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
