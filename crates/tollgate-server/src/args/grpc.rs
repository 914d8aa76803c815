//! Flags about the gRPC listener.

use std::time::Duration;

use clap::builder::BoolishValueParser;

use super::{GRPC, TRUE, value};

/// Settings of the gRPC listener.
#[derive(Debug, clap::Args)]
pub struct GrpcArgs {
    /// Add limit headers to answers over gRPC, in the format of the deciding policy; Envoy passes them on to the client
    #[arg(long, env = "TOLLGATE_GRPC_LIMIT_HEADERS", value_parser = BoolishValueParser::new())]
    #[arg(help_heading = GRPC, requires_ifs = TRUE.map(|word| (word, "grpc")))]
    pub grpc_limit_headers: bool,

    /// Age at which a gRPC connection is asked to close, from 1s to 365d, plus up to a tenth, so that clients find new
    /// processes behind a load balancer [default: none]
    #[arg(long, value_name = "DURATION", env = "TOLLGATE_GRPC_MAX_CONNECTION_AGE")]
    #[arg(help_heading = GRPC, requires = "grpc", value_parser = value::connection_age)]
    pub grpc_max_connection_age: Option<Duration>,

    /// Time between pings to gRPC clients, from 1s to 365d; a client that does not answer within 10s is disconnected
    #[arg(long, value_name = "DURATION", env = "TOLLGATE_GRPC_KEEP_ALIVE", default_value = "30s")]
    #[arg(help_heading = GRPC, requires = "grpc", value_parser = value::connection_age)]
    pub grpc_keep_alive: Duration,
}
