//! Inputs, and what cannot be read.

use std::fs;
use std::io::{self, Cursor, Read};
use std::time::Duration;

use tollgate_logs::{Attribute, Batch, Error, Field, Input, Options, Order, Reader, TimeField};

use crate::{log, read_all, requests};

fn line(number: usize) -> String {
    format!("::1 - - [23/Nov/2026:16:00:00 +0000] \"GET /{number} HTTP/1.1\" 200 5\n")
}

fn lines(count: usize) -> String {
    (0..count).map(line).collect()
}

#[test]
fn marks_ends_and_empty_lines_are_no_requests() {
    let text = format!("\u{feff}{}\r\n\n  \r\n{}", line(1).trim_end(), line(2).trim_end());
    let (requests, summary, result) = read_all(vec![log(text)], Options::default());
    result.unwrap();
    assert_eq!((requests.len(), summary.lines, summary.others), (2, 4, 2));
    assert_eq!(summary.files[0].lines, 4);
}

#[test]
fn a_log_without_lines_has_no_requests() {
    for text in ["", "\n\n"] {
        let (requests, summary, result) = read_all(vec![log(text)], Options::default());
        result.unwrap();
        assert!(requests.is_empty() && summary.first_micros.is_none());
        assert_eq!(summary.files[0].format, None);
    }
    // Lines behind so many empty ones are not looked at for the format; they are not lost without a word.
    let (_, summary, result) =
        read_all(vec![log(["\n".repeat(2_000), line(1)].concat())], Options::default());
    assert!(matches!(result, Err(Error::Unparsed { unparsed: 1, lines: 1, .. })));
    assert_eq!(summary.others, 2_000);
    let header = "#Fields: date time c-ip cs-method cs-uri-stem\n";
    let (requests, summary, result) = read_all(vec![log(header)], Options::default());
    result.unwrap();
    assert_eq!((requests.len(), summary.files[0].format.as_deref()), (0, Some("w3c")));
}

#[test]
fn unreadable_lines_are_counted_by_reason_with_examples() {
    let mut text = lines(1_000);
    for number in 0..4 {
        text.push_str(&format!("cut off {number} \u{e9}\n"));
    }
    text.push_str(&line(1).replace("Nov", "Nev"));
    text.push_str(&line(1).replace("200", "20"));
    text.push_str(&"x".repeat(70_000));
    let (requests, summary, result) = read_all(vec![log(text)], Options::default());
    result.unwrap();
    assert_eq!((requests.len(), summary.unparsed_lines()), (1_000, 7));
    let found: Vec<_> = summary.unparsed.iter().map(|unparsed| (unparsed.reason, unparsed.lines)).collect();
    let expected = [
        ("the line does not match the format", 4),
        ("the time is invalid", 1),
        ("the status is invalid", 1),
        ("the line is longer than 64 KiB", 1),
    ];
    assert_eq!(found, expected);
    let examples = &summary.unparsed[0].examples;
    assert_eq!(examples.iter().map(|example| example.line).collect::<Vec<_>>(), [1_001, 1_002, 1_003]);
    assert_eq!(examples[0].text, "cut off 0 \\xC3\\xA9");
    assert_eq!(summary.unparsed[3].examples[0].text.len(), 200);
}

#[test]
fn too_many_unreadable_lines_are_an_error_after_the_last_request() {
    let text = |bad: usize| [lines(1_000), "bad\n".repeat(bad)].concat();
    let options = |max_unparsed| Options { max_unparsed, ..Options::default() };
    for (bad, max_unparsed, is_allowed) in
        [(10, 0.01, true), (11, 0.01, false), (1, 0.0, false), (900, 0.5, true)]
    {
        let (requests, summary, result) = read_all(vec![log(text(bad))], options(max_unparsed));
        assert_eq!(requests.len(), 1_000);
        assert_eq!(summary.unparsed_lines(), bad as u64);
        assert_eq!(result.is_ok(), is_allowed, "{bad} of 1,000 and {max_unparsed}");
    }
    for (share, percent) in [(0.01, "1"), (0.007, "0.7"), (0.0, "0")] {
        let (.., result) = read_all(vec![log(text(11))], options(share));
        let expected = format!(
            "11 of 1011 lines cannot be read, which is more than {percent} %; --max-unparsed allows more"
        );
        assert_eq!(result.unwrap_err().to_string(), expected);
    }
}

