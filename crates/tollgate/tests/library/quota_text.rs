//! The written form of a quota: valid texts, and the errors for others.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Anchor, CalendarUnit, Quota, QuotaErrorKind, WindowLength};
use tollgate_testkit::quota;

#[test]
fn every_spelling_is_accepted_and_has_one_canonical_form() {
    let spellings = [
        ("5/1m", "5/1m"),
        ("5/m", "5/1m"),
        ("5/min", "5/1m"),
        ("5/minute", "5/1m"),
        ("5/60s", "5/1m"),
        ("5/60000ms", "5/1m"),
        ("5 per minute", "5/1m"),
        ("5 per 1 minute", "5/1m"),
        (" 5 / 1 m ", "5/1m"),
        // The notations of ulule/limiter, django-ratelimit and Flask-Limiter.
        ("5-S", "5/1s"),
        (" 10-m ", "10/1m"),
        ("1000-H", "1000/1h"),
        ("2000-D@first_hit", "2000/1d@first_hit"),
        // Flask-Limiter ignores the case of words, and copied limits were refused for it.
        ("1/MINUTE", "1/1m"),
        ("1 PER 3 Hours", "1/3h"),
        ("1Per2DAYS@first_hit", "1/2d@first_hit"),
        ("100/DAY@Europe/Berlin", "100/day@Europe/Berlin"),
        ("5/10m", "5/10m"),
        ("1 per 3 hour", "1/3h"),
        ("1per2days", "1/2d"),
        ("5/1m@epoch", "5/1m"),
        ("10 per 3 hours", "10/3h"),
        ("10/180m", "10/3h"),
        ("100/90s", "100/90s"),
        ("100/1500ms", "100/1500ms"),
        ("7/s", "7/1s"),
        ("7 per second", "7/1s"),
        ("7/2seconds", "7/2s"),
        ("1/h", "1/1h"),
        ("1/hour", "1/1h"),
        ("1/24h", "1/1d"),
        ("100/day", "100/1d"),
        ("100/1d", "100/1d"),
        ("100 per 2 days", "100/2d"),
        ("100/week", "100/7d"),
        ("100/3653d", "100/3653d"),
        ("0/1ms", "0/1ms"),
        ("1099511627775/1s", "1099511627775/1s"),
        ("007/1s", "7/1s"),
        ("5/1m@first_hit", "5/1m@first_hit"),
        ("5 per minute @ first_hit", "5/1m@first_hit"),
        ("5/1m@staggered", "5/1m@staggered"),
        ("5/day@staggered", "5/1d@staggered"),
        ("100/day@Europe/Berlin", "100/day@Europe/Berlin"),
        ("100/1d@Europe/Berlin", "100/day@Europe/Berlin"),
        ("100 per day@Europe/Berlin", "100/day@Europe/Berlin"),
        ("100/day@America/Argentina/Ushuaia", "100/day@America/Argentina/Ushuaia"),
        ("100/week@UTC", "100/week@UTC"),
        ("100/month@UTC", "100/month@UTC"),
        ("100 per year @ Pacific/Auckland", "100/year@Pacific/Auckland"),
    ];
    for (written, canonical) in spellings {
        let quota: Quota = written.parse().unwrap_or_else(|error| panic!("{written}: {error}"));
        assert_eq!(quota.to_string(), canonical, "{written}");
        assert_eq!(canonical.parse(), Ok(quota), "{written}");
    }
}

#[test]
fn a_bare_day_is_24_hours_and_a_zone_makes_it_a_calendar_day() {
    let bare: Quota = "100/day".parse().unwrap();
    assert_eq!((bare.anchor(), bare.zone()), (Anchor::Epoch, None));
    assert_eq!(bare.window(), WindowLength::Fixed(Duration::from_secs(24 * 3600)));
    let calendar: Quota = "100/day@UTC".parse().unwrap();
    assert_eq!((calendar.anchor(), calendar.zone()), (Anchor::Calendar, Some("UTC")));
    assert_eq!(calendar.window(), WindowLength::Calendar(CalendarUnit::Day));
    assert_ne!(bare, calendar);
}

