//! Which change made which version.

use std::collections::{BTreeMap, HashMap};

use crate::change::{OverrideSaid, Target};
use crate::moment::Moment;
use crate::versions::{Era, Process, Version};

/// A change that was answered.
#[derive(Debug, Clone)]
pub(crate) struct MadeChange {
    pub(crate) era: usize,
    pub(crate) version: Version,
    pub(crate) target: Target,
    /// `None`: the override was deleted.
    pub(crate) said: Option<OverrideSaid>,
    pub(crate) by: Process,
    pub(crate) answered: Moment,
}

/// A change whose answer was lost. It was made as some version after this one, or not at all, which nobody knows until
/// the target is changed again.
#[derive(Debug, Clone)]
pub(crate) struct DoubtfulChange {
    pub(crate) era: usize,
    pub(crate) target: Target,
    pub(crate) after: u64,
}

/// What a version says of a target.
#[derive(Debug)]
pub(crate) enum Entry<'a> {
    Override(&'a OverrideSaid),
    Nothing,
    /// A change of unknown outcome may have been made by then.
    Unknown,
}

/// All changes of a round, era by era.
#[derive(Debug, Default)]
pub(crate) struct Books {
    eras: Vec<EraBook>,
    /// Changes that cannot be, such as two with one number.
    pub(crate) violations: Vec<String>,
}

#[derive(Debug, Default, Clone)]
struct EraBook {
    epoch: Option<u64>,
    targets: HashMap<Target, BTreeMap<u64, Option<OverrideSaid>>>,
    doubts: HashMap<Target, Vec<u64>>,
}

impl Books {
    pub(crate) fn new(eras: &[Era], made: &[MadeChange], doubtful: &[DoubtfulChange]) -> Self {
        let mut books = Self::default();
        for (number, era) in eras.iter().enumerate() {
            let mut book = books.eras.last().map(|before| before.up_to(era.kept)).unwrap_or_default();
            let mut numbers = BTreeMap::new();
            for change in made.iter().filter(|change| change.era == number) {
                let Version { epoch, number } = change.version;
                if *book.epoch.get_or_insert(epoch) != epoch {
                    books.violations.push(format!("another epoch without a loss: {change:?}"));
                }
                if let Some(other) = numbers.insert(number, change) {
                    books.violations.push(format!("two changes are one version: {other:?} and {change:?}"));
                }
                book.targets.entry(change.target.clone()).or_default().insert(number, change.said.clone());
            }
            for doubt in doubtful.iter().filter(|doubt| doubt.era == number) {
                book.doubts.entry(doubt.target.clone()).or_default().push(doubt.after);
            }
            books.eras.push(book);
        }
        books
    }

    /// What a version of an era says of a target.
    pub(crate) fn entry(&self, era: usize, number: u64, target: &Target) -> Entry<'_> {
        let book = &self.eras[era];
        let last = book.targets.get(target).and_then(|changes| changes.range(..=number).next_back());
        let known = last.map_or(0, |(known, _)| *known);
        let doubts = book.doubts.get(target);
        match last {
            _ if doubts.is_some_and(|all| all.iter().any(|after| (known..number).contains(after))) => {
                Entry::Unknown
            }
            Some((_, Some(said))) => Entry::Override(said),
            _ => Entry::Nothing,
        }
    }

    /// The number of the last change that an era knows.
    pub(crate) fn last(&self, era: usize) -> u64 {
        let numbers = self.eras[era].targets.values().filter_map(|changes| changes.keys().next_back());
        numbers.max().copied().unwrap_or(0)
    }

    pub(crate) fn epoch(&self, era: usize) -> Option<u64> {
        self.eras[era].epoch
    }
}

impl EraBook {
    /// The book without all changes after this number, which are lost.
    fn up_to(&self, kept: u64) -> Self {
        let mut left = self.clone();
        left.targets.values_mut().for_each(|changes| changes.retain(|number, _| *number <= kept));
        for doubts in left.doubts.values_mut() {
            doubts.retain(|after| *after < kept);
        }
        // Without any data, the next change begins another history.
        left.epoch = left.epoch.filter(|_| kept > 0);
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::change::Limits;

    fn set(era: usize, number: u64, limits: Limits) -> MadeChange {
        MadeChange {
            era,
            version: Version { epoch: 7, number },
            target: target(),
            said: Some(OverrideSaid { limits, until: None }),
            by: Process { service: 0, start: 0 },
            answered: Moment::now(),
        }
    }

    fn target() -> Target {
        Target::Text { policy: "search", attribute: "tenant", text: "acme".to_owned(), is_whole: true }
    }

    fn era(kept: u64) -> Era {
        Era { kept, begun: Moment::now(), settled: Moment::now() }
    }

    #[test]
    fn a_failover_takes_back_what_it_loses() {
        let made = [set(0, 3, Limits::Denied), set(0, 5, Limits::Unlimited), set(1, 5, Limits::Denied)];
        let books = Books::new(&[era(0), era(4)], &made, &[]);
        let says = |era, number| match books.entry(era, number, &target()) {
            Entry::Override(said) => Some(said.limits.clone()),
            _ => None,
        };
        assert_eq!(
            [says(0, 2), says(0, 4), says(0, 5)],
            [None, Some(Limits::Denied), Some(Limits::Unlimited)]
        );
        assert_eq!([says(1, 4), says(1, 5)], [Some(Limits::Denied), Some(Limits::Denied)]);
        assert!(books.violations.is_empty());
        let twice = Books::new(&[era(0)], &[set(0, 3, Limits::Denied), set(0, 3, Limits::Denied)], &[]);
        assert_eq!(twice.violations.len(), 1);
    }
}
