//! What a store may answer: the promises of `docs/semantics.md` as a ledger of what each counter can hold.
//!
//! A ledger says nothing of slots, locks or shards. Where a promise leaves the store a choice (a counter whose window
//! the coarse clock has closed may be dropped or kept), the ledger holds several beliefs about a counter, and an answer
//! has to agree with one of them; the others are given up.
//!
//! An answer has to agree with one reading of the clock that its call took. Rules and guarantees are named as in that
//! document.

mod blocks;

use std::rc::Rc;

use super::answer::{Answer, Denial, Event, History, Named, Reading, State, Step, Verdict};
use super::contents::{Contents, LARGEST, STEP, Standing};
use super::terms::{Cut, Denials, Terms};
use super::world::{Ask, World};

const LOOK: Step = Step::Peek(Vec::new());

/// Beliefs about all counters of a world.
#[derive(Clone)]
pub(super) struct Ledger<'a> {
    world: &'a World,
    readings: &'a [Reading],
    /// For each reading, the latest time that a coarse one has shown until then.
    latest_coarse: Rc<[i64]>,
    /// The same of all readings.
    latest: Rc<[i64]>,
    has_stepped_back: bool,
    /// Whether calls overlap. Then no order of drops and charges is known but that of the calls.
    is_crowded: bool,
    /// From this moment on, there is one thread.
    alone_from: u64,
    scopes: Vec<usize>,
    /// How many keys there are at most.
    keys: usize,
    /// By scope and key.
    counters: Vec<Vec<Belief>>,
    /// Ends of windows of counters that may have been dropped.
    ends: Vec<i64>,
    /// For each counter and end what was last used there, if it was not reset.
    closings: Vec<Named>,
}

/// What a counter may hold.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Belief {
    stored: Stored,
    /// The moment since when.
    since: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Stored {
    /// Nothing. A counter that was dropped ended then.
    Absent {
        dropped: Option<i64>,
    },
    Held(Contents),
}

impl<'a> Ledger<'a> {
    pub(super) fn new(world: &'a World, history: &'a History) -> Self {
        let asks = world.threads.iter().flatten().cloned();
        let keys = asks.flat_map(|mut op| op.asks_mut().iter().map(|ask| ask.key).collect::<Vec<_>>());
        let keys = keys.max().unwrap_or_default() + 1;
        let latest_coarse = history.readings.iter().scan(i64::MIN, |latest, reading| {
            *latest = if reading.is_coarse { reading.time.max(*latest) } else { *latest };
            Some(*latest)
        });
        let latest = history.readings.iter().scan(i64::MIN, |latest, reading| {
            *latest = reading.time.max(*latest);
            Some(*latest)
        });
        Self {
            world,
            readings: &history.readings,
            latest_coarse: latest_coarse.collect(),
            latest: latest.collect(),
            has_stepped_back: history.has_stepped_back,
            is_crowded: world.threads.len() > 1,
            alone_from: history.threads[1..].iter().flatten().map(|event| event.returned).max().unwrap_or(0),
            scopes: (0..world.quotas.len()).map(|quota| world.scope(quota)).collect(),
            keys,
            counters: vec![vec![Belief::NOTHING]; world.quotas.len() * keys],
            ends: Vec::new(),
            closings: Vec::new(),
        }
    }

    /// Takes an event that comes after all before, or says which promise it breaks.
    pub(super) fn accept(&mut self, event: &Event) -> Result<(), String> {
        if let Some(held) = event.held.filter(|held| *held > self.world.cap) {
            return Err(format!("G8: the store holds {held} counters of {}", self.world.cap));
        }
        let asks = event.step.asks();
        let mut counters: Vec<usize> = asks.iter().map(|ask| self.counter(ask)).collect();
        counters.sort_unstable();
        counters.dedup();
        (0..self.counters.len()).for_each(|counter| self.drop_closed(counter, event));
        for counter in &counters {
            self.drop_closed(*counter, event);
        }
        match &event.answer {
            Answer::Counted(states, verdict) => {
                if let Some(verdict) = verdict {
                    agrees(states, *verdict)?;
                }
                self.counted(event, asks, &counters, states)?;
            }
            Answer::Refunded(refunded) => self.refunded(event, &asks[0], *refunded)?,
            Answer::Full => {
                self.full(event, asks, &counters)?;
                counters.iter().for_each(|counter| self.move_back(*counter, event));
            }
            Answer::Ended(now) => ended(event, *now)?,
            Answer::Listed(named) => self.listed(event, named)?,
            Answer::Swept => {}
        }
        // Between two calls nothing else is held than what is known. A log may be kept as it was written, or without
        // what a reading has called over.
        let until = self.readings.partition_point(|reading| reading.moment < event.returned);
        let latest = until.checked_sub(1).map_or(i64::MIN, |last| self.latest[last]);
        let (mut live, mut known) = (0, 0);
        for (counter, beliefs) in self.counters.iter().enumerate() {
            let terms = &self.world.quotas[counter / self.keys];
            let places = |time| beliefs.iter().map(move |belief| belief.places_at(terms, time));
            live += places(latest).min().unwrap_or_default();
            known += places(i64::MIN).max().unwrap_or_default();
        }
        match event.held.filter(|_| self.alone_from <= event.called) {
            Some(held) if held < live => {
                Err(format!("G8: the store holds {held} places, and {live} are live"))
            }
            Some(held) if known < held => {
                Err(format!("G8: the store holds {held} places, and {known} were taken and not reset"))
            }
            _ => Ok(()),
        }
    }

