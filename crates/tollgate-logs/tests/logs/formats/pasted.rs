//! Formats that users paste from their configuration.

use tollgate_logs::{Format, Options};

use crate::requests;

#[test]
fn formats_of_nginx_are_pasted() {
    let cases = [
        (
            r#"log_format  timed  '$remote_addr - $remote_user [$time_local] "$request" '
                              '$status ${body_bytes_sent}b "$http_x_api_key" $msec $request_time';"#,
            r#"192.0.2.7 - - [23/Nov/2026:16:00:10 +0000] "GET /\x5C HTTP/1.1" 200 615b "k\x22" 1795449600.250 0.050"#,
            r#"2026-11-23T16:00:00.2Z 192.0.2.7 GET /\\ 200 615 0=k\""#,
        ),
        (
            r#"log_format json escape=json '{"time":"$time_iso8601","key":"$http_x_api_key","ip":"$remote_addr","uri":"$request_uri",'
                '"status":$status,"took":$request_time,"m":"$request_method"}';"#,
            r#"{"time":"2026-11-23T17:00:10+01:00","key":"a\"\u0007\\","ip":"::1","uri":"/a?b","status":200,"took":0.000,"m":"GET"}"#,
            r#"2026-11-23T16:00:10.5Z ::1 GET /a?b 200 - 0=a\"\x07\\"#,
        ),
        (
            "log_format bare escape=none \"$time_iso8601|$remote_addr|$http_x_api_key|$status\"",
            r#"2026-11-23T17:00:10+01:00|192.0.2.7|a"\x22|200"#,
            r#"2026-11-23T16:00:10.5Z 192.0.2.7 - - 200 - 0=a\"\\x22"#,
        ),
    ];
    for (format, line, expected) in cases {
        let options = Options {
            format: Some(format.parse().unwrap()),
            attributes: vec!["key=header:X-Api-Key".parse().unwrap()],
            ..Options::default()
        };
        assert_eq!(requests(line, options), [expected], "{format}");
    }
}

#[test]
fn formats_of_apache_are_pasted() {
    let cases = [
        (
            r#"LogFormat "%v:%p %a %l %u %t \"%r\" %>s %O %D \"%{User-Agent}i\" \"%{X-Api-Key}i\"" ours"#,
            r#"a.example:80 192.0.2.7 - - [23/Nov/2026:16:00:10 +0000] "GET / HTTP/1.1" 200 615 99 "curl" "a\"\\\n\xe9""#,
            r#"2026-11-23T16:00:10.5Z 192.0.2.7 GET / 200 615 host=a.example agent=curl 0=a\"\\\n\xe9"#,
        ),
        (
            r#"LogFormat "%{end:usec}t\t%h\t%m\t%U%q\t%s\t%B\t%{us}T\t%{X-Api-Key}i" tabs"#,
            "1795449600250000\t192.0.2.7\tGET\t/a?b=c\t200\t5\t250000\t-",
            "2026-11-23T16:00:00Z 192.0.2.7 GET /a?b=c 200 5 0=-",
        ),
        (
            r#"LogFormat "%{end:usec}t\t%h\t%m\t%U\t%q\t%s\t%B\t%{us}T\t%{X-Api-Key}i" tabs"#,
            "1795449600250000\t192.0.2.7\tGET\t/a\t?b=c\t200\t5\t250000\t-",
            "2026-11-23T16:00:00Z 192.0.2.7 GET /a?b=c 200 5 0=-",
        ),
        (
            "%{%Y-%m-%d %H:%M:%S %z}t %h %>s %!200{X-Api-Key}i",
            "2026-11-23 16:00:10 +0000 192.0.2.7 200 k",
            "2026-11-23T16:00:10.5Z 192.0.2.7 - - 200 - 0=k",
        ),
        (
            r#"LogFormat "%h [%{%d/%b/%Y %T}t.%{msec_frac}t %{%z}t] \"%r\" %{X-Api-Key}i" exact"#,
            r#"192.0.2.7 [23/Nov/2026 17:00:10.250 +0100] "GET / HTTP/1.1" k"#,
            "2026-11-23T16:00:10.25Z 192.0.2.7 GET / - - 0=k",
        ),
    ];
    for (format, line, expected) in cases {
        let options = Options {
            format: Some(format.parse().unwrap()),
            attributes: vec!["key=header:X-Api-Key".parse().unwrap()],
            ..Options::default()
        };
        assert_eq!(requests(line, options), [expected], "{format}");
    }
}

