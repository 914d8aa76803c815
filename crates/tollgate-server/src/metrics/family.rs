//! A metric with its values, before it is written in some format.

use std::borrow::Cow;

use super::histogram::Histogram;

/// All values of one metric.
pub(crate) struct Family<'a> {
    /// Without the unit.
    pub(super) name: Cow<'a, str>,
    pub(super) help: &'static str,
    pub(super) kind: FamilyKind,
    pub(super) unit: Option<&'static str>,
    pub(super) samples: Samples<'a>,
}

/// What the values of a metric mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FamilyKind {
    /// Values that only grow.
    Counter,
    Gauge,
    Histogram,
    /// Labels alone; the value is always 1.
    Info,
    /// No kind is exported.
    Unknown,
}

/// The values of a metric. They are computed one by one, because there may be several for each of very many policies.
pub(super) type Samples<'a> = Box<dyn Iterator<Item = MetricSample<'a>> + 'a>;

/// One value and its labels.
pub(crate) struct MetricSample<'a> {
    pub(super) labels: Vec<(&'static str, Cow<'a, str>)>,
    pub(super) value: SampleValue<'a>,
}

/// A value of a metric.
pub(super) enum SampleValue<'a> {
    Count(u64),
    Level(i64),
    Float(f64),
    Durations(&'a Histogram),
}

impl<'a> MetricSample<'a> {
    pub(super) fn new<V: Into<SampleValue<'a>>, const LABELS: usize>(
        labels: [(&'static str, &'a str); LABELS],
        value: V,
    ) -> Self {
        let labels = labels.into_iter().map(|(name, value)| (name, Cow::Borrowed(value)));
        Self { labels: labels.collect(), value: value.into() }
    }
}

/// The value of a metric without labels.
pub(super) fn single<'a>(value: impl Into<SampleValue<'a>>) -> Samples<'a> {
    Box::new(std::iter::once(MetricSample::new([], value)))
}

/// The values of a metric with one label.
pub(super) fn labelled<'a, 'l: 'a, V: Into<SampleValue<'a>>>(
    label: &'static str,
    values: impl IntoIterator<Item = (&'l str, V)> + 'a,
) -> Samples<'a> {
    Box::new(values.into_iter().map(move |(name, value)| MetricSample::new([(label, name)], value)))
}

impl From<u64> for SampleValue<'_> {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<usize> for SampleValue<'_> {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

impl From<i64> for SampleValue<'_> {
    fn from(level: i64) -> Self {
        Self::Level(level)
    }
}

impl From<bool> for SampleValue<'_> {
    fn from(is_so: bool) -> Self {
        Self::Count(is_so.into())
    }
}

impl From<f64> for SampleValue<'_> {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl<'a> From<&'a Histogram> for SampleValue<'a> {
    fn from(durations: &'a Histogram) -> Self {
        Self::Durations(durations)
    }
}
