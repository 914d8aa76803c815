//! A cluster: slots, failovers, slots on their way.

use std::collections::HashSet;

use tollgate_testkit::servers::{Cluster, Data, SLOTS, Server, Software};

fn set(server: &Server, key: &str) {
    server.command::<()>(["SET", key, "1"]);
}

/// What a node says when asked for a key: its value or where else to ask.
fn get(server: &Server, key: &str) -> Result<Option<u32>, String> {
    server.try_command(["GET", key]).map_err(|error| error.code().unwrap_or_default().to_owned())
}

#[test]
fn three_primaries_cover_all_slots_and_each_has_a_replica() {
    for software in Software::ALL {
        let cluster = Cluster::start(software);
        for node in cluster.nodes() {
            assert_eq!(node.software(), software);
            let info: String = node.command(["CLUSTER", "INFO"]);
            for line in
                ["cluster_state:ok", "cluster_slots_ok:16384", "cluster_size:3", "cluster_known_nodes:6"]
            {
                assert!(info.contains(line), "{info}");
            }
        }
        let primaries: HashSet<_> =
            [0, SLOTS / 2, SLOTS - 1].map(|slot| cluster.primary_of(slot).address()).into();
        let replicas: HashSet<_> =
            [0, SLOTS / 2, SLOTS - 1].map(|slot| cluster.replica_of(slot).address()).into();
        assert_eq!((primaries.len(), replicas.len()), (3, 3));
        assert!(primaries.is_disjoint(&replicas));
    }
}

#[test]
fn the_replica_of_a_killed_primary_takes_over_with_its_keys() {
    let cluster = Cluster::start(Software::Redis);
    let slot = cluster.slot_of("{alice}");
    let (primary, replica) = (cluster.primary_of(slot), cluster.replica_of(slot));
    let mut connection = primary.connection();
    redis::cmd("SET").arg("{alice}1").arg(1).exec(&mut connection).unwrap();
    redis::cmd("WAIT").arg(1).arg(0).exec(&mut connection).unwrap();
    assert_eq!(cluster.kill_primary_of(slot).address(), primary.address());
    let new = cluster.primary_of(slot);
    assert_eq!(new.address(), replica.address());
    assert_eq!(get(new, "{alice}1"), Ok(Some(1)));
    // The old one comes back as a replica of the new, even without its data.
    primary.start_again(Data::Lost);
    assert_eq!(cluster.replica_of(slot).address(), primary.address());
    assert_eq!(cluster.primary_of(slot).address(), new.address());
}

#[test]
fn an_ordered_failover_exchanges_primary_and_replica() {
    let cluster = Cluster::start(Software::Valkey);
    let (old, replica) = (cluster.primary_of(7), cluster.replica_of(7));
    assert_eq!(cluster.fail_over(7).address(), replica.address());
    assert_eq!(cluster.primary_of(7).address(), replica.address());
    assert_eq!(cluster.replica_of(7).address(), old.address());
}

#[test]
fn a_slot_moves_step_by_step() {
    for software in Software::ALL {
        let cluster = Cluster::start(software);
        let slot = cluster.slot_of("{alice}");
        let (from, to) = (cluster.primary_of(slot), cluster.other_primary(slot));
        for key in ["{alice}1", "{alice}2"] {
            set(from, key);
        }
        let migration = cluster.migrate(slot, to);
        // Whoever asks for what is not here any more, or not yet, is sent there once.
        assert_eq!(get(from, "{alice}1"), Ok(Some(1)));
        assert_eq!(get(from, "{alice}3"), Err("ASK".to_owned()));
        assert_eq!(get(to, "{alice}1"), Err("MOVED".to_owned()));
        assert_eq!(migration.move_keys(1), 1);
        let left = ["{alice}1", "{alice}2"].map(|key| get(from, key));
        assert_eq!(left.iter().filter(|answer| **answer == Err("ASK".to_owned())).count(), 1, "{left:?}");
        migration.finish();
        assert_eq!(cluster.primary_of(slot).address(), to.address());
        for key in ["{alice}1", "{alice}2"] {
            assert_eq!(get(from, key), Err("MOVED".to_owned()));
            assert_eq!(get(to, key), Ok(Some(1)));
        }
    }
}
