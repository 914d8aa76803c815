//! Checks whether a quota can ever deny a request that another one admits.

use tollgate::{Anchor, Quota, QuotaKind, WindowLength};

/// Returns whether `tighter` has no room whenever `quota` has none, if both count in fixed windows.
///
/// While one window of the quota lasts, `n` windows of the other are met, and each admits at most the other's
/// limit. So with `n` x limit <= the quota's limit, a request that finds no room in the quota's window finds none
/// in the other's either. `n` is the ratio of the lengths where the windows begin together, and one more than the
/// ratio, rounded up, where they do not.
pub(super) fn never_binds(quota: &Quota, tighter: &Quota) -> bool {
    let (WindowLength::Fixed(long), WindowLength::Fixed(short)) = (quota.window(), tighter.window()) else {
        return false;
    };
    let kinds = [quota.kind(), tighter.kind()];
    if quota == tighter || kinds.iter().any(|kind| *kind != QuotaKind::Window) {
        return false;
    }
    let met = windows_met(quota, long.as_millis(), tighter, short.as_millis());
    met * u128::from(tighter.limit()) <= u128::from(quota.limit())
}

/// Returns how many windows of the other quota one window of the first can meet; lengths in milliseconds.
fn windows_met(quota: &Quota, length: u128, tighter: &Quota, other: u128) -> u128 {
    // Staggered windows of a key begin together as well: their shifts come from one hash.
    let together =
        quota.anchor() == tighter.anchor() && matches!(quota.anchor(), Anchor::Epoch | Anchor::Staggered);
    if together && length.is_multiple_of(other) {
        return length / other;
    }
    if together && other.is_multiple_of(length) {
        return 1;
    }
    length.div_ceil(other) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_redundant(quota: &str, tighter: &str) -> bool {
        never_binds(&quota.parse().unwrap(), &tighter.parse().unwrap())
    }

    #[test]
    fn a_quota_never_binds_if_the_other_admits_no_more_in_its_window() {
        assert!(is_redundant("1000/1m", "10/1s"));
        assert!(is_redundant("600/1m", "10/1s"));
        assert!(!is_redundant("599/1m", "10/1s"));
        assert!(!is_redundant("10/1s", "1000/1m"));
        assert!(is_redundant("10/1s", "10/1m"));
        assert!(!is_redundant("9/1s", "10/1m"));
    }

    /// A minute that begins with a first hit meets 61 of the clock's seconds.
    #[test]
    fn windows_that_begin_apart_meet_one_more() {
        assert!(is_redundant("610/1m@first_hit", "10/1s"));
        assert!(!is_redundant("609/1m@first_hit", "10/1s"));
        assert!(is_redundant("20/1s@first_hit", "10/1m"));
        assert!(!is_redundant("19/1s@first_hit", "10/1m"));
        assert!(is_redundant("600/1m@staggered", "10/1s@staggered"));
    }
}
