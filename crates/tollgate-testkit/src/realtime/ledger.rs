//! The ledger: checks every answer against the promises.

use super::answer::UnitAnswer;
use super::clock::{Allowance, Nanos};
use super::figures::OracleFigures;
use super::terms::{LoadPlan, Terms};
use super::track::{Denial, ReadingSpan, Track};

/// The admitted units and the denials, by key and quota.
#[derive(Debug)]
pub struct Ledger {
    allowance: Allowance,
    counters: Vec<GroupCounters>,
    batch: u64,
    figures: OracleFigures,
}

/// The counters of one group.
#[derive(Debug)]
struct GroupCounters {
    policy: &'static str,
    quotas: Vec<Terms>,
    /// For each key, the tracks of its quotas, one after another.
    tracks: Vec<Track>,
    shifts: Vec<Option<Nanos>>,
}

impl Ledger {
    /// Creates an empty ledger for these keys.
    #[must_use]
    pub fn new(plan: &LoadPlan, allowance: Allowance) -> Self {
        let counters = plan.groups.iter().map(|group| {
            let shift = |index| {
                let key = super::terms::key(index);
                group.quotas.iter().map(move |terms| terms.shift(&key))
            };
            let shifts: Vec<_> = (0..group.keys()).flat_map(shift).collect();
            let tracks = vec![Track::default(); shifts.len()];
            GroupCounters { policy: group.policy, quotas: group.quotas.clone(), tracks, shifts }
        });
        Self { allowance, counters: counters.collect(), batch: 0, figures: OracleFigures::default() }
    }

    /// Judges these answers. Every call that began before any of them ended must be among them, or judged before.
    pub fn judge(&mut self, answers: &[UnitAnswer]) {
        let Some(began) = answers.iter().map(|answer| answer.before.coarse).min() else { return };
        self.batch += 1;
        self.figures.asked += answers.len() as u64;
        // All admissions and waits are recorded before anything is judged by them, because the order of threads is
        // unknown.
        for answer in answers {
            self.note(answer, began);
        }
        for answer in answers {
            self.judge_one(answer);
        }
    }

    /// Returns the results so far.
    #[must_use]
    pub fn figures(&self) -> &OracleFigures {
        &self.figures
    }

    /// Forgets all answers, but keeps the results. Denials by kinds other than fixed windows are then not judged.
    pub fn forget(&mut self) {
        for counters in &mut self.counters {
            counters.tracks.fill(Track::incomplete());
        }
    }

    fn note(&mut self, answer: &UnitAnswer, began: Nanos) {
        let counters = &mut self.counters[usize::from(answer.victim.group)];
        let span = ReadingSpan::new(answer.before, answer.after, self.allowance);
        let first = counters.first(answer);
        assert_eq!(answer.quotas.len(), counters.quotas.len(), "each quota says where it stands: {answer:?}");
        self.figures.charged += u64::from(answer.allowed);
        let mut broken = None;
        for (index, (standing, terms)) in answer.quotas.iter().zip(&counters.quotas).enumerate() {
            let track = &mut counters.tracks[first + index];
            track.drop_before(self.batch, began, terms);
            if answer.allowed {
                let shift = counters.shifts[first + index];
                broken =
                    track.admit(span, standing, terms, shift).map(|promise| (promise, *terms)).or(broken);
            } else if let (false, Some(retry_after)) = (standing.has_room, answer.retry_after) {
                track.tell(span, standing, retry_after);
            }
        }
        if let Some((promise, terms)) = broken {
            self.figures.over += 1;
            let policy = counters.policy;
            self.figures.keep(promise, || format!("{policy}, {terms}: {answer:?}"));
        }
    }

    fn judge_one(&mut self, answer: &UnitAnswer) {
        let counters = &self.counters[usize::from(answer.victim.group)];
        let span = ReadingSpan::new(answer.before, answer.after, self.allowance);
        let first = counters.first(answer);
        let policy = counters.policy;
        let mut denial = None;
        for (index, (standing, terms)) in answer.quotas.iter().zip(&counters.quotas).enumerate() {
            let (track, shift) = (&counters.tracks[first + index], counters.shifts[first + index]);
            if let Some(wrong) = track.judge_window(span, standing, terms, shift, answer.allowed) {
                self.figures.wrong_answers += 1;
                self.figures.keep(wrong, || format!("{policy}, {terms}: {answer:?}"));
            }
            if !answer.allowed && !standing.has_room {
                denial = track.judge_denial(span, standing, terms).map(|denial| (denial, *terms)).or(denial);
            }
        }
        match denial {
            Some((Denial::Early(why), terms)) => {
                self.figures.early_denials += 1;
                self.figures.keep(why, || format!("{policy}, {terms}: {answer:?}"));
            }
            Some((Denial::False, terms)) => {
                self.figures.false_denials += 1;
                let promise = "G2: a window with room denies a unit";
                self.figures.keep(promise, || format!("{policy}, {terms}: {answer:?}"));
            }
            None => {}
        }
        self.judge_verdict(answer);
    }

    /// All or nothing: a request is allowed if every quota has room, and a denial names the end of its windows.
    fn judge_verdict(&mut self, answer: &UnitAnswer) {
        let denying = answer.quotas.iter().filter(|standing| !standing.has_room);
        let wait = denying.map(|standing| standing.end - standing.now).max();
        if answer.allowed != wait.is_none() || answer.retry_after != wait {
            self.figures.wrong_answers += 1;
            self.figures.keep("rule 8: the verdict is not that of the quotas", || format!("{answer:?}"));
        }
    }
}

impl GroupCounters {
    fn first(&self, answer: &UnitAnswer) -> usize {
        answer.victim.index as usize * self.quotas.len()
    }
}