    fn counter(&self, ask: &Ask) -> usize {
        self.scopes[ask.quota] * self.keys + ask.key
    }

    /// A counter may have been dropped once a coarse reading has called its window closed, and not before (rule 11,
    /// G8).
    fn drop_closed(&mut self, counter: usize, event: &Event) {
        let terms = &self.world.quotas[counter / self.keys];
        let beliefs = &mut self.counters[counter];
        let until = self.readings.partition_point(|reading| reading.moment < event.returned);
        let Some(latest) = until.checked_sub(1).map(|last| self.latest_coarse[last]) else { return };
        for index in 0..beliefs.len() {
            let Belief { stored: Stored::Held(contents), since } = &beliefs[index] else { continue };
            let (end, since) = (contents.end(terms), *since);
            let stored = Stored::Absent { dropped: Some(end) };
            // Where calls overlap, a reading may be older than what it drops.
            let since = if self.is_crowded { 0 } else { since };
            let is_noted = |belief: &Belief| belief.stored == stored && since <= belief.since;
            if latest < end || (!self.is_crowded && beliefs.iter().any(is_noted)) {
                continue;
            }
            let from = self.readings.partition_point(|reading| reading.moment < since);
            let closes = |reading: &&Reading| reading.is_coarse && end <= reading.time;
            if let Some(reading) = self.readings[from.min(until)..until].iter().find(closes) {
                remember(beliefs, Belief { stored, since: reading.moment });
                note(&mut self.ends, end);
            }
        }
    }

    /// A step that has no room moves its counters back all the same (rule 12).
    fn move_back(&mut self, counter: usize, event: &Event) {
        let key = counter % self.keys;
        let asked = event.step.asks().iter().filter(|ask| self.counter(ask) == counter);
        let quotas: Vec<Terms> = asked.map(|ask| self.world.quotas[ask.quota]).collect();
        let beliefs = &mut self.counters[counter];
        for index in 0..beliefs.len() {
            let Belief { stored: Stored::Held(contents), since } = beliefs[index].clone() else { continue };
            for (reading, terms) in
                event.readings.iter().flat_map(|it| quotas.iter().map(move |terms| (it, terms)))
            {
                let placed = contents.placed(terms, key, reading.time);
                for Standing { contents, .. } in placed.into_iter().filter(|standing| standing.has_moved) {
                    remember(beliefs, Belief { stored: Stored::Held(contents), since });
                }
            }
        }
    }

