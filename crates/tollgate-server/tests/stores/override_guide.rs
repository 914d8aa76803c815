//! The guide `docs/change-one-customers-limit.md`, with two services on one Redis.

#![allow(clippy::expect_used, reason = "this is a test")]

use tollgate_testkit::servers::{self, Software};

use crate::support::override_guide::OverrideGuide;
use crate::support::{Server, tollgate};

#[test]
fn one_customers_limit_is_changed_in_all_services_of_a_store() {
    let store = servers::Server::start(Software::Redis);
    let url = format!("redis://{}", store.address());
    // A busy machine must not look like an outage.
    let patient = ["--store-timeout", "30s", "--store-connect-timeout", "30s"];
    let mut guide = OverrideGuide::start("--store", |folder, arguments| {
        let arguments: Vec<String> =
            arguments.iter().map(|argument| argument.replace("redis://127.0.0.1", &url)).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(patient).collect();
        let start = || {
            let mut command = tollgate();
            command.current_dir(folder);
            Server::start_by(command, &arguments)
        };
        vec![start(), start()]
    });
    guide.play();
    guide.explain(&format!("--store {url} --store-timeout 30s"));
}
