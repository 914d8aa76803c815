//! Kinds of quotas that do not do what they are chosen for.

use std::time::Duration;

use tollgate::{Quota, WindowLength};

use super::WarningKind;

/// The most steps in a window of a recommended log, so that it stays small and its units come back at nearly the right
/// time.
const STEPS: u64 = 60;

/// Returns the doubt about the kind of this quota, if there is one. A limit of 0 denies everything under any kind.
pub(super) fn doubtful_kind(quota: &Quota) -> Option<WarningKind> {
    if quota.limit() == 0 {
        return None;
    }
    if let Some(bucket) = quota.bucket() {
        let drains = bucket.parts().div_ceil(bucket.unit());
        let is_small = (1..drains).contains(&bucket.burst());
        return is_small.then(|| WarningKind::BurstBelowRate { quota: quota.clone().into(), drains });
    }
    let most = quota.most_in_any_window();
    let log = log_for(quota).filter(|_| most > quota.limit())?;
    Some(WarningKind::SlidingForLog { quota: quota.clone().into(), most, log: log.into() })
}

/// Returns the log with the limit of a sliding window: exact if it has few entries, else in steps.
fn log_for(quota: &Quota) -> Option<Quota> {
    let WindowLength::Fixed(window) = quota.window() else { return None };
    let windows = Quota::new(quota.limit(), window).ok()?;
    // Logs have no anchor, so `@staggered` has none for it.
    if windows.clone().sliding().ok()? != *quota {
        return None;
    }
    let millis = u64::try_from(window.as_millis()).ok()?;
    let step = if quota.limit() <= STEPS { 1 } else { millis.div_ceil(STEPS) };
    windows.with_log(Duration::from_millis(step)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(quota: &str) -> Option<String> {
        doubtful_kind(&quota.parse().unwrap()).map(|kind| kind.to_string())
    }

    /// The clock of a decision has a resolution of a millisecond.
    #[test]
    fn a_burst_below_what_drains_in_a_millisecond_cannot_reach_its_rate() {
        assert_eq!(warning("1000/1s~burst:1"), None);
        assert_eq!(warning("100000/1s~burst:100"), None);
        assert_eq!(
            warning("100000/1s~burst:99").unwrap(),
            "100000/1s~burst:99 cannot reach its rate: 100 units are free again in a millisecond, the step of the \
             clock, and the burst is smaller; write a burst of at least 100"
        );
        assert!(warning("1001/1s~burst:1").unwrap().ends_with("at least 2"));
        assert_eq!(warning("100/1m~burst"), None);
    }

    #[test]
    fn a_log_is_recommended_with_a_step_that_fits() {
        assert_eq!(
            warning("100/1m~sliding").unwrap(),
            "100/1m~sliding may admit 199 units in one window's length; 100/1m~log:1s never admits more than its limit"
        );
        let log = |quota: &str| match doubtful_kind(&quota.parse().unwrap()) {
            Some(WarningKind::SlidingForLog { log, .. }) => Some(log.to_string()),
            _ => None,
        };
        assert_eq!(log("60/1m~sliding").as_deref(), Some("60/1m~log"));
        assert_eq!(log("1000000/1h~sliding").as_deref(), Some("1000000/1h~log:1m"));
        assert_eq!(log("100/10ms~sliding").as_deref(), Some("100/10ms~log"));
        for other in ["100/1m", "100/1m~log", "100/1m~sliding@staggered", "0/1m~sliding", "1/1m~sliding"] {
            assert_eq!(log(other), None, "{other}");
        }
    }
}
