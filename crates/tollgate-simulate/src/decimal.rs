//! Numbers as people write them, compared exactly.

use std::cmp::Ordering;
use std::fmt;

/// Decimals at most.
const PLACES: usize = 12;

/// One, in units.
const ONE: u128 = 10_u128.pow(PLACES as u32);

/// A number from 0 with up to 12 decimals.
///
/// 0.7 has no exact form in binary: as floating-point numbers, 7 of 1,000 are more than 0.7 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decimal {
    /// 10^-12 each.
    units: u128,
}

impl Decimal {
    /// Reads digits, perhaps with a point among them or at one end; `None` for everything else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
        let has_digits = !(whole.is_empty() && decimals.is_empty());
        let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !has_digits || decimals.len() > PLACES || !are_digits(whole) || !are_digits(decimals) {
            return None;
        }
        let number = |text: &str| if text.is_empty() { Some(0_u128) } else { text.parse().ok() };
        let decimals = number(&format!("{decimals:0<PLACES$}"))?;
        Some(Self { units: number(whole)?.checked_mul(ONE)?.checked_add(decimals)? })
    }

    pub(crate) const fn is_whole(self) -> bool {
        self.units.is_multiple_of(ONE)
    }

    /// Compares a count with this number.
    pub(crate) fn order_of(self, count: u64) -> Ordering {
        (u128::from(count) * ONE).cmp(&self.units)
    }

    /// Compares a part of a whole with this number of hundredths.
    pub(crate) fn order_of_percentage(self, part: u64, all: u64) -> Ordering {
        // At most 2^64 times 10^14. A bound that goes past the numbers is above everything.
        let hundredths = u128::from(part) * ONE * 100;
        self.units.checked_mul(u128::from(all)).map_or(Ordering::Less, |bound| hundredths.cmp(&bound))
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}.{:0PLACES$}", self.units / ONE, self.units % ONE);
        f.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_numbers_are_read_again() {
        for (text, written) in
            [("0", "0"), ("10", "10"), ("0.10", "0.1"), (".5", "0.5"), ("7.", "7"), ("100.0", "100")]
        {
            assert_eq!(Decimal::parse(text).map(|number| number.to_string()).as_deref(), Some(written));
        }
        for text in ["", ".", "-1", "+1", "1e3", "inf", "1.2.3", "0.1234567890123", &"9".repeat(39)] {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
    }
}
