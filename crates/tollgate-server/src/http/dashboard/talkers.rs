//! `GET /v1/talkers`: the keys that ask most.

use std::borrow::Cow;

use http::{Request, StatusCode};
use hyper::body::Incoming;
use tollgate_policy::Policy;
use tollgate_wire::body::TimeText;

use crate::access::caller::{Caller, OtherPolicy};
use crate::answer::rejection::Rejection;
use crate::answer::rejection_kind::RejectionKind;
use crate::http::asked_client::no_policy;
use crate::http::query::{self, QueryParameter};
use crate::http::wire::{TalkerEntry, TalkersReply};
use crate::http::{Edge, Reply, reply};
use crate::talkers::{PeriodChoice, TalkerNames, TalkerRow, TalkersBy};

/// Its parameters, for the description of the service.
pub(super) const PARAMETERS: &[QueryParameter] = &[
    QueryParameter { name: "policy", description: "The policy, if policies decide" },
    QueryParameter {
        name: "rule",
        description: "The limit, as `rules` of a domain in `/v1/live` names it, if Envoy's limits decide",
    },
    QueryParameter {
        name: "by",
        description: "`checks` for all requests that it counted, `denied` for those that it denied. Default: `checks`",
    },
    QueryParameter {
        name: "period",
        description: "`current` for the five minutes that run, `last` for those before. Default: `current`",
    },
    QueryParameter { name: "limit", description: "How many rows there may be: 1 to 100. Default: 20" },
];

pub(super) const REJECTIONS: &[(StatusCode, &str)] =
    &[(StatusCode::NOT_FOUND, "There is no such policy or rule. Or: `--talkers off`")];

const DEFAULT_LIMIT: usize = 20;

const MAX_LIMIT: usize = 100;

/// Which talkers.
#[derive(Debug)]
struct TalkersQuery<'a> {
    subject: Subject<'a>,
    by: TalkersBy,
    period: PeriodChoice,
    limit: usize,
}

