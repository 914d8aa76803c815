//! The band of a share that is estimated from a sample.

/// Where a share lies with a confidence of 95 %.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Band {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// The quantile of the normal distribution for 95 % in the middle.
const Z: f64 = 1.959_963_984_540_054;

impl Band {
    /// Returns the interval of Wilson's score for so many of `all` (E. B. Wilson: "Probable Inference, the Law of
    /// Succession, and Statistical Inference", Journal of the American Statistical Association 22, 1927); `None` if there
    /// are none at all. Unlike the usual interval, it is right also for few keys, and for shares near 0 and 1.
    pub(super) fn of(some: u64, all: u64) -> Option<Self> {
        if all == 0 {
            return None;
        }
        let (n, share, z2) = (all as f64, some as f64 / all as f64, Z * Z);
        let middle = share + z2 / (2.0 * n);
        let width = Z * (share * (1.0 - share) / n + z2 / (4.0 * n * n)).sqrt();
        let scale = 1.0 + z2 / n;
        let bound = |bound: f64| (bound / scale).clamp(0.0, 1.0);
        // Rounding must not keep a bound from its end.
        let low = if some == 0 { 0.0 } else { bound(middle - width) };
        let high = if some == all { 1.0 } else { bound(middle + width) };
        Some(Self { low, high })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By another implementation of the formula.
    #[test]
    fn the_band_is_that_of_wilson() {
        for (some, all, low, high) in [
            (0, 10, 0.0, 0.277_532_8),
            (1, 10, 0.017_876_2, 0.404_150_0),
            (5, 10, 0.236_593_1, 0.763_406_9),
            (10, 10, 0.722_467_2, 1.0),
            (30, 1_000, 0.021_093_7, 0.042_503_4),
        ] {
            let band = Band::of(some, all).unwrap();
            let is_near = |one: f64, other: f64| (one - other).abs() < 5e-6;
            assert!(is_near(band.low, low) && is_near(band.high, high), "{some} of {all}: {band:?}");
        }
        assert_eq!(Band::of(0, 0), None);
    }
}
