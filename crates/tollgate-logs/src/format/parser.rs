//! Lines of one file, read by its format.

use jiff::tz::TimeZone;

use super::audit::ClientFields;
use super::json::FieldTree;
use super::scanner::Scanner;
use super::table::Table;
use super::wrapping::{Inside, Layer, Wrapping};
use super::{Format, FormatShape, envelope};
use crate::draft::Draft;
use crate::field::Instant;
use crate::plan::Plan;
use crate::reason::{Kind, Reason};
use crate::record::Record;
use crate::time::{Fold, Zone};

/// Reads the lines of one file, from the first on.
#[derive(Debug)]
pub(crate) struct Parser {
    layers: Vec<Layer>,
    form: Form,
    zone: Option<Zone>,
    draft: Draft,
}

#[derive(Debug)]
enum Form {
    Template(Scanner),
    Objects(FieldTree),
    Table(Table),
}

impl Parser {
    /// # Errors
    ///
    /// The name of a field that is needed, and that the format does not have.
    pub(crate) fn new(
        format: &Format,
        wrapping: &Wrapping,
        plan: &Plan,
        zone: Option<&TimeZone>,
    ) -> Result<Self, String> {
        let form = match &format.shape {
            FormatShape::Template(template) => Form::Template(template.scanner(plan)?),
            FormatShape::Objects(objects) => Form::Objects(FieldTree::new(objects, plan)?),
            FormatShape::Table(style) => Form::Table(Table::new(*style)),
        };
        let (layers, draft) = (wrapping.layers(), Draft::default());
        Ok(Self { layers, form, zone: zone.cloned().map(Zone::new), draft })
    }

    /// Reads a line. If it is a [`Kind::Request`], that is [`Parser::record`] now.
    pub(crate) fn read(&mut self, plan: &Plan, line: &[u8]) -> Result<Kind, Reason> {
        let mut text = line;
        for layer in &mut self.layers {
            text = match layer.take_off(text)? {
                Inside::Line(inside) => inside,
                Inside::Nothing(kind) => return Ok(kind),
            };
        }
        if text.trim_ascii().is_empty() {
            return Ok(Kind::Other);
        }
        self.draft.clear(plan);
        let kind = match &mut self.form {
            Form::Template(scanner) => scanner.read(plan, text, &mut self.draft),
            Form::Objects(fields) => fields.read(plan, text, &mut self.draft),
            Form::Table(table) => table.read(plan, text, &mut self.draft),
        }?;
        if kind == Kind::Request {
            let has_envelope = plan.time.is_none() && Wrapping::is_json(&self.layers);
            let outer = || has_envelope.then(|| envelope::stamp(line)).flatten();
            self.draft.finish(plan, self.zone.as_mut(), outer)?;
        }
        Ok(kind)
    }

    pub(crate) fn record(&mut self) -> &mut Record {
        &mut self.draft.record
    }

    /// Which instant the line logged that was read last.
    pub(crate) fn instant(&self) -> Option<Instant> {
        self.draft.instant
    }

    /// Returns how many fields the line of JSON that was read last has of those that its format knows.
    pub(crate) const fn known_fields(&self) -> u32 {
        match &self.form {
            Form::Objects(fields) => fields.known(),
            _ => 0,
        }
    }

    /// The column that [`Reason::NoField`] is about.
    pub(crate) fn missing(&self) -> &str {
        match &self.form {
            Form::Table(table) => table.missing.as_deref().unwrap_or_default(),
            _ => "",
        }
    }

    /// Refuses lines whose client is a name from now on.
    pub(crate) fn expect_addresses(&mut self) {
        self.draft.has_only_addresses = true;
    }

    /// Refuses lines from now on that do not show for certain who their client is: those with an address in another
    /// field that a format of this kind may have for the client.
    pub(crate) fn expect_one_client(&mut self, format: &Format) {
        let watched = ClientFields::of(format);
        match (&mut self.form, &format.shape) {
            (Form::Template(scanner), FormatShape::Template(template)) => {
                for (piece, name) in scanner.fields.iter_mut().zip(template.names()) {
                    piece.watch = watched.watch(name);
                }
            }
            (Form::Objects(fields), _) => fields.is_watched = !watched.others.is_empty(),
            (Form::Table(table), _) => table.is_watched = !watched.others.is_empty(),
            (Form::Template(_), _) => {}
        }
    }

    /// What the log has said so far of an hour that exists twice.
    pub(crate) fn fold(&self) -> Option<Fold> {
        self.zone.as_ref().and_then(Zone::fold)
    }

    /// Goes on where the file before it in its series ended.
    pub(crate) fn go_on(&mut self, fold: Fold) {
        self.zone.iter_mut().for_each(|zone| zone.go_on(fold));
    }

    /// Whether any line had the `X-Forwarded-For` that an attribute asks for.
    pub(crate) fn has_forwarded(&self) -> bool {
        self.draft.has_forwarded
    }

    /// Returns how many lines have a client that a proxy hides, and how many one that it does not name.
    pub(crate) fn hidden_clients(&self) -> (u64, u64) {
        (self.draft.hidden, self.draft.unnamed)
    }

    /// Returns how many lines have begun whose last part is missing.
    pub(crate) fn begun(&self) -> usize {
        self.layers.iter().map(Layer::begun).sum()
    }

    /// Returns how many times existed twice, at the end of summer time.
    pub(crate) fn ambiguous(&self) -> u64 {
        self.zone.as_ref().map_or(0, |zone| zone.ambiguous)
    }
}
