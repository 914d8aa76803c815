//! Suggested limits, on traffic whose truth is known.

#![allow(clippy::unwrap_used, reason = "this is a test")]

#[path = "common/traffic.rs"]
mod traffic;

use std::collections::HashMap;
use std::num::NonZeroUsize;

use jiff::tz::TimeZone;
use tollgate::Timestamp;
use tollgate_policy::{Config, Identity};
use tollgate_simulate::suggest::{Kind, Per, Suggestion, Survey, SurveyOptions, clients_needed};
use tollgate_simulate::{Classes, Hit};

/// 2026-11-23 00:00 UTC, a Monday.
const MONDAY: i64 = 1_795_392_000_000;

const DAY: i64 = 86_400;

fn options(budget: f64) -> SurveyOptions {
    SurveyOptions {
        identity: Identity::of_word("ip").unwrap(),
        window: "1/1m".parse().unwrap(),
        companion: Some("1/1s".parse().unwrap()),
        budget,
        budget_per: Per::Client,
        max_clients: NonZeroUsize::new(1_000_000).unwrap(),
        matching: Classes::default(),
        conditions: None,
        known: Classes::default(),
        zone: TimeZone::UTC,
    }
}

/// Returns what is printed as one line, however lines break.
fn flowing(said: &str) -> String {
    said.split_whitespace().collect::<Vec<_>>().join(" ") + " "
}

/// Requests of clients at these seconds, with the program and the status.
fn suggest(mut requests: Vec<(i64, u32, &str, u16)>, options: SurveyOptions) -> Suggestion {
    requests.sort_by_key(|(second, ..)| *second);
    let mut survey = Survey::new(options);
    for (second, client, program, status) in requests {
        let ip = std::net::Ipv4Addr::from_bits(0x0a00_0000 + client).to_string();
        survey.request(&Hit {
            status: Some(status),
            user_agent: Some(program.as_bytes()),
            path: Some(b"/"),
            ..Hit::new(
                Timestamp::from_unix_millis(MONDAY + second * 1_000),
                [("ip", ip.as_str()), ("path", "/")].into_iter().collect(),
            )
        });
    }
    survey.suggest()
}

/// The most that a client asks for: above m with a chance of m^-1.1, up to 400. So few values are equal.
fn draw(random: &mut fastrand::Rng) -> u32 {
    (random.f64().max(1e-9).powf(-1.0 / 1.1)).min(400.0) as u32
}

/// The share of clients that ask for more than this, exactly.
fn above(limit: u64) -> f64 {
    if limit >= 400 { 0.0 } else { ((limit + 1) as f64).powf(-1.1) }
}

/// A log of so many clients, each of which comes once, in one minute of ten days. Returns the share of all possible
/// clients above the bound that is found in it, and the share that may be above it.
fn share_above_bound(seed: u64, clients: u32, budget: f64) -> Option<(f64, f64)> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut requests = Vec::new();
    for client in 0..clients {
        let minute = random.i64(0..10 * DAY / 60) * 60;
        for _ in 0..draw(&mut random) {
            requests.push((minute + random.i64(0..60), client, "Mozilla/5.0", 200));
        }
    }
    let quota = suggest(requests, options(budget)).quota;
    Some((above(quota.bound?), quota.proven_budget?))
}

/// How many of so many logs have a bound that covers the truth, and how many have a bound.
fn covered(logs: u64, seed: u64) -> (usize, usize) {
    let shares: Vec<(f64, f64)> =
        (seed..seed + logs).filter_map(|seed| share_above_bound(seed, 700, 0.02)).collect();
    (shares.iter().filter(|(share, _)| *share <= 0.02).count(), shares.len())
}

/// With a confidence of 95 %. Of 120 logs fewer than 106 would be covered with a chance of 1 in 1,000.
#[test]
fn bounds_hold_as_often_as_they_say() {
    let (held, found) = covered(120, 1);
    assert_eq!(found, 120);
    assert!(held >= 106, "{held} of {found}");
    // A bound that always held would be too high to be of use.
    assert!(held < found, "{held} of {found}");
}

