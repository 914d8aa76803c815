//! One figure, measured once a round.

use std::fmt;

/// What the rounds gave for one figure.
#[derive(Debug, Clone, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    pub fn push(&mut self, sample: f64) {
        self.0.push(sample);
        self.0.sort_unstable_by(f64::total_cmp);
    }

    /// The middle one, the lower of two; 0 before the first round.
    pub fn median(&self) -> f64 {
        self.0.get(self.0.len().saturating_sub(1) / 2).copied().unwrap_or_default()
    }
}

/// The spread: `least..greatest`.
impl fmt::Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (least, greatest) = (self.0.first().unwrap_or(&0.0), self.0.last().unwrap_or(&0.0));
        write!(f, "{}..{}", figure(*least), figure(*greatest))
    }
}

/// Three digits or more, as a figure is read.
pub fn figure(value: f64) -> String {
    match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}
