//! Random choices that a seed repeats.

/// xorshift64*.
pub(super) struct Random(u64);

impl Random {
    /// Makes neighbouring seeds begin far apart.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        self.next() as usize % bound
    }

    /// Returns true once in `times` calls, on average.
    pub(super) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(super) fn pick<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }

    pub(super) fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| self.next() as u8).collect()
    }

    /// Changes, removes or doubles a byte.
    pub(super) fn damage(&mut self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let at = self.below(bytes.len());
        match self.below(3) {
            0 => bytes[at] = self.next() as u8,
            1 => drop(bytes.remove(at)),
            _ => bytes.insert(at, bytes[at]),
        }
    }
}
