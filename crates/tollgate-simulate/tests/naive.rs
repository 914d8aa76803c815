//! A replay of its own: all that was admitted in a map, counted again for each request, no engine. It names the same
//! denials.

#![allow(clippy::unwrap_used, reason = "this is a test")]

mod naive {
    use std::collections::{HashMap, HashSet};

    /// One request: milliseconds, client, whether it is a login, and its cost.
    pub(crate) type Line = (i64, u8, bool, u32);

    /// How a quota counts.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Way {
        /// In windows of the clock, or from the first request of a client on.
        Clock,
        FirstHit,
        /// In a bucket; `None` if its burst is the limit.
        Burst(Option<u64>),
        Sliding,
        Log,
    }

    /// One quota: a limit for so many milliseconds.
    #[derive(Debug, Clone, Copy)]
    pub(crate) struct Quota {
        pub(crate) limit: u64,
        pub(crate) millis: i64,
        pub(crate) way: Way,
    }

    /// What was admitted of one policy: by quota and client, the times with their units.
    #[derive(Default)]
    struct Counts(HashMap<(usize, u8), Vec<(i64, u64)>>);

    impl Quota {
        /// The units that can be used at once.
        pub(crate) fn capacity(&self) -> u64 {
            match self.way {
                Way::Burst(Some(burst)) => burst,
                _ => self.limit,
            }
        }

        /// The units that count at a time, rounded up, by all that was admitted before.
        fn used(&self, admitted: &[(i64, u64)], now: i64) -> u64 {
            let within = |from: i64, to: i64| -> u64 {
                let units = admitted.iter().filter(|(time, _)| (from..to).contains(time));
                units.map(|(_, units)| units).sum()
            };
            let start = now - now % self.millis;
            match self.way {
                Way::Clock => within(start, now + 1),
                Way::FirstHit => {
                    let mut opened = None;
                    for (time, _) in admitted {
                        if opened.is_none_or(|opened| *time >= opened + self.millis) {
                            opened = Some(*time);
                        }
                    }
                    let opened = opened.filter(|opened| now < opened + self.millis);
                    opened.map_or(0, |opened| within(opened, now + 1))
                }
                // In units of 1 / millis: what is charged adds millis for each unit, and a millisecond drains limit.
                Way::Burst(_) => {
                    let (mut level, mut last) = (0_i64, 0);
                    for (time, units) in admitted.iter().copied().chain([(now, 0)]) {
                        level =
                            (level - (time - last) * self.limit as i64).max(0) + units as i64 * self.millis;
                        last = time;
                    }
                    level.unsigned_abs().div_ceil(self.millis.unsigned_abs())
                }
                Way::Sliding => {
                    let before =
                        within(start - self.millis, start) * (start + self.millis - now).unsigned_abs();
                    within(start, now + 1) + before.div_ceil(self.millis.unsigned_abs())
                }
                Way::Log => within(now - self.millis + 1, now + 1),
            }
        }
    }

    /// A policy: what it matches and its quotas.
    #[derive(Debug, Clone)]
    pub(crate) struct Policy {
        pub(crate) is_for_logins: bool,
        pub(crate) is_global: bool,
        pub(crate) quotas: Vec<Quota>,
    }

    pub(crate) struct Denials {
        /// The places of denied requests.
        pub(crate) requests: Vec<usize>,
        pub(crate) clients: HashSet<u8>,
        /// How many of them each policy denies.
        pub(crate) by_policy: Vec<u64>,
    }

    pub(crate) fn replay(policies: &[Policy], lines: &[Line]) -> Denials {
        let mut counts: Vec<Counts> = policies.iter().map(|_| Counts::default()).collect();
        let mut denials =
            Denials { requests: Vec::new(), clients: HashSet::new(), by_policy: vec![0; policies.len()] };
        for (place, &(time, client, is_login, cost)) in lines.iter().enumerate() {
            let mut open = Vec::new();
            let mut denying = HashSet::new();
            for (number, policy) in policies.iter().enumerate() {
                if policy.is_for_logins && !is_login {
                    continue;
                }
                for (at, quota) in policy.quotas.iter().enumerate() {
                    let key = (at, if policy.is_global { 0 } else { client });
                    let used = quota.used(counts[number].0.entry(key).or_default(), time);
                    if used + u64::from(cost) > quota.capacity() {
                        denying.insert(number);
                    }
                    open.push((number, key));
                }
            }
            if denying.is_empty() {
                for (number, key) in open {
                    counts[number].0.entry(key).or_default().push((time, u64::from(cost)));
                }
            } else {
                denials.requests.push(place);
                denials.clients.insert(client);
                denying.into_iter().for_each(|number| denials.by_policy[number] += 1);
            }
        }
        denials
    }
}