/// Two logs in one stream, one after the other: half of the requests were left out, and gates held over the rest.
#[test]
fn too_many_late_requests_are_an_error_after_the_last_request() {
    let text = |late: usize| [lines(1_000).replace("16:00:00", "16:30:00"), lines(late)].concat();
    for (late, is_allowed) in [(10, true), (11, false)] {
        let (requests, summary, result) = read_all(vec![log(text(late))], Options::default());
        assert_eq!((requests.len(), summary.late), (1_000, late as u64));
        assert_eq!(result.is_ok(), is_allowed, "{late}");
    }
    let (.., result) = read_all(vec![log(text(11))], Options::default());
    assert_eq!(
        result.unwrap_err().to_string(),
        "11 of 1011 lines are too far out of order, which is more than 1 %; use --sort"
    );
}

#[test]
fn an_unknown_format_names_the_nearest_and_a_line() {
    let text = [lines(10), "what is this?\n".to_owned(), lines(5)].concat();
    let (.., result) = read_all(vec![log(text)], Options::default());
    let error = result.unwrap_err().to_string();
    assert!(
        error
            .starts_with("test.log: no known format fits these lines; name one (nginx: --format 'log_format")
    );
    assert!(
        error.ends_with(
            "the format common fits many lines, but not line 11; if it is the right one, add --format common, and \
             --max-unparsed if more than 1 % of lines do not fit; the shape of this line: a a a?"
        ),
        "{error}"
    );
    let (.., result) = read_all(vec![log("\nwhat is this?\n")], Options::default());
    let error = result.unwrap_err();
    assert!(matches!(error, Error::UnknownFormat { nearest: None, .. }));
    assert!(error.to_string().ends_with("; line 2 has the shape: a a a?"), "{error}");
}

