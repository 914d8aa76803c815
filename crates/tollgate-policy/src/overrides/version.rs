//! The version of all overrides.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The version of the overrides: which history they belong to, and how many changes they have had.
///
/// Of one history, a higher number is newer. Versions of different histories cannot be compared.
///
/// # Examples
///
/// ```
/// use tollgate_policy::OverridesVersion;
///
/// let version = OverridesVersion { epoch: 0x5eed, number: 12 };
/// assert_eq!(version.to_string(), "0000000000005eed.12");
/// assert_eq!(version.to_string().parse(), Ok(version));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OverridesVersion {
    /// The history: a random number, drawn by its first change.
    pub epoch: u64,
    /// The number of changes; 0 if there has been none.
    pub number: u64,
}

/// A text that is not a version. The fault of its author.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a version of overrides has 16 hexadecimal digits, a `.` and a number, such as 0123456789abcdef.7")]
pub struct OverridesVersionError;

impl OverridesVersion {
    /// The number of hexadecimal digits of its epoch.
    const DIGITS: usize = 16;
}

impl fmt::Display for OverridesVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:0digits$x}.{}", self.epoch, self.number, digits = Self::DIGITS)
    }
}

/// Reads the displayed form, and no other form of the same version.
impl FromStr for OverridesVersion {
    type Err = OverridesVersionError;

    fn from_str(text: &str) -> Result<Self, OverridesVersionError> {
        let (epoch, number) = text.split_once('.').ok_or(OverridesVersionError)?;
        let epoch = u64::from_str_radix(epoch, 16).map_err(|_| OverridesVersionError)?;
        let number = number.parse().map_err(|_| OverridesVersionError)?;
        let version = Self { epoch, number };
        // Reading alone accepts signs, capitals and further zeros.
        if version.to_string() == text { Ok(version) } else { Err(OverridesVersionError) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_displayed_form_is_a_version() {
        for text in ["0000000000000001.0", "ffffffffffffffff.18446744073709551615"] {
            let version: OverridesVersion = text.parse().unwrap();
            assert_eq!(version.to_string(), text);
        }
        for text in [
            "",
            ".",
            "1.1",
            "+000000000000001.1",
            "0000000000000001",
            "0000000000000001.",
            "0000000000000001.+1",
            "0000000000000001.01",
            "000000000000000A.1",
            "00000000000000001.1",
            "0000000000000001.18446744073709551616",
        ] {
            assert_eq!(text.parse::<OverridesVersion>(), Err(OverridesVersionError), "{text}");
        }
    }
}
