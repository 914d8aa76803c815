//! Formats that are detected or named.

use tollgate_logs::{Format, Instant, Options};

use super::{CASES, berlin};
use crate::{log, read_all, requests};

#[test]
fn known_formats_are_detected_and_read() {
    for case in CASES {
        let (requests, summary, result) = read_all(vec![log(case.text)], berlin());
        result.unwrap_or_else(|error| panic!("{}: {error}", case.format));
        assert_eq!(requests, case.requests, "{}", case.format);
        let [file] = &summary.files[..] else { panic!("one file") };
        assert_eq!(file.format.as_deref(), Some(case.format));
        assert_eq!(
            (file.instant, file.precision),
            (Some(case.instant), Some(case.precision)),
            "{}",
            case.format
        );
        assert_eq!(file.may_be_sampled, ["cloudflare", "google"].contains(&case.format));
    }
}

/// A sample was replayed as if it were whole where another format read it: with fields that somebody added, under a
/// name in front, in a table, or as a named format.
#[test]
fn samples_are_told_by_their_fields_whatever_reads_them() {
    const OWN: &str = r#""time":"2026-11-23T16:00:00Z","ip":"192.0.2.7","method":"GET","path":"/a","status":200,"bytes":1,"host":"a","user":"b","user_agent":"c","referer":"d","#;
    const GOOGLE: &str = r#""timestamp":"2026-11-23T16:00:00Z","httpRequest":{"requestMethod":"GET","requestUrl":"/a","remoteIp":"192.0.2.7","status":200}"#;
    const CLOUDFLARE: &str = r#""EdgeStartTimestamp":"2026-11-23T16:00:00Z","ClientIP":"192.0.2.7","ClientRequestMethod":"GET","ClientRequestURI":"/a""#;
    const ENVOY: &str = r#""start_time":"2026-11-23T16:00:00Z","downstream_remote_address":"192.0.2.7","x_forwarded_for":"192.0.2.7","method":"GET","path":"/a","authority":"a","user_agent":"b","referer":"c","response_code":200,"bytes_sent":1,"#;
    let named = |format: &str| Options { format: Some(format.parse().unwrap()), ..Options::default() };
    let timed = |time: &str| Options { time: Some(time.parse().unwrap()), ..Options::default() };
    let usual = Options::default;
    let cases = [
        (format!("{{{OWN}{GOOGLE}}}"), usual(), "json"),
        (format!("{{{OWN}{CLOUDFLARE}}}"), usual(), "json"),
        (format!("{{{ENVOY}{GOOGLE}}}"), usual(), "envoy-json"),
        (format!("app-1  | {{{OWN}{GOOGLE}}}"), usual(), "json in compose"),
        (format!("{{{OWN}\"data\" : {{{GOOGLE}}}}}"), usual(), "json"),
        (format!("{{{OWN}{}}}", CLOUDFLARE.to_ascii_lowercase()), usual(), "json"),
        (r#"{"EdgeEndTimestamp":"2026-11-23T16:00:00Z"}"#.into(), timed("/EdgeEndTimestamp:iso"), "json"),
        (format!("{{{OWN}{GOOGLE}}}"), named("json"), "json"),
        (format!("{{{ENVOY}{GOOGLE}}}"), named("envoy-json"), "envoy-json"),
        ("time,ip,httpRequest.requestUrl\n2026-11-23T16:00:00Z,192.0.2.7,/a".into(), usual(), "csv"),
        (
            "\"EdgeStartTimestamp\"\tClientIP\tRayID\r\n2026-11-23T16:00:00Z\t192.0.2.7\tr\r\n".into(),
            timed("EdgeStartTimestamp:iso"),
            "tsv",
        ),
    ];
    let read = |text: &str, options| {
        let (_, summary, _) = read_all(vec![log(text)], options);
        let [file] = &summary.files[..] else { panic!("one file: {text}") };
        (file.format.clone().unwrap_or_default(), file.may_be_sampled)
    };
    for (text, options, format) in cases {
        assert_eq!(read(&text, options), (format.to_owned(), true), "{text}");
    }
    let names =
        r#""note":"\"httpRequest\": \"requestUrl\":","requestUrl":"httpRequest","ClientIP":"192.0.2.7""#;
    let firewall =
        r#""timestamp":1795449600000,"httpRequest":{"clientIp":"192.0.2.7","uri":"/a","httpMethod":"GET"}"#;
    let pasted = r#"log_format a escape=json '{"httpRequest":{"requestMethod":"$request_method","remoteIp":"$remote_addr","time":"$time_iso8601"}}';"#;
    let line =
        r#"{"httpRequest":{"requestMethod":"GET","remoteIp":"192.0.2.7","time":"2026-11-23T16:00:00Z"}}"#;
    for (text, options, format) in [
        (format!("{{{OWN}{names}}}"), usual(), "json"),
        (format!("{{{OWN}{firewall}}}"), usual(), "json"),
        (line.into(), named(pasted), "log_format a"),
        ("time,ip,requestUrl\n2026-11-23T16:00:00Z,192.0.2.7,httpRequest".into(), usual(), "csv"),
    ] {
        assert_eq!(read(&text, options), (format.to_owned(), false), "{text}");
    }
}

#[test]
fn a_format_that_is_named_reads_what_it_detects() {
    for case in CASES {
        let name = case.format.trim_end_matches(" in syslog");
        let options = Options { format: Some(name.parse().unwrap()), ..berlin() };
        assert_eq!(requests(case.text, options), case.requests, "{}", case.format);
    }
    for name in Format::names() {
        assert_eq!(name.parse::<Format>().unwrap().name(), name);
    }
}

/// They were read as requests of clients without an address: those to `/forward-auth`, as many as all others.
#[test]
fn requests_of_haproxys_own_scripts_are_none_of_clients() {
    let text = "-:- [06/Feb/2009:12:14:14.655] <HTTPCLIENT> <HTTPCLIENT>/<HTTPCLIENT> 2/0/0/2/2 200 383 - - ---- 1/0/0/0/0 \
                0/0 {} \"GET http://127.0.0.1:8080/forward-auth HTTP/1.1\"\n\
                10.0.1.2:33317 [06/Feb/2009:12:14:14.655] web app/app 2/0/0/4/6 200 500 - - ---- 1/1/0/0/0 0/0 \"GET /x \
                HTTP/1.1\"\n";
    let (requests, summary, result) = read_all(vec![log(text)], berlin());
    result.unwrap();
    assert_eq!(requests, ["2009-02-06T11:14:14.655Z 10.0.1.2 GET /x 200 500"]);
    assert_eq!((summary.others, summary.unparsed_lines()), (1, 0));
}

#[test]
fn the_server_is_told_by_name_where_lines_are_the_same() {
    let line = r#"192.0.2.7 - - [23/Nov/2026:16:00:10 +0000] "GET / HTTP/1.1" 200 615 "-" "curl/8""#;
    let cases = [
        ("nginx-combined", Instant::End),
        ("apache-combined", Instant::Begin),
        ("combined", Instant::Unknown),
    ];
    for (name, instant) in cases {
        let options = Options { format: Some(name.parse().unwrap()), ..Options::default() };
        let (requests, summary, _) = read_all(vec![log(line)], options);
        assert_eq!(requests, ["2026-11-23T16:00:10.5Z 192.0.2.7 GET / 200 615 agent=curl/8"]);
        assert_eq!(summary.files[0].instant, Some(instant));
    }
}

#[test]
fn prefixes_of_log_drivers_are_cut_off() {
    let line = r#"192.0.2.7 - - [23/Nov/2026:16:00:10 +0000] "GET / HTTP/1.1" 200 615 "-" "curl/8""#;
    let cases = [
        ("2026-11-23T16:00:11.123456789Z stdout F ", "combined in CRI"),
        ("2026-11-23T16:00:11.123456789+01:00 stderr F ", "combined in CRI"),
        ("web-1  | ", "combined in compose"),
        ("<190>Nov 23 16:00:11 web nginx: ", "combined in syslog"),
        ("Nov  3 16:00:11 web nginx[99]: ", "combined in syslog"),
        ("2026-11-23T16:00:11.123456+01:00 web nginx: ", "combined in syslog"),
        ("<190>1 2026-11-23T16:00:11.123Z web nginx 99 - - ", "combined in syslog"),
    ];
    for (prefix, format) in cases {
        let (requests, summary, _) = read_all(vec![log(format!("{prefix}{line}\n"))], Options::default());
        assert_eq!(requests, ["2026-11-23T16:00:10.5Z 192.0.2.7 GET / 200 615 agent=curl/8"], "{prefix}");
        assert_eq!(summary.files[0].format.as_deref(), Some(format));
    }
}

/// Kubernetes splits lines above 16 KiB. Their parts could not be read.
#[test]
fn parts_of_lines_are_joined() {
    let at = "2026-11-23T16:00:11.1Z";
    let line = |path: &str| {
        format!(r#"192.0.2.7 - - [23/Nov/2026:16:00:10 +0000] "GET /{path} HTTP/1.1" 200 615 "-" "-""#)
    };
    let long = line(&"x".repeat(40_000));
    let (first, rest) = long.split_at(16_384);
    let (second, third) = rest.split_at(16_384);
    let short = line("a");
    let text = [
        format!("{at} stdout F {short}"),
        format!("{at} stdout P {first}"),
        format!("{at} stderr F {short}"),
        format!("{at} stdout P {second}"),
        format!("{at} stdout F {third}"),
        format!("{at} stdout F {short}"),
        // Altogether, it is too long.
        format!("{at} stdout P {first}"),
        format!("{at} stdout P {}", "x".repeat(60_000)),
        format!("{at} stdout F {third}"),
    ];
    let text = text.join("\n") + &format!("\n{at} stdout F {short}").repeat(40);
    let options = Options { max_unparsed: 0.05, ..Options::default() };
    let (requests, summary, result) = read_all(vec![log(text)], options);
    result.unwrap();
    let paths: Vec<usize> = requests.iter().map(|request| request.split(' ').nth(3).unwrap().len()).collect();
    assert_eq!(paths[..4], [2, 2, 40_001, 2]);
    assert_eq!(paths.len(), 4 + 40);
    assert_eq!((summary.others, summary.unparsed_lines()), (4, 1));
    assert_eq!(summary.unparsed[0].reason, "the line is longer than 64 KiB");
}
