//! Where counters are kept.

use schemars::JsonSchema;

use super::read::{At, Read, section};
use super::tree::Node;
use super::values::AcrossSlots;
use crate::problem::Problems;
use crate::{Position, ProblemKind};

section! {
    /// Where counters are kept. Left out: in the memory of the process.
    RawStore("the store", "{ url: \"redis://10.0.0.1\" }") {
        /// The server, such as `redis://10.0.0.1:6379`; `${REDIS_URL}` takes it from the environment.
        "url" url: Box<str>,
        /// What the names of all keys begin with.
        "prefix" prefix: Box<str>,
        /// Keys as another system writes them, which counts together with this one: `rlaas`, `leetdezine`,
        /// `spring-starter`, `user-rate-limit`, or a template such as `limit:{user}:{window}`.
        "layout" layout: Box<str>,
        /// On a Cluster, a request that counts several keys: `refuse` makes policies that need it an error, `reserve` takes its
        /// units slot by slot and gives them back if one denies.
        "across_slots" across_slots: AcrossSlots,
    }
}
