//! Scales of axes, and the round numbers that are written at them.

/// Ticks of an axis, at most: they must not touch on a narrow page.
const MOST_TICKS: usize = 6;

/// A scale from one value to another.
#[derive(Debug)]
pub(crate) struct Scale {
    is_logarithmic: bool,
    from: u64,
    to: u64,
    ticks: Vec<u64>,
}

impl Scale {
    /// A scale of amounts from 0. It is logarithmic if a linear one would hide the smallest amount.
    pub(crate) fn amounts(values: impl Iterator<Item = u64> + Clone) -> Self {
        let most = values.clone().max().unwrap_or(0);
        let least = values.filter(|value| *value > 0).min().unwrap_or(0);
        if least.saturating_mul(200) < most {
            let to = steps().find(|step| *step >= most).unwrap_or(most);
            let mut scale = Self { is_logarithmic: true, from: 0, to, ticks: Vec::new() };
            // Neither 1 may touch 0, nor the last power the end.
            let is_apart = |power: &u64| power.saturating_mul(5) <= to && scale.place(*power) > 0.1;
            let powers: Vec<u64> = powers(to).filter(is_apart).collect();
            let powers = thinned(&powers, MOST_TICKS - 2);
            scale.ticks = [0].into_iter().chain(powers).chain([to]).collect();
            return scale;
        }
        Self::linear(most)
    }

    /// A scale of amounts from 0 on which twice as much is twice as long.
    pub(crate) fn linear(most: u64) -> Self {
        let most = most.max(2);
        let step = steps().find(|step| most.div_ceil(*step) <= 4).unwrap_or(most);
        let to = most.div_ceil(step).saturating_mul(step);
        Self { is_logarithmic: false, from: 0, to, ticks: multiples(step, 0, to) }
    }

    /// A scale of limits between two of them, which are its ends. Only if they are near one another, it is not
    /// logarithmic, so that charts look the same.
    pub(crate) fn limits(from: u64, to: u64) -> Self {
        let from = from.min(to);
        if from > 0 && to / from >= 3 {
            let mut scale = Self { is_logarithmic: true, from, to, ticks: Vec::new() };
            let [many, .., tens] = ROUND.map(|digits| round(digits, from, to));
            let fitting = ROUND.iter().map(|digits| round(digits, from, to)).find(|ticks| scale.fits(ticks));
            scale.ticks =
                fitting.unwrap_or_else(|| thinned(if tens.len() >= 3 { &tens } else { &many }, MOST_TICKS));
            return scale;
        }
        let all = steps().take_while(|step| *step <= to.max(1)).map(|step| multiples(step, from, to));
        let fitting = all.filter(|ticks| ticks.len() <= MOST_TICKS + 1);
        let ticks = fitting.max_by_key(Vec::len).unwrap_or_else(|| vec![from, to]);
        Self { is_logarithmic: false, from, to, ticks }
    }

    /// Whether there are enough ticks, and none touches another.
    fn fits(&self, ticks: &[u64]) -> bool {
        let is_apart = |pair: &[u64]| matches!(pair, [a, b] if self.place(*b) - self.place(*a) > 0.11);
        (3..=MOST_TICKS).contains(&ticks.len()) && ticks.windows(2).all(is_apart)
    }

    /// Returns where a value is, as a share of the length.
    pub(crate) fn place(&self, value: u64) -> f64 {
        let value = value.clamp(self.from, self.to);
        let length = |value: u64| match self.is_logarithmic {
            // One more than the number, so that 0 has a place.
            true if self.from == 0 => ((value + 1) as f64).ln(),
            true => (value as f64).ln(),
            false => value as f64,
        };
        let (from, to) = (length(self.from), length(self.to));
        if to > from { (length(value) - from) / (to - from) } else { 0.5 }
    }

    pub(crate) fn ticks(&self) -> &[u64] {
        &self.ticks
    }

    pub(crate) const fn is_logarithmic(&self) -> bool {
        self.is_logarithmic
    }
}

/// The first digits of round numbers in tenths, from many to few.
const ROUND: [&[u64]; 4] = [&[10, 15, 20, 30, 40, 50, 70], &[10, 20, 30, 50], &[10, 20, 50], &[10]];

/// Round numbers between two others.
fn round(digits: &[u64], from: u64, to: u64) -> Vec<u64> {
    let tenths = powers(to).flat_map(|power| digits.iter().map(move |digit| power.saturating_mul(*digit)));
    tenths
        .filter(|tenths| tenths % 10 == 0)
        .map(|tenths| tenths / 10)
        .filter(|round| (from..=to).contains(round))
        .collect()
}

/// 1, 2, 5, 10, 20, 50, and so on.
fn steps() -> impl Iterator<Item = u64> {
    (0..19).flat_map(|exponent| [1, 2, 5].map(|digit| 10_u64.pow(exponent).saturating_mul(digit)))
}

/// Powers of ten up to this value.
fn powers(most: u64) -> impl Iterator<Item = u64> {
    (0..20).map(|exponent| 10_u64.saturating_pow(exponent)).take_while(move |power| *power <= most)
}

fn multiples(step: u64, from: u64, to: u64) -> Vec<u64> {
    (from.div_ceil(step)..=to / step).take(1_000).map(|times| times * step).collect()
}

/// The last of them, and others at equal distances.
fn thinned(values: &[u64], most: usize) -> Vec<u64> {
    let step = values.len().div_ceil(most).max(1);
    let mut values: Vec<u64> = values.iter().rev().step_by(step).copied().collect();
    values.reverse();
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_round_ticks_from_zero() {
        for (values, ticks) in [
            (vec![0, 38], vec![0, 10, 20, 30, 40]),
            (vec![0], vec![0, 1, 2]),
            (vec![1], vec![0, 1, 2]),
            (vec![7], vec![0, 2, 4, 6, 8]),
            (vec![3, 40_000], vec![0, 10, 100, 1_000, 10_000, 50_000]),
            (vec![3, 12_000], vec![0, 10, 100, 1_000, 20_000]),
        ] {
            assert_eq!(Scale::amounts(values.iter().copied()).ticks(), ticks, "{values:?}");
        }
    }

    #[test]
    fn limits_have_ticks_within_what_was_tried() {
        for (from, to, ticks) in [
            (10, 40, vec![10, 15, 20, 30, 40]),
            (30, 40, vec![30, 32, 34, 36, 38, 40]),
            (3, 7, vec![3, 4, 5, 6, 7]),
            (1, 30, vec![1, 2, 5, 10, 20]),
            (1, 30_000, vec![1, 10, 100, 1_000, 10_000]),
            (5, 120, vec![5, 10, 20, 30, 50, 100]),
        ] {
            let scale = Scale::limits(from, to);
            assert_eq!(scale.ticks(), ticks, "{from} to {to}");
            assert_eq!((scale.place(from), scale.place(to)), (0.0, 1.0));
        }
    }

    /// Every scale of at least three values has three ticks and no more than fit.
    #[test]
    fn every_scale_has_several_ticks() {
        for from in 1..200_u64 {
            for to in from + 2..from + 400 {
                let ticks = Scale::limits(from, to).ticks().len();
                assert!((3..=MOST_TICKS + 1).contains(&ticks), "{from} to {to}: {ticks}");
            }
        }
        for most in 0..5_000 {
            assert!((3..=MOST_TICKS).contains(&Scale::linear(most).ticks().len()), "{most}");
        }
    }
}
