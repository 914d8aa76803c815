//! Where the fields of a text end.

use tollgate_logs::Options;

use crate::{log, read_all, requests};

/// The user agents of a log in which 7 % of them have quotes that nobody escaped. It was read as one without user
/// agents, so no client was a robot.
#[test]
fn quotes_that_are_not_escaped_belong_to_their_field() {
    let cases = [
        (r#""-" "Mozilla "Googlebot" x""#, r#"agent=Mozilla \"Googlebot\" x"#),
        (r#""-" ""a" b""#, r#"agent=\"a\" b"#),
        (r#""-" "a "b c"" 0.005"#, r#"agent=a \"b c\""#),
        (r#""-" "a "b c" "10.0.0.1""#, r#"agent=a \"b c"#),
        (r#""-" "a "b" c" "10.0.0.1" 0.005"#, r#"agent=a \"b\" c"#),
        (r#""http://h/?q="x"" "a""#, r#"agent=a referer=http://h/?q=\"x\""#),
        (r#""-" "a \"b\" \\" x"#, r#"agent=a \"b\" \\"#),
    ];
    let line = |rest: &str| {
        format!("192.0.2.7 - - [23/Nov/2026:16:00:10 +0000] \"GET / HTTP/1.1\" 200 615 {rest}\n")
    };
    for (rest, expected) in cases {
        let text = [line(r#""-" "plain""#).repeat(3), line(rest)].concat();
        let (requests, summary, result) = read_all(vec![log(text)], Options::default());
        result.unwrap();
        assert_eq!(summary.files[0].format.as_deref(), Some("combined"), "{rest}");
        let expected = format!("2026-11-23T16:00:10.875Z 192.0.2.7 GET / 200 615 {expected}");
        assert_eq!(requests[3], expected, "{rest}");
    }
    let unclosed = line("\"-\" \"a\"b");
    let (_, summary, _) =
        read_all(vec![log([line(r#""-" "plain""#).repeat(99), unclosed].concat())], Options::default());
    assert_eq!((summary.files[0].format.as_deref(), summary.unparsed_lines()), (Some("combined"), 1));
}

/// Such a format could not be written: the method was the whole request, and the status was a path.
#[test]
fn a_request_line_without_quotes_ends_with_its_version() {
    let nginx = "$remote_addr [$time_iso8601] $request $status";
    let apache = "%h %t %r %>s %b";
    let cases = [
        ("GET /a HTTP/1.1", "GET /a"),
        ("GET /a b HTTP/2.0", "GET /a b"),
        ("POST /a?b=c HTTP/1.0", "POST /a?b=c"),
        ("-", "- -"),
        ("\\x16\\x03", "- -"),
    ];
    for (request, expected) in cases {
        for (format, line) in [
            (nginx, format!("192.0.2.7 [2026-11-23T16:00:10Z] {request} 200")),
            (apache, format!("192.0.2.7 [23/Nov/2026:16:00:10 +00] {request} 200 -")),
        ] {
            let options = Options { format: Some(format.parse().unwrap()), ..Options::default() };
            let expected = format!("2026-11-23T16:00:10.5Z 192.0.2.7 {expected} 200 -");
            assert_eq!(requests(line, options), [expected], "{format}: {request}");
        }
    }
}
