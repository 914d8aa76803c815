//! How long a hold lives without a renewal.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::{QuotaError, QuotaErrorKind};

/// How long a hold lives from its last renewal, in whole milliseconds: from 1 ms to an hour; by default, a minute.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use tollgate::HoldLength;
///
/// let length: HoldLength = "30s".parse()?;
/// assert_eq!(length.duration(), Duration::from_secs(30));
/// assert_eq!(length.to_string(), "30s");
/// assert!(HoldLength::new(Duration::from_secs(3_601)).is_err());
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HoldLength {
    millis: u32,
}

impl HoldLength {
    /// The longest: an hour.
    pub const MAX: Self = Self { millis: 3_600_000 };

    /// Creates a length.
    ///
    /// # Errors
    ///
    /// If it is no whole number of milliseconds, 0, or above [`MAX`](Self::MAX).
    pub fn new(length: Duration) -> Result<Self, QuotaError> {
        let millis = u32::try_from(length.as_millis()).ok().filter(|millis| *millis <= Self::MAX.millis);
        match millis {
            Some(millis) if millis > 0 && Duration::from_millis(millis.into()) == length => {
                Ok(Self { millis })
            }
            _ => Err(QuotaErrorKind::HoldLength.into()),
        }
    }

    /// Returns the length as a duration.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.millis as u64)
    }

    /// Returns the length in milliseconds.
    #[must_use]
    pub const fn millis(self) -> u32 {
        self.millis
    }
}

/// A minute.
impl Default for HoldLength {
    fn default() -> Self {
        Self { millis: 60_000 }
    }
}

impl FromStr for HoldLength {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Self, QuotaError> {
        let invalid = || QuotaError::in_text(QuotaErrorKind::HoldLength, text, 0..text.len());
        let millis = crate::quota::fixed_length_millis(text).ok_or_else(invalid)?;
        Self::new(Duration::from_millis(millis)).map_err(|_| invalid())
    }
}

impl fmt::Display for HoldLength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::quota::LengthText(self.millis.into()).fmt(f)
    }
}
