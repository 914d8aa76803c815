//! Lengths of time for people.

/// Formats the two largest units, rounded up to whole seconds.
pub(super) fn readable(millis: u64) -> String {
    let seconds = millis.div_ceil(1000);
    match (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, seconds) => format!("{seconds} s"),
        (0, 0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (0, hours, minutes, _) => format!("{hours} h {minutes} min"),
        (days, hours, ..) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_readable_and_rounded_up() {
        assert_eq!(readable(1), "1 s");
        assert_eq!(readable(59_999), "1 min 0 s");
        assert_eq!(readable(3_600_000), "1 h 0 min");
        assert_eq!(readable(90_000_000), "1 d 1 h");
    }
}
