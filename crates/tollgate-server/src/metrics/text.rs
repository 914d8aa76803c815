//! Writes metrics as text: in the OpenMetrics format, or in the older format of Prometheus.

use std::borrow::Cow;
use std::fmt::{self, Display, Write};

use super::family::{Family, FamilyKind, MetricSample, SampleValue};
use super::histogram::Histogram;

/// A text format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextFormat {
    /// OpenMetrics 1.0.0.
    OpenMetrics,
    /// Version 0.0.4 of the format of Prometheus. It has no units and no end mark, and it names a counter as its
    /// samples.
    Plain,
}

impl TextFormat {
    pub(crate) const CONTENT_TYPES: &'static [&'static str] =
        &[Self::OpenMetrics.content_type(), Self::Plain.content_type()];

    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Plain => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    pub(super) fn write<'a>(self, families: impl Iterator<Item = Family<'a>>) -> String {
        let mut text = String::with_capacity(4096);
        for family in families {
            // Writing into a string does not fail.
            let _ = self.write_family(family, &mut text);
        }
        if self == Self::OpenMetrics {
            text.push_str("# EOF\n");
        }
        text
    }

    fn write_family(self, family: Family<'_>, text: &mut String) -> fmt::Result {
        let Family { name, help, kind, unit, samples } = family;
        let name = unit.map_or(name.clone(), |unit| format!("{name}_{unit}").into());
        let described = match self {
            Self::OpenMetrics => "",
            Self::Plain => kind.suffix(),
        };
        writeln!(text, "# HELP {name}{described} {help}")?;
        writeln!(text, "# TYPE {name}{described} {}", self.kind(kind))?;
        if let (Some(unit), Self::OpenMetrics) = (unit, self) {
            writeln!(text, "# UNIT {name} {unit}")?;
        }
        for MetricSample { labels, value } in samples {
            match value {
                SampleValue::Count(count) => write_sample(
                    text,
                    (&name, kind.suffix()),
                    None,
                    &labels,
                    itoa::Buffer::new().format(count),
                ),
                SampleValue::Level(level) => write_sample(
                    text,
                    (&name, kind.suffix()),
                    None,
                    &labels,
                    itoa::Buffer::new().format(level),
                ),
                SampleValue::Float(value) => write_sample(
                    text,
                    (&name, kind.suffix()),
                    None,
                    &labels,
                    dtoa::Buffer::new().format(value),
                ),
                SampleValue::Durations(durations) => write_histogram(text, &name, &labels, durations),
            }?;
        }
        Ok(())
    }

    const fn kind(self, kind: FamilyKind) -> &'static str {
        match (kind, self) {
            (FamilyKind::Counter, _) => "counter",
            (FamilyKind::Gauge, _) | (FamilyKind::Info, Self::Plain) => "gauge",
            (FamilyKind::Histogram, _) => "histogram",
            (FamilyKind::Info, Self::OpenMetrics) => "info",
            (FamilyKind::Unknown, Self::OpenMetrics) => "unknown",
            (FamilyKind::Unknown, Self::Plain) => "untyped",
        }
    }
}

impl FamilyKind {
    /// The end of the names of samples.
    const fn suffix(self) -> &'static str {
        match self {
            Self::Counter => "_total",
            Self::Info => "_info",
            Self::Gauge | Self::Histogram | Self::Unknown => "",
        }
    }
}

type Labels<'a> = [(&'static str, Cow<'a, str>)];

fn write_histogram(text: &mut String, name: &str, labels: &Labels<'_>, durations: &Histogram) -> fmt::Result {
    let buckets = durations.buckets();
    let count = buckets.last().map_or(0, |(_, count)| *count);
    let sum = durations.sum_seconds();
    write_sample(text, (name, "_sum"), None, labels, dtoa::Buffer::new().format(sum))?;
    write_sample(text, (name, "_count"), None, labels, itoa::Buffer::new().format(count))?;
    for (bound, count) in buckets {
        let mut buffer = dtoa::Buffer::new();
        let bound = if bound.is_finite() { buffer.format(bound) } else { "+Inf" };
        write_sample(text, (name, "_bucket"), Some(bound), labels, itoa::Buffer::new().format(count))?;
    }
    Ok(())
}

