//! A request as policies see it: available values, and values that are found on demand.

use std::borrow::Cow;
use std::fmt;

use smallvec::SmallVec;
use tollgate_policy::{AttributeValue, Texts, UnknownValue, View};

#[cfg(feature = "jwt")]
use super::read_claims;
use super::{AttributeError, AttributeSources, FoundValue, SourcedAttribute, ValueSource};
use crate::head::Head;

/// A request as policies see it: made by [`AttributeSources::view`].
///
/// Available values are read immediately. Claims of tokens, and values that need waiting, are [found](Self::find) when
/// a policy needs them, each once.
pub struct RequestView<'r> {
    head: Head<'r>,
    sources: &'r AttributeSources,
    values: KnownValues<'r>,
}

/// The known values of a request, and why others are not known.
pub(crate) struct KnownValues<'r> {
    attributes: Cow<'r, [SourcedAttribute]>,
    /// One for each attribute.
    values: SmallVec<[KnownValue<'r>; 4]>,
    /// The path as it was sent, if it has two readings.
    sent_path: Option<AttributeValue<'r>>,
    /// The errors of invalid values.
    faults: Vec<(usize, AttributeError)>,
}

type KnownValue<'r> = Result<Option<AttributeValue<'r>>, UnknownValue>;

impl<'r> RequestView<'r> {
    pub(super) fn new(sources: &'r AttributeSources, head: Head<'r>) -> Self {
        let mut values = KnownValues {
            attributes: (&*sources.attributes).into(),
            values: SmallVec::with_capacity(sources.attributes.len()),
            sent_path: None,
            faults: Vec::new(),
        };
        for (place, attribute) in sources.attributes.iter().enumerate() {
            values.values.push(Err(UnknownValue::NotYet));
            match (&attribute.source, head.route()) {
                // A route is no path that was sent, and has one reading.
                (ValueSource::Path, Some(route)) => values.set(place, Some((route.into(), None))),
                (ValueSource::Path, None) => values.put(place, Ok(Some(head.sent_path().into()))),
                (ValueSource::AtHand(source), _) => values.put(place, source.attribute(head)),
                _ => {}
            }
        }
        Self { head, sources, values }
    }

    /// Resumes with the known values.
    pub(crate) fn resumed(
        sources: &'r AttributeSources,
        head: Head<'r>,
        known: KnownValues<'static>,
    ) -> Self {
        // One by one, because the compiler cannot shorten a lifetime inside a `SmallVec`.
        let values = known.values.into_iter().map(|value| value as KnownValue<'r>);
        let values = KnownValues {
            attributes: (&*sources.attributes).into(),
            values: values.collect(),
            sent_path: known.sent_path,
            faults: known.faults,
        };
        Self { head, sources, values }
    }

    pub(crate) const fn values(&self) -> &KnownValues<'r> {
        &self.values
    }

    /// The known values, to [resume](Self::resumed) a view.
    pub(crate) fn into_values(self) -> KnownValues<'static> {
        self.values.to_static()
    }

    /// Finds the value of this attribute, if it is not known yet. A token is verified once for all its claims.
    ///
    /// # Errors
    ///
    /// If the value is invalid.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the value stays unknown.
    pub async fn find(&mut self, name: &str) -> Result<(), AttributeError> {
        if !self.find_at_once(name)
            && let Some(place) = self.values.place(name)
            && let Some(ValueSource::Later(find)) = self.source(place)
        {
            let found = find(self.head).await;
            self.values.put(place, found);
        }
        self.values.fault(name).map_or(Ok(()), |fault| Err(fault.clone()))
    }

    /// Like [`find`](Self::find), but only if it need not wait. Otherwise it returns `false` and does nothing.
    pub(crate) fn find_at_once(&mut self, name: &str) -> bool {
        let Some(place) = self.values.place(name) else { return true };
        if self.values.values.get(place) != Some(&Err(UnknownValue::NotYet)) {
            return true;
        }
        match self.source(place) {
            Some(ValueSource::Later(_)) => return false,
            Some(ValueSource::AtHand(source)) => self.values.put(place, source.attribute(self.head)),
            #[cfg(feature = "jwt")]
            Some(ValueSource::Claim(claim)) => {
                for (place, value) in read_claims(self.sources, claim, self.head) {
                    self.values.put(place, value);
                }
            }
            Some(ValueSource::Path) | None => {}
        }
        true
    }

    fn source(&self, place: usize) -> Option<&'r ValueSource> {
        self.sources.attributes.get(place).map(|attribute| &attribute.source)
    }
}

