//! The reports on a terminal: no line is wider than 80 columns, and nothing is set off unless asked.

#![allow(clippy::unwrap_used, reason = "this is a test")]

mod common;

use std::num::NonZeroUsize;

use fastrand::Rng;
use tollgate::Timestamp;
use tollgate_policy::{Config, Identity};
use tollgate_simulate::suggest::{Per, Survey, SurveyOptions};
use tollgate_simulate::{
    CheckedReport, Classes, Gate, Hit, Options, ReadFile, ReadGap, ReadReport, Replay, Style, UnreadLine,
    UnreadLines,
};
use unicode_width::UnicodeWidthStr as _;

use self::common::{MONDAY, OLD, POLICIES, report, requests};

/// Names that strangers choose: long, wide, hostile, empty.
const NAMES: [&str; 7] = [
    "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0 and more of it, and more, and more",
    "日本語のとても長い名前のプログラム日本語のとても長い名前のプログラム日本語のとても長い名前のプログラム",
    "\u{1b}[31mred\u{1b}[0m\u{202e}\r\n\t\u{7}",
    "👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦 e\u{301}e\u{301}",
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "a",
    "",
];

fn assert_fits(text: &str) {
    for line in text.lines() {
        assert!(line.width() <= 80, "{} columns: {line}\n{text}", line.width());
        assert_eq!(line.trim_end(), line, "spaces at the end: {text}");
    }
    assert!(!text.contains('\u{1b}'), "{text}");
    assert!(!text.contains("\n\n\n"), "two empty lines: {text}");
}

/// Removes the escape codes that a colored report may have, and no others.
fn without_codes(text: &str) -> String {
    ["\u{1b}[0m", "\u{1b}[1m", "\u{1b}[2m", "\u{1b}[31m", "\u{1b}[32m", "\u{1b}[33m"]
        .iter()
        .fold(text.to_owned(), |text, code| text.replace(code, ""))
}

/// A report of policies, gates and a log that nobody would write by hand.
fn random_answer(rng: &mut Rng) -> CheckedReport {
    let long = "a-long-name-of-a-policy-".repeat(rng.usize(1..3));
    let policies = format!(
        "policies:
  - {{ name: {long}one, match: {{ path: /login }}, key: [ip, user_agent, path], quotas: [{}/1m, 100/7d], candidate: [1/30s] }}
  - {{ name: {long}two, key: [user_agent], quotas: [{}/1h], mode: {} }}
  - {{ name: user, match: {{ path: '/p*' }}, key: [user], quotas: [1/1d], on_missing_key: {} }}
",
        rng.u32(0..9),
        rng.u32(1..2_000_000_000),
        rng.choice(["enforce", "shadow", "off"]).unwrap(),
        rng.choice(["skip", "error"]).unwrap()
    );
    let parse = |text: &str| Config::parse("test.yaml", text).unwrap().into_policies();
    let options = Options {
        client: Identity::of_word(rng.choice(["ip", "user_agent"]).unwrap()).unwrap(),
        classes: Classes::parse(&[format!("{}=user_agent: '*x*'", "c".repeat(rng.usize(1..60)))], None)
            .unwrap(),
        max_clients: NonZeroUsize::new(rng.usize(1..9)).unwrap(),
        routes: rng.bool(),
        ..Options::default()
    };
    let baseline = rng.bool().then(|| parse(&policies.replace("/1h", "/1d")));
    let mut replay = Replay::new(parse(&policies), baseline, options).unwrap();
    let mut millis = MONDAY;
    for _ in 0..rng.usize(0..120) {
        let longest = 10_i64.pow(rng.u32(1..8));
        millis += rng.i64(0..longest);
        let (ip, name) = (format!("2001:db8:{:x}::1", rng.u16(0..20)), rng.choice(NAMES).unwrap());
        let path = rng.choice(["/login", "/p/1", NAMES[4], NAMES[1]]).unwrap();
        let attributes = [("ip", ip.as_str()), ("path", path), ("user_agent", name)].into_iter().collect();
        let hit = Hit {
            status: rng.choice([None, Some(200), Some(404), Some(429)]).unwrap(),
            user_agent: Some(name.as_bytes()),
            path: Some(path.as_bytes()),
            ..Hit::new(Timestamp::from_unix_millis(millis), attributes)
        };
        replay.request(hit).unwrap();
    }
    let mut report = replay.report();
    report.read = rng.bool().then(|| read(rng));
    let gates = ["denied > 0.1%".to_owned(), format!("{long}one.denied_clients > 0"), "late > 0".to_owned()];
    let gates = gates.iter().take(rng.usize(0..4)).map(|gate| gate.parse::<Gate>().unwrap());
    let gates = gates.filter_map(|gate| gate.check(&report, 9).ok()).collect();
    CheckedReport::new(report, gates)
}