    /// What a counter can come to at a reading.
    fn standings(&self, ask: &Ask, belief: &Belief, reading: &Reading, event: &Event) -> Vec<Standing> {
        let (terms, key) = (&self.world.quotas[ask.quota], ask.key);
        let opened =
            |time| Standing { contents: Contents::nothing(terms, key, time), used: 0, has_moved: false };
        // A window that begins with its first unit begins when that comes, and not at the last tick before it (rule 2).
        // The answer about a counter that was just reset opens no window.
        let is_first_hit = matches!(terms.cut, Cut::FirstHit(_) | Cut::Block(..));
        let opens_early =
            is_first_hit && reading.time < reading.truth && !matches!(event.step, Step::Reset(_));
        let opened_now = || if opens_early { Vec::new() } else { vec![opened(reading.time)] };
        match &belief.stored {
            Stored::Held(Contents::Window { window, .. }) if window.end <= reading.time => opened_now(),
            Stored::Held(Contents::Window { window, .. })
                if window.start - reading.time > STEP && opens_early =>
            {
                Vec::new()
            }
            Stored::Held(contents) => contents.placed(terms, key, reading.time),
            // It was dropped before the step had its last look, which comes before the reading.
            Stored::Absent { .. } if belief.since > reading.moment => Vec::new(),
            Stored::Absent { dropped } => {
                if !self.has_stepped_back || matches!(terms.cut, Cut::Burst(_) | Cut::Log(..)) {
                    return opened_now();
                }
                // After a step back by a second or less, what is opened may begin later than now: where a counter was
                // dropped that may have been this one.
                let before = || self.readings.iter().filter(|other| other.moment < event.returned);
                let coarse = before().filter(|other| other.is_coarse).map(|other| other.time).max();
                let near = reading.time + 1..=reading.time + STEP;
                let may_be = |end: &i64| near.contains(end) && coarse.is_some_and(|coarse| *end <= coarse);
                let ends = self.ends.iter().copied().filter(may_be);
                let mut standings: Vec<Standing> = ends.map(opened).collect();
                // Until the clock has stepped back by more than that, its own window stays over (rule 12).
                let mut highest = i64::MIN;
                let mut far_back = |other: &Reading| {
                    highest = highest.max(other.truth);
                    other.moment >= belief.since && highest - other.truth > STEP
                };
                let has_stepped_far = before().any(&mut far_back);
                match dropped {
                    Some(end) if reading.truth < *end && !has_stepped_far => {
                        standings.retain(|standing| match &standing.contents {
                            Contents::Window { window, .. } | Contents::Sliding { window, .. } => {
                                *end <= window.start
                            }
                            Contents::Bucket { .. } | Contents::Log(_) => true,
                        });
                    }
                    _ => standings.extend(opened_now()),
                }
                standings
            }
        }
    }

    fn counted(
        &mut self,
        event: &Event,
        asks: &[Ask],
        counters: &[usize],
        states: &[State],
    ) -> Result<(), String> {
        for (ask, state) in asks.iter().zip(states) {
            if state.limit != self.world.quotas[ask.quota].capacity() {
                return Err(format!("rule 4: the limit of quota {} is not {}", ask.quota, state.limit));
            }
        }
        let Some(now) = states.first().map(|state| state.now) else { return Ok(()) };
        if states.iter().any(|state| state.now != now) {
            return Err("rule 11: one step has several readings".to_owned());
        }
        let mut wrong = format!("rule 11: no reading of this call showed {now}");
        let mut accepted: Option<Vec<Vec<Belief>>> = None;
        for reading in event.readings.iter().filter(|reading| reading.time == now) {
            match self.counted_at(reading, event, asks, counters, states) {
                Ok(beliefs) => match &mut accepted {
                    None => accepted = Some(beliefs),
                    Some(accepted) => {
                        for (accepted, beliefs) in accepted.iter_mut().zip(beliefs) {
                            beliefs.into_iter().for_each(|belief| remember(accepted, belief));
                        }
                    }
                },
                Err(reason) => wrong = reason,
            }
        }
        let accepted = accepted.ok_or(wrong)?;
        for (counter, beliefs) in counters.iter().zip(accepted) {
            if self.is_crowded {
                let terms = &self.world.quotas[counter / self.keys];
                for belief in &beliefs {
                    if let Stored::Held(contents) = &belief.stored {
                        note(&mut self.ends, contents.end(terms));
                    }
                }
            }
            self.believe(*counter, beliefs, event.called);
        }
        if self.is_crowded {
            let windows = states.iter().filter_map(|state| state.window);
            windows.for_each(|window| note(&mut self.ends, window.end));
        }
        Ok(())
    }

