//! Requests and clients of each class.

use crate::class::Classes;
use crate::replay::clients::Met;
use crate::replay::verdict::Verdict;
use crate::report::{ClassReport, Clientless};

/// Requests of each class, and the clients that made them. Those that are in no class come first.
#[derive(Debug, Default)]
pub(crate) struct ByClass {
    classes: Vec<ClassFigures>,
    bytes: usize,
}

#[derive(Debug, Default)]
struct ClassFigures {
    requests: u64,
    decided: u64,
    denied: u64,
    newly_denied: u64,
    clientless: Clientless,
    clients: Met,
}

impl ByClass {
    /// The memory for the clients of all classes and policies together. Where it does not suffice, fewer are followed.
    pub(crate) const MAX_BYTES: usize = 512 << 20;

    /// Policies times classes at most. So many take little more than half of the memory as long as 4,096 clients are
    /// followed.
    pub(crate) const MAX_PAIRS: usize = 100_000;

    /// For so many classes. Without any, nothing is counted.
    pub(crate) fn new(classes: usize) -> Self {
        let counted = if classes == 0 { 0 } else { classes + 1 };
        Self { classes: std::iter::repeat_with(ClassFigures::default).take(counted).collect(), bytes: 0 }
    }

    /// Notes a request of a class, counted from 1, and of a client, if it is followed: what became of it, and under the
    /// policies to compare with.
    pub(crate) fn note(&mut self, class: u8, client: Option<u32>, verdict: Verdict, before: Option<Verdict>) {
        let Some(figures) = self.classes.get_mut(usize::from(class)) else { return };
        figures.requests += 1;
        figures.decided += u64::from(verdict.is_decided());
        figures.denied += u64::from(verdict.is_denied());
        let is_new = verdict.is_denied() && before.is_some_and(Verdict::is_allowed);
        figures.newly_denied += u64::from(is_new);
        figures.clientless.note(client, verdict, before);
        let Some(client) = client else { return };
        let bytes = figures.bytes();
        figures.clients.note(client, verdict, before);
        self.bytes += figures.bytes() - bytes;
    }

    /// The memory that clients take.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps the clients that had these numbers.
    pub(crate) fn keep(&mut self, kept: &[u32]) {
        for figures in &mut self.classes {
            // Nobody knows which of them were of clients that are still followed.
            let ClassFigures { denied, newly_denied, .. } = *figures;
            figures.clientless = Clientless { denied, newly_denied };
            figures.clients.keep(kept);
        }
        self.bytes = self.classes.iter().map(ClassFigures::bytes).sum();
    }

    /// The figures of classes with these names; those in no class are `others`, and last.
    pub(crate) fn reports(&self, classes: &Classes, one_client_in: u64) -> Vec<ClassReport> {
        let names = classes.names().chain(["others"]).map(str::to_owned);
        let figures = self.classes.iter().skip(1).chain(self.classes.first());
        let reports = names.zip(figures).map(|(class, figures)| ClassReport {
            class,
            requests: figures.requests,
            decided: figures.decided,
            denied: figures.denied,
            newly_denied: figures.newly_denied,
            clients: figures.clients.all() * one_client_in,
            denied_clients: figures.clients.denied() * one_client_in,
            newly_denied_clients: figures.clients.newly_denied() * one_client_in,
            clientless: figures.clientless,
        });
        reports.collect()
    }
}

impl ClassFigures {
    const fn bytes(&self) -> usize {
        self.clients.bytes()
    }
}
