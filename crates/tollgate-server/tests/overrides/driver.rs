//! Drivers, which change overrides through either service and write down what they were answered.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::books::{DoubtfulChange, MadeChange};
use crate::change::{DrawnEnd, Limits, OverrideSaid, Target};
use crate::condition::{Condition, KnownOverride};
use crate::found::Found;
use crate::moment::Moment;
use crate::rfc3339;
use crate::service::{Listener, ServiceClient};
use crate::support::Reply;
use crate::versions::{Era, Process, Version, is_lost};
use crate::world::World;

/// A driver. It is the only one that changes its targets.
pub(crate) struct Driver<'w> {
    world: &'w World,
    number: usize,
    rng: Rng,
    clients: [ServiceClient<'w>; 2],
    /// What the store has, as far as this driver knows.
    known: HashMap<Target, KnownOverride>,
    era: usize,
    /// The last number that it was told.
    last: u64,
    diary: Diary,
}

/// What a driver wrote down.
#[derive(Debug, Default)]
pub(crate) struct Diary {
    pub(crate) made: Vec<MadeChange>,
    pub(crate) doubtful: Vec<DoubtfulChange>,
    pub(crate) found: Found,
}

/// An answer to a change.
struct ChangeReply {
    by: Process,
    reply: Reply,
    sent: Moment,
    received: Moment,
}

/// Violations after which a driver gives up: nothing may be made any more.
const TOO_MANY: usize = 20;

/// Drivers of a round.
pub(crate) const DRIVERS: usize = 2;

/// How long a driver waits after a change without an answer. The next one would have none either.
const AFTER_DOUBT: Duration = Duration::from_millis(300);

/// For how many milliseconds changes go to one service alone.
const STRETCH: i64 = 2_500;

/// How long a change without an answer may be in flight: longer than a store is stopped.
const IN_FLIGHT: Duration = Duration::from_secs(6);

impl<'w> Driver<'w> {
    pub(crate) fn new(world: &'w World, number: usize, rng: Rng) -> Self {
        Self {
            world,
            number,
            rng,
            clients: [0, 1].map(|service| world.services.client(service, Listener::Admin)),
            known: HashMap::new(),
            era: 0,
            last: 0,
            diary: Diary::default(),
        }
    }

    /// Changes overrides as long as there is something to do.
    pub(crate) fn run(mut self) -> Diary {
        while self.world.wants_changes() && self.diary.found.violations.len() < TOO_MANY {
            let world = self.world;
            // No failover begins meanwhile.
            let eras = world.eras();
            if self.era + 1 < eras.len() {
                self.era = eras.len() - 1;
                self.forget(&eras);
            }
            if self.last >= world.halt() {
                drop(eras);
                world.pace();
                continue;
            }
            let target = self.draw_target();
            self.change(&target);
            drop(eras);
            world.pace();
        }
        self.diary
    }

    /// After a failover, only older changes are still there.
    fn forget(&mut self, eras: &[Era]) {
        self.last = eras[self.era].kept;
        self.known.clear();
        let is_kept = |change: &&MadeChange| !is_lost(change.era, change.version.number, eras);
        for change in self.diary.made.iter().filter(is_kept) {
            match &change.said {
                Some(said) => {
                    let there = KnownOverride::There { version: change.version, until: said.until };
                    self.known.insert(change.target.clone(), there);
                }
                None => _ = self.known.remove(&change.target),
            }
        }
        for doubt in &self.diary.doubtful {
            self.known.insert(doubt.target.clone(), KnownOverride::Unsure { since: Moment::now() });
        }
    }

    /// Draws one of its own targets. Those that it has set are likely to be drawn again.
    fn draw_target(&mut self) -> Target {
        // As long as a change of unknown outcome matters, answers cannot be judged.
        let is_in_flight = |known: &KnownOverride| matches!(known, KnownOverride::Unsure { since } if Moment::now().since(*since) < IN_FLIGHT);
        let is_due =
            |known: &KnownOverride| matches!(known, KnownOverride::Unsure { .. }) && !is_in_flight(known);
        if let Some((target, _)) = self.known.iter().find(|(_, known)| is_due(known)) {
            return target.clone();
        }
        let users = self.world.users();
        loop {
            let old = self.rng.u8(0..4) == 0 && !self.known.is_empty();
            let target = match self.rng.choice(self.known.keys()) {
                Some(target) if old => target.clone(),
                _ => Target::draw(&users, &mut self.rng),
            };
            let own = target.json().to_string().bytes().map(usize::from).sum::<usize>() % DRIVERS;
            if own == self.number && !self.known.get(&target).is_some_and(is_in_flight) {
                return target;
            }
        }
    }

    fn draw_condition(&mut self, known: Option<KnownOverride>) -> Condition {
        let other = Version { epoch: self.rng.u64(..), number: self.last };
        match (self.rng.u8(0..8), known) {
            (0, _) => Condition::Absent,
            (1, _) => Condition::Seen(other),
            (2, Some(KnownOverride::There { version, .. })) => {
                Condition::Seen(Version { number: version.number.wrapping_sub(1), ..version })
            }
            (3..6, Some(KnownOverride::There { version, .. })) => Condition::Seen(version),
            _ => Condition::Always,
        }
    }

