//! The order of time.

use std::fmt::Write;
use std::time::Duration;

use tollgate_logs::{Gap, Input, Options, Order};

use crate::{log, read_all, requests};

/// A log with these seconds after 16:00, and the numbers of lines as paths.
fn seconds(seconds: &[u32]) -> String {
    let mut text = String::new();
    for (place, second) in seconds.iter().enumerate() {
        let (minute, second) = (second / 60, second % 60);
        writeln!(
            text,
            "::1 - - [23/Nov/2026:16:{minute:02}:{second:02} +0000] \"GET /{} HTTP/1.1\" 200 5",
            place + 1
        )
        .unwrap();
    }
    text
}

/// The same with milliseconds, in JSON.
fn millis(times: &[u64]) -> String {
    let mut text = String::new();
    for (place, time) in times.iter().enumerate() {
        writeln!(text, "{{\"ts\":{},\"path\":\"/{}\"}}", 1_795_449_600_000 + time, place + 1).unwrap();
    }
    text
}

fn nearly(window: u64, requests: usize) -> Options {
    Options { order: Order::Nearly { window: Duration::from_secs(window), requests }, ..Options::default() }
}

/// Returns each request as its time and path, such as `16:00:00.5 /1`.
fn times(requests: &[String]) -> Vec<String> {
    let time = |request: &String| {
        let mut words = request.split(' ');
        let time = words.next().unwrap().trim_end_matches('Z').split_once('T').unwrap().1;
        let path = words.find(|word| word.starts_with('/')).unwrap();
        format!("{time} {path}")
    };
    requests.iter().map(time).collect()
}

#[test]
fn requests_of_one_second_are_spread_over_it() {
    let expected =
        ["16:00:00.125 /1", "16:00:00.375 /2", "16:00:00.625 /3", "16:00:00.875 /5", "16:00:01.5 /4"];
    assert_eq!(times(&requests(seconds(&[0, 0, 0, 1, 0]), Options::default())), expected);
    // Milliseconds are left alone.
    let expected = ["16:00:00.1 /1", "16:00:00.1 /2", "16:00:00.3 /3"];
    assert_eq!(times(&requests(millis(&[100, 100, 300]), Options::default())), expected);
}

#[test]
fn a_whole_second_among_milliseconds_is_meant_exactly() {
    let text = "{\"ts\":1795449600.25,\"path\":\"/1\"}\n{\"ts\":1795449601,\"path\":\"/2\"}\n";
    assert_eq!(times(&requests(text, Options::default())), ["16:00:00.25 /1", "16:00:01 /2"]);
}

#[test]
fn files_are_merged_by_time() {
    let (first, second) = (millis(&[100, 300, 200_000]), millis(&[50, 200, 300, 100_000, 300_000]));
    let (found, summary, _) = read_all(vec![log(first), log(second)], nearly(1, 1_000));
    let expected = [
        "16:00:00.05 /1",
        "16:00:00.1 /1",
        "16:00:00.2 /2",
        "16:00:00.3 /2",
        "16:00:00.3 /3",
        "16:01:40 /4",
        "16:03:20 /3",
        "16:05:00 /5",
    ];
    assert_eq!(times(&found), expected);
    assert_eq!(summary.files.iter().map(|file| file.requests).collect::<Vec<_>>(), [3, 5]);
    assert_eq!(summary.late, 0);
}

/// A pattern finds `access.log` before `access.log.1`. What both have in the second of the rotation was read in this
/// order.
#[test]
fn a_rotated_file_comes_before_the_next_one() {
    let (newer, older) = (seconds(&[5, 5, 6]), seconds(&[0, 4, 5]));
    for order in [Order::default(), Order::SORT] {
        let options = Options { order, ..Options::default() };
        let (found, ..) = read_all(vec![log(&newer), log(&older)], options);
        let rotation = &times(&found)[2..5];
        assert_eq!(rotation, ["16:00:05.166666 /3", "16:00:05.5 /1", "16:00:05.833333 /2"]);
    }
    // The newer file begins with the end of a request of an hour, which began before all that is in the older one.
    let of = |name: &str, lines: [(u32, u32); 3]| {
        let line = |(end, took)| {
            format!("::1 [2026-11-23T16:00:{end:02}Z] \"GET /{name}{took} HTTP/1.1\" {took}.000\n")
        };
        lines.map(line).concat()
    };
    let inputs = vec![
        log(""),
        log(of("newer", [(5, 3_600), (5, 0), (6, 0)])),
        log(of("older", [(0, 0), (4, 0), (5, 0)])),
    ];
    let format = r#"$remote_addr [$time_iso8601] "$request" $request_time"#;
    let options = Options { format: Some(format.parse().unwrap()), ..Options::default() };
    let (found, summary, result) = read_all(inputs, options);
    result.unwrap();
    assert_eq!(summary.files.iter().map(|file| file.lines).collect::<Vec<_>>(), [3, 3, 0]);
    let expected = ["15:00:05.5 /newer3600", "16:00:00.5 /older0", "16:00:04.5 /older0"];
    assert_eq!(times(&found)[..3], expected);
    assert_eq!(times(&found)[3..], ["16:00:05.25 /older0", "16:00:05.75 /newer0", "16:00:06.5 /newer0"]);
}

