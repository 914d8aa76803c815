//! SipHash-1-3 (Aumasson and Bernstein, 2012, with the round counts that Rust's standard library uses too),
//! which gives more of its final state than the usual 64 bits.
//!
//! The usual output folds the four words of the state into one. A fingerprint needs 16 bits beside it and the
//! choice of a shard, so another fold of the same state is given as well: no round is added. Nobody outside the
//! process sees either of them.

/// The keyed hash of these bytes: the standard 64-bit output, and 64 bits more of the state it is folded from.
#[inline]
pub(super) fn sip13((first, second): (u64, u64), bytes: &[u8]) -> (u64, u64) {
    let mut state = State([
        first ^ 0x736f_6d65_7073_6575,
        second ^ 0x646f_7261_6e64_6f6d,
        first ^ 0x6c79_6765_6e65_7261,
        second ^ 0x7465_6462_7974_6573,
    ]);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        state.take(u64::from_le_bytes(*word));
    }
    // The last word ends with the length, modulo 256.
    let last = rest.iter().rev().fold(0, |last, byte| last << 8 | u64::from(*byte));
    state.take((bytes.len() as u64) << 56 | last);
    state.finish()
}

struct State([u64; 4]);

impl State {
    #[inline(always)]
    fn take(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.0[0] ^= word;
    }

    #[inline(always)]
    fn finish(mut self) -> (u64, u64) {
        self.0[2] ^= 0xff;
        for _ in 0..3 {
            self.round();
        }
        let [v0, v1, v2, v3] = self.0;
        (v0 ^ v1 ^ v2 ^ v3, v0.wrapping_add(v2) ^ v1.rotate_left(32))
    }

    #[inline(always)]
    fn round(&mut self) {
        let [v0, v1, v2, v3] = &mut self.0;
        *v0 = v0.wrapping_add(*v1);
        *v2 = v2.wrapping_add(*v3);
        *v1 = v1.rotate_left(13) ^ *v0;
        *v3 = v3.rotate_left(16) ^ *v2;
        *v0 = v0.rotate_left(32);
        *v2 = v2.wrapping_add(*v1);
        *v0 = v0.wrapping_add(*v3);
        *v1 = v1.rotate_left(17) ^ *v2;
        *v3 = v3.rotate_left(21) ^ *v0;
        *v2 = v2.rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use std::hash::Hasher;

    use siphasher::sip::SipHasher13;

    use super::*;

    #[test]
    fn the_first_word_is_the_standard_output() {
        let bytes: Vec<u8> = (0..=255).cycle().take(600).collect();
        for length in (0..64).chain([255, 256, 257, 600]) {
            let keys = (0x0706_0504_0302_0100 ^ length as u64, 0x0f0e_0d0c_0b0a_0908);
            let mut standard = SipHasher13::new_with_keys(keys.0, keys.1);
            standard.write(&bytes[..length]);
            assert_eq!(sip13(keys, &bytes[..length]).0, standard.finish(), "{length} bytes");
        }
    }

    #[test]
    fn every_bit_of_the_second_word_changes_with_half_of_the_inputs() {
        let mut ones = [0_u32; 64];
        for input in 0..10_000_u64 {
            let (first, second) = sip13((1, 2), &input.to_le_bytes());
            let mixed = second ^ first.rotate_left(7);
            ones.iter_mut().enumerate().for_each(|(bit, ones)| *ones += (mixed >> bit & 1) as u32);
        }
        assert!(ones.iter().all(|ones| (4_700..5_300).contains(ones)), "{ones:?}");
    }
}