    fn change(&mut self, target: &Target) {
        let known = self.known.get(target).copied();
        let condition = self.draw_condition(known);
        let is_delete = condition != Condition::Absent && self.rng.u8(0..4) == 0;
        let mut body = json!({ "policy": target.policy(), "attributes": target.json() });
        let (method, path) =
            if is_delete { ("POST", "/v1/overrides/delete") } else { ("PUT", "/v1/overrides") };
        let mut drawn = None;
        if !is_delete {
            let (limits, end) = (Limits::draw(&mut self.rng), DrawnEnd::draw(&mut self.rng));
            body["quotas"] = limits.json();
            body["note"] = json!("drawn");
            end.write_to(&mut body);
            drawn = Some((limits, end));
        }
        let after = self.last;
        let Some(answer) = self.ask(method, path, condition, &body) else { return };
        let status = answer.as_ref().map_or(503, |answer| answer.reply.status);
        match answer {
            Some(answer) if status == 200 => self.made(target, drawn, condition, known, &answer),
            Some(answer) if matches!(status, 400 | 404 | 412) => {
                let said = String::from_utf8_lossy(&answer.reply.body).into_owned();
                // Its end came before the store took it.
                let is_over = status == 400 && said.contains("has passed") && !is_delete;
                let is_right = is_over || status != 400 && condition.may_fail(known, is_delete);
                self.diary.found.expect(is_right, || {
                    format!("{condition:?} of {target:?}, which is {known:?}: {status} {said}")
                });
            }
            _ if status >= 500 => {
                self.diary.found.figures.doubtful += 1;
                let (era, target) = (self.era, target.clone());
                self.known.insert(target.clone(), KnownOverride::Unsure { since: Moment::now() });
                self.diary.doubtful.push(DoubtfulChange { era, target, after });
                thread::sleep(AFTER_DOUBT);
            }
            Some(answer) => {
                let said = String::from_utf8_lossy(&answer.reply.body).into_owned();
                self.diary.found.violations.push(format!("{method} {body}: {status} {said}"));
            }
            None => {}
        }
    }

    /// Notes a change that was made.
    fn made(
        &mut self,
        target: &Target,
        drawn: Option<(Limits, DrawnEnd)>,
        condition: Condition,
        known: Option<KnownOverride>,
        answer: &ChangeReply,
    ) {
        let body = answer.reply.json();
        let found = &mut self.diary.found;
        found.expect(condition.may_hold(known), || format!("{condition:?} of {known:?} holds: {body}"));
        let Some(version) = body["overrides_version"].as_str().and_then(Version::read) else {
            return found.violations.push(format!("a change without a version: {body}"));
        };
        found.expect(version.number > self.last, || format!("after {}, a change is {body}", self.last));
        self.last = version.number;
        let until = body["until"].as_str().and_then(rfc3339::read);
        match &drawn {
            Some((limits, end)) => {
                found
                    .expect(end.may_be(until, answer.sent, answer.received), || format!("{end:?} is {body}"));
                let said = (&body["quotas"], &body["version"], answer.reply.header("etag"));
                let tag = version.tag();
                let expected = (&limits.json(), &json!(tag.trim_matches('"')), Some(tag.as_str()));
                found.expect(said == expected, || format!("{said:?}, and not {expected:?}"));
                self.known.insert(target.clone(), KnownOverride::There { version, until });
            }
            None => _ = self.known.remove(target),
        }
        found.figures.changes += 1;
        self.world.count_change();
        self.diary.made.push(MadeChange {
            era: self.era,
            version,
            target: target.clone(),
            said: drawn.map(|(limits, _)| OverrideSaid { limits, until }),
            by: answer.by,
            answered: answer.received,
        });
    }

    /// Draws a service. By turns, one of them gets no changes for a while, and has to learn of all by itself.
    fn draw_service(&mut self, now: Moment) -> usize {
        match now.millis() / STRETCH % 3 {
            0 => 0,
            1 => 1,
            _ => self.rng.usize(0..2),
        }
    }

    /// Asks one of the services. Returns nothing if none was asked, and no answer if the connection ended.
    fn ask(
        &mut self,
        method: &str,
        path: &str,
        condition: Condition,
        body: &Value,
    ) -> Option<Option<ChangeReply>> {
        let headers = match condition {
            Condition::Always => vec![],
            Condition::Seen(version) => vec![format!("If-Match: {}", version.tag())],
            Condition::Absent => vec!["If-None-Match: *".to_owned()],
        };
        let sent = Moment::now();
        let service = self.draw_service(sent);
        let (by, reply) = self.clients[service].ask(method, path, &headers, Some(body)).ok()?;
        let received = Moment::now();
        Some(reply.map(|reply| ChangeReply { by, reply, sent, received }))
    }
}
