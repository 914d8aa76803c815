//! The types of the wire: JSON requests and replies, and their conversion.
//!
//! The comments on the types are the descriptions in `/openapi.json`.

mod changes;
mod counts;
mod decision;
mod health;
mod holds;
mod inspection;
mod live;
mod overrides;
mod requests;
mod talkers;
mod what_if;

use schemars::{JsonSchema, Schema, SchemaGenerator};

pub(super) use self::changes::{CountsReply, RecordBatchReply, RecordEntry, RefundReply, RefundedQuota};
pub(super) use self::counts::{
    BlockLength, CountBatchReply, CountBatchRequest, CountEntry, CountEntryRequest, CountForm, CountReply,
    CountRequest, OperationName,
};
pub(super) use self::decision::{BatchEntry, BatchReply, CheckReply, ClientDenial, DeniedReply};
pub(super) use self::health::HealthReply;
pub(super) use self::holds::{
    HoldReply, RenewBatchReply, RenewBatchRequest, RenewEntry, RenewEntryRequest, RenewReply, RenewRequest,
    ReserveBatchReply, ReserveBatchRequest, ReserveEntry, ReserveEntryRequest, ReserveReply, ReserveRequest,
    SettleBatchReply, SettleBatchRequest, SettleEntry, SettleEntryRequest, SettleReply, SettleRequest,
    asked_hold,
};
pub(super) use self::inspection::{
    AppliedPolicy, InspectReply, InspectRequest, InspectedSource, InspectedTalker, InspectedVerdict,
    UnappliedPolicy,
};
pub(super) use self::live::{
    DomainRow, DomainRows, EventRow, HistoryReply, Latency, LiveMemory, LiveOverrides, LiveProcess,
    LiveReply, LiveStore, LiveTotals, PolicyRows, ReloadEntry, SeriesReply, SeriesRow, ServiceState,
    SourceCounts, WarningRow,
};
pub(super) use self::overrides::{
    DeletedOverrideReply, GotOverrideReply, NamedOverrideRequest, OverrideId, OverrideListReply,
    SetOverrideReply, SetOverrideRequest, TargetAttributes,
};
pub(super) use self::requests::{
    BatchEntryRequest, BatchRequest, CheckRequest, GivenLimit, KEY_ATTRIBUTES, OutageAnswer, PeekRequest,
    RecordBatchRequest, RecordRequest, RefundRequest, ReloadRequest, ResetRequest, SetRequest,
    expect_caller_quotas,
};
pub(super) use self::talkers::{TalkerEntry, TalkersReply};
pub(super) use self::what_if::{WhatIfKind, WhatIfPoint, WhatIfReply};

/// Describes a type of the wire.
pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// Returns the description of a type of the wire.
pub(super) fn of<T: JsonSchema>() -> SchemaOf {
    SchemaGenerator::subschema_for::<T>
}