/// All of them had one message.
#[test]
fn an_unknown_format_says_what_it_looks_like() {
    let utf16: Vec<u8> = line(1).repeat(3).encode_utf16().flat_map(u16::to_le_bytes).collect();
    let cases: [(&[u8], &str); 10] = [
        (
            &utf16,
            "it looks like UTF-16, and only UTF-8 is read: iconv -f UTF-16LE -t UTF-8 FILE | tollgate ... -",
        ),
        (b"\x89PNG\r\n\x1a\n\0\0", "it looks like an image (PNG)"),
        (
            b"time;ip;path\n2026-05-24T10:00:00Z;192.0.2.1;/\n",
            "with ; between its columns, and only commas and tabs",
        ),
        (b"time=2026-05-24T10:00:00Z ip=192.0.2.1 path=/\n", "it looks like logfmt"),
        (
            b"2026-05-24T10:00:00Z;a b;1\n2026-05-24T10:00:00Z;a b;1\n",
            "(printf 'time\\tip\\tmethod\\tpath\\tstatus\\n'; tr ';' '\\t' < FILE) | tollgate ... -",
        ),
        (
            b"2026-05-24T10:00:00Z,a b,1\n2026-05-24T10:00:00Z,a b,1\n",
            "(printf 'time,ip,method,path,status\\n'; cat FILE) | tollgate ... -",
        ),
        (
            b"Time, Client IP, Method, Path\n2026-05-24T10:00:00Z, 192.0.2.1, GET, /\n",
            "sed 's/, */,/g' FILE | tollgate ... -",
        ),
        (b"[\n  \"192.0.2.1 - -\"\n]\n", "it looks like an array of JSON whose elements are no objects"),
        (b"<!doctype html>\n<html>\n", "it looks like HTML or XML; line 1 has the shape: <!a a>"),
        (
            b"192.0.2.1 [2026-05-24T10:00:00+00] GET /a HTTP/1.1 200\n",
            "--format '$remote_addr [$time_iso8601] $request $status'",
        ),
    ];
    for (text, expected) in cases {
        let (.., result) = read_all(vec![log(text)], Options::default());
        let error = result.expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
    // The flag that is named reads such lines.
    let format = "$remote_addr [$time_iso8601] $request $status".parse().unwrap();
    let text = "192.0.2.1 [2026-05-24T10:00:00+00] GET /a HTTP/1.1 200\n";
    let found = requests(text, Options { format: Some(format), ..Options::default() });
    assert_eq!(found, ["2026-05-24T10:00:00.5Z 192.0.2.1 GET /a 200 -"]);
    let format = "time=$time_iso8601 ip=$remote_addr method=$request_method path=$request_uri status=$status";
    let text = "time=2026-05-24T10:00:00+00 ip=192.0.2.1 method=GET path=/a status=200\n";
    let found = requests(text, Options { format: Some(format.parse().unwrap()), ..Options::default() });
    assert_eq!(found, ["2026-05-24T10:00:00.5Z 192.0.2.1 GET /a 200 -"]);
}

/// Its only line is longer than 64 KiB, and that was all that was said.
#[test]
fn a_document_on_one_line_says_what_it_looks_like() {
    let quoted = format!("{:?},", line(1).trim_end());
    let row = r#"["2026-05-24T10:00:00Z","192.0.2.1","GET","/a","200"],"#;
    let object = r#"{"time":"2026-05-24T10:00:00Z","ip":"192.0.2.1","path":"/a"},"#;
    let array = |element: &str| format!("[{}]", element.repeat(1_500).trim_end_matches(','));
    let cases: [(String, &str); 4] = [
        (array(&quoted), "jq -r '.[]' FILE"),
        (array(row), "(echo time,ip,method,path,status; jq -r '.[] | @csv' FILE)"),
        (
            format!("{{\"next\":[],\"value\":{}}}", array(object)),
            "jq -c '[.. | arrays] | max_by(length)[]' FILE",
        ),
        ("\0".repeat(1 << 20), "it looks like binary data"),
    ];
    for (text, expected) in cases {
        let error = read_all(vec![log(text)], Options::default()).2.unwrap_err().to_string();
        assert!(error.starts_with("test.log: no known format fits these lines; it looks like"), "{error}");
        assert!(error.contains(expected), "{error}");
    }
    for name in ["records", "Records"] {
        let text = format!("{{\"{name}\":{}}}", array(object));
        assert_eq!(requests(text, Options::default()).len(), 1_500);
    }
}

/// The last of a thousand lines was dropped if more followed it.
#[test]
fn a_thousand_lines_are_looked_at() {
    let line = r#"10.0.0.5 203.0.113.1 - - [24/May/2026:10:00:00 +0000] "GET /a HTTP/1.1" 200 10"#;
    match read_all(vec![log(format!("{line}\n").repeat(1_500))], Options::default()).2.unwrap_err() {
        Error::UnclearClient { doubt, .. } => {
            assert!(doubt.readings.iter().all(|reading| reading.lines == 1_000), "{doubt}");
        }
        error => panic!("{error}"),
    }
}

/// Such a log once counted as one of Caddy without requests: it vanished, whatever `max_unparsed` allowed.
#[test]
fn json_without_requests_is_an_unknown_format() {
    let worker = r#"{"log":"queue of 17 jobs\n","stream":"stdout","time":"2026-11-23T16:00:00.1Z"}"#;
    let pino = r#"{"level":30,"time":1795449600,"req":{"url":"/"},"msg":"request completed"}"#;
    for line in [worker, pino] {
        for format in [None, Some("json"), Some("caddy")] {
            let options = Options { format: format.map(|name| name.parse().unwrap()), ..Options::default() };
            let (.., result) = read_all(vec![log(format!("{line}\n").repeat(3))], options);
            let error = result.unwrap_err();
            assert!(matches!(error, Error::UnknownFormat { .. }), "{format:?}: {error}");
            let hint =
                "line 1 is JSON without a request: it needs a time (--time names its field), and a path";
            assert!(error.to_string().contains(hint), "{format:?}: {error}");
        }
    }
}

/// A server that has only started has written no request yet.
#[test]
fn messages_of_caddy_alone_are_an_idle_log() {
    let line = r#"{"level":"info","ts":1795449600.5,"logger":"http","msg":"enabling HTTP/3 listener","addr":":443"}"#;
    let (requests, summary, result) = read_all(vec![log(line)], Options::default());
    result.unwrap();
    assert_eq!((requests.len(), summary.others, summary.files[0].format.as_deref()), (0, 1, Some("caddy")));
}

/// Detection wants nearly all of the first lines. Of a format that is named, `max_unparsed` decides.
#[test]
fn a_named_format_may_leave_many_first_lines_unread() {
    let text = ["bad\n".repeat(300), lines(100)].concat();
    let options = |max_unparsed| Options {
        format: Some("common".parse().unwrap()),
        max_unparsed,
        ..Options::default()
    };
    let (requests, summary, result) = read_all(vec![log(&text)], options(0.8));
    result.unwrap();
    assert_eq!((requests.len(), summary.unparsed_lines()), (100, 300));
    let (.., result) = read_all(vec![log(&text)], options(0.5));
    assert!(matches!(result, Err(Error::Unparsed { unparsed: 300, lines: 400, .. })));
    let (.., result) = read_all(vec![log("\nbad\n")], options(1.0));
    let error = result.unwrap_err().to_string();
    assert_eq!(error, "test.log: the given format does not fit line 2, of the shape: a");
}

/// The user can correct a wrong path, and cannot correct damaged data.
#[test]
fn missing_and_damaged_files_are_different_errors() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.log"), lines(1)).unwrap();
    let (.., result) = read_all(vec![Input::from(folder.path().join("a.log/b"))], Options::default());
    assert!(matches!(result, Err(Error::Open { name, .. }) if name.ends_with("a.log/b")));
}

