//! Our metrics under the names of other systems, so that their dashboards keep working. Each system is a file.

mod envoy_ratelimit;
mod spring_starter;

pub(super) use self::envoy_ratelimit::envoy_ratelimit;
pub(super) use self::spring_starter::spring_starter;
