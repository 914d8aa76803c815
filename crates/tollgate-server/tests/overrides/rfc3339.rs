//! Times as the service writes them: the judge reads and writes them by itself.

/// Returns the milliseconds since the epoch of a time in UTC.
pub(crate) fn read(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let number = |text: &str| text.parse::<i64>().ok();
    let mut date = date.splitn(3, '-').map(number);
    let (year, month, day) = (date.next()??, date.next()??, date.next()??);
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut time = time.splitn(3, ':').map(number);
    let (hour, minute, second) = (time.next()??, time.next()??, time.next()??);
    let fraction = number(&format!("{fraction:0<3}"))?;
    Some((((days(year, month, day)? * 24 + hour) * 60 + minute) * 60 + second) * 1_000 + fraction)
}

/// Writes milliseconds since the epoch.
pub(crate) fn write(millis: i64) -> String {
    let (mut day, rest) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
    let (mut year, mut month) = (1970, 1);
    while day >= length_of_year(year) {
        day -= length_of_year(year);
        year += 1;
    }
    while day >= length_of_month(year, month) {
        day -= length_of_month(year, month);
        month += 1;
    }
    let (second, minute, hour) = (rest / 1_000 % 60, rest / 60_000 % 60, rest / 3_600_000);
    format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", day + 1, rest % 1_000)
}

/// The days from 1970 on, counted year by year and month by month.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_date = (1970..10_000).contains(&year) && (1..=12).contains(&month);
    let is_date = is_date && (1..=length_of_month(year, month)).contains(&day);
    let years: i64 = (1970..year).map(length_of_year).sum();
    let months: i64 = (1..month).map(|month| length_of_month(year, month)).sum();
    is_date.then_some(years + months + day - 1)
}

fn length_of_year(year: i64) -> i64 {
    (1..=12).map(|month| length_of_month(year, month)).sum()
}

fn length_of_month(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[test]
fn reads_what_it_writes() {
    for (text, millis) in [
        ("1970-01-01T00:00:00Z", 0),
        ("2026-11-29T08:30:00.007Z", 1_795_941_000_007),
        ("2024-02-29T23:59:59.999Z", 1_709_251_199_999),
    ] {
        assert_eq!(read(text), Some(millis));
        assert_eq!(read(&write(millis)), Some(millis), "{}", write(millis));
    }
    for text in ["2026-11-29T08:30:00", "2026-02-29T00:00:00Z", "2026-11-29 08:30:00Z", "x"] {
        assert_eq!(read(text), None, "{text}");
    }
}
