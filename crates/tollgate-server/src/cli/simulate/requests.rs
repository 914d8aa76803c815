//! The requests of logs, as policies see them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::mem;

use jiff::tz::{Disambiguation, TimeZone};
use tollgate::Timestamp;
use tollgate_logs::{
    Attribute, AttributeSource, Batch, Error as LogError, Field, Gaps, Order, Reader, Request, Summary,
};
use tollgate_policy::{Attributes, nearest};
use tollgate_simulate::{Hit, ReadReport, UnreadLine, code, percentage};

use super::clients::{SeenClients, needs_client, note_of_others};
use super::failure::SimulateFailure;
use super::progress::ProgressLine;
use super::read_report::{read_report, written};
use crate::args::{LogArgs, Moment};

/// The attributes that need no flag.
const KNOWN: [&str; 10] =
    ["ip", "method", "path", "query", "host", "user", "user_agent", "referer", "status", "bytes"];

/// The requests of logs, with the wanted attributes.
pub(super) struct LogRequests {
    reader: Reader,
    wanted: Vec<WantedParts>,
    /// For each of them, whether any request has had it.
    seen: Vec<bool>,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
    sample_rate: Option<f64>,
    estimate: bool,
    show_keys: bool,
    /// Whether all requests are sorted first.
    is_sorted: bool,
    zone: TimeZone,
    /// The attributes that need `X-Forwarded-For`.
    forwarded: Vec<String>,
    clients: SeenClients,
    /// Requests that were passed on.
    taken: u64,
    /// Between the requests from `from` to `to`.
    gaps: Gaps,
}

/// A wanted attribute.
struct WantedParts {
    name: String,
    source: RequestSource,
    /// Whether decisions depend on it.
    is_decisive: bool,
}

/// The place of an attribute in a logged request.
#[derive(Debug, Clone, Copy)]
enum RequestSource {
    Field(Field),
    Attribute(usize),
    Status,
    Bytes,
    Nowhere,
}

impl LogRequests {
    /// Opens the logs, for attributes of these names: those on which decisions depend, and others; and for fields that are
    /// shown besides programs and paths.
    pub(super) fn open(
        logs: &[std::ffi::OsString],
        args: &LogArgs,
        decisive: &BTreeSet<String>,
        others: &BTreeSet<String>,
        shown: &[Field],
    ) -> Result<Self, SimulateFailure> {
        // Of an hour that the clock repeats, all is replayed.
        let from = bound("--from", args.from, args.tz.as_ref(), Disambiguation::Earlier)?;
        let to = bound("--to", args.to, args.tz.as_ref(), Disambiguation::Later)?;
        if from.zip(to).is_some_and(|(from, to)| from >= to) {
            return Err(SimulateFailure::usage(anyhow::anyhow!("--from is not before --to")));
        }
        let wanted = |name: &String, is_decisive| WantedParts {
            name: name.clone(),
            source: RequestSource::of(name, args),
            is_decisive,
        };
        let decisive_ones = decisive.iter().map(|name| wanted(name, true));
        let other_ones = others.difference(decisive).map(|name| wanted(name, false));
        // Whoever counts all requests together asks for no attribute.
        let wanted: Vec<WantedParts> =
            decisive_ones.chain(other_ones).filter(|wanted| wanted.name != "global").collect();
        let asked = wanted.iter().filter_map(|wanted| match wanted.source {
            RequestSource::Field(field) => Some(field),
            _ => None,
        });
        let mut fields: Vec<Field> = asked.collect();
        fields.extend(
            [Field::UserAgent, Field::Path]
                .iter()
                .chain(shown)
                .copied()
                .filter(|field| wanted.iter().all(|wanted| wanted.name != field.name())),
        );
        let options = tollgate_logs::Options {
            format: args.format.clone(),
            zone: args.tz.clone(),
            time: args.time.clone(),
            attributes: args.attributes.clone(),
            fields,
            needs_client: needs_client(decisive, others),
            max_unparsed: args.max_unparsed,
            order: if args.sort { Order::SORT } else { Order::default() },
        };
        let reader = Reader::open(logs, options)?;
        let is_forwarded = |attribute: &&Attribute| matches!(attribute.source, AttributeSource::Xff(_));
        let forwarded = args.attributes.iter().filter(is_forwarded);
        Ok(Self {
            reader,
            seen: vec![false; wanted.len()],
            wanted,
            from,
            to,
            sample_rate: args.sample_rate,
            estimate: args.estimate,
            show_keys: args.show_keys,
            is_sorted: args.sort,
            zone: args.tz.clone().unwrap_or(TimeZone::UTC),
            forwarded: forwarded.map(|attribute| attribute.name.clone()).collect(),
            clients: SeenClients::default(),
            taken: 0,
            gaps: Gaps::default(),
        })
    }