impl<'r> KnownValues<'r> {
    fn place(&self, name: &str) -> Option<usize> {
        self.attributes.iter().position(|other| *other.name == *name)
    }

    fn put(&mut self, place: usize, found: FoundValue<'r>) {
        let (Some(attribute), Some(value)) = (self.attributes.get(place), self.values.get_mut(place)) else {
            return;
        };
        match found {
            Ok(found) => {
                let readings = found.and_then(|value| value.readings(&attribute.name));
                self.set(place, readings);
            }
            Err(fault) => {
                *value = Err(UnknownValue::Wrong);
                self.faults.push((place, fault));
            }
        }
    }

    /// Notes a value, and the path as it was sent if that is another one.
    fn set(&mut self, place: usize, readings: Option<(AttributeValue<'r>, Option<AttributeValue<'r>>)>) {
        let (value, sent) = readings.unzip();
        if let Some(known) = self.values.get_mut(place) {
            *known = Ok(value);
        }
        // Only a path has a second reading.
        self.sent_path = sent.flatten().or(self.sent_path.take());
    }

    /// The error of this attribute's value.
    pub(crate) fn fault(&self, name: &str) -> Option<&AttributeError> {
        let place = self.place(name)?;
        self.faults.iter().find_map(|(other, fault)| (*other == place).then_some(fault))
    }

    /// The same, without the request.
    pub(crate) fn to_static(&self) -> KnownValues<'static> {
        let owned = |value: &KnownValue<'_>| value.clone().map(|value| value.map(AttributeValue::into_owned));
        KnownValues {
            attributes: self.attributes.to_vec().into(),
            values: self.values.iter().map(owned).collect(),
            sent_path: self.sent_path.clone().map(AttributeValue::into_owned),
            faults: self.faults.clone(),
        }
    }
}

impl View for KnownValues<'_> {
    fn value(&self, name: &str) -> Result<Option<Texts<'_>>, UnknownValue> {
        match self.place(name).and_then(|place| self.values.get(place)) {
            None => Ok(None),
            Some(value) => texts(value),
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.attributes.iter().map(|attribute| &*attribute.name)
    }

    fn sent_path(&self) -> Option<Texts<'_>> {
        self.sent_path.as_ref().map(AttributeValue::texts)
    }

    fn is_verified(&self, name: &str) -> bool {
        self.attributes.iter().any(|attribute| *attribute.name == *name && attribute.is_verified)
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, Result<Option<Texts<'_>>, UnknownValue>)> {
        self.names().zip(self.values.iter().map(texts))
    }
}

fn texts<'v>(value: &'v KnownValue<'_>) -> Result<Option<Texts<'v>>, UnknownValue> {
    value.as_ref().map(|value| value.as_ref().map(AttributeValue::texts)).map_err(|unknown| *unknown)
}

impl View for RequestView<'_> {
    fn value(&self, name: &str) -> Result<Option<Texts<'_>>, UnknownValue> {
        self.values.value(name)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.values.names()
    }

    fn sent_path(&self) -> Option<Texts<'_>> {
        self.values.sent_path()
    }

    fn is_verified(&self, name: &str) -> bool {
        self.values.is_verified(name)
    }

    fn pairs(&self) -> impl Iterator<Item = (&str, Result<Option<Texts<'_>>, UnknownValue>)> {
        self.values.pairs()
    }
}

/// Only the names, because values may be personal or secret.
impl fmt::Debug for RequestView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}
