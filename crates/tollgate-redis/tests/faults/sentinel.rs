//! A primary that sentinels replace.

use tollgate_testkit::servers::{Data, Sentinels};

use crate::crowd::{Crowd, Noticed};
use crate::fault::{Fault, Round};

/// Primary and replica are exchanged. The new one may lack what the old one acknowledged last.
pub(crate) const FAILOVER: Fault = Fault { name: "sentinel-failover", round: failover };

/// The primary is killed, and its replica takes over.
pub(crate) const KILL: Fault = Fault { name: "sentinel-kill", round: kill };

#[test]
fn an_exchange_by_sentinels_admits_at_most_one_limit_more() {
    FAILOVER.test(1);
}

#[test]
fn the_loss_of_a_primary_admits_at_most_one_limit_more() {
    KILL.test(1);
}

pub(crate) fn url(sentinels: &Sentinels) -> String {
    let addresses: Vec<_> =
        sentinels.sentinels().iter().map(|sentinel| sentinel.address().to_string()).collect();
    format!("redis+sentinel://{}/{}", addresses.join(","), Sentinels::NAME)
}

fn failover(round: &mut Round) {
    let sentinels = Sentinels::start(round.software());
    let mut crowd = Crowd::start(&url(&sentinels), Data::Lost);
    for _ in 0..2 {
        crowd.in_trouble(round, |_| {
            sentinels.fail_over();
        });
    }
    crowd.end(round, &Noticed::Perhaps, &[sentinels.primary()]);
}

fn kill(round: &mut Round) {
    let sentinels = Sentinels::start(round.software());
    let mut crowd = Crowd::start(&url(&sentinels), Data::Lost);
    crowd.in_trouble(round, |_| {
        let dead = sentinels.kill_primary();
        // Comes back when the replica has taken over.
        let _ = sentinels.primary();
        // It comes back believing that it is the primary.
        dead.start_again(Data::Lost);
    });
    crowd.end(round, &Noticed::Perhaps, &[sentinels.primary()]);
}
