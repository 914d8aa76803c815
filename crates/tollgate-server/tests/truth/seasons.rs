//! Days on which clocks are turned, in zones of whole and half hours. libfaketime moves the clock of a web server, which
//! logs local time, and the clock of the store moves with it: by that, the service decides.

use std::collections::BTreeMap;
use std::env;

use serde_json::Value;
use tollgate_testkit::servers::{self, Software};

use crate::app::App;
use crate::client::{Request, micros};
use crate::front::{Behind, Kind, Log};
use crate::ledger::{Entry, Ledger};
use crate::replayed::{figures, replay};
use crate::support::folder::Folder;
use crate::support::{Server, until};

/// A zone and an instant at which its clocks are turned, with the offsets before and after it, in seconds.
struct Season {
    zone: &'static str,
    /// Since 1970.
    turn: i64,
    before: i64,
    after: i64,
}

const SEASONS: [Season; 8] = [
    // 2026-03-29 02:00 becomes 03:00, and 2026-10-25 03:00 becomes 02:00.
    Season { zone: "Europe/Berlin", turn: 1_774_746_000, before: 3_600, after: 7_200 },
    Season { zone: "Europe/Berlin", turn: 1_792_890_000, before: 7_200, after: 3_600 },
    // 2026-10-04 02:00 becomes 02:30, and 2027-04-04 02:00 becomes 01:30.
    Season { zone: "Australia/Lord_Howe", turn: 1_791_041_400, before: 37_800, after: 39_600 },
    Season { zone: "Australia/Lord_Howe", turn: 1_806_764_400, before: 39_600, after: 37_800 },
    // 2027-03-14 02:00 becomes 03:00, and 2026-11-01 02:00 becomes 01:00.
    Season { zone: "America/St_Johns", turn: 1_805_002_200, before: -12_600, after: -9_000 },
    Season { zone: "America/St_Johns", turn: 1_793_507_400, before: -9_000, after: -12_600 },
    // No clock is turned there.
    Season { zone: "Asia/Kolkata", turn: 1_798_741_800, before: 19_800, after: 19_800 },
    Season { zone: "Asia/Kathmandu", turn: 1_798_740_900, before: 20_700, after: 20_700 },
];

const DAY: i64 = 86_400;
const SECOND: i64 = 1_000_000;

/// How much of a second may have passed when a request is decided on.
const SOON: i64 = SECOND / 2;

/// Plays all with one server. Returns what is wrong.
pub(crate) fn play(kind: Kind) -> Vec<String> {
    let (mut violations, mut requests, mut denied) = (Vec::new(), 0, 0);
    for season in &SEASONS {
        // This machine may stand still at the end of a window.
        let tries = (0..5).find_map(|_| season.play(kind));
        let Some((ledger, wrong)) = tries else {
            violations.push(format!("{} in {}: this machine stands still", kind.name(), season.zone));
            continue;
        };
        requests += ledger.entries().count();
        denied += ledger.entries().filter(|entry| entry.is_denied()).count();
        violations.extend(wrong);
    }
    println!(
        "RESULT prove/simulate/seasons/{} seasons={} requests={requests} denied={denied} violations={}",
        kind.name(),
        SEASONS.len(),
        violations.len()
    );
    violations
}

impl Season {
    /// `None` if a request was so late that nobody knows its window.
    fn play(&self, kind: Kind) -> Option<(Ledger, Vec<String>)> {
        let folder = Folder::new();
        let policies = folder.write(
            "limits.yaml",
            &format!(
                "policies:\n  - {{ name: hour, match: {{ path: /hour }}, key: [path], quotas: [3/1h] }}\n  - {{ name: day, \
                 match: {{ path: /day }}, key: [path], quotas: [50/day@{}] }}\nunmatched: allow\n",
                self.zone
            ),
        );
        let store = servers::Settings::new(Software::Redis).steered_clock().start();
        let url = format!("redis://{}", store.address());
        let arguments =
            ["--config", &policies, "--store", &url, "--local-denials", "0", "--store-timeout", "10s"];
        let server = Server::start(&arguments);
        // A call of HAProxy's script fails now and then where its clock jumps.
        let asks = kind == Kind::Nginx;
        let app = App::start((!asks).then_some(server.public));
        let clock = folder.write("clock", "+0");
        let behind = Behind { service: asks.then_some(server.public), app: app.address };
        let front = kind.start(&folder, behind, &self.variables(&clock));
        let (mut ledger, mut offset) = (Ledger::default(), 0);
        for step in self.steps() {
            // In milliseconds, which is how the store's clock is moved. A tenth of a second leaves room for rounding.
            let next = (step * SECOND + SECOND / 10 - micros()) / 1_000;
            store.clock().step(next - offset);
            offset = next;
            folder.write("clock", &format!("{:+.3}", next as f64 / 1e3));
            for path in ["/hour", "/day", "/hour", "/day", "/day"] {
                // Without one such header, a replay refuses to take addresses from it.
                let request = Request { forwarded: Some("192.0.2.7"), ..Request::to(path) };
                let mut answer = request.ask(front.address, &app);
                answer.began += offset * 1_000;
                answer.decided += offset * 1_000;
                if answer.decided - step * SECOND > SOON {
                    return None;
                }
                let names = BTreeMap::from([("path", format!("path={path}"))]);
                ledger.push(Entry { answer, names });
            }
        }
        let all = ledger.entries().count();
        until("all requests are logged", || {
            front.logs.iter().all(|log| log.count("/hour") + log.count("/day") >= all)
        });
        let logs = front.stop();
        let wrong = logs.iter().filter_map(|log| self.judge(&ledger, &policies, log).err()).collect();
        Some((ledger, wrong))
    }