#[test]
fn an_error_says_what_is_wrong_and_where() {
    use QuotaErrorKind::*;
    let errors = [
        ("", MissingSeparator, 0..0, "quota ``, column 1: expected `limit/window`, such as 5/1m"),
        (" five ", MissingSeparator, 1..5, "quota ` five `, column 2: expected `limit/window`, such as 5/1m"),
        ("5@UTC", MissingSeparator, 0..5, "quota `5@UTC`, column 1: expected `limit/window`, such as 5/1m"),
        ("/1m", InvalidLimit, 0..0, "quota `/1m`, column 1: the limit must be a whole number"),
        ("-5/1m", InvalidLimit, 0..2, "quota `-5/1m`, column 1: the limit must be a whole number"),
        ("+5/1m", InvalidLimit, 0..2, "quota `+5/1m`, column 1: the limit must be a whole number"),
        ("1.5/1m", InvalidLimit, 0..3, "quota `1.5/1m`, column 1: the limit must be a whole number"),
        (
            "five per minute",
            InvalidLimit,
            0..4,
            "quota `five per minute`, column 1: the limit must be a whole number",
        ),
        (
            "1099511627776/1m",
            LimitTooLarge,
            0..13,
            "quota `1099511627776/1m`, column 1: the limit is above 1099511627775 (2^40 - 1)",
        ),
        (
            "99999999999999999999999/1m",
            LimitTooLarge,
            0..23,
            "quota `99999999999999999999999/1m`, column 1: the limit is above 1099511627775 (2^40 - 1)",
        ),
        (
            "5/",
            InvalidWindow,
            2..2,
            "quota `5/`, column 3: the window must be a unit with or without a whole number, such as 90s or minute",
        ),
        (
            "5/60",
            InvalidWindow,
            4..4,
            "quota `5/60`, column 5: the window must be a unit with or without a whole number, such as 90s or minute",
        ),
        (
            "5/-1m",
            InvalidWindow,
            2..5,
            "quota `5/-1m`, column 3: the window must be a unit with or without a whole number, such as 90s or minute",
        ),
        (
            "5/1.5h",
            InvalidWindow,
            3..6,
            "quota `5/1.5h`, column 4: the window must be a unit with or without a whole number, such as 90s or minute",
        ),
        (
            "5/3 fortnights",
            UnknownUnit,
            4..14,
            "quota `5/3 fortnights`, column 5: unknown unit: expected ms, s, m, h, d or w (or month or year with a zone)",
        ),
        (
            "5/1M",
            UnknownUnit,
            3..4,
            "quota `5/1M`, column 4: unknown unit: expected ms, s, m, h, d or w (or month or year with a zone)",
        ),
        (
            "5/1h30m",
            UnknownUnit,
            3..7,
            "quota `5/1h30m`, column 4: unknown unit: expected ms, s, m, h, d or w (or month or year with a zone)",
        ),
        ("10/1m;", Several, 0..6, "quota `10/1m;`, column 1: expected one quota, found several"),
        (
            " 10/minute,100/hour",
            Several,
            1..19,
            "quota ` 10/minute,100/hour`, column 2: expected one quota, found several",
        ),
        (
            "rate=30r/m burst=5",
            Delayed,
            0..18,
            "quota `rate=30r/m burst=5`, column 1: nginx delays the requests of such a burst, and Tollgate does not \
             delay; to admit them at once, add nodelay",
        ),
        (
            " 5/1m~slide",
            UnknownKind,
            6..11,
            "quota ` 5/1m~slide`, column 7: unknown kind: expected burst (a token bucket, a leaky bucket, GCRA), \
             sliding, or log (a moving window)",
        ),
        (
            "100/1m~leaky",
            UnknownKind,
            7..12,
            "quota `100/1m~leaky`, column 8: unknown kind: expected burst (a token bucket, a leaky bucket, GCRA), \
             sliding, or log (a moving window)",
        ),
        (
            "100/1m@staggered~sliding",
            KindAfterAnchor,
            17..24,
            "quota `100/1m@staggered~sliding`, column 18: write the kind before the anchor, such as \
             100/1m~sliding@staggered",
        ),
        (
            "100/day@Europe/Berlin~burst",
            CalendarKind,
            22..27,
            "quota `100/day@Europe/Berlin~burst`, column 23: a calendar quota counts in fixed windows and has no other \
             kind; 100/1d~burst has a length",
        ),
        (
            "100/1m~burst:0",
            BurstZero,
            0..14,
            "quota `100/1m~burst:0`, column 1: a burst is at least 1, the units that pass at once (burst=0 of nginx is \
             ~burst:1)",
        ),
        (
            "5/1m~sliding~burst",
            AfterKind,
            12..18,
            "quota `5/1m~sliding~burst`, column 13: unexpected after a kind: a quota has one; burst takes a number, \
             ~burst:20, and log a length, ~log:1s",
        ),
        (
            "5/1m burst",
            InvalidBurst,
            5..10,
            "quota `5/1m burst`, column 6: the burst must be a whole number, such as burst 20 (~burst alone is as \
             large as the limit)",
        ),
        (
            "10/1s~burst:20@first_hit",
            BurstAnchor,
            15..24,
            "quota `10/1s~burst:20@first_hit`, column 16: a bucket has no windows that could start anywhere: leave \
             out the anchor",
        ),
        (
            "5000011/1s~burst",
            LimitTooFine,
            0..16,
            "quota `5000011/1s~burst`, column 1: limit and window, divided by their greatest common divisor, must \
             leave a limit of at most 4194304: choose a rounder limit",
        ),
        (
            "10/1s~burst:4294967296000",
            BurstTooLarge,
            0..25,
            "quota `10/1s~burst:4294967296000`, column 1: the burst is above 1099511627775 (2^40 - 1)",
        ),
        (
            "1000/1h~log",
            LogEntries { fitting_step: 15_000 },
            0..11,
            "quota `1000/1h~log`, column 1: a log has at most 256 entries: log in steps, ~log:15s or longer",
        ),
        (
            "2000000/1m~sliding",
            SlidingLimit(1_000_000),
            0..18,
            "quota `2000000/1m~sliding`, column 1: a sliding window of this length counts up to 1000000 units; a \
             bucket, ~burst, counts more",
        ),
        (
            "5 in flight",
            InFlight,
            0..11,
            "quota `5 in flight`, column 1: a limit on requests in flight has no window: write 20~in_flight where a \
             policy has its quotas (docs/policies.md#in-flight)",
        ),
        ("r/s", InvalidLimit, 0..1, "quota `r/s`, column 1: the limit must be a whole number"),
        ("5-W", MissingSeparator, 0..3, "quota `5-W`, column 1: expected `limit/window`, such as 5/1m"),
        ("5-10S", MissingSeparator, 0..5, "quota `5-10S`, column 1: expected `limit/window`, such as 5/1m"),
        ("x-S", MissingSeparator, 0..3, "quota `x-S`, column 1: expected `limit/window`, such as 5/1m"),
        (
            "99999999999999-S",
            LimitTooLarge,
            0..14,
            "quota `99999999999999-S`, column 1: the limit is above 1099511627775 (2^40 - 1)",
        ),
        ("☃5/1ü", InvalidLimit, 0..4, "quota `☃5/1ü`, column 1: the limit must be a whole number"),
        (
            "5/1ü",
            UnknownUnit,
            3..5,
            "quota `5/1ü`, column 4: unknown unit: expected ms, s, m, h, d or w (or month or year with a zone)",
        ),
        (
            "5/0s",
            WindowOutOfRange,
            2..4,
            "quota `5/0s`, column 3: the window must be between 1 ms and 3653 days (10 years) long",
        ),
        (
            "5/3654d",
            WindowOutOfRange,
            2..7,
            "quota `5/3654d`, column 3: the window must be between 1 ms and 3653 days (10 years) long",
        ),
        (
            "5/99999999999999999999999h",
            WindowOutOfRange,
            2..26,
            "quota `5/99999999999999999999999h`, column 3: the window must be between 1 ms and 3653 days (10 years) long",
        ),
        (
            "5/month",
            NeedsZone,
            2..7,
            "quota `5/month`, column 3: a month or year has no fixed length: name a time zone, such as 100/month@UTC",
        ),
        (
            "5/year@first_hit",
            NeedsZone,
            2..6,
            "quota `5/year@first_hit`, column 3: a month or year has no fixed length: name a time zone, such as \
             100/month@UTC",
        ),
        (
            "5/1h@Europe/Berlin",
            ZoneNeedsCalendarUnit,
            5..18,
            "quota `5/1h@Europe/Berlin`, column 6: a time zone needs day, week, month or year, such as \
             100/day@Europe/Berlin",
        ),
        (
            "5/2d@UTC",
            ZoneNeedsCalendarUnit,
            2..4,
            "quota `5/2d@UTC`, column 3: a time zone needs day, week, month or year, such as \
             100/day@Europe/Berlin",
        ),
        (
            "5/1m@first",
            UnknownAnchor,
            5..10,
            "quota `5/1m@first`, column 6: neither an anchor (epoch, staggered, first_hit) nor a known time zone, such as \
             Europe/Berlin",
        ),
        (
            "5/day@Europe/Belrin",
            UnknownAnchor,
            6..19,
            "quota `5/day@Europe/Belrin`, column 7: neither an anchor (epoch, staggered, first_hit) nor a known time \
             zone, such as Europe/Berlin",
        ),
        (
            "5/1m@firsthit",
            MisspeltAnchor("first_hit"),
            5..13,
            "quota `5/1m@firsthit`, column 6: unknown anchor: did you mean first_hit?",
        ),
        (
            "5/day@First-Hit",
            MisspeltAnchor("first_hit"),
            6..15,
            "quota `5/day@First-Hit`, column 7: unknown anchor: did you mean first_hit?",
        ),
        (
            "5/1m@stagger",
            MisspeltAnchor("staggered"),
            5..12,
            "quota `5/1m@stagger`, column 6: unknown anchor: did you mean staggered?",
        ),
        (
            "5/1m@",
            UnknownAnchor,
            5..5,
            "quota `5/1m@`, column 6: neither an anchor (epoch, staggered, first_hit) nor a known time zone, such as \
             Europe/Berlin",
        ),
    ];
    for (written, kind, range, message) in errors {
        let error = written.parse::<Quota>().expect_err(written);
        assert_eq!((error.kind(), error.range()), (kind, Some(range)), "{written}");
        assert_eq!(error.to_string(), message, "{written}");
    }
}

