//! The listener's answers to questions about its services.

use tonic_reflection::server::{Builder, Error};

use super::method::{MAX_MESSAGE, Tonic};
use crate::access::scope::Scope;

/// The definitions of Envoy's messages, generated with the messages.
const DESCRIPTORS: &[u8] = include_bytes!("messages/descriptors.binpb");

/// Both versions of the service.
pub(super) fn services() -> Result<[Tonic; 2], Error> {
    let builder = || {
        Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let (v1, v1alpha) = (builder().build_v1()?, builder().build_v1alpha()?);
    let scope = Some(Scope::Check);
    Ok([
        Tonic::new("/grpc.reflection.v1.ServerReflection/", scope, v1.max_decoding_message_size(MAX_MESSAGE)),
        Tonic::new(
            "/grpc.reflection.v1alpha.ServerReflection/",
            scope,
            v1alpha.max_decoding_message_size(MAX_MESSAGE),
        ),
    ])
}
