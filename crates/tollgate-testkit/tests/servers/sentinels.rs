//! Sentinels: who the primary is, and who follows it.

use tollgate_testkit::servers::{Data, Sentinels, Settings, Software};

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

#[test]
fn a_primary_that_comes_back_follows_the_new_one() {
    let sentinels = Sentinels::with(&Settings::new(Software::Redis).password("general"));
    let old = sentinels.kill_primary();
    let new = sentinels.primary();
    old.start_again(Data::Lost);
    assert_eq!(sentinels.replica().address(), old.address());
    let error = old.try_command::<()>(["SET", "colour", "blue"]).unwrap_err();
    assert_eq!(error.code(), Some("READONLY"));
    assert_eq!(sentinels.fail_over().address(), old.address());
    assert_eq!(sentinels.replica().address(), new.address());
}
