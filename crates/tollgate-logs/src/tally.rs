//! The summary, while it grows.

use crate::error::Error;
use crate::format::Format;
use crate::options::Options;
use crate::reason::Reason;
use crate::record::Bucket;
use crate::summary::{Example, Summary, UnparsedLines};

/// The summary, while it grows.
#[derive(Debug, Default)]
pub(crate) struct ReadTally {
    pub(crate) summary: Summary,
}

impl ReadTally {
    pub(crate) fn unparsed(&mut self, reason: Reason, file: usize, line: u64, text: &[u8]) {
        let known = &mut self.summary.unparsed;
        let place = known.iter().position(|unparsed| unparsed.reason == reason.text()).unwrap_or_else(|| {
            known.push(UnparsedLines { reason: reason.text(), lines: 0, examples: Vec::new() });
            known.len() - 1
        });
        if let Some(unparsed) = known.get_mut(place) {
            unparsed.lines += 1;
            push_example(&mut unparsed.examples, file, line, text);
        }
    }

    pub(crate) fn late(&mut self, file: usize, line: u64, text: &[u8]) {
        self.summary.late += 1;
        push_example(&mut self.summary.late_examples, file, line, text);
    }

    /// Counts requests that are replayed now, in the order of time.
    pub(crate) fn replayed(&mut self, bucket: &Bucket) {
        let (Some(first), Some(last)) = (bucket.heads.first(), bucket.heads.last()) else { return };
        self.summary.requests += bucket.heads.len() as u64;
        if self.summary.first_micros.is_none() {
            self.summary.first_micros = Some(first.time);
        }
        // A bucket is a second, so gaps lie between buckets alone.
        self.summary.gaps.note(first.time);
        self.summary.gaps.note(last.time);
        self.summary.last_micros = Some(last.time);
    }

    /// Returns whether too many lines could not be read, or came too late to be replayed.
    pub(crate) fn check(&self, options: &Options) -> Result<(), Error> {
        let (unparsed, late) = (self.summary.unparsed_lines(), self.summary.late);
        let (lines, max_unparsed) = (unparsed + self.summary.requests + late, options.max_unparsed);
        let allowed = max_unparsed * lines as f64;
        if unparsed as f64 > allowed {
            return Err(Error::Unparsed { unparsed, lines, max_unparsed, hint: self.hint(unparsed) });
        }
        if late as f64 > allowed { Err(Error::Late { late, lines, max_unparsed }) } else { Ok(()) }
    }

    /// What reads the unreadable lines, if it is not certain who the clients of most of them are.
    fn hint(&self, unparsed: u64) -> String {
        let most = |reason: Reason| {
            let known = self.summary.unparsed.iter().find(|known| known.reason == reason.text())?;
            let file = known.examples.first().and_then(|example| self.summary.files.get(example.file))?;
            // `combined in syslog`
            let format = file.format.as_deref()?.split(" in ").next()?;
            (known.lines * 2 > unparsed).then_some(format)
        };
        match (most(Reason::Clients), most(Reason::Client)) {
            (Some(format), _) if format.parse().is_ok_and(|format: Format| format.is_text()) => format!(
                "; in most of them, another address may be the client: --format {format} takes the address in its place"
            ),
            (Some(_), _) => "; in most of them, several fields may be the client: --attr ip=json:/NAME or \
                             --attr ip=field:NAME chooses one"
                .to_owned(),
            (_, Some(_)) => {
                "; most of them have something else than one address in the place of the client: a list is \
                             read by a --format with $http_x_forwarded_for there, and --attr ip=xff:NETWORKS"
                    .to_owned()
            }
            _ => String::new(),
        }
    }
}

fn push_example(examples: &mut Vec<Example>, file: usize, line: u64, text: &[u8]) {
    if examples.len() < Example::MOST {
        examples.push(Example::new(file, line, text));
    }
}
