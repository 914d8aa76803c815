//! Who asks for what: requests by method and by the form of their paths, without any policy.
//!
//! ```text
//! path ──▶ segment   numbers, identifiers and tokens are folded
//!            ▼
//!          sample    the first requests show which names are few, and which are one of many
//!            ▼
//!          tree      the routes, at most 10,000
//!            ▼
//!          track     the figures of each, with the most that each of its clients asks for
//! ```
//!
//! A request belongs to one route from the beginning on, so all figures are exact, in one pass. Memory does not grow
//! with the log: routes are bounded, and if there are more than two million pairs of a route and its client, the
//! routes with most of them follow only one client in 2, 4, 8 and so on.

mod busiest;
mod method;
mod sample;
mod segment;
mod track;
mod tree;

use std::cmp::Reverse;

use jiff::tz::TimeZone;
use tollgate::Timestamp;

pub(crate) use self::busiest::Busiest;
use self::method::Method;
use self::sample::{MAX_REQUESTS, Sample, SampledRequest};
use self::track::Track;
use self::tree::Tree;
use crate::curve::denied;
use crate::hit::Hit;
use crate::limits::bound::BUDGET;
use crate::limits::fit::Fit;
use crate::limits::setters::LimitSetters;
use crate::report::{Peak, RouteReport, RouteSuggestion, StatusClass};
use crate::time::written;

/// The window of the limits that are suggested, in milliseconds, and as a file has it.
const WINDOW: i64 = 60_000;
const WINDOW_WORD: &str = "1m";

/// The routes for which a limit is suggested: those with most requests.
const SUGGESTED: usize = 10;

/// Pairs of a route and a client of it.
const MAX_PAIRS: usize = 2 << 20;

/// The statuses of paths that the server does not have.
const NOT_FOUND: [u16; 2] = [404, 410];

/// The routes of requests, with their figures.
pub(crate) struct Routes {
    /// The first requests, until there are enough of them.
    sample: Option<Sample>,
    tree: Tree,
    tracks: Vec<Track>,
    /// The requests for which there was no room among the routes.
    others: Track,
    pairs: usize,
    max_pairs: usize,
}

/// What is noted of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RouteRequest {
    /// The digest of its client's key.
    pub(crate) client: Option<u128>,
    /// Its status; 0 if the log has none.
    pub(crate) status: u16,
    pub(crate) is_denied: bool,
}

impl Routes {
    pub(crate) fn new() -> Self {
        Self::with(MAX_REQUESTS, MAX_PAIRS)
    }

    /// With a sample of so many requests, and so many pairs of a route and a client of it.
    fn with(max_requests: usize, max_pairs: usize) -> Self {
        Self {
            sample: Some(Sample::new(max_requests)),
            tree: Tree::new(),
            tracks: Vec::new(),
            others: Track::new(),
            pairs: 0,
            max_pairs,
        }
    }

    /// Notes a request. Times never go back.
    pub(crate) fn note(&mut self, hit: &Hit<'_>, now: Timestamp, client: Option<u128>, is_denied: bool) {
        let noted = RouteRequest { client, status: hit.status.unwrap_or(0), is_denied };
        let (is_found, method) = (!NOT_FOUND.contains(&noted.status), Method::of(hit.method));
        if let Some(sample) = &mut self.sample {
            sample.note(hit.path, is_found, method, noted, now);
            if sample.is_full() {
                self.end_sample();
            }
            return;
        }
        let place = self.tree.place(hit.path, is_found);
        self.count(place, method, &noted, now);
    }

    /// Counts the requests of the sample.
    #[cold]
    fn end_sample(&mut self) {
        let Some(sample) = self.sample.take() else { return };
        let (tree, requests) = sample.end();
        self.tree = tree;
        for SampledRequest { place, method, noted, now } in requests {
            self.count(place, method, &noted, now);
        }
    }

    fn count(&mut self, place: u32, method: Method, noted: &RouteRequest, now: Timestamp) {
        let track = match self.tree.route(place, method) {
            Some(route) => {
                let route = route as usize;
                if route >= self.tracks.len() {
                    self.tracks.resize_with(route + 1, Track::new);
                }
                self.tracks.get_mut(route)
            }
            None => Some(&mut self.others),
        };
        let Some(track) = track else { return };
        self.pairs += usize::from(track.note(noted, now));
        if self.pairs > self.max_pairs {
            self.halve();
        }
    }

