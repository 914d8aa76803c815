//! Kinds of quotas that do not do what they are chosen for.

use tollgate::Quota;

use super::WarningKind;

/// Returns the doubt about the kind of this quota, if there is one. A limit of 0 denies everything under any kind.
pub(super) fn doubtful_kind(quota: &Quota) -> Option<WarningKind> {
    if quota.limit() == 0 {
        return None;
    }
    let bucket = quota.bucket()?;
    let drains = bucket.parts().div_ceil(bucket.unit());
    let is_small = (1..drains).contains(&bucket.burst());
    is_small.then(|| WarningKind::BurstBelowRate { quota: quota.clone().into(), drains })
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
        for quota in ["100/1m~burst", "100/1m", "100/1m~sliding", "100/1m~log"] {
            assert_eq!(warning(quota), None, "{quota}");
        }
    }
}
