//! Texts of times, read.

use jiff::civil::Date;
use jiff::fmt::strtime;

use super::{DAY, SECOND};
use crate::attribute::TimeForm;
use crate::field::Precision;

/// A time as a log has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Microseconds since the epoch: in UTC, or what the clock on the wall showed.
    pub(crate) micros: i64,
    pub(crate) is_utc: bool,
    pub(crate) precision: Precision,
}

/// Returns the time that a text represents; `None` if it is not a time.
pub(crate) fn parse(form: &TimeForm, text: &[u8]) -> Option<Stamp> {
    match form {
        TimeForm::Clf => clf(text),
        TimeForm::Iso => iso(text),
        TimeForm::Unix => unix(text),
        TimeForm::Any if text.get(2) == Some(&b'/') => clf(text),
        TimeForm::Any if matches!(text.get(4), Some(b'-' | b'/')) => iso(text),
        TimeForm::Any => unix(text),
        TimeForm::Pattern(pattern) => by_pattern(pattern, text),
    }
}

/// `10/Oct/2000:13:55:36 -0700`. There may be a fraction, and the zone may be missing.
fn clf(text: &[u8]) -> Option<Stamp> {
    let (fixed, rest) = text.split_first_chunk::<20>()?;
    let &[d1, d2, b'/', m1, m2, m3, b'/', y1, y2, y3, y4, b':', ref time @ ..] = fixed else { return None };
    let day = day(number(&[y1, y2, y3, y4])?, month([m1, m2, m3])?, number(&[d1, d2])?)?;
    with_time(day, time, rest)
}

/// `2000-10-10T13:55:36.125-07:00`. The fraction may begin with a comma, and the zone may be missing. Go programs write
/// `2000/10/10 13:55:36`.
fn iso(text: &[u8]) -> Option<Stamp> {
    let (fixed, rest) = text.split_first_chunk::<19>()?;
    let &[_, _, _, _, b'-' | b'/', _, _, b'-' | b'/', _, _, b'T' | b't' | b' ', ref time @ ..] = fixed else {
        return None;
    };
    with_time(day_of(fixed.get(..10)?)?, time, rest)
}

/// The days since the epoch until `2000-10-10` or `2000/10/10`.
pub(crate) fn day_of(date: &[u8]) -> Option<i64> {
    let &[y1, y2, y3, y4, b'-' | b'/', m1, m2, b'-' | b'/', d1, d2] = <&[u8; 10]>::try_from(date).ok()?
    else {
        return None;
    };
    day(number(&[y1, y2, y3, y4])?, number(&[m1, m2])?, number(&[d1, d2])?)
}

/// The microseconds of `13:55:36`, with or without a fraction.
pub(crate) fn micros_of_day(time: &[u8]) -> Option<(i64, Precision)> {
    let (time, rest) = time.split_first_chunk::<8>()?;
    let (fraction, precision, rest) = fraction(rest)?;
    rest.is_empty().then_some((clock(time)? + fraction, precision))
}

/// The time of a day: a clock time, its fraction, its zone.
fn with_time(day: i64, time: &[u8; 8], rest: &[u8]) -> Option<Stamp> {
    let (fraction, precision, rest) = fraction(rest)?;
    let zone = zone(rest)?;
    let local = day * DAY + clock(time)? + fraction;
    Some(Stamp { micros: local - zone.unwrap_or(0), is_utc: zone.is_some(), precision })
}

/// `13:55:36`, in microseconds. The second may be 60: in Unix time it is the next one.
fn clock(time: &[u8; 8]) -> Option<i64> {
    let &[h1, h2, b':', m1, m2, b':', s1, s2] = time else { return None };
    let (hour, minute, second) = (number(&[h1, h2])?, number(&[m1, m2])?, number(&[s1, s2])?);
    (hour < 24 && minute < 60 && second <= 60).then_some(((hour * 60 + minute) * 60 + second) * SECOND)
}

/// `.125` in microseconds, how exact it is, and what follows it. Digits after the sixth are dropped.
fn fraction(text: &[u8]) -> Option<(i64, Precision, &[u8])> {
    let Some((b'.' | b',', rest)) = text.split_first() else { return Some((0, Precision::Seconds, text)) };
    let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = rest.split_at_checked(length)?;
    let precision = match length {
        0 => return None,
        1..=3 => Precision::Millis,
        _ => Precision::Micros,
    };
    let digits = digits.iter().chain(std::iter::repeat(&b'0')).take(6);
    Some((digits.fold(0, |micros, digit| micros * 10 + i64::from(digit - b'0')), precision, rest))
}

