//! `cargo xtask bench`: builds and runs the binaries of the bench workspace.

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;

use crate::command::{CommandLine, command, target_directory};
use crate::steps::CheckOutcome;
use crate::{instructions, servers, system, tools};

#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Decisions a second in one process, compared with governor
    Memory {
        /// A part of the names of the cases to run, then options: see `-- --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Instructions of hot paths, which depend neither on the machine nor on its load; fails if they are above the
    /// accepted ones
    Instructions {
        /// Accept the figures: write them to bench/results/instructions.txt
        #[arg(long)]
        accept: bool,
    },
    /// Resident bytes a live key and the longest pause of a charge, compared with governor
    MemorySize {
        /// A part of the names of the limiters to measure, then options: see `-- --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// A flood of keys that are seen once, against a store with a cap
    Keyflood {
        /// Options: see `-- --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Resident memory under ten minutes of new keys
    Soak {
        /// Options: see `-- --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// CPU, throughput and latency of the service, compared with a bare hyper server
    Http {
        /// A part of the names of the cases to run, then options: see `-- --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// CPU, throughput and latency of the service over gRPC, compared with a bare tonic service, and over Redis
    Grpc {
        /// Options: see `-- --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Finding the policies of a request in files of 100 and 10,000, compared with limitador
    Policy {
        /// Options: see `-- --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// What limits add to a request in process, compared with tower_governor
    Tower {
        /// Options: see `-- --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Lines of logs that are replayed a second, compared with GoAccess and DuckDB
    Simulate {
        /// A part of the names of the cases to run, then options: see `-- --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// What the script of a shared store costs beyond a plain one, and for what
    Script {
        /// Options: see `-- --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// What a check pays for counting who asks most
    Talkers,
    /// Holds in a shared store, next to plain charges
    Holds {
        /// Options: see `-- --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Decisions in a shared store, compared with plain scripts and limitador
    Redis {
        /// A part of the names of the cases to run, then options: see `-- --help`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

impl Bench {
    pub(crate) fn run(self) -> Result<CheckOutcome> {
        let measured = match self {
            Self::Instructions { accept } => return instructions::run(accept),
            Self::Memory { arguments } => binary_with_limitador("memory").arguments(arguments).run(),
            Self::MemorySize { arguments } => binary_with_limitador("memory-size").arguments(arguments).run(),
            Self::Keyflood { arguments } => binary("keyflood").arguments(arguments).run(),
            Self::Soak { arguments } => binary("soak").arguments(arguments).run(),
            Self::Policy { arguments } => binary_with_limitador("policy").arguments(arguments).run(),
            Self::Tower { arguments } => binary("tower").arguments(arguments).run(),
            Self::Http { arguments } => {
                system::WRK.require()?;
                let service = build_service()?;
                command("cargo build --locked --profile dist --manifest-path bench/Cargo.toml --bins")
                    .run()?;
                binary("http").argument("--service").argument(service).arguments(arguments).run()
            }
            Self::Grpc { arguments } => {
                system::H2LOAD.require()?;
                servers::require()?;
                let service = build_service()?;
                command(
                    "cargo build --locked --profile dist --manifest-path bench/Cargo.toml --features grpc",
                )
                .arguments(["--bin", "grpc", "--bin", "hello-grpc"])
                .run()?;
                command(
                    "cargo run --locked --quiet --profile dist --manifest-path bench/Cargo.toml --features grpc",
                )
                .arguments(["--bin", "grpc", "--", "--service"])
                .argument(service)
                .arguments(arguments)
                .run()
            }
            Self::Simulate { arguments } => {
                system::GOACCESS.require()?;
                let python = tools::python_with_duckdb()?;
                let service = build_service()?;
                let cargo = binary("simulate").argument("--tollgate").argument(service);
                let cargo = cargo.argument("--python").argument(python);
                let folder = target_directory()?.join("bench-logs");
                cargo.argument("--folder").argument(folder).arguments(arguments).run()
            }
            // No part of them is public.
            Self::Talkers => command("cargo test --locked --release --package tollgate-server --lib --")
                .arguments(["--ignored", "--exact", "talkers::tests::measure", "--nocapture"])
                .run(),
            Self::Script { arguments } => run_on_redis("script", arguments),
            Self::Holds { arguments } => run_on_redis("holds", arguments),
            Self::Redis { arguments } => {
                system::WRK.require()?;
                system::OPENSSL.require()?;
                servers::require()?;
                let service = build_service()?;
                command("cargo build --locked --profile dist --manifest-path bench/Cargo.toml")
                    .arguments(["--features", "redis,limitador-service"])
                    .arguments(["--bin", "redis", "--bin", "limitador", "--bin", "hello"])
                    .run()?;
                command("cargo run --locked --quiet --profile dist --manifest-path bench/Cargo.toml")
                    .arguments(["--features", "redis,limitador-service"])
                    .arguments(["--bin", "redis", "--", "--service"])
                    .argument(service)
                    .arguments(arguments)
                    .run()
            }
        };
        measured.map(|()| CheckOutcome::Passed)
    }
}

/// Builds the service, and returns the path of its binary.
fn build_service() -> Result<PathBuf> {
    command("cargo build --locked --profile dist --package tollgate-server").run()?;
    Ok(target_directory()?.join("dist").join("tollgate"))
}

/// Builds with the peer that takes longest to build.
fn binary_with_limitador(name: &str) -> CommandLine {
    let cargo = command("cargo run --locked --quiet --profile dist --manifest-path bench/Cargo.toml");
    cargo.arguments(["--features", "limitador", "--bin", name, "--"])
}

/// Runs a program that starts a store.
fn run_on_redis(name: &str, arguments: Vec<String>) -> Result<()> {
    servers::require()?;
    command("cargo run --locked --quiet --profile dist --manifest-path bench/Cargo.toml --features redis")
        .arguments(["--bin", name, "--"])
        .arguments(arguments)
        .run()
}

fn binary(name: &str) -> CommandLine {
    command("cargo run --locked --quiet --profile dist --manifest-path bench/Cargo.toml --bin")
        .argument(name)
        .argument("--")
}