    /// For each counter what it may hold after an answer that was given at this reading.
    fn counted_at(
        &self,
        reading: &Reading,
        event: &Event,
        asks: &[Ask],
        counters: &[usize],
        states: &[State],
    ) -> Result<Vec<Vec<Belief>>, String> {
        let admitted = states.iter().all(|state| state.denial.is_none());
        if let Step::ChargeBefore(_, end) = event.step
            && end <= reading.truth
        {
            return Err(format!("rule 24: it ended at {end}, and the time is {}", reading.truth));
        }
        let over = |state: &&State| state.window.is_some_and(|window| window.end <= reading.truth);
        if let Some(state) = states.iter().find(over) {
            let (window, truth) = (state.window, reading.truth);
            return Err(format!("rules 10 and 11: it counts in {window:?}, and the time is {truth}"));
        }
        if let Step::Block(asks) = &event.step {
            return self.blocked_at(reading, event, asks, counters, states);
        }
        let denies_early = |(ask, state): &(&Ask, &State)| {
            let is_fixed = self.world.quotas[ask.quota].cut.is_fixed();
            !is_fixed && state.denial.is_some() && reading.time < reading.truth
        };
        if let Some((ask, state)) = asks.iter().zip(states).find(denies_early) {
            return Err(format!("rule 11: {ask} is denied by a reading that lags: {state:?}"));
        }
        // Several counters are read one after another. If one denies, it denied when it was read, and what is said of
        // the others may be of another time. Nothing is taken then, so nothing is learned of them.
        let is_read_apart = self.is_crowded
            && counters.len() > 1
            && !admitted
            && asks.iter().all(|ask| self.world.quotas[ask.quota].denials == Denials::Free);
        let may_lack_room = !admitted && self.lacks_room(event, counters).is_ok();
        let mut wrong = None;
        let mut denied = false;
        let mut all = Vec::new();
        for counter in counters {
            let on_counter: Vec<(&Ask, &State)> =
                asks.iter().zip(states).filter(|(ask, _)| self.counter(ask) == *counter).collect();
            let mut beliefs = Vec::new();
            let mut expected = Vec::new();
            for belief in &self.counters[*counter] {
                // A counter that is reset is one that was never there.
                let is_reset = matches!(event.step, Step::Reset(_));
                let found = if is_reset { Belief::NOTHING } else { belief.clone() };
                for standing in self.standings(on_counter[0].0, &found, reading, event) {
                    let own = on_counter.iter().map(|(ask, _)| {
                        self.under_own_terms(ask, on_counter[0].0, &found, &standing, reading.time)
                    });
                    for by_each in one_of_each(own) {
                        let charged = self.expect(&event.step, &on_counter, &by_each, admitted);
                        // A denial stands without room for a counter, or for another charge of a log, that it would count.
                        let needs_room = match &found.stored {
                            Stored::Absent { .. } => true,
                            Stored::Held(contents) => {
                                let terms = &self.world.quotas[counter / self.keys];
                                contents.places_at(terms, i64::MIN)
                                    < contents.places_with_more(terms, std::iter::once(reading.time))
                            }
                        };
                        let uncharged = may_lack_room && needs_room;
                        let uncharged =
                            uncharged.then(|| self.expect(&LOOK, &on_counter, &by_each, admitted));
                        for (written, says) in [Some(charged), uncharged].into_iter().flatten() {
                            if on_counter.iter().zip(&says).all(|((_, state), says)| *state == says) {
                                remember_written(&mut beliefs, belief, &standing, written, reading);
                            }
                            expected.extend(says);
                        }
                    }
                }
            }
            if beliefs.is_empty() {
                wrong.get_or_insert_with(|| disagreement(self.world, &on_counter, &expected));
            } else {
                denied |= on_counter.iter().any(|(_, state)| state.denial.is_some());
            }
            if is_read_apart {
                self.counters[*counter].iter().for_each(|belief| remember(&mut beliefs, belief.clone()));
            }
            all.push(beliefs);
        }
        match wrong {
            Some(reason) if !is_read_apart || !denied => Err(reason),
            _ => Ok(all),
        }
    }

    /// What a counter may come to for a charge, if it comes to this for the first one of its step: under another limit, a
    /// bucket holds other units.
    fn under_own_terms(
        &self,
        ask: &Ask,
        first: &Ask,
        found: &Belief,
        standing: &Standing,
        time: i64,
    ) -> Vec<Standing> {
        let (terms, other) = (&self.world.quotas[ask.quota], &self.world.quotas[first.quota]);
        match (&found.stored, &standing.contents) {
            (Stored::Held(contents), Contents::Bucket { .. }) if terms != other => {
                contents.placed(terms, ask.key, time)
            }
            _ => vec![standing.clone()],
        }
    }