/// Writes one line. `bound` is that of the bucket.
fn write_sample(
    text: &mut String,
    (name, suffix): (&str, &str),
    bound: Option<&str>,
    labels: &Labels<'_>,
    value: &str,
) -> fmt::Result {
    text.extend([name, suffix]);
    let bound = bound.map(|bound| ("le", bound));
    let labels = bound.into_iter().chain(labels.iter().map(|(name, value)| (*name, &**value)));
    let mut separator = '{';
    for (name, value) in labels {
        write!(text, "{separator}{name}=\"{}\"", EscapedLabel(value))?;
        separator = ',';
    }
    let end = if separator == ',' { "} " } else { " " };
    text.extend([end, value, "\n"]);
    Ok(())
}

/// The value of a label as it is written between quotes.
struct EscapedLabel<'a>(&'a str);

impl Display for EscapedLabel<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(index) = rest.find(['\\', '"', '\n']) {
            let (plain, special) = rest.split_at(index);
            f.write_str(plain)?;
            f.write_str(match special.as_bytes().first() {
                Some(b'\n') => "\\n",
                Some(b'"') => "\\\"",
                _ => "\\\\",
            })?;
            rest = special.get(1..).unwrap_or_default();
        }
        f.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::metrics::family::{Samples, labelled, single};

    fn family<'a>(kind: FamilyKind, unit: Option<&'static str>, samples: Samples<'a>) -> Family<'a> {
        Family { name: "a_b".into(), help: "A thing", kind, unit, samples }
    }

    #[test]
    fn counters_are_named_by_their_samples_in_plain_text() {
        let counter = || family(FamilyKind::Counter, None, labelled("name", [("a\"\\\n", 1_u64), ("b", 2)]));
        let samples = "a_b_total{name=\"a\\\"\\\\\\n\"} 1\na_b_total{name=\"b\"} 2\n";
        let open = format!("# HELP a_b A thing\n# TYPE a_b counter\n{samples}# EOF\n");
        assert_eq!(TextFormat::OpenMetrics.write([counter()].into_iter()), open);
        let plain = format!("# HELP a_b_total A thing\n# TYPE a_b_total counter\n{samples}");
        assert_eq!(TextFormat::Plain.write([counter()].into_iter()), plain);
    }

    #[test]
    fn only_open_metrics_has_units() {
        let gauge = || family(FamilyKind::Gauge, Some("bytes"), single(-5_i64));
        let open =
            "# HELP a_b_bytes A thing\n# TYPE a_b_bytes gauge\n# UNIT a_b_bytes bytes\na_b_bytes -5\n# EOF\n";
        assert_eq!(TextFormat::OpenMetrics.write([gauge()].into_iter()), open);
        let plain = "# HELP a_b_bytes A thing\n# TYPE a_b_bytes gauge\na_b_bytes -5\n";
        assert_eq!(TextFormat::Plain.write([gauge()].into_iter()), plain);
    }

    #[test]
    fn buckets_are_cumulative() {
        let durations = Histogram::default();
        for nanos in [400, 700, 2_000_000_000] {
            durations.observe(Duration::from_nanos(nanos));
        }
        let samples = Box::new(std::iter::once(MetricSample::new([("x", "y")], &durations)));
        let text = TextFormat::OpenMetrics.write([family(FamilyKind::Histogram, None, samples)].into_iter());
        let lines: Vec<&str> = text.lines().skip(2).collect();
        assert_eq!(lines[..2], ["a_b_sum{x=\"y\"} 2.0000011", "a_b_count{x=\"y\"} 3"]);
        assert_eq!(
            lines[2..4],
            ["a_b_bucket{le=\"5e-7\",x=\"y\"} 1", "a_b_bucket{le=\"0.000001\",x=\"y\"} 2"]
        );
        assert_eq!(
            lines[21..],
            ["a_b_bucket{le=\"1.0\",x=\"y\"} 2", "a_b_bucket{le=\"+Inf\",x=\"y\"} 3", "# EOF"]
        );
    }
}