use std::fmt::Write as _;

use self::naive::{Line, Policy, Quota, Way};
use proptest::prelude::*;
use tollgate::Timestamp;
use tollgate_policy::{Config, Policies};
use tollgate_simulate::{Basis, CheckedReport, Hit, Options, Replay, Report};

/// An instant that is the start of a minute, and of no window of most of these quotas.
const START: i64 = 1_700_000_040_000;

fn written(policies: &[Policy]) -> String {
    let mut text = "policies:\n".to_owned();
    for (number, Policy { is_for_logins, is_global, quotas }) in policies.iter().enumerate() {
        let matching = if *is_for_logins { "match: { path: /login }, " } else { "" };
        let key = if *is_global { "global" } else { "[ip]" };
        let quotas: Vec<String> = quotas.iter().map(written_quota).collect();
        let cost = "cost: { attribute: units, max: 1000 }";
        let quotas = quotas.join(", ");
        writeln!(text, "  - {{ name: p{number}, {matching}key: {key}, quotas: [{quotas}], {cost} }}")
            .unwrap();
    }
    text
}

fn written_quota(Quota { limit, millis, way }: &Quota) -> String {
    let way = match way {
        Way::Clock => String::new(),
        Way::FirstHit => "@first_hit".to_owned(),
        Way::Burst(None) => "~burst".to_owned(),
        Way::Burst(Some(burst)) => format!("~burst:{burst}"),
        Way::Sliding => "~sliding".to_owned(),
        Way::Log => "~log".to_owned(),
    };
    format!("{limit}/{millis}ms{way}")
}

fn policies(text: &str) -> Policies {
    Config::parse("test.yaml", text).unwrap_or_else(|error| panic!("{text}{error}")).into_policies()
}

/// Replays lines one by one, and returns the report together with the places of the denied ones.
fn replay(text: &str, lines: &[Line], options: Options) -> (Report, Vec<usize>) {
    let mut replay = Replay::new(policies(text), None, options).unwrap();
    let mut denied = Vec::new();
    for (place, (time, client, is_login, cost)) in lines.iter().enumerate() {
        let (ip, cost) = (format!("192.0.2.{client}"), cost.to_string());
        let path = if *is_login { "/login" } else { "/search" };
        let before = replay.denied();
        replay
            .request(Hit {
                path: Some(path.as_bytes()),
                ..Hit::new(
                    Timestamp::from_unix_millis(*time),
                    [("ip", ip.as_str()), ("path", path), ("units", &cost)].into_iter().collect(),
                )
            })
            .unwrap();
        if replay.denied() > before {
            denied.push(place);
        }
    }
    (replay.report(), denied)
}

