//! How much a bound depends on the days that a log happens to have.
//!
//! Days are drawn at random from those by which a limit is found, with repeats, and the bound is calculated again: a
//! bootstrap in blocks of a day. Clients come back on other days, so single requests and clients are no units to draw.

use std::hash::Hasher as _;

use serde::Serialize;
use siphasher::sip::SipHasher13;

use super::bound;
use super::maxima::Maxima;
use crate::Histogram;

/// The least days for a band: fewer are no sample of days.
const MIN_DAYS: f64 = 7.0;

/// Draws at most and at least. Each takes as long as there are clients.
const DRAWS: (usize, usize) = (200, 20);

/// Clients that are looked at in all draws together.
const WORK: usize = 50_000_000;

/// Where a bound lies if days are drawn at random from those of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Band {
    /// In one of 20 draws the bound is below this,
    pub low: u64,
    /// and in one of 20 above this.
    pub high: u64,
    /// How often days were drawn.
    pub draws: u64,
}

impl Band {
    /// The band of the bound on what clients ask for in these parts of a period of so many days. `None` if the days are too
    /// few, or the clients on them.
    ///
    /// A draw has fewer clients than the log, and too few for a bound of its own: it is the client at the same share of the
    /// ranks.
    pub(super) fn of(maxima: &Maxima, parts: std::ops::Range<u8>, days: f64, budget: f64) -> Option<Self> {
        if days < MIN_DAYS {
            return None;
        }
        let blocks = maxima.days(parts.clone());
        let clients = maxima.of_clients(parts).count();
        let level = bound::rank(clients as u64, budget)? as f64 / clients as f64;
        let (most, least) = DRAWS;
        let draws = (WORK / clients.max(1)).clamp(least, most);
        let mut bounds = Histogram::default();
        for draw in 0..draws {
            let mut is_drawn = [false; 256];
            for place in 0..blocks.len() {
                let block =
                    blocks.get(random(draw, place) as usize % blocks.len()).cloned().unwrap_or_default();
                block.for_each(|part| is_drawn[usize::from(part)] = true);
            }
            if let Some(bound) = maxima.of_drawn(&is_drawn).quantile(level) {
                bounds.add(bound);
            }
        }
        Some(Self { low: bounds.quantile(0.05)?, high: bounds.quantile(0.95)?, draws: draws as u64 })
    }
}

/// Numbers that are the same for the same log, as all of a report is.
fn random(draw: usize, place: usize) -> u32 {
    let mut hasher = SipHasher13::new();
    hasher.write_u64(draw as u64);
    hasher.write_u64(place as u64);
    hasher.finish() as u32
}
