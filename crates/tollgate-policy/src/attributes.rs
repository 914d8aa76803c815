//! What a caller says of its request: names and values.

use std::borrow::Cow;

use smallvec::SmallVec;

/// Names and values; borrowed from the request where they stand there as they are.
///
/// Of a name that is given twice the first value counts. How many there may be is for the edge to say, which
/// takes them from strangers.
///
/// There is no `Debug`: values often are persons or secrets.
#[derive(Default, Clone)]
pub struct Attributes<'a>(SmallVec<[(Cow<'a, str>, Cow<'a, str>); 4]>);

impl<'a> Attributes<'a> {
    /// Characters in a name, at most.
    pub const MAX_NAME: usize = 128;

    /// Whether an attribute can have this name: it has 1 to [`MAX_NAME`](Self::MAX_NAME) characters.
    #[must_use]
    pub fn is_name(name: &str) -> bool {
        !name.is_empty() && (name.len() <= Self::MAX_NAME || name.chars().count() <= Self::MAX_NAME)
    }

    /// Adds a name and its value.
    pub fn push(&mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, str>>) {
        self.0.push((name.into(), value.into()));
    }

    /// The value of this name; may be empty.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_ref())
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and values, in the order in which they came.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value.as_ref()))
    }
}

impl<'a, N: Into<Cow<'a, str>>, V: Into<Cow<'a, str>>> FromIterator<(N, V)> for Attributes<'a> {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}