/// The most that clients ask for in one minute of the first seven days, sorted, from so many clients that are drawn
/// like those of logs. It has its own windows and its own counts.
fn truth(clients: u32) -> Vec<u32> {
    let mut random = fastrand::Rng::with_seed(u64::MAX);
    let most = (0..clients).filter_map(|_| {
        let mut minutes = HashMap::<i64, u32>::new();
        let client = traffic::draw(&mut random);
        let fitted = client.seconds.iter().filter(|second| **second < traffic::FITTED_DAYS * DAY);
        fitted.for_each(|second| *minutes.entry(second / 60).or_default() += 1);
        minutes.into_values().max()
    });
    let mut most: Vec<u32> = most.collect();
    most.sort_unstable();
    most
}

/// How many of so many logs of a site have a bound that covers the truth, and how many have a bound. The clients of a
/// site return: people with bursts of images, offices and bots, by day and by night.
fn covered_on_sites(logs: u64, seed: u64, clients: u32) -> (usize, usize) {
    const BUDGET: f64 = 0.02;
    let truth = truth(100 * clients);
    let bounds = (seed..seed + logs).filter_map(|seed| {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut requests = Vec::new();
        for number in 0..clients {
            let client = traffic::draw(&mut random);
            requests.extend(client.seconds.into_iter().map(|second| (second, number, client.program, 200)));
        }
        suggest(requests, SurveyOptions { companion: None, ..options(BUDGET) }).quota.bound
    });
    let above = |bound: u64| truth.len() - truth.partition_point(|most| u64::from(*most) <= bound);
    let shares: Vec<f64> = bounds.map(|bound| above(bound) as f64 / truth.len() as f64).collect();
    (shares.iter().filter(|share| **share <= BUDGET).count(), shares.len())
}

/// The same where clients return, days and hours differ, and requests come in bursts. Of 60 logs fewer than 50 would be
/// covered with a chance of 1 in 2,000.
#[test]
fn bounds_hold_as_often_where_clients_return() {
    let (held, found) = covered_on_sites(60, 1, 250);
    assert_eq!(found, 60);
    assert!(held >= 50, "{held} of {found}");
}

/// `cargo xtask prove simulate` runs it, over TOLLGATE_LOGS logs from TOLLGATE_SEED on.
#[test]
#[ignore = "takes minutes; cargo xtask prove simulate"]
fn prove() {
    let variable = |name: &str| std::env::var(name).unwrap().parse().unwrap();
    let (logs, seed) = (variable("TOLLGATE_LOGS"), variable("TOLLGATE_SEED"));
    for (name, (held, found)) in [("", covered(logs, seed)), ("/sites", covered_on_sites(logs, seed, 1_000))]
    {
        println!("RESULT prove/simulate{name} logs={found} bounds_that_hold={held}");
        assert!(found > 0 && held * 100 >= found * 93, "{held} of {found}");
    }
}

/// There was no limit, with the advice to ask for another budget.
#[test]
fn a_log_that_cannot_prove_the_budget_gets_the_limit_that_it_can_prove() {
    let requests = (0..500).map(|client| (i64::from(client) * DAY / 50, client, "Mozilla/5.0", 200));
    let suggestion = suggest(requests.collect(), options(0.001));
    let quota = &suggestion.quota;
    assert_eq!((quota.bound, quota.limit), (Some(1), Some(1)));
    assert_eq!((suggestion.budget, quota.clients_needed), (0.001, clients_needed(0.001)));
    // 348 clients in seven days: all of them stay below the quantile 1 - 1/116 with a chance of 4.9 %.
    assert_eq!((quota.fitted_clients, quota.proven_budget), (348, Some(1.0 / 116.0)));
    assert!((115_f64 / 116.0).powi(348) <= 0.05 && (116_f64 / 117.0).powi(348) > 0.05);
    // Of 2,995: some 75 days more.
    assert!((70..=85).contains(&quota.more_days.unwrap()), "{quota:?}");
    let text = flowing(&suggestion.to_string());
    let expected = "This log can prove a limit for 1 client in 116, not for 0.1 %: that needs 2,995 clients, and about the first \
                    70 % of the period has 348.";
    assert!(text.contains(expected) && text.contains("76 days more would be enough"), "{text}");
    assert!(suggestion.policy().unwrap().replace("\n# ", " ").contains(expected), "{suggestion}");
}

