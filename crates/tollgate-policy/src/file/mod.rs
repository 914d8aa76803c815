//! What a file says, as it is written: sections whose lines may all be missing.
//!
//! Here every value is checked alone. What goes with what, and what a missing line means, is in `resolve`.

mod key;
mod listed;
mod policy;
mod quotas;
mod read;
mod store;
mod syntax;
mod table;
mod test;
mod tree;
mod values;
mod variables;

use schemars::JsonSchema;

pub(crate) use self::listed::{FROM, Listed};
pub(crate) use self::policy::{RawOverride, RawPolicy};
pub(crate) use self::quotas::{PolicyQuotas, QuotaList};
use self::read::section;
pub(crate) use self::read::{At, Read, Text};
pub(crate) use self::store::RawStore;
pub(crate) use self::table::{NamedQuotas, RawTier};
pub(crate) use self::tree::{LISTED, Node};
pub(crate) use self::values::{AcrossSlots, FailureWord, RawCost, Share};
use self::values::{FormatWords, Status};
pub(crate) use self::variables::Variables;
use crate::problem::Problems;
use crate::{Mode, OnMissingKey, Position, ProblemKind, Unmatched};

section! {
    /// Which limits apply to whom.
    RawFile("the file") {
        /// Where counters are kept.
        "store" store: RawStore,
        /// How much all policies matter, at most: `shadow` decides nothing, and `off` counts nothing either.
        "mode" mode: Mode,
        /// What holds for every policy that does not say otherwise.
        "defaults" defaults: RawDefaults,
        /// Quotas by the names of tiers, for `quotas: { tier: plan, default: free }`.
        "tiers" tiers: NamedQuotas,
        /// What becomes of a request that no policy matches: it is admitted, or denied with status 403.
        "unmatched" unmatched: Unmatched,
        /// Clients that are admitted without a count, before all policies: attributes with texts, or with networks if the
        /// attribute is `ip`. A name that ends in `_from` names a file of them in the same folder, one on each line.
        "allow" allow: Listed,
        /// Clients that are denied with status 403, unless `allow` or an exempt policy admits them. Written as `allow` is.
        "deny" deny: Listed,
        /// The policies. Every one that matches applies, all or nothing together.
        "policies" policies: Vec<At<RawPolicy>>,
    }
}

section! {
    /// What holds for every policy that does not say otherwise.
    RawDefaults("defaults") {
        /// What is answered while the store cannot: `open` admits, `closed` refuses, `local` counts in the
        /// process against `local_share`.
        "on_store_failure" on_store_failure: FailureWord,
        /// The part of each limit that one process admits by itself, such as 1/3.
        "local_share" local_share: Share,
        /// Which headers tell a client of its limits.
        "headers" headers: FormatWords,
        /// The HTTP status of a denial.
        "deny_status" deny_status: Status,
        /// Whether a denied request uses up what it was denied.
        "count_denied" count_denied: bool,
        /// What happens to a request without a key attribute.
        "on_missing_key" on_missing_key: OnMissingKey,
    }
}
