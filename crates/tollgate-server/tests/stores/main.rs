//! The service and its command with shared stores, and files of policies.
//!
//! All of these start services and stores of their own, so they can run side by side in one process.

#[path = "../support/ads.rs"]
mod ads;
#[path = "../support/certificates.rs"]
mod certificates;
mod dashboard;
mod doctor;
mod grpc;
#[path = "../support/grpc.rs"]
mod grpc_client;
mod many;
mod override_guide;
mod policies;
mod readme;
mod seeds;
mod shared;
#[path = "../support/mod.rs"]
mod support;
