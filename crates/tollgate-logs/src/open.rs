//! A log that is being read.

use std::collections::HashMap;
use std::sync::Arc;

use crate::error::Error;
use crate::field::{Field, Precision};
use crate::format::{DetectedFormat, Parser};
use crate::input::Stream;
use crate::known::KnownLog;
use crate::lines::Lines;
use crate::options::Options;
use crate::plan::Plan;
use crate::progress::Counts;
use crate::time::Fold;

/// A log that is being read.
pub(crate) struct OpenLog {
    pub(crate) name: String,
    pub(crate) series: String,
    pub(crate) lines: Lines<Stream>,
    pub(crate) parser: Option<Parser>,
    pub(crate) precision: Precision,
    pub(crate) file: usize,
    pub(crate) requests: u64,
    /// The latest time that was read, except for one that lies ahead of all others.
    pub(crate) latest: i64,
    /// The time of the request before, if it lay more than the window ahead.
    ahead: Option<i64>,
}

impl OpenLog {
    pub(crate) fn new(
        known: KnownLog,
        options: &Options,
        plan: &Plan,
        counts: &Arc<Counts>,
        folds: &HashMap<String, Fold>,
    ) -> Result<Self, Error> {
        let series = known.series();
        let KnownLog { mut log, detected, file, .. } = known;
        let parser =
            detected.as_ref().map(|detected| {
                let zone = options.zone.as_ref();
                Parser::new(&detected.format, &detected.wrapping, plan, zone).map_err(|field| {
                    Error::NoField { name: log.name.clone(), format: detected.name(), field }
                })
            });
        let mut parser = parser.transpose()?;
        if detected.as_ref().is_some_and(DetectedFormat::has_only_addresses) {
            parser.iter_mut().for_each(Parser::expect_addresses);
        }
        if let (Some(parser), Some(detected)) = (&mut parser, &detected)
            && plan.wants(Field::Ip)
            && detected.has_to_show_clients(options.format.is_some(), &options.attributes)
        {
            parser.expect_one_client(&detected.format);
        }
        if let (Some(parser), Some(fold)) = (&mut parser, folds.get(&series)) {
            parser.go_on(*fold);
        }
        let lines = log.open(counts)?;
        let precision = detected.and_then(|detected| detected.counts.precision).unwrap_or(Precision::Seconds);
        Ok(Self {
            name: log.name,
            series,
            lines,
            parser,
            precision,
            file,
            requests: 0,
            latest: i64::MIN,
            ahead: None,
        })
    }

    /// Whether the next file of its series begins in an hour that exists twice: the end of this one tells which hour is
    /// meant.
    pub(crate) fn continues_in(&self, next: &KnownLog) -> bool {
        next.is_ambiguous() && self.series == next.series()
    }

    /// Notes the time of a request. A jump ahead by more than the window needs a second request there: else one wrong
    /// clock reading would make all that follows late.
    pub(crate) fn advance(&mut self, time: i64, window: i64) {
        if time <= self.latest.saturating_add(window) {
            self.latest = self.latest.max(time);
            self.ahead = None;
        } else if let Some(ahead) = self.ahead.replace(time) {
            self.latest = self.latest.max(ahead.min(time));
        }
    }
}
