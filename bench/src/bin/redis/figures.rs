//! The results of the rounds, and their output.

use tollgate_bench_harness::samples::{Samples, figure};

use crate::cases::{Case, Side};

/// The figures of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figure {
    /// Decisions, or requests, a second.
    Rate,
    /// The median time of a decision in microseconds.
    Micros,
    /// Microseconds of the store's CPU time per decision.
    StoreMicros,
    /// Microseconds of the caller's CPU time per decision.
    OwnMicros,
    /// Calls a second, as the store counts them.
    StoreCalls,
    /// The store's memory for one counter.
    Bytes,
}

/// The results of the rounds for both sides of a case.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    ours: Row,
    peer: Row,
}

/// The samples of each measured figure.
#[derive(Debug, Default)]
struct Row(Vec<(Figure, Samples)>);

impl Rows {
    pub(crate) fn push(&mut self, side: Side, measured: Vec<(Figure, f64)>) {
        let row = match side {
            Side::Ours => &mut self.ours,
            Side::Peer => &mut self.peer,
        };
        for (figure, value) in measured {
            row.samples(figure).push(value);
        }
    }
}

impl Row {
    fn samples(&mut self, figure: Figure) -> &mut Samples {
        let known = self.0.iter().position(|(known, _)| *known == figure);
        let index = known.unwrap_or_else(|| {
            self.0.push((figure, Samples::default()));
            self.0.len() - 1
        });
        &mut self.0[index].1
    }

    fn get(&self, figure: Figure) -> Option<&Samples> {
        self.0.iter().find(|(known, _)| *known == figure).map(|(_, samples)| samples)
    }

    fn median(&self, figure: Figure) -> f64 {
        self.get(figure).map_or(0.0, Samples::median)
    }
}

pub(crate) fn print_results(case: &Case, Rows { ours, peer }: &Rows) {
    for (name, of) in case.results {
        let (ours_is, peer_is) = (ours.median(*of), peer.median(*of));
        let also = case.also.map(|(name, of)| format!(" {name}={}", figure(ours.median(of))));
        println!(
            "RESULT {name} ours={} peer={} ratio={}{}",
            figure(ours_is),
            figure(peer_is),
            figure(ours_is / peer_is),
            also.unwrap_or_default(),
        );
    }
}

pub(crate) fn print_table<'a>(rows: impl Iterator<Item = (&'a Case, &'a Rows)>) {
    println!(
        "\n{:<20} {:<10} {:>9} {:<16} {:>8} {:<12} {:>8} {:<12} {:>7} {:<12} {:>6}",
        "case", "", "1/s", "spread", "store us", "spread", "own us", "spread", "p50 us", "spread", "bytes"
    );
    for (case, Rows { ours, peer }) in rows {
        for (name, row) in [("ours", ours), (case.peer, peer)] {
            let cell =
                |figure_of| row.get(figure_of).map(|samples| (figure(samples.median()), samples.to_string()));
            let [rate, store, own, p50, bytes] =
                [Figure::Rate, Figure::StoreMicros, Figure::OwnMicros, Figure::Micros, Figure::Bytes]
                    .map(|of| cell(of).unwrap_or_default());
            println!(
                "{:<20} {name:<10} {:>9} {:<16} {:>8} {:<12} {:>8} {:<12} {:>7} {:<12} {:>6}",
                case.name(),
                rate.0,
                rate.1,
                store.0,
                store.1,
                own.0,
                own.1,
                p50.0,
                p50.1,
                bytes.0,
            );
        }
    }
    println!("store us, own us: CPU time a decision of the store, and of whoever asks it");
}
