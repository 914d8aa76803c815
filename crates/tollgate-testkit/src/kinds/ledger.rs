//! What a quota has admitted, and what it may admit by the definition of its promise.

use tollgate::{Quota, QuotaKind, Timestamp, WindowLength};

/// Admitted requests. It has no level and no stored state: every question is answered from all of them, in whole numbers
/// and without a division.
#[derive(Debug, Clone)]
pub struct AdmissionLedger {
    kind: QuotaKind,
    limit: u128,
    burst: u128,
    /// In milliseconds.
    window: i64,
    /// Of a log.
    step: i64,
    admitted: Vec<(i64, u128)>,
}

impl AdmissionLedger {
    /// Creates the ledger of a bucket, of a log, or of a sliding window whose windows are aligned to the epoch.
    ///
    /// # Panics
    ///
    /// For any other quota.
    #[must_use]
    pub fn new(quota: &Quota) -> Self {
        let WindowLength::Fixed(window) = quota.window() else { panic!("{quota} has no fixed length") };
        Self {
            kind: quota.kind(),
            limit: quota.limit().into(),
            burst: quota.capacity().into(),
            window: i64::try_from(window.as_millis()).unwrap(),
            step: quota.log_step().map_or(1, |step| i64::try_from(step.as_millis()).unwrap()),
            admitted: Vec::new(),
        }
    }

    /// Notes that this many units were admitted.
    pub fn admit(&mut self, now: Timestamp, units: u64) {
        self.admitted.push((now.as_unix_millis(), units.into()));
    }

    /// Returns whether this many units more are admitted at this time.
    ///
    /// # Panics
    ///
    /// If the quota counts in fixed windows.
    #[must_use]
    pub fn admits(&self, now: Timestamp, cost: u64) -> bool {
        let (now, cost) = (now.as_unix_millis(), u128::from(cost));
        match self.kind {
            QuotaKind::Burst => self.fits_bucket(now, cost),
            QuotaKind::Sliding => self.fits_sliding(now, cost),
            QuotaKind::Log => self.fits_log(now, cost),
            kind => panic!("a ledger of {kind:?}"),
        }
    }

    /// In every interval that ends now, both ends counted: at most the burst, and the limit's share of the interval.
    fn fits_bucket(&self, now: i64, cost: u128) -> bool {
        let starts = self.admitted.iter().map(|(at, _)| *at).chain([now]).filter(|start| *start <= now);
        starts.into_iter().all(|start| {
            let passed = u128::try_from(now - start).unwrap();
            let asked = self.units(start, now + 1) + cost;
            asked * self.length() <= self.burst * self.length() + passed * self.limit
        })
    }

    /// The units of the open window, and those of the one before by the part that is still covered.
    fn fits_sliding(&self, now: i64, cost: u128) -> bool {
        let start = now.div_euclid(self.window) * self.window;
        let covered = self.length() - u128::try_from(now - start).unwrap();
        let (before, current) = (self.units(start - self.window, start), self.units(start, now + 1));
        before * covered + (current + cost) * self.length() <= self.limit * self.length()
    }

    /// Everything since a window's length ago, to which belongs whatever was charged in the same step as its first part.
    fn fits_log(&self, now: i64, cost: u128) -> bool {
        let still_counts = |(at, _): &&(i64, u128)| {
            let last_of_step = at - at.rem_euclid(self.step) + self.step - 1;
            now - last_of_step < self.window
        };
        let used: u128 = self.admitted.iter().filter(still_counts).map(|(_, units)| units).sum();
        used + cost <= self.limit
    }

    fn units(&self, from: i64, before: i64) -> u128 {
        let within = self.admitted.iter().filter(|(at, _)| (from..before).contains(at));
        within.map(|(_, units)| units).sum()
    }

    fn length(&self) -> u128 {
        self.window.unsigned_abs().into()
    }
}
