//! The written form: `20~in_flight`.

use std::fmt;
use std::str::FromStr;

use super::InFlight;
use crate::{QuotaError, QuotaErrorKind};

/// What follows the limit.
const KIND: &str = "~in_flight";

impl FromStr for InFlight {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Self, QuotaError> {
        let error = |kind, start, end| Err(QuotaError::in_text(kind, text, start..end));
        let Some(at) = text.find('~').filter(|at| text.get(*at..) == Some(KIND)) else {
            return error(QuotaErrorKind::InFlightText, text.find('~').unwrap_or(text.len()), text.len());
        };
        let digits = text.get(..at).unwrap_or_default();
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return error(QuotaErrorKind::InvalidLimit, 0, at);
        }
        // What does not fit is above the bound as well.
        Self::new(digits.parse().unwrap_or(u32::MAX)).or_else(|invalid| error(invalid.kind(), 0, at))
    }
}

impl fmt::Display for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{KIND}", self.limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_reads_back_and_errors_name_the_place() {
        for limit in [0, 1, 20, InFlight::MAX_LIMIT] {
            let in_flight = InFlight::new(limit).unwrap();
            assert_eq!(in_flight.to_string().parse(), Ok(in_flight));
        }
        let wrong = |text: &str| {
            let error = text.parse::<InFlight>().unwrap_err();
            (error.kind(), error.range().unwrap())
        };
        assert_eq!(wrong("20"), (QuotaErrorKind::InFlightText, 2..2));
        assert_eq!(wrong("20~inflight"), (QuotaErrorKind::InFlightText, 2..11));
        assert_eq!(wrong("20/1m~burst"), (QuotaErrorKind::InFlightText, 5..11));
        assert_eq!(wrong("~in_flight"), (QuotaErrorKind::InvalidLimit, 0..0));
        assert_eq!(wrong("+5~in_flight"), (QuotaErrorKind::InvalidLimit, 0..2));
        assert_eq!(wrong("1048577~in_flight"), (QuotaErrorKind::InFlightLimit, 0..7));
        assert_eq!(wrong("99999999999~in_flight"), (QuotaErrorKind::InFlightLimit, 0..11));
    }
}
