//! Attributes and times that users name.

use tollgate_logs::{Error, Field, Options};

use super::{CASES, berlin};
use crate::{log, read_all, requests};

#[test]
fn attributes_are_taken_from_fields_and_their_parts() {
    let line = r#"{"time":"2026-11-23T16:00:10Z","ip":"10.0.0.2","path":"/a?x=1&api%5Fkey=a%20b+c&api_key=d","status":200,"user":{"id":7,"~/":[null,"z"]},"ok":true,"x_forwarded_for":"203.0.113.9, 192.0.2.1:80, 10.0.0.3"}"#;
    let cases = [
        ("a=json:/user/id", "7"),
        ("a=json:/user/~0~1/1", "z"),
        ("a=json:/user/~0~1/0", "-"),
        ("a=json:/user", "-"),
        ("a=json:/ok", "true"),
        ("a=field:ok", "true"),
        ("a=query:api_key", "a b c"),
        ("a=query:x", "1"),
        ("a=query:y", "-"),
        ("a=xff:", "10.0.0.2"),
        ("a=xff:10.0.0.0/8", "192.0.2.1"),
        ("a=xff:10.0.0.0/8,192.0.2.0/24", "203.0.113.9"),
        ("a=xff:0.0.0.0/0", "203.0.113.9"),
    ];
    for (attribute, expected) in cases {
        let options = Options { attributes: vec![attribute.parse().unwrap()], ..Options::default() };
        let expected = format!(
            "2026-11-23T16:00:10.5Z 10.0.0.2 - /a?x=1&api%5Fkey=a%20b+c&api_key=d 200 - 0={expected}"
        );
        assert_eq!(requests(line, options), [expected], "{attribute}");
    }
}

/// The service refuses a request with an empty entry, and the replay counted it as the proxy.
#[test]
fn an_empty_entry_of_a_proxy_names_no_client() {
    for (forwarded, ip) in [
        ("9.9.9.9,,10.0.0.3", "-"),
        ("9.9.9.9, , 10.0.0.3", "-"),
        ("9.9.9.9,", "-"),
        (",10.0.0.3", "-"),
        (",,9.9.9.9, 10.0.0.3", "9.9.9.9"),
        ("9.9.9.9, unknown", "10.0.0.1"),
        ("-", "10.0.0.1"),
    ] {
        let line = format!(
            r#"10.0.0.1 - - [23/Nov/2026:16:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "-" "{forwarded}""#
        );
        let attributes = vec!["ip=xff:10.0.0.0/8".parse().unwrap()];
        let options = Options { attributes, ..Options::default() };
        let expected = format!("2026-11-23T16:00:00.5Z {ip} GET / 200 5 0={ip}");
        assert_eq!(requests(&line, options), [expected], "{forwarded}");
    }
}

#[test]
fn an_attribute_with_the_name_of_a_field_replaces_it() {
    let line = r#"10.0.0.1 - - [23/Nov/2026:16:00:00 +0000] "GET /?u=me HTTP/1.1" 200 5 "-" "-" "192.0.2.1""#;
    let attributes = ["ip=xff:10.0.0.0/8", "user=query:u"].map(|attribute| attribute.parse().unwrap());
    let options = Options { attributes: attributes.to_vec(), ..Options::default() };
    assert_eq!(
        requests(line, options),
        ["2026-11-23T16:00:00.5Z 192.0.2.1 GET /?u=me 200 5 user=me 0=192.0.2.1 1=me"]
    );
}

/// A path kept its query and an address its port, so no policy matched them.
#[test]
fn an_attribute_with_the_name_of_a_field_is_read_like_it() {
    let cases = [
        ("/a?b=c", "192.0.2.1:443", "/a", "", "192.0.2.1"),
        ("https://h?b=/c", "[2001:db8::1]:443", "/", " host=h", "2001:db8::1"),
        ("https://h/a/?b", "2001:db8::1", "/a/", " host=h", "2001:db8::1"),
        ("*", "client.example", "*", "", "client.example"),
        ("h:443", ":80", "-", " host=h:443", "-"),
        // A client can forge all but the last address.
        ("/", "192.0.2.1:80, 10.0.0.1", "/", "", "192.0.2.1:80, 10.0.0.1"),
    ];
    for (asked, peer, path, host, ip) in cases {
        let line = format!(
            r#"{{"time":"2026-11-23T16:00:00.1Z","method":"GET","uri":"/x?y=z","to":"{asked}","peer":"{peer}"}}"#
        );
        let attributes = ["path=json:/to", "ip=json:/peer"].map(|attribute| attribute.parse().unwrap());
        let options = Options { attributes: attributes.to_vec(), ..Options::default() };
        let expected = format!("2026-11-23T16:00:00.1Z {ip} GET {path}?y=z - -{host} 0={path} 1={ip}");
        assert_eq!(requests(&line, options), [expected], "{asked} {peer}");
    }
    // If the line has no other query, that of the path is used.
    let line = r#"{"time":"2026-11-23T16:00:00.1Z","method":"GET","to":"/a?key=k"}"#;
    let attributes = ["key=query:key", "path=json:/to"].map(|attribute| attribute.parse().unwrap());
    let options = Options { attributes: attributes.to_vec(), ..Options::default() };
    assert_eq!(requests(line, options), ["2026-11-23T16:00:00.1Z - GET /a?key=k - - 0=k 1=/a"]);
}