    /// Calls back with groups of requests, in the order of time. Returns the summary of the logs, with notes about it.
    pub(super) fn each(
        mut self,
        take: impl FnMut(&mut (dyn Iterator<Item = Hit<'_>> + Send)) -> Result<(), SimulateFailure> + Send,
    ) -> Result<(ReadReport, Vec<String>), SimulateFailure> {
        self.refuse_sample()?;
        let threads =
            rayon::ThreadPoolBuilder::new().thread_name(|number| format!("replay-{number}")).build();
        let threads = threads.map_err(|error| {
            SimulateFailure::no_answer(anyhow::Error::new(error).context("cannot start threads"))
        })?;
        let progress = ProgressLine::start(self.reader.watch(), self.is_sorted);
        let ended = threads.install(|| self.take_all(&progress, take));
        progress.end();
        let mut read = read_report(self.reader.summary(), &self.gaps, &self.zone);
        read.is_sample = self.sample().is_some();
        if let Err(failure) = ended {
            if !self.show_keys {
                read.hide_lines();
            }
            for unread in &read.unparsed {
                complain_of(unread.lines, &unread.reason, &unread.examples);
            }
            if read.late > 0 {
                complain_of(read.late, "too far behind those before them", &read.late_examples);
            }
            return Err(failure);
        }
        self.refuse_sample()?;
        self.refuse_needless_walk()?;
        let notes = self.notes(&read);
        Ok((read, notes))
    }

    /// Returns the reason why the logs may not contain all requests, if there is one.
    fn sample(&self) -> Option<String> {
        match self.sample_rate {
            Some(rate) if rate < 1.0 => {
                Some(format!("the logs hold {} of all requests (--sample-rate)", percentage(rate)))
            }
            Some(_) => None,
            None => {
                let mut files = self.reader.summary().files.iter();
                let file = files.find(|file| file.may_be_sampled)?;
                let name = &file.name;
                Some(format!(
                    "{name}: logs of Cloudflare and Google Cloud may hold only a sample of all requests"
                ))
            }
        }
    }

    /// A client would seem to send fewer requests than it did, so no figure about clients, windows and denials would be
    /// right.
    fn refuse_sample(&self) -> Result<(), SimulateFailure> {
        let Some(why) = self.sample().filter(|_| !self.estimate) else { return Ok(()) };
        let hint = match self.sample_rate {
            Some(_) => "",
            None => ", --sample-rate 100% declares them complete",
        };
        Err(SimulateFailure::no_answer(anyhow::anyhow!(
            "{why}, in which case limits deny more than they show; --estimate accepts them anyway{hint}"
        )))
    }

    /// A walk through a header that no request has changes nothing, so the logged addresses would be taken for clients.
    fn refuse_needless_walk(&self) -> Result<(), SimulateFailure> {
        let summary = self.reader.summary();
        let Some(name) = self.forwarded.first().filter(|_| summary.requests > 0 && !summary.has_forwarded)
        else {
            return Ok(());
        };
        Err(SimulateFailure::usage(anyhow::anyhow!(
            "--attr {name}=xff: no request in the logs has X-Forwarded-For; leave the flag out to count the logged \
             addresses, or, if the header stands in another field, name it $http_x_forwarded_for in a --format"
        )))
    }

    /// Reads the next batch while the callback handles this one.
    fn take_all(
        &mut self,
        progress: &ProgressLine,
        mut take: impl FnMut(&mut (dyn Iterator<Item = Hit<'_>> + Send)) -> Result<(), SimulateFailure> + Send,
    ) -> Result<(), SimulateFailure> {
        let Self { reader, wanted, seen, from, to, gaps, clients, taken, show_keys, .. } = self;
        let is_within = |request: &Request<'_>| {
            let time = time(request);
            from.is_none_or(|from| time >= from) && to.is_none_or(|to| time < to)
        };
        let mut read = |batch: &mut Batch| reader.read(batch).map_err(|error| failure(error, *show_keys));
        let (mut batch, mut next) = (Batch::default(), Batch::default());
        read(&mut batch)?;
        while !batch.is_empty() {
            let hits = batch.requests().filter(is_within).map(|request| {
                gaps.note(request.time_micros());
                clients.note(&request);
                *taken += 1;
                hit(&request, wanted, seen)
            });
            // Moved into the call, so that the batch is free after it.
            let (taken, read) = rayon::join(|| take(&mut { hits }), || read(&mut next));
            taken?;
            progress.replayed(batch.len());
            read?;
            mem::swap(&mut batch, &mut next);
        }
        Ok(())
    }

    fn notes(&self, read: &ReadReport) -> Vec<String> {
        let summary = self.reader.summary();
        // Notes about clients come first: they matter most.
        let others = summary.files.iter().filter_map(|file| Some((file, file.others.as_ref()?)));
        let mut notes: Vec<String> = others.map(|(file, others)| note_of_others(file, others)).collect();
        match summary.first_micros.zip(summary.last_micros) {
            Some((first, last)) if self.taken == 0 => {
                let [first, last] = [first, last].map(|micros| written(micros, &self.zone));
                notes.push(format!(
                    "No request is in the chosen period (--from, --to). Those in the logs are from {first} to {last}."
                ));
            }
            Some(_) => self.note_missing(&mut notes),
            // Without a request, nothing is known of attributes.
            None => {}
        }
        self.note_hidden(&mut notes);
        notes.extend(self.clients.note_of_proxy(self.forwarded.iter().any(|name| name == Field::Ip.name())));
        for file in summary.files.iter().filter(|file| file.has_names) {
            notes.push(format!(
                "Clients in {} are names of hosts, at least in part. The service knows addresses, so it cannot decide on \
                 names by `ip`.",
                code(&file.name)
            ));
        }
        for (one, other) in summary.copies() {
            notes.push(format!(
                "{} and {} look like copies of one log, so its requests count twice.",
                code(&one.name),
                code(&other.name)
            ));
        }
        if read.ambiguous > 0 {
            notes.push(format!(
                "{} requests fall into the hour that is repeated at the end of summer time. Their order in the file \
                 decided which of the two hours was used.",
                read.ambiguous
            ));
        }
        match self.sample_rate.filter(|rate| *rate < 1.0) {
            Some(rate) => notes.push(format!(
                "The logs hold {} of all requests, so there were about {:.0}. Each client asked for more than they show: \
                 limits deny more than this.",
                percentage(rate),
                self.taken as f64 / rate
            )),
            None if self.sample().is_some() => notes.push(
                "The logs may hold only a sample of all requests: limits deny more than this.".to_owned(),
            ),
            None => {}
        }
        notes
    }

    /// Counts the requests whose clients their proxies do not tell.
    fn note_hidden(&self, notes: &mut Vec<String>) {
        let Summary { hidden_clients, unnamed_clients, .. } = *self.reader.summary();
        let names = match &self.forwarded[..] {
            [] => code("ip"),
            names => names.iter().map(|name| code(name)).collect::<Vec<_>>().join(", "),
        };
        let requests = |count| if count == 1 { "1 request".to_owned() } else { format!("{count} requests") };
        if hidden_clients > 0 {
            notes.push(format!(
                "{}: a proxy's entry in X-Forwarded-For is no address, such as `unknown`, so {names} is that of the proxy.",
                requests(hidden_clients)
            ));
        }
        if unnamed_clients > 0 {
            notes.push(format!(
                "{}: a proxy's entry in X-Forwarded-For is empty, so {names} is missing; the service answers 400.",
                requests(unnamed_clients)
            ));
        }
    }

    /// Names the attributes that no request has.
    fn note_missing(&self, notes: &mut Vec<String>) {
        let wanted = self.wanted.iter().zip(&self.seen);
        for (WantedParts { name, source, .. }, _) in wanted.filter(|(_, is_seen)| !**is_seen) {
            notes.push(match source {
                RequestSource::Attribute(_) => {
                    format!("No request in the logs has {} in the place that --attr names.", code(name))
                }
                _ => {
                    let advice = match nearest(name, &KNOWN) {
                        Some(meant) => format!(": did you mean {}?", code(meant)),
                        None => format!(
                            ". Use {} to name its place in the log.",
                            code(&format!("--attr {name}=SOURCE"))
                        ),
                    };
                    format!("No request in the logs has {}, which is used here{advice}", code(name))
                }
            });
        }
    }
}

/// The time of a flag.
fn bound(
    flag: &str,
    moment: Option<Moment>,
    zone: Option<&TimeZone>,
    disambiguation: Disambiguation,
) -> Result<Option<Timestamp>, SimulateFailure> {
    let time = moment.map(|moment| moment.time(zone, disambiguation)).transpose();
    time.map_err(|utc| {
        SimulateFailure::usage(anyhow::anyhow!(
            "{flag}: the time has no zone; write {utc} for UTC, or name its zone with --tz"
        ))
    })
}

/// Prints how many lines were left out and why, with some of them.
fn complain_of(lines: u64, reason: &str, examples: &[UnreadLine]) {
    let many = if lines == 1 { "" } else { "s" };
    crate::cli::output::complain(format_args!("{lines} line{many}: {reason}"));
    examples.iter().for_each(|example| crate::cli::output::complain(format_args!("  {example}")));
}

/// Returns the failure. Prints the line that a format error is about, with its clients, if they may be shown.
fn failure(error: LogError, show_keys: bool) -> SimulateFailure {
    let quoted = match &error {
        LogError::UnknownFormat { name, line, nearest, .. } => {
            Some((name, nearest.as_ref().map_or(line, |nearest| &nearest.line)))
        }
        LogError::OtherFormat { name, line } | LogError::UnclearFormat { name, line, .. } => {
            Some((name, line))
        }
        LogError::UnclearClient { name, doubt } => Some((name, &doubt.line)),
        _ => None,
    };
    if let Some((name, line)) = quoted.filter(|_| show_keys) {
        crate::cli::output::complain(format_args!("  {name}:{}: {}", line.line, line.text));
    }
    if let LogError::UnclearClient { doubt, .. } = &error
        && show_keys
    {
        for reading in &doubt.readings {
            crate::cli::output::complain(format_args!("  {}: {}", reading.place, reading.client.text));
        }
    }
    error.into()
}

/// Returns the request with those of the wanted attributes that it has, which are marked as seen.
fn hit<'a>(request: &Request<'a>, wanted: &'a [WantedParts], seen: &mut [bool]) -> Hit<'a> {
    let (mut attributes, mut damaged) = (Attributes::default(), None);
    for (WantedParts { name, source, is_decisive }, is_seen) in wanted.iter().zip(seen) {
        if let Some((value, is_text)) = source.value(request) {
            *is_seen = true;
            attributes.push(name.as_str(), value);
            damaged = damaged.or(Some(name.as_str()).filter(|_| *is_decisive && !is_text));
        }
    }
    Hit {
        time: time(request),
        attributes,
        status: request.status(),
        user_agent: request.user_agent(),
        method: request.method(),
        path: request.path(),
        damaged,
    }
}

/// Returns the time at which a request began.
fn time(request: &Request<'_>) -> Timestamp {
    Timestamp::from_unix_millis(request.time_micros().div_euclid(1_000))
}

/// Borrows bytes that are UTF-8. Nearly all are valid, and this is then much faster than `from_utf8_lossy` alone.
fn text(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
}

impl RequestSource {
    fn of(name: &str, args: &LogArgs) -> Self {
        let asked = args.attributes.iter().position(|attribute| attribute.name == name);
        match (asked, Field::named(name)) {
            (Some(place), _) => Self::Attribute(place),
            (None, Some(field)) => Self::Field(field),
            (None, None) if name == "status" => Self::Status,
            (None, None) if name == "bytes" => Self::Bytes,
            (None, None) => Self::Nowhere,
        }
    }

    /// The value, and whether it is UTF-8.
    fn value<'a>(self, request: &Request<'a>) -> Option<(Cow<'a, str>, bool)> {
        let text = |bytes| {
            let text = text(bytes);
            let is_utf8 = matches!(text, Cow::Borrowed(_));
            (text, is_utf8)
        };
        match self {
            Self::Field(field) => request.text(field).map(text),
            Self::Attribute(place) => request.attribute(place).map(text),
            Self::Status => request.status().map(|status| (status.to_string().into(), true)),
            Self::Bytes => request.bytes().map(|bytes| (bytes.to_string().into(), true)),
            Self::Nowhere => None,
        }
    }
}
