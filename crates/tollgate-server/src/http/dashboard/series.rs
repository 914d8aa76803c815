//! `GET /v1/live/series`: figures over time.

use std::borrow::Cow;

use http::{Request, StatusCode};
use hyper::body::Incoming;

use crate::access::caller::Caller;
use crate::answer::rejection::Rejection;
use crate::dashboard::series::{Event, Tier};
use crate::http::query::{self, QueryParameter};
use crate::http::wire::{EventRow, SeriesReply, SeriesRow};
use crate::http::{Edge, Reply, reply};

/// The most series in an answer.
const MAX_POLICIES: usize = 8;

/// Its parameters, for the description of the service.
pub(super) const PARAMETERS: &[QueryParameter] = &[
    QueryParameter {
        name: "policy",
        description: "A policy, or a domain where these decide; for several, repeat it, up to 8. Default: the sum over all",
    },
    QueryParameter {
        name: "tier",
        description: "`1s` for ten minutes by second, `5m` for a day in periods of five minutes. Default: `1s`",
    },
    QueryParameter {
        name: "since",
        description: "Only points that end after this second: `seq` of the last answer. All if it is not one of this process",
    },
];

/// Which series to answer.
#[derive(Debug)]
struct SeriesQuery<'a> {
    policies: Vec<Cow<'a, str>>,
    tier: Tier,
    since: Option<u64>,
}

impl Edge {
    /// Callers that may use only some policies are refused, as by `/v1/live`.
    pub(in crate::http) async fn live_series(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        caller.may_touch_all()?;
        let SeriesQuery { policies, tier, since } =
            SeriesQuery::read(request.uri().query().unwrap_or_default())?;
        let recorder = self.dashboard()?.recorder();
        let points = recorder.points(tier, since);
        let mut series = Vec::with_capacity(policies.len().max(1));
        for name in &policies {
            let known = recorder.policy(name).ok_or_else(|| {
                Rejection::bad_field(
                    "query.policy",
                    format!("there is no policy `{name}`, or it is too new: ask again in a second"),
                )
            })?;
            series.push(SeriesRow::new(name, known, &recorder, (tier, since)));
        }
        if policies.is_empty() {
            series.push(SeriesRow::new("", recorder.total(), &recorder, (tier, since)));
        }
        let times: Vec<i64> = points.numbers().map(|number| recorder.begin(tier, number)).collect();
        let first = times.first().copied().unwrap_or(i64::MAX);
        let is_in = |event: &&Event| event.at.as_unix_millis().div_euclid(1_000) >= first;
        let body = SeriesReply {
            seq: recorder.second(),
            tier: tier.name(),
            step_seconds: tier.seconds(),
            start: tier.end(points.first),
            times,
            series,
            events: recorder.events().filter(is_in).map(EventRow::from).collect(),
        };
        Ok(reply::json(StatusCode::OK, &body))
    }
}

impl<'a> SeriesQuery<'a> {
    /// Reads `name=value` pairs.
    ///
    /// # Errors
    ///
    /// If a name is unknown, one but `policy` is given twice, there are too many policies or one twice, or a value is not
    /// what it has to be.
    fn read(query: &'a str) -> Result<Self, Rejection> {
        let (mut policies, mut tier, mut since) = (Vec::new(), None, None);
        for pair in query::pairs(query) {
            let (name, value) = pair?;
            let wrong = |detail: &'static str| Rejection::bad_field(format!("query.{name}"), detail);
            match &*name {
                "policy" if policies.contains(&value) => return Err(wrong("the policy is given twice")),
                "policy" if policies.len() == MAX_POLICIES => {
                    return Err(wrong("at most 8 policies at once"));
                }
                "policy" => policies.push(value),
                "tier" if tier.is_some() => return Err(wrong("the parameter is given twice")),
                "tier" => {
                    let known = Tier::ALL.into_iter().find(|known| known.name() == value);
                    tier = Some(known.ok_or_else(|| wrong("expected `1s` or `5m`"))?);
                }
                "since" if since.is_some() => return Err(wrong("the parameter is given twice")),
                "since" => {
                    // `parse` would accept a plus sign.
                    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
                    let second = value.parse().ok().filter(|_| is_number);
                    since = Some(second.ok_or_else(|| wrong("expected `seq` of an answer"))?);
                }
                _ => return Err(wrong("unknown parameter, expected one of policy, tier, since")),
            }
        }
        Ok(Self { policies, tier: tier.unwrap_or(Tier::Seconds), since })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unknown_doubled_or_too_much_is_refused() {
        let nine: String = (0..9).map(|number| format!("policy=p{number}&")).collect();
        for (query, field) in [
            ("polices=a", "query.polices"),
            ("policy=a&policy=a", "query.policy"),
            (&*nine, "query.policy"),
            ("tier=1m", "query.tier"),
            ("tier=1s&tier=1s", "query.tier"),
            ("since=%2B5", "query.since"),
            ("since=", "query.since"),
            ("since=1&since=1", "query.since"),
        ] {
            assert_eq!(SeriesQuery::read(query).unwrap_err().field(), Some(field), "{query}");
        }
        let read = SeriesQuery::read("policy=b&policy=a&tier=5m&since=7").unwrap();
        assert_eq!(
            (read.policies, read.tier, read.since),
            (vec!["b".into(), "a".into()], Tier::Periods, Some(7))
        );
    }
}
