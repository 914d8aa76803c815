//! The results of a proof.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::AddAssign;

/// Counts of answers and of broken promises.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OracleFigures {
    /// Requests that were answered.
    pub asked: u64,
    /// Units that were admitted.
    pub charged: u64,
    /// Units that were admitted beyond the promises (G1, G3).
    pub over: u64,
    /// Denials of clients that waited as told (rule 10).
    pub early_denials: u64,
    /// Denials in windows that had room (G2).
    pub false_denials: u64,
    /// Answers with an impossible window, or with a verdict that contradicts their quotas (rules 1, 2, 8 and 9).
    pub wrong_answers: u64,
    /// The first answers that broke each promise.
    pub stories: BTreeMap<&'static str, Vec<String>>,
}

/// How many answers are kept for each broken promise.
const KEPT: usize = 3;

impl OracleFigures {
    /// Returns whether every promise was kept.
    #[must_use]
    pub fn are_clean(&self) -> bool {
        [self.over, self.early_denials, self.false_denials, self.wrong_answers] == [0; 4]
    }

    pub(super) fn keep(&mut self, promise: &'static str, story: impl FnOnce() -> String) {
        let stories = self.stories.entry(promise).or_default();
        if stories.len() < KEPT {
            stories.push(story());
        }
    }
}

impl AddAssign for OracleFigures {
    fn add_assign(&mut self, other: Self) {
        self.asked += other.asked;
        self.charged += other.charged;
        self.over += other.over;
        self.early_denials += other.early_denials;
        self.false_denials += other.false_denials;
        self.wrong_answers += other.wrong_answers;
        for (promise, stories) in other.stories {
            for story in stories {
                self.keep(promise, || story);
            }
        }
    }
}

/// In the format of a `RESULT` line.
impl fmt::Display for OracleFigures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { asked, charged, over, early_denials, false_denials, wrong_answers, .. } = self;
        write!(f, "charged={charged} over={over} early_denials={early_denials} ")?;
        write!(f, "false_denials={false_denials} wrong_answers={wrong_answers} asked={asked}")
    }
}
