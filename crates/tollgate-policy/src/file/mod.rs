//! The contents of a file, as written: sections whose lines may all be missing.
//!
//! Every value is checked by itself here. Conflicts between values, and the meaning of missing lines, are in `resolve`.

mod conditions;
mod key;
mod listed;
mod named_quotas;
mod policy_section;
mod quotas;
mod store;
mod values;

use tollgate::QuotaErrorKind;
use tollgate_yaml::{At, section};

pub(crate) use self::listed::ClientList;
pub(crate) use self::named_quotas::NamedQuotas;
pub(crate) use self::policy_section::{RawOverride, RawPolicy};
pub(crate) use self::quotas::{PolicyQuotas, QuotaList, RawTier};
pub(crate) use self::store::RawStore;
pub(crate) use self::values::{AcrossSlots, FailureWord, RawCost, Share};
use self::values::{FormatWords, Status};
use crate::{Mode, OnMissingKey, UnmatchedRequests};

section! {
    /// Limits for requests and their clients.
    RawFile("the file") {
        /// The store of counters.
        "store" store: RawStore,
        /// Limits the modes of all policies: with `shadow`, none decides, and with `off`, none counts either.
        "mode" mode: Mode,
        /// Defaults for policies that do not set them.
        "defaults" defaults: RawDefaults,
        /// Quotas by the names of tiers, for `quotas: { tier: plan, default: free }`.
        "tiers" tiers: NamedQuotas,
        /// Whether requests that no policy matches are admitted, or denied with status 403.
        "unmatched" unmatched: UnmatchedRequests,
        /// Clients that are admitted without a count, before all policies: attributes with texts, or with networks if
        /// the attribute is `ip`. A name that ends in `_from` names a file of them in the same folder, one on each
        /// line.
        "allow" allow: ClientList,
        /// Clients that are denied with status 403, unless `allow` or an exempt policy admits them. Written as `allow`
        /// is.
        "deny" deny: ClientList,
        /// The policies. All matching policies apply, and their quotas are charged all or nothing.
        "policies" policies: Vec<At<RawPolicy>>,
    }
}

section! {
    /// Defaults for policies that do not set them.
    RawDefaults("defaults") {
        /// What happens while the store cannot answer: `open` admits, `closed` refuses, `local` counts in the process
        /// against `local_share`.
        "on_store_failure" on_store_failure: FailureWord,
        /// The share of each limit that one process admits by itself, such as 1/3.
        "local_share" local_share: Share,
        /// The format of the limit headers, or a list of several.
        "headers" headers: FormatWords,
        /// The HTTP status of a denial.
        "deny_status" deny_status: Status,
        /// Whether denied requests are charged as well.
        "count_denied" count_denied: bool,
        /// The handling of requests without a key attribute.
        "on_missing_key" on_missing_key: OnMissingKey,
    }
}

/// Returns advice about an unknown word: the name of another algorithm, or a key of policies among the defaults.
pub(crate) fn advice(written: &str, known: &'static [&'static str]) -> Option<Box<str>> {
    let algorithm = QuotaErrorKind::of_algorithm(written).map(|kind| kind.to_string().into());
    let is_for_policies = || known == RawDefaults::KEYS && RawPolicy::KEYS.contains(&written);
    algorithm.or_else(|| is_for_policies().then(|| "set it on each policy".into()))
}