/// Whose talkers.
#[derive(Debug, PartialEq)]
enum Subject<'a> {
    Policy(Cow<'a, str>),
    Rule(Cow<'a, str>),
}

impl Edge {
    pub(in crate::http) async fn talkers(
        &self,
        caller: &Caller,
        request: Request<Incoming>,
    ) -> Result<Reply, Rejection> {
        let talkers = self.dashboard()?.talkers.as_deref();
        let query = TalkersQuery::read(request.uri().query().unwrap_or_default())?;
        let TalkersQuery { subject, by, period, limit } = &query;
        match subject {
            Subject::Policy(policy) if !caller.may_touch(policy) => return Err(OtherPolicy.into()),
            Subject::Policy(_) => {}
            Subject::Rule(_) => caller.may_touch_all()?,
        }
        let talkers =
            talkers.ok_or_else(|| not_found("this service counts no talkers (`serve --talkers off`)"))?;
        // No request may have come since the policies changed.
        self.decider.policies().into_iter().for_each(|engine| talkers.follow(&engine.live()));
        let found = match subject {
            Subject::Policy(policy) => talkers.of_policy(policy, *by, *period, *limit),
            Subject::Rule(rule) => talkers.of_rule(rule, *by, *period, *limit),
        };
        let (report, meaning) = found.ok_or_else(|| match subject {
            Subject::Policy(_) => no_policy("query.policy"),
            Subject::Rule(_) => {
                not_found("there is no rule of this name: `GET /v1/live` has all").at("query.rule")
            }
        })?;
        let shows_keys = talkers.names() == TalkerNames::Plain && caller.sees_keys();
        let rows = report.rows.iter().map(|TalkerRow { id, count, error, key }| TalkerEntry {
            id: id.to_string(),
            key: if shows_keys { meaning.describe(key) } else { None },
            count: *count,
            error: *error,
            share: *count as f64 / report.counted.max(1) as f64,
        });
        let (policy, rule) = match subject {
            Subject::Policy(policy) => (Some(&**policy), None),
            Subject::Rule(rule) => (None, Some(&**rule)),
        };
        let body = TalkersReply {
            policy,
            rule,
            by: by.name(),
            period: period.name(),
            names: talkers.names().name(),
            since: TimeText(report.since),
            until: TimeText(report.until),
            total: report.total,
            counted: report.counted,
            skipped: report.skipped,
            counters: report.counters,
            max_error: report.max_error,
            memory_bytes: report.memory_bytes,
            rows: rows.collect(),
        };
        Ok(reply::json(StatusCode::OK, &body))
    }
}

fn not_found(detail: &'static str) -> Rejection {
    Rejection::new(RejectionKind::NotFound, detail)
}

impl<'a> TalkersQuery<'a> {
    /// Reads `name=value` pairs.
    ///
    /// # Errors
    ///
    /// If the policy is missing, a name is unknown or given twice, or a value is not what it has to be.
    fn read(query: &'a str) -> Result<Self, Rejection> {
        let (mut subject, mut by, mut period, mut limit) = (None, None, None, None);
        for pair in query::pairs(query) {
            let (name, value) = pair?;
            let wrong = |detail: &'static str| Rejection::bad_field(format!("query.{name}"), detail);
            let is_new = match &*name {
                "policy" => {
                    let expected = || wrong("expected the name of a policy");
                    let name = Policy::is_name(&value).then_some(value).ok_or_else(expected)?;
                    subject.replace(Subject::Policy(name)).is_none()
                }
                "rule" => subject.replace(Subject::Rule(value)).is_none(),
                "by" => {
                    let known = TalkersBy::ALL.into_iter().find(|known| known.name() == value);
                    by.replace(known.ok_or_else(|| wrong("expected `checks` or `denied`"))?).is_none()
                }
                "period" => {
                    let known = PeriodChoice::ALL.into_iter().find(|known| known.name() == value);
                    period.replace(known.ok_or_else(|| wrong("expected `current` or `last`"))?).is_none()
                }
                "limit" => {
                    // `parse` would accept a plus sign.
                    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
                    let number =
                        value.parse().ok().filter(|number| is_number && (1..=MAX_LIMIT).contains(number));
                    limit
                        .replace(number.ok_or_else(|| wrong("expected a whole number from 1 to 100"))?)
                        .is_none()
                }
                _ => return Err(wrong("unknown parameter, expected one of policy, rule, by, period, limit")),
            };
            if !is_new {
                return Err(wrong("the parameter is given twice, or `policy` and `rule` together"));
            }
        }
        Ok(Self {
            subject: subject
                .ok_or_else(|| Rejection::bad_field("query.policy", "`policy` or `rule` is missing"))?,
            by: by.unwrap_or(TalkersBy::Checks),
            period: period.unwrap_or(PeriodChoice::Current),
            limit: limit.unwrap_or(DEFAULT_LIMIT),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_names_its_policy_and_has_defaults() {
        let TalkersQuery { subject, by, period, limit } = TalkersQuery::read("policy=a").unwrap();
        let policy = |name: &'static str| Subject::Policy(name.into());
        assert_eq!((subject, by, period, limit), (policy("a"), TalkersBy::Checks, PeriodChoice::Current, 20));
        let read = TalkersQuery::read("limit=100&period=last&by=denied&policy=a.b").unwrap();
        assert_eq!(
            (read.subject, read.by, read.period, read.limit),
            (policy("a.b"), TalkersBy::Denials, PeriodChoice::Last, 100)
        );
        let read = TalkersQuery::read("rule=shop%3A+user").unwrap();
        assert_eq!(read.subject, Subject::Rule("shop: user".into()));
    }

    #[test]
    fn what_is_unknown_doubled_or_out_of_range_is_refused() {
        for (query, field) in [
            ("", "query.policy"),
            ("policy=", "query.policy"),
            ("policy=a%20b", "query.policy"),
            ("policy=a&policy=a", "query.policy"),
            ("policy=a&rule=a", "query.rule"),
            ("policy=a&by=denials", "query.by"),
            ("policy=a&by=checks&by=checks", "query.by"),
            ("policy=a&period=5m", "query.period"),
            ("policy=a&limit=0", "query.limit"),
            ("policy=a&limit=101", "query.limit"),
            ("policy=a&limit=%2B5", "query.limit"),
            ("policy=a&top=5", "query.top"),
        ] {
            assert_eq!(TalkersQuery::read(query).unwrap_err().field(), Some(field), "{query}");
        }
    }
}
