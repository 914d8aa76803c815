//! A small log with a known answer: a week of twelve visitors, a crawler, and one client that logs in too often.

use tollgate::Timestamp;
use tollgate_policy::Config;
use tollgate_simulate::{Classes, Hit, Options, Replay, Report};

/// 2026-11-23 00:00 UTC, a Monday.
pub(crate) const MONDAY: i64 = 1_795_392_000_000;

pub(crate) const POLICIES: &str = "policies:
  - { name: login, match: { path: /login }, key: [ip], quotas: [5/1m], candidate: [3/1m] }
  - { name: pages, match: { path: /pages/* }, key: [ip], quotas: [20/1m] }
";

pub(crate) const OLD: &str = "policies:
  - { name: login, match: { path: /login }, key: [ip], quotas: [10/1m] }
  - { name: pages, match: { path: /pages/* }, key: [ip], quotas: [15/1m] }
";

/// Seconds since Monday, the client, its program and the path, in the order of time.
pub(crate) fn requests() -> Vec<(i64, String, &'static str, &'static str)> {
    let mut requests = Vec::new();
    for day in 0..7 {
        for visitor in 1..=12_i64 {
            let start = day * 86_400 + 32_400 + visitor * 1_000;
            let ip = format!("192.0.2.{visitor}");
            requests.push((start, ip.clone(), "Mozilla/5.0", "/login"));
            for page in 0..visitor {
                requests.push((start + page * 2, ip.clone(), "Mozilla/5.0", "/pages/1"));
            }
        }
        for page in 0..30 {
            requests.push((
                day * 86_400 + 36_000 + page,
                "198.51.100.9".to_owned(),
                "crawler-bot/1.0",
                "/pages/2",
            ));
        }
    }
    for attempt in 0..40 {
        requests.push((
            2 * 86_400 + 50_000 + attempt * 3,
            "203.0.113.66".to_owned(),
            "evil|<b>`x`",
            "/login",
        ));
    }
    requests.sort();
    requests
}

pub(crate) fn report(policies: &str, baseline: Option<&str>) -> Report {
    let parse = |text: &str| Config::parse("test.yaml", text).unwrap().into_policies();
    let classes = Classes::parse(&["bot=user_agent: '*bot*'".to_owned()], None).unwrap();
    let options = Options { classes, ..Options::default() };
    let mut replay = Replay::new(parse(policies), baseline.map(parse), options).unwrap();
    for (second, ip, agent, path) in requests() {
        let attributes = [("ip", ip.as_str()), ("path", path), ("user_agent", agent)].into_iter().collect();
        let time = Timestamp::from_unix_millis(MONDAY + second * 1_000);
        let hit = Hit {
            status: Some(200),
            user_agent: Some(agent.as_bytes()),
            path: Some(path.as_bytes()),
            ..Hit::new(time, attributes)
        };
        replay.request(hit).unwrap();
    }
    replay.report()
}
