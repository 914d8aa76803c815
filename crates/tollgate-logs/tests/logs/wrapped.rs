//! Lines inside of what log drivers and services write around them.

use std::time::Duration;

use tollgate_logs::{Batch, Input, Options, Order, Reader};

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
    // The log was cut off, or rotated.
    let text = [entry("stdout", &short).repeat(99), entry("stdout", &long[..16_384])].concat();
    let (requests, summary, result) = read_all(vec![log(text)], Options::default());
    result.unwrap();
    assert_eq!((requests.len(), summary.unparsed_lines()), (99, 1));
    assert_eq!(summary.unparsed[0].reason, "the last part of the line is missing");
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

/// Such files had no known format.
#[test]
fn elements_of_documents_are_read_like_lines() {
    let google = r#"[
  {
    "httpRequest": {
      "remoteIp": "192.0.2.7",
      "requestMethod": "GET",
      "requestUrl": "https://a.example/a?b=[{",
      "responseSize": "615",
      "status": 200
    },
    "insertId": "1",
    "timestamp": "2026-11-23T16:00:00.250Z"
  },
  {
    "httpRequest": {"remoteIp": "2001:db8::1", "requestMethod": "POST", "requestUrl": "https://a.example/c", "status": 404},
    "timestamp": "2026-11-23T16:00:01.250Z"
  }
]
"#;
    let expected = [
        "2026-11-23T16:00:00.25Z 192.0.2.7 GET /a?b=[{ 200 615 host=a.example",
        "2026-11-23T16:00:01.25Z 2001:db8::1 POST /c 404 - host=a.example",
    ];
    let compact = serde_json::from_str::<serde_json::Value>(google).unwrap().to_string();
    for text in [google, &compact, &google.replace('\n', "\r\n")] {
        assert_eq!(
            read(text, Options::default()),
            (expected.map(str::to_owned).to_vec(), "google".to_owned())
        );
    }
    // `gcloud logging read --format json` of a container.
    let text = format!(
        "[\n  {{\n    \"severity\": \"INFO\",\n    \"textPayload\": {},\n    \"timestamp\": \"2026-11-23T16:00:10Z\"\n  }}\n]\n",
        quoted(COMBINED)
    );
    assert_eq!(
        read(&text, Options::default()),
        (vec![READ.to_owned()], "combined in textPayload".to_owned())
    );
    // `aws logs filter-log-events`, and a subscription that Firehose delivers without line feeds.
    let api = r#"{"requestId":"a1","ip":"192.0.2.7","requestTime":"23/Nov/2026:16:00:00 +0000","httpMethod":"GET","routeKey":"GET /pets","status":"200","responseLength":"615"}"#;
    let event = |line: &str| serde_json::json!({ "timestamp": 1_795_449_610_123_i64, "message": line, "eventId": "1" });
    let filtered = serde_json::json!({
        "events": [event(api), event("START RequestId: 1"), event(api)],
        "searchedLogStreams": [{ "logStreamName": "s", "searchedCompletely": true }],
    });
    let delivered = format!(
        r#"{{"messageType":"DATA_MESSAGE","owner":"123456789012","subscriptionFilters":["f"],"logEvents":[{}]}}"#,
        event(api)
    );
    let request = "192.0.2.7 GET /pets 200 615";
    for text in [serde_json::to_string_pretty(&filtered).unwrap(), format!("{delivered}{delivered}")] {
        let options = Options { max_unparsed: 0.5, ..Options::default() };
        let (requests, summary, result) =
            read_all(vec![log(&text)], Options { format: Some("api-gateway".parse().unwrap()), ..options });
        result.unwrap();
        assert_eq!(
            requests,
            ["25Z", "75Z"].map(|fraction| format!("2026-11-23T16:00:00.{fraction} {request}")),
            "{text}"
        );
        assert_eq!(summary.files[0].format.as_deref(), Some("api-gateway in message"));
    }
    // `journalctl -o json-pretty`.
    let journal = serde_json::json!({ "__REALTIME_TIMESTAMP": "1795449610200000", "MESSAGE": COMBINED, "PRIORITY": "6" });
    let text = serde_json::to_string_pretty(&journal).unwrap();
    assert_eq!(read(&text, Options::default()), (vec![READ.to_owned()], "combined in MESSAGE".to_owned()));
}

/// An array without end.
struct Endless(u64);

impl std::io::Read for Endless {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        let begin = if self.0 == 0 { "[\n" } else { "" };
        let element =
            format!("{begin}  {{\n    \"ts\": {},\n    \"path\": \"/\"\n  }},\n", 1_795_449_600 + self.0);
        if room.len() < element.len() {
            // The first bytes are asked for alone, to see whether they are compressed.
            room.fill(b' ');
            return Ok(room.len());
        }
        self.0 += 1;
        room[..element.len()].copy_from_slice(element.as_bytes());
        Ok(element.len())
    }
}

#[test]
fn a_document_is_never_read_whole() {
    let input = Input::Read("endless".to_owned(), Box::new(Endless(0)));
    let order = Order::Nearly { window: Duration::ZERO, requests: 1_000 };
    let mut reader = Reader::open([input], Options { order, ..Options::default() }).unwrap();
    let mut batch = Batch::default();
    assert!(reader.read(&mut batch).unwrap());
    assert_eq!(batch.len(), 32_768);
    assert!(reader.progress().lines < 50_000, "{}", reader.progress().lines);
}

#[test]
fn elements_that_are_no_requests_are_counted() {
    let element =
        |path: &str| format!(r#"{{"time":"2026-11-23T16:00:00Z","ip":"192.0.2.7","path":"{path}"}}"#);
    let text =
        format!("[\n{},\nWARNING: no more\n{},\n{}", element("/a"), element("/b"), &element("/c")[..20]);
    let (requests, summary, _) =
        read_all(vec![log(text)], Options { format: Some("json".parse().unwrap()), ..Options::default() });
    assert_eq!(requests.len(), 2);
    let examples = &summary.unparsed[0].examples;
    assert_eq!(examples.iter().map(|example| example.line).collect::<Vec<_>>(), [2, 4]);
    assert_eq!(summary.unparsed[0].reason, "the line is not a JSON object");
}
