//! The table of operations. To add one, add a row here and its handler.

use bytes::Bytes;
use http::{Method, Request, StatusCode};

use super::asked_client::NO_TALKER;
use super::clock::{ClockReply, ClockRequest};
use super::dashboard::PAGE_FOLDER;
use super::dialects::{Dialect, leetdezine};
use super::operation::{
    Handler, InputPlace, OF_THE_STORE, Operation, OperationRow, RequestHeader, Success, UNAVAILABLE,
    UNCOUNTABLE, later,
};
use super::policies::PoliciesBody;
use super::reloads::ReloadReply;
use super::wire::{
    BatchReply, BatchRequest, CheckRequest, CountBatchReply, CountBatchRequest, CountReply, CountRequest,
    CountsReply, DeletedOverrideReply, GotOverrideReply, HealthReply, NamedOverrideRequest,
    OverrideListReply, PeekRequest, RecordBatchReply, RecordBatchRequest, RecordRequest, RefundReply,
    RefundRequest, ReloadRequest, RenewBatchReply, RenewBatchRequest, RenewReply, RenewRequest,
    ReserveBatchReply, ReserveBatchRequest, ReserveRequest, ResetRequest, SetOverrideReply,
    SetOverrideRequest, SetRequest, SettleBatchReply, SettleBatchRequest, SettleReply, SettleRequest, of,
};
use super::{Edge, dashboard, domains, forwarded, overrides, reply};
use crate::access::listener::Listener;
use crate::access::scope::Scope;
use crate::answer::rejection::Rejection;
use crate::answer::rejection_kind::RejectionKind;
use crate::metrics::TextFormat;