#[test]
fn files_folders_and_patterns_are_read_once_each() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir_all(path("old/deep")).unwrap();
    fs::create_dir(path("empty")).unwrap();
    for (number, name) in ["a.log", "a.log.1", "old/b.log", "old/deep/c.log", ".hidden"].iter().enumerate() {
        fs::write(path(name), line(number)).unwrap();
    }
    fs::write(path("odd[1]*.log"), line(7)).unwrap();
    let names = |inputs: &[&str]| {
        let inputs = inputs.iter().map(|name| Input::from(path(name))).collect();
        let (_, summary, result) = read_all(inputs, Options::default());
        let names = summary.files.iter().map(|file| file.name.clone());
        let whole = format!("{}/", folder.path().display());
        result.map(|()| names.map(|name| name.replace(&whole, "")).collect::<Vec<_>>())
    };
    assert_eq!(names(&["a.log"]).unwrap(), ["a.log"]);
    assert_eq!(names(&["a.log*", "a.log"]).unwrap(), ["a.log", "a.log.1"]);
    assert_eq!(names(&["old"]).unwrap(), ["old/b.log", "old/deep/c.log"]);
    assert_eq!(names(&["old/deep", "old"]).unwrap(), ["old/deep/c.log", "old/b.log"]);
    assert_eq!(names(&["odd[1]*.log"]).unwrap(), ["odd[1]*.log"]);
    assert_eq!(names(&["old", "old"]).unwrap(), ["old/b.log", "old/deep/c.log"]);
    for missing in ["nope.log", "nope*"] {
        let error = names(&[missing]).unwrap_err();
        assert!(matches!(error, Error::NoFile { .. }), "{missing}: {error}");
    }
    assert!(matches!(names(&["empty"]).unwrap_err(), Error::EmptyFolder { .. }));
    assert!(matches!(names(&["[z-a"]).unwrap_err(), Error::Pattern { .. }));
    let twice = Reader::open(["-", "-"], Options::default());
    assert!(matches!(twice, Err(Error::StdinTwice)));
}

