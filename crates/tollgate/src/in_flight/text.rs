//! The written form: `20~in_flight`, or `20~in_flight:30s`.

use std::fmt;
use std::str::FromStr;

use super::InFlight;
use crate::{HoldLength, PolicyInFlight, QuotaError, QuotaErrorKind};

/// What follows the limit.
const KIND: &str = PolicyInFlight::SERIES;

impl FromStr for InFlight {
    type Err = QuotaError;

    fn from_str(text: &str) -> Result<Self, QuotaError> {
        let error = |kind, start: usize, end: usize| QuotaError::in_text(kind, text, start..end);
        let at = text.find('~').unwrap_or(text.len());
        let length = match text.get(at..).and_then(|kind| kind.strip_prefix(KIND)) {
            Some("") => None,
            Some(rest) if rest.starts_with(':') => {
                let begin = text.len() - rest.len() + 1;
                let length = text.get(begin..).unwrap_or_default().parse::<HoldLength>();
                Some(length.map_err(|invalid| error(invalid.kind(), begin, text.len()))?)
            }
            _ => return Err(error(QuotaErrorKind::InFlightText, at, text.len())),
        };
        let digits = text.get(..at).unwrap_or_default();
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(error(QuotaErrorKind::InvalidLimit, 0, at));
        }
        // What does not fit is above the bound as well.
        let in_flight = Self::new(digits.parse().unwrap_or(u32::MAX));
        let in_flight = in_flight.map_err(|invalid| error(invalid.kind(), 0, at))?;
        Ok(Self { length, ..in_flight })
    }
}

impl fmt::Display for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{KIND}", self.limit)?;
        self.length.map_or(Ok(()), |length| write!(f, ":{length}"))
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
        let with_length: InFlight = "20~in_flight:30s".parse().unwrap();
        assert_eq!(with_length.length().unwrap().millis(), 30_000);
        assert_eq!(with_length.to_string(), "20~in_flight:30s");
        let wrong = |text: &str| {
            let error = text.parse::<InFlight>().unwrap_err();
            (error.kind(), error.range().unwrap())
        };
        assert_eq!(wrong("20"), (QuotaErrorKind::InFlightText, 2..2));
        assert_eq!(wrong("20~inflight"), (QuotaErrorKind::InFlightText, 2..11));
        assert_eq!(wrong("20~in_flights"), (QuotaErrorKind::InFlightText, 2..13));
        assert_eq!(wrong("20~in_flight:2h"), (QuotaErrorKind::HoldLength, 13..15));
        assert_eq!(wrong("20~in_flight:"), (QuotaErrorKind::HoldLength, 13..13));
        assert_eq!(wrong("20/1m~burst"), (QuotaErrorKind::InFlightText, 5..11));
        assert_eq!(wrong("~in_flight"), (QuotaErrorKind::InvalidLimit, 0..0));
        assert_eq!(wrong("+5~in_flight"), (QuotaErrorKind::InvalidLimit, 0..2));
        assert_eq!(wrong("1048577~in_flight"), (QuotaErrorKind::InFlightLimit, 0..7));
        assert_eq!(wrong("99999999999~in_flight"), (QuotaErrorKind::InFlightLimit, 0..11));
    }
}