/// All operations of a service.
pub(super) struct Operations {
    rows: Box<[OperationRow]>,
    /// The paths that use policies, in a service without policies.
    without_policies: Box<[&'static str]>,
    /// The paths of the live page, in a service without it.
    without_dashboard: Box<[&'static str]>,
    /// The paths at which proxies ask.
    proxy_paths: Box<[&'static str]>,
}

const NOT_READY: &[(StatusCode, &str)] = &[(
    StatusCode::SERVICE_UNAVAILABLE,
    "The service is about to stop. Or: Its store does not answer, and every policy is `closed`. Or: No limits have come \
     over xDS yet",
)];
const OF_A_CHANGE: &[(StatusCode, &str)] = &[
    UNCOUNTABLE,
    UNAVAILABLE,
    NO_TALKER,
    (
        StatusCode::CONFLICT,
        "The named policy or quota does not apply, or too little is known of the talker. Nothing was changed",
    ),
];
const OF_A_REFUND: &[(StatusCode, &str)] = &[
    UNCOUNTABLE,
    UNAVAILABLE,
    NO_TALKER,
    (
        StatusCode::CONFLICT,
        "A named quota does not apply under the live policies, or its policy may have had another key under that \
         version. Or too little is known of the talker. Nothing was given back",
    ),
];
const OF_A_RESERVATION: &[(StatusCode, &str)] = &[
    UNCOUNTABLE,
    UNAVAILABLE,
    (
        StatusCode::CONFLICT,
        "The id belongs to another hold (`reason` is `id_conflict`), or to one that was settled (`hold_ended`); nothing \
         was taken",
    ),
];
const OF_A_HOLD: &[(StatusCode, &str)] = &[
    UNCOUNTABLE,
    UNAVAILABLE,
    (
        StatusCode::CONFLICT,
        "The id belongs to another hold, or the hold was settled at another cost (`reason` is `id_conflict`); nothing was \
         changed",
    ),
];
const OF_A_COUNT: &[(StatusCode, &str)] = &[
    UNCOUNTABLE,
    (
        StatusCode::SERVICE_UNAVAILABLE,
        "The store failed, and the call says `closed` or changes counters. Or: The store is full, and the key has no \
         counter (`reason` is `store_full`)",
    ),
    (
        StatusCode::TOO_MANY_REQUESTS,
        "The caller has 64 pairs of a name and a window in use, and this is another one (`reason` is `too_many_names`); \
         nothing was counted",
    ),
];
const OF_A_RELOAD: &[(StatusCode, &str)] = &[
    (StatusCode::CONFLICT, "The limits come from flags or over xDS, so there is no file to reload"),
    (StatusCode::UNPROCESSABLE_ENTITY, "The file cannot be read or is invalid; nothing was changed"),
    (StatusCode::SERVICE_UNAVAILABLE, "The reload was cut short"),
];

const OF_A_CONDITION: &[RequestHeader] = &[
    RequestHeader {
        name: "If-Match",
        description: "The version of the override that the caller has seen, in quotation marks as in `ETag`. It is only \
                      replaced if it still has this version, so a change whose answer was lost can be repeated",
    },
    RequestHeader { name: "If-None-Match", description: "Only `*`: it is only set if there is none" },
];
const OF_A_DELETION: &[RequestHeader] = &[RequestHeader {
    name: "If-Match",
    description: "The version of the override that the caller has seen, in quotation marks as in `ETag`. It is only \
                  deleted if it still has this version",
}];
const NO_PLACE: (StatusCode, &str) = (
    StatusCode::CONFLICT,
    "The service has no place for overrides: its counters are in memory, and it runs without `--state-dir` (`reason` is \
     `no_state_dir`). Or: They are turned off with `--max-overrides 0` (`overrides_off`)",
);
const NO_PRINCIPALS: (StatusCode, &str) = (
    StatusCode::FORBIDDEN,
    "The listener asks for no principals, and only these can have the scope `overrides`: start the service with `--tokens`",
);
const NO_POLICY: (StatusCode, &str) =
    (StatusCode::CONFLICT, "There is no such policy (`no_policy`), or it counts nothing (`counts_nothing`)");
const NO_OVERRIDE: (StatusCode, &str) =
    (StatusCode::NOT_FOUND, "There is no such override (`reason` is `no_override`)");
const MISMATCH: (StatusCode, &str) = (
    StatusCode::PRECONDITION_FAILED,
    "The override is not the one that the condition names (`reason` is `precondition_failed`); `current` is the one that is \
     there. Nothing was changed",
);
const NOT_MADE: (StatusCode, &str) = (
    StatusCode::SERVICE_UNAVAILABLE,
    "The store or the disk failed: nothing was changed (`reason` is `store_unavailable`), or it is unknown whether it was \
     (`outcome_unknown`)",
);
const OF_OVERRIDES: &[(StatusCode, &str)] = &[NO_PRINCIPALS, NO_PLACE];
const OF_AN_OVERRIDE: &[(StatusCode, &str)] = &[NO_PRINCIPALS, NO_OVERRIDE, NO_PLACE, NO_POLICY];
const OF_SETTING_AN_OVERRIDE: &[(StatusCode, &str)] = &[
    NO_PRINCIPALS,
    NO_PLACE,
    NO_POLICY,
    (
        StatusCode::CONFLICT,
        "There are as many overrides as there may be (`--max-overrides`; `reason` is `too_many_overrides`)",
    ),
    MISMATCH,
    NOT_MADE,
];
const OF_SETTING_A_RULE: &[(StatusCode, &str)] = &[
    NO_PRINCIPALS,
    NO_PLACE,
    (
        StatusCode::CONFLICT,
        "No policy counts the requests of this endpoint and dimension and no others, or several do; `detail` names those \
         that come near. Or: There are as many overrides as there may be (`--max-overrides`; `reason` is \
         `too_many_overrides`)",
    ),
    MISMATCH,
    NOT_MADE,
];
const OF_DELETING_AN_OVERRIDE: &[(StatusCode, &str)] =
    &[NO_PRINCIPALS, NO_OVERRIDE, NO_PLACE, NO_POLICY, MISMATCH, NOT_MADE];

impl Operations {
    /// Returns the operations of a service whose policies decide, and those of the dialect.
    pub(super) fn of_policies(dialect: Option<&'static Dialect>) -> Self {
        let actuator = dialect.filter(|dialect| dialect.is_spring).map(|_| Self::of_spring());
        let rules = dialect.filter(|dialect| dialect.has_rules).map(|_| Self::of_rules());
        let foreign = dialect.map(Self::of_dialect).into_iter().chain(rules);
        let foreign = foreign.chain(actuator.into_iter().flatten());
        let (rows, proxy_paths) = (Self::own().into_iter().chain(foreign).collect(), Self::proxy_paths());
        Self { rows, without_policies: [].into(), without_dashboard: Self::dashboard_paths(), proxy_paths }
    }

    /// Returns the operations of a service whose domains decide: those of envoyproxy/ratelimit in place of all that use
    /// policies. Without policies, everything would be admitted.
    pub(super) fn of_domains() -> Self {
        let asks_policies = |row: &OperationRow| {
            matches!(
                row.operation.scope,
                Some(Scope::Check | Scope::Peek | Scope::Count | Scope::Change | Scope::Overrides)
            )
        };
        let (asking, others): (Vec<_>, Vec<_>) = Self::own().into_iter().partition(asks_policies);
        let rows = domains::rows();
        let is_replaced =
            |row: &OperationRow| rows.iter().any(|new| new.operation.path == row.operation.path);
        let others: Vec<_> = others.into_iter().filter(|row| !is_replaced(row)).collect();
        Self {
            rows: others.into_iter().chain(rows).collect(),
            without_policies: asking.iter().map(|row| row.operation.path).collect(),
            without_dashboard: Self::dashboard_paths(),
            proxy_paths: Self::proxy_paths(),
        }
    }

    fn dashboard_paths() -> Box<[&'static str]> {
        dashboard::rows().into_iter().map(|row| row.operation.path).collect()
    }

    /// Adds the live page.
    pub(super) fn with_dashboard(self) -> Self {
        let rows = self.rows.into_iter().chain(dashboard::rows()).collect();
        Self { rows, without_dashboard: [].into(), ..self }
    }

    fn proxy_paths() -> Box<[&'static str]> {
        let own = Self::own().into_iter().map(|row| row.operation);
        own.filter(|operation| matches!(operation.asked, InputPlace::Forwarded)).map(|it| it.path).collect()
    }

    /// The usual ones first: a request takes the first row that matches.
    fn own() -> Vec<OperationRow> {
        vec![
            Operation::post("check", "/v1/check", Scope::Check, of::<CheckRequest<'_>>())
                .summary("Charge units, if every quota has room")
                .success(Success::Decision("Admitted"))
                .rejecting(OF_THE_STORE)
                .handled_by(Handler::CheckBody),
            Operation::get("checkByQuery", "/v1/check", Some(Scope::Check))
                .asks(InputPlace::Query)
                .changes()
                .summary("Charge units, with the request in the query")
                .success(Success::Decision("Admitted"))
                .rejecting(OF_THE_STORE)
                .handled_by(Handler::CheckQuery),
            Operation::get("forwardAuth", forwarded::PATH, Some(Scope::Check))
                .asks(InputPlace::Forwarded)
                .changes()
                .summary("Charge a unit for a request that a proxy asks about")
                .success(Success::Forwarded)
                .rejecting(OF_THE_STORE)
                .handled_by(later!(forward_auth)),
            Operation::post("checkBatch", "/v1/check/batch", Scope::Check, of::<BatchRequest<'_>>())
                .summary("Check many requests, each independently")
                .success(Success::Json(of::<BatchReply<'_>>(), "An entry for each request"))
                .handled_by(later!(check_batch)),
            Operation::post("peek", "/v1/peek", Scope::Peek, of::<PeekRequest<'_>>())
                .reads()
                .summary("Answer as a check would, but charge nothing")
                .success(Success::Verdict("The verdict"))
                .rejecting(OF_THE_STORE)
                .handled_by(later!(peek)),
            Operation::post("reserve", "/v1/reserve", Scope::Check, of::<ReserveRequest<'_>>())
                .summary("Hold units in flight and an estimated cost, if there is room for all of it")
                .success(Success::Reservation("Admitted"))
                .rejecting(OF_A_RESERVATION)
                .handled_by(later!(reserve)),
            Operation::post(
                "reserveBatch",
                "/v1/reserve/batch",
                Scope::Check,
                of::<ReserveBatchRequest<'_>>(),
            )
            .summary("Make many reservations, each independently")
            .success(Success::Json(of::<ReserveBatchReply<'_>>(), "An entry for each request"))
            .handled_by(later!(reserve_batch)),
            Operation::post("renew", "/v1/renew", Scope::Check, of::<RenewRequest<'_>>())
                .summary("Start the length of a hold again")
                .success(Success::Json(of::<RenewReply>(), "What has become of the hold"))
                .rejecting(OF_A_HOLD)
                .handled_by(later!(renew)),
            Operation::post("renewBatch", "/v1/renew/batch", Scope::Check, of::<RenewBatchRequest<'_>>())
                .summary("Renew many holds, each independently")
                .success(Success::Json(of::<RenewBatchReply>(), "An entry for each request"))
                .handled_by(later!(renew_batch)),
            Operation::post("settle", "/v1/settle", Scope::Check, of::<SettleRequest<'_>>())
                .summary(
                    "End a hold at its actual cost; 0 gives back everything whose cost came from the caller",
                )
                .success(Success::Json(
                    of::<SettleReply<'_>>(),
                    "What has become of the hold, and what changed",
                ))
                .rejecting(OF_A_HOLD)
                .handled_by(later!(settle)),
            Operation::post("settleBatch", "/v1/settle/batch", Scope::Check, of::<SettleBatchRequest<'_>>())
                .summary("End many holds, each independently")
                .success(Success::Json(of::<SettleBatchReply<'_>>(), "An entry for each request"))
                .handled_by(later!(settle_batch)),
            Operation::post("count", "/v1/count", Scope::Count, of::<CountRequest<'_>>())
                .summary("Count under limits of the caller's own (only with `serve --caller-quotas`)")
                .success(Success::Json(of::<CountReply<'_>>(), "The state of the counters, also past the limit"))
                .rejecting(OF_A_COUNT)
                .handled_by(later!(count)),
            Operation::post("countBatch", "/v1/count/batch", Scope::Count, of::<CountBatchRequest<'_>>())
                .summary("Make many counts, each independently")
                .success(Success::Json(of::<CountBatchReply<'_>>(), "An entry for each request"))
                .handled_by(later!(count_batch)),
            Operation::post("refund", "/v1/refund", Scope::Change, of::<RefundRequest<'_>>())
                .summary("Give back units that still count")
                .success(Success::Json(of::<RefundReply<'_>>(), "The state of each quota"))
                .rejecting(OF_A_REFUND)
                .handled_by(later!(refund)),
            Operation::post("record", "/v1/record", Scope::Change, of::<RecordRequest<'_>>())
                .summary("Count units, whether or not there is room")
                .success(Success::Json(of::<CountsReply<'_>>(), "The state of each quota"))
                .rejecting(OF_THE_STORE)
                .handled_by(later!(record)),
            Operation::post("recordBatch", "/v1/record/batch", Scope::Change, of::<RecordBatchRequest<'_>>())
                .summary("Count units of many requests, whether or not there is room")
                .success(Success::Json(of::<RecordBatchReply<'_>>(), "An entry for each request"))
                .handled_by(later!(record_batch)),
            Operation::post("reset", "/v1/reset", Scope::Change, of::<ResetRequest<'_>>())
                .summary("Reset usage to zero")
                .success(Success::Json(of::<CountsReply<'_>>(), "The state of each quota"))
                .rejecting(OF_A_CHANGE)
                .handled_by(later!(reset)),
            Operation::post("set", "/v1/set", Scope::Change, of::<SetRequest<'_>>())
                .summary("Set the usage of counters")
                .success(Success::Json(of::<CountsReply<'_>>(), "The state of each quota"))
                .rejecting(OF_A_CHANGE)
                .handled_by(later!(set)),
            Operation::put("setOverride", "/v1/overrides", Scope::Overrides, of::<SetOverrideRequest<'_>>())
                .with_headers(OF_A_CONDITION)
                .summary("Replace the limits of a policy for some requests, in place of an earlier override for them")
                .success(Success::Tagged(of::<SetOverrideReply>(), "It is live in this process, and in all within a second"))
                .rejecting(OF_SETTING_AN_OVERRIDE)
                .handled_by(later!(set_override)),
            Operation::post("getOverride", "/v1/overrides/get", Scope::Overrides, of::<NamedOverrideRequest<'_>>())
                .reads()
                .summary("The override for some requests, as this process knows it")
                .success(Success::Tagged(of::<GotOverrideReply>(), "The override"))
                .rejecting(OF_AN_OVERRIDE)
                .handled_by(later!(get_override)),
            Operation::post(
                "deleteOverride",
                "/v1/overrides/delete",
                Scope::Overrides,
                of::<NamedOverrideRequest<'_>>(),
            )
            .with_headers(OF_A_DELETION)
            .summary("Delete an override, after which the policy's own limits apply again")
            .success(Success::Json(of::<DeletedOverrideReply>(), "It is gone"))
            .rejecting(OF_DELETING_AN_OVERRIDE)
            .handled_by(later!(delete_override)),
            Operation::get("listOverrides", "/v1/overrides", Some(Scope::Overrides))
                .asks(InputPlace::Parameters(overrides::PARAMETERS))
                .summary("The overrides, as this process knows them, a page at a time")
                .success(Success::Json(of::<OverrideListReply>(), "A page"))
                .rejecting(OF_OVERRIDES)
                .handled_by(later!(list_overrides)),
            Operation::get("policies", "/v1/policies", Some(Scope::Read))
                .summary("The live policies")
                .success(Success::Json(
                    of::<PoliciesBody<'_>>(),
                    "The policies, when they became live, and their source",
                ))
                .handled_by(Handler::Now(Edge::policies)),
            Operation::post("reload", "/v1/policies/reload", Scope::Policies, of::<ReloadRequest>())
                .summary("Reload the policy file")
                .success(Success::Json(of::<ReloadReply>(), "The file is valid and now live"))
                .rejecting(OF_A_RELOAD)
                .handled_by(later!(reload)),
            Operation::get("policySchema", "/v1/policies/schema", Some(Scope::Read))
                .summary("The JSON Schema of policy files")
                .success(Success::Document("JSON Schema 2020-12"))
                .handled_by(Handler::Now(|_, _| {
                    let schema = tollgate_policy::json_schema().to_string();
                    Ok(reply::json_bytes(StatusCode::OK, schema.into()))
                })),
            Operation::get("metrics", "/metrics", Some(Scope::Metrics))
                .summary("Metrics for Prometheus")
                .success(Success::Text(TextFormat::CONTENT_TYPES))
                .handled_by(later!(metrics)),
            Operation::get("openapi", "/openapi.json", Some(Scope::Read))
                .summary("The OpenAPI description of the service")
                .success(Success::Document("OpenAPI 3.1"))
                .handled_by(Handler::Now(|edge, _| {
                    Ok(reply::json_bytes(StatusCode::OK, edge.description()))
                })),
            Operation::get("healthz", "/healthz", None)
                .summary("Whether the process is alive")
                .success(Success::Text(&[reply::PLAIN]))
                .handled_by(Handler::Now(|_, _| Ok(reply::text(reply::PLAIN, Bytes::from_static(b"ok\n"))))),
            Operation::get("readyz", "/readyz", None)
                .summary("Whether requests are decided, and the generation of the live limits; false during a drain")
                .success(Success::Text(&[reply::PLAIN]))
                .rejecting(NOT_READY)
                .handled_by(Handler::Later(|edge, _, _| Box::pin(edge.ready()))),
        ]
    }

    /// Adds the operation that moves the clock of the counters.
    pub(super) fn with_test_clock(self) -> Self {
        let row = Operation::post("advanceClock", "/v1/clock", Scope::Change, of::<ClockRequest>())
            .summary("Move the clock of the counters forward (only with `serve --test-clock`)")
            .success(Success::Json(of::<ClockReply>(), "The time that it shows now"))
            .handled_by(later!(advance_clock));
        Self { rows: self.rows.into_iter().chain([row]).collect(), ..self }
    }

    /// Returns a check in another system's format.
    fn of_dialect(dialect: &'static Dialect) -> OperationRow {
        Operation::get(dialect.operation, dialect.path, Some(Scope::Check))
            .asks(InputPlace::Dialect(dialect))
            .changes()
            .summary("Charge a unit, as in another system")
            .success(Success::Dialect(dialect))
            .rejecting(OF_THE_STORE)
            .handled_by(Handler::Dialect(dialect))
    }

    /// Returns the operation that sets a rule of the study, as an override.
    fn of_rules() -> OperationRow {
        let body = of::<leetdezine::RuleRequest<'_>>();
        Operation::post("setLeetdezineRule", leetdezine::RULES, Scope::Overrides, body)
            .with_headers(OF_A_CONDITION)
            .summary(
                "Set the rule of a tier and an endpoint: an override without end, in place of an earlier one",
            )
            .success(Success::Tagged(
                of::<SetOverrideReply>(),
                "It is live in this process, and in all within a second",
            ))
            .rejecting(OF_SETTING_A_RULE)
            .handled_by(later!(set_rule))
    }

    /// Returns the operations by which operators watch a Spring application.
    fn of_spring() -> Vec<OperationRow> {
        vec![
            Operation::get("actuatorHealth", "/actuator/health", None)
                .summary("Whether requests are decided, in Spring's format")
                .success(Success::Json(of::<HealthReply>(), "They are"))
                .rejecting(NOT_READY)
                .handled_by(Handler::Later(|edge, _, _| Box::pin(edge.health()))),
            Operation::get("actuatorPrometheus", "/actuator/prometheus", Some(Scope::Metrics))
                .summary("Metrics for Prometheus, at Spring's path")
                .success(Success::Text(TextFormat::CONTENT_TYPES))
                .handled_by(later!(metrics)),
        ]
    }

    /// Finds the operation of a request, if this listener offers it.
    ///
    /// # Errors
    ///
    /// If there is none; names the listener that has the path, or the allowed methods.
    pub(super) fn find<B>(
        &self,
        listener: &Listener,
        listeners: &[Listener],
        request: &Request<B>,
    ) -> Result<&OperationRow, Rejection> {
        let (path, method) = (request.uri().path(), request.method());
        let is_asked = |operation: &Operation| {
            operation.is_at(path) && operation.allows(method) && operation.is_on(listener)
        };
        let found = self.rows.iter().find(|row| is_asked(&row.operation));
        found.ok_or_else(|| self.not_found(listener, listeners, path))
    }

    #[cold]
    fn not_found(&self, listener: &Listener, listeners: &[Listener], path: &str) -> Rejection {
        let at_path = || self.iter().filter(|operation| operation.is_at(path));
        let granted = |listener: &Listener| at_path().any(|operation| operation.is_on(listener));
        if granted(listener) {
            let granted = at_path().filter(|operation| operation.is_on(listener));
            let mut methods: Vec<&str> = granted.flat_map(Operation::methods).map(Method::as_str).collect();
            methods.sort_unstable();
            return Rejection::method_not_allowed(&methods.join(", "));
        }
        let detail = match (listeners.iter().find(|other| granted(other)), Dialect::at(path)) {
            (Some(Listener { name, kind, .. }), _) => {
                format!("this path is served on the {name} listener (`serve {}`)", kind.flag())
            }
            (None, _) if at_path().next().is_some() => {
                "this path is served on the checks listener, and there is none (`serve --listen none`)".to_owned()
            }
            (None, _) if self.without_policies.contains(&path) => {
                "this path uses policies, but the limits of envoyproxy/ratelimit replace them (`serve --import \
                 envoy-ratelimit`): use `/json`, or gRPC"
                    .to_owned()
            }
            (None, _) if self.without_dashboard.contains(&path) || path.starts_with(PAGE_FOLDER) => {
                "this path is part of the live page, which was turned off (`serve --dashboard off`)".to_owned()
            }
            (None, _) if path == domains::PATH => {
                "this path is only served with `serve --import envoy-ratelimit`; with policies, use `/v1/check`, \
                 or gRPC"
                    .to_owned()
            }
            (None, Some(dialect)) => {
                format!("this path is only served with `serve --answers {}`", dialect.system)
            }
            (None, None) => {
                "there is nothing at this path; `/openapi.json` on the admin listener lists all paths"
                    .to_owned()
            }
        };
        Rejection::new(RejectionKind::NotFound, detail)
    }

    /// Returns whether proxies ask at this path, also if the service has no policies for them.
    pub(super) fn answers_proxies_at(&self, path: &str) -> bool {
        self.proxy_paths.contains(&path)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Operation> {
        self.rows.iter().map(|row| &row.operation)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::http::operation::Effect;

    #[test]
    fn no_two_rows_answer_the_same_request_of_one_scope() {
        for dialect in Dialect::ALL {
            let table = Operations::of_policies(Some(dialect));
            let requests = table
                .iter()
                .flat_map(|row| row.methods().map(|it| (row.path, it.as_str(), format!("{:?}", row.scope))));
            let requests: Vec<(&str, &str, String)> = requests.collect();
            assert_eq!(requests.iter().collect::<BTreeSet<_>>().len(), requests.len());
            let ids: BTreeSet<&str> = table.iter().map(|operation| operation.id).collect();
            assert_eq!(ids.len(), table.iter().count());
        }
    }

    /// The type of its body shows whether a page of another site may have sent a request, so a body is required.
    #[test]
    fn guarded_changes_have_a_body() {
        let table = Operations::of_policies(None);
        let changes = |operation: &&Operation| operation.is_guarded() && operation.effect == Effect::Changes;
        assert_eq!(table.iter().filter(changes).count(), 10);
        for operation in table.iter().filter(changes) {
            assert!(operation.has_body(), "{}", operation.id);
        }
    }
}
