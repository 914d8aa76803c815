//! The keys for limiters, in the order of their use.
//!
//! They are adjacent in one text, so that reading them is sequential, as if they had just been parsed. Only the
//! limiter's own accesses are random.

use std::fmt::Write;

/// The number of known keys in the cases named `1m`.
pub const MILLION: u32 = 1_000_000;

/// Bytes of a key.
pub const BYTES: usize = 24;

/// The keys of one call; a multiple of 16, small enough for the first-level cache.
pub const CHUNK: usize = 64;

/// Enough that a measurement rarely meets a key that it has just cached in its previous pass.
const ACCESSES: usize = 1 << 21;

/// The keys of one call, in two equivalent forms.
#[derive(Clone, Copy)]
pub struct Chunk<'a> {
    pub texts: &'a [&'a str],
    /// For peers that take a `&String`, without a copy.
    pub strings: &'a [String],
}

/// A whole number of chunks of keys, as one text.
#[derive(Default)]
pub struct Texts(String);

/// A whole number of chunks of keys, in both forms.
pub struct Keys {
    texts: Texts,
    strings: Vec<String>,
}

/// Overwrites the text with a key of 24 bytes. Numbers go up to 999,999,999.
pub fn write_key(text: &mut String, number: u32) {
    text.clear();
    append_key(text, number);
}

fn append_key(text: &mut String, number: u32) {
    // Writing to a `String` cannot fail.
    let _ = write!(text, "tenant-17:user:{number:09}");
}

/// Every key once.
pub fn all(count: u32) -> Keys {
    (0..count).collect()
}

/// The same few keys again and again; they stay in the first-level cache.
pub fn hot() -> Keys {
    [0; CHUNK].into_iter().collect()
}

/// Every key equally likely.
pub fn uniform(count: u32) -> Keys {
    let mut random = Random::new(1);
    (0..ACCESSES).map(|_| random.below(count)).collect()
}

/// Zipf's law with exponent 1: the k-th key comes 1/k times as often as the first.
pub fn zipf(count: u32) -> Keys {
    zipf_numbers(count).collect()
}

fn zipf_numbers(count: u32) -> impl Iterator<Item = u32> {
    let mut sum = 0.0;
    let cumulative: Vec<f64> = (1..=count)
        .map(|rank| {
            sum += 1.0 / f64::from(rank);
            sum
        })
        .collect();
    let mut random = Random::new(2);
    let mut draw = move || {
        let point = random.unit() * sum;
        cumulative.partition_point(|upto| *upto < point) as u64 % u64::from(count)
    };
    // Scattered by a prime, so that frequent keys are not adjacent in memory.
    let scatter = move |rank: u64| (rank * 7_368_787 % u64::from(count)) as u32;
    (0..ACCESSES).map(move |_| scatter(draw()))
}

impl Texts {
    /// Overwrites the keys with these; an incomplete last chunk is dropped.
    pub fn write(&mut self, numbers: impl IntoIterator<Item = u32>) {
        self.0.clear();
        numbers.into_iter().for_each(|number| append_key(&mut self.0, number));
        self.0.truncate(self.chunks() * CHUNK * BYTES);
    }

    pub fn chunks(&self) -> usize {
        self.0.len() / (CHUNK * BYTES)
    }

    /// # Panics
    ///
    /// Unless `chunk` is less than [`chunks`](Self::chunks).
    #[inline]
    pub fn chunk(&self, chunk: usize) -> [&str; CHUNK] {
        let text = &self.0[chunk * CHUNK * BYTES..][..CHUNK * BYTES];
        std::array::from_fn(|key| &text[key * BYTES..][..BYTES])
    }
}

impl Keys {
    pub fn texts(&self) -> &Texts {
        &self.texts
    }

    /// # Panics
    ///
    /// Unless there is such a chunk.
    #[inline]
    pub fn strings(&self, chunk: usize) -> &[String] {
        &self.strings[chunk * CHUNK..][..CHUNK]
    }
}

/// Drops an incomplete last chunk.
impl FromIterator<u32> for Keys {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        let numbers: Vec<u32> = numbers.into_iter().collect();
        let mut texts = Texts::default();
        texts.write(numbers.iter().copied());
        let string = |number: &u32| {
            let mut text = String::with_capacity(BYTES);
            append_key(&mut text, *number);
            text
        };
        Self { texts, strings: numbers.iter().map(string).collect() }
    }
}

/// SplitMix64: the same numbers in every run.
pub struct Random(u64);

impl Random {
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number below `count`, all equally likely.
    pub fn below(&mut self, count: u32) -> u32 {
        (self.unit() * f64::from(count)) as u32
    }

    /// Returns a number from 0 up to, but not including, 1.
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_say_the_same_keys_of_24_bytes() {
        let keys: Keys = (999_999_999 - 200..=999_999_999).collect();
        assert_eq!(keys.texts().chunks(), 3);
        for chunk in 0..3 {
            assert_eq!(&keys.texts().chunk(chunk)[..], keys.strings(chunk));
            assert!(keys.strings(chunk).iter().all(|text| text.len() == BYTES));
        }
        assert_eq!(keys.strings(1)[0], "tenant-17:user:999999863");
    }

    #[test]
    fn the_first_of_a_thousand_keys_has_its_share_by_zipf() {
        let hits = zipf_numbers(1_000).filter(|number| *number == 0).count();
        let share = hits as f64 / ACCESSES as f64;
        // 1 / (1 + 1/2 + ... + 1/1000)
        assert!((share - 0.1336).abs() < 0.002, "{share}");
    }
}
