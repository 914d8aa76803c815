//! Traffic through a server in windows of four seconds: names that are hard to write down, clients of IPv6, lines of
//! 8 KB, requests that take longer than a window lasts, and clients that go away.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use crate::app::App;
use crate::client::{Request, micros};
use crate::front::{Behind, Front, Kind, Log};
use crate::ledger::{Entry, Figures, Ledger};
use crate::replayed::{figures, replay};
use crate::support::folder::Folder;
use crate::support::{Server, until};
use crate::texts::{CLIENTS, Texts};

const USERS: &str = "  - { name: users, match: { path: /named }, key: [header.x-api-key], quotas: [3/4s] }\n";
const OTHERS: &str = "  - { name: clients, match: { path: /client }, key: [ip], quotas: [3/4s] }
  - { name: paths, match: { path: \"/p/*\" }, key: [path], quotas: [3/4s] }
  - { name: slow, match: { path: \"/slow/*\" }, key: [path], quotas: [2/4s] }
  - { name: buckets, match: { path: \"/burst/*\" }, key: [path], quotas: [9/1h~burst:3] }
  - { name: sliding, match: { path: \"/sliding/*\" }, key: [path], quotas: [2/1h~sliding] }
  - { name: logs, match: { path: \"/log/*\" }, key: [path], quotas: [1/1h~log] }
unmatched: allow
";

const WINDOW: i64 = 4_000_000;
/// A log of whole seconds with durations tells the begin to half a second.
const MARGIN: i64 = 600_000;
/// Windows that are needed, and the most that are tried: in some, this machine may have stood still.
const WINDOWS: usize = 8;
const MOST: usize = 24;

/// Plays it with one server. Returns what is wrong.
pub(crate) fn play(kind: Kind) -> Vec<String> {
    let folder = Folder::new();
    let users = if kind.logs_headers() { USERS } else { "" };
    let policies = folder.write("limits.yaml", &format!("policies:\n{users}{OTHERS}"));
    let server = Server::start(&["--config", &policies, "--trusted-proxy", "127.0.0.0/8"]);
    let app = App::start((!kind.asks()).then_some(server.public));
    let behind = Behind { service: kind.asks().then_some(server.public), app: app.address };
    let front = kind.start(&folder, behind, &[]);
    let texts = Texts::of(kind, &front, &app);
    let stage = Stage { kind, address: front.address, app: &app, texts: &texts, ledger: Mutex::default() };
    let mut random = Random(kind as u64 + 1);
    for round in 0..MOST {
        stage.window(round, &mut random);
        if stage.windows().len() >= WINDOWS {
            break;
        }
    }
    let logs = stage.logged(front);
    let windows = stage.windows();
    let ledger = stage.ledger.into_inner().expect("no client panics");
    let mut violations = Vec::new();
    if windows.len() < WINDOWS {
        violations.push(format!("{}: {} windows can be judged", kind.name(), windows.len()));
    }
    for log in &logs {
        violations.extend(judge(kind, &ledger, &windows, &policies, log));
    }
    let count = |is: fn(&Entry) -> bool| ledger.entries().filter(|entry| is(entry)).count();
    println!(
        "RESULT prove/simulate/truth/{} logs={} windows={} requests={} denied={} aborted={} users={} paths={} bytes={} \
         violations={}",
        kind.name(),
        logs.len(),
        windows.len(),
        count(|_| true),
        count(Entry::is_denied),
        count(|entry| entry.answer.status.is_none()),
        texts.users.len(),
        texts.paths.len(),
        texts.bytes,
        violations.len()
    );
    violations
}

/// Replays each window by itself: windows begin without a count.
fn judge(kind: Kind, ledger: &Ledger, windows: &[i64], policies: &str, log: &Log) -> Vec<String> {
    let mut violations = Vec::new();
    let kinds: &[&str] =
        if kind.logs_headers() { &["ip", "path", "header.x-api-key"] } else { &["ip", "path"] };
    for (window, by) in windows.iter().flat_map(|window| kinds.iter().map(move |by| (window, by))) {
        let (from, to) = (window * WINDOW, (window + 1) * WINDOW);
        let written = |micros: i64| jiff::Timestamp::from_microsecond(micros).expect("a time").to_string();
        let (from_text, to_text) = (written(from), written(to));
        let between = ["--from", &from_text, "--to", &to_text, "--client", by, "--tz", "UTC"];
        let found = replay(policies, log, &between).map(|report| figures(&report, as_in_ledger));
        let expected = ledger.figures(from, to, by);
        if found.as_ref() != Ok(&expected) {
            violations.push(format!(
                "{} from {from_text} by {by}: {}",
                log.name,
                difference(&found, &expected)
            ));
        }
    }
    violations
}

/// The paths of one file have one number, and the ledger knows them by it.
fn as_in_ledger(name: &str) -> String {
    match name.strip_prefix("path=/p/") {
        Some(rest) => format!("path=/p/{}", rest.split('/').next().unwrap_or_default()),
        None => name.to_owned(),
    }
}

fn difference(found: &Result<Figures, String>, expected: &Figures) -> String {
    let Ok(found) = found else { return format!("{found:?}") };
    let names: std::collections::BTreeSet<_> = found.of.keys().chain(expected.of.keys()).collect();
    let differ = names.into_iter().filter(|name| found.of.get(*name) != expected.of.get(*name));
    let differ =
        differ.map(|name| format!("{name:?} {:?} not {:?}", found.of.get(name), expected.of.get(name)));
    format!(
        "requests {} not {}, denied {} not {}, refused {} not {}; {}",
        found.requests,
        expected.requests,
        found.denied,
        expected.denied,
        found.refused,
        expected.refused,
        differ.collect::<Vec<_>>().join(", ")
    )
}

/// A server with its clients.
struct Stage<'s> {
    kind: Kind,
    address: SocketAddr,
    app: &'s App,
    texts: &'s Texts,
    ledger: Mutex<Ledger>,
}

impl Stage<'_> {
    fn windows(&self) -> Vec<i64> {
        self.ledger.lock().expect("no client panics").windows(WINDOW, MARGIN)
    }

    /// Charges the next window.
    fn window(&self, round: usize, random: &mut Random) {
        let start = (micros().div_euclid(WINDOW) + 1) * WINDOW;
        // Real time: web servers log it.
        let sleep_until =
            |at: i64| thread::sleep(Duration::from_micros((at - micros()).max(0).unsigned_abs()));
        let mut requests = self.requests(random);
        requests.extend(of_other_kinds(round));
        let long = Request { wait: Duration::from_millis(3_000), ..Request::to("/slow/long") };
        let aborted =
            Request { wait: Duration::from_millis(500), is_aborted: true, ..Request::to("/slow/left") };
        thread::scope(|scope| {
            sleep_until(start + 700_000);
            self.ask(&aborted, "path=/slow/left");
            (0..3).for_each(|_| self.ask(&Request::to("/slow/left"), "path=/slow/left"));
            // In every other window, long requests take all of a limit and end in the next one. If the duration were
            // subtracted from their begin, they would lie in the one before.
            if round.is_multiple_of(2) {
                (0..3).for_each(|_| self.ask(&Request::to("/slow/long"), "path=/slow/long"));
            }
            let pause = 1_700_000 / requests.len().max(1) as i64;
            for (place, (request, name)) in (0..).zip(&requests) {
                sleep_until(start + 800_000 + place * pause);
                self.ask(request, name);
            }
            if round % 2 == 1 {
                sleep_until(start + 2_600_000);
                let both = [(); 2].map(|()| scope.spawn(|| self.ask(&long, "path=/slow/long")));
                sleep_until(start + 3_000_000);
                self.ask(&Request::to("/slow/long"), "path=/slow/long");
                for long in both {
                    long.join().expect("no client panics");
                }
            }
        });
    }

    /// Some of each kind, as many as a limit allows and more, in any order. `Request` and what it is counted by.
    fn requests(&self, random: &mut Random) -> Vec<(Request, String)> {
        let mut requests = Vec::new();
        let Texts { users, paths, .. } = self.texts;
        for _ in 0..if users.is_empty() { 0 } else { 5 } {
            let user = random.of(users);
            let name = format!("header.x-api-key={}", String::from_utf8_lossy(user));
            let request = Request { key: Some(user.clone()), ..Request::to("/named") };
            requests.extend((0..random.below(7)).map(|_| (request.clone(), name.clone())));
        }
        if self.kind.logs_bytes() {
            let request = Request { key: Some(b"\xff\xfe".to_vec()), ..Request::to("/named") };
            requests.push((request, "header.x-api-key=\u{fffd}\u{fffd}".to_owned()));
        }
        for _ in 0..4 {
            let client = random.of(&CLIENTS);
            let request = Request {
                forwarded: client.forwarded,
                over_ipv6: client.over_ipv6,
                ..Request::to("/client")
            };
            requests.extend((0..random.below(6)).map(|_| (request.clone(), client.name.to_owned())));
        }
        for _ in 0..6 {
            let path = random.of(paths);
            requests.extend((0..random.below(4)).map(|_| (Request::to(path.clone()), path_name(path))));
        }
        for place in (1..requests.len()).rev() {
            requests.swap(place, random.below(place as u64 + 1) as usize);
        }
        requests
    }

    fn ask(&self, request: &Request, name: &str) {
        let answer = request.ask(self.address, self.app);
        let (kind, _) = name.split_once('=').expect("an attribute and its value");
        let kind =
            ["ip", "path", "header.x-api-key"].into_iter().find(|known| *known == kind).expect("it is known");
        let mut names = BTreeMap::from([(kind, name.to_owned())]);
        // What the request is not counted by, but has.
        names.entry("ip").or_insert_with(|| "ip=127.0.0.1".to_owned());
        if kind != "path" {
            names.insert("path", format!("path={}", String::from_utf8_lossy(&request.target)));
        }
        self.ledger.lock().expect("no client panics").push(Entry { answer, names });
    }

    /// Waits until each log has all requests, and stops the server.
    fn logged(&self, front: Front) -> Vec<Log> {
        let count = |path: &str| {
            let name = format!("path={path}");
            let ledger = self.ledger.lock().expect("no client panics");
            ledger.entries().filter(|entry| entry.names.get("path") == Some(&name)).count()
        };
        let paths = ["/client", "/named", "/slow/left", "/slow/long"].map(|path| (path, count(path)));
        until("all requests are logged", || {
            front.logs.iter().all(|log| paths.iter().all(|(path, count)| log.count(path) >= *count))
        });
        front.stop()
    }
}

/// More requests than other kinds of quotas admit, to paths of this window alone: their counters begin with it, and
/// nothing comes back in so short a time.
fn of_other_kinds(round: usize) -> impl Iterator<Item = (Request, String)> {
    ["burst", "sliding", "log"].into_iter().flat_map(move |kind| {
        let path = format!("/{kind}/{round}");
        (0..5).map(move |_| (Request::to(path.clone()), format!("path={path}")))
    })
}

/// The number in a path, whatever its spelling.
fn path_name(path: &[u8]) -> String {
    let text = String::from_utf8_lossy(path);
    let path = text.split('?').next().unwrap_or_default();
    let number =
        path.split('/').find(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    format!("path=/p/{}", number.expect("each path has one"))
}

/// Numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }
}
