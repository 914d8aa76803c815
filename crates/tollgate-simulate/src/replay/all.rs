//! Figures over all policies.

use std::collections::HashMap;

use super::Options;
use super::clients::Clients;
use super::clients::examples::Examples;
use super::clients::per_client::PerClient;
use super::load::Load;
use super::policies::classes::ByClass;
use super::statuses::Statuses;
use super::verdict::Verdicts;
use crate::report::Clientless;

/// Reasons that are told apart.
const MAX_REASONS: usize = 64;

/// Figures over all policies.
#[derive(Default)]
pub(super) struct All {
    pub(super) verdicts: Verdicts,
    /// Requests that were answered 429 or 503 when the log was written.
    pub(super) refused_in_log: u64,
    /// Requests whose time is before that of a previous one; they are replayed at that time.
    pub(super) late: u64,
    /// Reasons why requests cannot be decided.
    pub(super) undecided: HashMap<String, u64>,
    pub(super) unlimited: u64,
    /// Requests that are denied because no policy matches them.
    pub(super) denied_unmatched: u64,
    pub(super) clientless: Clientless,
    pub(super) clients: Clients,
    pub(super) classes: ByClass,
    pub(super) load: Load,
    pub(super) statuses: Statuses,
    pub(super) examples: Examples,
    /// Examples of requests that the policies to compare with deny.
    pub(super) before_examples: Examples,
    /// Of each client, how often a policy on trial would deny a request that is allowed, and the first of these.
    pub(super) tried: PerClient<u32>,
    pub(super) tried_examples: Examples,
    /// Depends on every request, so that it cannot be guessed without the log.
    pub(super) fingerprint: u128,
}

impl All {
    pub(super) fn new(options: &Options) -> Self {
        let load = Load::new(options.zone.clone());
        Self { load, classes: ByClass::new(options.classes.len()), ..Self::default() }
    }

    pub(super) fn note_undecided(&mut self, reason: &str) {
        let is_told_apart = self.undecided.len() < MAX_REASONS || self.undecided.contains_key(reason);
        let reason = if is_told_apart { reason } else { "other reasons" };
        *self.undecided.entry(reason.to_owned()).or_default() += 1;
    }
}
