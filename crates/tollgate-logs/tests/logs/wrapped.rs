//! Lines inside of what log drivers and services write around them.

use tollgate_logs::Options;

use crate::{log, read_all, requests};

const COMBINED: &str =
    r#"192.0.2.7 - - [23/Nov/2026:16:00:10 +0000] "GET /a\x22?b HTTP/1.1" 200 615 "-" "curl \"8\"""#;
const READ: &str = r#"2026-11-23T16:00:10.5Z 192.0.2.7 GET /a\"?b 200 615 agent=curl \"8\""#;

/// A string of JSON.
fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// The requests of lines, and their format.
fn read(text: &str, options: Options) -> (Vec<String>, String) {
    let (requests, summary, result) = read_all(vec![log(text)], options);
    result.unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(summary.unparsed_lines(), 0, "{text}");
    (requests, summary.files[0].format.clone().unwrap_or_default())
}

/// None of them could be read.
#[test]
fn lines_are_read_inside_of_what_is_around_them() {
    let docker = |line: &str| {
        let log = quoted(&format!("{line}\n"));
        format!(r#"{{"log":{log},"stream":"stdout","time":"2026-11-23T16:00:10.123456789Z"}}"#)
    };
    let member = |name: &str, line: &str| {
        format!(r#"{{"timestamp":1795449610123,"{name}":{},"x":[{{"y":"}}"}}]}}"#, quoted(line))
    };
    let syslog = |data: &str, line: &str| {
        format!("<190>1 2026-11-23T16:00:10.123Z web.example nginx 99 ID47 {data} {line}")
    };
    let cri = |line: &str| format!("2026-11-23T16:00:10.123456789Z stdout F {line}");
    let one = r#"[exampleSDID@32473 iut="3" eventSource="Application" eventID="1011"]"#;
    let two = r#"[exampleSDID@32473 iut="3"][examplePriority@32473 class="high"]"#;
    let escaped = r#"[a@32473 k="v\]" l="\"]" m="\\"]"#;
    let event = |line: &str| member("message", line);
    let cases = [
        (docker(COMBINED), "combined in Docker json-file"),
        (cri(COMBINED), "combined in CRI"),
        (syslog("-", COMBINED), "combined in syslog"),
        (syslog("-", &format!("\u{feff}{COMBINED}")), "combined in syslog"),
        (syslog(one, COMBINED), "combined in syslog"),
        (syslog(two, COMBINED), "combined in syslog"),
        (syslog(escaped, COMBINED), "combined in syslog"),
        (event(COMBINED), "combined in message"),
        (member("log", COMBINED), "combined in log"),
        (member("MESSAGE", COMBINED), "combined in MESSAGE"),
        (member("textPayload", COMBINED), "combined in textPayload"),
        // As they come together.
        (docker(&syslog(one, COMBINED)), "combined in syslog in Docker json-file"),
        (event(&member("log", COMBINED)), "combined in log in message"),
        (event(&cri(COMBINED)), "combined in CRI in message"),
        (cri(&member("log", COMBINED)), "combined in log in CRI"),
    ];
    for (line, format) in cases {
        assert_eq!(read(&line, Options::default()), (vec![READ.to_owned()], format.to_owned()), "{line}");
        // Also if the format is named.
        let named = Options { format: Some("combined".parse().unwrap()), ..Options::default() };
        assert_eq!(read(&line, named).0, [READ], "{line}");
    }
}

#[test]
fn json_is_read_inside_of_json_and_of_syslog() {
    let json = r#"{"time":"2026-11-23T16:00:00.1Z","ip":"192.0.2.7","method":"GET","path":"/\"é","status":200,"user":{"id":7}}"#;
    let expected = r#"2026-11-23T16:00:00.1Z 192.0.2.7 GET /\"\xc3\xa9 200 - 0=7"#;
    let journal = format!(
        r#"{{"__CURSOR":"s=1;i=2","__REALTIME_TIMESTAMP":"1795449600200000","_PID":"9","MESSAGE":{},"PRIORITY":"6"}}"#,
        quoted(json)
    );
    let docker = format!(
        r#"{{"log":{},"stream":"stderr","attrs":{{"tag":"a"}},"time":"2026-11-23T16:00:01Z"}}"#,
        quoted(&format!("{json}\n"))
    );
    let google = format!(
        r#"{{"insertId":"a","jsonPayload":{json},"logName":"projects/p/logs/stdout","receiveTimestamp":"2026-11-23T16:00:03Z","timestamp":"2026-11-23T16:00:02Z"}}"#
    );
    let syslog =
        format!(r#"<14>1 2026-11-23T16:00:10Z h app - - [timeQuality tzKnown="1" isSynced="1"] {json}"#);
    let rfc_3164 = format!("<14>Nov 23 16:00:10 h app[7]: {json}");
    for (line, format) in [
        (journal, "json in MESSAGE"),
        (docker, "json in Docker json-file"),
        (google, "json in jsonPayload"),
        (syslog, "json in syslog"),
        (rfc_3164, "json in syslog"),
    ] {
        let attributes = vec!["id=json:/user/id".parse().unwrap()];
        let options = Options { attributes, ..Options::default() };
        assert_eq!(read(&line, options), (vec![expected.to_owned()], format.to_owned()), "{line}");
    }
}

/// Services take the time out of the lines that they store.
#[test]
fn a_line_without_a_time_has_that_of_its_envelope() {
    let inner = r#"{"ip":"192.0.2.7","method":"GET","path":"/a","status":200}"#;
    let cases = [
        format!(
            r#"{{"jsonPayload":{inner},"receiveTimestamp":"2026-11-23T17:00:00Z","timestamp":"2026-11-23T16:00:00.25Z"}}"#
        ),
        format!(r#"{{"timestamp":1795449600250,"message":{},"ingestionTime":1795449700000}}"#, quoted(inner)),
        format!(r#"{{"__REALTIME_TIMESTAMP":"1795449600250000","MESSAGE":{}}}"#, quoted(inner)),
        format!(
            r#"{{"log":{},"stream":"stdout","time":"2026-11-23T16:00:00.25Z"}}"#,
            quoted(&format!("{inner}\n"))
        ),
    ];
    for line in &cases {
        assert_eq!(
            requests(line, Options::default()),
            ["2026-11-23T16:00:00.25Z 192.0.2.7 GET /a 200 -"],
            "{line}"
        );
    }
}

/// The fields of a request decide, not its message.
#[test]
fn json_with_a_request_and_a_message_is_read_itself() {
    let inner =
        r#"{"time":"2026-11-23T16:00:00Z","ip":"10.0.0.1","method":"GET","path":"/inner","status":500}"#;
    let line = format!(
        r#"{{"message":{},"time":"2026-11-23T16:00:00.1Z","ip":"192.0.2.7","method":"GET","path":"/a","status":200}}"#,
        quoted(inner)
    );
    let expected = vec!["2026-11-23T16:00:00.1Z 192.0.2.7 GET /a 200 -".to_owned()];
    assert_eq!(read(&line, Options::default()), (expected, "json".to_owned()));
}

/// Docker splits lines above 16 KiB as Kubernetes does, for each stream on its own.
#[test]
fn parts_of_a_line_in_docker_are_joined() {
    let line = |path: &str| {
        format!(r#"192.0.2.7 - - [23/Nov/2026:16:00:10 +0000] "GET /{path} HTTP/1.1" 200 615 "-" "\x22""#)
    };
    let entry = |stream: &str, log: &str| {
        format!("{{\"log\":{},\"stream\":\"{stream}\",\"time\":\"2026-11-23T16:00:11.1Z\"}}\n", quoted(log))
    };
    let long = line(&"x".repeat(40_000)) + "\n";
    let short = line("a") + "\n";
    let text = [
        entry("stdout", &short),
        entry("stdout", &long[..16_384]),
        entry("stderr", &short),
        entry("stdout", &long[16_384..32_768]),
        entry("stdout", &long[32_768..]),
        entry("stdout", &short),
    ];
    let (requests, summary, result) = read_all(vec![log(text.concat())], Options::default());
    result.unwrap();
    let paths: Vec<usize> = requests.iter().map(|request| request.split(' ').nth(3).unwrap().len()).collect();
    assert_eq!(paths, [2, 2, 40_001, 2]);
    assert_eq!((summary.others, summary.unparsed_lines()), (2, 0));
}

#[test]
fn structured_data_that_never_ends_is_no_prefix() {
    for data in [r#"[a k="v" "#, r#"[a k="v\"] "#, "[a]", r#"[a k="v"]x"#] {
        let line = format!("<190>1 2026-11-23T16:00:10Z h nginx - - {data}{COMBINED}");
        let (_, summary, _) = read_all(vec![log(&line)], Options::default());
        let format = summary.files.first().and_then(|file| file.format.clone()).unwrap_or_default();
        assert!(!format.ends_with("in syslog"), "{line}: {format}");
    }
}