/// A budget that follows from the number of clients alone is proven as often as one that was asked for.
#[test]
fn bounds_hold_at_the_budget_that_few_clients_prove() {
    let logs: Vec<(f64, f64)> = (1..=120).filter_map(|seed| share_above_bound(seed, 300, 0.001)).collect();
    assert!(logs.iter().all(|(_, proven)| (1.0 / 80.0..1.0 / 60.0).contains(proven)), "{logs:?}");
    let held = logs.iter().filter(|(share, proven)| share <= proven).count();
    assert!((106..120).contains(&held), "{held} of 120");
}

#[test]
fn four_clients_prove_nothing() {
    let requests = (0..5).map(|client| (i64::from(client) * 2 * DAY, client, "Mozilla/5.0", 200));
    let suggestion = suggest(requests.collect(), options(0.001));
    let quota = &suggestion.quota;
    assert_eq!((quota.bound, quota.limit, quota.held_out, suggestion.policy()), (None, None, None, None));
    assert!(
        flowing(&suggestion.to_string()).contains("No limit for 1m About the first 70 %"),
        "{suggestion}"
    );
}

#[test]
fn a_period_that_cannot_be_divided_gets_no_number() {
    let requests = (0..4_000).map(|client| (1, client, "Mozilla/5.0", 200));
    let suggestion = suggest(requests.collect(), options(0.01));
    assert_eq!((suggestion.quota.bound, suggestion.quota.fitted_until.as_ref()), (None, None));
    let text = flowing(&suggestion.to_string());
    assert!(text.contains("The period is too short"), "{text}");
    assert!(text.contains(", in 0 seconds. ") && text.contains("The period lasts 0 seconds."), "{text}");
}

/// "Rounded up by a factor of 1.0" stood below a limit that was not rounded.
#[test]
fn a_limit_that_is_round_already_is_not_said_to_be_rounded() {
    let requests = |times: u32| {
        let seconds = (0..3_000).map(|client| (i64::from(client) * DAY / 300, client));
        seconds
            .flat_map(move |(second, client)| (0..times).map(move |_| (second, client, "Mozilla/5.0", 200)))
            .collect()
    };
    let [round, rounded] = [1, 4].map(|times| suggest(requests(times), options(0.01)));
    assert_eq!((round.quota.bound, round.quota.limit), (Some(1), Some(1)));
    assert!(!round.to_string().contains("rounded up"), "{round}");
    assert_eq!((rounded.quota.bound, rounded.quota.limit), (Some(4), Some(5)));
    assert!(flowing(&rounded.to_string()).contains("rounded up from 4 "), "{rounded}");
}

/// 70 % of a period that a wrong clock made decades long had all requests: the limit was tried on one client, or
/// found in one.
#[test]
fn a_wrong_clock_does_not_move_the_held_out_part() {
    let usual: Vec<(i64, u32, &str, u16)> =
        (0..5_000).map(|client| (i64::from(client) * 10 * DAY / 5_000, client, "Mozilla/5.0", 200)).collect();
    let right = suggest(usual.clone(), options(0.01));
    let held_out = right.quota.held_out.unwrap();
    assert!((1_450..=1_600).contains(&held_out.clients), "{held_out:?}");
    assert!(!right.to_string().contains("There is no request"), "{right}");
    // 2099, 1970, and a second log 200 days later with one client in 10 hours.
    let day = |second: i64| second / DAY;
    for wrong in [26_700 * DAY, -MONDAY / 1_000, 210 * DAY] {
        let mut requests = usual.clone();
        requests.push((wrong, 9_999, "Mozilla/5.0", 200));
        let suggestion = suggest(requests, options(0.01));
        assert_eq!(suggestion.quota.limit, right.quota.limit, "{wrong}");
        let clients = suggestion.quota.held_out.unwrap().clients;
        assert!(clients.abs_diff(held_out.clients) <= 100, "{wrong}: {clients}");
        assert!((9.9..=10.1).contains(&suggestion.days), "{}", suggestion.days);
        let gap = if wrong < 0 { -day(wrong) } else { day(wrong) - 10 };
        let text = flowing(&suggestion.to_string());
        assert!(text.contains(&format!("There is no request in {gap} days of the period")), "{text}");
    }
    // Too few clients: how many more days it takes is told by the days with traffic.
    let mut few: Vec<_> = usual.into_iter().step_by(25).collect();
    few.push((-MONDAY / 1_000, 9_999, "Mozilla/5.0", 200));
    let quota = suggest(few, options(0.01)).quota;
    assert!(quota.proven_budget.unwrap() > 0.01, "{quota:?}");
    assert!((8..=12).contains(&quota.more_days.unwrap()), "{quota:?}");
}

