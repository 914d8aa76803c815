//! What the manual says about kinds of quotas, on the real engine.

#![expect(clippy::unwrap_used, reason = "an error here is a failed test")]

#[path = "../../examples/kinds.rs"]
#[allow(dead_code, reason = "its `main` is not called")]
mod example;

use std::time::Duration;

use tollgate::{Anchor, Limiter, ManualClock, MemoryStore, Quota, QuotaKind, Timestamp, WindowLength};

use self::example::{QUOTAS, most_in_a_minute, verdicts};

const CHOOSING: &str = include_str!("../../../../docs/choosing.md");
const COMING_FROM: &str = include_str!("../../../../docs/coming-from.md");
const PICTURES: [&str; 2] = [
    include_str!("../../../../docs/pictures/kinds-dark.svg"),
    include_str!("../../../../docs/pictures/kinds-light.svg"),
];

/// A whole minute.
const MINUTE: i64 = 1_700_000_040_000;

#[test]
fn the_picture_of_the_kinds_shows_what_the_engine_answers() {
    for picture in PICTURES {
        for written in QUOTAS {
            let verdicts = verdicts(written.parse().unwrap()).unwrap();
            let row = format!("data-quota=\"{written}\" data-verdicts=\"{verdicts}\"");
            assert!(picture.contains(&row), "run docs/pictures/draw.py: {row}");
            let most = format!(">{}</text>", most_in_a_minute(&verdicts));
            assert!(picture.contains(&most), "{written}: {most}");
        }
    }
}

/// A client that takes whatever it gets, each millisecond for three minutes.
struct GreedyClient {
    admitted: Vec<i64>,
    longest_wait: Duration,
}

impl GreedyClient {
    fn run(quota: &Quota, first: i64) -> Self {
        let clock = ManualClock::at(Timestamp::from_unix_millis(first));
        let store = MemoryStore::builder().clock(clock.clone()).build();
        let limiter = Limiter::with_store(quota.clone(), store);
        let mut client = Self { admitted: Vec::new(), longest_wait: Duration::ZERO };
        for at in first..first + 180_000 {
            clock.set(Timestamp::from_unix_millis(at));
            loop {
                let decision = limiter.check("alice").unwrap();
                if let Some(wait) = decision.retry_after() {
                    client.longest_wait = client.longest_wait.max(wait);
                    break;
                }
                client.admitted.push(at);
            }
        }
        client
    }

    /// The most that were admitted in any time of so many milliseconds.
    fn most_in(&self, millis: i64) -> usize {
        let since = |(place, start): (usize, &i64)| {
            self.admitted[place..].iter().take_while(|at| **at < start + millis).count()
        };
        self.admitted.iter().enumerate().map(since).max().unwrap_or_default()
    }
}

/// The worst that a client can do, compared with the table. A window's end and its start are the worst times to begin.
#[test]
fn the_bounds_in_the_table_of_kinds_are_reached_and_never_exceeded() {
    let rows = table(CHOOSING, "| Kind | Written | At most at once |");
    assert_eq!(rows.len(), 5);
    for row in rows {
        let [_, written, at_once, in_a_minute, wait] = row.as_slice() else { panic!("{row:?}") };
        let quota: Quota = code(written)[0].parse().unwrap();
        let runs = [MINUTE, MINUTE - 1].map(|first| GreedyClient::run(&quota, first));
        let most = |millis| runs.iter().map(|run| run.most_in(millis)).max().unwrap();
        assert_eq!(most(2).to_string(), *at_once, "{quota}");
        assert_eq!(most(60_000).to_string(), *in_a_minute, "{quota}");
        let longest = runs.iter().map(|run| run.longest_wait).max().unwrap();
        assert_eq!(format!("{} s", longest.as_secs_f64()), *wait, "{quota}");
    }
}

/// `L + B <= N + 1` for a bucket that never admits more than `N` in any window's length.
#[test]
fn the_bucket_of_the_manual_holds_its_hard_limit() {
    let recipe = "`80/1m~burst:21` never admits more than 100 in any 60 seconds";
    assert!(CHOOSING.contains(recipe));
    let run = GreedyClient::run(&"80/1m~burst:21".parse().unwrap(), MINUTE);
    assert_eq!(run.most_in(60_000), 100);
}

