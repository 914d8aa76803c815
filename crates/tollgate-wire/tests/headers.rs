//! The headers of each format, read back by an independent parser if there is one.

#![allow(clippy::unwrap_used, reason = "this is a test")]

use std::time::Duration;

use http::HeaderMap;
use sfv::{BareItem, Item, ListEntry, Parser};
use tollgate::kind::Standing;
use tollgate::{Limiter, ManualClock, MemoryStore, Quota, QuotaState, QuotaStates, Source};
use tollgate_wire::headers::{HeaderFormat, HeaderFormats, LimitHeaders};

/// Returns states of quotas 18.4 seconds into the minute of 2023-11-14 22:14, and the writer of the headers.
fn counted(
    formats: impl Into<HeaderFormats>,
    policy: &str,
    quotas: &[&str],
    cost: u32,
) -> (LimitHeaders, QuotaStates) {
    let clock = ManualClock::default();
    clock.advance(Duration::from_millis(18_400));
    let store = MemoryStore::builder().clock(clock).build();
    let quotas = quotas.iter().map(|quota| quota.parse::<Quota>().unwrap());
    let limiter = quotas.fold(Limiter::builder(policy), |all, quota| all.quota(quota)).build(store).unwrap();
    let counted = limiter.check_cost("alice", cost).unwrap().quotas().clone();
    (LimitHeaders::new(formats, limiter.quotas()), counted)
}

fn written(formats: impl Into<HeaderFormats>, quotas: &[&str], cost: u32) -> HeaderMap {
    let (limit_headers, counted) = counted(formats, "default", quotas, cost);
    let mut headers = HeaderMap::new();
    limit_headers.write(&counted, &mut headers);
    headers
}

/// Returns sorted lines.
fn lines(headers: &HeaderMap) -> Vec<String> {
    let mut lines: Vec<String> =
        headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
    lines.sort_unstable();
    lines
}

/// Parses a list of strings with an independent parser: each name with its parameters.
fn parsed(headers: &HeaderMap, name: &str) -> Vec<(String, Vec<(String, i64)>)> {
    let list = Parser::new(headers[name].as_bytes()).parse::<sfv::List>().unwrap();
    let item = |entry: ListEntry| {
        let ListEntry::Item(Item { bare_item: BareItem::String(name), params }) = entry else {
            panic!("{entry:?} is no string")
        };
        let params = params
            .iter()
            .map(|(name, value)| (name.as_str().to_owned(), i64::from(value.as_integer().unwrap())));
        (name.as_str().to_owned(), params.collect())
    };
    list.into_iter().map(item).collect()
}

fn items(items: &[(&str, &[(&str, i64)])]) -> Vec<(String, Vec<(String, i64)>)> {
    let parameters = |parameters: &[(&str, i64)]| {
        parameters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    };
    items.iter().map(|(name, item_parameters)| ((*name).to_owned(), parameters(item_parameters))).collect()
}

#[test]
fn draft_11_is_a_list_of_names_with_parameters() {
    let headers = written(HeaderFormat::Draft11, &["5/1m"], 1);
    assert_eq!(
        lines(&headers),
        ["ratelimit-policy: \"default\";q=5;w=60", "ratelimit: \"default\";r=4;t=42"]
    );
    assert_eq!(parsed(&headers, "ratelimit-policy"), items(&[("default", &[("q", 5), ("w", 60)])]));
    assert_eq!(parsed(&headers, "ratelimit"), items(&[("default", &[("r", 4), ("t", 42)])]));

    // A calendar day with 6,342 seconds left, rounded up.
    let headers = written(HeaderFormat::Draft11, &["5/1m", "9/day@UTC", "1099511627775/3653d"], 5);
    let policy: &[(&str, &[(&str, i64)])] = &[
        ("default/5/1m", &[("q", 5), ("w", 60)]),
        ("default/9/day@UTC", &[("q", 9), ("w", 86_400)]),
        ("default/1099511627775/3653d", &[("q", 1_099_511_627_775), ("w", 315_619_200)]),
    ];
    assert_eq!(parsed(&headers, "ratelimit-policy"), items(policy));
    let left = parsed(&headers, "ratelimit");
    assert_eq!(
        left[..2],
        items(&[("default/5/1m", &[("r", 0), ("t", 42)]), ("default/9/day@UTC", &[("r", 4), ("t", 6_342)])])
    );
}