/// Where nearly nobody is left in it, nobody can exceed the limit.
#[test]
fn a_held_out_part_without_clients_is_said_to_be_no_test() {
    let mut requests: Vec<(i64, u32, &str, u16)> =
        (0..4_000).map(|client| (i64::from(client) * 6 * DAY / 4_000, client, "Mozilla/5.0", 200)).collect();
    // A monitor that asks every minute.
    requests.extend((0..10 * DAY / 60).map(|minute| (minute * 60, 9_999, "monitor/1", 200)));
    let suggestion = suggest(requests, options(0.01));
    assert_eq!(suggestion.quota.held_out.unwrap().clients, 1);
    let text = flowing(&suggestion.to_string());
    assert!(text.contains("The held-out part has only 1 client, too few to try a limit on."), "{text}");
}

/// Windows that ended before clients became too many were counted once for each client, and multiplied all the same.
#[test]
fn held_out_requests_are_not_multiplied_twice() {
    let mut requests: Vec<(i64, u32, &str, u16)> = Vec::new();
    for client in 0..500_u32 {
        let start = i64::from(client) * DAY / 100;
        requests.extend((0..10).map(|minute| (start + minute * 60, client, "Mozilla/5.0", 200)));
        let late = 5 * DAY + i64::from(client) * DAY / 500;
        requests.extend((0..10).map(|minute| (late + minute * 60, client, "Mozilla/5.0", 200)));
    }
    requests.extend((0..4_000).map(|client| (7 * DAY, 10_000 + client, "Mozilla/5.0", 200)));
    let max_clients = NonZeroUsize::new(1_000).unwrap();
    let some = suggest(requests.clone(), SurveyOptions { max_clients, ..options(0.2) });
    let all = suggest(requests, options(0.2));
    assert!(some.one_client_in >= 4, "{}", some.one_client_in);
    let (some, all) = (some.quota.held_out.unwrap(), all.quota.held_out.unwrap());
    assert!(all.requests >= 9_000, "{all:?}");
    assert!(some.requests.abs_diff(all.requests) * 5 < all.requests, "{some:?} {all:?}");
}

/// Four hundred clients that ask for up to ten at once in a week, and a robot that asks for ninety.
fn week() -> Vec<(i64, u32, &'static str, u16)> {
    let mut requests = Vec::new();
    for client in 0..400_u32 {
        let minute = i64::from(client) * 7 * DAY / 400 / 60 * 60;
        for number in 0..=i64::from(client % 10) {
            requests.push((minute + number * 5, client, "Mozilla/5.0", 200));
        }
    }
    for day in 0..7 {
        requests.extend((0..90).map(|number| (day * DAY + 3_600 + number / 2, 9_999, "examplebot/2.0", 404)));
    }
    requests
}

/// The last 30 % are not looked at to find the limit: what happens there alone is denied.
#[test]
fn the_limit_is_found_in_the_first_part_and_reported_on_the_rest() {
    let mut requests = week();
    requests.extend((0..60).map(|number| (6 * DAY + 600 + number / 2, 777, "Mozilla/5.0", 200)));
    requests.retain(|(_, client, ..)| *client != 9_999);
    let suggestion = suggest(requests, options(0.05));
    assert_eq!((suggestion.quota.bound, suggestion.quota.limit), (Some(10), Some(10)));
    let held_out = suggestion.quota.held_out.unwrap();
    assert_eq!((held_out.denied, held_out.denied_clients), (50, 1));
    assert!((110..=130).contains(&held_out.clients), "{held_out:?}");
    let companion = suggestion.companion.unwrap();
    assert_eq!((companion.window.as_str(), companion.limit), ("1s", Some(1)));
}

