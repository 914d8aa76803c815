//! The model of one key with a limit in flight and a quota: which replies a step on a hold may get.
//!
//! No hold expires and no window ends while a history lasts, so the model has no time.

/// Units in flight, and units of the quota.
pub(super) const LIMIT: u32 = 3;
pub(super) const QUOTA: u64 = 12;

/// Ids that the clients of a history share.
pub(super) const IDS: usize = 6;

/// An id, and what it is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct IdTerms {
    pub(super) id: usize,
    pub(super) units: u32,
    pub(super) cost: u32,
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Reserve(IdTerms),
    Renew(IdTerms),
    /// With what is charged more, or given back if it is negative.
    Settle(IdTerms, i32),
    Look,
    Reset,
}

/// What a client was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum HoldReply {
    /// With the live and the used units after the step; a look is not admitted.
    Decided {
        is_admitted: bool,
        is_repeated: bool,
        live: u32,
        used: u64,
    },
    Renewed,
    /// The units that were given back or charged, and those used then, unless nothing was adjusted.
    Settled(Option<(u32, u64)>),
    Forgotten(u32),
    Lost,
    Expired,
    Ended,
    Conflict,
}

/// The key as a server has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct HeldKey {
    used: u64,
    ids: [Option<KnownId>; IDS],
}

/// An id that was admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct KnownId {
    terms: IdTerms,
    /// Its units in flight, if they are live.
    is_live: bool,
    /// The live and the used units after it was admitted.
    admitted: (u32, u64),
    /// By how much it was settled, and the answer.
    settled: Option<(i32, HoldReply)>,
}

impl HeldKey {
    /// The key after a step, and the reply.
    pub(super) fn step(mut self, what: What) -> (Self, HoldReply) {
        let reply = match what {
            What::Look => self.decided(false),
            What::Reset => {
                let live = self.live();
                self.ids.iter_mut().flatten().for_each(|known| known.is_live = false);
                HoldReply::Forgotten(live)
            }
            What::Reserve(terms) => self.reserve(terms),
            What::Renew(terms) => match self.ids[terms.id] {
                None => HoldReply::Expired,
                Some(known) if known.terms != terms => HoldReply::Conflict,
                Some(known) if known.settled.is_some() => HoldReply::Ended,
                Some(known) if known.is_live => HoldReply::Renewed,
                Some(_) => HoldReply::Lost,
            },
            What::Settle(terms, by) => self.settle(terms, by),
        };
        (self, reply)
    }

    fn reserve(&mut self, terms: IdTerms) -> HoldReply {
        match self.ids[terms.id] {
            Some(known) if known.terms != terms => HoldReply::Conflict,
            Some(known) if known.settled.is_some() => HoldReply::Ended,
            Some(KnownId { admitted: (live, used), .. }) => {
                HoldReply::Decided { is_admitted: true, is_repeated: true, live, used }
            }
            None if self.live() + terms.units > LIMIT || self.used + u64::from(terms.cost) > QUOTA => {
                self.decided(false)
            }
            None => {
                self.used += u64::from(terms.cost);
                let admitted = (self.live() + terms.units, self.used);
                self.ids[terms.id] = Some(KnownId { terms, is_live: true, admitted, settled: None });
                self.decided(true)
            }
        }
    }

    fn settle(&mut self, terms: IdTerms, by: i32) -> HoldReply {
        let used = self.used;
        let Some(known) = &mut self.ids[terms.id] else { return HoldReply::Expired };
        if known.terms != terms {
            return HoldReply::Conflict;
        }
        let (made, first) = *known.settled.get_or_insert_with(|| {
            known.is_live = false;
            let units = u64::from(by.unsigned_abs());
            let moved = if by < 0 { units.min(used) } else { units };
            self.used = if by < 0 { used - moved } else { used + moved };
            (by, HoldReply::Settled((by != 0).then_some((moved as u32, self.used))))
        });
        if made == by { first } else { HoldReply::Conflict }
    }

    fn decided(&self, is_admitted: bool) -> HoldReply {
        HoldReply::Decided { is_admitted, is_repeated: false, live: self.live(), used: self.used }
    }

    fn live(&self) -> u32 {
        let live = self.ids.iter().flatten().filter(|known| known.is_live);
        live.map(|known| known.terms.units).sum()
    }
}
