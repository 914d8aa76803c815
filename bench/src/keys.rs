//! The keys that limiters are asked for, in the order in which they are asked.
//!
//! Each list is allocated in that order, so that reading the keys is sequential, as if they had just been
//! parsed, and only the limiter's own accesses are random.

/// How many keys are known in the cases named `1m`.
pub const MILLION: u32 = 1_000_000;

/// Enough that a cell seldom meets a key it has just brought into the cache by coming round.
const ACCESSES: usize = 1 << 21;

/// A text of 24 bytes.
pub fn key(number: u32) -> String {
    format!("tenant-17:user:{number:09}")
}

/// Every key once.
pub fn all(count: u32) -> Vec<String> {
    (0..count).map(key).collect()
}

/// The same key again and again; few enough to stay in the first-level cache.
pub fn hot() -> Vec<String> {
    (0..64).map(|_| key(0)).collect()
}

/// Every key as likely as every other.
pub fn uniform(count: u32) -> Vec<String> {
    let mut random = Random(1);
    (0..ACCESSES).map(|_| key((random.unit() * f64::from(count)) as u32)).collect()
}

/// Zipf's law with exponent 1: the k-th key is asked for 1/k times as often as the first.
pub fn zipf(count: u32) -> Vec<String> {
    let mut sum = 0.0;
    let cumulative: Vec<f64> = (1..=count)
        .map(|rank| {
            sum += 1.0 / f64::from(rank);
            sum
        })
        .collect();
    let mut random = Random(2);
    let mut draw = || {
        let point = random.unit() * sum;
        cumulative.partition_point(|upto| *upto < point) as u64 % u64::from(count)
    };
    // Scattered by a prime, so that frequent keys are no neighbours in memory.
    let scatter = |rank: u64| (rank * 7_368_787 % u64::from(count)) as u32;
    (0..ACCESSES).map(|_| key(scatter(draw()))).collect()
}

/// SplitMix64: the same keys in every run.
struct Random(u64);

impl Random {
    /// At least 0, below 1.
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
    fn keys_have_24_bytes() {
        assert_eq!(key(0).len(), 24);
        assert_eq!(key(MILLION - 1).len(), 24);
    }

    #[test]
    fn the_first_of_a_thousand_keys_has_its_share_by_zipf() {
        let hits = zipf(1_000).iter().filter(|text| **text == key(0)).count();
        let share = hits as f64 / ACCESSES as f64;
        // 1 / (1 + 1/2 + ... + 1/1000)
        assert!((share - 0.1336).abs() < 0.002, "{share}");
    }
}
