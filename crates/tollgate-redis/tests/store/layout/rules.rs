//! The conformance suite, as far as windows in keys keep its promises.

mod redis {
    use tollgate_testkit::conformance;
    use tollgate_testkit::servers::Software;

    use super::super::served;

    conformance!(windows_in_keys: served(Software::Redis));
}

mod valkey_whose_clock_is_moved {
    use tollgate_testkit::conformance;
    use tollgate_testkit::servers::Software;

    use super::super::steered;

    conformance!(windows_in_keys_steered: steered(Software::Valkey));
}

mod redis_cluster {
    use tollgate_testkit::conformance;
    use tollgate_testkit::servers::Software;

    use super::super::{LAYOUT, clustered};

    conformance!(windows_in_keys: clustered(Software::Redis, LAYOUT));
}

mod valkey_cluster_with_one_slot_for_each_key {
    use tollgate_testkit::conformance;
    use tollgate_testkit::servers::Software;

    use super::super::{TAGGED, clustered};

    conformance!(windows_in_keys: clustered(Software::Valkey, TAGGED));
}
