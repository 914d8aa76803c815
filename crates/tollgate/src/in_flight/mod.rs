//! Units in flight: how many may be live at once.
//!
//! An [`InFlight`] is a limit without a window: its units are taken when something begins, and are free again when it
//! ends. Nobody can say when that will be, so a denial has no time to wait. It is no [`Quota`](crate::Quota): a check,
//! which nobody ends, would take its units for ever.

mod policy;
mod state;
mod text;

pub use self::policy::PolicyInFlight;
pub use self::state::InFlightState;
use crate::{HoldLength, LocalShare, QuotaError, QuotaErrorKind};

/// At most so many units live at once for each key, `20~in_flight`.
///
/// # Examples
///
/// ```
/// use tollgate::InFlight;
///
/// let in_flight: InFlight = "20~in_flight".parse()?;
/// assert_eq!(in_flight, InFlight::new(20)?);
/// assert_eq!(in_flight.to_string(), "20~in_flight");
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InFlight {
    limit: u32,
    length: Option<HoldLength>,
}

impl InFlight {
    /// The largest limit: 2^20.
    pub const MAX_LIMIT: u32 = 1 << 20;

    /// The most units that one hold can have.
    pub const MAX_UNITS: u32 = 1_000;

    /// Creates a limit of so many units. 0 denies everything.
    ///
    /// # Errors
    ///
    /// If the limit is above [`MAX_LIMIT`](Self::MAX_LIMIT).
    pub fn new(limit: u32) -> Result<Self, QuotaError> {
        if limit > Self::MAX_LIMIT {
            return Err(QuotaErrorKind::InFlightLimit.into());
        }
        Ok(Self { limit, length: None })
    }

    /// Sets how long a hold with an [id](crate::HoldId) lives from its last renewal, if its caller does not ask for less:
    /// `20~in_flight:30s`. A guard of one process lives until it is dropped.
    #[must_use]
    pub const fn with_length(self, length: HoldLength) -> Self {
        Self { length: Some(length), ..self }
    }

    /// This share of the limit, rounded up.
    pub(crate) fn with_share(self, share: LocalShare) -> Self {
        // A share is no larger than the whole.
        let limit = u32::try_from(share.of(self.limit.into())).unwrap_or(self.limit);
        Self { limit, ..self }
    }

    /// Returns the most units that may be live at once.
    #[must_use]
    pub const fn limit(self) -> u32 {
        self.limit
    }

    /// Returns how long a hold with an id lives, if the limit sets it.
    #[must_use]
    pub const fn length(self) -> Option<HoldLength> {
        self.length
    }
}
