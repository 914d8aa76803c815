//! Clients that ask both services, and write down what they were answered.

use std::thread;
use std::time::Duration;

use fastrand::Rng;
use serde_json::json;

use crate::answer::read_settled;
use crate::attributes::{Attributes, Kind};
use crate::moment::Moment;
use crate::observation::{Act, Observation, Observed, Outcome, Settlement};
use crate::service::{Listener, ServiceClient};
use crate::world::World;

/// Users of a client at a time, and how often each is asked for.
const USERS: usize = 4;
const ASKS: u32 = 40;

/// How long a hold lives: longer than a client goes on with a user, even if a store stands still meanwhile.
const HELD: &str = "30m";

/// The names of a client's users have this in them, to be searched for where no key may be.
pub(crate) const CANARY: &str = "canary";

/// Somebody whom a client asks for. It is the only client that does.
struct User {
    name: String,
    asks: u32,
    holds: Vec<OpenHold>,
}

/// A hold that is to be settled.
struct OpenHold {
    reserved: usize,
    hold: String,
    cost: u64,
}

/// A client as it runs.
struct Client<'w> {
    services: [ServiceClient<'w>; 2],
    rng: Rng,
    users: Vec<User>,
    observed: Vec<Observed>,
}

/// Asks until the round is over.
pub(crate) fn run(world: &World, number: usize, rng: Rng) -> Vec<Observed> {
    let services = [0, 1].map(|service| world.services.client(service, Listener::Checks));
    let mut client = Client { services, rng, users: Vec::new(), observed: Vec::new() };
    let mut generation = world.generation();
    while !world.is_over() {
        if generation != world.generation() {
            generation = world.generation();
            client.users.clear();
        }
        while client.users.len() < USERS {
            let name = format!("c{number}-{CANARY}{:08x}", client.rng.u32(..));
            client.users.push(User { name, asks: 0, holds: Vec::new() });
            world.set_users(number, client.users.iter().map(|user| user.name.clone()).collect());
        }
        if client.ask().is_none() {
            thread::sleep(Duration::from_millis(1));
            continue;
        }
        world.pace();
    }
    client.observed
}

impl Client<'_> {
    /// Asks for one of the users. Returns nothing if the service that was drawn does not run.
    fn ask(&mut self) -> Option<()> {
        let place = self.rng.usize(0..USERS);
        let is_known = if !self.users[place].holds.is_empty() && self.rng.u8(0..3) == 0 {
            self.settle(place)?
        } else {
            self.decide(place)?
        };
        // A client goes on with other users after an unknown outcome: nobody knows what these have used.
        self.users[place].asks += if is_known { 1 } else { ASKS };
        self.users.retain(|user| user.asks < ASKS);
        Some(())
    }

    /// Asks for a decision. Returns whether one came.
    fn decide(&mut self, place: usize) -> Option<bool> {
        let user = &mut self.users[place];
        let attributes = Attributes::draw(&user.name, &mut self.rng);
        // A check cannot meet a limit in flight.
        let reservations = if attributes.kind == Some(Kind::Stream) { 8 } else { 2 };
        let (act, path) = match self.rng.u8(0..10) {
            0 => (Act::Peek, "/v1/peek"),
            drawn if drawn <= reservations => (Act::Reserve, "/v1/reserve"),
            _ => (Act::Check, "/v1/check"),
        };
        let cost = self.rng.u64(1..=3);
        let mut body = json!({ "attributes": attributes.json(), "cost": cost });
        if act == Act::Reserve {
            body["expires_after"] = json!(HELD);
        }
        let sent = Moment::now();
        let (by, reply) = self.services[self.rng.usize(0..2)].ask("POST", path, &[], Some(&body)).ok()?;
        let received = Moment::now();
        let outcome = reply.map_or(Outcome::Unknown, |reply| Outcome::read(&reply));
        let is_known = !matches!(outcome, Outcome::Unknown);
        if let Outcome::Decided(answer) = &outcome
            && let Some(hold) = &answer.hold
        {
            user.holds.push(OpenHold { reserved: self.observed.len(), hold: hold.clone(), cost });
        }
        let observation = Observation { act, attributes, cost, by, sent, received, outcome };
        self.observed.push(Observed::Decision(Box::new(observation)));
        Some(is_known)
    }

    /// Settles a hold through either service. Returns whether an answer came.
    fn settle(&mut self, place: usize) -> Option<bool> {
        let user = &mut self.users[place];
        let drawn = self.rng.usize(0..user.holds.len());
        let actual = self.rng.u64(0..=user.holds[drawn].cost + 1);
        let body = json!({ "hold": user.holds[drawn].hold, "cost": actual });
        let sent = Moment::now();
        let (by, reply) =
            self.services[self.rng.usize(0..2)].ask("POST", "/v1/settle", &[], Some(&body)).ok()?;
        let received = Moment::now();
        let OpenHold { reserved, .. } = user.holds.swap_remove(drawn);
        let changed = reply.and_then(|reply| read_settled(&reply));
        let is_known = changed.is_some();
        let user = user.name.clone();
        self.observed.push(Observed::Settlement(Settlement {
            user,
            reserved,
            actual,
            by,
            sent,
            received,
            changed,
        }));
        Some(is_known)
    }
}
