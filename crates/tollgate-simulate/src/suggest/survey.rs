//! Surveys how much each client requests.

use std::num::NonZeroUsize;

use jiff::tz::TimeZone;
use tollgate::{Quota, Timestamp};
use tollgate_policy::{Identity, Texts};

use super::band::Band;
use super::kind::{Kind, Traits};
use super::period::{self, Period};
use super::{GreatClient, KindReport, Outliers, Per, SuggestedQuota, Suggestion};
use crate::class::Classes;
use crate::fingerprint::mix;
use crate::followed::{ClientLookup, FollowedClients, digest, keep};
use crate::histogram::Histogram;
use crate::hit::{Hit, MAX_ATTRIBUTE_BYTES};
use crate::limits::bound::{self, clients_needed};
use crate::limits::fit::{FITTED, Fit};
use crate::limits::maxima::Maxima;
use crate::limits::setters::{LimitSetters, Suspect};
use crate::report::{Note, Quantiles};
use crate::time::written;

/// The shortest slot of a period, in milliseconds.
const SLOT: i64 = 60_000;

/// The held-out part has at least one in so many of the clients that the limit is found by, or a note says so.
const WITNESSES: u64 = 10;

/// Clients that are listed.
const LISTED: usize = 12;

/// A gap above which clients are outliers: by this factor.
const FAR: f64 = 3.0;

/// The options of a survey.
#[derive(Debug)]
pub struct SurveyOptions {
    /// The key that is counted.
    pub identity: Identity,
    /// The window of the limit, as a quota with any limit. It is a fixed one that starts with the clock.
    pub window: Quota,
    /// The window of a second, short limit.
    pub companion: Option<Quota>,
    /// The share of clients that may ever be denied.
    pub budget: f64,
    /// What that is a share of.
    pub budget_per: Per,
    /// The maximum number of clients to follow.
    pub max_clients: NonZeroUsize,
    /// The requests that are counted, as one class; without classes, all.
    pub matching: Classes,
    /// The conditions of that class, as they were written.
    pub conditions: Option<String>,
    /// Known clients, as one class. They are counted like all others, and shown separately.
    pub known: Classes,
    /// The zone of times.
    pub zone: TimeZone,
}

/// A running survey: accepts requests in the order of their times, and then [suggests a limit](Self::suggest).
pub struct Survey {
    options: SurveyOptions,
    subjects: FollowedClients,
    traits: Vec<Traits>,
    long: Maxima,
    short: Option<Maxima>,
    requests: u64,
    without_key: u64,
    undecided: u64,
    /// Whether a client of the list has made a request that is counted.
    has_known: bool,
    period: Period,
    fingerprint: u128,
}

impl Survey {
    /// Begins a survey.
    #[must_use]
    pub fn new(options: SurveyOptions) -> Self {
        let maxima = |quota: &Quota| Maxima::new(millis(quota), SLOT);
        Self {
            subjects: FollowedClients::new(options.identity.clone(), options.max_clients.get()),
            traits: Vec::new(),
            long: maxima(&options.window),
            short: options.companion.as_ref().map(maxima),
            requests: 0,
            without_key: 0,
            undecided: 0,
            has_known: false,
            period: Period::new(options.zone.clone()),
            fingerprint: 0,
            options,
        }
    }

