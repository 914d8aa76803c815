//! Quotas as they are written.

use schemars::json_schema;
use tollgate::{InFlight, PolicyInFlight, Quota, QuotaError};
use tollgate_yaml::{
    At, FromNode, Node, NodeValue, Position, ProblemKind, Problems, WrittenText, schema, section,
};

use super::values::Limit;
use crate::limit_text::LimitText;
use crate::problem::PolicyProblem;
use crate::{Attributes, LimitAttribute, OnMissingLimit};

/// Limits, all or nothing; none only where `unlimited` is written. No two quotas have the same windows and kind.
#[derive(Debug, Clone, Default)]
pub(crate) struct QuotaList {
    pub(crate) quotas: Vec<At<WrittenQuota>>,
    pub(crate) in_flight: Option<At<InFlight>>,
}

/// One limit of a list.
#[derive(Debug, Clone)]
pub(crate) enum WrittenLimit {
    Quota(WrittenQuota),
    InFlight(InFlight),
}

/// A policy's quotas: written out, or those of a tier.
#[derive(Debug)]
pub(crate) enum PolicyQuotas {
    List(QuotaList),
    Tier(Box<RawTier>),
}

section! {
    /// Quotas of a tier that an attribute names.
    RawTier("the tier") {
        /// The attribute that names a tier.
        #[schemars(required, length(min = 1, max = crate::Attributes::MAX_NAME))]
        "tier" tier: Box<str>,
        /// The tier if the attribute is missing or names none.
        #[schemars(required)]
        "default" default: WrittenText,
    }
}

impl FromNode for PolicyQuotas {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        let has_any = |keys: &[&str]| match &node.value {
            NodeValue::Mapping(entries) => entries.iter().any(|entry| keys.contains(&entry.key.as_ref())),
            _ => false,
        };
        let is_quota = has_any(RawQuota::KEYS) && !has_any(RawTier::KEYS);
        match &node.value {
            NodeValue::Mapping(_) if !is_quota => {
                FromNode::read(node, problems).map(|tier| Self::Tier(Box::new(tier)))
            }
            _ => FromNode::read(node, problems).map(Self::List),
        }
    }
}

schema!(PolicyQuotas: "PolicyQuotas", generator => {
    let (list, tier) = (generator.subschema_for::<QuotaList>(), generator.subschema_for::<RawTier>());
    json_schema!({ "anyOf": [list, tier] })
});

/// A quota, and how it is written.
#[derive(Debug, Clone)]
pub(crate) struct WrittenQuota {
    /// If an attribute sets the limit, with the maximum limit.
    pub(crate) quota: Quota,
    pub(crate) limit: Option<LimitAttribute>,
    /// The same for messages, which do not show the values of variables.
    pub(crate) written: Box<str>,
}

impl FromNode for QuotaList {
    fn read(node: &Node, problems: &mut Problems) -> Option<Self> {
        const EXPECTED: &str = "quotas such as [10/1s, 100/1m], or unlimited";
        let nodes = match &node.value {
            NodeValue::Scalar { text, .. } if text.as_ref() == "unlimited" => return Some(Self::default()),
            NodeValue::Scalar { .. } | NodeValue::Mapping(_) => std::slice::from_ref(node),
            _ => problems.take(node.at, node.list(EXPECTED))?,
        };
        if nodes.is_empty() {
            problems.add(node.at, ProblemKind::Empty("quota (or `unlimited` in place of the list)"));
        }
        let limits: Vec<_> = nodes.iter().flat_map(|node| limits(node, problems)).collect();
        // An empty list means unlimited, and these are not.
        (!limits.is_empty()).then(|| Self::of(limits, problems))
    }
}

impl QuotaList {
    /// These limits, without those that would count the same units on the same counter as another.
    pub(crate) fn of(limits: Vec<At<WrittenLimit>>, problems: &mut Problems) -> Self {
        let mut list = Self::default();
        for At { at, end, value } in limits {
            match value {
                WrittenLimit::Quota(value) => list.add_quota(At { at, end, value }, problems),
                WrittenLimit::InFlight(value) => match &list.in_flight {
                    Some(first) => problems.add(at, PolicyProblem::SecondInFlight { first: first.at }),
                    None => list.in_flight = Some(At { at, end, value }),
                },
            }
        }
        list
    }

    fn add_quota(&mut self, quota: At<WrittenQuota>, problems: &mut Problems) {
        match self.quotas.iter().find(|first| first.value.quota.has_series_of(&quota.value.quota)) {
            Some(first) => {
                let (first, second) = (first.value.written.clone(), quota.value.written);
                problems.add(quota.at, PolicyProblem::SameWindow { first, second });
            }
            None => self.quotas.push(quota),
        }
    }
}

section! {
    /// A quota with its limit from an attribute.
    RawQuota("a quota", "{ limit: { attribute: quota }, max: 10000, window: 1h }") {
        /// The attribute with the limit.
        #[schemars(required)]
        "limit" limit: RawLimit,
        /// The highest limit; higher values are cut to it.
        #[schemars(required)]
        "max" max: Limit,
        /// The windows, such as 1h, 1h@first_hit or day@Europe/Berlin, and the kind, such as 1h~burst:20.
        #[schemars(required)]
        "window" window: WrittenText,
    }
}