/// Somebody who copied a limit of another algorithm was told that a unit or an anchor is unknown, and looked for the
/// right spelling.
#[test]
fn the_error_for_another_algorithm_says_so() {
    use QuotaErrorKind::*;
    for (written, kind) in [
        ("5/1m@token-bucket", OtherKind("100/1m~burst:20")),
        ("5/1m@GCRA", OtherKind("100/1m~burst:20")),
        ("5/1m@sliding_window", OtherKind("100/1m~sliding or 100/1m~log")),
        ("100 per minute (rolling)", OtherKind("100/1m~sliding or 100/1m~log")),
        ("100/1m@moving-window", OtherKind("100/1m~sliding or 100/1m~log")),
        ("5~in_flight", InFlight),
        ("10 concurrent", InFlight),
        ("10/concurrency", InFlight),
        ("max_parallel_requests", InFlight),
    ] {
        let error = written.parse::<Quota>().expect_err(written);
        assert_eq!((error.kind(), error.range()), (kind, Some(0..written.len())), "{written}");
    }
    let page = include_str!("../../../../docs/policies.md");
    assert!(page.contains("\n### In flight\n"), "the errors link to this section");
}

/// nginx and redis-cell admit one request more than the burst that they write.
#[test]
fn buckets_of_other_limiters_are_read_with_the_burst_that_they_admit() {
    for (read, written) in [
        ("10r/s", "10/1s~burst:1"),
        ("rate=30r/m", "30/1m~burst:1"),
        ("rate=10r/s burst=20 nodelay", "10/1s~burst:21"),
        ("10r/s burst=0", "10/1s~burst:1"),
        ("CL.THROTTLE user123 15 30 60", "30/1m~burst:16"),
        ("cl.throttle user123 15 30 60 1", "30/1m~burst:16"),
    ] {
        assert_eq!(read.parse::<Quota>().map(|quota| quota.to_string()), Ok(written.to_owned()), "{read}");
    }
    for read in ["10r/h", "rate=r/s", "10r/s burst", "CL.THROTTLE user 15 30", "CL.THROTTLE user 15 30 60 2"]
    {
        assert!(read.parse::<Quota>().is_err(), "{read}");
    }
}