/// Usual formats were refused, because there is nothing between these fields.
#[test]
fn a_path_after_a_host_and_a_query_after_a_path_are_told_by_their_first_byte() {
    let nginx = r#"$time_iso8601 "$request_method $scheme://$host$request_uri $server_protocol" $status"#;
    let parts = "$time_iso8601 $host:$server_port$uri$is_args$query_string|$status";
    let quoted = r#"$time_iso8601 "$http_host$uri$is_args$args" $status"#;
    let apache = r#"%{%Y-%m-%dT%H:%M:%SZ}t "%m %U%q %H" %>s"#;
    let whole = "%{%Y-%m-%dT%H:%M:%SZ}t %V%U%q %>s";
    let at = "2026-11-23T16:00:00Z";
    let cases = [
        (nginx, r#""GET https://a.example/x?y=/ HTTP/2.0" 200"#, "- GET /x?y=/ 200 - host=a.example"),
        (nginx, r#""GET https://a.example/ HTTP/1.1" 200"#, "- GET / 200 - host=a.example"),
        // A request without a target, and OPTIONS.
        (nginx, r#""GET http://a.example- HTTP/1.1" 400"#, "- GET - 400 - host=a.example"),
        (nginx, r#""OPTIONS http://a.example* HTTP/1.1" 200"#, "- OPTIONS * 200 - host=a.example"),
        (parts, "a.example:443/x?y=?|200", "- - /x?y=? 200 - host=a.example"),
        (parts, "a.example:443/x|200", "- - /x 200 - host=a.example"),
        (quoted, r#""a.example/x\x22 y?z" 200"#, r#"- - /x\" y?z 200 - host=a.example"#),
        (quoted, r#""/x" 200"#, "- - /x 200 -"),
        (apache, r#""GET /x?y=z HTTP/1.1" 200"#, "- GET /x?y=z 200 -"),
        (apache, r#""GET /x HTTP/1.1" 200"#, "- GET /x 200 -"),
        (whole, "a.example/x?y 200", "- - /x?y 200 - host=a.example"),
        (whole, "a.example/ 200", "- - / 200 - host=a.example"),
    ];
    for (format, line, expected) in cases {
        let format_of = Some(format.parse().unwrap());
        let options =
            Options { format: format_of, zone: Some(jiff::tz::TimeZone::UTC), ..Options::default() };
        let expected = format!("2026-11-23T16:00:00.5Z {expected}");
        assert_eq!(requests(format!("{at} {line}"), options), [expected], "{format}: {line}");
    }
    for format in ["log_format a '$uri$args'", "log_format a '$uri$request_uri'", "LogFormat \"%h%U\" a"] {
        let error = format.parse::<Format>().unwrap_err().to_string();
        assert!(error.starts_with("there is nothing between"), "{error}");
    }
}

/// Lines of requests for which nginx tried a second upstream could not be read, and 1 % of them refused the log.
#[test]
fn values_of_several_upstreams_are_one_field() {
    let format = r#"$remote_addr [$time_iso8601] $upstream_addr $upstream_status $upstream_response_time $request_time $status "$request""#;
    let cases = [
        "10.0.0.1:80 200 0.001",
        "10.0.0.1:80, 10.0.0.2:80 502, 200 0.001, 0.002",
        "10.0.0.1:80 : 10.0.0.2:80, 10.0.0.3:80 302 : 502, 200 0.001 : 0.000, 0.002",
        "- - -",
    ];
    for upstreams in cases {
        let options = Options { format: Some(format.parse().unwrap()), ..Options::default() };
        let line = format!(r#"192.0.2.7 [2026-11-23T16:00:00Z] {upstreams} 2.000 200 "GET /a HTTP/1.1""#);
        assert_eq!(requests(line, options), ["2026-11-23T15:59:58.5Z 192.0.2.7 GET /a 200 -"], "{upstreams}");
    }
}

#[test]
fn an_invalid_format_says_why() {
    let cases = [
        ("nginx", "unknown format \"nginx\"; expected caddy, "),
        ("log_format", "log_format has no name"),
        ("log_format a '$x", "a quote of the format is never closed"),
        ("log_format a escape=xml '$x'", "unknown escape \"xml\""),
        ("log_format a '$ x'", "expected the name of a variable after $, found \" x\""),
        ("log_format a '$a$b'", "there is nothing between $a and $b"),
        ("LogFormat %h", "a quote of the format is never closed, or the format is not quoted"),
        ("LogFormat \"%h %\" a", "invalid directive \"%\""),
        ("LogFormat \"%h %{a\" a", "invalid directive \"%{a\""),
    ];
    for (format, expected) in cases {
        let error = format.parse::<Format>().unwrap_err().to_string();
        assert!(error.starts_with(expected), "{format}: {error}");
    }
}