/// Replays all lines in one call.
fn replay_at_once(text: &str, lines: &[Line], options: Options) -> Report {
    let texts: Vec<(String, String)> =
        lines.iter().map(|(_, client, _, cost)| (format!("192.0.2.{client}"), cost.to_string())).collect();
    let hits = lines.iter().zip(&texts).map(|((time, _, is_login, _), (ip, cost))| {
        let path = if *is_login { "/login" } else { "/search" };
        Hit {
            path: Some(path.as_bytes()),
            ..Hit::new(
                Timestamp::from_unix_millis(*time),
                [("ip", ip.as_str()), ("path", path), ("units", cost)].into_iter().collect(),
            )
        }
    });
    let mut replay = Replay::new(policies(text), None, options).unwrap();
    replay.requests(hits).unwrap();
    replay.report()
}

fn lines(costs: std::ops::Range<u32>) -> impl Strategy<Value = Vec<Line>> {
    let line = (0_i64..60, 0_u8..5, any::<bool>(), costs);
    proptest::collection::vec(line, 1..120).prop_map(|mut lines| {
        let mut now = START;
        for line in &mut lines {
            // Several requests in one millisecond, and pauses of more than a window.
            now += if line.0 > 55 { line.0 * 3 } else { line.0 / 8 };
            line.0 = now;
        }
        lines
    })
}

/// The same lines so many times, one after the other.
fn repeated(lines: &[Line], times: usize) -> Vec<Line> {
    let span = lines.iter().map(|line| line.0 - START).max().unwrap_or(0);
    let shifted = |turn| {
        let later =
            move |&(time, client, is_login, cost): &Line| (time + turn * span, client, is_login, cost);
        lines.iter().map(later)
    };
    (0..times as i64).flat_map(shifted).collect()
}

fn quota() -> impl Strategy<Value = Quota> {
    (1_u64..8, 5_i64..80, way()).prop_map(|(limit, millis, way)| Quota { limit, millis, way })
}

fn window() -> impl Strategy<Value = Quota> {
    let way = prop_oneof![Just(Way::Clock), Just(Way::FirstHit)];
    (quota(), way).prop_map(|(quota, way)| Quota { way, ..quota })
}

fn way() -> impl Strategy<Value = Way> {
    prop_oneof![
        2 => Just(Way::Clock),
        2 => Just(Way::FirstHit),
        2 => proptest::option::of(1_u64..10).prop_map(Way::Burst),
        1 => Just(Way::Sliding),
        1 => Just(Way::Log),
    ]
}

fn any_policies() -> impl Strategy<Value = Vec<Policy>> {
    let policy = (any::<bool>(), any::<bool>(), proptest::collection::vec(quota(), 1..3)).prop_map(
        |(is_for_logins, is_global, mut quotas)| {
            quotas.dedup_by_key(|quota| (quota.millis, std::mem::discriminant(&quota.way)));
            Policy { is_for_logins, is_global, quotas }
        },
    );
    proptest::collection::vec(policy, 1..4)
}