#[test]
fn robots_are_counted_shown_apart_and_said_to_be_far_above_all_others() {
    let suggestion = suggest(week(), options(0.05));
    let kinds: Vec<(Kind, u64, Option<u64>)> =
        suggestion.kinds.iter().map(|kind| (kind.kind, kind.clients, kind.above_limit)).collect();
    assert_eq!(kinds, [(Kind::Single, 400, Some(0)), (Kind::Robot, 1, Some(1))]);
    assert_eq!((suggestion.greatest[0].kind, suggestion.greatest[0].most), (Kind::Robot, 90));
    let outliers = suggestion.outliers.unwrap();
    assert_eq!((outliers.clients, outliers.from, outliers.others_up_to), (1, 90, 10));
}

/// What is printed can be given to the service as it is, and tries the limits out.
#[test]
fn the_policy_is_valid_and_only_tries_limits_out() {
    let matching = Classes::parse(&["counted=path: /".to_owned()], None).unwrap();
    let options = SurveyOptions { matching, conditions: Some("path: /".to_owned()), ..options(0.05) };
    let word = |name| Identity::of_word(name).unwrap();
    let both = Identity::of_list(vec![word("ip"), word("path")]);
    let text = suggest(week(), SurveyOptions { identity: both, ..self::options(0.05) }).policy().unwrap();
    Config::parse("suggested.yaml", &text).unwrap_or_else(|error| panic!("{text}{error}"));
    let text = suggest(week(), options).policy().unwrap();
    let config = Config::parse("suggested.yaml", &text).unwrap_or_else(|error| panic!("{text}{error}"));
    assert!(config.warnings().is_empty(), "{:?}", config.warnings());
    let [policy] = config.policies().as_slice() else { panic!("{text}") };
    assert_eq!(policy.quotas().len(), 0);
    let candidates: Vec<String> = policy.candidate_specs().map(|spec| spec.to_string()).collect();
    assert_eq!(candidates, ["10/1m", "1/1s"]);
}

/// Clients that one day of ten brings make the bound depend on that day.
#[test]
fn the_band_shows_how_much_depends_on_single_days() {
    let days = |busy: &[i64]| {
        let mut requests = Vec::new();
        for day in 0..10 {
            for client in 0..200_u32 {
                let start = day * DAY + i64::from(client) * 300;
                let most = if busy.contains(&day) && client < 60 { 50 } else { 1 + client % 5 };
                let client = day as u32 * 1_000 + client;
                requests
                    .extend((0..most).map(|second| (start + i64::from(second), client, "Mozilla/5.0", 200)));
            }
        }
        requests
    };
    let quota = |requests| suggest(requests, options(0.02)).quota;
    let even = quota(days(&[])).band.unwrap();
    assert_eq!((even.low, even.high), (5, 5));
    let uneven = quota(days(&[3])).band.unwrap();
    assert_eq!((uneven.low, uneven.high), (5, 50));
    assert_eq!(quota(days(&[3])).band, Some(uneven), "the same for the same log");
    let short = days(&[]).into_iter().filter(|(second, ..)| *second < 6 * DAY).collect();
    assert_eq!(quota(short).band, None);
}

/// Days drawn with repeats made each draw a shorter period: the band of clients that return lay below the bound.
#[test]
fn the_band_of_clients_that_return_has_the_bound_in_it() {
    let mut requests = Vec::new();
    for day in 0..20_i64 {
        for client in 0..400_i64 {
            // Each client asks for the most on a day of its own.
            let most = 1 + (client * 7 + day * 13) % 40;
            let start = day * DAY + client * 200;
            requests.extend((0..most).map(|second| (start + second, client as u32, "Mozilla/5.0", 200)));
        }
    }
    let quota = suggest(requests, options(0.02)).quota;
    let (band, bound) = (quota.band.unwrap(), quota.bound.unwrap());
    assert!((band.low..=band.high).contains(&bound), "{band:?}, {bound}");
}

