//! The conformance suite for the memory store, under a manual clock and under the system clock.

mod under_a_manual_clock {
    use tollgate_testkit::{ManualMemory, conformance};

    mod every_store {
        super::conformance!(every_store: super::ManualMemory::new());
    }

    mod in_process {
        super::conformance!(in_process: super::ManualMemory::new());
    }

    mod steered_clock {
        super::conformance!(steered_clock: super::ManualMemory::new());
    }

    mod ends {
        super::conformance!(ends: super::ManualMemory::new());
        super::conformance!(ends_steered: super::ManualMemory::new());
        super::conformance!(ends_of_holds: super::ManualMemory::new());
        super::conformance!(ends_of_holds_steered: super::ManualMemory::new());
    }

    mod holds {
        super::conformance!(holds: super::ManualMemory::new());
        super::conformance!(holds_steered: super::ManualMemory::new());
    }

    mod capped {
        super::conformance!(capped: super::ManualMemory);
    }
}

mod under_the_systems_clock {
    use tollgate_testkit::{SystemMemory, conformance};

    conformance!(every_store: SystemMemory::new());

    mod ends {
        super::conformance!(ends: super::SystemMemory::new());
        super::conformance!(ends_of_holds: super::SystemMemory::new());
    }

    mod holds {
        super::conformance!(holds: super::SystemMemory::new());
    }
}
