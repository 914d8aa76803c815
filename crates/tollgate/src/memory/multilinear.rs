//! A hash with proven bounds even if attackers choose the keys: the multilinear multiply-shift scheme of
//! Dietzfelbinger, as Thorup states it for strings ("High Speed Hashing for Integers and Strings", 2015, section 4).
//!
//! With multipliers `a` of 128 random bits and words `x` of at most 48 bits,
//!
//! ```text
//!  h(x) = ((a0 + a1 x1 + a2 x2 + ...) mod 2^128) >> 48
//! ```
//!
//! is strongly universal, because 128 >= 48 + 80 - 1: the 80-bit values of any two different lists of words are uniform
//! and independent. So two of them are equal with a chance of 2^-80, whatever the lists are, as long as they were
//! chosen without knowledge of the multipliers. The terms of the sum are independent, so a processor computes several
//! words at once.

/// Bytes in a word.
const WORD: usize = 6;

/// The bits of a word.
const MASK: u64 = (1 << (8 * WORD)) - 1;

/// Words of a text that have a multiplier: 192 bytes.
const WORDS: usize = 32;

/// The bytes of a value.
const VALUE: usize = 10;

/// One random function: `a0`, and the multipliers of a head and of a text.
pub(super) struct Multilinear {
    first: u128,
    head: u128,
    text: [u128; WORDS],
}

impl Multilinear {
    /// Creates a function with multipliers from this source, which must return 64 independent random bits each time.
    pub(super) fn new(mut random: impl FnMut() -> u64) -> Self {
        let mut multiplier = || u128::from(random()) << 64 | u128::from(random());
        Self { first: multiplier(), head: multiplier(), text: std::array::from_fn(|_| multiplier()) }
    }

    /// The longest text that the function takes, in bytes.
    pub(super) const LONGEST: usize = WORD * WORDS;

    /// The value of the words of `text` after the word `head`, which is below 2^48. Bytes beyond the
    /// [longest](Self::LONGEST) text are ignored. A text and the same text followed by zeros have the same value; the
    /// head must tell them apart.
    ///
    /// `shift` is added to the sum, so each shift makes another function. The values of one text under two shifts
    /// differ if the shifts differ by 2^48 or more; those of two texts are still independent.
    #[inline(always)]
    pub(super) fn of(&self, shift: u128, head: u64, text: &[u8]) -> Value {
        let product = |multiplier: &u128, word: u64| multiplier.wrapping_mul(u128::from(word));
        let mut sum = self.first.wrapping_add(shift).wrapping_add(product(&self.head, head));
        let mut multipliers = self.text.iter();
        let mut rest = text;
        // Read eight bytes at once, take six.
        while let Some(bytes) = rest.first_chunk()
            && let Some(multiplier) = multipliers.next()
        {
            sum = sum.wrapping_add(product(multiplier, u64::from_le_bytes(*bytes) & MASK));
            rest = rest.get(WORD..).unwrap_or_default();
        }
        // Up to seven bytes are left, one word or two; of eight or more bytes at least two are.
        let last = match text.last_chunk() {
            Some(bytes) => u64::from_le_bytes(*bytes) >> (64 - 8 * rest.len()),
            None => rest.iter().rev().fold(0, |last, byte| last << 8 | u64::from(*byte)),
        };
        for (word, multiplier) in [last & MASK, last >> (8 * WORD)].into_iter().zip(multipliers) {
            sum = sum.wrapping_add(product(multiplier, word));
        }
        Value(sum)
    }
}

/// 80 bits, above 48 bits that do not belong to the value.
#[derive(Clone, Copy)]
pub(super) struct Value(u128);

impl Value {
    /// The upper 64 bits.
    #[inline(always)]
    pub(super) const fn upper(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// The lower 16 bits.
    #[inline(always)]
    pub(super) const fn lower(self) -> u64 {
        (self.0 >> 48) as u64 & 0xffff
    }

    /// All bits.
    pub(super) fn bytes(self) -> [u8; VALUE] {
        let mut value = [0; VALUE];
        value.iter_mut().zip((self.0 >> 48).to_le_bytes()).for_each(|(to, from)| *to = from);
        value
    }
}

#[cfg(test)]
#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The sum in the way it is written above, on words that are cut one by one.
    fn by_the_formula(function: &Multilinear, shift: u128, head: u64, text: &[u8]) -> u128 {
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, byte| word << 8 | u128::from(*byte));
        let words = [u128::from(head)].into_iter().chain(text.chunks(WORD).map(word));
        let multipliers = [&function.head].into_iter().chain(&function.text);
        let products = multipliers.zip(words).map(|(multiplier, word)| multiplier.wrapping_mul(word));
        products.fold(function.first, u128::wrapping_add).wrapping_add(shift)
    }

    fn function(seed: u64) -> Multilinear {
        let mut state = seed;
        // SplitMix64.
        Multilinear::new(|| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ mixed >> 31
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn values_are_those_of_the_formula(
            seed: u64,
            shift: u128,
            head in 0..=MASK,
            text in prop::collection::vec(any::<u8>(), 0..=Multilinear::LONGEST),
        ) {
            let function = function(seed);
            prop_assert_eq!(function.of(shift, head, &text).0, by_the_formula(&function, shift, head, &text));
        }
    }

    #[test]
    fn texts_of_every_length_are_hashed_whole() {
        let function = function(1);
        for length in 0..=Multilinear::LONGEST {
            let text = vec![0xff; length];
            let value = function.of(1, 2, &text).0;
            assert_eq!(value, by_the_formula(&function, 1, 2, &text), "{length} bytes");
        }
    }
}