    /// Follows fewer clients of the routes that have most.
    #[cold]
    fn halve(&mut self) {
        let tracks = || self.tracks.iter().chain([&self.others]);
        let most = tracks().map(|track| track.clients.len()).max().unwrap_or(0);
        let (mut pairs, tracks) = (0, self.tracks.iter_mut().chain([&mut self.others]));
        for track in tracks {
            pairs += if track.clients.len() > most / 2 { track.halve() } else { track.clients.len() };
        }
        self.pairs = pairs;
    }

    /// The routes, the busiest first.
    pub(crate) fn reports(&mut self, zone: &TimeZone) -> Vec<RouteReport> {
        self.end_sample();
        for track in self.tracks.iter_mut().chain([&mut self.others]) {
            let one_in = track.clients.one_in();
            track.maxima.close(one_in);
        }
        let routes = (0..).zip(&self.tracks).map(|(route, track)| (self.tree.name(route), track));
        let others = (self.others.requests > 0).then(|| ((None, "(other paths)".to_owned()), &self.others));
        let mut routes: Vec<_> = routes.chain(others).collect();
        routes.sort_by(|(name, track), (other_name, other)| {
            (Reverse(track.requests), name).cmp(&(Reverse(other.requests), other_name))
        });
        let reports = routes.into_iter().enumerate().map(|(rank, ((method, route), track))| RouteReport {
            method: method.map(str::to_owned),
            route,
            suggested: (rank < SUGGESTED).then(|| track.suggestion()).flatten(),
            ..track.report(zone)
        });
        reports.collect()
    }
}

impl Track {
    /// The figures, without the name of the route.
    fn report(&self, zone: &TimeZone) -> RouteReport {
        const CLASSES: [&str; 6] = ["other", "1xx", "2xx", "3xx", "4xx", "5xx"];
        let one_client_in = self.clients.one_in();
        let statuses = CLASSES.into_iter().zip(self.statuses).filter(|(_, requests)| *requests > 0);
        let busiest = |busiest: &Busiest| {
            let (requests, start) = busiest.most()?;
            Some(Peak { requests, start: written(start, zone) })
        };
        RouteReport {
            method: None,
            route: String::new(),
            requests: self.requests,
            denied: self.denied,
            clients: self.clients.len() as u64 * one_client_in,
            one_client_in,
            statuses: statuses.map(|(class, requests)| StatusClass { class, requests }).collect(),
            busiest_second: busiest(&self.second),
            busiest_minute: busiest(&self.minute),
            suggested: None,
        }
    }

    /// The limit that `suggest` gives for these requests.
    fn suggestion(&self) -> Option<RouteSuggestion> {
        let one_client_in = self.clients.one_in();
        let fit = Fit::of(&self.maxima, BUDGET, one_client_in);
        let (limit, proven) = fit.limit.zip(fit.proven)?;
        let set_by = fit.split.zip(fit.bound).and_then(|((part, _), bound)| {
            let (suspects, others) = self.maxima.suspects(0..part);
            LimitSetters::of(&others, &suspects, bound, BUDGET, one_client_in)
        });
        Some(RouteSuggestion {
            limit,
            window: WINDOW_WORD.to_owned(),
            budget: proven,
            set_by,
            fitted_clients: fit.fitted.count(),
            denied: denied(&fit.all.windows, limit, one_client_in, self.client_requests),
            denied_clients: fit.all.maxima.above(limit) * one_client_in,
            held_out: fit.held_out,
        })
    }
}

#[cfg(test)]
mod tests {
    use tollgate_policy::Attributes;

    use super::*;

