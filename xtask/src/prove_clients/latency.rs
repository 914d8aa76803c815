//! What the middleware adds to a request, compared with a plain request to the service by the same HTTP library, and with
//! the framework's usual limiter on the same Redis.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use serde::Serialize;

use crate::stopwatch::Stopwatch;

use super::apps::RunningApp;
use super::frameworks::Framework;

/// The most that the middleware may add, as a share of what a plain request adds.
pub(super) const BAR: f64 = 1.20;

/// Requests to each path before the first round.
const WARM_UP: u32 = 300;
const CLIENTS: usize = 16;
const PARALLEL: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Effort {
    pub(super) rounds: u32,
    /// Requests to each path in a round, one at a time.
    pub(super) requests: u32,
}

/// The medians of the rounds of one path.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct PathFigures {
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    /// Requests a second of 16 connections.
    pub(super) a_second: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct LatencyResult {
    pub(super) free: PathFigures,
    pub(super) bare: PathFigures,
    pub(super) limited: PathFigures,
    pub(super) usual: PathFigures,
    pub(super) adapter: Option<PathFigures>,
    /// What the middleware adds, divided by what a plain request adds: the median of the rounds.
    pub(super) ratio: f64,
}

impl LatencyResult {
    pub(super) fn is_over_bar(&self) -> bool {
        self.ratio > BAR
    }
}

/// The last one only if the framework has an adapter.
const PATHS: [&str; 5] = ["/free", "/bare", "/limited", "/usual", "/adapter"];

/// One round of one path.
#[derive(Debug, Clone, Copy)]
struct PathRound {
    p50: f64,
    p99: f64,
    a_second: f64,
}

/// The paths take turns, so that a disturbance affects all of them. Only the first process of the app is asked.
pub(super) fn measure(app: &RunningApp, framework: &Framework, effort: Effort) -> Result<LatencyResult> {
    let paths = if framework.adapter.is_some() { &PATHS[..] } else { &PATHS[..PATHS.len() - 1] };
    let watch = Stopwatch::start();
    in_turn(app, paths, WARM_UP)?;
    while watch.elapsed() < app.warm_up {
        paths.iter().try_for_each(|path| many_connections(app, path).map(drop))?;
        in_turn(app, paths, WARM_UP)?;
    }
    let mut rounds = Vec::new();
    for _ in 0..effort.rounds {
        let times = in_turn(app, paths, effort.requests)?;
        let mut round = Vec::new();
        for (path, times) in paths.iter().zip(times) {
            let [p50, p99] = [0.50, 0.99].map(|share| quantile(&times, share));
            round.push(PathRound { p50, p99, a_second: many_connections(app, path)? });
        }
        rounds.push(round);
    }
    let figures = |path: usize| PathFigures {
        p50_us: median(rounds.iter().map(|round| round[path].p50)),
        p99_us: median(rounds.iter().map(|round| round[path].p99)),
        a_second: median(rounds.iter().map(|round| round[path].a_second)),
    };
    let ratio = added_ratio(rounds.iter().map(|round| [0, 1, 2].map(|path| round[path].p50)))?;
    let [free, bare, limited, usual] = [0, 1, 2, 3].map(figures);
    let adapter = framework.adapter.map(|_| figures(4));
    Ok(LatencyResult { free, bare, limited, usual, adapter, ratio })
}

/// Returns the median, over rounds of `[free, bare, limited]`, of what the middleware adds, divided by what a plain
/// request adds. A round in which the latter is less than half of its own median is left out: it measured noise.
fn added_ratio(rounds: impl Iterator<Item = [f64; 3]>) -> Result<f64> {
    let rounds: Vec<_> = rounds.map(|[free, bare, limited]| (bare - free, limited - free)).collect();
    let plain = median(rounds.iter().map(|(plain, _)| *plain));
    ensure!(plain > 0.0, "a plain request to the service adds nothing: nothing can be compared");
    let meant = rounds.iter().filter(|(added, _)| *added >= plain / 2.0);
    Ok(median(meant.map(|(plain, limited)| limited / plain)))
}

/// Returns the sorted times of this many requests to each path, in microseconds: one request to each in turn, on a
/// connection of its own.
fn in_turn(app: &RunningApp, paths: &[&str], requests: u32) -> Result<Vec<Vec<f64>>> {
    let mut times = vec![Vec::new(); paths.len()];
    let mut connections: Vec<_> = paths.iter().map(|_| app.connection(0)).collect();
    for request in 0..requests {
        let user = format!("user-{}", request % 100);
        for ((path, connection), times) in paths.iter().zip(&mut connections).zip(&mut times) {
            let answer = connection.get(path, &user)?;
            ensure!(answer.status == 200, "{path} answered {}", answer.status);
            times.push(answer.time.as_secs_f64() * 1e6);
        }
    }
    times.iter_mut().for_each(|times| times.sort_by(f64::total_cmp));
    Ok(times)
}

/// Returns the requests a second of many connections.
fn many_connections(app: &RunningApp, path: &str) -> Result<f64> {
    let is_over = AtomicBool::new(false);
    let watch = Stopwatch::start();
    let answered = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|index| {
                let is_over = &is_over;
                scope.spawn(move || {
                    let mut connection = app.connection(0);
                    let (user, mut count) = (format!("user-{index}"), 0_u64);
                    while !is_over.load(Ordering::Relaxed) {
                        let answer = connection.get(path, &user)?;
                        ensure!(answer.status == 200, "{path} answered {}", answer.status);
                        count += 1;
                    }
                    Ok(count)
                })
            })
            .collect();
        thread::sleep(PARALLEL);
        is_over.store(true, Ordering::Relaxed);
        let joined =
            clients.into_iter().map(|client| client.join().unwrap_or_else(|_| bail!("a client panicked")));
        joined.sum::<Result<u64>>()
    })?;
    Ok(answered as f64 / watch.elapsed().as_secs_f64())
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5)
}

/// Returns the smallest of these sorted values that this share of them does not exceed; 0 if there are none.
fn quantile(values: &[f64], share: f64) -> f64 {
    let rank = (values.len() as f64 * share).ceil() as usize;
    values.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_of_noise_do_not_count() {
        let ratio = |rounds: &[[f64; 3]]| added_ratio(rounds.iter().copied());
        let [one, middle, two] = [200.0, 250.0, 300.0].map(|limited| [100.0, 200.0, limited]);
        assert_eq!(ratio(&[two, one, middle]).unwrap(), 1.5);
        // A plain request that added -10, and 1.
        for noise in [[100.0, 90.0, 200.0], [100.0, 101.0, 200.0]] {
            assert_eq!(ratio(&[noise, two, one, middle, noise]).unwrap(), 1.5, "{noise:?}");
        }
        let noise = [100.0, 90.0, 200.0];
        let error = |rounds: &[[f64; 3]]| ratio(rounds).unwrap_err().to_string();
        assert!(error(&[noise; 3]).starts_with("a plain request to the service adds nothing"));
        assert!(error(&[noise, one]).starts_with("a plain request to the service adds nothing"));
        assert!(error(&[]).starts_with("a plain request to the service adds nothing"));
    }

    #[test]
    fn quantiles_are_values_of_the_list() {
        let values: Vec<_> = (1..=100).map(f64::from).collect();
        assert_eq!([0.5, 0.99, 1.0].map(|share| quantile(&values, share)), [50.0, 99.0, 100.0]);
        assert_eq!(quantile(&[7.0], 0.99), 7.0);
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
    }
}