    /// What a step that finds a counter so writes, and for each charge its state. A standing for each charge.
    fn expect(
        &self,
        step: &Step,
        on_counter: &[(&Ask, &State)],
        standings: &[Standing],
        admitted: bool,
    ) -> (Written, Vec<State>) {
        let Standing { used, contents, .. } = &standings[0];
        let now = on_counter[0].1.now;
        let says = |ask: &Ask, after: &Contents, denial, needed, units| {
            let terms = &self.world.quotas[ask.quota];
            state(terms, after, now, denial, needed, units)
        };
        let first = &self.world.quotas[on_counter[0].0.quota];
        let assign = |after: Contents, units| {
            let says = vec![says(on_counter[0].0, &after, None, 0, units)];
            (if after == *contents { Written::Nothing } else { Written::Contents(after) }, says)
        };
        match step {
            Step::Record(ask) => {
                let after = contents.with_more(first, now, ask.cost.into());
                let taken = after.used_now(first, now) - used;
                assign(after, taken.min(ask.cost.into()))
            }
            Step::Set(_, used) => assign(contents.with_only(first, now, (*used).min(LARGEST)), 0),
            Step::Reset(_) => (Written::Reset, vec![says(on_counter[0].0, contents, None, 0, 0)]),
            Step::Charge(_)
            | Step::ChargeBefore(..)
            | Step::Peek(_)
            | Step::Block(_)
            | Step::Refund(..)
            | Step::Sweep
            | Step::List => {
                let cost: u64 = on_counter.iter().map(|(ask, _)| u64::from(ask.cost)).sum();
                let terms = |ask: &Ask| &self.world.quotas[ask.quota];
                let denial = |(ask, _): &(&Ask, &State), standing: &Standing| {
                    denial(standing.used, terms(ask).needed(cost), terms(ask).capacity())
                };
                let each = || on_counter.iter().zip(standings);
                let counts = |(charge, standing): (&(&Ask, &State), &Standing)| match terms(charge.0).denials
                {
                    Denials::Free => false,
                    Denials::Counted => denial(charge, standing) == Some(Denial::Exceeded),
                    Denials::Overdraft => true,
                };
                let takes = admitted || each().any(counts);
                let units = if takes && step.is_charge() { cost } else { 0 };
                let after = contents.with_more(first, now, units);
                // What was taken is that of the charges in their order (rule 10).
                let mut left = after.used_now(first, now) - used;
                let says = each().map(|(charge, standing)| {
                    let (ask, _) = charge;
                    let taken = left.min(ask.cost.into());
                    left -= taken;
                    let after = standing.contents.with_more(terms(ask), now, units);
                    says(ask, &after, denial(charge, standing), terms(ask).needed(cost), taken)
                });
                let says = says.collect();
                (if units > 0 { Written::Contents(after) } else { Written::Nothing }, says)
            }
        }
    }

    fn refunded(&mut self, event: &Event, ask: &Ask, refunded: Option<(u64, u64)>) -> Result<(), String> {
        let Step::Refund(_, mark) = event.step else { return Ok(()) };
        let counter = self.counter(ask);
        let terms = &self.world.quotas[ask.quota];
        let mut beliefs = Vec::new();
        let mut expected = Vec::new();
        for reading in &event.readings {
            for belief in &self.counters[counter] {
                for Standing { contents, has_moved, .. } in self.standings(ask, belief, reading, event) {
                    let less = contents.with_less(terms, reading.time, mark, ask.cost.into());
                    let says =
                        less.as_ref().map(|(given, after)| (*given, after.used_now(terms, reading.time)));
                    expected.push(says);
                    if says != refunded {
                        continue;
                    }
                    let is_given = less.as_ref().is_some_and(|(given, _)| *given > 0);
                    let after = less.map_or(contents, |(_, after)| after);
                    let held = Belief { stored: Stored::of(after), since: reading.moment };
                    remember(&mut beliefs, if has_moved || is_given { held } else { belief.clone() });
                }
            }
        }
        if beliefs.is_empty() {
            return Err(format!("rule 10: a refund gave {refunded:?}, and it should be one of {expected:?}"));
        }
        self.believe(counter, beliefs, event.called);
        Ok(())
    }