    /// Counts a request, with the attributes that the policy will go by. One that lies before another is counted at
    /// the time of that one.
    pub fn request(&mut self, hit: &Hit<'_>) {
        let is_too_long =
            |(_, texts): (&str, Texts<'_>)| texts.iter().any(|text| text.len() > MAX_ATTRIBUTE_BYTES.get());
        if hit.damaged.is_some() || hit.attributes.iter().any(is_too_long) {
            self.undecided += 1;
            return;
        }
        if self.options.matching.len() > 0 && self.options.matching.of(&hit.attributes) == 0 {
            return;
        }
        let now = self.period.note(hit.time);
        self.long.pass(now);
        if let Some(short) = &mut self.short {
            short.pass(now);
        }
        self.requests += 1;
        let Ok(digest) = self.options.identity.key(&hit.attributes).map(|key| digest(&key)) else {
            self.without_key += 1;
            return;
        };
        self.fingerprint = mix(self.fingerprint, digest, now);
        let is_known = self.options.known.of(&hit.attributes) > 0;
        self.has_known |= is_known;
        // On another day, it is another one.
        let digest = match self.options.budget_per {
            Per::Client => digest,
            Per::ClientDay => mix(digest, self.period.days_with_requests().into(), Timestamp::EPOCH),
        };
        let Some(client) = self.client(digest) else { return };
        let place = client as usize;
        if place >= self.traits.len() {
            self.traits.resize(place + 1, Traits::default());
        }
        if let Some(traits) = self.traits.get_mut(place) {
            if traits.requests == 0 {
                // Who asks for the most is known only at the end.
                self.subjects.remember_name(client, &hit.attributes);
            }
            traits.is_known |= is_known;
            traits.note(hit.status, hit.user_agent);
        }
        let one_in = self.subjects.one_in();
        self.long.note(now, client, one_in);
        if let Some(short) = &mut self.short {
            short.note(now, client, one_in);
        }
    }

    fn client(&mut self, digest: u128) -> Option<u32> {
        loop {
            match self.subjects.find(digest) {
                ClientLookup::Client(number) => return Some(number),
                ClientLookup::NotFollowed => return None,
                ClientLookup::NoRoom => {
                    let kept = self.subjects.halve();
                    keep(&mut self.traits, &kept);
                    self.long.keep(&kept);
                    if let Some(short) = &mut self.short {
                        short.keep(&kept);
                    }
                }
            }
        }
    }

    /// Ends the survey and suggests a limit.
    #[must_use]
    pub fn suggest(mut self) -> Suggestion {
        let one_client_in = self.subjects.one_in();
        self.long.close(one_client_in);
        if let Some(short) = &mut self.short {
            short.close(one_client_in);
        }
        let quota = self.quota(&self.long, &self.options.window);
        let companion = self.short.as_ref().zip(self.options.companion.as_ref());
        let companion = companion.map(|(short, window)| self.quota(short, window));
        let short_limit = companion.as_ref().and_then(|companion| companion.limit);
        let is_nested = self
            .options
            .companion
            .as_ref()
            .is_some_and(|short| millis(&self.options.window) % millis(short).max(1) == 0);
        let is_companion_idle =
            is_nested && short_limit.zip(quota.limit).is_some_and(|(short, limit)| short >= limit);
        let short_windows = self
            .options
            .companion
            .as_ref()
            .map(|short| (millis(&self.options.window) / millis(short).max(1)).unsigned_abs());
        // All of its windows together have room for less.
        let is_limit_idle = is_nested
            && !is_companion_idle
            && short_limit
                .zip(short_windows)
                .zip(quota.limit)
                .is_some_and(|((short, windows), limit)| short.saturating_mul(windows) <= limit);
        let busiest_windows: Vec<(u32, u64, Kind)> = self
            .long
            .of_clients(0..u8::MAX)
            .map(|(number, most)| (number, u64::from(most), self.kind(number)))
            .collect();
        let mut suggestion = Suggestion {
            read: None,
            key: self.options.identity.to_string(),
            matching: self.options.conditions.clone(),
            budget: self.options.budget,
            budget_per: self.options.budget_per,
            requests: self.requests,
            without_key: self.without_key,
            undecided: self.undecided,
            clients: busiest_windows.len() as u64 * one_client_in,
            one_client_in,
            zone: self.options.zone.iana_name().unwrap_or("UTC").to_owned(),
            first: self.period.first().map(|first| written(first, &self.options.zone)),
            last: self.period.last().map(|last| written(last, &self.options.zone)),
            days: self.period.days(),
            kinds: self.kinds(&busiest_windows, quota.limit),
            bound_without_suspects: self.bound_without_suspects(),
            greatest: self.greatest(&busiest_windows),
            outliers: outliers(&busiest_windows),
            quota,
            companion,
            is_companion_idle,
            is_limit_idle,
            notes: Vec::new(),
            fingerprint: self.fingerprint,
        };
        suggestion.notes = notes(&suggestion);
        suggestion.notes.splice(0..0, self.period.notes());
        suggestion.notes.extend(self.no_known_clients());
        suggestion
    }

    /// A note, if the list of known clients is of no use.
    fn no_known_clients(&self) -> Option<Note> {
        let attribute = self.options.known.attributes().next().filter(|_| !self.has_known)?;
        Some(Note::NoKnownClients { attribute: attribute.to_owned() })
    }

    fn kind(&self, client: u32) -> Kind {
        self.traits.get(client as usize).map_or(Kind::Single, Traits::kind)
    }

    fn quota(&self, maxima: &Maxima, window: &Quota) -> SuggestedQuota {
        let one_in = self.subjects.one_in();
        let Fit { split, fitted, proven, bound, limit, held_out, all } =
            Fit::of(maxima, self.options.budget, one_in);
        let set_by = split.zip(bound).and_then(|((part, _), bound)| self.setters(maxima, part, bound));
        let days = self.period.days();
        let band = split.zip(proven).and_then(|((part, _), budget)| Band::of(maxima, 0..part, days, budget));
        let needed = clients_needed(self.options.budget);
        // How many times as many clients are needed, if there are too few.
        let is_short = fitted.count() > 0 && proven != Some(self.options.budget);
        let times = is_short.then(|| needed as f64 / fitted.count() as f64);
        let is_sample = one_in > 1;
        let more_days =
            times.filter(|_| !is_sample).map(|times| (days * (times - 1.0)).max(1.0).ceil() as u64);
        // A sample may be half of what may be followed.
        let followed = times.map(|times| (2.0 * times * all.maxima.count() as f64).ceil() as u64);
        let max_clients = followed.filter(|followed| *followed > self.options.max_clients.get() as u64);
        SuggestedQuota {
            window: window.to_string().split_once('/').map_or(String::new(), |(_, window)| window.to_owned()),
            fitted_clients: fitted.count(),
            fitted_until: split
                .map(|(_, start)| written(Timestamp::from_unix_millis(start), &self.options.zone)),
            bound,
            band,
            limit,
            proven_budget: proven,
            set_by,
            clients_needed: needed,
            more_days,
            max_clients,
            held_out,
            most: Quantiles::of(&all.maxima),
        }
    }

    fn kinds(&self, clients: &[(u32, u64, Kind)], limit: Option<u64>) -> Vec<KindReport> {
        let one_in = self.subjects.one_in();
        let reports = Kind::ALL.into_iter().map(|kind| {
            let mut maxima = Histogram::default();
            let mut requests = 0;
            for (number, most, _) in clients.iter().filter(|(.., other)| *other == kind) {
                maxima.add(*most);
                requests += self.traits.get(*number as usize).map_or(0, |traits| u64::from(traits.requests));
            }
            KindReport {
                kind,
                clients: maxima.count() * one_in,
                requests: requests * one_in,
                above_limit: limit.map(|limit| maxima.above(limit) * one_in),
                most: Quantiles::of(&maxima),
            }
        });
        reports.filter(|report| report.clients > 0).collect()
    }

    /// The suspects that set the bound of the parts before this one.
    fn setters(&self, maxima: &Maxima, part: u8, bound: u64) -> Option<LimitSetters> {
        let (mut others, mut suspects) = (Histogram::default(), Vec::new());
        for (number, most) in maxima.of_clients(0..part) {
            let (kind, most) = (self.kind(number), u64::from(most));
            match self.traits.get(number as usize).filter(|_| kind.is_suspect()) {
                Some(traits) => suspects.push(Suspect {
                    most,
                    requests: traits.requests.into(),
                    failed: traits.failed.into(),
                    is_robot: kind == Kind::Robot,
                }),
                None => others.add(most),
            }
        }
        LimitSetters::of(&others, &suspects, bound, self.options.budget, self.subjects.one_in())
    }

    fn bound_without_suspects(&self) -> Option<u64> {
        let (part, _) = self.long.split(FITTED)?;
        let mut maxima = Histogram::default();
        for (number, most) in self.long.of_clients(0..part) {
            if !self.kind(number).is_suspect() {
                maxima.add(u64::from(most));
            }
        }
        bound::suggested(&maxima, bound::provable(maxima.count(), self.options.budget)?)
    }

    fn greatest(&self, clients: &[(u32, u64, Kind)]) -> Vec<GreatClient> {
        let mut clients = clients.to_vec();
        let order = |(number, most, _): &(u32, u64, Kind)| (std::cmp::Reverse(*most), *number);
        if clients.len() > LISTED {
            clients.select_nth_unstable_by_key(LISTED, order);
            clients.truncate(LISTED);
        }
        clients.sort_unstable_by_key(order);
        let listed = clients.into_iter().map(|(number, most, kind)| GreatClient {
            client: self.subjects.name(number).to_owned(),
            kind,
            requests: self.traits.get(number as usize).map_or(0, |traits| u64::from(traits.requests)),
            most,
        });
        listed.collect()
    }
}

/// The length of the windows in milliseconds; those of the calendar have none, and are refused before.
fn millis(quota: &Quota) -> i64 {
    match quota.window() {
        tollgate::WindowLength::Fixed(length) => i64::try_from(length.as_millis()).unwrap_or(i64::MAX),
        _ => 86_400_000,
    }
}

/// The clients above the widest gap, by ratio, among the greatest hundredth.
fn outliers(clients: &[(u32, u64, Kind)]) -> Option<Outliers> {
    let mut most: Vec<u64> = clients.iter().map(|(_, most, _)| *most).collect();
    most.sort_unstable();
    let from = most.len() * 99 / 100;
    let gaps =
        most.get(from.saturating_sub(1)..)?.windows(2).enumerate().filter_map(|(place, pair)| match pair {
            [below, above] => Some((*above as f64 / (*below).max(1) as f64, place, *below, *above)),
            _ => None,
        });
    let (ratio, place, others_up_to, from_most) = gaps.max_by(|(a, ..), (b, ..)| a.total_cmp(b))?;
    let clients = most.len() - (from.saturating_sub(1) + place + 1);
    (ratio >= FAR).then_some(Outliers { clients: clients as u64, from: from_most, others_up_to })
}

fn notes(suggestion: &Suggestion) -> Vec<Note> {
    let Suggestion { requests, days, without_key, undecided, one_client_in, .. } = *suggestion;
    let mut notes = Vec::new();
    if requests > 0 && days < period::WEEK {
        notes.push(Note::ShortPeriod { days });
    }
    if let Some(held_out) = suggestion.quota.held_out
        && held_out.clients < suggestion.quota.fitted_clients * one_client_in / WITNESSES
    {
        notes.push(Note::FewHeldOutClients { clients: held_out.clients, per: suggestion.budget_per });
    }
    if without_key > 0 {
        notes.push(Note::WithoutKey { requests: without_key, key: suggestion.key.clone() });
    }
    if undecided > 0 {
        notes.push(Note::UndecidedRequests { requests: undecided });
    }
    if one_client_in > 1 {
        notes.push(Note::SurveyedClients { one_in: one_client_in });
    }
    notes.extend([Note::DependentClients, Note::SharedAddresses]);
    notes
}