#[test]
fn names_of_any_kind_can_be_read_back() {
    for (policy, name) in [
        (r#"a "quoted" name, with \ and ;q=1"#, r#"a "quoted" name, with \ and ;q=1"#),
        ("straße\r\nset-cookie: a=b", "stra%C3%9Fe%0D%0Aset-cookie: a=b"),
        ("", ""),
    ] {
        let (limit_headers, counted) = counted(HeaderFormat::Draft11, policy, &["5/1m"], 1);
        let mut headers = HeaderMap::new();
        limit_headers.write(&counted, &mut headers);
        assert_eq!(parsed(&headers, "ratelimit"), items(&[(name, &[("r", 4), ("t", 42)])]));
        assert_eq!(parsed(&headers, "ratelimit-policy"), items(&[(name, &[("q", 5), ("w", 60)])]));
    }
}

#[test]
fn older_formats_tell_of_the_quota_that_decided() {
    // The time is 1,700,000,058.4 s; the minute ends at 1,700,000,100, the day at 1,700,006,400.
    let table: &[(HeaderFormat, &[&str], u32, &[&str])] = &[
        (
            HeaderFormat::Draft06,
            &["5/1m"],
            1,
            &[
                "ratelimit-limit: 5",
                "ratelimit-policy: 5;w=60",
                "ratelimit-remaining: 4",
                "ratelimit-reset: 42",
            ],
        ),
        (
            HeaderFormat::Draft06,
            &["5/1m", "6/day@UTC"],
            6,
            &[
                "ratelimit-limit: 5",
                "ratelimit-policy: 5;w=60, 6;w=86400",
                "ratelimit-remaining: 5",
                "ratelimit-reset: 42",
            ],
        ),
        (
            HeaderFormat::Draft06,
            &["50/1m", "6/day@UTC"],
            5,
            &[
                "ratelimit-limit: 6",
                "ratelimit-policy: 50;w=60, 6;w=86400",
                "ratelimit-remaining: 1",
                "ratelimit-reset: 6342",
            ],
        ),
        (
            HeaderFormat::XRateLimit,
            &["5/1m"],
            1,
            &["x-ratelimit-limit: 5", "x-ratelimit-remaining: 4", "x-ratelimit-reset: 1700000100"],
        ),
        (
            HeaderFormat::XRateLimit,
            &["50/1m", "6/300ms"],
            5,
            &["x-ratelimit-limit: 6", "x-ratelimit-remaining: 1", "x-ratelimit-reset: 1700000059"],
        ),
        (
            HeaderFormat::GitHub,
            &["5/1m"],
            1,
            &[
                "x-ratelimit-limit: 5",
                "x-ratelimit-remaining: 4",
                "x-ratelimit-reset: 1700000100",
                "x-ratelimit-resource: default",
                "x-ratelimit-used: 1",
            ],
        ),
        (
            HeaderFormat::GitHub,
            &["50/1m", "6/day@UTC"],
            7,
            &[
                "x-ratelimit-limit: 6",
                "x-ratelimit-remaining: 6",
                "x-ratelimit-reset: 1700006400",
                "x-ratelimit-resource: default/6/day@UTC",
                "x-ratelimit-used: 0",
            ],
        ),
        (
            HeaderFormat::Kong,
            &["5/1m"],
            1,
            &[
                "ratelimit-limit: 5",
                "ratelimit-remaining: 4",
                "ratelimit-reset: 42",
                "x-ratelimit-limit-minute: 5",
                "x-ratelimit-remaining-minute: 4",
            ],
        ),
        (
            HeaderFormat::Kong,
            &[
                "9/1s",
                "50/60s@first_hit",
                "60/1m",
                "70/1h",
                "8/day@UTC",
                "80/24h",
                "90/month@UTC",
                "95/year@UTC",
                "7/90s",
            ],
            5,
            &[
                "ratelimit-limit: 7",
                "ratelimit-remaining: 2",
                "ratelimit-reset: 42",
                "x-ratelimit-limit-day: 8",
                "x-ratelimit-limit-hour: 70",
                "x-ratelimit-limit-minute: 50",
                "x-ratelimit-limit-month: 90",
                "x-ratelimit-limit-second: 9",
                "x-ratelimit-limit-year: 95",
                "x-ratelimit-remaining-day: 3",
                "x-ratelimit-remaining-hour: 65",
                "x-ratelimit-remaining-minute: 45",
                "x-ratelimit-remaining-month: 85",
                "x-ratelimit-remaining-second: 4",
                "x-ratelimit-remaining-year: 90",
            ],
        ),
        (
            HeaderFormat::Envoy,
            &["5/1m"],
            1,
            &[
                "x-ratelimit-limit: 5, 5;w=60;name=\"default\"",
                "x-ratelimit-remaining: 4",
                "x-ratelimit-reset: 42",
            ],
        ),
        (
            HeaderFormat::Envoy,
            &["50/1m", "6/day@UTC"],
            7,
            &[
                "x-envoy-ratelimited: true",
                "x-ratelimit-limit: 6, 50;w=60;name=\"default/50/1m\", 6;w=86400;name=\"default/6/day@UTC\"",
                "x-ratelimit-remaining: 6",
                "x-ratelimit-reset: 6342",
            ],
        ),
        (HeaderFormat::None, &["5/1m"], 1, &[]),
    ];
    for (format, quotas, cost, expected) in table {
        assert_eq!(lines(&written(*format, quotas, *cost)), *expected, "{format} {quotas:?}");
    }
}

/// Clients of the old format keep working while others move to the new one.
#[test]
fn several_formats_are_sent_together() {
    use HeaderFormat::{Draft11, Envoy, GitHub, Kong, XRateLimit};
    for formats in [&[Draft11, XRateLimit][..], &[Draft11, GitHub], &[Draft11, Envoy, Kong]] {
        let together = lines(&written(HeaderFormats::new(formats.iter().copied()).unwrap(), &["5/1m"], 6));
        let mut each: Vec<String> =
            formats.iter().flat_map(|format| lines(&written(*format, &["5/1m"], 6))).collect();
        each.sort_unstable();
        assert_eq!(together, each, "{formats:?}");
    }
    let both = HeaderFormats::new([XRateLimit, Draft11]).unwrap();
    assert_eq!(
        lines(&written(both, &["5/1m"], 1)),
        [
            "ratelimit-policy: \"default\";q=5;w=60",
            "ratelimit: \"default\";r=4;t=42",
            "x-ratelimit-limit: 5",
            "x-ratelimit-remaining: 4",
            "x-ratelimit-reset: 1700000100",
        ]
    );
}

#[test]
fn every_format_says_when_to_come_back() {
    for format in HeaderFormat::ALL {
        let clock = ManualClock::default();
        clock.advance(Duration::from_millis(59_999));
        let store = MemoryStore::builder().clock(clock).build();
        let limiter = Limiter::with_store(Quota::per_minute(1), store);
        let limit_headers = LimitHeaders::new(format, limiter.quotas());
        let mut headers = HeaderMap::new();
        limit_headers.write(limiter.check("alice").unwrap().quotas(), &mut headers);
        assert!(!headers.contains_key("retry-after"), "{format}");
        limit_headers.write(limiter.check("alice").unwrap().quotas(), &mut headers);
        assert_eq!(headers["retry-after"], "1", "{format}: a millisecond is rounded up");
        let (limit_headers, never) = counted(format, "default", &["5/1m"], 6);
        headers.clear();
        limit_headers.write(&never, &mut headers);
        assert!(!headers.contains_key("retry-after"), "{format}: it can never pass");
    }
}

#[test]
fn windows_below_a_second_are_shown_as_one_second() {
    assert_eq!(written(HeaderFormat::Draft11, &["5/300ms"], 1)["ratelimit-policy"], "\"default\";q=5;w=1");
    assert_eq!(written(HeaderFormat::Draft06, &["5/300ms"], 1)["ratelimit-policy"], "5;w=1");
}

#[test]
fn decisions_without_the_store_name_their_source_and_the_whole_limit() {
    let (limit_headers, counted) = counted(HeaderFormat::Draft11, "default", &["9/1m"], 1);
    let share: Quota = "3/1m".parse().unwrap();
    let state = counted[0];
    for (source, name) in [(Source::Fallback, "fallback"), (Source::Local, "local")] {
        let window = state.window().unwrap();
        let state =
            QuotaState::of(&share, &Standing::in_window(1, window), state.now(), None, 0).with_source(source);
        let mut headers = HeaderMap::new();
        limit_headers.write(&QuotaStates::one(state), &mut headers);
        assert_eq!(headers["tollgate-source"], name);
        assert_eq!(headers["ratelimit-policy"], "\"default\";q=9;w=60");
        assert_eq!(headers["ratelimit"], "\"default\";r=2;t=42", "what the next request will find");
    }
}

#[test]
fn every_format_parses_its_name_and_writes_headers_unless_it_is_none() {
    for format in HeaderFormat::ALL {
        assert_eq!(format.to_string().parse(), Ok(format));
        assert_eq!(written(format, &["5/1m"], 1).is_empty(), format == HeaderFormat::None, "{format}");
    }
    assert!("draft-6".parse::<HeaderFormat>().is_err());
}
