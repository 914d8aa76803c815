//! The operations of the live page, each in a file of its own: its files, and its data.

mod history;
mod inspect;
mod live;
mod page;
mod series;
mod shared_body;
mod talkers;
mod what_if;

use http::StatusCode;

pub(super) use self::page::FOLDER as PAGE_FOLDER;
use super::Edge;
use super::asked_client::NO_TALKER;
use super::operation::{Handler, InputPlace, Operation, OperationRow, RequestHeader, Success, later};
use super::wire::{
    HistoryReply, InspectReply, InspectRequest, LiveReply, SeriesReply, TalkersReply, WhatIfReply, of,
};
use crate::access::scope::Scope;

const OF_A_VIEWER: &[RequestHeader] = &[RequestHeader {
    name: "If-None-Match",
    description: "The `ETag` of the last answer: if it is still the current one, the answer is 304 without a body",
}];
const TOO_MANY_VIEWERS: &[(StatusCode, &str)] = &[(
    StatusCode::TOO_MANY_REQUESTS,
    "There were more requests in the last five seconds than eight open pages send (40)",
)];

const OF_AN_INSPECTION: &[(StatusCode, &str)] =
    &[NO_TALKER, (StatusCode::CONFLICT, "Too little is known of the talker: give attributes")];

/// Every operation that only the page needs. `--dashboard off` removes them.
pub(super) fn rows() -> Vec<OperationRow> {
    vec![
        Operation::get("pageStart", "/", None)
            .summary("The live page")
            .success(Success::Page)
            .handled_by(later!(page_start)),
        Operation::get("pageWithoutSlash", "/ui", None)
            .summary("The live page")
            .success(Success::Page)
            .handled_by(later!(page_start)),
        Operation::get("page", PAGE_FOLDER, None)
            .summary("The live page and its files")
            .success(Success::Page)
            .handled_by(later!(page_file)),
        Operation::get("live", "/v1/live", Some(Scope::Read))
            .with_headers(OF_A_VIEWER)
            .summary("The state of this process, and its figures of the last minute")
            .success(Success::Shared(of::<LiveReply<'_>>(), "Made at most once a second, for all callers"))
            .rejecting(TOO_MANY_VIEWERS)
            .handled_by(later!(live)),
        Operation::get("liveSeries", "/v1/live/series", Some(Scope::Read))
            .asks(InputPlace::Parameters(series::PARAMETERS))
            .summary("Figures of policies over time")
            .success(Success::Json(of::<SeriesReply<'_>>(), "The points"))
            .handled_by(later!(live_series)),
        Operation::post("inspect", "/v1/inspect", Scope::Read, of::<InspectRequest<'_>>())
            .reads()
            .summary("What policies make of a request, with reasons, and what is used. Nothing is charged")
            .success(Success::Json(
                of::<InspectReply<'_>>(),
                "Also if a policy refuses the request (`outcome`) or the counters could not be read (`peek_failed`)",
            ))
            .rejecting(OF_AN_INSPECTION)
            .handled_by(later!(inspect)),
        Operation::get("policyHistory", "/v1/policies/history", Some(Scope::Read))
            .summary("The last reloads, and probable mistakes in the live limits")
            .success(Success::Json(of::<HistoryReply>(), "The latest reload first"))
            .handled_by(Handler::Now(Edge::policy_history)),
        Operation::get("talkers", "/v1/talkers", Some(Scope::Read))
            .asks(InputPlace::Parameters(talkers::PARAMETERS))
            .summary("The keys that ask most of a policy, or that it denies most often")
            .success(Success::Json(
                of::<TalkersReply<'_>>(),
                "The largest count first. `key` is only there with `--talkers plain`, for callers with the scope `keys`",
            ))
            .rejecting(talkers::REJECTIONS)
            .handled_by(later!(talkers)),
        Operation::get("whatIf", "/v1/whatif", Some(Scope::Read))
            .asks(InputPlace::Parameters(what_if::PARAMETERS))
            .summary("What another quota would have done to the requests of a policy. Nothing is changed")
            .success(Success::Json(
                of::<WhatIfReply<'_>>(),
                "Denied requests are in it, as if their callers had come all the same. Without requests, `curve` is empty",
            ))
            .rejecting(what_if::REJECTIONS)
            .handled_by(later!(what_if)),
    ]
}
