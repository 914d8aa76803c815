//! Policies for a store that cannot answer, and a process's share of a limit.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::Quota;

/// The policy for requests while the store cannot answer.
///
/// With a limit of *L* a window, *N* processes on one store, and *b* = ceil(*L* x share), the processes together
/// admit in one window at most:
///
/// | policy | during an outage, whenever it began | with *H* lost histories of the store as well |
/// |---|---|---|
/// | `Closed` | *L* | *H L* |
/// | `Local` | *L* + *N b* | *H L* + *N b* |
/// | `Open` | without bound | without bound |
///
/// A store loses its history when it forgets live counters: in a restart without data, or in a failover to a lagging
/// replica. One such event makes *H* = 2. `Local` uses the clock of each process. If that differs from the store's, or
/// with windows from the first hit, an interval as long as a window may meet two of them; then add *N b* for each.
///
/// An [overdraft](crate::CountDenied::Overdraft) may pass each of these counts by the last cost that it admits. So add
/// the largest cost once for each history of the store, and with `Local` once for each *b*.
///
/// Of units in flight, *L* is the most at any instant: with `Local`, *L* + *N b* may be live until the holds end that
/// began before the outage.
///
/// An example: 100 a minute, three processes with a share of 1/10, and in one minute both a failover that loses
/// everything and an outage. `Local` admits at most 2 x 100 + 3 x 10 = 230, `Closed` 200. Any 60 seconds that straddle
/// two minutes admit at most the sum of both: 330, if the other minute is undisturbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OnStoreFailure {
    /// Admit without counting. Only a cost above the limit is denied, because it can never pass. An
    /// [overdraft](crate::CountDenied::Overdraft) can pass at any cost, so it is denied only under limit 0.
    Open,
    /// Return the store's error.
    Closed,
    /// Count in this process's memory, against this share of each limit.
    Local(LocalShare),
}

impl OnStoreFailure {
    /// Returns its name in configuration, without the share.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Local(_) => "local",
        }
    }
}

/// Its form in logs: `open`, `closed` or `local 1/3`.
impl fmt::Display for OnStoreFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(share) => write!(f, "local {share}"),
            other => f.write_str(other.name()),
        }
    }
}

/// The part of each limit that one process admits while it counts alone: above 0, at most 1.
///
/// For *N* processes, the usual share is 1/*N*. It is a fraction and not a float, so it has no rounding error. It is
/// written as a fraction or a decimal (`1/3`, `0.25`, `1`) and printed as a fraction in lowest terms, which reads as
/// the same share.
///
/// # Examples
///
/// ```
/// use tollgate::LocalShare;
///
/// let share: LocalShare = "0.25".parse()?;
/// assert_eq!(share, LocalShare::new(1, 4)?);
/// assert_eq!(share.to_string(), "1/4");
/// // Rounded up: the share of a limit above 0 is at least 1.
/// assert_eq!((share.of(100), share.of(5), share.of(1), share.of(0)), (25, 2, 1, 0));
///
/// assert!("0".parse::<LocalShare>().is_err());
/// assert!("1.5".parse::<LocalShare>().is_err());
/// # Ok::<(), tollgate::LocalShareError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LocalShare {
    /// In lowest terms, so that equal shares are equal values.
    numerator: u32,
    denominator: u32,
}

/// An invalid share. The fault of its author; a retry does not help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("expected a share above 0 and at most 1, such as 1/3 or 0.25")]
pub struct LocalShareError;

impl LocalShare {
    /// Creates a share from numerator and denominator.
    ///
    /// # Errors
    ///
    /// If the share is 0 or above 1, or the denominator is 0.
    pub const fn new(parts: u32, of: u32) -> Result<Self, LocalShareError> {
        if parts == 0 || parts > of {
            return Err(LocalShareError);
        }
        let divisor = greatest_common_divisor(parts, of);
        Ok(Self { numerator: parts / divisor, denominator: of / divisor })
    }

    /// This share of a limit, rounded up: ceil(limit x share).
    #[must_use]
    pub fn of(self, limit: u64) -> u64 {
        // The product of numbers below 2^40 and 2^32 needs more than 64 bits.
        let share = (u128::from(limit) * u128::from(self.numerator)).div_ceil(u128::from(self.denominator));
        u64::try_from(share).unwrap_or(Quota::MAX_LIMIT)
    }
}

