//! Decisions, independent of wire formats: the engines that ask the limiters, and the policies and domains that they
//! decide by.

pub(crate) mod counting;
pub(crate) mod decider;
pub(crate) mod domain_files;
pub(crate) mod engine;
pub(crate) mod envoy;
pub(crate) mod expired_hold_log;
pub(crate) mod hold_seal;
pub(crate) mod live_domains;
pub(crate) mod live_policies;
pub(crate) mod policy_files;
pub(crate) mod units_left_log;
