//! The committed messages of gRPC are what their `.proto` files say.

#![allow(clippy::expect_used, reason = "this is a test")]

use std::fs;
use std::path::{Path, PathBuf};

use prost_build::Config;
use prost_types::FileDescriptorSet;
use tempfile::tempdir;

/// In the folder of the crate.
const DEFINITIONS: &str = "proto";
/// What reflection answers with.
const DESCRIPTORS: &str = "descriptors.binpb";

/// `TOLLGATE_WRITE_SNAPSHOTS=1` writes them.
#[test]
fn messages_are_generated_from_their_definitions() {
    let services = ["envoy/service/ratelimit/v3/rls.proto", "kuadrant/service/ratelimit/v1/rls.proto"];
    check("src/grpc/messages", services, |descriptors, folder| {
        // `compile_fds` does not write them itself.
        let written = prost::Message::encode_to_vec(descriptors);
        fs::write(folder.join(DESCRIPTORS), written).expect("a file");
    });
}

/// `TOLLGATE_WRITE_SNAPSHOTS=1` writes them.
#[test]
fn messages_of_xds_are_generated_from_their_definitions() {
    let messages = ["envoy/service/discovery/v3/ads.proto", "ratelimit/config/ratelimit/v3/rls_conf.proto"];
    check("src/xds/messages", messages, |_, _| {});
}

/// Checks what is generated from these definitions, and what is written besides.
fn check(generated: &str, roots: [&str; 2], write_more: impl FnOnce(&FileDescriptorSet, &Path)) {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let descriptors = protox::compile(roots, [package.join(DEFINITIONS)]).expect("the definitions are valid");
    let fresh = tempdir().expect("a folder");
    let mut config = Config::new();
    config.out_dir(fresh.path()).include_file("mod.rs").format(true);
    config.compile_fds(descriptors.clone()).expect("code is generated");
    write_more(&descriptors, fresh.path());

    let kept = package.join(generated);
    if std::env::var_os("TOLLGATE_WRITE_SNAPSHOTS").is_some() {
        for file in files(fresh.path()) {
            fs::copy(fresh.path().join(&file), kept.join(&file)).expect("a file");
        }
    }
    assert_eq!(files(&kept), files(fresh.path()), "in {}", kept.display());
    for file in files(&kept) {
        let read = |folder: &Path| fs::read(folder.join(&file)).expect("a file");
        assert!(
            read(&kept) == read(fresh.path()),
            "{} differs from its definition: TOLLGATE_WRITE_SNAPSHOTS=1 writes it again",
            file.display()
        );
    }
}

/// The names of the files of a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").file_name().into()).collect();
    names.sort();
    names
}