    /// Notes requests of these clients, one each second. Returns the requests and the clients of each path.
    fn routes<'p>(mut routes: Routes, requests: impl Iterator<Item = (u64, &'p str)>) -> Vec<RouteReport> {
        for (second, (client, path)) in (0..).zip(requests) {
            let now = Timestamp::from_unix_millis(second * 1_000);
            let hit = Hit {
                path: Some(path.as_bytes()),
                status: Some(200),
                ..Hit::new(now, Attributes::default())
            };
            // Spread over all bits, as a digest is.
            let digest = u128::from(client + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
            routes.note(&hit, now, Some(digest), false);
        }
        assert!(routes.pairs <= routes.max_pairs);
        routes.reports(&TimeZone::UTC)
    }

    /// Names of which the first requests show nothing are told apart too, up to a hundred at one place.
    #[test]
    fn names_behind_the_sample_are_bounded() {
        let paths: Vec<String> = (0..1_000).map(|number| format!("/a/name-{number}/b")).collect();
        let requests = std::iter::once("/a").chain(paths.iter().map(String::as_str)).map(|path| (7, path));
        let reports = routes(Routes::with(1, MAX_PAIRS), requests);
        assert_eq!(reports.len(), 102);
        assert_eq!((reports[0].route.as_str(), reports[0].requests), ("/a/{name}/b", 900));
    }

    /// A token that looks like a word stood in the report.
    #[test]
    fn a_rare_name_beside_identifiers_is_one_of_them() {
        let paths: Vec<String> = (0..300).map(|number| format!("/reset/{number}")).collect();
        let more =
            ["/reset/QwErTyUiOp", "/reset/help", "/reset/help", "/reset/help", "/reset/help", "/reset/help"];
        for max_requests in [250, MAX_REQUESTS] {
            let requests = more.into_iter().skip(1).chain(paths.iter().map(String::as_str)).chain([more[0]]);
            let reports = routes(Routes::with(max_requests, MAX_PAIRS), requests.map(|path| (7, path)));
            let found: Vec<(&str, u64)> =
                reports.iter().map(|report| (report.route.as_str(), report.requests)).collect();
            assert_eq!(found, [("/reset/{id}", 301), ("/reset/help", 5)]);
        }
    }

    /// The requests are counted exactly, whatever the number of clients is, and small routes keep all of theirs.
    #[test]
    fn routes_with_many_clients_follow_fewer() {
        let requests = (0..20_000).map(|client| (client, if client % 100 == 0 { "/rare" } else { "/often" }));
        let reports = routes(Routes::with(MAX_REQUESTS, 2_000), requests);
        let [often, rare] = &reports[..] else { panic!("{reports:?}") };
        assert_eq!((often.requests, rare.requests, rare.clients, rare.one_client_in), (19_800, 200, 200, 1));
        assert!(often.one_client_in >= 16 && often.clients.abs_diff(19_800) < 3_000, "{often:?}");
    }

    /// Whoever sends requests can make up paths: they are counted all the same, in bounded memory.
    #[test]
    fn any_bytes_are_counted_in_bounded_memory() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut routes = Routes::with(5_000, MAX_PAIRS);
        for second in 0..60_000 {
            let path: Vec<u8> = match second % 3 {
                0 => (0..random.usize(0..40)).map(|_| random.u8(..)).collect(),
                1 => (0..random.usize(0..40)).map(|_| random.choice(*b"/a1-%4@.=;{}(").unwrap()).collect(),
                _ => {
                    let mut name = || (b'k' + random.u8(0..9), b'k' + random.u8(0..9));
                    let [(a, b), (c, d), (e, f)] = [name(), name(), name()];
                    [b"/x/", &[a, b, b'/', c, d, b'/', e, f][..]].concat()
                }
            };
            let now = Timestamp::from_unix_millis(second * 1_000);
            let hit = Hit { path: Some(&path), status: Some(200), ..Hit::new(now, Attributes::default()) };
            routes.note(&hit, now, None, false);
        }
        let reports = routes.reports(&TimeZone::UTC);
        assert_eq!(reports.iter().map(|report| report.requests).sum::<u64>(), 60_000);
        assert!(reports.len() <= 10_001, "{}", reports.len());
        assert!(reports.iter().any(|report| report.route == "(other paths)"));
    }

    /// One busy client among those that were followed stood for many, with more denials than there were requests.
    #[test]
    fn a_limit_denies_no_more_requests_than_a_route_has() {
        for seed in 0..40_u64 {
            let few = (0..2_000).map(|client| (client + seed * 10_000, "/often"));
            let busy = (0..1_000).map(|_| (seed * 10_000 + 7, "/often"));
            let mut routes = Routes::with(MAX_REQUESTS, 300);
            for (second, (client, path)) in (0..).zip(few.chain(busy)) {
                let now = Timestamp::from_unix_millis(second * 60);
                let hit = Hit { path: Some(path.as_bytes()), ..Hit::new(now, Attributes::default()) };
                let digest = u128::from(client + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
                routes.note(&hit, now, Some(digest), false);
            }
            let reports = routes.reports(&TimeZone::UTC);
            let Some(suggested) = &reports[0].suggested else { panic!("{reports:?}") };
            assert!(suggested.denied <= 3_000, "{seed}: {suggested:?}");
        }
    }

    #[test]
    fn a_path_in_brackets_is_a_path() {
        let reports = routes(Routes::new(), [(1, "/(a)/b"), (1, "*")].into_iter());
        let found: Vec<&str> = reports.iter().map(|report| report.route.as_str()).collect();
        assert_eq!(found, ["(no path)", "/(a)/b"]);
    }
}
