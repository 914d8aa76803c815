//! One figure, measured once a round.

use std::fmt;

/// The results of the rounds for one figure, in their order.
#[derive(Debug, Clone, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    pub fn push(&mut self, sample: f64) {
        self.0.push(sample);
    }

    /// Returns the median, or the lower one of two; 0 before the first round.
    pub fn median(&self) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or_default()
    }

    /// Returns the ratio to the other figure, round by round: a disturbance of a whole round affects both.
    #[must_use]
    pub fn ratios(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(ours, other)| ours / other).collect())
    }

    /// Returns the difference to the other figure, round by round.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(ours, other)| ours - other).collect())
    }
}

/// Prints the range: `least..greatest`.
impl fmt::Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, greatest) = match &self.0[..] {
            [] => (0.0, 0.0),
            samples => (
                samples.iter().copied().fold(f64::INFINITY, f64::min),
                samples.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            ),
        };
        write!(f, "{}..{}", figure(least), figure(greatest))
    }
}

/// Formats a figure with at least three digits.
pub fn figure(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
