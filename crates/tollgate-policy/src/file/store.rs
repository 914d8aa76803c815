//! The store of counters.

use tollgate_yaml::section;

use super::values::AcrossSlots;

section! {
    /// The store of counters. Default: the memory of the process.
    RawStore("the store", "{ url: \"redis://10.0.0.1\" }") {
        /// The server, such as `redis://10.0.0.1:6379`; `${REDIS_URL}` takes it from the environment.
        "url" url: Box<str>,
        /// The prefix of all keys.
        "prefix" prefix: Box<str>,
        /// Keys as another system writes them, to share its counters: `rlaas`, `leetdezine`, `spring-starter`,
        /// `user-rate-limit`, `envoy-ratelimit`, or a template such as `limit:{user}:{window}`.
        "layout" layout: Box<str>,
        /// On a Cluster, a request that counts several keys: `refuse` makes policies that need it an error; `reserve`
        /// charges slot by slot and gives the units back if one slot denies.
        "across_slots" across_slots: AcrossSlots,
    }
}
