//! Health, reflection, and the end of connections.

use std::time::Duration;

use tokio_stream::StreamExt;
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1alpha::server_reflection_client::ServerReflectionClient as AlphaClient;

use crate::grpc_client::{OK, Wire, request, start};
use crate::support::{HANG, undisturbed};

const USER: &[(&str, &str)] = &[("user", "alice")];

fn asked(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

async fn health(wire: &Wire, service: &str) -> Result<i32, Code> {
    let mut client = HealthClient::with_origin(wire.clone(), Wire::origin());
    let answer = client.check(asked(service)).await.map_err(|status| status.code())?;
    let HealthCheckResponse { status } = answer.into_inner();
    Ok(status)
}

#[tokio::test]
async fn health_is_that_of_the_whole_service() {
    let server = start(&["--limit", "5/1d"]);
    let wire = Wire::open(&server).await;
    let serving = Ok(ServingStatus::Serving as i32);
    let kuadrant = "kuadrant.service.ratelimit.v1.RateLimitService";
    for service in ["", "envoy.service.ratelimit.v3.RateLimitService", kuadrant, "ratelimit"] {
        // The first look at the store may be running.
        let serves = async {
            while health(&wire, service).await != serving {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(HANG, serves).await.expect("it serves");
    }
    assert_eq!(health(&wire, "unknown").await, Err(Code::NotFound));
}

/// It stays ready for the time of `--drain-delay`, and tells those who watch.
#[test]
fn watchers_learn_of_the_drain_and_are_then_disconnected() {
    undisturbed(|| {
        let runtime = tokio::runtime::Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let server = start(&["--limit", "5/1d", "--drain-delay", "300ms"]);
            let wire = Wire::open(&server).await;
            let mut client = HealthClient::with_origin(wire.clone(), Wire::origin());
            let mut watched = client.watch(asked("")).await.expect("a stream").into_inner();
            let mut next = async || {
                let message = tokio::time::timeout(HANG, watched.next()).await.expect("it does not hang");
                message.expect("it goes on").map(|message| message.status).map_err(|status| status.code())
            };
            // It does not serve until the first look at the store.
            let mut told = next().await;
            while told == Ok(ServingStatus::NotServing as i32) {
                told = next().await;
            }
            assert_eq!(told, Ok(ServingStatus::Serving as i32));
            server.signal("TERM");
            assert_eq!(next().await, Ok(ServingStatus::NotServing as i32));
            assert_eq!(wire.call(request(&[USER])).await.expect("an answer").overall_code, OK);
            assert_eq!(next().await, Err(Code::Unavailable));
            let (status, log) = server.wait();
            assert!(status.success() && !log.contains("connections were left"), "{log}");
        });
    });
}

/// A stream that lasts once broke off with its connection, without a status.
#[tokio::test]
async fn a_stream_of_health_ends_with_a_status_before_its_connection() {
    let server = start(&["--limit", "5/1d", "--grpc-max-connection-age", "1s"]);
    let mut client = HealthClient::with_origin(Wire::open(&server).await, Wire::origin());
    let mut watched = client.watch(asked("")).await.expect("a stream").into_inner();
    let ended = async {
        loop {
            if let Err(status) = watched.next().await.expect("a status") {
                return status;
            }
        }
    };
    let status = tokio::time::timeout(HANG, ended).await.expect("it ends");
    assert_eq!((status.code(), status.message()), (Code::Unavailable, "the connection is about to close"));
}

#[tokio::test]
async fn reflection_tells_services_and_messages() {
    let server = start(&["--limit", "5/1d"]);
    let wire = Wire::open(&server).await;
    let ask = async |message: MessageRequest| {
        let request = ServerReflectionRequest { host: String::new(), message_request: Some(message) };
        let mut client = ServerReflectionClient::with_origin(wire.clone(), Wire::origin());
        let answers = client.server_reflection_info(tokio_stream::once(request)).await.expect("a stream");
        let answer = answers.into_inner().next().await.expect("one answer").expect("it is one");
        answer.message_response.expect("a message")
    };
    let MessageResponse::ListServicesResponse(listed) =
        ask(MessageRequest::ListServices(String::new())).await
    else {
        panic!("no list")
    };
    let names: Vec<&str> = listed.service.iter().map(|service| &*service.name).collect();
    for name in [
        "envoy.service.ratelimit.v3.RateLimitService",
        "kuadrant.service.ratelimit.v1.RateLimitService",
        "grpc.health.v1.Health",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
    let symbol = "envoy.service.ratelimit.v3.RateLimitService".to_owned();
    let MessageResponse::FileDescriptorResponse(files) =
        ask(MessageRequest::FileContainingSymbol(symbol)).await
    else {
        panic!("no file")
    };
    assert!(!files.file_descriptor_proto.is_empty());

    let request = tonic_reflection::pb::v1alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(
            tonic_reflection::pb::v1alpha::server_reflection_request::MessageRequest::ListServices(
                String::new(),
            ),
        ),
    };
    let mut client = AlphaClient::with_origin(wire.clone(), Wire::origin());
    let answers = client.server_reflection_info(tokio_stream::once(request)).await.expect("a stream");
    assert!(answers.into_inner().next().await.expect("one answer").is_ok());
}

/// A connection is told to go once it is a second old, and what comes after that is answered on another.
#[tokio::test]
async fn a_connection_ends_at_its_age() {
    let server = start(&["--limit", "1000000/1d", "--grpc-max-connection-age", "1s"]);
    let wire = Wire::open(&server).await;
    let ended = async {
        while wire.call(request(&[USER])).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(HANG, ended).await.expect("it ends");
    assert_eq!(Wire::open(&server).await.call(request(&[USER])).await.expect("an answer").overall_code, OK);
}
