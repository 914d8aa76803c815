//! No line makes reading slow: a byte of a long line takes no longer than one of a short line.

use std::io::Cursor;
use std::time::{Duration, Instant};

use tollgate_logs::{Batch, Input, Options, Reader};

use crate::formats::CASES;

/// Texts that a careless reader looks at again and again.
const FILLERS: [&str; 18] = [
    " ",
    "\"",
    "\\",
    "\" ",
    "] \"",
    " [",
    "{\"a\":",
    "[[",
    ",",
    "\"\",",
    "%41",
    "&a=",
    "+",
    "#22",
    ": ",
    "| ",
    ", 192.0.2.1",
    "/?:@",
];
/// Bytes of a short line and of a long one, which is just read.
const LENGTHS: [usize; 2] = [1 << 10, 60 << 10];
const BYTES: usize = 480 << 10;
/// How much longer a byte may take in a long line. Reading all from each byte on takes sixty times as long.
const MOST: f64 = 10.0;

/// It judges times, so it is no test: `cargo xtask prove simulate` runs it, optimized.
#[test]
#[ignore = "it measures times, for `cargo xtask prove simulate`"]
fn prove_linear() {
    let (mut lines, mut worst) = (0, (0.0, String::new()));
    for case in CASES {
        let text = case.text.trim_end();
        let (head, line) = text.rsplit_once('\n').map_or(("", text), |(head, line)| (head, line));
        let places = [0, line.len() / 4, line.len() / 2, line.len() * 3 / 4, line.len()];
        for (place, filler) in places.iter().flat_map(|place| FILLERS.map(|filler| (*place, filler))) {
            let ratio = || {
                let [short, long] =
                    LENGTHS.map(|length| time_of(case.format, head, &stuffed(line, place, filler, length)));
                long.as_secs_f64() / short.as_secs_f64()
            };
            // A pause of the machine is no fault of the reader.
            let ratio = (0..3).map(|_| ratio()).reduce(f64::min).unwrap();
            if ratio > worst.0 {
                worst = (ratio, format!("{} with {filler:?} at {place}", case.format));
            }
            lines += 1;
        }
    }
    println!("RESULT prove/simulate/linear lines={lines} worst_ratio={:.2} of={:?}", worst.0, worst.1);
    assert!(worst.0 < MOST, "a byte takes {:.1} times as long in a long line: {}", worst.0, worst.1);
}

/// A line with the filler in it, so often that it has this length.
fn stuffed(line: &str, place: usize, filler: &str, length: usize) -> String {
    let (before, after) = line.as_bytes().split_at(place);
    let count = length.saturating_sub(line.len()) / filler.len();
    let bytes = [before, filler.repeat(count).as_bytes(), after].concat();
    String::from_utf8(bytes).expect("the lines are ASCII")
}

/// How long it takes to read as many of these lines as have a fixed number of bytes together.
fn time_of(format: &str, head: &str, line: &str) -> Duration {
    let lines = format!("{line}\n").repeat(BYTES / line.len());
    let log = if head.is_empty() { lines } else { format!("{head}\n{lines}") };
    let options = Options {
        format: Some(format.trim_end_matches(" in syslog").parse().unwrap()),
        zone: Some(jiff::tz::TimeZone::UTC),
        max_unparsed: 1.0,
        attributes: ["q=query:a", "client=xff:0.0.0.0/0"].map(|text| text.parse().unwrap()).to_vec(),
        ..Options::default()
    };
    let input = Input::Read("log".to_owned(), Box::new(Cursor::new(log)));
    let start = Instant::now();
    let mut reader = Reader::open([input], options).unwrap();
    let mut batch = Batch::default();
    while let Ok(true) = reader.read(&mut batch) {}
    start.elapsed()
}
