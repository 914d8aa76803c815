//! Clients that ask both services, and write down what they were answered.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};

use crate::attributes::Attributes;
use crate::moment::Moment;
use crate::rfc3339;
use crate::service::Listener;
use crate::support::Reply;
use crate::versions::{Process, Version};
use crate::world::World;

/// What a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    Check,
    Peek,
    Reserve,
}

/// One request, and what came of it.
#[derive(Debug)]
pub(crate) struct Observation {
    pub(crate) act: Act,
    pub(crate) attributes: Attributes,
    pub(crate) cost: u64,
    pub(crate) by: Process,
    pub(crate) sent: Moment,
    pub(crate) received: Moment,
    /// `None` if no decision came, so it is unknown what was charged.
    pub(crate) answer: Option<Answer>,
}

/// A decision.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// `None` if the answer names none.
    pub(crate) version: Option<Version>,
    pub(crate) is_allowed: bool,
    pub(crate) is_local: bool,
    pub(crate) reason: Option<String>,
    pub(crate) ground: Option<String>,
    pub(crate) policy: Option<String>,
    pub(crate) has_wait: bool,
    pub(crate) by_override: Option<Option<i64>>,
    /// The limit, and what is used then, of each quota: by its policy and its series.
    pub(crate) quotas: BTreeMap<(String, String), AnsweredQuota>,
    /// The store's times of the step: on a Cluster, one of each slot.
    pub(crate) steps: BTreeSet<i64>,
    pub(crate) body: String,
}

/// The state of a quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnsweredQuota {
    pub(crate) limit: u64,
    pub(crate) used: u64,
    pub(crate) by_override: Option<Option<i64>>,
}

/// Users of a client at a time, and how often each is asked for.
const USERS: usize = 4;
const ASKS: u32 = 40;

/// The names of a client's users have this in them, to be searched for where no key may be.
pub(crate) const CANARY: &str = "canary";

/// Asks until the round is over.
pub(crate) fn run(world: &World, number: usize, mut rng: Rng) -> Vec<Observation> {
    let mut clients = [0, 1].map(|service| world.services.client(service, Listener::Checks));
    let (mut observed, mut users) = (Vec::new(), Vec::<(String, u32)>::new());
    let mut generation = world.generation();
    while !world.is_over() {
        if generation != world.generation() {
            generation = world.generation();
            users.clear();
        }
        while users.len() < USERS {
            users.push((format!("c{number}-{CANARY}{:08x}", rng.u32(..)), 0));
            world.set_users(number, users.iter().map(|(name, _)| name.clone()).collect());
        }
        let place = rng.usize(0..USERS);
        let attributes = Attributes::draw(&users[place].0, &mut rng);
        let (act, path) = match rng.u8(0..10) {
            0 => (Act::Peek, "/v1/peek"),
            1 => (Act::Reserve, "/v1/reserve"),
            _ => (Act::Check, "/v1/check"),
        };
        let cost = rng.u64(1..=3);
        let body = json!({ "attributes": attributes.json(), "cost": cost });
        let sent = Moment::now();
        let Ok((by, reply)) = clients[rng.usize(0..2)].ask("POST", path, &[], Some(&body)) else {
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        let received = Moment::now();
        let answer = reply.and_then(|reply| Answer::read(&reply));
        // A client goes on with other users after an unknown outcome: nobody knows what these have used.
        users[place].1 += if answer.is_some() { 1 } else { ASKS };
        users.retain(|(_, asks)| *asks < ASKS);
        observed.push(Observation { act, attributes, cost, by, sent, received, answer });
        world.pace();
    }
    observed
}

impl Answer {
    /// Returns the decision; `None` if it is none.
    fn read(reply: &Reply) -> Option<Self> {
        let body: Value = serde_json::from_slice(&reply.body).ok()?;
        let is_allowed = body["allowed"].as_bool()?;
        let text = |name: &str| body[name].as_str().map(str::to_owned);
        let own = [body.clone()];
        let listed = match body["quotas"].as_array() {
            Some(quotas) => quotas.as_slice(),
            None if body["quota"].is_null() => &[],
            None => &own,
        };
        let quota = |quota: &Value| {
            let (_, series) = quota["quota"].as_str()?.split_once('/')?;
            let key = (quota["policy"].as_str()?.to_owned(), series.to_owned());
            let (limit, used) = (quota["limit"].as_u64()?, quota["used"].as_u64()?);
            Some((key, AnsweredQuota { limit, used, by_override: by_override(quota) }))
        };
        let step = |quota: &Value| {
            let end = quota["window"]["end"].as_i64()?;
            Some(end - quota["reset_after_ms"].as_i64()?)
        };
        Some(Self {
            status: reply.status,
            version: text("overrides_version").map(|text| Version::read(&text).expect("a version")),
            is_allowed,
            is_local: body["source"] == "local",
            reason: text("reason"),
            ground: text("ground"),
            policy: text("policy"),
            has_wait: reply.header("retry-after").is_some() || !body["retry_after_ms"].is_null(),
            by_override: by_override(&body),
            quotas: listed.iter().map(quota).collect::<Option<_>>()?,
            steps: listed.iter().filter_map(step).collect(),
            body: body.to_string(),
        })
    }
}

/// Whether an override gave the limit, and when it ends.
fn by_override(body: &Value) -> Option<Option<i64>> {
    let applied = body.get("override")?;
    Some(applied.get("until").map(|until| until.as_str().and_then(rfc3339::read).expect("a time in UTC")))
}
