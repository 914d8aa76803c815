//! One policy as written.

use tollgate_yaml::{OneOrMany, WrittenText, section};

use super::named_quotas::{FileBeside, NamedQuotas};
use super::quotas::{PolicyQuotas, QuotaList};
use super::values::{FailureWord, FormatWords, RawCost, Share, Status};
use crate::{Conditions, Identity, Mode, OnMissingKey, Overrun};

section! {
    /// A named rule: what it matches, its key and its quotas.
    RawPolicy("a policy", "{ name: login, key: [ip], quotas: [5/1m] }") {
        /// The name in counters, metrics and decisions. Renaming a policy starts new counters.
        #[schemars(required, regex(pattern = r"^[A-Za-z0-9_.-]{1,64}$"))]
        "name" name: WrittenText,
        /// The purpose of the policy.
        "description" description: Box<str>,
        /// Tests of attributes, which must all hold. Default: all requests.
        "match" conditions: Conditions,
        /// The key: an attribute, several together, the first that a request has, or `global`.
        "key" key: Identity,
        /// The quotas, such as 100/1m, 10/1s~burst:20 or 100/1m~log, and at most one limit in flight, such as 20~in_flight,
        /// all or nothing; or `unlimited`.
        "quotas" quotas: PolicyQuotas,
        /// Quotas on trial: they are counted after the decision and never change it.
        "candidate" candidate: QuotaList,
        /// Other quotas for some requests; the first that holds replaces the whole list.
        "overrides" overrides: OneOrMany<RawOverride>,
        /// Whether matching requests are admitted without counting, whatever the other policies.
        "exempt" exempt: bool,
        /// Whether the policy is on.
        "enabled" enabled: bool,
        /// Whether the policy decides: `shadow` is counted after the decision and never changes it.
        "mode" mode: Mode,
        /// Units of a request. Default: the units that the caller requests.
        "cost" cost: RawCost,
        /// Whether denied requests are charged as well.
        "count_denied" count_denied: bool,
        /// Whether any cost is admitted while a unit is left, and every request is charged, whatever the verdict: for
        /// costs that are known only afterwards. `count_denied` cannot be given with it.
        "overdraft" overdraft: bool,
        /// What settling a hold charges beyond the reserved cost: all of it, or, with `cap`, what the limit has room for.
        "overrun" overrun: Overrun,
        /// The handling of requests without a key attribute.
        "on_missing_key" on_missing_key: OnMissingKey,
        /// What happens while the store cannot answer.
        "on_store_failure" on_store_failure: FailureWord,
        /// The share of each limit that one process admits by itself, such as 1/3.
        "local_share" local_share: Share,
        /// The format of the limit headers, or a list of several.
        "headers" headers: FormatWords,
        /// The HTTP status of a denial.
        "deny_status" deny_status: Status,
    }
}

section! {
    /// Other quotas for some requests of a policy: by conditions, or by a table of values.
    RawOverride("an override") {
        /// Tests of attributes, which must all hold.
        "when" when: Conditions,
        /// The quotas that replace the policy's, or `unlimited`. Quotas that count in the same way keep their counters, whatever their limits.
        "quotas" quotas: QuotaList,
        /// Quotas on trial while it holds.
        "candidate" candidate: QuotaList,
        /// The attribute for lookups in the table.
        #[schemars(length(min = 1, max = crate::Attributes::MAX_NAME))]
        "by" by: Box<str>,
        /// The table: values of the attribute, each with its quotas or `unlimited`.
        "values" values: NamedQuotas,
        /// More of the table, in a file in the same folder: each line has a value, a comma and its quotas.
        "values_from" values_from: FileBeside,
    }
}