#[test]
fn damaged_compression_names_the_file() {
    let (.., result) = read_all(vec![log(b"\x1f\x8bnothing of gzip")], Options::default());
    assert!(matches!(result, Err(Error::Read { name, .. }) if name == "test.log"));
}

#[test]
fn the_progress_ends_with_all_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.log");
    fs::write(&path, lines(5_000)).unwrap();
    let mut reader = Reader::open([&path], Options::default()).unwrap();
    let mut batch = Batch::default();
    while reader.read(&mut batch).unwrap() {}
    let progress = reader.progress();
    assert_eq!(
        (progress.bytes, progress.of, progress.lines),
        (lines(5_000).len() as u64, Some(progress.bytes), 5_000)
    );
    assert_eq!(Reader::open([log("")], Options::default()).unwrap().progress().of, None);
}

/// A log without end: a line each time, a second after the one before.
struct Endless {
    time: i64,
}

impl Read for Endless {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        // The first bytes are asked for alone, to see whether they are compressed.
        let line = if room.len() < 100 {
            "\n".to_owned()
        } else {
            format!("{{\"ts\":{},\"path\":\"/\"}}\n", self.time)
        };
        self.time += 1_000;
        room[..line.len()].copy_from_slice(line.as_bytes());
        Ok(line.len())
    }
}

#[test]
fn a_batch_is_bounded() {
    let input = Input::Read("endless".to_owned(), Box::new(Endless { time: 1_795_449_600_000 }));
    let order = Order::Nearly { window: Duration::ZERO, requests: 1_000 };
    let mut reader = Reader::open([input], Options { order, ..Options::default() }).unwrap();
    let mut batch = Batch::default();
    for _ in 0..3 {
        assert!(reader.read(&mut batch).unwrap());
        assert_eq!(batch.len(), 32_768);
    }
    assert!(reader.progress().lines < 100_000, "{}", reader.progress().lines);
}

/// A stream that fails after some lines.
struct Broken(Cursor<String>);

impl Read for Broken {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        match self.0.read(room)? {
            0 => Err(io::Error::other("this is a test")),
            count => Ok(count),
        }
    }
}

#[test]
fn an_error_follows_the_batches_before_and_is_told_once() {
    let input = Input::Read("broken".to_owned(), Box::new(Broken(Cursor::new(long_log(0, 1)))));
    let order = Order::Nearly { window: Duration::from_secs(1), requests: usize::MAX };
    let mut reader = Reader::open([input], Options { order, ..Options::default() }).unwrap();
    let mut batch = Batch::default();
    for _ in 0..2 {
        assert!(reader.read(&mut batch).unwrap());
        assert!((32_768..32_868).contains(&batch.len()), "{}", batch.len());
    }
    assert!(matches!(reader.read(&mut batch), Err(Error::Read { name, .. }) if name == "broken"));
    assert!(batch.is_empty() && !reader.read(&mut batch).unwrap());
    assert_eq!(reader.summary().lines, LONG as u64);
}

/// Lines of a log that fills several batches.
const LONG: usize = 70_000;

/// A hundred lines a second, and every so manyeth of them; paths tell their numbers.
fn long_log(first: usize, step: usize) -> String {
    let line = |number: usize| {
        let (minute, second) = (number / 100 / 60, number / 100 % 60);
        format!("::1 - - [23/Nov/2026:16:{minute:02}:{second:02} +0000] \"GET /{number} HTTP/1.1\" 200 5\n")
    };
    (first..LONG).step_by(step).map(line).collect()
}