#[test]
fn an_attribute_that_a_format_cannot_have_is_an_error() {
    let line = r#"192.0.2.7 - - [23/Nov/2026:16:00:10 +0000] "GET / HTTP/1.1" 200 615 "-" "curl/8""#;
    for (attribute, field) in
        [("a=header:X-Api-Key", "http_x_api_key"), ("a=field:nope", "nope"), ("a=json:/a", "json:/a")]
    {
        let options = Options { attributes: vec![attribute.parse().unwrap()], ..Options::default() };
        let (_, _, result) = read_all(vec![log(line)], options);
        let expected = format!("test.log: lines of the format combined have no field {field}");
        assert_eq!(result.unwrap_err().to_string(), expected);
    }
}

#[test]
fn fields_that_are_not_wanted_are_left_out() {
    let options = Options { fields: vec![Field::Path], ..Options::default() };
    assert_eq!(requests(CASES[1].text, options)[1], r#"2000-10-10T20:55:37.5Z - - /\"q\" 200 1"#);
}

#[test]
fn the_time_is_where_the_user_says() {
    let cases = [
        (
            "{\"t\":{\"at\":\"23.11.2026 16:00\"},\"path\":\"/\"}\n",
            "/t/at:%d.%m.%Y %H:%M",
            "2026-11-23T15:00:00.5Z - - / - -",
        ),
        ("{\"epoch\":1795449600123,\"path\":\"/\"}\n", "epoch:unix", "2026-11-23T16:00:00.123Z - - / - -"),
        ("when,path,status\n2026-11-23 16:00:00,/,200\n", "when", "2026-11-23T15:00:00.5Z - - / 200 -"),
        ("When,path,status\n2026-11-23 16:00:00,/,200\n", "When", "2026-11-23T15:00:00.5Z - - / 200 -"),
        (
            "#Fields: Begin cs-uri-stem\n2026-11-23T16:00:00+01:00 /\n",
            "BEGIN",
            "2026-11-23T15:00:00.5Z - - / - -",
        ),
    ];
    for (text, time, expected) in cases {
        let options = Options { time: Some(time.parse().unwrap()), ..berlin() };
        assert_eq!(requests(text, options), [expected], "{time}");
    }
}

/// Such a log was one of Envoy, because method and path have the same names there: it had no address and no status.
#[test]
fn a_time_that_the_user_names_makes_no_other_servers_json() {
    let usual = r#"{"epoch":1795449600,"method":"GET","path":"/x","ip":"192.0.2.1","status":200}"#;
    let envoy = r#"{"epoch":1795449600,"method":"GET","path":"/x","downstream_remote_address":"192.0.2.1:80","response_code":200}"#;
    for (line, format) in [(usual, "json"), (envoy, "envoy-json")] {
        let options = Options { time: Some("epoch:unix".parse().unwrap()), ..Options::default() };
        let (requests, summary, result) = read_all(vec![log(line)], options);
        result.unwrap();
        assert_eq!(requests, ["2026-11-23T16:00:00.5Z 192.0.2.1 GET /x 200 -"]);
        assert_eq!(summary.files[0].format.as_deref(), Some(format));
    }
}

/// Such logs had no known format, whatever else was known of them.
#[test]
fn a_log_without_a_time_is_told_what_is_missing() {
    let csv = "when,path,status\n2026-11-23T16:00:00Z,/,200\n";
    let json = "{\"when\":1795449600,\"method\":\"GET\",\"path\":\"/\"}\n";
    let w3c = "#Fields: c-ip cs-method cs-uri-stem\n192.0.2.1 GET /\n";
    let error = |text: &str, format: Option<&str>, time: Option<&str>| {
        let options = Options {
            format: format.map(|name| name.parse().unwrap()),
            time: time.map(|time| time.parse().unwrap()),
            ..Options::default()
        };
        let (.., result) = read_all(vec![log(text)], options);
        result.unwrap_err().to_string()
    };
    for (text, format) in [(csv, "csv"), (&csv.replace(',', "\t"), "tsv"), (json, "json"), (w3c, "w3c")] {
        let expected = format!(
            "test.log: lines of the format {format} have no field time; in JSON lines and tables, name the field"
        );
        for given in [None, Some(format)] {
            let error = error(text, given, None);
            assert!(error.starts_with(&expected), "{error}");
        }
        let expected = format!("test.log: lines of the format {format} have no field at");
        assert_eq!(error(text, None, Some("at")), expected);
    }
    // No header: its values are nobody's columns.
    let error = error("192.0.2.1,/,200\n192.0.2.2,/,200\n", None, None);
    assert!(error.contains("no known format"), "{error}");
}

/// Lines of JSON whose names nobody knows were no requests, whatever the user said of them. With `--time`, all
/// messages of the program counted as requests, and gates as shares of them.
#[test]
fn attributes_and_a_time_make_unknown_json_a_request() {
    let text = r#"{"ts":1795449600,"src":"192.0.2.1","endpoint":"/x","status":200}
{"ts":1795449601,"message":"started","src":null}
"#;
    let of = |format: Option<&str>, time: Option<&str>, attributes: &[&str]| {
        let options = Options {
            format: format.map(|name| name.parse().unwrap()),
            time: time.map(|time| time.parse().unwrap()),
            attributes: attributes.iter().map(|attribute| attribute.parse().unwrap()).collect(),
            ..Options::default()
        };
        read_all(vec![log(text)], options)
    };
    let attributes = ["ip=json:/src", "path=json:/endpoint"];
    let request = "2026-11-23T16:00:00.5Z 192.0.2.1 - /x 200 - 0=192.0.2.1 1=/x";
    for format in [None, Some("json")] {
        for time in [None, Some("ts:unix")] {
            let (requests, summary, result) = of(format, time, &attributes);
            result.unwrap();
            assert_eq!(requests, [request], "{time:?}");
            assert_eq!((summary.others, summary.files[0].format.as_deref()), (1, Some("json")));
        }
        // `--time` alone, or with what is derived from other fields, makes every line a request.
        for (derived, shown) in [(&[][..], ""), (&["key=query:key"], " 0=-")] {
            let (requests, summary, result) = of(format, Some("ts:unix"), derived);
            result.unwrap();
            let expected = ["00.5Z - - - 200 -", "01.5Z - - - - -"];
            assert_eq!(requests, expected.map(|request| format!("2026-11-23T16:00:{request}{shown}")));
            assert_eq!(summary.others, 0);
        }
        let (.., result) = of(format, None, &["user=json:/nobody"]);
        assert!(matches!(result, Err(Error::UnknownFormat { .. })));
    }
}

#[test]
fn times_without_a_zone_are_an_error_until_one_is_named() {
    let text = CASES.iter().find(|case| case.format.starts_with("haproxy")).unwrap().text;
    let (_, _, result) = read_all(vec![log(text)], Options::default());
    let error = result.unwrap_err();
    assert!(matches!(error, Error::NoZone { .. }));
    assert!(error.to_string().contains("--tz Europe/Berlin"), "{error}");
}

/// The names of one line are expected in the next one too, at the same places.
#[test]
fn fields_of_json_may_come_in_any_order_in_each_line() {
    let extra: Vec<String> = (0..80).map(|number| format!("\"x{number}\":{number}")).collect();
    let mut random = 1_u64;
    let (mut text, mut expected) = (String::new(), Vec::new());
    for second in 0..200_u64 {
        let status = 200 + second % 7;
        let mut fields = vec![
            format!("\"time\":\"2026-11-23T16:{:02}:{:02}Z\"", second / 60, second % 60),
            "\"method\":\"GET\"".to_owned(),
            // Some are written with escapes, and some names begin like others.
            format!("\"{}\":\"/{second}\"", if second % 3 == 0 { "p\\u0061th" } else { "path" }),
            format!("\"status\":{status}"),
            "\"status_\":500".to_owned(),
            // A name at the top means nothing inside, and the object may come twice.
            format!("\"inner\":{{\"status\":1,\"a\":[{{\"ip\":2}},\"path\"],\"user\":\"u{second}\"}}"),
            "\"inner\":{\"x\":{\"user\":3}}".to_owned(),
            "\"ip\":\"192.0.2.1\"".to_owned(),
        ];
        fields.extend(extra.iter().take(if second % 5 == 0 { 80 } else { 2 }).cloned());
        for place in (1..fields.len()).rev() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Runs of lines in one order, as servers write them.
            if second % 10 > 3 {
                fields.swap(place, (random >> 33) as usize % (place + 1));
            }
        }
        text += &format!("{{{}}}\n", fields.join(","));
        let time = format!("2026-11-23T16:{:02}:{:02}.5Z", second / 60, second % 60);
        expected.push(format!("{time} 192.0.2.1 GET /{second} {status} -"));
    }
    assert_eq!(requests(text, Options::default()), expected);
}