/// `10/1m` and `20/1s` together: the second one looked like a protection, and denied nothing.
#[test]
fn a_short_limit_that_denies_nothing_is_left_out_of_the_policy() {
    let bursts = |length: i64| {
        let mut requests = Vec::new();
        for client in 0..400_i64 {
            let start = client * 8 * DAY / 400 / 60 * 60;
            requests
                .extend((0..9).map(|number| (start + number * length, client as u32, "Mozilla/5.0", 200)));
        }
        requests
    };
    let at_once = suggest(bursts(0), options(0.05));
    assert_eq!(at_once.companion.as_ref().unwrap().limit, Some(10));
    assert!(
        at_once.is_companion_idle && at_once.policy().unwrap().contains("candidate: [10/1m]"),
        "{at_once}"
    );
    assert!(flowing(&at_once.to_string()).contains("the policy leaves it out"), "{at_once}");
    // A window of seven seconds that crosses a minute has room in both of its minutes.
    let uneven = SurveyOptions { companion: Some("1/7s".parse().unwrap()), ..options(0.05) };
    assert!(!suggest(bursts(0), uneven).is_companion_idle);
    let spread = suggest(bursts(1), options(0.05));
    assert!(
        !spread.is_companion_idle && spread.policy().unwrap().contains("candidate: [10/1m, 1/1s]"),
        "{spread}"
    );
}

/// Rounded up, `100/1m` had more room than `1/1s` leaves in a minute.
#[test]
fn a_long_limit_that_denies_nothing_is_left_out_of_the_policy() {
    let requests = (0..400_i64).flat_map(|client| {
        let start = client * 8 * DAY / 400 / 60 * 60;
        (0..60).map(move |second| (start + second, client as u32, "Mozilla/5.0", 200))
    });
    let suggestion = suggest(requests.collect(), options(0.05));
    assert_eq!((suggestion.quota.limit, suggestion.is_companion_idle), (Some(100), false));
    assert!(
        suggestion.is_limit_idle && suggestion.policy().unwrap().contains("candidate: [1/1s]"),
        "{suggestion}"
    );
    assert!(
        flowing(&suggestion.to_string())
            .contains("because the limit for 1s is lower; the policy leaves it out"),
        "{suggestion}"
    );
}

/// They were dropped without a word, or counted although the service answers them as errors.
#[test]
fn requests_with_damaged_or_long_attributes_are_not_counted_and_a_note_says_so() {
    let mut survey = Survey::new(options(0.05));
    let at = Timestamp::from_unix_millis(MONDAY);
    let hit = |path| Hit::new(at, [("ip", "192.0.2.1"), ("path", path)].into_iter().collect());
    let (long, longest) = ("x".repeat(1_025), "x".repeat(1_024));
    survey.request(&Hit { damaged: Some("path"), ..hit("/\u{fffd}") });
    survey.request(&hit(&long));
    survey.request(&hit(&longest));
    let suggestion = survey.suggest();
    assert_eq!((suggestion.requests, suggestion.undecided), (1, 2));
    let note = "- 2 requests are not counted, because the service answers them as errors: an attribute is not UTF-8, or has more \
                than 1,024 bytes. ";
    assert!(flowing(&suggestion.to_string()).contains(note), "{suggestion}");
}

/// Ten working days are more than a week, and say nothing of a weekend.
#[test]
fn a_period_without_weekends_is_said_to_have_none() {
    let note = |counts: fn(i64) -> bool| {
        let days = (0..14).filter(|day| counts(day % 7));
        let requests = days.flat_map(|day| {
            (0..400).map(move |client| (day * DAY + i64::from(client) * 200, client, "Mozilla/5.0", 200))
        });
        let notes = suggest(requests.collect(), options(0.05)).notes;
        notes.into_iter().map(|note| note.to_string()).find(|note| note.starts_with("Nearly all minutes"))
    };
    let workdays = "Nearly all minutes with requests are from Monday to Friday. Traffic at weekends may differ: take a log of both.";
    assert_eq!(note(|day| day < 5).as_deref(), Some(workdays));
    assert_eq!(note(|_| true), None);
}

