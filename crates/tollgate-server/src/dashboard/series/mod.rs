//! What each policy decided, second by second for ten minutes and in periods of five minutes for a day.
//!
//! Nothing is counted for it: once a second, the recorder reads the tallies that metrics have anyway, and keeps the
//! differences. Everything is lost when the process ends, as metrics of a longer time belong to Prometheus.

mod counts;
mod event;
mod point_ring;
mod policy_series;
mod recorded_time;
mod recorder;

pub(crate) use self::counts::{PolicyCounts, SeriesPoint, TrialVerdicts};
pub(crate) use self::event::Event;
pub(crate) use self::policy_series::PolicySeries;
pub(crate) use self::recorded_time::{MINUTE, Tier};
pub(crate) use self::recorder::{ProcessStates, Recorder};

#[cfg(test)]
mod tests;