/// The texts in the first column are read as the quotas in the second, and as many requests pass at once as the third
/// says.
#[test]
fn quotas_of_other_limiters_admit_as_many_at_once() {
    let read = table(COMING_FROM, "| Written elsewhere | Is read as |");
    let translated = table(COMING_FROM, "| Elsewhere | Tollgate | At once |");
    assert_eq!((read.len(), translated.len()), (4, 14));
    for row in &read {
        let [elsewhere, ours] = [&row[0], &row[1]].map(|cell| Quota::list(code(cell)[0]).unwrap());
        assert_eq!(elsewhere, ours, "{row:?}");
    }
    for row in read.iter().chain(&translated) {
        let written = code(&row[1])[0];
        let quotas = Quota::list(written).unwrap();
        let printed: Vec<_> = quotas.iter().map(Quota::to_string).collect();
        assert_eq!(printed.join(";"), written);
        assert_eq!(most_at_once(&quotas[0]).to_string(), row[2], "{row:?}");
    }
}

/// Returns how many units pass within a millisecond at most: in a fixed window, in its last one and the next one's first.
fn most_at_once(quota: &Quota) -> usize {
    let WindowLength::Fixed(window) = quota.window() else { panic!("{quota} has no fixed length") };
    let clock = ManualClock::at(Timestamp::from_unix_millis(MINUTE));
    let store = MemoryStore::builder().clock(clock.clone()).build();
    let limiter = Limiter::with_store(quota.clone(), store);
    let all = || (0..1_000).take_while(|_| limiter.check("alice").unwrap().is_allowed()).count();
    if quota.kind() != QuotaKind::Window {
        return all();
    }
    if quota.anchor() == Anchor::FirstHit {
        // Opens the window.
        assert!(limiter.check("alice").unwrap().is_allowed());
    }
    clock.advance(window - Duration::from_millis(1));
    let before = all();
    clock.advance(Duration::from_millis(1));
    before + all()
}

/// Texts in nginx's words are the quotas that the page says they are, and all others are read and printed as they are.
#[test]
fn every_quota_in_the_tables_of_other_systems_is_one() {
    let mut seen = 0;
    for line in COMING_FROM.lines().filter(|line| line.starts_with("| ")) {
        let codes = code(line);
        let lists = codes.iter().filter_map(|code| code.strip_prefix("quotas: [")?.strip_suffix(']'));
        for written in lists.filter(|written| !written.contains('@')) {
            let quotas = written.split(", ").map(|quota| quota.trim_matches('"'));
            for quota in quotas {
                let read: Quota = quota.parse().unwrap_or_else(|error| panic!("{error} in {line}"));
                let said = line.split_once(", which is `").and_then(|(_, said)| said.split('`').next());
                let printed = read.to_string();
                let expected = said.unwrap_or(quota);
                assert!(printed == expected || read == expected.parse().unwrap(), "{printed} in {line}");
                seen += 1;
            }
        }
    }
    assert!(seen >= 10, "{seen} quotas");
}

/// Spring's buckets hold `burstCapacity` tokens and get `replenishRate` a second; a request takes `requestedTokens`.
#[test]
fn quotas_for_the_buckets_of_spring_admit_as_many_at_once_and_over_time() {
    let rows: Vec<_> = COMING_FROM.lines().filter(|line| line.contains("replenishRate: ")).collect();
    assert_eq!(rows.len(), 3);
    for row in rows {
        let value = |name| {
            let (_, rest) = row.split_once(name)?;
            rest.trim_start_matches(": ").split(|c: char| !c.is_ascii_digit()).next()?.parse::<usize>().ok()
        };
        let (rate, capacity) = (value("replenishRate").unwrap(), value("burstCapacity").unwrap());
        let tokens = value("requestedTokens").unwrap_or(1);
        let (_, quota) = row.split_once("quotas: [").unwrap();
        let run = GreedyClient::run(&quota.split(']').next().unwrap().parse().unwrap(), MINUTE);
        assert_eq!(run.most_in(1), capacity / tokens, "{row}");
        // Of the three minutes, the last millisecond is not asked for.
        let refilled = (180 * 1_000 - 1) * rate / tokens / 1_000;
        assert_eq!(run.admitted.len(), capacity / tokens + refilled, "{row}");
    }
}

/// Returns the cells of the table that begins with this line.
fn table(page: &str, head: &str) -> Vec<Vec<String>> {
    let (_, rows) = page.split_once(head).unwrap_or_else(|| panic!("{head} is missing"));
    let cells = |row: &str| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    rows.lines().skip(2).take_while(|row| row.starts_with('|')).map(cells).collect()
}

/// Returns what is between backticks.
fn code(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}