    /// A step is refused only if as many counters are live as may be held (G8), and only if it would have made one.
    fn full(&self, event: &Event, asks: &[Ask], counters: &[usize]) -> Result<(), String> {
        self.lacks_room(event, counters)?;
        if let Step::ChargeBefore(_, end) = event.step
            && event.readings.iter().all(|reading| reading.is_coarse || end <= reading.truth)
        {
            return Err(format!("rule 24: it ended at {end}, whether or not there is room"));
        }
        if !event.step.is_charge() && !matches!(event.step, Step::Peek(_)) {
            return Ok(());
        }
        for counter in counters {
            let on_counter = || asks.iter().filter(|ask| self.counter(ask) == *counter);
            let cost: u64 = on_counter().map(|ask| u64::from(ask.cost)).sum();
            let first = asks.iter().find(|ask| self.counter(ask) == *counter).unwrap_or(&asks[0]);
            let fits = |belief: &Belief, standing: &Standing, time: i64| {
                on_counter().all(|ask| {
                    let terms = self.world.quotas[ask.quota];
                    let own = self.under_own_terms(ask, first, belief, standing, time);
                    own.iter().any(|own| denial(own.used, terms.needed(cost), terms.capacity()).is_none())
                })
            };
            let may_fit = |reading: &Reading| {
                self.counters[*counter].iter().any(|belief| {
                    let standings = self.standings(first, belief, reading, event);
                    standings.iter().any(|standing| fits(belief, standing, reading.time))
                })
            };
            if !event.readings.iter().any(may_fit) {
                return Err("G8: refused, but it should be denied, which takes no room".to_owned());
            }
        }
        Ok(())
    }

    /// Whether there may be no room for all these counters.
    fn lacks_room(&self, event: &Event, counters: &[usize]) -> Result<(), String> {
        let coarse = event.readings.iter().filter(|reading| reading.is_coarse).map(|reading| reading.time);
        let coarse = coarse.min().ok_or("G8: it is refused, and no coarse reading was taken")?;
        let terms = |counter: usize| &self.world.quotas[counter / self.keys];
        let held = |counter: usize| {
            let contents = |belief: &'_ Belief| match &belief.stored {
                Stored::Held(contents) => Some(contents.clone()),
                Stored::Absent { .. } => None,
            };
            self.counters[counter].iter().filter_map(contents)
        };
        let times = || event.readings.iter().map(|reading| reading.time);
        let live = |counter: usize| {
            let live = held(counter).filter(|contents| coarse < contents.end(terms(counter)));
            live.map(|contents| contents.places_at(terms(counter), i64::MIN)).max().unwrap_or_default()
        };
        let wanted = |counter: &usize| {
            let nothing = Contents::nothing(terms(*counter), 0, 0);
            let each = held(*counter).chain([nothing]);
            each.map(|it| it.places_with_more(terms(*counter), times())).max().unwrap_or_default()
        };
        let others = (0..self.counters.len()).filter(|counter| !counters.contains(counter));
        let live: usize = others.map(live).sum();
        let wanted: usize = counters.iter().map(wanted).sum();
        if live + wanted <= self.world.cap {
            let cap = self.world.cap;
            return Err(format!(
                "G8: refused, but only {live} other places of {cap} are taken, and {wanted} are asked for"
            ));
        }
        let is_new = |counter: &usize| {
            let grows = |belief: &Belief| match &belief.stored {
                Stored::Absent { .. } => true,
                Stored::Held(contents) => {
                    let terms = terms(*counter);
                    contents.places_at(terms, i64::MIN) < contents.places_with_more(terms, times())
                }
            };
            self.counters[*counter].iter().any(grows)
        };
        if !counters.iter().any(is_new) {
            return Err("G8: refused, but all its counters are held".to_owned());
        }
        Ok(())
    }

    /// The list names what is live, and nothing else. Where calls overlap, it may miss what changes.
    fn listed(&self, event: &Event, named: &[Named]) -> Result<(), String> {
        let Some(reading) = event.readings.last().filter(|_| !self.is_crowded) else { return Ok(()) };
        for (counter, beliefs) in self.counters.iter().enumerate() {
            let (scope, key) = (counter / self.keys, counter % self.keys);
            let found = named.iter().find(|named| (named.scope, named.key) == (scope, key));
            // A block has no name.
            if matches!(self.world.quotas[scope].cut, Cut::Block(..)) && found.is_none() {
                continue;
            }
            // A name has the limit that its counter was made with.
            let sharing = (0..self.world.quotas.len()).filter(|quota| self.scopes[*quota] == scope);
            let sharing: Vec<&Terms> = sharing.map(|quota| &self.world.quotas[quota]).collect();
            let agrees = |belief: &Belief| match (&belief.stored, found) {
                (Stored::Held(Contents::Window { used, window }), Some(named)) => {
                    (named.used, named.end) == (*used, window.end) && reading.time < window.end
                }
                (Stored::Held(contents), Some(named)) => sharing.iter().any(|terms| {
                    contents.placed(terms, key, reading.time).iter().any(|standing| {
                        let reset_at = standing.contents.when(terms, reading.time, 0);
                        (named.used, named.end) == (standing.used, reset_at)
                    })
                }),
                (Stored::Held(contents), None) => {
                    sharing.iter().any(|terms| contents.end(terms) <= reading.time)
                }
                (Stored::Absent { .. }, found) => found.is_none(),
            };
            if self.world.naming != super::world::Naming::Off && !beliefs.iter().any(agrees) {
                return Err(format!("live counters: {found:?} of {beliefs:?} at {}", reading.time));
            }
        }
        Ok(())
    }

    fn believe(&mut self, counter: usize, beliefs: Vec<Belief>, called: u64) {
        let (scope, key) = (counter / self.keys, counter % self.keys);
        // Only what is known for sure, and new.
        if let [Belief { stored, since }] = &beliefs[..]
            && called < *since
        {
            let is_this = |named: &Named, end: i64| (named.scope, named.key, named.end) == (scope, key, end);
            match stored {
                Stored::Held(Contents::Window { used, window }) => {
                    self.closings.retain(|named| !is_this(named, window.end));
                    if *used > 0 {
                        self.closings.push(Named { scope, key, used: *used, end: window.end });
                    }
                }
                // The hook gets fixed windows alone.
                Stored::Held(_) => {}
                // It closed before it was dropped.
                Stored::Absent { dropped: Some(_) } => {}
                // The hook does not receive a counter that is reset, unless its window had closed before.
                Stored::Absent { dropped: None } => {
                    let held = self.counters[counter].iter().filter_map(|belief| match &belief.stored {
                        Stored::Held(Contents::Window { window, .. }) => Some(window.end),
                        _ => None,
                    });
                    let latest = held.max();
                    self.closings.retain(|named| latest.is_none_or(|end| !is_this(named, end)));
                }
            }
        }
        self.counters[counter] = beliefs;
    }

    /// The counters that the hook must have received in the end, if the clock has never stepped back and nothing was
    /// reset.
    pub(super) fn closings(&self) -> Vec<Named> {
        let mut closings = self.closings.clone();
        closings.sort_unstable();
        closings
    }
}

