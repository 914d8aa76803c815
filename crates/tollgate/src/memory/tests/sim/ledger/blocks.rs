//! What a store may answer to a charge that may block its key.

use super::super::answer::{Event, Reading, State};
use super::super::contents::{Contents, LARGEST, Standing};
use super::super::world::Ask;
use super::{Belief, Ledger, Written, disagreement, remember_written, state};

impl Ledger<'_> {
    /// For each counter what it may hold after this answer. The counter and its block were decided together, so each has
    /// to agree with what the answer says of the other.
    pub(super) fn blocked_at(
        &self,
        reading: &Reading,
        event: &Event,
        asks: &[Ask; 2],
        counters: &[usize],
        states: &[State],
    ) -> Result<Vec<Vec<Belief>>, String> {
        let ([counter, block], [counted, blocked]) = (asks, states) else {
            return Err("the answer is about a counter and its block".to_owned());
        };
        let mut all = Vec::new();
        for number in counters {
            let is_block = *number == self.counter(block);
            let (ask, told) = if is_block { (block, blocked) } else { (counter, counted) };
            let (mut beliefs, mut expected) = (Vec::new(), Vec::new());
            for belief in &self.counters[*number] {
                for mut standing in self.standings(ask, belief, reading, event) {
                    if is_block {
                        self.shorten_block(block, &mut standing, counter.cost, reading.time);
                    }
                    let outcomes = if is_block {
                        vec![self.expect_block(block, &standing, counter.cost, [counted, blocked])]
                    } else {
                        self.expect_counter(counter, &standing, blocked, reading, event)
                    };
                    for (written, says) in outcomes {
                        if says == *told {
                            remember_written(&mut beliefs, belief, &standing, written, reading);
                        }
                        expected.push(says);
                    }
                }
            }
            if beliefs.is_empty() {
                return Err(disagreement(self.world, &[(ask, told)], &expected));
            }
            all.push(beliefs);
        }
        Ok(all)
    }

    /// A block that has begun ends no later than its length from now, whatever a step back of the clock says. A step
    /// without units writes nothing of that.
    fn shorten_block(&self, block: &Ask, standing: &mut Standing, cost: u32, now: i64) {
        let terms = &self.world.quotas[block.quota];
        if standing.used == 0 {
            return;
        }
        if let Contents::Window { window, .. } = &mut standing.contents
            && window.start > now
        {
            *window = terms.cut.window_at(block.key, now);
            standing.has_moved = true;
        }
        standing.has_moved &= cost > 0;
    }

    /// A block that has begun stays as it is. Else it begins, if the answer says so, with all units that were used then.
    fn expect_block(
        &self,
        block: &Ask,
        standing: &Standing,
        cost: u32,
        [counted, blocked]: [&State; 2],
    ) -> (Written, State) {
        let terms = &self.world.quotas[block.quota];
        let says = |contents: &Contents| state(terms, contents, blocked.now, None, 0, 0);
        // A saturated counter takes no more units.
        let has_taken = counted.units > 0 || blocked.used == LARGEST;
        let begins = cost > 0 && standing.used == 0 && blocked.used > 0 && has_taken;
        if !begins {
            return (Written::Nothing, says(&standing.contents));
        }
        let begun = standing.contents.with_only(terms, blocked.now, blocked.used);
        let says = says(&begun);
        (Written::Contents(begun), says)
    }

    /// A counter takes the units, unless its block had begun before. Above the limit it is forgotten, and the block has
    /// its units.
    fn expect_counter(
        &self,
        counter: &Ask,
        standing: &Standing,
        blocked: &State,
        reading: &Reading,
        event: &Event,
    ) -> Vec<(Written, State)> {
        let (terms, now) = (&self.world.quotas[counter.quota], reading.time);
        let says = |contents: &Contents, units| state(terms, contents, now, None, 0, units);
        let untouched = || (Written::Nothing, says(&standing.contents, 0));
        if counter.cost == 0 {
            return vec![untouched()];
        }
        let after = standing.contents.with_more(terms, now, counter.cost.into());
        let used = after.used_now(terms, now);
        let taken = (used - standing.used).min(counter.cost.into());
        if blocked.used == 0 {
            let counts = used <= terms.limit;
            let charged = says(&after, taken);
            return counts.then_some((Written::Contents(after), charged)).into_iter().collect();
        }
        // It was blocked before, or it is now.
        let begins = used > terms.limit && used == blocked.used;
        let nothing = self.standings(counter, &Belief::NOTHING, reading, event);
        let forgotten = nothing.iter().map(|nothing| (Written::Reset, says(&nothing.contents, taken)));
        forgotten.filter(|_| begins).chain([untouched()]).collect()
    }
}
