//! The service and its command, as callers, operators and strangers meet them. What needs a shared store is in `stores`.
//!
//! All of these start services of their own, so they can run side by side in one process.

mod admin;
#[path = "../support/ads.rs"]
mod ads;
mod answers;
mod asking;
mod authorization;
mod bounds;
mod browsers;
#[path = "../support/certificates.rs"]
mod certificates;
mod checks;
mod clients;
mod command;
mod config;
mod dashboard;
mod explain_overrides;
mod fleet;
mod forwarded;
mod grpc;
#[path = "../support/grpc.rs"]
mod grpc_client;
mod guides;
mod holding;
mod holds;
mod holds_page;
mod hostile;
mod http2;
mod http_examples;
mod kinds;
mod lifecycle;
mod log_flood;
mod manual;
mod messages;
mod metrics;
mod new_token;
mod one_view;
mod openapi;
mod output;
mod overdraft;
mod override_command;
mod overrides;
mod own_counts;
mod readme;
mod real_browser;

mod releases;

mod simulate;
mod small_files;
#[path = "../support/mod.rs"]
mod support;
mod test_clock;
mod threads;
mod tls;
mod trials_header;
mod unclear_logs;
mod unix;
mod unread;
mod unwanted_bodies;
mod values;