/// A step may be refused as too late if a reading has reached its end. It changes nothing then, so that all beliefs stay.
fn ended(event: &Event, now: i64) -> Result<(), String> {
    let Step::ChargeBefore(_, end) = event.step else {
        return Err("rule 24: the step has no end".to_owned());
    };
    if now < end {
        return Err(format!("rule 24: it ended at {now}, before {end}"));
    }
    let is_read = event.readings.iter().any(|reading| (reading.time, reading.truth) == (now, now));
    if is_read { Ok(()) } else { Err(format!("rule 24: the time of this call was never {now}")) }
}

/// What a step writes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Written {
    Nothing,
    Contents(Contents),
    Reset,
}

impl Stored {
    /// A log without charges is none.
    fn of(contents: Contents) -> Self {
        match contents {
            Contents::Log(charges) if charges.is_empty() => Self::Absent { dropped: None },
            contents => Self::Held(contents),
        }
    }
}

impl Belief {
    const NOTHING: Self = Self { stored: Stored::Absent { dropped: None }, since: 0 };

    fn places_at(&self, terms: &Terms, time: i64) -> usize {
        match &self.stored {
            Stored::Held(contents) => contents.places_at(terms, time),
            Stored::Absent { .. } => 0,
        }
    }
}

/// Remembers what a counter may hold after a step that found it so and wrote this.
fn remember_written(
    beliefs: &mut Vec<Belief>,
    belief: &Belief,
    standing: &Standing,
    written: Written,
    reading: &Reading,
) {
    let since = reading.moment;
    let held = |contents| Belief { stored: Stored::of(contents), since };
    match written {
        Written::Nothing if !standing.has_moved => {
            remember(beliefs, belief.clone());
            // What has left a log may be removed from it.
            if let Contents::Log(_) = standing.contents {
                remember(beliefs, held(standing.contents.clone()));
            }
        }
        Written::Nothing => remember(beliefs, held(standing.contents.clone())),
        Written::Contents(contents) => remember(beliefs, held(contents)),
        Written::Reset => remember(beliefs, Belief { stored: Stored::Absent { dropped: None }, since }),
    }
}

