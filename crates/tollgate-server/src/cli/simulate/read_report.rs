//! The summary of the logs, in words.

use jiff::tz::TimeZone;
use tollgate_logs::{Example, Gaps, Instant, LogFile, Precision, Summary};
use tollgate_simulate::{ReadFile, ReadGap, ReadReport, UnreadLine, UnreadLines};

/// Returns the summary of the logs, with the gaps between the replayed requests. Their times are written in the zone.
pub(super) fn read_report(summary: &Summary, gaps: &Gaps, zone: &TimeZone) -> ReadReport {
    let name = |file: usize| summary.files.get(file).map_or("", |file| file.name.as_str());
    let example = |example: &Example| UnreadLine {
        place: format!("{}:{}", name(example.file), example.line),
        shape: example.shape(),
        text: Some(example.text.clone()),
    };
    let unparsed = summary.unparsed.iter().map(|unparsed| UnreadLines {
        reason: unparsed.reason.to_string(),
        lines: unparsed.lines,
        examples: unparsed.examples.iter().map(example).collect(),
    });
    let gaps = gaps.longest().iter().map(|gap| ReadGap {
        from: written(gap.from_micros, zone),
        to: written(gap.to_micros, zone),
        seconds: gap.to_micros.saturating_sub(gap.from_micros) as f64 / 1e6,
    });
    ReadReport {
        files: summary.files.iter().map(file).collect(),
        lines: summary.lines,
        others: summary.others,
        unparsed_lines: summary.unparsed_lines(),
        unparsed: unparsed.collect(),
        late: summary.late,
        late_examples: summary.late_examples.iter().map(example).collect(),
        gaps: gaps.collect(),
        ambiguous: summary.ambiguous,
        is_sample: false,
    }
}

fn file(file: &LogFile) -> ReadFile {
    let instant = file.instant.map(|instant| match instant {
        Instant::Begin => "logs when requests begin",
        Instant::End => "logs when requests end but not how long they took, so times are those of the end",
        Instant::EndWithDuration => {
            "logs when requests end and how long they took, so times are those of the beginning"
        }
        _ => "unknown whether they mark the start or the end of a request",
    });
    let precision = file.precision.map(|precision| match precision {
        Precision::Micros => "to the microsecond",
        Precision::Millis => "to the millisecond",
        _ => "to the second",
    });
    ReadFile {
        name: file.name.clone(),
        format: file.format.clone(),
        instant: instant.map(str::to_owned),
        precision: precision.map(str::to_owned),
        lines: file.lines,
        requests: file.requests,
    }
}

pub(super) fn written(micros: i64, zone: &TimeZone) -> String {
    match jiff::Timestamp::from_microsecond(micros) {
        Ok(time) => time.display_with_offset(zone.to_offset(time)).to_string(),
        Err(_) => format!("{micros} us"),
    }
}