proptest! {
    /// Several policies, several quotas, costs: the same requests are denied, by the same policies, to the same
    /// clients.
    #[test]
    fn the_engine_denies_what_a_naive_replay_denies(policies in any_policies(), lines in lines(1..4)) {
        let expected = naive::replay(&policies, &lines);
        let (report, denied) = replay(&written(&policies), &lines, Options { rungs: 0, ..Options::default() });
        prop_assert_eq!(&denied, &expected.requests);
        prop_assert_eq!(report.requests, lines.len() as u64);
        prop_assert_eq!(report.denied_clients, expected.clients.len() as u64);
        let denials: Vec<u64> = report.policies.iter().map(|policy| policy.denied).collect();
        prop_assert_eq!(denials, expected.by_policy);
        prop_assert!(report.most_denied.iter().map(|client| client.denied).sum::<u64>() == report.denied);
    }

    /// Several requests in one call, also if some of their clients are not followed any more. From 1,024 on,
    /// another thread decides.
    #[test]
    fn requests_at_once_come_to_the_same(
        policies in any_policies(),
        lines in lines(1..4),
        is_long in prop::bool::weighted(0.04),
        most in 1_usize..7,
    ) {
        let lines = repeated(&lines, if is_long { 1 + 2_000 / lines.len() } else { 1 });
        let options = || Options { rungs: 1, max_clients: most.try_into().unwrap(), ..Options::default() };
        let (report, _) = replay(&written(&policies), &lines, options());
        let at_once = replay_at_once(&written(&policies), &lines, options());
        let json = |report| CheckedReport::new(report, Vec::new()).json();
        prop_assert_eq!(json(at_once), json(report));
    }

    /// One quota, one unit a request: every point of the curve is what the engine denies under that limit.
    #[test]
    fn every_calculated_point_is_what_the_engine_denies(quota in window(), lines in lines(1..2), pick in any::<prop::sample::Index>()) {
        let policy = |limit| Policy {
            is_for_logins: true,
            is_global: false,
            quotas: vec![Quota { limit, ..quota }],
        };
        let text = |limit| written(&[policy(limit)]).replace(", cost: { attribute: units, max: 1000 }", "");
        let (report, _) = replay(&text(quota.limit), &lines, Options::default());
        let curve = &report.policies[0].quotas[0].curve;
        prop_assert_eq!(curve.basis, Basis::Calculated);
        let point = curve.points[pick.index(curve.points.len())];
        let (under, _) = replay(&text(point.limit), &lines, Options::default());
        prop_assert_eq!((point.denied, point.denied_clients), (under.denied, under.denied_clients));
    }

}

proptest! {
    // Each case is a dozen replays.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 10, ..ProptestConfig::default() })]

    /// Several quotas, or costs: the points that the engine tried in one pass are those of passes of their own.
    #[test]
    fn every_tried_point_is_what_the_engine_denies(mut policies in any_policies(), lines in lines(1..4)) {
        let (report, _) = replay(&written(&policies), &lines, Options { rungs: 4, ..Options::default() });
        let quota = &report.policies[0].quotas[0];
        prop_assert_eq!(quota.curve.basis, Basis::Tried);
        prop_assert!(quota.curve.points.len() > 1);
        for point in &quota.curve.points {
            policies[0].quotas[0].limit = point.limit;
            let (under, _) = replay(&written(&policies), &lines, Options { rungs: 0, ..Options::default() });
            let first = &under.policies[0];
            prop_assert_eq!((point.denied, point.denied_clients), (first.denied, first.denied_clients));
        }
    }

    /// Each other kind of each quota denies what a replay of that quota denies, alone and together with others.
    #[test]
    fn every_tried_kind_is_what_the_engine_denies(
        policies in any_policies(),
        lines in lines(1..3),
        has_costs in any::<bool>(),
        picked in any::<prop::sample::Index>(),
    ) {
        let written = |policies: &[Policy]| match has_costs {
            true => written(policies),
            false => written(policies).replace(", cost: { attribute: units, max: 1000 }", ""),
        };
        let (report, _) = replay(&written(&policies), &lines, Options { rungs: 1, ..Options::default() });
        let at = picked.index(policies.len());
        for (place, quota) in report.policies[at].quotas.iter().enumerate() {
            prop_assert!(!quota.kinds.is_empty());
            for kind in &quota.kinds {
                // The marker is a length that no other quota has.
                let mut marked = policies.clone();
                marked[at].quotas[place].millis = 1_234_567;
                let marker = written_quota(&marked[at].quotas[place]);
                let text = written(&marked).replace(&marker, &kind.quota);
                let (under, _) = replay(&text, &lines, Options { rungs: 0, ..Options::default() });
                let own = &under.policies[at];
                prop_assert_eq!((kind.denied, kind.denied_clients), (own.denied, own.denied_clients), "{}", text);
                prop_assert_eq!(kind.total_denied.unwrap_or(under.denied), under.denied, "{}", text);
                let clients = kind.total_denied_clients.unwrap_or(under.denied_clients);
                prop_assert_eq!(clients, under.denied_clients, "{}", text);
            }
        }
    }
}