/// The offset in microseconds of ` -0700`, `+07:00`, `-07` or `Z`; `Some(None)` without any.
fn zone(text: &[u8]) -> Option<Option<i64>> {
    let (sign, digits) = match text.trim_ascii_start() {
        [] => return Some(None),
        b"Z" | b"z" => return Some(Some(0)),
        [b'+', digits @ ..] => (1, digits),
        [b'-', digits @ ..] => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match digits {
        &[h1, h2] => (number(&[h1, h2])?, 0),
        &[h1, h2, m1, m2] | &[h1, h2, b':', m1, m2] => (number(&[h1, h2])?, number(&[m1, m2])?),
        _ => return None,
    };
    (hours < 24 && minutes < 60).then_some(Some(sign * (hours * 60 + minutes) * 60 * SECOND))
}

/// A number since the epoch. Its size tells its unit.
fn unix(text: &[u8]) -> Option<Stamp> {
    let (is_negative, text) = match text.split_first()? {
        (b'-', rest) => (true, rest),
        _ => (false, text),
    };
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (whole, rest) = text.split_at_checked(length)?;
    // No time is longer.
    if !(1..=19).contains(&length) {
        return None;
    }
    let whole = whole
        .iter()
        .try_fold(0_i64, |number, digit| number.checked_mul(10)?.checked_add(i64::from(digit - b'0')))?;
    let (fraction, fraction_precision, rest) = fraction(rest)?;
    let (micros, precision) = match length {
        // Leading zeros do not occur, so the number of digits tells the size.
        ..=11 => (whole * SECOND + fraction, fraction_precision),
        12..=14 => (whole * 1000 + fraction / 1000, Precision::Millis),
        15..=17 => (whole, Precision::Micros),
        _ => (whole / 1000, Precision::Micros),
    };
    let micros = if is_negative { -micros } else { micros };
    rest.is_empty().then_some(Stamp { micros, is_utc: true, precision })
}

fn by_pattern(pattern: &str, text: &[u8]) -> Option<Stamp> {
    let parsed = strtime::parse(pattern, text).ok()?;
    let local = parsed.to_datetime().ok()?;
    // The clock on the wall, read as UTC.
    let micros = jiff::tz::Offset::UTC.to_timestamp(local).ok()?.as_microsecond();
    let precision = match local.subsec_nanosecond() {
        0 => Precision::Seconds,
        nanos if nanos % 1_000_000 == 0 => Precision::Millis,
        _ => Precision::Micros,
    };
    let offset = parsed.offset().map(|offset| i64::from(offset.seconds()) * SECOND);
    Some(Stamp { micros: micros - offset.unwrap_or(0), is_utc: offset.is_some(), precision })
}

/// The number of a few digits.
fn number(digits: &[u8]) -> Option<i64> {
    digits
        .iter()
        .try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0')))
}

fn month(name: [u8; 3]) -> Option<i64> {
    Some(match &name {
        b"Jan" => 1,
        b"Feb" => 2,
        b"Mar" => 3,
        b"Apr" => 4,
        b"May" => 5,
        b"Jun" => 6,
        b"Jul" => 7,
        b"Aug" => 8,
        b"Sep" => 9,
        b"Oct" => 10,
        b"Nov" => 11,
        b"Dec" => 12,
        _ => return None,
    })
}

/// The days since the epoch until this one.
fn day(year: i64, month: i64, day: i64) -> Option<i64> {
    const EPOCH: Date = Date::constant(1970, 1, 1);
    let (year, month, day) = (year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?);
    Some(Date::new(year, month, day).ok()?.duration_since(EPOCH).as_secs() / (DAY / SECOND))
}

#[cfg(test)]
mod tests {
    use jiff::civil;
    use jiff::tz::Offset;
    use proptest::prelude::*;

    use super::*;

    fn stamp(form: &TimeForm, text: &str) -> Option<(i64, bool, Precision)> {
        parse(form, text.as_bytes()).map(|stamp| (stamp.micros, stamp.is_utc, stamp.precision))
    }

    #[test]
    fn times_of_each_form_are_read() {
        use Precision::{Micros, Millis, Seconds};
        use TimeForm::{Clf, Iso, Unix};
        let pattern = |pattern: &str| TimeForm::Pattern(pattern.to_owned());
        let cases = [
            (Clf, "10/Oct/2000:13:55:36 -0700", (971_211_336_000_000, true, Seconds)),
            (Clf, "06/Feb/2009:12:14:14.655", (1_233_922_454_655_000, false, Millis)),
            (Clf, "29/Feb/2024:23:59:60 +0000", (1_709_251_200_000_000, true, Seconds)),
            (Clf, "10/Oct/2000:13:55:36 -07", (971_211_336_000_000, true, Seconds)),
            (Clf, "11/Oct/2000:02:25:36 +0530", (971_211_336_000_000, true, Seconds)),
            (Iso, "2026-11-23 16:00:00+00", (1_795_449_600_000_000, true, Seconds)),
            (Iso, "2026-11-23T16:00:00Z", (1_795_449_600_000_000, true, Seconds)),
            (Iso, "2026-11-23 16:00:00,5+01:00", (1_795_446_000_500_000, true, Millis)),
            (TimeForm::Any, "2026/11/23 16:00:00.250", (1_795_449_600_250_000, false, Millis)),
            (Iso, "2026-11-23T16:00:00.123456789", (1_795_449_600_123_456, false, Micros)),
            (Unix, "1795449600", (1_795_449_600_000_000, true, Seconds)),
            (Unix, "1795449600.25", (1_795_449_600_250_000, true, Millis)),
            (Unix, "1795449600.1234567", (1_795_449_600_123_456, true, Micros)),
            (Unix, "1795449600123", (1_795_449_600_123_000, true, Millis)),
            (Unix, "1795449600123456", (1_795_449_600_123_456, true, Micros)),
            (Unix, "1795449600123456789", (1_795_449_600_123_456, true, Micros)),
            (TimeForm::Any, "10/Oct/2000:13:55:36 -0700", (971_211_336_000_000, true, Seconds)),
            (TimeForm::Any, "2026-11-23T16:00:00Z", (1_795_449_600_000_000, true, Seconds)),
            (TimeForm::Any, "1795449600", (1_795_449_600_000_000, true, Seconds)),
            (Unix, "-1.5", (-1_500_000, true, Millis)),
            (pattern("%d.%m.%Y %H:%M:%S"), "23.11.2026 16:00:00", (1_795_449_600_000_000, false, Seconds)),
            (pattern("%Y%m%d %T%z"), "20261123 16:00:00+0100", (1_795_446_000_000_000, true, Seconds)),
        ];
        for (form, text, expected) in cases {
            assert_eq!(stamp(&form, text), Some(expected), "{form:?} {text}");
        }
    }

    #[test]
    fn texts_that_are_no_time_are_refused() {
        let clf = [
            "",
            "10/Oct/2000:13:55:3",
            "32/Oct/2000:13:55:36 -0700",
            "29/Feb/2023:13:55:36 -0700",
            "10/oct/2000:13:55:36 -0700",
            "10/Oct/2000:24:00:00 -0700",
            "10/Oct/2000:13:60:00 -0700",
            "10/Oct/2000:13:55:36.",
            "10/Oct/2000:13:55:36 -7",
            "10/Oct/2000:13:55:36 -070",
            "10/Oct/2000:13:55:36 +24",
            "10/Oct/2000:13:55:36 -0760",
            "10/Oct/2000:13:55:36 0700",
        ];
        for text in clf {
            assert_eq!(stamp(&TimeForm::Clf, text), None, "{text}");
        }
        for text in ["", "-", ".5", "1.", "1e9", "12345678901234567890", "99999999999999999999999", "1 "] {
            assert_eq!(stamp(&TimeForm::Unix, text), None, "{text}");
        }
        for text in ["2026-11-23", "2026-13-23T16:00:00Z", "2026-11-23x16:00:00Z", "2026-11-23T16:00:00Zz"] {
            assert_eq!(stamp(&TimeForm::Iso, text), None, "{text}");
        }
        assert_eq!(stamp(&TimeForm::Pattern("%Y".to_owned()), "2026"), None, "a year is no time");
    }

    proptest! {
        #[test]
        fn the_calendar_is_that_of_jiff(seconds in -62_135_596_800_i64..253_402_207_200, offset in -720_i32..720) {
            let offset = Offset::from_seconds(offset * 60).unwrap();
            let local: civil::DateTime = offset.to_datetime(jiff::Timestamp::from_second(seconds).unwrap());
            prop_assume!((1..=9999).contains(&local.year()));
            let clf = jiff::fmt::strtime::format("%d/%b/%Y:%H:%M:%S %z", &local.to_zoned(offset.to_time_zone()).unwrap());
            let found = parse(&TimeForm::Clf, clf.unwrap().as_bytes()).unwrap();
            prop_assert_eq!(found.micros, seconds * SECOND);
            let iso = parse(&TimeForm::Iso, local.to_string().as_bytes()).unwrap();
            prop_assert_eq!(iso.micros, (seconds + i64::from(offset.seconds())) * SECOND);
        }

        #[test]
        fn no_text_panics(text: Vec<u8>, digits in "[-0-9]{0,24}[.,:0-9TZ]{0,9}") {
            for form in [TimeForm::Any, TimeForm::Clf, TimeForm::Iso, TimeForm::Unix, TimeForm::Pattern("%s%f%z".to_owned())] {
                let _ = parse(&form, &text);
                let _ = parse(&form, digits.as_bytes());
            }
        }
    }
}
