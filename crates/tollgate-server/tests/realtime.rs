//! The service on the real clock: several connections send requests around the ends of windows, while new keys arrive.
//!
//! The library's judge checks the answers alone: see `realtime` in the testkit.

#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::disallowed_methods, reason = "this is a test, in real time")]

mod support;

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use support::{Connection, Reply, Server, post};
use tollgate_testkit::realtime::{
    self, ClockReading, Group, LoadClient, LoadPlan, LoadRun, LoadTarget, LoadedKey, Nanos, OracleFigures,
    QuotaAnswer, RealClock, Start, Terms, UnitAnswer,
};

/// The checks in one request; the service accepts no more.
const BATCH: usize = 100;

/// The policy of new keys.
const NEWCOMERS: &str = "newcomers";

fn plan() -> LoadPlan {
    let terms = |limit, millis, start| Terms { limit, millis, start };
    let group =
        |policy, quotas: &[Terms], crowd| Group { policy, quotas: quotas.into(), crowd, obedient: 32 };
    LoadPlan {
        groups: vec![
            group("second", &[terms(1, 1_000, Start::Epoch)], 400),
            group("quarter", &[terms(1, 250, Start::Epoch)], 100),
            group("staggered", &[terms(1, 1_000, Start::Staggered)], 400),
            group("first_hit", &[terms(2, 1_100, Start::FirstHit)], 200),
            group("pair", &[terms(2, 1_000, Start::Epoch), terms(3, 1_300, Start::Staggered)], 200),
        ],
    }
}

/// Services with much memory and with little, over one connection and over several.
#[test]
#[ignore = "takes its time: cargo xtask prove realtime"]
fn no_window_admits_more_than_its_limit() {
    let scenes = [(20_000, 1), (4_000, 3), (4_000, 1), (20_000, 3)];
    let seconds = realtime::seconds();
    let count = (seconds / 20).max(scenes.len() as u64).min(seconds.max(1));
    let length = Duration::from_millis(1_000 * seconds / count);
    let plan = plan();
    let mut sum = OracleFigures::default();
    for (max_counters, chargers) in scenes.into_iter().cycle().take(count as usize) {
        let service = Service::start(&plan, max_counters);
        let figures = LoadRun { chargers, length }.run(&service, &plan);
        eprintln!("max_counters={max_counters} chargers={chargers} {figures}");
        sum += figures;
    }
    println!("\nRESULT prove/realtime/service {sum}");
    assert!(sum.are_clean(), "{:#?}", sum.stories);
}

/// A service with a policy for each group of a plan, and one for new keys.
struct Service<'a> {
    plan: &'a LoadPlan,
    server: Server,
    file: PathBuf,
}

impl<'a> Service<'a> {
    fn start(plan: &'a LoadPlan, max_counters: usize) -> Self {
        let mut text = "policies:\n".to_owned();
        let mut policy = |name: &str, quotas: &[Terms]| {
            let quotas: Vec<_> = quotas.iter().map(Terms::written).collect();
            let quotas = quotas.join(", ");
            writeln!(
                text,
                "  - {{ name: {name}, match: {{ group: {name} }}, key: [user], quotas: [{quotas}] }}"
            )
            .expect("a text can be written to");
        };
        for group in &plan.groups {
            policy(group.policy, &group.quotas);
        }
        policy(NEWCOMERS, &[Terms { limit: 1, millis: 20, start: Start::Epoch }]);
        let file = std::env::temp_dir().join(format!("tollgate-realtime-{}.yaml", std::process::id()));
        fs::write(&file, text).expect("a file can be written");
        let path = file.to_str().expect("a path in UTF-8");
        let server = Server::start(&["--config", path, "--max-counters", &max_counters.to_string()]);
        Self { plan, server, file }
    }
}

impl Drop for Service<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}

impl LoadTarget for Service<'_> {
    type Client<'t>
        = Line<'t>
    where
        Self: 't;

    fn client(&self) -> Line<'_> {
        Line { plan: self.plan, connection: self.server.connect() }
    }
}

/// A connection to the service.
struct Line<'a> {
    plan: &'a LoadPlan,
    connection: Connection,
}

#[derive(Deserialize)]
struct Batch {
    decisions: Vec<Decision>,
}

/// A decision, or a problem instead.
#[derive(Deserialize)]
#[serde(untagged)]
enum Decision {
    Decided {
        allowed: bool,
        retry_after_ms: Option<i64>,
        #[serde(flatten)]
        quotas: Quotas,
    },
    Problem {
        status: u16,
    },
}

