//! Published systems whose formats are served: their paths and their answers.
//!
//! Each of these dialects is a file with one constant of type [`Dialect`]. A dialect defines the meaning of a query and
//! the form of a decision, not how it is made. Answers that such a system lacks (an invalid request, a store that
//! refuses, a denial without a quota) have the form of our own paths.

pub(super) mod leetdezine;
mod parameters;
mod rlaas;
mod spring_starter;

use http::Request;
use hyper::body::Incoming;
use tollgate_policy::{Attributes, Identity, PolicyDecision};
use tollgate_wire::headers::{HeaderFormat, PolicyHeaders};

use self::parameters::Parameters;
use super::wire::{CheckReply, SchemaOf};
use super::{Edge, Reply};
use crate::access::caller::Caller;
use crate::answer::rejection::Rejection;
use crate::args::AnswerSystem;
use crate::decide::engine::Under;

/// The requests and the answers of one system.
#[derive(Debug)]
pub(crate) struct Dialect {
    pub(crate) system: AnswerSystem,
    /// Its path, for GET, on the listener for checks.
    pub(super) path: &'static str,
    /// A request that counts, for people to try.
    pub(crate) example: &'static str,
    /// The attributes that a query can contain.
    tells: &'static [&'static str],
    /// Whether it is a Spring application, which operators watch at `/actuator`.
    pub(super) is_spring: bool,
    /// Whether administrators set its rules at a path of its own.
    pub(super) has_rules: bool,
    /// The limit headers, unless the deciding policy has none; `None` leaves all of it to that policy, as on our own
    /// paths.
    pub(super) headers: Option<HeaderFormat>,
    /// Reads the attributes in a query.
    attributes: for<'a> fn(&Parameters<'a>) -> Result<Attributes<'a>, Rejection>,
    /// Writes a decision; `None` if the system has no words for it.
    reply: fn(&PolicyDecision) -> Option<Reply>,
    /// The `operationId` of its path, its parameters and its bodies.
    pub(super) operation: &'static str,
    pub(super) parameters: &'static [Parameter],
    pub(super) allowed: Content,
    pub(super) denied: Content,
}

/// A parameter of a query; one that is required may not be empty either.
#[derive(Debug)]
pub(super) struct Parameter {
    pub(super) name: &'static str,
    pub(super) description: &'static str,
    pub(super) is_required: bool,
}

/// The type of a body.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) media_type: &'static str,
    pub(super) schema: SchemaOf,
}

impl Parameter {
    const fn required(name: &'static str, description: &'static str) -> Self {
        Self { name, description, is_required: true }
    }

    const fn optional(name: &'static str, description: &'static str) -> Self {
        Self { name, description, is_required: false }
    }
}

impl Dialect {
    pub(crate) const ALL: [&Self; 3] = [&rlaas::DIALECT, &leetdezine::DIALECT, &spring_starter::DIALECT];

    /// Returns the dialect of this system.
    pub(crate) const fn of(system: AnswerSystem) -> &'static Self {
        match system {
            AnswerSystem::Rlaas => &rlaas::DIALECT,
            AnswerSystem::Leetdezine => &leetdezine::DIALECT,
            AnswerSystem::SpringStarter => &spring_starter::DIALECT,
        }
    }

    /// Returns the dialect with this path.
    pub(super) fn at(path: &str) -> Option<&'static Self> {
        Self::ALL.into_iter().find(|dialect| dialect.path == path)
    }

    /// Returns an attribute that the key needs and that no query can contain.
    pub(crate) fn unsent_attribute<'a>(&self, identity: &'a Identity) -> Option<&'a str> {
        match identity {
            Identity::Attribute(name) | Identity::Address(name, _) => {
                (!self.tells.contains(&&**name)).then_some(name)
            }
            Identity::All(parts) => parts.iter().find_map(|part| self.unsent_attribute(part)),
            _ => None,
        }
    }
}

impl Edge {
    /// Charges one unit, and answers in the dialect.
    pub(super) async fn check_in_dialect(
        &self,
        dialect: &Dialect,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let query = Parameters::read(request.uri().query().unwrap_or_default())?;
        let attributes = (dialect.attributes)(&query)?;
        let decision = self.engine()?.check(Under::Live, &caller.asks(attributes), 1, None).await;
        let decision = decision.map_err(|error| Rejection::check(&error, "query"))?;
        let Some(mut reply) = (dialect.reply)(&decision) else {
            return Ok(self.verdict(&decision, &CheckReply::new(&decision)));
        };
        match dialect.headers {
            Some(format) if !decision.headers().is_none() => {
                if let Some(counted) = decision.counted() {
                    PolicyHeaders::in_format(format, &decision).write(counted, reply.headers_mut());
                }
            }
            _ => self.limit_headers.write(&decision, reply.headers_mut()),
        }
        self.tell_trials(&decision, &mut reply);
        Ok(reply)
    }
}

/// Whole seconds until the quota that decided has more units, at least 1; `None` if no quota did.
fn seconds_left(decision: &PolicyDecision) -> Option<u64> {
    decision.quota().map(|deciding| tollgate::whole_seconds(deciding.state.more_after()))
}
