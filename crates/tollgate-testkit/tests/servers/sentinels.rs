//! Sentinels: who the primary is, and who follows it.

use tollgate_testkit::servers::{Data, Sentinels, Server, Settings, Software};

#[test]
fn the_replica_takes_over_from_a_killed_primary() {
    for software in Software::ALL {
        let sentinels = Sentinels::start(software);
        let (old, replica) = (sentinels.primary(), sentinels.replica());
        assert_eq!(old.address(), sentinels.servers()[0].address());
        assert!(sentinels.sentinels().iter().all(|sentinel| sentinel.software() == software));
        assert_eq!(sentinels.kill_primary().address(), old.address());
        let new = sentinels.primary();
        assert_eq!(new.address(), replica.address());
        new.command::<()>(["SET", "colour", "blue"]);
    }
}

/// If the machine stands still for a second, the sentinels exchange the two once more, and the test begins again.
#[test]
fn a_primary_that_comes_back_follows_the_new_one() {
    let follows = || {
        let sentinels = Sentinels::with(&Settings::new(Software::Redis).password("general"));
        let old = sentinels.kill_primary();
        let new = sentinels.primary();
        old.start_again(Data::Lost);
        let refused = |old: &Server| {
            let error = old.try_command::<()>(["SET", "colour", "blue"]).err();
            error.is_some_and(|error| error.code() == Some("READONLY"))
        };
        sentinels.replica().address() == old.address()
            && refused(old)
            && sentinels.fail_over().address() == old.address()
            && sentinels.replica().address() == new.address()
    };
    assert!((0..3).any(|_| follows()), "the former primary does not follow the new one");
}
