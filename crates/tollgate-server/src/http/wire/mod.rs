//! The types of the wire: JSON requests and replies, and their conversion.
//!
//! The comments on the types are the descriptions in `/openapi.json`.

mod changes;
mod decision;
mod health;
mod requests;

use schemars::{Schema, SchemaGenerator};

pub(super) use self::changes::{
    CountsReply, RecordBatchReply, RecordEntry, RefundReply, RefundedQuota, SettleReply, SettledQuota,
};
pub(super) use self::decision::{BatchEntry, BatchReply, CheckReply, ClientDenial, DeniedReply};
pub(super) use self::health::HealthReply;
pub(super) use self::requests::{
    BatchEntryRequest, BatchRequest, CheckRequest, KEY_ATTRIBUTES, MAX_CALLER_QUOTAS, PeekRequest,
    ReceiptRequest, RecordBatchRequest, RecordRequest, RefundRequest, ReloadRequest, ResetRequest,
    SetRequest, SettleRequest, WrittenQuota,
};

/// Describes a type of the wire.
pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;
