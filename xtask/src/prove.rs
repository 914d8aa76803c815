//! `cargo xtask prove`: searches for violations that take longer than a test may.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use clap::Subcommand;

use crate::command::{CommandLine, command, program, target_directory};
use crate::deploy;
use crate::install;
use crate::live_page;
use crate::planted;
use crate::proof_tests::{
    envoy_tests, fault_tests, library_tests, models, network_tests, override_tests, policy_tests,
    reading_tests, shuttle_tests, truth_tests,
};
use crate::prove_clients::ClientsProof;
use crate::proxies;
use crate::publish;
use crate::servers;
use crate::service::BuiltService;
use crate::tools;
use crate::unpacked::PROMTOOL;
use crate::upgrade;

#[derive(Debug, Subcommand)]
pub(crate) enum Proof {
    /// Check the alert rules in examples/alerts, and what they do minute by minute
    Alerts,
    /// Lint the programs that measure, and test what they share
    Benches,
    /// Send 200 checks at once to a service that has just started with an empty store, under a limit of 50: on an idle
    /// machine, then next to busy threads
    Burst {
        /// Services started in each of the two cases
        #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
        trials: u32,
    },
    /// Start an app of each framework in two processes: parallel requests admit exactly the limit, faults of the service
    /// delay no answer, and the middleware adds little to a request
    Clients(ClientsProof),
    /// Check the unit, the chart, the manifest and the compose file in deploy/ with the tools that read them
    Deploy {
        /// Write the manifest that the chart renders, instead of comparing it
        #[arg(long)]
        write: bool,
    },
    /// Decide random requests by random files of envoyproxy/ratelimit, and compare each decision with a naive reading
    Envoy {
        /// Files, with 12 requests each
        #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
        files: u64,
        /// Seed of the first file, as a violation names it; the following files have the following seeds
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Plant known bugs in a copy of the sources, and show that each is found
        #[arg(long)]
        planted: bool,
    },
    /// Start Envoy, nginx, Caddy, Traefik and HAProxy in front of a small server, and let them check with the service
    Gateway,
    /// Record calls and answers of clients of one server, of Sentinels and of a Cluster, with and without faults, and
    /// search for an order of the calls that explains every answer
    Histories {
        /// Number of histories of all kinds together
        #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
        histories: u64,
        /// Seed of the first round, as a violation names it; the following rounds have the following seeds. Random by
        /// default
        #[arg(long)]
        seed: Option<u64>,
        /// Record only histories of this kind
        #[arg(long)]
        kind: Option<String>,
    },
    /// Test /openapi.json with generated requests on both listeners; then send malformed inputs, and measure how much
    /// slow clients delay others
    Http {
        /// Generated requests for each operation and phase
        #[arg(long, default_value_t = 500)]
        examples: u32,
        /// Send only this many malformed inputs over HTTP/1.1 and HTTP/2: the status is below 500, or the connection
        /// ends
        #[arg(long, num_args = 0..=1, default_missing_value = MALFORMED_INPUTS)]
        inputs: Option<u64>,
        /// Connect only this many slow clients: they must not double the p99 of other clients
        #[arg(long, num_args = 0..=1, default_missing_value = SLOW_CLIENTS, conflicts_with = "inputs")]
        #[arg(value_parser = clap::value_parser!(u32).range(100..))]
        slow: Option<u32>,
        /// Seed of the first connection with malformed inputs, as a violation names it
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Build the static binary and run it in an empty root, as the image does; measure its size, start and memory
    Install,
    /// Run the models of the memory store with more threads and in more orders than the tests do; then run crowds of
    /// threads in thousands of orders that shuttle chooses
    Memory {
        /// Longest search of one model; after it, the result says `complete=no`
        #[arg(long)]
        seconds: Option<u32>,
        /// Orders of each crowd
        #[arg(long, default_value_t = 10_000)]
        crowds: u32,
    },
    /// Run the memory store's tests in miri, which simulates processors with a weaker memory model
    Miri,
    /// Mutate real policy files, headers, paths, tokens and keys: no input panics, changes a client's identity, or
    /// makes an unsigned token valid
    Mutations {
        /// Number of files, and of all other inputs together
        #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..))]
        inputs: u32,
        /// Seed of the first input other than a file, as a violation names it
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Change overrides through two services on one store, while it fails, and compare every decision with what the
    /// version that it names says
    Overrides {
        /// Changes in all rounds together
        #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
        changes: u64,
        /// Seed of the first round, as a violation names it; the following rounds have the following seeds
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Run only rounds of this name
        #[arg(long)]
        round: Option<String>,
        /// Plant known bugs in a copy of the sources, and show that each is found
        #[arg(long)]
        planted: bool,
    },
    /// Open the live page of a service under load in a browser: in every view and width, with a thousand policies, and
    /// behind a proxy
    Page {
        /// Run only the suite that each change must pass
        #[arg(long)]
        quick: bool,
    },
    /// Fuzz the parsers of policy files and of logs, guided by coverage
    Parser {
        /// Seconds for each parser
        #[arg(long, default_value_t = 300)]
        seconds: u32,
    },
    /// Decide random requests by random policy files, and compare each decision with a naive reading of the file
    Policies {
        /// Files, with 12 requests each
        #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
        files: u64,
        /// Seed of the first file, as a violation names it; the following files have the following seeds
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Plant known bugs in a copy of the sources, and show that each is found
        #[arg(long)]
        planted: bool,
    },
    /// Package each crate and build it from its package; no dependency may need a newer Rust than the manifest promises
    Publish,
    /// Charge the library and the service on the real clock around the ends of windows, and count the admitted units
    Realtime {
        /// Minutes in all
        #[arg(long, default_value_t = 30)]
        minutes: u64,
    },
    /// Inject every known fault into real Redis and Valkey servers, and print one RESULT line for each
    Redis {
        /// Rounds of each fault
        #[arg(long, default_value_t = 10)]
        rounds: u64,
        /// Seed of the first round, as a violation names it; the following rounds have the following seeds. Random by
        /// default
        #[arg(long)]
        seed: Option<u64>,
        /// Inject only this fault
        #[arg(long)]
        fault: Option<String>,
        /// Plant known bugs in a copy of the sources, and show that each is found
        #[arg(long)]
        planted: bool,
    },
    /// Replace the policies of the service while it answers, search for a decision that mixes two versions, and
    /// measure a hundred thousand policies
    Reloads {
        /// Number of replacements
        #[arg(long, default_value_t = 10_000)]
        reloads: u32,
    },
    /// Run the memory store in simulated worlds whose clock may move at any moment, and compare every answer with a
    /// ledger
    Sim {
        /// Worlds in which calls run one after another; in a tenth as many, threads interrupt each other
        #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
        schedules: u64,
        /// Seed of the first world, as a violation names it; the following worlds have the following seeds
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Plant known bugs in a copy of the sources, and show that each is found
        #[arg(long)]
        planted: bool,
    },
    /// Compare replays of random requests with a naive replay, compare suggested limits with the known truth of
    /// generated logs, and replay the logs of real web servers in front of the service
    Simulate {
        /// Random cases of each property of the replay
        #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u32).range(1..))]
        cases: u32,
        /// Logs for which a limit is suggested
        #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
        logs: u32,
        /// Seed of the first log; the following logs have the following seeds
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Plant known bugs in a copy of the sources, and show that each is found in the logs of web servers
        #[arg(long)]
        planted: bool,
    },
    /// Count random and adversarial streams of keys in bounded memory, and compare each count with an exact ledger
    Talkers {
        /// Streams
        #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
        streams: u64,
        /// Seed of the first stream, as a violation names it; the following streams have the following seeds
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
    /// Replace one version of the service by another behind nginx, on one store, while clients charge
    Upgrade {
        /// The commit of the older version
        #[arg(long, value_name = "COMMIT", default_value = upgrade::OLDEST)]
        from: String,
    },
    /// Let go-control-plane send limits over xDS, and let Envoy ask, with the routes that Envoy Gateway generates
    Xds {
        /// Seed of the requests, as a violation names it
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
}

/// The number of malformed inputs by default.
const MALFORMED_INPUTS: &str = "1000000";

/// The number of slow clients by default.
const SLOW_CLIENTS: &str = "10000";

/// The version that the proof is known to work with.
const SCHEMATHESIS: &str = "schemathesis==4.32.5";

/// The names of all proofs on the command line.
pub(crate) fn names() -> Vec<String> {
    let proofs = Proof::augment_subcommands(clap::Command::new("prove"));
    proofs.get_subcommands().map(|proof| proof.get_name().to_owned()).collect()
}

/// Returns the arguments that shorten the proof of this name to a few minutes; none if it takes no longer anyway.
pub(crate) fn brief(name: &str) -> &'static [&'static str] {
    match name {
        "burst" => &["--trials", "100"],
        "clients" => &["--bursts", "5", "--rounds", "3"],
        "histories" => &["--histories", "1000"],
        "http" => &["--inputs", "20000"],
        "memory" => &["--seconds", "2", "--crowds", "200"],
        "mutations" => &["--inputs", "50000"],
        "overrides" => &["--changes", "1000"],
        "page" => &["--quick"],
        "parser" => &["--seconds", "30"],
        "policies" => &["--files", "50000"],
        "realtime" => &["--minutes", "1"],
        "redis" => &["--rounds", "1"],
        "reloads" => &["--reloads", "1000"],
        "sim" => &["--schedules", "20000"],
        "simulate" => &["--cases", "500"],
        "talkers" => &["--streams", "1000"],
        _ => &[],
    }
}

impl Proof {
    pub(crate) fn run(self) -> Result<()> {
        match self {
            Self::Alerts => alerts(),
            Self::Benches => benches(),
            Self::Burst { trials } => burst(trials),
            Self::Clients(proof) => proof.run(),
            Self::Deploy { write } => deploy::prove(write),
            Self::Envoy { planted: true, .. } => planted::ENVOY.run(),
            Self::Envoy { files, seed, planted: false } => envoy(files, seed),
            Self::Gateway => gateway(),
            Self::Histories { histories, seed, kind } => recorded(histories, seed, kind),
            Self::Http { inputs: Some(inputs), seed, .. } => malformed(&inputs.to_string(), seed),
            Self::Http { slow: Some(clients), .. } => slow(&clients.to_string()),
            Self::Http { examples, seed, .. } => {
                http(examples)?;
                malformed(MALFORMED_INPUTS, seed)?;
                slow(SLOW_CLIENTS)
            }
            Self::Install => install::prove(),
            Self::Memory { seconds, crowds } => memory(seconds, crowds),
            Self::Miri => miri(),
            Self::Mutations { inputs, seed } => mutations(inputs, seed),
            Self::Overrides { planted: true, .. } => {
                servers::require()?;
                planted::OVERRIDES.run()
            }
            Self::Overrides { changes, seed, round, planted: false } => overrides(changes, seed, round),
            Self::Page { quick } => live_page::prove(quick),
            Self::Parser { seconds } => parser(seconds),
            Self::Policies { planted: true, .. } => planted::POLICIES.run(),
            Self::Policies { files, seed, planted: false } => policies(files, seed),
            Self::Publish => publish::prove(),
            Self::Realtime { minutes } => realtime(minutes * 60),
            Self::Redis { planted: true, .. } => {
                servers::require()?;
                planted::REDIS.run()
            }
            Self::Redis { rounds, seed, fault, planted: false } => redis(rounds, seed, fault),
            Self::Reloads { reloads: count } => reloads(count),
            Self::Sim { planted: true, .. } => planted::SIM.run(),
            Self::Sim { schedules, seed, planted: false } => sim(schedules, seed),
            Self::Simulate { planted: true, .. } => {
                servers::require()?;
                planted::SIMULATE.run()
            }
            Self::Simulate { cases, logs, seed, planted: false } => simulate(cases, logs, seed),
            Self::Talkers { streams, seed } => talkers(streams, seed),
            Self::Upgrade { from } => upgrade::prove(&from),
            Self::Xds { seed } => xds(seed),
        }
    }
}

fn alerts() -> Result<()> {
    let promtool = PROMTOOL.program()?;
    let run = |words: [&str; 3]| program(&promtool).arguments(words).run();
    run(["check", "rules", "examples/alerts/tollgate.rules.yml"])?;
    run(["test", "rules", "examples/alerts/tollgate.test.yml"])?;
    println!("RESULT prove/alerts violations=0");
    Ok(())
}

fn benches() -> Result<()> {
    let cargo = |subcommand: &str| {
        let words = ["--locked", "--manifest-path", "bench/Cargo.toml"];
        command("cargo").environment("CARGO_TARGET_DIR", "target").argument(subcommand).arguments(words)
    };
    let features =
        ["--workspace", "--all-targets", "--features", "grpc,limitador,redis", "--", "-D", "warnings"];
    cargo("clippy").arguments(features).run()?;
    cargo("test").arguments(["--package", "tollgate-bench-harness"]).run()?;
    println!("RESULT prove/benches violations=0");
    Ok(())
}

fn memory(seconds: Option<u32>, crowds: u32) -> Result<()> {
    let mut all = models().environment("TOLLGATE_ORDERS", usize::MAX.to_string());
    if let Some(seconds) = seconds {
        all = all.environment("LOOM_MAX_DURATION", seconds.to_string());
    }
    all.arguments(["--", "--nocapture"]).run()?;
    models()
        .environment("LOOM_MAX_PREEMPTIONS", "3")
        // Some models would take hours; their results say whether they were complete.
        .environment("LOOM_MAX_DURATION", seconds.unwrap_or(20).to_string())
        .arguments(["--", "--nocapture"])
        .run()?;
    shuttle_tests()
        .environment("TOLLGATE_SCHEDULES", crowds.to_string())
        .argument("crowds")
        .arguments(["--", "--nocapture"])
        .run()
}

fn miri() -> Result<()> {
    let miri = "rustup run nightly cargo miri";
    ensure!(
        command(miri).argument("--version").succeeds(),
        "miri is missing; install it with: rustup toolchain install nightly --component miri --component rust-src"
    );
    command(miri)
        .arguments(["test", "--locked", "--package", "tollgate", "--lib"])
        // Each seed schedules the threads in another order, and lets their loads see other values.
        .environment("MIRIFLAGS", "-Zmiri-many-seeds=0..8")
        // Sequential tests find nothing here, and are slow.
        .arguments(["--", "memory::tests::crowds", "memory::shard", "memory::locked"])
        .run()?;
    println!("RESULT prove/miri seeds=8 violations=0");
    Ok(())
}

fn mutations(inputs: u32, seed: u64) -> Result<()> {
    let request_tests =
        command("cargo test --locked --package tollgate-tower --all-features --test mutations");
    for tests in [policy_tests("robust"), request_tests] {
        tests
            .environment("TOLLGATE_INPUTS", inputs.to_string())
            .environment("TOLLGATE_SEED", seed.to_string())
            .arguments(["--", "--ignored", "--exact", "prove", "--nocapture"])
            .run()?;
    }
    Ok(())
}

fn parser(seconds: u32) -> Result<()> {
    // The initial inputs.
    let policies =
        ["examples", "crates/tollgate-policy/tests/problems", "crates/tollgate-policy/tests/warnings"];
    fuzz("parser", &policies, 4_096, seconds)?;
    println!("RESULT prove/parser seconds={seconds} violations=0");
    fuzz("logs", &["crates/tollgate-logs/tests/logs/servers"], 8_192, seconds)?;
    println!("RESULT prove/parser/logs seconds={seconds} violations=0");
    Ok(())
}

/// Runs a target of the fuzzer for so long, on inputs of so many bytes.
fn fuzz(target: &str, begins: &[&str], most: u32, seconds: u32) -> Result<()> {
    let fuzz = "rustup run nightly cargo fuzz";
    ensure!(
        command(fuzz).argument("--version").succeeds(),
        "cargo-fuzz is missing; install it with: rustup toolchain install nightly && cargo install --locked cargo-fuzz"
    );
    // What it finds goes into the first folder.
    let corpus = format!("fuzz/corpus/{target}");
    std::fs::create_dir_all(&corpus)?;
    command(fuzz)
        .arguments(["run", target, &corpus])
        .arguments(begins)
        .arguments(["--", &format!("-max_len={most}"), &format!("-max_total_time={seconds}")])
        .run()
}

fn policies(files: u64, seed: u64) -> Result<()> {
    reading_tests()
        .environment("TOLLGATE_FILES", files.to_string())
        .environment("TOLLGATE_SEED", seed.to_string())
        .arguments(["--", "--ignored", "--exact", "prove", "--nocapture"])
        .run()
}

fn envoy(files: u64, seed: u64) -> Result<()> {
    envoy_tests()
        .environment("TOLLGATE_FILES", files.to_string())
        .environment("TOLLGATE_SEED", seed.to_string())
        .arguments(["--", "--ignored", "--exact", "prove", "--nocapture"])
        .run()
}

/// Gives half of the time to the library and half to the service.
fn realtime(seconds: u64) -> Result<()> {
    // Both run even if one fails, so the figures include both.
    let proof = command("cargo test --locked --workspace --all-features --no-fail-fast --test realtime")
        .arguments(["--profile", "models", "--", "--ignored", "--nocapture"])
        .environment("TOLLGATE_SECONDS", (seconds / 2).to_string());
    let (said, outcome) = proof.say()?;
    print!("{said}");
    let parts = || said.lines().filter(|line| line.starts_with("RESULT prove/realtime/"));
    let sum = |name: &str| {
        let words = parts().flat_map(str::split_whitespace).filter_map(|word| word.split_once('='));
        words
            .filter(|(figure, _)| *figure == name)
            .filter_map(|(_, count)| count.parse::<u64>().ok())
            .sum::<u64>()
    };
    let [charged, over, early] = ["charged", "over", "early_denials"].map(sum);
    println!("RESULT prove/realtime charged={charged} over={over} early_denials={early}");
    outcome?;
    ensure!(parts().count() == 2 && charged > 0, "library and service did not both say what they charged");
    Ok(())
}

fn sim(schedules: u64, seed: u64) -> Result<()> {
    let preempted = schedules.div_ceil(10);
    // A busy world is as long as some ten calm ones, and its ledger as large.
    let busy = schedules.div_ceil(100);
    let tiers = [
        (library_tests(), "calm_worlds", schedules),
        (library_tests(), "busy_worlds", busy),
        (shuttle_tests(), "crowded_worlds", preempted),
        // One thread runs them.
        (library_tests(), "calm_holds", preempted),
        (shuttle_tests(), "crowded_holds", busy),
    ];
    let mut said = String::new();
    let mut outcomes = Vec::new();
    for (tests, tier, schedules) in tiers {
        let tests = tests
            .environment("TOLLGATE_SCHEDULES", schedules.to_string())
            .environment("TOLLGATE_SEED", seed.to_string())
            .arguments([tier, "--", "--nocapture"]);
        let (tier_said, outcome) = tests.say()?;
        print!("{tier_said}");
        said += &tier_said;
        outcomes.push(outcome);
    }
    let figures = |name: &str| -> Vec<u64> {
        let lines = said.lines().filter(|line| line.starts_with("RESULT prove/sim/"));
        let words = lines.flat_map(str::split_whitespace).filter_map(|word| word.split_once('='));
        words.filter(|(figure, _)| *figure == name).filter_map(|(_, count)| count.parse().ok()).collect()
    };
    let (ran, speeds, violations) = (figures("schedules"), figures("per_second"), figures("violations"));
    let ([calm, busy, crowded, calm_holds, crowded_holds], [per_second, ..]) = (&ran[..], &speeds[..]) else {
        outcomes.into_iter().collect::<Result<()>>()?;
        bail!("the five tiers did not all say how many worlds they ran");
    };
    let violations: u64 = violations.iter().sum();
    println!(
        "RESULT prove/sim schedules={calm} busy={busy} preempted={crowded} holds={calm_holds} \
         preempted_holds={crowded_holds} per_second={per_second} violations={violations}"
    );
    outcomes.into_iter().collect()
}

fn redis(rounds: u64, seed: Option<u64>, fault: Option<String>) -> Result<()> {
    let is_all = fault.is_none();
    let rounds = fault_tests().environment("TOLLGATE_ROUNDS", rounds.to_string());
    run_seeded("prove::prove", rounds, seed, fault.map(|fault| ("TOLLGATE_FAULT", fault)))?;
    if is_all { run_seeded("nonsense::prove", network_tests(), None, None) } else { Ok(()) }
}

fn overrides(changes: u64, seed: u64, round: Option<String>) -> Result<()> {
    let rounds = override_tests().environment("TOLLGATE_CHANGES", changes.to_string());
    run_seeded("prove::prove", rounds, Some(seed), round.map(|round| ("TOLLGATE_ROUND", round)))
}

fn recorded(histories: u64, seed: Option<u64>, kind: Option<String>) -> Result<()> {
    let histories = fault_tests().environment("TOLLGATE_HISTORIES", histories.to_string());
    run_seeded("prove::prove_histories", histories, seed, kind.map(|kind| ("TOLLGATE_KIND", kind)))
}

fn run_seeded(
    test: &str,
    mut tests: CommandLine,
    seed: Option<u64>,
    only: Option<(&'static str, String)>,
) -> Result<()> {
    servers::require()?;
    if let Some(seed) = seed {
        tests = tests.environment("TOLLGATE_SEED", seed.to_string());
    }
    if let Some((variable, name)) = only {
        tests = tests.environment(variable, name);
    }
    tests.arguments(["--", "--ignored", "--exact", test, "--nocapture"]).run()
}

/// Optimized, because it judges times.
fn burst(trials: u32) -> Result<()> {
    servers::require()?;
    command("cargo test --locked --profile models --package tollgate-server --test burst")
        .environment("TOLLGATE_TRIALS", trials.to_string())
        .arguments(["--", "--ignored", "--exact", "prove", "--nocapture"])
        .run()
}

fn reloads(count: u32) -> Result<()> {
    command("cargo test --locked --package tollgate-server --test stores")
        .environment("TOLLGATE_RELOADS", count.to_string())
        .arguments(["no_decision_mixes_two_versions_during_many_reloads_under_load", "--", "--nocapture"])
        .run()?;
    command("cargo test --locked --profile models --package tollgate-server --test stores")
        .arguments(["many::prove_a_hundred_thousand_policies", "--", "--ignored", "--exact", "--nocapture"])
        .run()
}

fn simulate(cases: u32, logs: u32, seed: u64) -> Result<()> {
    let tests = "cargo test --locked --profile models --package tollgate-simulate";
    let random = command(tests).arguments(["--test", "naive", "--test", "totals"]);
    random.environment("PROPTEST_CASES", cases.to_string()).run()?;
    command(tests)
        .arguments(["--test", "suggest", "--", "--ignored", "--exact", "prove", "--nocapture"])
        .environment("TOLLGATE_LOGS", logs.to_string())
        .environment("TOLLGATE_SEED", seed.to_string())
        .run()?;
    servers::require()?;
    command("cargo test --locked --profile models --package tollgate-logs --test logs --")
        .arguments(["--ignored", "--exact", "linear::prove_linear", "--nocapture"])
        .run()?;
    truth_tests()?.arguments(["--", "--ignored", "--exact", "prove", "--nocapture"]).run()
}

fn talkers(streams: u64, seed: u64) -> Result<()> {
    command("cargo test --locked --profile models --package tollgate-server --lib")
        .environment("TOLLGATE_STREAMS", streams.to_string())
        .environment("TOLLGATE_SEED", seed.to_string())
        .arguments(["--", "--ignored", "--exact", "talkers::summary::tests::prove", "--nocapture"])
        .run()
}

fn http(examples: u32) -> Result<()> {
    let schemathesis = schemathesis()?;
    let configuration = Path::new(env!("CARGO_MANIFEST_DIR")).join("schemathesis.toml");
    // Low, so that denials are among the answers.
    let mut service = BuiltService::start("5/1m")?;
    let description = format!("http://{}/openapi.json", service.admin);
    // As the description tags what each of them answers.
    for (listener, address) in [("checks", service.public), ("admin", service.admin)] {
        eprintln!("\n=== {listener} listener");
        program(&schemathesis)
            // It writes files into the current directory.
            .directory(target_directory()?)
            .argument("--config-file")
            .argument(&configuration)
            .arguments(["run", &description, "--url", &format!("http://{address}")])
            .arguments(["--include-tag", listener, "--max-examples", &examples.to_string()])
            .run()?;
        service.expect_running()?;
        println!("RESULT prove/http/{listener} examples={examples} violations=0");
    }
    Ok(())
}

/// Without optimization, so that a number that overflows is a panic as well.
fn malformed(inputs: &str, seed: u64) -> Result<()> {
    command("cargo test --locked --package tollgate-server --test inputs")
        .environment("TOLLGATE_INPUTS", inputs)
        .environment("TOLLGATE_SEED", seed.to_string())
        .arguments(["--", "--ignored", "--exact", "prove", "--nocapture"])
        .run()
}

/// Optimized, because it judges times.
fn slow(clients: &str) -> Result<()> {
    command("cargo test --locked --profile models --package tollgate-server --test slow")
        .environment("TOLLGATE_SLOW", clients)
        .arguments(["--", "--ignored", "--exact", "prove", "--nocapture"])
        .run()
}

fn gateway() -> Result<()> {
    let tests = command("cargo test --locked --package tollgate-server --test gateway --");
    // One judges times.
    proxies::with_proxies(tests)?.arguments(["--skip", proxies::OVER_XDS, "--test-threads", "1"]).run()
}

fn xds(seed: u64) -> Result<()> {
    servers::require()?;
    let tests = command("cargo test --locked --package tollgate-server --test gateway --")
        .argument(proxies::OVER_XDS)
        .environment("TOLLGATE_SEED", seed.to_string())
        .arguments(["--ignored", "--nocapture", "--test-threads", "1"]);
    proxies::with_control_plane(tests)?.run()
}

/// The program, installed into a virtual environment under the target directory.
fn schemathesis() -> Result<PathBuf> {
    let environment = target_directory()?.join("schemathesis");
    tools::make_environment(&environment)?;
    program(&environment.join("bin/python"))
        .arguments(["-m", "pip", "install", "--quiet", SCHEMATHESIS])
        .run()?;
    Ok(environment.join("bin/schemathesis"))
}

#[cfg(test)]
mod tests {
    use clap::FromArgMatches;

    use super::*;

    #[test]
    fn every_proof_accepts_its_brief_arguments() {
        for name in names() {
            let command = Proof::augment_subcommands(clap::Command::new("prove"));
            let words = ["prove", &name].into_iter().chain(brief(&name).iter().copied());
            let matches = command.try_get_matches_from(words).unwrap();
            Proof::from_arg_matches(&matches).unwrap();
        }
        let is_brief = |name: &&String| !brief(name).is_empty();
        assert_eq!(names().iter().filter(is_brief).count(), 16, "a proof has another name");
    }
}
