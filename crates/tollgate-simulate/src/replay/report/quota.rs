//! The report on one quota.

use std::collections::HashMap;

use crate::curve::{Curve, Others, Point};
use crate::followed::FollowedClients;
use crate::histogram::Histogram;
use crate::limits::bound;
use crate::limits::bound::BUDGET;
use crate::limits::setters::{LimitSetters, Suspect, is_failing};
use crate::replay::clients::Clients;
use crate::replay::clients::denier::Denier;
use crate::replay::noter::Noter;
use crate::replay::policies::quota::QuotaTrack;
use crate::replay::policies::{CLIENT, PolicyTrack};
use crate::replay::rungs::TriedQuota;
use crate::report::{Quantiles, QuotaReport, TriedKind};

/// The clients with denied requests, by what has denied them.
pub(crate) struct DeniedClients<'a> {
    clients: &'a Clients,
    all: u64,
    by_denier: HashMap<Denier, u64>,
}

impl<'a> DeniedClients<'a> {
    pub(crate) fn of(clients: &'a Clients) -> Self {
        let mut by_denier = HashMap::new();
        let denied = clients.iter().filter(|(_, client)| client.denied > 0);
        denied.for_each(|(_, client)| *by_denier.entry(client.denier).or_default() += 1);
        Self { clients, all: by_denier.values().sum(), by_denier }
    }
}

impl Noter {
    pub(crate) fn quota_report(
        &self,
        track: usize,
        place: usize,
        denied_clients: &DeniedClients<'_>,
    ) -> Option<QuotaReport> {
        let quota = self.tracks.of(track)?.quotas.get(place)?;
        let maxima = quota.maxima(|_| true);
        let limit = quota.quota.quota().limit();
        Some(QuotaReport {
            quota: quota.quota.quota().to_string(),
            of_override_in_line: quota.of_override,
            limit_attribute: quota.limit_attribute.as_deref().map(str::to_owned),
            requests: quota.requests,
            denied: quota.denied,
            above_limit: quota.above_limit,
            windows: quota.windows.count(),
            denied_windows: quota.denied_windows,
            longest_wait: quota.longest_wait.as_secs_f64(),
            most: Quantiles::of(&maxima),
            burst: quota.burst.most().filter(|_| limit > 0),
            curve: self.curve(track, place, &maxima, denied_clients)?,
            kinds: self.kinds(track, place, denied_clients)?,
            kind: quota.quota.quota().kind(),
            capacity: quota.quota.quota().capacity(),
            most_used: quota.most_used,
        })
    }

    fn curve(
        &self,
        number: usize,
        place: usize,
        maxima: &Histogram,
        denied_clients: &DeniedClients<'_>,
    ) -> Option<Curve> {
        let track = self.tracks.of(number)?;
        let quota = track.quotas.get(place)?;
        let one_in = self.subjects.get(track.subject).map_or(1, FollowedClients::one_in);
        let limit = quota.quota.quota().limit();
        if track.is_calculable && !track.has_met_another() {
            let others = self.others(number, track, quota, denied_clients);
            let curve =
                Curve::calculated(&quota.windows, maxima, one_in, quota.requests, limit, others.as_ref());
            let bound = curve.suggested_budget.and_then(|budget| bound::suggested(maxima, budget));
            let set_by = bound.and_then(|bound| self.setters(track, quota, bound, one_in));
            return Some(Curve { set_by, ..curve });
        }
        let one_client_in = self.subjects.get(CLIENT).map_or(1, FollowedClients::one_in);
        let is_enforced = track.role.is_enforced();
        let replayed = Point {
            limit,
            denied: track.denied_by_quotas,
            denied_clients: track.clients.denied() * one_in,
            total_denied: is_enforced.then_some(self.all.verdicts.denied),
            total_denied_clients: is_enforced.then_some(denied_clients.all * one_client_in),
        };
        let tried = self.rungs.tried_limits(number, place);
        let tried = tried.map(|TriedQuota { tried, denied, total_denied, .. }| Point {
            limit: tried.limit(),
            denied: denied.0,
            denied_clients: denied.1 * one_in,
            total_denied: total_denied.map(|(requests, _)| requests),
            total_denied_clients: total_denied.map(|(_, clients)| clients * one_client_in),
        });
        Some(Curve::tried(tried.chain([replayed]).collect(), limit))
    }

