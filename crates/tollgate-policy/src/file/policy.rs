//! One policy as it is written.

use schemars::JsonSchema;

use super::quotas::{PolicyQuotas, QuotaList};
use super::read::{At, OneOrMany, Read, Text, section};
use super::table::{FileBeside, NamedQuotas};
use super::tree::Node;
use super::values::{FailureWord, FormatWords, RawCost, Share, Status};
use crate::problem::Problems;
use crate::{Conditions, Identity, Mode, OnMissingKey, Position, ProblemKind};

section! {
    /// A named rule: what it matches, its key and its quotas.
    RawPolicy("a policy", "{ name: login, key: [ip], quotas: [5/1m] }") {
        /// The name, under which it is counted and reported. Under another name counters start anew.
        #[schemars(required, regex(pattern = r"^[A-Za-z0-9_.-]{1,64}$"))]
        "name" name: Text,
        /// What it is there for.
        "description" description: Box<str>,
        /// Attributes and what has to hold of them; all lines. Left out: any request.
        "match" conditions: Conditions,
        /// The key: an attribute, several together, the first of some that a request has, or `global`.
        "key" key: Identity,
        /// The quotas, all or nothing, or `unlimited`.
        "quotas" quotas: PolicyQuotas,
        /// Quotas to try out: counted after the decision, which they never touch.
        "candidate" candidate: QuotaList,
        /// Other quotas for some; the first that holds replaces the whole list.
        "overrides" overrides: OneOrMany<RawOverride>,
        /// Whether a request that it matches is admitted uncounted, whatever other policies say.
        "exempt" exempt: bool,
        /// Whether it is there at all.
        "enabled" enabled: bool,
        /// Whether it decides: `shadow` is counted after the decision and does not touch it.
        "mode" mode: Mode,
        /// Units of a request. Left out: as many as the caller says.
        "cost" cost: RawCost,
        /// Whether a denied request uses up what it was denied.
        "count_denied" count_denied: bool,
        /// What happens to a request without a key attribute.
        "on_missing_key" on_missing_key: OnMissingKey,
        /// What is answered while the store cannot.
        "on_store_failure" on_store_failure: FailureWord,
        /// The part of each limit that one process admits by itself, such as 1/3.
        "local_share" local_share: Share,
        /// Which headers tell a client of its limits.
        "headers" headers: FormatWords,
        /// The HTTP status of a denial.
        "deny_status" deny_status: Status,
    }
}

section! {
    /// Other quotas for some of those whom a policy matches: where conditions hold, or for each value in a table.
    RawOverride("an override") {
        /// Attributes and what has to hold of them; all lines.
        "when" when: Conditions,
        /// The quotas in place of the policy's, or `unlimited`. What has the same windows goes on with the same
        /// counters.
        "quotas" quotas: QuotaList,
        /// Quotas to try out where it holds.
        "candidate" candidate: QuotaList,
        /// The attribute that is looked up in a table.
        #[schemars(length(min = 1, max = crate::Attributes::MAX_NAME))]
        "by" by: Box<str>,
        /// The table: values of the attribute, each with its quotas or `unlimited`.
        "values" values: NamedQuotas,
        /// More of the table, in a file in the same folder: on each line a value, a comma and its quotas.
        "values_from" values_from: FileBeside,
    }
}
