//! Numbers in few bytes, for what is kept of each of millions of clients.

use tollgate::Timestamp;

/// A number in this many bytes, at most 7. A greater one becomes the greatest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct PackedNumber<const BYTES: usize>([u8; BYTES]);

/// A count. It saturates where the engine's counts do, above 10^12.
pub(crate) type Count = PackedNumber<5>;

/// A point in time in milliseconds, a million years around 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Moment(PackedNumber<7>);

impl<const BYTES: usize> PackedNumber<BYTES> {
    const GREATEST: u64 = (1 << (8 * BYTES)) - 1;

    #[inline]
    pub(crate) fn of(number: u64) -> Self {
        let number = number.min(Self::GREATEST);
        // Shifts become moves of registers; a copy between arrays of bytes would be a call.
        Self(std::array::from_fn(|place| (number >> (8 * place)) as u8))
    }

    #[inline]
    pub(crate) fn get(self) -> u64 {
        self.0.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    #[inline]
    pub(crate) fn add(&mut self, number: u64) {
        *self = Self::of(self.get().saturating_add(number));
    }
}

impl<const BYTES: usize> Default for PackedNumber<BYTES> {
    fn default() -> Self {
        Self([0; BYTES])
    }
}

impl Moment {
    /// The offset that keeps numbers from being negative.
    const SHIFT: i64 = 1 << 55;

    pub(crate) fn at(time: Timestamp) -> Self {
        let shifted = time.as_unix_millis().clamp(-Self::SHIFT, Self::SHIFT - 1) + Self::SHIFT;
        Self(PackedNumber::of(shifted.cast_unsigned()))
    }

    pub(crate) fn time(self) -> Timestamp {
        Timestamp::from_unix_millis(self.0.get().cast_signed() - Self::SHIFT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_up_to_the_greatest() {
        for number in [0, 1, 255, 256, (1 << 40) - 2, (1 << 40) - 1] {
            assert_eq!(Count::of(number).get(), number);
        }
        assert_eq!(Count::of(1 << 40).get(), (1 << 40) - 1);
        let mut count = Count::of((1 << 40) - 3);
        count.add(2);
        assert_eq!(count.get(), (1 << 40) - 1);
        count.add(u64::MAX);
        assert_eq!(count.get(), (1 << 40) - 1);
    }

    #[test]
    fn times_come_back() {
        // The years 0 and 9999 among them.
        for millis in [-(1 << 55), -62_167_219_200_000, -1, 0, 1, 253_402_300_799_999, (1 << 55) - 1] {
            let time = Timestamp::from_unix_millis(millis);
            assert_eq!(Moment::at(time).time(), time);
        }
        let last = Timestamp::from_unix_millis((1 << 55) - 1);
        assert_eq!(Moment::at(Timestamp::from_unix_millis(i64::MAX)).time(), last);
    }
}
