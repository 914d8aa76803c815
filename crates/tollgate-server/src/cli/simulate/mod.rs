//! `tollgate simulate` and `tollgate suggest`: the effect of limits on the traffic in logs, and limits that deny few
//! clients.
//!
//! The replay and the survey are those of `tollgate-simulate`, the logs are read by `tollgate-logs`. This module brings
//! both together.

mod clients;
mod failure;
mod inputs;
mod progress;
mod read_report;
mod requests;
mod suggest;

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use tollgate_logs::Field;
use tollgate_policy::{Config, Identity, Policies};
use tollgate_simulate::{
    CheckedReport, Classes, Gate, GateVerdict, KnownClients, Note, Options, Replay, Report, Style,
};

pub use self::failure::SimulateFailure;
use self::inputs::Inputs;
use self::requests::LogRequests;
pub use self::suggest::suggest;
use crate::args::SimulateArgs;
use crate::args::exit_status::{FAILURE, NO_DECISION, SUCCESS};

/// Replays the logs. Returns the text to print, and the exit status.
///
/// # Errors
///
/// If the arguments are wrong, or the logs give no answer.
pub fn run(args: &SimulateArgs) -> Result<(String, u8), SimulateFailure> {
    let Inputs { policies, is_from_file, logs } = Inputs::of(args)?;
    let has_policies = !policies.as_slice().is_empty();
    let needless = [("--fail-if", args.fail_if.is_empty()), ("--baseline", args.baseline.is_none())];
    if let Some((flag, _)) = needless.into_iter().find(|(_, is_absent)| !has_policies && !is_absent) {
        return Err(SimulateFailure::usage(anyhow::anyhow!(
            "{flag} needs policies: name a policy file before the logs, or a --limit"
        )));
    }
    let baseline = args.baseline.as_ref().map(Config::load).transpose()?.map(Config::into_policies);
    let classes = classes(&args.classes, args.known.as_deref(), ("--client", &args.client))?;
    let client = Identity::of_word(&args.client).ok_or_else(|| {
        SimulateFailure::usage(anyhow::anyhow!("--client: no attribute can be named `{}`", args.client))
    })?;
    let page = args.report.as_deref().map(Page::create).transpose()?;
    let decisive = [Some(&policies), baseline.as_ref()].into_iter().flatten();
    let decisive = decisive.flat_map(Policies::attributes).map(str::to_owned).collect();
    let others = classes.attributes().chain([args.client.as_str()]).map(str::to_owned).collect();
    let options = Options {
        client,
        max_clients: args.max_clients,
        max_attribute_bytes: args.max_attribute_bytes,
        zone: args.log.tz.clone().unwrap_or(TimeZone::UTC),
        rungs: args.try_limits,
        classes,
        routes: !is_from_file,
        ..Options::default()
    };
    let mut replay = Replay::new(policies, baseline, options)?;
    replay.expect_gates(&args.fail_if)?;
    let method = [Field::Method];
    let shown = if is_from_file { &method[..0] } else { &method };
    let requests = LogRequests::open(logs, &args.log, &decisive, &others, shown)?;
    let (read, notes) = requests.each(|hits| Ok(replay.requests(hits)?))?;
    let mut report = replay.report();
    report.read = Some(read);
    report.notes.splice(0..0, notes.into_iter().map(Note::OfLogs));
    finish(args, report, page)
}

/// Classes, with the clients of a list that have these values of the attribute that a flag names.
fn classes(
    classes: &[String],
    list: Option<&Path>,
    (flag, attribute): (&str, &str),
) -> Result<Classes, SimulateFailure> {
    let Some(list) = list else { return Ok(Classes::parse(classes, None)?) };
    if Identity::of_word(attribute) == Some(Identity::Global) {
        return Err(SimulateFailure::usage(anyhow::anyhow!(
            "--known: {flag} {attribute} counts all clients as one, so a list cannot tell them apart"
        )));
    }
    let text = Config::read(list)
        .map_err(|error| SimulateFailure::usage(anyhow::Error::new(error).context("--known")))?;
    // Tables are named without a folder.
    let file = list.file_name().unwrap_or_default().to_string_lossy();
    Ok(Classes::parse(classes, Some(KnownClients { attribute, file: &file, text: &text }))?)
}

/// Returns how text is set off: with colour on a terminal that can show it, unless `NO_COLOR` is set (no-color.org).
fn style(is_terminal: bool) -> Style {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    if is_terminal && !is_set("NO_COLOR") && !is_dumb { Style::Colored } else { Style::Plain }
}

/// Holds the report against the gates, writes the page, and returns the text.
fn finish(
    args: &SimulateArgs,
    mut report: Report,
    page: Option<Page>,
) -> Result<(String, u8), SimulateFailure> {
    let needed = |gate: &Gate| args.min_requests.map_or_else(|| gate.usual_requests(), NonZeroU64::get);
    let gates = args.fail_if.iter().map(|gate| gate.check(&report, needed(gate)));
    let gates = gates.collect::<Result<Vec<_>, _>>()?;
    let is_read_by_people = !args.json && !args.md && io::stdout().is_terminal();
    let shown = is_read_by_people.then(|| report.clone());
    if !args.log.show_keys {
        report.hide_keys();
    }
    let hidden = CheckedReport::new(report, gates);
    if let Some(page) = page {
        page.write(&hidden.html())?;
    }
    let answer = match shown {
        Some(report) => CheckedReport::new(report, hidden.gates),
        None => hidden,
    };
    let status = match answer.held() {
        GateVerdict::Failed => FAILURE,
        _ if !answer.report.has_answer() => NO_DECISION,
        GateVerdict::Held => SUCCESS,
        GateVerdict::NoAnswer => NO_DECISION,
    };
    let text = if args.json {
        answer.json()
    } else if args.md {
        answer.markdown()
    } else {
        answer.text(style(is_read_by_people))
    };
    Ok((text, status))
}

/// A file for the page. It is opened before anything is read, so that a file that cannot be written is reported at once
/// instead of after an hour.
struct Page {
    file: File,
    path: PathBuf,
}

/// What every page begins with.
const PAGE: &[u8] = b"<!doctype html>";

impl Page {
    fn create(path: &Path) -> Result<Self, SimulateFailure> {
        // `--report access.log` would replace the log.
        if !Self::may_replace(path).map_err(|error| Self::failure(path, error))? {
            return Err(SimulateFailure::usage(anyhow::anyhow!(
                "--report: {} exists and is not a page; name another file",
                path.display()
            )));
        }
        let file = File::options().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| Self::failure(path, error))?;
        Ok(Self { file, path: path.into() })
    }

    /// Whether this is another page, is empty, or is no file.
    fn may_replace(path: &Path) -> io::Result<bool> {
        if !path.is_file() {
            return Ok(true);
        }
        let mut start = Vec::new();
        File::open(path)?.take(PAGE.len() as u64).read_to_end(&mut start)?;
        Ok(start.is_empty() || start == PAGE)
    }

    fn write(mut self, page: &str) -> Result<(), SimulateFailure> {
        let written = self.file.set_len(0).and_then(|()| self.file.write_all(page.as_bytes()));
        written.map_err(|error| Self::failure(&self.path, error))
    }

    fn failure(path: &Path, error: io::Error) -> SimulateFailure {
        SimulateFailure::usage(
            anyhow::Error::new(error).context(format!("--report: cannot write {}", path.display())),
        )
    }
}