/// A client that asks for much on one of ten days is one of ten client-days.
#[test]
fn a_budget_can_be_one_of_client_days() {
    let mut requests = Vec::new();
    for day in 0..10_i64 {
        for client in 0..40_u32 {
            let most = if i64::from(client % 10) == day { 30 } else { 3 };
            let start = day * DAY + i64::from(client) * 2_000;
            requests.extend((0..most).map(|second| (start + second, client, "Mozilla/5.0", 200)));
        }
    }
    let per_client = suggest(requests.clone(), options(0.2));
    assert_eq!((per_client.clients, per_client.quota.bound), (40, Some(30)));
    let per_day = SurveyOptions { budget_per: Per::ClientDay, ..options(0.2) };
    let suggestion = suggest(requests, per_day);
    assert_eq!((suggestion.clients, suggestion.quota.bound), (400, Some(3)));
    assert_eq!(
        suggestion.kinds.iter().map(|kind| (kind.kind, kind.clients)).collect::<Vec<_>>(),
        [(Kind::Single, 400)]
    );
    let held_out = suggestion.quota.held_out.unwrap();
    // The last three days, and a minute of the day before.
    assert!((120..=122).contains(&held_out.clients), "{held_out:?}");
    assert!((12..=13).contains(&held_out.denied_clients), "{held_out:?}");
    let text = flowing(&suggestion.to_string());
    for said in ["of 400 client-days by ip", "at most 20 % of client-days request more than 3"] {
        assert!(text.contains(said), "{said}: {text}");
    }
    Config::parse("suggested.yaml", &suggestion.policy().unwrap()).unwrap();
}

#[test]
fn keys_can_be_hidden() {
    let mut suggestion = suggest(week(), options(0.05));
    assert!(suggestion.json().contains("ip=10.0.39.15"));
    suggestion.hide_keys();
    assert!(!suggestion.json().contains("ip=10."), "{}", suggestion.json());
}

/// Ten thousand attempts to log in from four addresses, and three thousand people: the suggested 200/1m let all of the
/// attack through, and that was said forty lines below.
#[test]
fn a_limit_that_an_attack_sets_is_said_to_be_set_by_it() {
    let mut requests: Vec<(i64, u32, &str, u16)> = Vec::new();
    for client in 0..3_000_u32 {
        let start = i64::from(client) * 10 * DAY / 3_000 / 60 * 60;
        requests.extend(
            (0..=i64::from(client % 2)).map(|number| (start + number * 5, client, "Mozilla/5.0", 200)),
        );
    }
    let attack = |client: u32, program, status| {
        (0..250).map(move |number| (DAY + number * 3 / 5, 9_000 + client, program, status))
    };
    (0..4).for_each(|client| requests.extend(attack(client, "Mozilla/5.0", 401)));
    let suggestion = suggest(requests.clone(), options(0.001));
    let quota = &suggestion.quota;
    assert_eq!((quota.limit, quota.bound), (Some(100), Some(100)));
    let set_by = quota.set_by.as_ref().unwrap();
    assert_eq!((set_by.clients, set_by.requests, set_by.failed, set_by.limit_without), (4, 1_000, 1_000, 2));
    // The answer says so before all details.
    let text = flowing(&suggestion.to_string());
    let remark = "It is set by 4 clients with 100 % errors, far above all others; without them, the limit would be 2/1m";
    let place = text.find(remark).unwrap_or_else(|| panic!("{text}"));
    assert!(place < text.find("It is based on").unwrap(), "{text}");
    assert!(
        suggestion.policy().unwrap().contains("# Set by 4 clients with 100 % errors; without them 2/1m."),
        "{text}"
    );
    assert!(suggestion.json().contains(r#""set_by":{"clients":4,"#), "{}", suggestion.json());
    // People that request as much are no attack.
    let mut people = requests.clone();
    people.retain(|(_, client, ..)| *client < 9_000);
    (0..4).for_each(|client| people.extend(attack(client, "Mozilla/5.0", 200)));
    let suggestion = suggest(people, options(0.001));
    assert_eq!((suggestion.quota.limit, suggestion.quota.set_by), (Some(100), None));
    requests.retain(|(_, client, ..)| *client < 9_000);
    (0..4).for_each(|client| requests.extend(attack(client, "examplebot/1", 200)));
    let suggestion = suggest(requests, options(0.001));
    assert!(
        flowing(&suggestion.to_string()).contains("It is set by 4 robots, far above all others"),
        "{suggestion}"
    );
}