const fn greatest_common_divisor(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl FromStr for LocalShare {
    type Err = LocalShareError;

    fn from_str(text: &str) -> Result<Self, LocalShareError> {
        let text = text.trim();
        if let Some((parts, of)) = text.split_once('/') {
            return Self::new(digits(parts.trim())?, digits(of.trim())?);
        }
        match text.split_once('.') {
            // Nine digits of a fraction, and the power of ten above them, fit into 32 bits.
            Some((whole, fraction)) if (1..=9).contains(&fraction.len()) => {
                let scale = 10_u32.pow(fraction.len() as u32);
                let parts = digits(whole)?
                    .checked_mul(scale)
                    .and_then(|parts| digits(fraction).ok().and_then(|fraction| parts.checked_add(fraction)));
                Self::new(parts.ok_or(LocalShareError)?, scale)
            }
            Some(_) => Err(LocalShareError),
            None => Self::new(digits(text)?, 1),
        }
    }
}

/// `parse` would accept a sign.
fn digits(text: &str) -> Result<u32, LocalShareError> {
    let all_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| all_digits).ok_or(LocalShareError)
}

impl fmt::Display for LocalShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self { numerator, denominator: 1 } => write!(f, "{numerator}"),
            Self { numerator, denominator } => write!(f, "{numerator}/{denominator}"),
        }
    }
}

#[cfg(test)]
#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn share(text: &str) -> LocalShare {
        text.parse().unwrap()
    }

    /// In floating point 0.07 x 100 is a little more than 7, and rounded up it is 8.
    #[test]
    fn shares_are_exact() {
        assert_eq!(share("0.07").of(100), 7);
        assert_eq!(share("1/3").of(3), 1);
        assert_eq!(share("1/3").of(100), 34);
        assert_eq!(share("0.000000001").of(Quota::MAX_LIMIT), 1_100);
        assert_eq!(share("1").of(Quota::MAX_LIMIT), Quota::MAX_LIMIT);
        assert_eq!(LocalShare::new(u32::MAX - 1, u32::MAX).unwrap().of(Quota::MAX_LIMIT), 1_099_511_627_519);
    }

    #[test]
    fn an_invalid_share_is_an_error() {
        for text in
            ["", "0", "0/3", "0.0", "2", "4/3", "1.000000001", "1/0", "-1/3", "+1/3", "1/-3", "1e-1", ".5"]
        {
            assert_eq!(text.parse::<LocalShare>(), Err(LocalShareError), "{text}");
        }
        for text in ["0.1234567890", "1.", "0,5", "1/3/3", "50%", "4294967296/4294967297", "a/b"] {
            assert_eq!(text.parse::<LocalShare>(), Err(LocalShareError), "{text}");
        }
    }

    #[test]
    fn equal_shares_are_equal_however_they_are_written() {
        assert_eq!(share("0.50"), share(" 2 / 4 "));
        assert_eq!(share("1.000"), share("7/7"));
        assert_eq!(share("1.0").to_string(), "1");
        assert_eq!(OnStoreFailure::Local(share("0.50")).to_string(), "local 1/2");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn reading_what_was_printed_gives_the_same(of in 1_u32.., parts in any::<prop::sample::Index>()) {
            let parts = u32::try_from(parts.index(of as usize) + 1).unwrap();
            let written = LocalShare::new(parts, of).unwrap();
            prop_assert_eq!(written.to_string().parse(), Ok(written));
        }

        #[test]
        fn a_share_is_the_least_whole_number_that_is_not_less(
            limit in 0..=Quota::MAX_LIMIT, of in 1_u32.., parts in any::<prop::sample::Index>(),
        ) {
            let parts = u32::try_from(parts.index(of as usize) + 1).unwrap();
            let share = LocalShare::new(parts, of).unwrap().of(limit);
            let (exact, scaled) = (u128::from(limit) * u128::from(parts), u128::from(share) * u128::from(of));
            prop_assert!(exact <= scaled && scaled < exact + u128::from(of));
            prop_assert!(share <= limit);
        }
    }
}
