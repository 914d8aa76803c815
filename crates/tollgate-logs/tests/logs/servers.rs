//! Logs that real servers have written, and the requests that they got. `servers/make.py` has made both.

use std::collections::BTreeMap;

use serde_json::Value;
use tollgate_logs::{Batch, Input, Instant, Options, Reader};

const TIMED: &str = r#"log_format timed '$remote_addr - $remote_user [$time_local] "$request" $status $bytes_sent "$http_referer" '
                     '"$http_user_agent" "$http_x_api_key" $msec $request_time';"#;
const JSON: &str = r#"log_format json escape=json '{"msec":$msec,"remote_addr":"$remote_addr","request":"$request","status":$status,'
                     '"request_time":$request_time,"http_user_agent":"$http_user_agent",'
                     '"http_referer":"$http_referer","remote_user":"$remote_user","http_x_api_key":"$http_x_api_key"}';"#;
const APACHE: &str =
    r#"LogFormat "%a %u %{usec}t %D \"%r\" %>s \"%{User-Agent}i\" \"%{Referer}i\" \"%{X-Api-Key}i\"" timed"#;

/// What a server was asked.
struct Asked {
    /// In microseconds since the epoch.
    begin: i64,
    end: i64,
    /// The bytes of each text, by name.
    texts: BTreeMap<String, Vec<u8>>,
}

/// The requests to a server by their numbers.
fn asked(server: &str) -> BTreeMap<u64, Asked> {
    let all: Value = serde_json::from_str(include_str!("servers/requests.json")).unwrap();
    let requests = all[server].as_array().unwrap().iter().map(|request| {
        let texts = request.as_object().unwrap().iter().filter_map(|(name, value)| {
            // A character stands for a byte.
            let bytes = value.as_str()?.chars().map(|character| u8::try_from(character).unwrap());
            Some((name.clone(), bytes.collect::<Vec<u8>>()))
        });
        let number = |name: &str| request[name].as_i64().unwrap();
        let asked = Asked { begin: number("begin"), end: number("end"), texts: texts.collect() };
        (request["number"].as_u64().unwrap(), asked)
    });
    requests.collect()
}

/// Which instants a log tells, and how far from the truth it may be.
enum InstantAccuracy {
    /// The begin, to the millisecond: servers take some to wake up.
    Begin,
    BeginSecond,
    EndSecond,
    /// The begin of handling, after the head has arrived.
    Handled,
}

struct Case {
    log: &'static [u8],
    server: &'static str,
    options: Options,
    format: &'static str,
    instant: Instant,
    accuracy: InstantAccuracy,
    /// The fields that this log has besides method, path, query and status.
    fields: &'static [&'static str],
}

fn pasted(format: &str) -> Options {
    let key = "key=header:X-Api-Key".parse().unwrap();
    Options { format: Some(format.parse().unwrap()), attributes: vec![key], ..Options::default() }
}

fn with_key() -> Options {
    Options { attributes: vec!["key=header:X-Api-Key".parse().unwrap()], ..Options::default() }
}

fn cases() -> Vec<Case> {
    let berlin = Some(jiff::tz::TimeZone::get("Europe/Berlin").unwrap());
    let all = &["ip", "user", "user_agent", "referer", "key"];
    vec![
        Case {
            log: include_bytes!("servers/nginx-combined.log"),
            server: "nginx",
            options: Options::default(),
            format: "combined",
            instant: Instant::Unknown,
            accuracy: InstantAccuracy::EndSecond,
            fields: &all[..4],
        },
        Case {
            log: include_bytes!("servers/nginx-timed.log"),
            server: "nginx",
            options: pasted(TIMED),
            format: "log_format timed",
            instant: Instant::EndWithDuration,
            accuracy: InstantAccuracy::Begin,
            fields: all,
        },
        Case {
            log: include_bytes!("servers/nginx-json.log"),
            server: "nginx",
            options: pasted(JSON),
            format: "log_format json",
            instant: Instant::EndWithDuration,
            accuracy: InstantAccuracy::Begin,
            fields: all,
        },
        Case {
            log: include_bytes!("servers/nginx-json.log"),
            server: "nginx",
            options: with_key(),
            format: "json",
            instant: Instant::EndWithDuration,
            accuracy: InstantAccuracy::Begin,
            fields: all,
        },
        Case {
            log: include_bytes!("servers/apache-combined.log"),
            server: "apache",
            options: Options::default(),
            format: "combined",
            instant: Instant::Unknown,
            accuracy: InstantAccuracy::BeginSecond,
            fields: &all[..4],
        },
        Case {
            log: include_bytes!("servers/apache-timed.log"),
            server: "apache",
            options: pasted(APACHE),
            format: "LogFormat timed",
            instant: Instant::Begin,
            accuracy: InstantAccuracy::Begin,
            fields: all,
        },
        Case {
            log: include_bytes!("servers/caddy.log"),
            server: "caddy",
            options: with_key(),
            format: "caddy",
            instant: Instant::EndWithDuration,
            accuracy: InstantAccuracy::Handled,
            fields: &["ip", "user_agent", "referer", "key"],
        },
        Case {
            log: include_bytes!("servers/haproxy.log"),
            server: "haproxy",
            options: Options { zone: berlin, ..Options::default() },
            format: "haproxy in syslog",
            instant: Instant::Begin,
            accuracy: InstantAccuracy::Begin,
            fields: &["ip"],
        },
    ]
}