#[test]
fn a_file_that_begins_in_a_gap_of_another_is_not_late() {
    let first = seconds(&[[0; 600], [2_000; 600], [2_000; 600]].concat());
    let (found, summary, _) = read_all(vec![log(first), log(seconds(&[500, 2_500]))], Options::default());
    assert_eq!((found.len(), summary.late), (1_802, 0));
    assert_eq!(times(&found)[600], "16:08:20.5 /1");
}

#[test]
fn requests_behind_the_window_are_late() {
    // The window is counted back from the second that is being read, once some lines more are read.
    let mut log_of = vec![100, 41, 100];
    log_of.extend([101; 600]);
    log_of.extend([41, 40, 102]);
    let (found, summary, result) = read_all(vec![log(seconds(&log_of))], nearly(60, 1_000_000));
    result.unwrap();
    let times = times(&found);
    assert_eq!(times[..2], ["16:00:41.25 /2", "16:00:41.75 /604"], "40 is late, and 41 is not");
    assert!(times.is_sorted());
    assert_eq!((summary.requests, summary.late), (605, 1));
    let [late] = &summary.late_examples[..] else { panic!("one example") };
    assert_eq!((late.file, late.line), (0, 605));
    assert!(late.text.contains("/605"), "{}", late.text);
}

#[test]
fn one_wrong_reading_of_the_clock_makes_nothing_late() {
    let mut log_of: Vec<u32> = (0..3_000).map(|number| 10 + number / 10).collect();
    log_of[1_000] = 3_500;
    let (found, summary, _) = read_all(vec![log(seconds(&log_of))], Options::default());
    assert_eq!((found.len(), summary.late), (3_000, 0));
    assert_eq!(times(&found).last().unwrap(), "16:58:20.5 /1001");
    // Two in a row are a jump of the log.
    log_of[1_001] = 3_500;
    let (_, summary, _) = read_all(vec![log(seconds(&log_of))], Options::default());
    assert!(summary.late > 1_000);
}

#[test]
fn the_number_of_waiting_requests_is_bounded() {
    let times: Vec<u32> = (0..50).map(|second| 100 + second).chain([50]).collect();
    let (found, summary, _) = read_all(vec![log(seconds(&times))], nearly(3_600, 10));
    assert_eq!((found.len(), summary.late), (50, 1), "one in so long a window is late for want of room");
    let (found, summary, _) = read_all(vec![log(seconds(&times))], nearly(3_600, 100));
    assert_eq!((found.len(), summary.late), (51, 0));
    // One second is never cut, however many it has.
    let (found, summary, _) = read_all(vec![log(seconds(&[5; 500]))], nearly(60, 10));
    assert_eq!((found.len(), summary.late), (500, 0));
}

#[test]
fn sorting_knows_no_late_request() {
    let text = seconds(&[3_000, 10, 2_000, 10, 0]);
    let options = Options { order: Order::SORT, ..Options::default() };
    let (found, summary, _) = read_all(vec![log(text)], options);
    let expected = ["16:00:00.5 /5", "16:00:10.25 /2", "16:00:10.75 /4", "16:33:20.5 /3", "16:50:00.5 /1"];
    assert_eq!(times(&found), expected);
    assert_eq!(summary.late, 0);
}

#[test]
fn requests_stand_where_they_began() {
    let line = |end: u32, took: &str| {
        format!(
            "::1 - - [23/Nov/2026:16:00:{end:02} +0000] \"GET /{end} HTTP/1.1\" 200 5 \"-\" \"-\" 1 {took} [a] [b] c\n"
        )
    };
    let text = [line(10, "0.000"), line(20, "15.000"), line(30, "0.100")].concat();
    assert_eq!(
        times(&requests(text, Options::default())),
        ["16:00:05.5 /20", "16:00:10.5 /10", "16:00:30.5 /30"]
    );
}

