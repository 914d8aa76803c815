//! The conformance suite.

mod redis {
    use tollgate_testkit::conformance;
    use tollgate_testkit::servers::Software;

    use crate::servers::served;

    conformance!(every_store: served(Software::Redis));
    conformance!(holds: served(Software::Redis));
    conformance!(ends: served(Software::Redis));
    conformance!(ends_of_holds: served(Software::Redis));
}

mod valkey {
    use tollgate_testkit::conformance;
    use tollgate_testkit::servers::Software;

    use crate::servers::served;

    conformance!(every_store: served(Software::Valkey));
    conformance!(holds: served(Software::Valkey));
    conformance!(ends: served(Software::Valkey));
    conformance!(ends_of_holds: served(Software::Valkey));
}

mod redis_whose_clock_is_moved {
    use tollgate_testkit::conformance;
    use tollgate_testkit::servers::Software;

    use crate::servers::steered;

    conformance!(steered_clock: steered(Software::Redis));
    conformance!(server_clock: steered(Software::Redis));
    conformance!(holds_steered: steered(Software::Redis));
    conformance!(ends_steered: steered(Software::Redis));
    conformance!(ends_of_holds_steered: steered(Software::Redis));
}

mod valkey_whose_clock_is_moved {
    use tollgate_testkit::conformance;
    use tollgate_testkit::servers::Software;

    use crate::servers::steered;

    conformance!(steered_clock: steered(Software::Valkey));
    conformance!(server_clock: steered(Software::Valkey));
    conformance!(holds_steered: steered(Software::Valkey));
    conformance!(ends_steered: steered(Software::Valkey));
    conformance!(ends_of_holds_steered: steered(Software::Valkey));
}

mod redis_cluster {
    use tollgate_testkit::conformance;
    use tollgate_testkit::servers::Software;

    use crate::servers::clustered;

    conformance!(every_store: clustered(Software::Redis));
    conformance!(holds: clustered(Software::Redis));
    conformance!(ends: clustered(Software::Redis));
    conformance!(ends_of_holds: clustered(Software::Redis));
}

mod valkey_cluster {
    use tollgate_testkit::conformance;
    use tollgate_testkit::servers::Software;

    use crate::servers::clustered;

    conformance!(every_store: clustered(Software::Valkey));
    conformance!(holds: clustered(Software::Valkey));
    conformance!(ends: clustered(Software::Valkey));
    conformance!(ends_of_holds: clustered(Software::Valkey));
}