fn read(rng: &mut Rng) -> ReadReport {
    let name = || NAMES[4].to_owned();
    let example = UnreadLine { place: name(), shape: name(), text: rng.bool().then(|| NAMES[2].to_owned()) };
    ReadReport {
        files: vec![ReadFile {
            name: name(),
            format: Some(name()),
            instant: Some("logs when requests end".to_owned()),
            precision: Some("to the second".to_owned()),
            lines: rng.u64(..),
            requests: rng.u64(..),
        }],
        lines: rng.u64(..),
        others: rng.u64(..),
        unparsed_lines: rng.u64(..),
        unparsed: vec![UnreadLines {
            reason: NAMES[0].to_owned(),
            lines: 3,
            examples: vec![example.clone()],
        }],
        late: 3,
        late_examples: vec![example],
        gaps: vec![ReadGap { from: "2026-11-23T09:16:40.25+00:00".into(), to: name(), seconds: 1e9 }],
        ambiguous: 1,
        is_sample: rng.bool(),
    }
}

/// 58 of 145 lines were wider than a terminal.
#[test]
fn no_line_of_a_report_is_wider_than_a_terminal() {
    let mut answers = vec![CheckedReport::new(report(POLICIES, Some(OLD)), Vec::new())];
    let seed = fastrand::u64(..);
    let mut rng = Rng::with_seed(seed);
    answers.extend((0..60).map(|_| random_answer(&mut rng)));
    for answer in answers {
        let text = answer.text(Style::Plain);
        assert_fits(&text);
        assert_eq!(text, answer.to_string(), "plain unless asked, seed {seed}");
        let colored = answer.text(Style::Colored);
        assert!(colored.starts_with("\u{1b}[1m"), "the answer stands out: {colored}");
        assert_eq!(without_codes(&colored), text, "colour changes nothing else, seed {seed}");
        for sentence in answer.opening() {
            assert!(!sentence.contains('\n'), "{sentence}");
        }
    }
}

#[test]
fn no_line_of_a_suggestion_is_wider_than_a_terminal() {
    for clients in [0, 3, 40, 400, 4_000] {
        let mut survey = Survey::new(SurveyOptions {
            identity: Identity::of_word("user_agent").unwrap(),
            window: "1/1m".parse().unwrap(),
            companion: Some("1/1s".parse().unwrap()),
            budget: 0.001,
            budget_per: Per::Client,
            max_clients: NonZeroUsize::new(1_000).unwrap(),
            matching: Classes::default(),
            known: Classes::default(),
            conditions: None,
            zone: jiff::tz::TimeZone::UTC,
        });
        for client in 0..clients {
            for (second, ..) in requests().into_iter().take(9) {
                let name = format!("{}{client}", NAMES[client % NAMES.len()]);
                let time = Timestamp::from_unix_millis(MONDAY + second * 1_000 + client as i64 * 90_000);
                survey.request(&Hit::new(time, [("user_agent", name.as_str())].into_iter().collect()));
            }
        }
        let suggestion = survey.suggest();
        assert_fits(&suggestion.text(Style::Plain));
        assert_eq!(without_codes(&suggestion.text(Style::Colored)), suggestion.to_string());
    }
}
