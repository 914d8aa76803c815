//! Reports of every kind that a page may be about.

use std::path::Path;
use std::sync::LazyLock;

use tollgate::Timestamp;
use tollgate_policy::Config;
use tollgate_simulate::{
    CheckedReport, Classes, Gate, GateVerdict, Hit, Options, ReadFile, ReadGap, ReadReport, Replay, Report,
    UnreadLine, UnreadLines,
};

use crate::common::{MONDAY, OLD, POLICIES, report};
use crate::traffic;

fn file(name: &str, report: &Report) -> ReadFile {
    ReadFile {
        name: name.to_owned(),
        format: Some("nginx-combined".to_owned()),
        instant: Some("logs when requests end".to_owned()),
        precision: Some("to the second".to_owned()),
        lines: report.requests,
        requests: report.requests,
    }
}

/// The log and the policies in `examples/simulate`.
pub(crate) fn example() -> CheckedReport {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/simulate");
    let policies = std::fs::read_to_string(folder.join("policies.yaml")).unwrap();
    let policies = Config::parse("policies.yaml", &policies).unwrap().into_policies();
    let mut replay = Replay::new(policies, None, Options::default()).unwrap();
    for line in std::fs::read_to_string(folder.join("access.log")).unwrap().lines() {
        let quoted: Vec<&str> = line.split('"').collect();
        let time = quoted[0].split(['[', ']']).nth(1).unwrap();
        let time = jiff::fmt::strtime::parse("%d/%b/%Y:%H:%M:%S %z", time).unwrap().to_timestamp().unwrap();
        let path = quoted[1].split(' ').nth(1).unwrap();
        let path = path.split('?').next().unwrap();
        let ip = quoted[0].split(' ').next().unwrap();
        replay
            .request(Hit {
                status: Some(quoted[2].trim().split(' ').next().unwrap().parse().unwrap()),
                user_agent: Some(quoted[5].as_bytes()),
                path: Some(path.as_bytes()),
                ..Hit::new(
                    Timestamp::from_unix_millis(time.as_millisecond()),
                    [("ip", ip), ("path", path), ("user_agent", quoted[5])].into_iter().collect(),
                )
            })
            .unwrap();
    }
    let mut report = replay.report();
    report.hide_keys();
    let file = file("examples/simulate/access.log", &report);
    report.read = Some(ReadReport { lines: file.lines, files: vec![file], ..ReadReport::default() });
    CheckedReport::new(report, Vec::new())
}

/// The routes and clients of the same log as [`busy`]: no policy was given.
pub(crate) fn overview() -> CheckedReport {
    static OVERVIEW: LazyLock<CheckedReport> = LazyLock::new(|| {
        let policies = Config::parse("none.yaml", "policies: []").unwrap().into_policies();
        let mut replay = Replay::new(policies, None, Options { routes: true, ..Options::default() }).unwrap();
        requests_for_days().iter().for_each(|request| replay.request(request.hit(Some(b"GET"))).unwrap());
        let mut report = replay.report();
        report.hide_keys();
        CheckedReport::new(report, Vec::new())
    });
    OVERVIEW.clone()
}

/// A report without a request.
pub(crate) fn empty() -> CheckedReport {
    let policies = Config::parse("policies.yaml", POLICIES).unwrap().into_policies();
    let report = Replay::new(policies, None, Options::default()).unwrap().report();
    CheckedReport::new(report, Vec::new())
}

/// A report with every section that a page may have.
pub(crate) fn everything() -> CheckedReport {
    // Requests of `/pages/2` lack the key of the last policy.
    let users = "  - { name: users, match: { path: /pages/2 }, key: [user], quotas: [20/1m, 9/1s] }\n";
    let before = OLD.replace("10/1m", "100/1m").replace("15/1m", "5/1m");
    let mut report = report(&format!("{POLICIES}{users}"), Some(&before));
    let file = file("access.log", &report);
    let example = UnreadLine { place: "access.log:12".to_owned(), shape: "a 0".to_owned(), text: None };
    let unparsed = UnreadLines { reason: "no time".to_owned(), lines: 2, examples: vec![example] };
    let (from, to) = ("2026-11-23T00:00:00Z".to_owned(), "2026-11-23T02:00:00Z".to_owned());
    report.read = Some(ReadReport {
        files: vec![file; 600],
        lines: 882,
        others: 5,
        unparsed_lines: 2,
        unparsed: vec![unparsed],
        late: 3,
        gaps: vec![ReadGap { from, to, seconds: 7_200.0 }],
        ..ReadReport::default()
    });
    let gates = ["denied > 99%", "newly_denied_clients > 0", "login.denied{bot} > 0"];
    let gates = gates.map(|gate| gate.parse::<Gate>().unwrap().check(&report, 1).unwrap());
    assert_eq!(
        gates.each_ref().map(|gate| gate.held),
        [GateVerdict::Held, GateVerdict::Failed, GateVerdict::NoAnswer]
    );
    CheckedReport::new(report, gates.to_vec())
}

