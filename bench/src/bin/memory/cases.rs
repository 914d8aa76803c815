//! What is measured: the cases, their keys and the limiters filled for them.

use std::collections::HashMap;
use std::rc::Rc;

use anyhow::{Result, ensure};
use tollgate_bench::contestants::{Contestant, FIELD, Limit, PEERS, two_quotas};
use tollgate_bench::keys::{self, CHUNK, Chunk, Keys, MILLION};
use tollgate_bench::stopwatch::Stopwatch;

/// One line of the result.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) threads: usize,
    pub(crate) call: Call,
    pub(crate) keys: Rc<Keys>,
    arena: Rc<Arena>,
}

/// How keys are handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Single,
    By16,
}

/// Limiters filled with the same keys, by name, ourselves first.
struct Arena {
    limit: Limit,
    contestants: Vec<(&'static str, Box<dyn Contestant>)>,
}

/// Which keys are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Pattern {
    Hot,
    Uniform,
    Zipf,
}

/// Which limiters are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Field {
    Hot,
    HotDenied,
    Million,
    TwoQuotas,
}

const CASES: &[(&str, Field, Pattern, Call, usize)] = &[
    ("memory/hot/1t", Field::Hot, Pattern::Hot, Call::Single, 1),
    ("memory/hot/2t", Field::Hot, Pattern::Hot, Call::Single, 2),
    ("memory/hot-denied/1t", Field::HotDenied, Pattern::Hot, Call::Single, 1),
    ("memory/hot-denied/2t", Field::HotDenied, Pattern::Hot, Call::Single, 2),
    ("memory/uniform-1m/1t", Field::Million, Pattern::Uniform, Call::Single, 1),
    ("memory/uniform-1m/2t", Field::Million, Pattern::Uniform, Call::Single, 2),
    ("memory/zipf-1m/1t", Field::Million, Pattern::Zipf, Call::Single, 1),
    ("memory/zipf-1m/2t", Field::Million, Pattern::Zipf, Call::Single, 2),
    ("memory/batch16-uniform-1m/1t", Field::Million, Pattern::Uniform, Call::By16, 1),
    ("memory/two-quotas-uniform-1m/1t", Field::TwoQuotas, Pattern::Uniform, Call::Single, 1),
];

/// Who is in the field besides ourselves and the peer of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    Nobody,
    Peers,
}

/// The cases whose names contain `filter`, their limiters filled.
pub(crate) fn cases(filter: &str, others: Others) -> Result<Vec<Case>> {
    let chosen: Vec<_> = CASES.iter().filter(|(name, ..)| name.contains(filter)).collect();
    ensure!(!chosen.is_empty(), "no case has `{filter}` in its name");
    let (mut arenas, mut lists) = (HashMap::new(), HashMap::new());
    let cases = chosen.into_iter().map(|&(name, field, pattern, call, threads)| {
        let arena = Rc::clone(arenas.entry(field).or_insert_with(|| Rc::new(Arena::filled(field, others))));
        let keys = Rc::clone(lists.entry(pattern).or_insert_with(|| Rc::new(pattern.keys())));
        Case { name, threads, call, keys, arena }
    });
    Ok(cases.collect())
}

impl Case {
    pub(crate) fn contestants(&self) -> &[(&'static str, Box<dyn Contestant>)] {
        &self.arena.contestants
    }

    /// Where among `cases` the same stands with one thread, if this has more.
    pub(crate) fn with_one_thread(&self, cases: &[Self]) -> Option<usize> {
        let stem = self.name.strip_suffix("/2t")?;
        cases.iter().position(|other| other.name.strip_suffix("/1t") == Some(stem))
    }

    pub(crate) fn limit(&self) -> Limit {
        self.arena.limit
    }
}

impl Pattern {
    fn keys(self) -> Keys {
        match self {
            Self::Hot => keys::hot(),
            Self::Uniform => keys::uniform(MILLION),
            Self::Zipf => keys::zipf(MILLION),
        }
    }
}

impl Arena {
    fn filled(field: Field, others: Others) -> Self {
        let (limit, keys) = match field {
            Field::Hot => (Limit::NeverReached, 1),
            Field::HotDenied => (Limit::Few, 1),
            Field::Million | Field::TwoQuotas => (Limit::NeverReached, MILLION),
        };
        let peers = if others == Others::Peers { PEERS } else { &[] };
        let everybody = || FIELD.iter().chain(peers).map(|(name, build)| (*name, build(limit, keys)));
        let contestants = match field {
            // Ours against our own with one quota, which stands first in the field.
            Field::TwoQuotas => {
                let one_quota = everybody().take(1).map(|(_, contestant)| ("one-quota", contestant));
                [("ours", two_quotas(keys))].into_iter().chain(one_quota).collect()
            }
            _ => everybody().collect::<Vec<_>>(),
        };
        let fill = match limit {
            Limit::NeverReached if keys == 1 => keys::hot(),
            // A million is a whole number of chunks.
            Limit::NeverReached => keys::all(keys),
            // Up to the limit and past it.
            Limit::Few => [0; 2 * CHUNK].into_iter().collect(),
        };
        for (name, contestant) in &contestants {
            let watch = Stopwatch::start();
            for chunk in 0..fill.texts().chunks() {
                contestant.decide(Chunk { texts: &fill.texts().chunk(chunk), strings: fill.strings(chunk) });
            }
            eprintln!("filled {name} with {keys} keys: {:.2} s", watch.elapsed().as_secs_f64());
        }
        Self { limit, contestants }
    }
}