/// A batch is full while buckets are still closed, and its memory is used again.
#[test]
fn batches_have_all_requests_once_and_in_order() {
    let orders = [
        Order::default(),
        Order::Nearly { window: Duration::from_secs(3), requests: usize::MAX },
        // Requests go on because there are too many.
        Order::Nearly { window: Duration::from_secs(3_600), requests: 40_000 },
        Order::Sort { memory: usize::MAX },
        Order::Sort { memory: 1 << 20 },
    ];
    for order in orders {
        let inputs = [log(long_log(0, 2)), log(long_log(1, 2))];
        let mut reader = Reader::open(inputs, Options { order, ..Options::default() }).unwrap();
        let (mut batch, mut paths, mut last) = (Batch::default(), Vec::new(), i64::MIN);
        while reader.read(&mut batch).unwrap() {
            for request in batch.requests() {
                assert!(request.time_micros() >= last);
                last = request.time_micros();
                let path = str::from_utf8(request.path().unwrap()).unwrap();
                paths.push(path.trim_start_matches('/').parse::<usize>().unwrap());
            }
        }
        // Within a second, those of the first file come before those of the second.
        let seconds: Vec<usize> = paths.iter().map(|number| number / 100).collect();
        assert!(seconds.is_sorted());
        paths.sort_unstable();
        assert!(paths.iter().copied().eq(0..LONG));
    }
}

/// What was kept of the requests of one reader was kept of those of the other.
#[test]
fn a_batch_can_be_used_by_several_readers() {
    let with = |fields: Vec<Field>| Options { fields, ..Options::default() };
    let mut batch = Batch::default();
    for fields in [vec![Field::Path], vec![Field::UserAgent, Field::Referer], vec![]] {
        let text = line(1).replace('\n', " \"https://a.example/\" \"curl\"\n");
        let mut reader = Reader::open([log(text)], with(fields.clone())).unwrap();
        assert!(reader.read(&mut batch).unwrap());
        let request = batch.requests().next().unwrap();
        let found = Field::ALL.into_iter().filter(|field| request.text(*field).is_some());
        assert_eq!(found.collect::<Vec<_>>(), fields);
    }
}

#[test]
fn an_invalid_attribute_says_why() {
    let cases = [
        ("user", "expected NAME=SOURCE, such as user=json:/user/id"),
        ("=json:/a", "expected NAME=SOURCE, such as user=json:/user/id"),
        ("user=id", "unknown source"),
        ("user=cookie:id", "unknown source"),
        ("user=query:", "unknown source"),
        ("user=json:id", "a JSON pointer begins with /"),
        ("ip=xff:10.0.0.1/8", "xff: bits are set after the prefix"),
    ];
    for (text, expected) in cases {
        let error = text.parse::<Attribute>().unwrap_err().to_string();
        assert!(error.starts_with(expected), "{text}: {error}");
    }
    for text in ["", ":unix", "ts:unixx"] {
        assert!(text.parse::<TimeField>().is_err(), "{text}");
    }
}

#[test]
fn requests_tell_where_they_are_from() {
    let mut reader =
        Reader::open([log(lines(1)), log(["\n".to_owned(), line(1)].concat())], Options::default()).unwrap();
    let mut places = Vec::new();
    let mut batch = Batch::default();
    while reader.read(&mut batch).unwrap() {
        // What clients sent may be secret.
        assert_eq!(format!("{batch:?}"), "Batch { requests: 2, .. }");
        for request in batch.requests() {
            places.push((request.file(), request.line()));
            assert!(!format!("{request:?}").contains("GET"));
        }
    }
    assert_eq!(places, [(0, 1), (1, 2)]);
    assert_eq!(requests("", Options::default()), [""; 0]);
}

/// Several batches wait in memory, and were bounded by their requests alone: with long lines, they took gigabytes.
#[test]
fn a_batch_of_long_lines_has_fewer_requests() {
    let text: String = (0..2_400)
        .map(|second| {
            let time = format!("23/Nov/2026:16:{:02}:{:02} +0000", second / 60, second % 60);
            format!("::1 - - [{time}] \"GET /{} HTTP/1.1\" 200 5\n", "x".repeat(32 << 10))
        })
        .collect();
    let mut reader = Reader::open([log(text)], Options::default()).unwrap();
    let (mut batch, mut batches) = (Batch::default(), Vec::new());
    while reader.read(&mut batch).unwrap() {
        assert_eq!(batch.len(), batch.requests().count());
        batches.push(batch.len());
    }
    assert_eq!(batches.iter().sum::<usize>(), 2_400);
    // 8 MiB and one request more.
    assert!(batches.iter().all(|requests| *requests <= 257), "{batches:?}");
}
