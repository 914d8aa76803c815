//! The most that a quota admits in a time of its window's length.

use super::{BurstSeries, Quota, Series};

impl Quota {
    /// Returns the most units that are admitted in any time of a window's length, wherever it begins: twice the limit
    /// for fixed windows, and the limit only for a log. Overdrafts, and units counted without asking for room, are not
    /// bounded by it.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate::Quota;
    ///
    /// let most = |text: &str| text.parse().map(|quota: Quota| quota.most_in_any_window());
    /// assert_eq!(most("100/1m")?, 200);
    /// assert_eq!(most("100/1m~burst:20")?, 119);
    /// assert_eq!(most("100/1m~sliding")?, 199);
    /// assert_eq!(most("100/1m~log")?, 100);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub fn most_in_any_window(&self) -> u64 {
        // A time of `window` milliseconds has its first and its last one `window - 1` apart.
        let back_after = |window: u64, apart: u64| {
            let units = u128::from(self.limit) * u128::from(apart) / u128::from(window);
            u64::try_from(units).unwrap_or(u64::MAX)
        };
        match &self.series {
            // What drains is never charged.
            Series::Burst(BurstSeries { bucket, .. }) if bucket.burst() == 0 => 0,
            Series::Burst(BurstSeries { window, bucket, .. }) => {
                bucket.burst() + back_after(*window, window - 1)
            }
            // Nothing fits while units of the window before weigh fully, which they do in its first millisecond.
            Series::Sliding { window, .. } => self.limit + back_after(*window, window.saturating_sub(2)),
            Series::Log { .. } => self.limit,
            _ => 2 * self.limit,
        }
    }
}
