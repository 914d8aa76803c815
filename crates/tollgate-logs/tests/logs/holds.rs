//! What holds for all bytes that are read as a log. The fuzz target tries more of them.

use std::io::Cursor;

use tollgate_logs::{Batch, Format, Input, Options, Order, Reader, Summary};

/// Formats of users, with escapes, patterns and fields that the known ones do not have.
const PASTED: [&str; 5] = [
    r#"log_format a '$remote_addr [$time_iso8601] "$request" $status "$http_x_api_key" $request_time';"#,
    r#"log_format b escape=json '{"t":"$msec","u":"$request_uri","f":"$http_x_forwarded_for"}';"#,
    "log_format c escape=none '$msec|$host|$uri|$args|${status}x';",
    r#"LogFormat "%a %{%d/%b/%Y %T}t.%{msec_frac}t %{%z}t \"%r\" %>s %D" d"#,
    r#"LogFormat "%h %l %u %{end}t %m %U %q %>s" e"#,
];

/// All known formats, and some of users.
pub(crate) fn formats() -> Vec<&'static str> {
    Format::names().chain(PASTED).collect()
}

/// Reads a log by a format, or finds it out, and panics if a property does not hold.
pub(crate) fn holds(format: Option<&str>, bytes: &[u8]) {
    let format = || format.map(|format| format.parse().expect("it is a format"));
    let (nearly, sorted) = (read(bytes, format(), Order::default()), read(bytes, format(), Order::SORT));
    let (Some(nearly), Some(sorted)) = (nearly, sorted) else { return };
    assert_eq!(nearly.lines, sorted.lines);
    assert_eq!((nearly.others, nearly.unparsed_lines()), (sorted.others, sorted.unparsed_lines()));
    assert_eq!(nearly.requests + nearly.late, sorted.requests, "sorting leaves no request out");
    assert_eq!(sorted.late, 0);
    if !bytes.starts_with(&[0x1f, 0x8b]) && !bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        let lines = bytes.split_inclusive(|byte| *byte == b'\n').count();
        assert_eq!(sorted.lines, lines as u64);
    }
}

/// The summary of a log that can be read.
fn read(bytes: &[u8], format: Option<Format>, order: Order) -> Option<Summary> {
    let options = Options {
        format,
        order,
        zone: Some(jiff::tz::TimeZone::get("Australia/Lord_Howe").expect("a zone")),
        max_unparsed: 1.0,
        attributes: ["q=query:a", "client=xff:0.0.0.0/0,::/0"]
            .map(|text| text.parse().expect("valid"))
            .to_vec(),
        ..Options::default()
    };
    let input = Input::Read("any.log".to_owned(), Box::new(Cursor::new(bytes.to_vec())));
    let mut reader = Reader::open([input], options).expect("there is one input");
    let (mut requests, mut last) = (0, i64::MIN);
    let mut batch = Batch::default();
    while reader.read(&mut batch).ok()? {
        for request in batch.requests() {
            assert!(request.time_micros() >= last, "times go back");
            (requests, last) = (requests + 1, request.time_micros());
            assert_eq!(request.attribute(2), None);
        }
    }
    let summary = reader.summary();
    assert_eq!(summary.requests, requests);
    assert_eq!(summary.lines, requests + summary.late + summary.others + summary.unparsed_lines());
    Some(summary.clone())
}