#[test]
fn several_quotas_are_read_from_one_text() {
    let list = |text: &str| {
        let quotas = Quota::list(text);
        quotas.map(|quotas| quotas.iter().map(Quota::to_string).collect::<Vec<_>>())
    };
    for separator in [";", ",", "|", " ; "] {
        let text = ["10/minute", "100 per 3 hour", "7-D", "5/day@Europe/Berlin"].join(separator);
        assert_eq!(list(&text).unwrap(), ["10/1m", "100/3h", "7/1d", "5/day@Europe/Berlin"], "{text}");
    }
    assert_eq!(list("5/1m").unwrap(), ["5/1m"]);
    let error = |text: &str| {
        let error = list(text).unwrap_err();
        (error.kind(), error.range())
    };
    assert_eq!(error("10/minute;100/q"), (QuotaErrorKind::UnknownUnit, Some(14..15)));
    assert_eq!(error("10/minute; ☃ ;1/h"), (QuotaErrorKind::MissingSeparator, Some(11..14)));
    assert_eq!(error("10/minute;"), (QuotaErrorKind::MissingSeparator, Some(10..10)));
    assert_eq!(error(""), (QuotaErrorKind::MissingSeparator, Some(0..0)));
}

#[test]
fn bounds_are_checked_at_construction() {
    let kind = |limit, window| Quota::new(limit, window).unwrap_err().kind();
    let millisecond = Duration::from_millis(1);
    assert!(Quota::new(Quota::MAX_LIMIT, Quota::MAX_WINDOW).is_ok());
    assert!(Quota::new(0, Quota::MIN_WINDOW).is_ok());
    assert_eq!(kind(Quota::MAX_LIMIT + 1, millisecond), QuotaErrorKind::LimitTooLarge);
    assert_eq!(kind(1, Duration::ZERO), QuotaErrorKind::WindowOutOfRange);
    assert_eq!(kind(1, Quota::MAX_WINDOW + millisecond), QuotaErrorKind::WindowOutOfRange);
    assert_eq!(
        kind(1, Duration::MAX.saturating_sub(Duration::from_nanos(999_999_999))),
        QuotaErrorKind::WindowOutOfRange
    );
    assert_eq!(kind(1, Duration::from_micros(1_500)), QuotaErrorKind::FractionOfMillisecond);
    assert_eq!(Quota::new(1, Duration::ZERO).unwrap_err().range(), None);

    let calendar = Quota::calendar(1, CalendarUnit::Day, "UTC").unwrap();
    let kind = calendar.clone().with_anchor(Anchor::Epoch).unwrap_err().kind();
    assert_eq!(kind, QuotaErrorKind::CalendarAnchor);
    let kind = Quota::per_day(1).with_anchor(Anchor::Calendar).unwrap_err().kind();
    assert_eq!(kind, QuotaErrorKind::CalendarAnchor);
    assert_eq!(calendar.with_limit(Quota::MAX_LIMIT + 1).unwrap_err().kind(), QuotaErrorKind::LimitTooLarge);
    // The last ones differ between machines, although databases list them.
    for zone in ["Mars/Olympus", "", "localtime", "posixrules", "Factory", "LOCALTIME"] {
        let kind = Quota::calendar(1, CalendarUnit::Day, zone).unwrap_err().kind();
        assert_eq!(kind, QuotaErrorKind::UnknownZone, "{zone}");
    }
}

/// Generates texts that are nearly quotas, and some that are.
fn nearly_a_quota() -> impl Strategy<Value = String> {
    "[ 0-9-]{0,22}r?(/|/ | per |@|-|;)[0-9 .]{0,22}(ms|s|m|h|d|w|S|H|day|week|month|year|ü|)(@[a-zA-Z_/ü@]{0,12}|@UTC|@first_hit|)"
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_printed_quota_reads_as_the_same(quota in quota()) {
        prop_assert_eq!(quota.to_string().parse(), Ok(quota));
    }

    #[test]
    fn any_text_is_a_quota_or_an_error_that_points_into_it(text in prop_oneof![any::<String>(), nearly_a_quota()]) {
        match text.parse::<Quota>() {
            Ok(quota) => prop_assert_eq!(quota.to_string().parse(), Ok(quota)),
            Err(error) => {
                let range = error.range().unwrap();
                prop_assert!(text.get(range).is_some(), "{}", error);
            }
        }
    }
}