    fn variables(&self, clock: &str) -> Vec<(String, String)> {
        let library = env::var("TOLLGATE_FAKETIME").expect("`cargo xtask prove simulate` names libfaketime");
        let variables = [
            ("LD_PRELOAD", library.as_str()),
            ("FAKETIME_TIMESTAMP_FILE", clock),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("TZ", self.zone),
        ];
        variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    }

    /// Three days around the turn, with the seconds before and after it and after each midnight.
    fn steps(&self) -> Vec<i64> {
        let mut steps: Vec<i64> = (-54..=54).map(|step| self.turn + step * 2_400 + 420).collect();
        let midnights = (-1..=1).flat_map(|day| {
            [self.before, self.after]
                .map(|offset| ((self.turn + offset).div_euclid(DAY) + day) * DAY - offset)
        });
        steps.extend(midnights.chain([self.turn]).flat_map(|instant| [instant - 2, instant + 2]));
        steps.sort_unstable();
        steps.dedup();
        steps
    }

    /// What the clock on the wall shows, in seconds since its 1970.
    fn local(&self, instant: i64) -> i64 {
        instant + if instant < self.turn { self.before } else { self.after }
    }

    fn judge(&self, ledger: &Ledger, policies: &str, log: &Log) -> Result<(), String> {
        let place = format!("{} in {} around {}", log.name, self.zone, self.turn);
        let report = replay(policies, log, &["--tz", self.zone, "--client", "path"])?;
        let (found, expected) = (figures(&report, str::to_owned), ledger.figures(i64::MIN, i64::MAX, "path"));
        if found != expected {
            return Err(format!("{place}: {found:?} instead of {expected:?}"));
        }
        let (days, hours) = (self.days(ledger), self.hours(ledger));
        let found: Vec<_> = report["days"].as_array().expect("a list").iter().map(shares).collect();
        if found != days {
            return Err(format!("{place}: days {found:?} instead of {days:?}"));
        }
        let week =
            report["week"].as_array().expect("a list").iter().flat_map(|day| day.as_array().expect("a list"));
        for (hour, found) in week.map(shares).enumerate() {
            let expected = hours.get(&(hour as i64)).copied().unwrap_or_default();
            if found != expected {
                return Err(format!("{place}: in hour {hour} of the week {found:?} instead of {expected:?}"));
            }
        }
        let times = [&report["first"], &report["last"]].map(|time| {
            let time: jiff::Timestamp = time.as_str().expect("a time").parse().expect("with an offset");
            time.as_second()
        });
        let steps = self.steps();
        let ends = [steps.first(), steps.last()].map(|step| *step.expect("there are some"));
        if times == ends {
            Ok(())
        } else {
            Err(format!("{place}: from and to {times:?} instead of {ends:?}"))
        }
    }

    /// Requests and denials of each day.
    fn days(&self, ledger: &Ledger) -> Vec<(u64, u64)> {
        self.by(ledger, |local| local.div_euclid(DAY)).into_values().collect()
    }

    /// The same of each hour of a week that begins on a Monday.
    fn hours(&self, ledger: &Ledger) -> BTreeMap<i64, (u64, u64)> {
        // 1970 began on a Thursday.
        self.by(ledger, |local| (local + 3 * DAY).rem_euclid(7 * DAY) / 3_600)
    }

    fn by(&self, ledger: &Ledger, part: impl Fn(i64) -> i64) -> BTreeMap<i64, (u64, u64)> {
        let mut parts = BTreeMap::<i64, (u64, u64)>::new();
        for entry in ledger.entries() {
            let local = self.local(entry.answer.decided.div_euclid(SECOND));
            let (requests, denied) = parts.entry(part(local)).or_default();
            *requests += 1;
            *denied += u64::from(entry.is_denied());
        }
        parts
    }
}

fn shares(share: &Value) -> (u64, u64) {
    let number = |name: &str| share[name].as_u64().expect("a number");
    (number("requests"), number("denied"))
}
