//! A configured limit.

use std::sync::Arc;

use serde_json::{Map, Value};
use tollgate::{CountDenied, PolicyQuota};
use tollgate_yaml::{At, Position, ProblemKind, Problems};

use crate::Unit;
use crate::file::{RawDescriptor, RawRateLimit, RawReplaced};
use crate::hits::Hits;
use crate::series::Series;

/// The rule of a configured descriptor for the requests that end at it.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) limit: Limit,
    pub(crate) name: Option<Arc<str>>,
    /// The names of the limits that do not apply to a request together with this one.
    pub(crate) replaces: Box<[Arc<str>]>,
    /// Counted without deciding.
    pub(crate) is_shadow: bool,
    /// Denies only if all such limits of the request do.
    pub(crate) is_quota: bool,
    pub(crate) metadata: Option<Map<String, Value>>,
    /// Whether hits are counted by the values of requests (`detailed_metric`).
    pub(crate) is_detailed: bool,
    /// Counts its hits; `None` if they are not counted, or counted by the values of each request.
    pub(crate) hits: Option<Arc<Hits>>,
    /// The names of its levels in metrics; `None` if hits are not counted.
    pub(crate) series: Option<Series>,
    /// Its place among the [names](crate::Domains::rule_names), if it is counted.
    pub(crate) place: usize,
}

/// The limit of a rule.
#[derive(Debug)]
pub(crate) enum Limit {
    Unlimited,
    Counted(CountedLimit),
}

/// A limit that is counted.
#[derive(Debug)]
pub(crate) struct CountedLimit {
    pub(crate) requests_per_unit: u32,
    pub(crate) unit: Unit,
    pub(crate) quota: PolicyQuota,
}

/// By the file alone.
impl PartialEq for Rule {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            limit,
            name,
            replaces,
            is_shadow,
            is_quota,
            metadata,
            is_detailed,
            hits: _,
            series: _,
            place: _,
        } = self;
        let written = |limit: &Limit| match limit {
            Limit::Unlimited => None,
            Limit::Counted(counted) => {
                Some((counted.requests_per_unit, counted.unit, counted.quota.count_denied()))
            }
        };
        written(limit) == written(&other.limit)
            && (name, replaces, metadata) == (&other.name, &other.replaces, &other.metadata)
            && (is_shadow, is_quota, is_detailed) == (&other.is_shadow, &other.is_quota, &other.is_detailed)
    }
}

impl Rule {
    /// The rule of a descriptor; `None` if it has none, or it is invalid, which is noted.
    pub(crate) fn of(
        raw: &RawDescriptor,
        quota: impl FnOnce(u32, Unit) -> PolicyQuota,
        problems: &mut Problems,
    ) -> Option<Self> {
        let At { at, value: written, .. } = raw.rate_limit.as_ref()?;
        let name = written.name.as_ref().map(|name| &*name.value.0).filter(|name| !name.is_empty());
        let replaces = written.replaces.as_ref().map_or(&[][..], |replaces| &replaces.value);
        let replaces =
            replaces.iter().filter_map(|replaced| replaced_name(replaced, name, problems)).collect();
        let flag = |flag: &Option<At<crate::file::Flag>>| flag.as_ref().is_some_and(|flag| flag.value.0);
        Some(Self {
            limit: limit(written, *at, quota, problems)?,
            name: name.map(Into::into),
            replaces,
            is_shadow: flag(&raw.shadow_mode),
            is_quota: flag(&raw.quota_mode),
            metadata: raw.metadata.as_ref().map(|metadata| metadata.value.0.clone()),
            is_detailed: flag(&raw.detailed_metric),
            hits: None,
            series: None,
            place: 0,
        })
    }
}

fn limit(
    written: &RawRateLimit,
    at: Position,
    quota: impl FnOnce(u32, Unit) -> PolicyQuota,
    problems: &mut Problems,
) -> Option<Limit> {
    if written.unlimited.as_ref().is_some_and(|unlimited| unlimited.value.0) {
        let needless = [
            ("unit", written.unit.as_ref().map(|unit| unit.at)),
            ("overdraft", written.overdraft.as_ref().map(|overdraft| overdraft.at)),
        ];
        for (key, at) in needless {
            if let Some(at) = at {
                problems.add(at, ProblemKind::Needless { section: "an unlimited rate_limit", key });
            }
        }
        return Some(Limit::Unlimited);
    }
    written.need(&["unit", "requests_per_unit"], at, problems);
    let (requests_per_unit, unit) =
        (written.requests_per_unit.as_ref()?.value.0, written.unit.as_ref()?.value.0);
    let quota = match written.overdraft.as_ref().is_some_and(|overdraft| overdraft.value.0) {
        true => quota(requests_per_unit, unit).with_count_denied(CountDenied::Overdraft),
        false => quota(requests_per_unit, unit),
    };
    Some(Limit::Counted(CountedLimit { requests_per_unit, unit, quota }))
}

fn replaced_name(replaced: &At<RawReplaced>, own: Option<&str>, problems: &mut Problems) -> Option<Arc<str>> {
    let At { at, value: replaced, .. } = replaced;
    replaced.need(&["name"], *at, problems);
    let name = replaced.name.as_ref()?;
    if name.value.0.is_empty() {
        problems.add(name.at, ProblemKind::Other("the name of a replaced limit is empty".into()));
        return None;
    }
    if own == Some(&*name.value.0) {
        problems.add(name.at, ProblemKind::Other("a limit cannot replace itself".into()));
        return None;
    }
    Some(name.value.0.as_ref().into())
}
