//! Clients that set a limit, in words.

use super::number::{counted, grouped};
use super::share::{percent, share_of_clients};
use crate::limits::setters::LimitSetters;

impl LimitSetters {
    /// Who they are: `4 clients with 99 % errors`.
    fn words(&self, client: &str) -> String {
        if self.failed > self.requests / 2 {
            let errors = percent(self.failed, self.requests);
            format!("{} with {errors} errors", counted(self.clients, client))
        } else if self.robots == self.clients {
            counted(self.clients, "robot")
        } else {
            format!("{}, robots or with mostly errors", counted(self.clients, client))
        }
    }

    /// The same as a sentence, with the budget of the other limit.
    pub(super) fn sentence(&self, client: &str, window: &str) -> String {
        let them = if self.clients == 1 { "it" } else { "them" };
        format!(
            "It is set by {}, far above all others; without {them}, the limit would be {}/{window}, for at most {} of {client}s. Look at \
             {them} before you choose.",
            self.words(client),
            grouped(self.limit_without),
            share_of_clients(self.budget_without)
        )
    }

    /// A remark for a limit of this window: `set by 4 clients with 99 % errors; without them 2/1m`.
    #[must_use]
    pub fn remark(&self, client: &str, window: &str) -> String {
        let them = if self.clients == 1 { "it" } else { "them" };
        let limit = grouped(self.limit_without);
        let limit = if window.is_empty() { limit } else { format!("{limit}/{window}") };
        format!("set by {}; without {them} {limit}", self.words(client))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remark_says_who_sets_the_limit() {
        let failing = LimitSetters {
            clients: 4,
            robots: 0,
            requests: 10_000,
            failed: 9_900,
            limit_without: 2,
            budget_without: 0.001,
        };
        let one = LimitSetters { clients: 1, requests: 2_500, failed: 2_475, ..failing.clone() };
        let robots = LimitSetters { clients: 3, robots: 3, requests: 7_500, failed: 0, ..failing.clone() };
        let both = LimitSetters { robots: 2, failed: 2_475, ..robots.clone() };
        for (setters, remark) in [
            (failing, "set by 4 clients with 99 % errors; without them 2/1m"),
            (one, "set by 1 client with 99 % errors; without it 2/1m"),
            (robots, "set by 3 robots; without them 2/1m"),
            (both, "set by 3 clients, robots or with mostly errors; without them 2/1m"),
        ] {
            assert_eq!(setters.remark("client", "1m"), remark);
        }
    }
}