#[test]
fn the_span_and_the_longest_gaps_are_told() {
    let mut times = vec![0];
    for gap in (600..612).rev().chain([599]) {
        times.push(times.last().unwrap() + gap * 1_000);
    }
    let (_, summary, _) = read_all(vec![log(millis(&times))], Options::default());
    assert_eq!(summary.first_micros, Some(1_795_449_600_000_000));
    assert_eq!(summary.last_micros, Some(1_795_449_600_000_000 + *times.last().unwrap() as i64 * 1_000));
    let lengths = summary.gaps.longest().iter().map(|gap| (gap.to_micros - gap.from_micros) / 1_000_000);
    assert_eq!(
        lengths.collect::<Vec<_>>(),
        (602..612).rev().collect::<Vec<_>>(),
        "599 is none, 600 and 601 are the shortest"
    );
    assert_eq!(summary.gaps.longest().len(), Gap::MOST);
}

#[test]
fn the_hour_that_exists_twice_is_read_in_the_order_of_the_file() {
    let mut text = String::new();
    for (place, time) in
        ["01:59:59", "02:30:00", "02:59:59", "02:00:00", "02:30:00", "03:00:00"].iter().enumerate()
    {
        writeln!(text, "::1:80 [25/Oct/2026:{time}.000] f b/s 0/0/0/0/0 200 5 - - ---- 1/1/0/0/0 0/0 \"GET /{place} HTTP/1.1\"")
            .unwrap();
    }
    let zone = Some(jiff::tz::TimeZone::get("Europe/Berlin").unwrap());
    let (found, summary, _) = read_all(vec![log(text)], Options { zone, ..Options::default() });
    let expected = ["23:59:59 /0", "00:30:00 /1", "00:59:59 /2", "01:00:00 /3", "01:30:00 /4", "02:00:00 /5"];
    assert_eq!(times(&found), expected);
    assert_eq!(summary.ambiguous, 4);
}

/// A file for each hour: the second hour was read as the first one, because no file has a jump of its clock.
#[test]
fn the_hour_that_exists_twice_is_told_by_the_files_of_a_series() {
    let named = |name: &str, times: &[&str]| {
        let line = |time: &&str| {
            format!(
                "::1:80 [25/Oct/2026:{time}.000] f b/s 0/0/0/0/0 200 5 - - ---- 1/1/0/0/0 0/0 \"GET /x HTTP/1.1\"\n"
            )
        };
        let text: String = times.iter().map(line).collect();
        Input::Read(name.to_owned(), Box::new(std::io::Cursor::new(text)))
    };
    let zone = Some(jiff::tz::TimeZone::get("Europe/Berlin").unwrap());
    let many = ["02:05:00"; 600];
    let expected = ["23:30:00", "00:05:00", "00:50:00", "01:01:00", "01:30:00", "02:00:00"];
    for order in [Order::default(), Order::SORT] {
        let read = |inputs| {
            let (found, summary, result) =
                read_all(inputs, Options { zone: zone.clone(), order, ..Options::default() });
            result.unwrap();
            assert_eq!(summary.late, 0);
            let mut times: Vec<String> =
                found.iter().map(|request| request.split(['T', 'Z']).nth(1).unwrap().to_owned()).collect();
            times.dedup();
            times
        };
        for names in [["h1.log", "h2.log"], ["a/access.log.1", "a/access.log"]] {
            let first = [&["01:30:00"][..], &["02:05:00"], &["02:50:00"]].concat();
            let second = ["02:01:00", "02:30:00", "03:00:00"];
            assert_eq!(read(vec![named(names[1], &second), named(names[0], &first)]), expected, "{names:?}");
            // The first file is still being read when the second one seems to begin.
            let first = [&["01:30:00"][..], &many, &many, &["02:50:00"]].concat();
            assert_eq!(read(vec![named(names[1], &second), named(names[0], &first)]), expected, "{names:?}");
        }
        // Two servers side by side do not follow each other.
        let both = read(vec![named("a/access.log", &["02:50:00"]), named("b/access.log", &["02:01:00"])]);
        assert_eq!(both, ["00:01:00", "00:50:00"]);
    }
}
