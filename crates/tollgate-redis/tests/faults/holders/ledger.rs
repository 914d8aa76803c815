//! What became of holds, by the callers' own clock, and what that says of the promises.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use tollgate_testkit::servers::Server;

use super::terms::{AskedHold, ClockSteps, KEYS, LENGTH, LIMIT, key_name};
use crate::fault::Found;

/// How long a store tries to undo what slots had taken of a denied hold.
const UNDO_PATIENCE: Duration = Duration::from_secs(5);

/// What some callers asked for and were told.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    pub(super) holds: Vec<NotedHold>,
    pub(super) denials: Vec<Denial>,
    /// Charges without a hold: the least and the most that was counted, for each key.
    pub(super) charged: [(u64, u64); KEYS],
    pub(super) errors: BTreeSet<String>,
    pub(super) violations: Vec<String>,
    pub(super) unknown: u64,
}

/// What became of a hold.
#[derive(Debug, Clone)]
pub(super) struct NotedHold {
    pub(super) asked: AskedHold,
    /// When it was first asked for.
    pub(super) begun: Instant,
    /// When it was known to be admitted.
    pub(super) admitted: Option<Instant>,
    /// When the last step was sent that certainly gave it its length.
    pub(super) lives_from: Instant,
    /// When it was first to be settled.
    pub(super) ending: Option<Instant>,
    /// When it was over at the latest, if that is known.
    pub(super) over: Option<Instant>,
    /// When the last answer about it came, or the last call was given up.
    pub(super) last: Instant,
    /// Reservations of unknown outcome.
    pub(super) unknown: u32,
    /// The least and the most that it cost each key in the end, if it was taken once.
    pub(super) cost: (u64, u64),
}

/// A hold that was denied.
#[derive(Debug, Clone, Copy)]
pub(super) struct Denial {
    pub(super) asked: AskedHold,
    pub(super) sent: Instant,
    pub(super) answered: Instant,
}

/// What a server has of a key.
#[derive(Debug, Default)]
pub(super) struct StoredKey {
    /// When it was asked, and when it had answered.
    asked: Option<(Instant, Instant)>,
    pub(super) live: u32,
    forgotten: u32,
    used: u64,
}

/// Reads how many units of a key are live, how many of these its counter will forget before they end, and the count of
/// its quota.
const LOOK: &str = "
local time = redis.call('TIME')
local now, live, forgotten, used = time[1] * 1000 + math.floor(time[2] / 1000), 0, 0, 0
for _, name in ipairs(redis.call('KEYS', 'tollgate:1:live:~in_flight:*' .. ARGV[1])) do
  local members, expires = redis.call('ZRANGE', name, 0, -1, 'WITHSCORES'), redis.call('PEXPIRETIME', name)
  for i = 2, #members, 2 do
    if members[i] + 0 > now then live = live + 1 end
    if members[i] + 0 > math.max(now, expires) then forgotten = forgotten + 1 end
  end
end
for _, name in ipairs(redis.call('KEYS', 'tollgate:1:words:*' .. ARGV[1])) do
  used = used + redis.call('GET', name) % 1e13
end
return { live, forgotten, used }";

impl Ledger {
    pub(super) fn add(&mut self, other: Self) {
        self.holds.extend(other.holds);
        self.denials.extend(other.denials);
        for (sum, (least, most)) in self.charged.iter_mut().zip(other.charged) {
            *sum = (sum.0 + least, sum.1 + most);
        }
        self.errors.extend(other.errors);
        self.violations.extend(other.violations);
        self.unknown += other.unknown;
    }

    /// G1: at no moment did holds that certainly lived have more units than the limit. A server that has lost its
    /// data so many times may have admitted the limit again after each.
    pub(super) fn judge_limit(&self, losses: u64, clock: &ClockSteps, found: &mut Found) {
        for key in 0..KEYS {
            let mut changes: Vec<(Instant, i64)> = Vec::new();
            for hold in self.holds.iter().filter(|hold| hold.asked.has(key)) {
                if let Some((from, to)) = hold.certain(clock) {
                    changes.extend([(from, i64::from(hold.asked.units)), (to, -i64::from(hold.asked.units))]);
                }
            }
            // Of several changes at one moment, ends come first.
            changes.sort_unstable();
            let mut live = 0;
            let most = changes.iter().map(|(_, change)| (live += change, live).1).max().unwrap_or(0);
            let limit = i64::from(LIMIT) * (1 + losses.cast_signed());
            found.expect(most <= limit, || {
                format!("key {key}: {most} units were live at once, limit {limit} (G1)")
            });
            found.expect(most > i64::from(LIMIT) / 2, || {
                format!("key {key}: at most {most} units were certainly live, which proves little")
            });
        }
    }

    /// G2, G6: if holds that may have lived while a hold was denied left room for it under each of its keys, it was
    /// denied in error.
    pub(super) fn judge_denials(&self, found: &mut Found) {
        for Denial { asked, sent, answered } in &self.denials {
            let others = || {
                self.holds.iter().filter(|hold| {
                    hold.asked.id != asked.id
                        && hold.begun <= *answered
                        && hold.over.is_none_or(|over| over >= *sent)
                })
            };
            let live_at = |key| -> u32 {
                others().filter(|hold| hold.asked.has(key)).map(|hold| hold.asked.units).sum()
            };
            let live: Vec<u32> = asked.keys().map(live_at).collect();
            found.expect(live.iter().any(|live| live + asked.units > LIMIT), || {
                let keys: Vec<usize> = asked.keys().collect();
                format!("keys {keys:?}: {} units denied, {live:?} of {LIMIT} were live (G2)", asked.units)
            });
        }
    }

