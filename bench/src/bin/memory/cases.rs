//! The cases, their keys, and their filled limiters.

use std::collections::HashMap;
use std::rc::Rc;

use anyhow::{Result, ensure};
use tollgate_bench::contestants::{
    Contestant, Kind, Limit, PEERS, governor, governor_bucket, of_kind, one_quota, two_quotas,
};
use tollgate_bench_harness::keys::{self, CHUNK, Chunk, Keys, MILLION};
use tollgate_bench_harness::stopwatch::Stopwatch;

/// One line of the result.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) threads: usize,
    pub(crate) call: Call,
    pub(crate) keys: Rc<Keys>,
    arena: Rc<Arena>,
}

/// How keys are passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Single,
    By16,
}

/// Limiters filled with the same keys, by name, ours first.
struct Arena {
    limit: Limit,
    contestants: Vec<(&'static str, Box<dyn Contestant>)>,
}

/// The pattern of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Pattern {
    Hot,
    Uniform,
    Zipf,
}

/// The contestants of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Field {
    Hot,
    HotDenied,
    Million,
    TwoQuotas,
    Kinds,
    KindsMillion,
}

const CASES: &[(&str, Field, Pattern, Call, usize)] = &[
    ("hot/1t", Field::Hot, Pattern::Hot, Call::Single, 1),
    ("hot/2t", Field::Hot, Pattern::Hot, Call::Single, 2),
    ("hot-denied/1t", Field::HotDenied, Pattern::Hot, Call::Single, 1),
    ("hot-denied/2t", Field::HotDenied, Pattern::Hot, Call::Single, 2),
    ("uniform-1m/1t", Field::Million, Pattern::Uniform, Call::Single, 1),
    ("uniform-1m/2t", Field::Million, Pattern::Uniform, Call::Single, 2),
    ("zipf-1m/1t", Field::Million, Pattern::Zipf, Call::Single, 1),
    ("zipf-1m/2t", Field::Million, Pattern::Zipf, Call::Single, 2),
    ("batch16-uniform-1m/1t", Field::Million, Pattern::Uniform, Call::By16, 1),
    ("kinds-hot/1t", Field::Kinds, Pattern::Hot, Call::Single, 1),
    ("kinds-uniform-1m/1t", Field::KindsMillion, Pattern::Uniform, Call::Single, 1),
    ("two-quotas-uniform-1m/1t", Field::TwoQuotas, Pattern::Uniform, Call::Single, 1),
];

/// The additional contestants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    Nobody,
    Peers,
}

/// Returns the cases whose names contain `filter`, with filled limiters.
pub(crate) fn cases(filter: &str, others: Others) -> Result<Vec<Case>> {
    let named = CASES.iter().map(|case| (format!("memory/{}", case.0), case));
    let chosen: Vec<_> = named.filter(|(name, _)| name.contains(filter)).collect();
    ensure!(!chosen.is_empty(), "no case has `{filter}` in its name");
    let (mut arenas, mut lists) = (HashMap::new(), HashMap::new());
    let cases = chosen.into_iter().map(|(name, &(_, field, pattern, call, threads))| {
        let arena = arenas.entry(field);
        let arena = Rc::clone(arena.or_insert_with(|| Rc::new(Arena::filled(field, others))));
        let keys = Rc::clone(lists.entry(pattern).or_insert_with(|| Rc::new(pattern.keys())));
        Case { name, threads, call, keys, arena }
    });
    Ok(cases.collect())
}

impl Case {
    pub(crate) fn contestants(&self) -> &[(&'static str, Box<dyn Contestant>)] {
        &self.arena.contestants
    }

    /// Returns the index of the same case with one thread, if this has more.
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
            Field::Million | Field::TwoQuotas | Field::KindsMillion => (Limit::NeverReached, MILLION),
            Field::Kinds => (Limit::NeverReached, 1),
        };
        let peers = if others == Others::Peers { PEERS } else { &[] };
        let ours = || one_quota(limit, keys);
        let contestants = match field {
            // Ours, compared with ours with one quota.
            Field::TwoQuotas => vec![("ours", two_quotas(keys)), ("one-quota", ours())],
            // A bucket on both sides, then our fixed windows and other kinds.
            Field::Kinds => vec![
                ("~burst", of_kind(Kind::Burst, keys)),
                ("governor", governor_bucket(keys)),
                ("window", ours()),
                ("~log of 64", of_kind(Kind::Log, keys)),
            ],
            Field::KindsMillion => vec![
                ("~burst", of_kind(Kind::Burst, keys)),
                ("governor", governor_bucket(keys)),
                ("window", ours()),
                ("~sliding", of_kind(Kind::Sliding, keys)),
            ],
            _ => {
                let peers = peers.iter().map(|(name, build)| (*name, build(limit, keys)));
                [("ours", ours()), ("governor", governor(limit, keys))].into_iter().chain(peers).collect()
            }
        };
        let fill = match limit {
            Limit::NeverReached if keys == 1 => keys::hot(),
            // A million is a whole number of chunks.
            Limit::NeverReached => keys::all(keys),
            // Up to the limit and beyond it.
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
