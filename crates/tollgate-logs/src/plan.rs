//! The plan for each line: the wanted fields, and the user's attributes.

use crate::attribute::{Attribute, AttributeSource, TimeField};
use crate::field::{Field, Instant};
use crate::meaning::{FieldNames, Meaning};
use crate::record::KeptSlots;

/// The plan for each line, whatever the format.
///
/// A record has a slot for each [`Field`], one for each attribute, and one for `X-Forwarded-For`.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) time: Option<TimeField>,
    /// Whether formats that lack a field for an attribute are errors.
    pub(crate) is_strict: bool,
    /// Whether a log without any client in its first lines is an error.
    pub(crate) needs_client: bool,
    /// Whether a field is kept, by its place.
    wanted: [bool; Field::ALL.len()],
}

/// The use of one field of a format.
#[derive(Debug, Clone, Default)]
pub(crate) struct FieldUse {
    pub(crate) meaning: Option<Meaning>,
    /// The slots of attributes that it is the value of.
    pub(crate) slots: Vec<usize>,
    /// Whether it is another field for the client.
    pub(crate) is_other_client: bool,
}

/// The names of fields in a kind of format.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dialect {
    pub(crate) names: FieldNames,
    /// The name of a header of the request; `None` if there is no rule for it.
    pub(crate) header: fn(&str) -> Option<String>,
}

impl Plan {
    /// For these fields of requests, and those that attributes are parts of.
    pub(crate) fn new(attributes: Vec<Attribute>, time: Option<TimeField>, fields: &[Field]) -> Self {
        let needs = |field| {
            attributes.iter().any(|attribute| match attribute.source {
                AttributeSource::Query(_) => field == Field::Query,
                AttributeSource::Xff(_) => field == Field::Ip,
                _ => false,
            })
        };
        let wanted = Field::ALL.map(|field| fields.contains(&field) || needs(field));
        Self { attributes, time, is_strict: true, needs_client: false, wanted }
    }

    /// Sets whether a log without any client in its first lines is an error.
    pub(crate) fn with_client(self, needs_client: bool) -> Self {
        Self { needs_client, ..self }
    }

    /// To find out the format of a log. If it lacks an attribute, that is reported later, and not that no format fits.
    pub(crate) fn for_detection(attributes: Vec<Attribute>, time: Option<TimeField>) -> Self {
        Self { is_strict: false, ..Self::new(attributes, time, &[Field::Path]) }
    }

    pub(crate) fn slots(&self) -> usize {
        self.forwarded() + 1
    }

    /// The attribute that tells who the client is.
    pub(crate) fn client(&self) -> Option<&AttributeSource> {
        let attribute = self.attributes.iter().find(|attribute| attribute.name == Field::Ip.name())?;
        Some(&attribute.source)
    }

    /// The slots that requests have in the end.
    pub(crate) fn kept(&self) -> KeptSlots {
        let is_replaced = |field: Field| self.attributes.iter().any(|other| other.name == field.name());
        let fields = Field::ALL.into_iter().filter(|field| self.wants(*field) || is_replaced(*field));
        let attributes = (0..self.attributes.len()).map(Self::slot);
        fields.map(|field| field as usize).chain(attributes).collect()
    }

    /// The slot of an attribute.
    pub(crate) fn slot(place: usize) -> usize {
        Field::ALL.len() + place
    }

    /// The slot of `X-Forwarded-For`, which is used while a line is read.
    pub(crate) fn forwarded(&self) -> usize {
        Self::slot(self.attributes.len())
    }

    pub(crate) fn wants(&self, field: Field) -> bool {
        self.wanted.get(field as usize).copied().unwrap_or(false)
    }

    /// The attributes that are fields of lines, as this dialect calls them: the slot, and the name or what the user
    /// wrote if there can be no such field.
    pub(crate) fn asked<'p>(
        &'p self,
        dialect: &'p Dialect,
    ) -> impl Iterator<Item = (usize, Result<String, String>)> {
        self.attributes.iter().enumerate().filter_map(move |(place, attribute)| {
            let name = match &attribute.source {
                AttributeSource::Field(name) => Ok(name.clone()),
                AttributeSource::Header(header) => {
                    (dialect.header)(header).ok_or_else(|| format!("header:{header}"))
                }
                AttributeSource::Json(pointer) => Err(format!("json:{pointer}")),
                AttributeSource::Query(_) | AttributeSource::Xff(_) => return None,
            };
            Some((Self::slot(place), name))
        })
    }

    /// Returns the use of each field of a line whose fields have these names.
    ///
    /// # Errors
    ///
    /// The name of a field that is asked for and not there: `time`, or that of an attribute.
    pub(crate) fn resolve(
        &self,
        fields: &[String],
        dialect: &Dialect,
        meaning: impl Fn(&str) -> Option<Meaning>,
    ) -> Result<Vec<FieldUse>, String> {
        let mut uses = vec![FieldUse::default(); fields.len()];
        let mut covered = 0;
        // Headers of tables are in lower case, and the user's name may not be.
        let own = self.time.iter().filter_map(|time| {
            let is_like = |field: &&String| time.field.eq_ignore_ascii_case(field);
            let exact = fields.iter().find(|field| **field == time.field);
            Some((exact.or_else(|| fields.iter().find(is_like))?.as_str(), self.time_of(time)))
        });
        let known = dialect.names.iter().map(|(name, meaning)| (*name, meaning.clone()));
        let special = fields.iter().filter_map(|field| Some((field.as_str(), meaning(field)?)));
        for (name, meaning) in own.chain(known).chain(special) {
            let place = fields.iter().position(|field| field == name);
            let free = place.and_then(|place| uses.get_mut(place)).filter(|used| used.meaning.is_none());
            if let Some(used) = free.filter(|_| meaning.covers() & !covered > 0) {
                covered |= meaning.covers();
                used.meaning = Some(meaning);
            }
        }
        for (slot, name) in self.asked(dialect) {
            let is_it = |field: &String| name.as_ref().is_ok_and(|name| name.eq_ignore_ascii_case(field));
            let place = fields.iter().position(is_it);
            match place.and_then(|place| uses.get_mut(place)) {
                Some(used) => used.slots.push(slot),
                None if self.is_strict => return Err(name.unwrap_or_else(|asked| asked)),
                None => {}
            }
        }
        let has_day = (Meaning::Date.covers() | Meaning::Clock.covers()) & !covered == 0;
        if self.time.is_some() && !uses.iter().any(|used| used.meaning == own_time(self)) {
            return Err(self.time.as_ref().map_or(String::new(), |time| time.field.clone()));
        }
        if covered & Meaning::TIME == 0 && !has_day { Err("time".to_owned()) } else { Ok(uses) }
    }

    /// The meaning of the field that the user says has the time.
    pub(crate) fn time_of(&self, time: &TimeField) -> Meaning {
        Meaning::Time(time.form.clone(), Instant::Unknown)
    }
}

fn own_time(plan: &Plan) -> Option<Meaning> {
    plan.time.as_ref().map(|time| plan.time_of(time))
}