    /// Compares what a server has of a key with the ledger. Each id was counted once, unless calls took so long that it
    /// was forgotten between them.
    pub(super) fn judge_key(
        &self,
        key: usize,
        stored: &StoredKey,
        (losses, is_prompt): (u64, bool),
        clock: &ClockSteps,
        found: &mut Found,
    ) {
        let holds = || self.holds.iter().filter(|hold| hold.asked.has(key));
        let Some((asked, answered)) = stored.asked else {
            return found.violations.push(format!("key {key}: no server has it"));
        };
        let lives =
            |hold: &&NotedHold| hold.certain(clock).is_some_and(|(from, to)| from <= asked && answered < to);
        let may_live = |hold: &&NotedHold| hold.over.is_none_or(|over| over >= asked);
        let certain: u32 = holds().filter(lives).map(|hold| hold.asked.units).sum();
        let possible: u32 = holds().filter(may_live).map(|hold| hold.asked.units).sum();
        if losses == 0 {
            found.expect(stored.live >= certain, || {
                format!("key {key}: {} units are live, and {certain} belong to holds that live", stored.live)
            });
            if !clock.went_back() {
                found.expect(stored.live <= possible, || {
                    format!("key {key}: {} units are live, {possible} can be (G5)", stored.live)
                });
            }
        }
        found.expect(stored.forgotten == 0, || {
            format!("key {key}: the counter expires before {} of its units (G5)", stored.forgotten)
        });
        found.expect(stored.live <= LIMIT, || format!("key {key}: {} units are live (G1)", stored.live));
        let (mut least, mut most) = self.charged[key];
        for hold in holds() {
            least += hold.cost.0;
            most += hold.cost.1 + if is_prompt && hold.is_prompt() { 0 } else { hold.repeated_cost() };
        }
        // Of a hold that was lost, a caller may settle nothing, and another primary has no count.
        let least = if losses > 0 { 0 } else { least };
        let most = if losses > 0 { most + self.overestimate(key) } else { most };
        found.expect((least..=most).contains(&stored.used), || {
            format!("key {key}: {} used, {least} to {most} were charged (G7)", stored.used)
        });
    }

    /// What holds cost more if their settlements were lost, and they were settled again at a unit more.
    fn overestimate(&self, key: usize) -> u64 {
        let holds = self.holds.iter().filter(|hold| hold.asked.has(key));
        holds.map(|hold| u64::from(hold.asked.cost) + 1).sum()
    }
}

impl NotedHold {
    pub(super) fn new(asked: AskedHold) -> Self {
        let now = Instant::now();
        Self {
            asked,
            begun: now,
            admitted: None,
            lives_from: now,
            ending: None,
            over: None,
            last: now,
            unknown: 0,
            cost: (0, 0),
        }
    }

    /// Notes that it is not taken, as its last answer said. Before a denial is answered, what slots had taken is undone,
    /// unless that takes longer than a step of its store may, or than an undo is tried.
    pub(super) fn refuse(&mut self, took: Duration, deadline: Duration) {
        let (now, cost) = (Instant::now(), u64::from(self.asked.cost));
        let is_undone = self.asked.span == 1 || took < deadline.min(UNDO_PATIENCE);
        self.cost = (0, if self.unknown > 0 || !is_undone { cost } else { 0 });
        self.over = match self.asked.span {
            _ if self.unknown > 0 => None,
            _ if !is_undone => Some(now + self.asked.length),
            1 => Some(self.begun),
            _ => Some(now),
        };
    }

    /// Returns from when to when it certainly lived.
    fn certain(&self, clock: &ClockSteps) -> Option<(Instant, Instant)> {
        let from = self.admitted?;
        let to = clock.certain_end(self.lives_from, self.asked.length);
        let to = self.ending.map_or(to, |ending| to.min(ending));
        (from < to).then_some((from, to))
    }

    /// Whether all calls came to an end while the id was remembered.
    fn is_prompt(&self) -> bool {
        self.asked.length == LENGTH && self.last - self.begun < LENGTH / 2
    }

    /// What repeated reservations cost if the id was forgotten between them.
    fn repeated_cost(&self) -> u64 {
        u64::from(self.unknown) * u64::from(self.asked.cost)
    }
}

/// Reads a key on the server that has it.
pub(super) fn read_key(servers: &[&Server], key: usize) -> StoredKey {
    let mut stored = StoredKey::default();
    for server in servers {
        let asked = Instant::now();
        let tag = format!("{{{}}}", key_name(key));
        let (live, forgotten, used): (u32, u32, u64) = server.command(["EVAL", LOOK, "0", &tag]);
        if live > 0 || used > 0 {
            let is_second = stored.asked.replace((asked, Instant::now())).is_some();
            assert!(!is_second, "two servers have {tag}");
            (stored.live, stored.forgotten, stored.used) = (live, forgotten, used);
        }
    }
    stored
}