section! {
    /// The attribute with a limit. Its source must be verified, such as a token, or a trusted caller of the service.
    RawLimit("a limit", "{ attribute: quota }") {
        /// The attribute, whose value is a whole number.
        #[schemars(required, length(min = 1, max = Attributes::MAX_NAME))]
        "attribute" attribute: Box<str>,
        /// The limit if the attribute is missing or not a whole number: a number, or `error`, which makes it the
        /// caller's error. Default: `error`.
        "on_missing" on_missing: OnMissingLimit,
    }
}

impl RawQuota {
    fn resolve(self, at: Position, problems: &mut Problems) -> Option<WrittenQuota> {
        self.need(&["limit", "max", "window"], at, problems);
        if let Some(limit) = &self.limit {
            limit.value.need(&["attribute"], limit.at, problems);
        }
        let (max, limit) = (self.max.map(|max| max.value.0), self.limit.map(|limit| limit.value));
        let (name, on_missing) = limit.map_or((None, None), |limit| (limit.attribute, limit.on_missing));
        let name = name.and_then(|At { at, value, .. }| {
            let is_name = Attributes::is_name(&value);
            problems.take(at, is_name.then_some(value).ok_or(PolicyProblem::AttributeName))
        });
        let attribute = LimitAttribute::new(name.as_deref().unwrap_or_default())
            .with_on_missing(on_missing.as_ref().map(|word| word.value).unwrap_or_default());
        if let (Some(word), Some(max)) = (on_missing, max)
            && !attribute.is_within(max)
        {
            problems.add(word.at, PolicyProblem::LimitRange);
        }
        let At { at: window_at, value: WrittenText { text, written }, .. } = self.window?;
        if text.contains(PolicyInFlight::SERIES) {
            problems.add(window_at, PolicyProblem::InFlightOfAttribute);
            return None;
        }
        // Windows are what they are under any limit.
        let quota: Result<Quota, QuotaError> = format!("{}/{text}", max.unwrap_or(1)).parse();
        // The error repeats its text, of which the limit is written elsewhere.
        let quota = quota.map_err(|error| PolicyProblem::Windows(written.clone(), error.kind()));
        let quota = problems.take(window_at, quota)?;
        if name.is_none() || max.is_none() {
            return None;
        }
        let written = format!("{}/{written}", quota.limit()).into();
        Some(WrittenQuota { quota, limit: Some(attribute), written })
    }
}

/// The limits of one text, or the one of a mapping; none only with a problem noted.
fn limits(node: &Node, problems: &mut Problems) -> Vec<At<WrittenLimit>> {
    const EXPECTED: &str = "a quota such as 5/1m";
    if let NodeValue::Mapping(_) = &node.value {
        let quota = RawQuota::read(node, problems).and_then(|raw| raw.resolve(node.at, problems));
        let quota = quota.map(WrittenLimit::Quota);
        return quota.map(|value| At { at: node.at, end: node.end, value }).into_iter().collect();
    }
    let limits = node.text(EXPECTED).and_then(|text| {
        WrittenLimit::list(text).map_err(|error| match node.is_filled() {
            // The error repeats its text.
            true => node.expected(EXPECTED),
            false => PolicyProblem::Quota(error).into(),
        })
    });
    let limits = problems.take(node.at, limits).unwrap_or_default().into_iter().map(|limit| {
        let value = match limit {
            WrittenLimit::Quota(quota) if node.is_filled() => {
                WrittenLimit::Quota(WrittenQuota { written: node.written().into(), ..quota })
            }
            limit => limit,
        };
        At { at: node.at, end: node.end, value }
    });
    limits.collect()
}

impl WrittenLimit {
    /// Reads one limit, or several.
    pub(crate) fn list(text: &str) -> Result<Vec<Self>, QuotaError> {
        let limits = LimitText::list(text)?.into_iter().map(|limit| match limit {
            LimitText::InFlight(in_flight) => Self::InFlight(in_flight),
            LimitText::Quota(quota) => {
                let written = quota.to_string().into();
                Self::Quota(WrittenQuota { quota, limit: None, written })
            }
        });
        Ok(limits.collect())
    }
}

schema!(WrittenQuota: "Quota", generator => {
    let by_attribute = generator.subschema_for::<RawQuota>();
    json_schema!({ "anyOf": [{
        "type": "string",
        "description": "At most this many in each window, such as 5/1m, 5/1m@first_hit, 5/1m@staggered or \
                        100/day@Europe/Berlin; in a bucket, a sliding window or a log, such as 100/1m~burst:20, \
                        100/1m~sliding or 100/1m~log; or several, such as 10/minute;100/hour. At most this many units \
                        in flight at once: 20~in_flight, or 20~in_flight:30s if a hold lives 30 s without a renewal.",
        "examples": ["5/1m", "10000/day@Europe/Berlin", "100/1m~burst:20", "20~in_flight"],
    }, by_attribute] })
});

schema!(QuotaList: "Quotas", generator => {
    let quota = generator.subschema_for::<WrittenQuota>();
    let (list, unlimited) = (json_schema!({ "type": "array", "items": quota, "minItems": 1 }), "unlimited");
    json_schema!({ "anyOf": [list, { "const": unlimited }, quota] })
});