/// The states of the quotas: a list, or the fields of the decision itself if there is one.
#[derive(Deserialize)]
#[serde(untagged)]
enum Quotas {
    Several { quotas: Vec<Quota> },
    Single(Quota),
}

impl Quotas {
    fn into_list(self) -> Vec<Quota> {
        match self {
            Self::Several { quotas } => quotas,
            Self::Single(quota) => vec![quota],
        }
    }
}

#[derive(Deserialize)]
struct Quota {
    window: Window,
    reset_after_ms: i64,
    reason: Option<String>,
}

#[derive(Deserialize)]
struct Window {
    start: i64,
    end: i64,
}

impl Line<'_> {
    /// Takes a unit with one request.
    fn check(&mut self, policy: &str, user: &str) -> Decision {
        let reply = self.connection.ask(&post("/v1/check", &request(policy, user)));
        let decision = read(&reply);
        if let Decision::Decided { retry_after_ms: Some(millis), .. } = decision {
            let seconds = reply.header("retry-after").and_then(|seconds| seconds.parse().ok());
            let rounded_up = millis.max(1).unsigned_abs().div_ceil(1_000);
            assert_eq!(seconds, Some(rounded_up), "rule 10: whole seconds are rounded up: {reply:?}");
        }
        decision
    }

    /// Takes a unit for each pair of policy and user.
    fn check_batch<'t>(&mut self, pairs: impl Iterator<Item = (&'t str, String)>) -> Vec<Decision> {
        let requests: Vec<String> = pairs.map(|(policy, user)| request(policy, &user)).collect();
        let body = format!(r#"{{"requests":[{}]}}"#, requests.join(","));
        let reply = self.connection.ask(&post("/v1/check/batch", &body));
        let Batch { decisions } = read(&reply);
        assert_eq!((reply.status, decisions.len()), (200, requests.len()));
        decisions
    }
}

fn request(policy: &str, user: &str) -> String {
    format!(r#"{{"attributes":{{"group":"{policy}","user":"{user}"}}}}"#)
}

fn read<T: DeserializeOwned>(reply: &Reply) -> T {
    serde_json::from_slice(&reply.body).unwrap_or_else(|error| panic!("{error}: {reply:?}"))
}

impl LoadClient for Line<'_> {
    fn ask(&mut self, clock: &RealClock, victims: &[LoadedKey], answers: &mut Vec<UnitAnswer>) {
        let plan = self.plan;
        let policy = |victim: &LoadedKey| plan.groups[usize::from(victim.group)].policy;
        for victims in victims.chunks(BATCH) {
            let before = clock.read();
            let decisions = match victims {
                [victim] => vec![self.check(policy(victim), &victim.key())],
                victims => self.check_batch(victims.iter().map(|victim| (policy(victim), victim.key()))),
            };
            let after = clock.now();
            let decisions = victims.iter().zip(decisions);
            answers
                .extend(decisions.filter_map(|(victim, decision)| decision.answer(*victim, before, after)));
        }
    }

    fn bring(&mut self, number: u64) -> u64 {
        let next = number + BATCH as u64;
        let decisions = self.check_batch((number..next).map(|number| (NEWCOMERS, number.to_string())));
        for decision in decisions {
            let is_fine = matches!(
                decision,
                Decision::Decided { allowed: true, .. } | Decision::Problem { status: 503 }
            );
            assert!(is_fine, "nobody has charged it before");
        }
        next
    }

    fn now(&mut self) -> i64 {
        let nobody = request("quarter", "nobody");
        let reply = self.connection.ask(&post("/v1/peek", &nobody));
        let Decision::Decided { quotas, .. } = read(&reply) else { panic!("a peek is answered: {reply:?}") };
        let quotas = quotas.into_list();
        quotas.first().map(|quota| quota.window.end - quota.reset_after_ms).expect("the policy has a quota")
    }
}

impl Decision {
    fn answer(self, victim: LoadedKey, before: ClockReading, after: Nanos) -> Option<UnitAnswer> {
        let (allowed, retry_after, quotas) = match self {
            Self::Decided { allowed, retry_after_ms, quotas } => (allowed, retry_after_ms, quotas),
            Self::Problem { status } => {
                assert_eq!(status, 503, "a service that is full is the only trouble");
                return None;
            }
        };
        let standing = |quota: Quota| QuotaAnswer {
            start: quota.window.start,
            end: quota.window.end,
            now: quota.window.end - quota.reset_after_ms,
            has_room: quota.reason.is_none(),
        };
        let quotas = quotas.into_list().into_iter().map(standing).collect();
        Some(UnitAnswer { victim, before, after, allowed, retry_after, quotas })
    }
}