/// What a log has of a text. Caddy writes JSON in UTF-8, whatever was sent, and HAProxy cuts lines off at 1,024 bytes.
fn as_logged(server: &str, text: &[u8]) -> Option<Vec<u8>> {
    let text = match server {
        "caddy" => String::from_utf8_lossy(text).into_owned().into_bytes(),
        _ => text.to_vec(),
    };
    (!text.is_empty() && text != b"-").then_some(text)
}

fn check(case: Case) {
    let asked = asked(case.server);
    let lines = case.log.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).count();
    let input = Input::Read("log".to_owned(), Box::new(case.log));
    let mut reader = Reader::open([input], case.options).unwrap();
    let mut numbers = Vec::new();
    let mut requests = 0;
    let mut batch = Batch::default();
    while reader.read(&mut batch).unwrap() {
        for request in batch.requests() {
            requests += 1;
            let digits: Vec<u8> = request
                .path()
                .unwrap_or_default()
                .iter()
                .skip(1)
                .copied()
                .take_while(u8::is_ascii_digit)
                .collect();
            let Ok(number) = String::from_utf8(digits).unwrap().parse::<u64>() else { continue };
            numbers.push(number);
            let place = format!("{} {number}", case.format);
            let asked = &asked[&number];
            let status = asked.texts.get("status").map(|status| String::from_utf8(status.clone()).unwrap());
            assert_eq!(request.status().map(|status| status.to_string()), status, "{place}");
            let second = |micros: i64| micros.div_euclid(1_000_000);
            let time = request.time_micros();
            let is_right = match case.accuracy {
                InstantAccuracy::Begin => (asked.begin - 2_000..asked.begin + 15_000).contains(&time),
                InstantAccuracy::Handled => (asked.begin..asked.end).contains(&time),
                InstantAccuracy::BeginSecond => second(time) == second(asked.begin),
                InstantAccuracy::EndSecond => second(time) == second(asked.end),
            };
            assert!(is_right, "{place}: {time} is not from {} to {}", asked.begin, asked.end);
            let Some(target) = asked.texts.get("target") else { continue };
            let target = target.strip_prefix(b"http://a.example").unwrap_or(target);
            let (path, query) = match target.iter().position(|&byte| byte == b'?') {
                Some(at) => (&target[..at], Some(&target[at + 1..])),
                None => (target, None),
            };
            let path = as_logged(case.server, path).unwrap();
            match case.server {
                "haproxy" if path.len() > 900 => {
                    assert!(path.starts_with(request.path().unwrap()), "{place}")
                }
                _ => assert_eq!(
                    request.path().map(<[u8]>::escape_ascii).unwrap().to_string(),
                    path.escape_ascii().to_string(),
                    "{place}"
                ),
            }
            assert_eq!(request.query(), query, "{place}");
            assert_eq!(request.method(), asked.texts.get("method").map(Vec::as_slice), "{place}");
            for field in case.fields {
                let found = match *field {
                    "ip" => request.ip(),
                    "user" => request.user(),
                    "user_agent" => request.user_agent(),
                    "referer" => request.referer(),
                    _ => request.attribute(0),
                };
                let expected = as_logged(case.server, &asked.texts[*field]);
                assert_eq!(found.map(<[u8]>::to_vec), expected, "{place}: {field}");
            }
        }
    }
    let summary = reader.summary();
    assert_eq!((requests, summary.unparsed_lines()), (lines, 0), "{}", case.format);
    let file = &summary.files[0];
    assert_eq!((file.format.as_deref(), file.instant), (Some(case.format), Some(case.instant)));
    // 13, 15 and 22 have no number in their paths, and HAProxy refuses 6.
    let expected = asked.keys().filter(|number| match number {
        13 | 15 | 22 => false,
        6 => case.server != "haproxy",
        _ => true,
    });
    numbers.sort_unstable();
    assert_eq!(numbers, expected.copied().collect::<Vec<_>>(), "{}", case.format);
}

#[test]
fn logs_of_real_servers_tell_what_was_sent() {
    cases().into_iter().for_each(check);
}
