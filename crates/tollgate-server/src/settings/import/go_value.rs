//! Values of variables, as programs in Go read them.

use std::time::Duration;

/// Reads a boolean, as `strconv.ParseBool` does.
pub(super) fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

/// Reads a duration that is not negative, as `time.ParseDuration` does: `0`, or numbers with units, such as `1h30m` or
/// `1.5s`. Parts of a nanosecond are dropped.
pub(super) fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Some(Duration::ZERO);
    }
    let mut nanos = 0_u128;
    loop {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let (number, after) = rest.split_at(rest.find(|c| !is_number(c))?);
        let (unit, after) = after.split_at(after.find(is_number).unwrap_or(after.len()));
        nanos = nanos.checked_add(scaled(number, nanos_of(unit)?)?)?;
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    u64::try_from(nanos).ok().filter(|nanos| i64::try_from(*nanos).is_ok()).map(Duration::from_nanos)
}

fn nanos_of(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        // The sign for micro, and the Greek letter.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Multiplies a decimal number.
fn scaled(number: &str, scale: u128) -> Option<u128> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    let read = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<u128>().ok() };
    // Further digits are parts of a nanosecond.
    let part = part.get(..part.len().min(18)).filter(|_| part.bytes().all(|byte| byte.is_ascii_digit()))?;
    let power = 10_u128.checked_pow(u32::try_from(part.len()).ok()?)?;
    let part = read(part)?.checked_mul(scale)? / power;
    read(whole)?.checked_mul(scale)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_read_as_in_go() {
        for (text, millis) in [
            ("0", 0),
            ("24h", 86_400_000),
            ("1h30m", 5_400_000),
            ("1.5s", 1_500),
            (".5s", 500),
            ("1.s", 1_000),
            ("+3s", 3_000),
            ("1500ms", 1_500),
            ("2000us", 2),
            ("2000\u{b5}s", 2),
            ("0.0000000000000000000000001h", 0),
        ] {
            assert_eq!(duration(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "s", ".s", "-1s", "1d", "1.2.3s", "1 s", "1s2", "9999999999999h", "--1s", "+"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn a_boolean_is_read_as_in_go() {
        assert_eq!(
            ["1", "T", "true", "0", "F", "False"].map(boolean).map(Option::unwrap),
            [true, true, true, false, false, false]
        );
        assert!(["yes", "on", "", "TrUe"].map(boolean).iter().all(Option::is_none));
    }
}