fn remember(beliefs: &mut Vec<Belief>, belief: Belief) {
    match beliefs.iter_mut().find(|other| other.stored == belief.stored) {
        Some(same) => same.since = same.since.min(belief.since),
        None => beliefs.push(belief),
    }
}

fn note(ends: &mut Vec<i64>, end: i64) {
    if !ends.contains(&end) {
        ends.push(end);
    }
}

/// Rules 5 and 7.
fn denial(used: u64, cost: u64, limit: u64) -> Option<Denial> {
    if cost > limit {
        Some(Denial::CostAboveLimit)
    } else if used + cost > limit {
        Some(Denial::Exceeded)
    } else {
        None
    }
}

/// The answer about a counter with these contents, after a step that needed so many units.
fn state(
    terms: &Terms,
    contents: &Contents,
    now: i64,
    denial: Option<Denial>,
    needed: u64,
    units: u64,
) -> State {
    let (limit, used) = (terms.capacity(), contents.used_now(terms, now));
    let when = |target| contents.when(terms, now, target);
    State {
        limit,
        used,
        window: match contents {
            Contents::Window { window, .. } => Some(*window),
            _ => None,
        },
        now,
        denial,
        units,
        reset_at: when(0),
        next_at: (used > 0).then(|| when(used.min(limit).saturating_sub(1))),
        retry_at: (denial == Some(Denial::Exceeded)).then(|| when(limit.saturating_sub(needed))),
        mark: contents.mark(terms, now),
    }
}

/// Returns whether a decision says what its quotas do (rule 9).
fn agrees(states: &[State], verdict: Verdict) -> Result<(), String> {
    let allowed = states.iter().all(|state| state.denial.is_none());
    if verdict.allowed != allowed {
        return Err(format!("rule 8: the verdict is {verdict:?} over {states:?}"));
    }
    let Some(deciding) = states.get(verdict.deciding) else { return Ok(()) };
    let left = |state: &State| state.limit.saturating_sub(state.used);
    let wait = |state: &State| match state.denial? {
        Denial::CostAboveLimit => Some(i64::MAX),
        Denial::Exceeded => Some(state.retry_at? - state.now),
    };
    let decides = if allowed {
        let share = |a: &State, b: &State| u128::from(left(a)) * u128::from(b.limit);
        states.iter().all(|other| share(deciding, other) <= share(other, deciding))
    } else {
        states.iter().map(wait).max() == Some(wait(deciding))
    };
    let retry_after = wait(deciding).filter(|wait| *wait < i64::MAX);
    if !decides || verdict.retry_after != retry_after || verdict.remaining != left(deciding) {
        return Err(format!("rule 9: the verdict is {verdict:?} over {states:?}"));
    }
    Ok(())
}

/// Names the promise that an answer breaks, by what is nearest to it.
fn disagreement(world: &World, on_counter: &[(&Ask, &State)], expected: &[State]) -> String {
    let (ask, state) = on_counter[0];
    let limit = world.quotas[ask.quota].capacity();
    let same_window: Vec<&State> = expected.iter().filter(|other| other.window == state.window).collect();
    let promise = if same_window.is_empty() {
        "rules 1, 2 and 12: it counts in another window"
    } else if same_window.iter().any(|other| other.used == state.used && other.denial == state.denial) {
        "rules 9 and 10: an instant, or the units that it took, are not what they should be"
    } else if same_window.iter().any(|other| **other == State { units: other.units, ..*state }) {
        "rule 10: it says that it took other units than it did"
    } else if same_window.iter().all(|other| state.used < other.used) {
        if state.denial.is_none() {
            "G1: used units are forgotten"
        } else {
            "rule 6: denied, and its units are not counted as they should be"
        }
    } else if same_window.iter().all(|other| state.used > other.used) {
        "G2: units are counted that nobody took"
    } else if state.denial.is_none() && state.used > limit {
        "G1: more is admitted than the limit"
    } else {
        "rule 5: the verdict does not follow from what is used"
    };
    format!("{promise}: {state:?} of {ask}, and it should be one of {expected:?}")
}

/// All lists with one of each of these.
fn one_of_each(all: impl Iterator<Item = Vec<Standing>>) -> Vec<Vec<Standing>> {
    all.fold(vec![Vec::new()], |lists, choices| {
        let longer = |list: &Vec<Standing>| {
            let list = list.clone();
            choices
                .iter()
                .map(move |choice| list.iter().cloned().chain([choice.clone()]).collect())
                .collect::<Vec<_>>()
        };
        lists.iter().flat_map(longer).collect()
    })
}