    /// What other kinds deny.
    fn kinds(
        &self,
        number: usize,
        place: usize,
        denied_clients: &DeniedClients<'_>,
    ) -> Option<Vec<TriedKind>> {
        let track = self.tracks.of(number)?;
        if track.has_met_another() {
            // They were tried as if it decided alone.
            return Some(Vec::new());
        }
        let one_in = self.subjects.get(track.subject).map_or(1, FollowedClients::one_in);
        let one_client_in = self.subjects.get(CLIENT).map_or(1, FollowedClients::one_in);
        let others =
            track.is_calculable.then(|| self.others(number, track, track.quotas.get(place)?, denied_clients));
        let others = others.flatten();
        let kinds =
            self.rungs.tried_kinds(number, place).map(|TriedQuota { tried, place, denied, total_denied }| {
                // One that decides alone is tried alone: all others deny what they deny today.
                let with_others = others.as_ref().map(|others| {
                    let clients =
                        others.clients.as_ref().zip(Denier::of(number)).and_then(|((clients, _), own)| {
                            let is_denied_by_own = |client| {
                                [Denier::default(), own].contains(&denied_clients.clients.denier(client))
                            };
                            Some(clients + self.rungs.denied_clients(place, is_denied_by_own)?)
                        });
                    (others.denied + denied.0, clients)
                });
                let total = total_denied.map(|(requests, clients)| (requests, Some(clients))).or(with_others);
                TriedKind {
                    quota: tried.to_string(),
                    denied: denied.0,
                    denied_clients: denied.1 * one_in,
                    total_denied: total.map(|(requests, _)| requests),
                    total_denied_clients: total.and_then(|(_, clients)| Some(clients? * one_client_in)),
                }
            });
        Some(kinds.collect())
    }

    /// The clients with mostly errors that set this bound.
    fn setters(
        &self,
        track: &PolicyTrack,
        quota: &QuotaTrack,
        bound: u64,
        one_in: u64,
    ) -> Option<LimitSetters> {
        let suspect = |client: u32, failed: u32| {
            let (requests, failed) = (self.all.clients.requests(client), u64::from(failed));
            let most = quota.fullest(client).filter(|_| is_failing(requests, failed))?.1;
            Some(Suspect { most, requests, failed, is_robot: false })
        };
        let suspects: Vec<Suspect> =
            track.failed.iter().filter_map(|(client, failed)| suspect(client, *failed)).collect();
        if suspects.is_empty() {
            return None;
        }
        let is_usual = |client| suspect(client, track.failed.get(client).copied().unwrap_or(0)).is_none();
        LimitSetters::of(&quota.maxima(is_usual), &suspects, bound, BUDGET, one_in)
    }

    /// The denials of all other quotas, for a quota that decides alone on its requests. `None` if it denies nothing
    /// itself.
    fn others(
        &self,
        number: usize,
        track: &PolicyTrack,
        quota: &QuotaTrack,
        denied_clients: &DeniedClients<'_>,
    ) -> Option<Others> {
        if !track.role.is_enforced() {
            return None;
        }
        let own = Denier::of(number).filter(|_| track.subject == CLIENT);
        let clients = own.map(|own| {
            let is_denied_by_own =
                |client| [Denier::default(), own].contains(&denied_clients.clients.denier(client));
            let denied_by_own = denied_clients.by_denier.get(&own).copied().unwrap_or(0);
            (denied_clients.all - denied_by_own, quota.maxima(is_denied_by_own))
        });
        Some(Others { denied: self.all.verdicts.denied - track.denied_by_quotas, clients })
    }
}

impl Quantiles {
    /// Where the values of a histogram lie, if there are any.
    pub(crate) fn of(values: &Histogram) -> Option<Self> {
        Some(Self {
            p50: values.quantile(0.5)?,
            p90: values.quantile(0.9)?,
            p99: values.quantile(0.99)?,
            p999: values.quantile(0.999)?,
            max: values.max()?,
        })
    }
}
