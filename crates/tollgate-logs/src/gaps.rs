//! Times without requests.

/// A time without requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gap {
    /// The beginning of the last request before it, in microseconds since the epoch.
    pub from_micros: i64,
    /// The beginning of the first request after it, in microseconds since the epoch.
    pub to_micros: i64,
}

impl Gap {
    /// The minimum length of a gap: ten minutes.
    pub const LEAST_MICROS: i64 = 600_000_000;
    /// The maximum number of reported gaps.
    pub const MOST: usize = 10;

    const fn micros(&self) -> i64 {
        self.to_micros.saturating_sub(self.from_micros)
    }
}

/// The longest times between requests.
///
/// [`Summary`](crate::Summary) has those of all requests. A caller that skips some requests notes the others here.
///
/// ```
/// use tollgate_logs::Gaps;
///
/// let mut gaps = Gaps::default();
/// [0, 1_000_000, 3_600_000_000].map(|micros| gaps.note(micros));
/// let [gap] = gaps.longest() else { panic!("one gap") };
/// assert_eq!((gap.from_micros, gap.to_micros), (1_000_000, 3_600_000_000));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gaps {
    longest: Vec<Gap>,
    last: Option<i64>,
}

impl Gaps {
    /// Notes a request that began then, in microseconds since the epoch. Requests come in the order of time.
    pub fn note(&mut self, micros: i64) {
        let Some(before) = self.last.replace(micros) else { return };
        let gap = Gap { from_micros: before, to_micros: micros };
        if gap.micros() < Gap::LEAST_MICROS {
            return;
        }
        self.longest.push(gap);
        if self.longest.len() > Gap::MOST {
            let gaps = self.longest.iter().enumerate();
            let shortest = gaps.min_by_key(|(_, gap)| gap.micros()).map(|(place, _)| place);
            shortest.map(|place| self.longest.remove(place));
        }
    }

    /// Returns the longest gaps, in the order of time: those of at least [`Gap::LEAST_MICROS`], at most [`Gap::MOST`].
    #[must_use]
    pub fn longest(&self) -> &[Gap] {
        &self.longest
    }
}
