//! Why an estimate is not exact.

use std::borrow::Cow;

use tollgate::{Anchor, QuotaKind, WindowLength};

use super::question::{Circumstances, WhatIfQuestion};
use super::traffic::Traffic;
use crate::sample::SampledRequest;

/// Says in sentences why the figures are not exact; none if they are.
pub(super) fn doubts(
    question: &WhatIfQuestion,
    traffic: &Traffic,
    is_calculated: bool,
    is_reduced: bool,
) -> Vec<Cow<'static, str>> {
    let WhatIfQuestion { quota, circumstances, .. } = question;
    let Circumstances { quotas, has_in_flight, is_shared, .. } = *circumstances;
    let requests = traffic.requests();
    let count =
        |is_one: fn(&SampledRequest) -> bool| requests.iter().filter(|request| is_one(request)).count();
    let mut doubts = Vec::new();
    let mut doubt = |is_one: bool, text: &dyn Fn() -> Cow<'static, str>| {
        if is_one && !requests.is_empty() {
            doubts.push(text());
        }
    };
    doubt(traffic.rarity > 0, &|| {
        format!("Estimated from 1 in {} clients, with all their requests.", 1_u64 << traffic.rarity).into()
    });
    doubt(is_reduced, &|| "There are more requests than can be replayed in a moment.".into());
    let skipped = traffic.skipped;
    doubt(skipped > 0, &|| format!("{skipped} requests were not noted.").into());
    doubt(traffic.is_cut, &|| "Earlier requests are forgotten, so usage at the beginning is unknown.".into());
    doubt(is_shared, &|| "Requests of other processes that share the store are not in it.".into());
    doubt(quotas > 1, &|| {
        format!("The policy has {quotas} quotas: these are the denials of `{quota}` alone.").into()
    });
    doubt(has_in_flight, &|| "The policy's limit in flight is left out.".into());
    let overridden = count(|request| request.is_overridden);
    doubt(overridden > 0, &|| {
        format!("{overridden} requests had limits by an override or a tier, which would keep them.").into()
    });
    let elsewhere = count(|request| request.is_denied_elsewhere);
    doubt(elsewhere > 0, &|| {
        format!("{elsewhere} requests were denied by another policy, and are counted as if they were not.")
            .into()
    });
    doubt(quota.anchor() == Anchor::Staggered, &|| {
        "Windows begin at other times for each key, and here at others than in fact.".into()
    });
    doubt(!is_calculated && quota.kind() == QuotaKind::Window, &|| {
        "Requests cost different units, and their order within a millisecond is unknown.".into()
    });
    doubt(quota.kind() != QuotaKind::Window, &|| {
        "Each request is replayed under each limit, from counters without usage.".into()
    });
    doubts
}

/// Says what else to know of the figures, although they are what they say.
pub(super) fn remarks(
    question: &WhatIfQuestion,
    traffic: &Traffic,
    has_left_out_kinds: bool,
) -> Vec<&'static str> {
    let Some(since) = traffic.since else { return Vec::new() };
    let span = question.circumstances.now.since(since);
    let is_long = match question.quota.window() {
        WindowLength::Fixed(length) => length > span,
        _ => true,
    };
    let long = "A window is longer than the time that is known: in a whole one, more would be denied.";
    let left_out = "There are too many requests to replay them under all other kinds in a moment.";
    [(is_long, long), (has_left_out_kinds, left_out)]
        .into_iter()
        .filter_map(|(is, text)| is.then_some(text))
        .collect()
}