/// A request of the log.
struct Request {
    second: i64,
    ip: String,
    program: &'static str,
    path: &'static str,
}

impl Request {
    fn hit<'a>(&'a self, method: Option<&'a [u8]>) -> Hit<'a> {
        let Self { second, ip, program, path } = self;
        let attributes = [("ip", &**ip), ("path", path), ("user_agent", program)].into_iter().collect();
        let status = match *path {
            "/login" if program.starts_with("python") => 401,
            "/assets/img/logo.svg" => 304,
            _ => 200,
        };
        Hit {
            status: Some(status),
            user_agent: Some(program.as_bytes()),
            method,
            path: Some(path.as_bytes()),
            ..Hit::new(Timestamp::from_unix_millis(MONDAY + second * 1_000), attributes)
        }
    }
}

/// Ten days of a site with thousands of clients.
fn requests_for_days() -> Vec<Request> {
    const PATHS: [&str; 8] = [
        "/assets/note/s.js",
        "/assets/img/hero.avif",
        "/assets/img/logo.svg",
        "/",
        "/api/v2/search",
        "/login",
        "/assets/fonts/inter.woff2",
        "/api/v2/search",
    ];
    let mut random = fastrand::Rng::with_seed(7);
    let mut requests = Vec::new();
    for number in 0..3_400_u32 {
        let client = traffic::draw(&mut random);
        let ip = match number % 5 {
            0 => format!("2001:db8:{:x}:{:x}::7", number / 7, number),
            _ => format!("198.51.{}.{}", number / 250, number % 250),
        };
        let program = match client.program {
            "Mozilla/5.0" => {
                "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/147.0 Safari/537.36"
            }
            bot => bot,
        };
        for second in client.seconds.into_iter().take(14) {
            requests.push(Request {
                second,
                ip: ip.clone(),
                program,
                path: PATHS[random.usize(0..PATHS.len())],
            });
        }
    }
    // One attacker on one afternoon.
    for attempt in 0..1_500 {
        requests.push(Request {
            second: 3 * 86_400 + 50_000 + attempt / 2,
            ip: "203.0.113.66".to_owned(),
            program: "python-requests/2.32",
            path: "/login",
        });
    }
    requests.sort_by_key(|request| request.second);
    requests
}

/// Ten days of a site with thousands of clients, under several policies.
pub(crate) fn busy() -> CheckedReport {
    static BUSY: LazyLock<CheckedReport> = LazyLock::new(replayed_for_days);
    BUSY.clone()
}

fn replayed_for_days() -> CheckedReport {
    const POLICIES: &str = "policies:
      - { name: login, match: { path: /login }, key: [ip], quotas: [10/1m], candidate: [5/1m, 3/1s] }
      - { name: assets, match: { path: /assets/* }, key: [ip], quotas: [120/1m] }
      - { name: api.search, match: { path: /api/v2/search }, key: [ip], quotas: [30/1m, 5/1s] }
      - { name: everything, key: [ip], quotas: [300/1m], mode: shadow }
      - { name: imports, match: { path: /api/v2/imports }, key: [ip], quotas: [2/1h] }
    ";
    let policies = |text: &str| Config::parse("policies.yaml", text).unwrap().into_policies();
    let classes = Classes::parse(
        &["bot=user_agent: '*bot*'".to_owned(), "script=user_agent: 'python*'".to_owned()],
        None,
    );
    let options = Options { classes: classes.unwrap(), ..Options::default() };
    let before = POLICIES.replace("120/1m", "90/1m").replace("10/1m", "100/1m");
    let mut replay = Replay::new(policies(POLICIES), Some(policies(&before)), options).unwrap();
    requests_for_days().iter().for_each(|request| replay.request(request.hit(None)).unwrap());
    let mut report = replay.report();
    report.hide_keys();
    let names =
        ["/var/log/nginx/access.log.2.gz", "/var/log/nginx/access.log.1", "/var/log/nginx/access.log"];
    let files = names.map(|name| file(name, &report)).to_vec();
    report.read =
        Some(ReadReport { lines: report.requests + 11, others: 11, files, ..ReadReport::default() });
    let gates = ["denied > 1%", "newly_denied_clients > 10", "login.denied_clients{bot} > 0"];
    let gates = gates.map(|gate| gate.parse::<Gate>().unwrap().check(&report, 1).unwrap());
    CheckedReport::new(report, gates.to_vec())
}
