//! The outcome of a step of a store.

use std::ops::Deref;

use crate::{AnswerError, QuotaState, StoreError};

/// One value for each quota of a step, in the order of its charges; a single value is stored inline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PerQuota<T>(Values<T>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Values<T> {
    One([T; 1]),
    Many(Box<[T]>),
}

impl<T> PerQuota<T> {
    /// Returns no value: a step without charges.
    #[inline]
    pub(crate) fn none() -> Self {
        Self(Values::Many(Box::default()))
    }

    /// Returns the value of the only quota.
    pub const fn one(value: T) -> Self {
        Self(Values::One([value]))
    }
}

impl<T> Deref for PerQuota<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match &self.0 {
            Values::One(value) => value,
            Values::Many(values) => values,
        }
    }
}

impl<T> FromIterator<T> for PerQuota<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        let mut values = values.into_iter();
        match (values.next(), values.next()) {
            (Some(only), None) => Self::one(only),
            (first, second) => Self(Values::Many(first.into_iter().chain(second).chain(values).collect())),
        }
    }
}

impl<'a, T> IntoIterator for &'a PerQuota<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        (**self).iter()
    }
}

/// The states of all quotas after a step.
pub type QuotaStates = PerQuota<QuotaState>;

impl QuotaStates {
    /// Joins the answers to one [call](crate::Store::step_each) with steps on one counter each.
    ///
    /// # Errors
    ///
    /// The first error. If another step changed its counter, or may have, it
    /// [may have charged](StoreError::may_have_charged).
    pub fn of_each(answers: Vec<Result<Self, StoreError>>) -> Result<Self, StoreError> {
        let (mut states, mut failed, mut is_unknown) = (Vec::with_capacity(answers.len()), None, false);
        for answer in answers {
            match only(answer) {
                Ok(state) => states.push(state),
                Err(error) => {
                    is_unknown |= error.may_have_charged();
                    failed.get_or_insert(error);
                }
            }
        }
        match failed {
            None => Ok(states.into_iter().collect()),
            Some(error) if states.is_empty() && !is_unknown => Err(error),
            Some(error) => Err(error.after_others()),
        }
    }

    /// Returns whether every quota had room, so that a charge was admitted.
    #[must_use]
    #[inline(always)]
    pub fn is_admitted(&self) -> bool {
        match &self.0 {
            Values::One([state]) => state.has_room(),
            Values::Many(states) => states.iter().all(QuotaState::has_room),
        }
    }

    /// Returns the index of the quota that decides: the one that denied (the longest wait, if several did), else the
    /// one with the least remaining share. 0 if there is none.
    #[must_use]
    #[inline]
    pub fn deciding(&self) -> usize {
        if self.len() <= 1 {
            return 0;
        }
        // From the back: `max_by` returns the last of equals, and the first quota should decide.
        let heaviest = self.iter().enumerate().rev().max_by(|(_, a), (_, b)| a.compare(b));
        heaviest.map_or(0, |(index, _)| index)
    }

    /// Returns the state of the quota that [decides](Self::deciding); `None` if there is none.
    #[must_use]
    pub fn decided(&self) -> Option<&QuotaState> {
        self.get(self.deciding())
    }
}

/// The state of the only quota of a step.
pub(crate) fn only(answer: Result<QuotaStates, StoreError>) -> Result<QuotaState, StoreError> {
    answer?.first().copied().ok_or_else(|| AnswerError::Nonsense.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first error hid the others: a quota for which the store had no room hid another one with an unknown outcome.
    #[test]
    fn an_unknown_outcome_is_not_hidden_by_another_error() {
        let unknown = StoreError::from(AnswerError::Late);
        let error = QuotaStates::of_each(vec![Err(StoreError::Full), Err(unknown)]);
        assert!(error.is_err_and(|error| error.may_have_charged()));
        let error = QuotaStates::of_each(vec![Err(StoreError::Full), Err(StoreError::Full)]);
        assert!(matches!(error, Err(StoreError::Full)));
    }
}
