//! Published systems whose callers are answered in their own words, on the paths that they know, besides ours.
//!
//! Each system is a file with one constant of type [`System`]. It says what a query means to us and how a decision is
//! told, and nothing of how it is made. What such a system has no words for (a request that cannot be, a store that
//! refuses, a denial by no quota) is told as on our own paths.

mod leetdezine;
mod parameters;
mod rlaas;
mod spring_starter;

use http::Uri;
use serde_json::Value;
use tollgate_policy::{Attributes, Identity, PolicyDecision};
use tollgate_tower::headers::HeaderFormat;

use self::parameters::Parameters;
use super::problem::Problem;
use super::{Edge, Reply, limit_headers};
use crate::args;
use crate::store::ServedStore;

/// How one system is asked, and how it answers.
#[derive(Debug)]
pub(crate) struct System {
    /// Where it is asked, by GET, on the listener for checks.
    pub(super) path: &'static str,
    /// A request that counts, for people to try.
    pub(crate) example: &'static str,
    /// The attributes that a query can tell.
    tells: &'static [&'static str],
    /// The headers that tell of limits, unless the policy that decided wants none; `None` leaves all of it to that
    /// policy, as on our own paths.
    pub(super) headers: Option<HeaderFormat>,
    /// What a query tells of its caller.
    attributes: for<'a> fn(&Parameters<'a>) -> Result<Attributes<'a>, Problem>,
    /// What a decision is told as; `None` if the system has no words for it.
    reply: fn(&PolicyDecision) -> Option<Reply>,
    pub(super) description: fn() -> Description,
}

/// What `/openapi.json` says of a system.
pub(super) struct Description {
    pub(super) operation: &'static str,
    pub(super) parameters: Value,
    /// The content of replies, by media type.
    pub(super) allowed: Value,
    pub(super) denied: Value,
}

impl System {
    pub(crate) fn of(answers: args::Answers) -> &'static Self {
        match answers {
            args::Answers::Rlaas => &rlaas::SYSTEM,
            args::Answers::Leetdezine => &leetdezine::SYSTEM,
            args::Answers::SpringStarter => &spring_starter::SYSTEM,
        }
    }

    /// An attribute without which it is not known who is counted, and that no query tells.
    pub(crate) fn untold<'a>(&self, identity: &'a Identity) -> Option<&'a str> {
        match identity {
            Identity::Attribute(name) | Identity::Address(name, _) => {
                (!self.tells.contains(&&**name)).then_some(name)
            }
            Identity::All(parts) => parts.iter().find_map(|part| self.untold(part)),
            _ => None,
        }
    }
}

impl<S: ServedStore> Edge<S> {
    /// Takes one unit, and answers as the system does.
    pub(super) async fn answer_as(&self, system: &System, uri: &Uri) -> Result<Reply, Problem> {
        let query = Parameters::read(uri.query().unwrap_or_default())?;
        let attributes = (system.attributes)(&query)?;
        let decision = self.engine.check(&attributes, 1).await;
        let decision = decision.map_err(|error| Problem::check(&error, "query"))?;
        let Some(mut reply) = (system.reply)(&decision) else { return Ok(self.verdict(&decision)) };
        match system.headers {
            Some(format) if decision.headers() != tollgate_policy::HeaderFormat::None => {
                limit_headers::write_as(format, &decision, reply.headers_mut());
            }
            _ => self.limit_headers.write(&decision, reply.headers_mut()),
        }
        Ok(reply)
    }
}

/// Whole seconds until the window of the quota that decided ends, at least 1; `None` if no quota did.
fn seconds_left(decision: &PolicyDecision) -> Option<u64> {
    decision.quota().map(|deciding| tollgate::whole_seconds(deciding.state.reset_after()))
}
