//! Decisions over gRPC by the files of envoyproxy/ratelimit.

use prost_types::value::Kind;
use tonic::Code;

use crate::grpc_client::messages::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::RateLimitOverride;
use crate::grpc_client::{OK, OVER_LIMIT, RateLimitRequest, Wire, request, statuses};
use crate::support::folder::Folder;
use crate::support::{Server, tollgate};

const SHOP: &str = "
domain: shop
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 3, name: each-user }
    metadata: { team: { name: web, pager: true } }
  - key: plan
    value: gold
    rate_limit: { unlimited: true, replaces: [{ name: each-user }] }
  - key: path
    value: /search
    descriptors:
      - key: method
        rate_limit: { unit: day, requests_per_unit: 10 }
";

const USER: &[(&str, &str)] = &[("user", "alice")];
const SEARCH: &[(&str, &str)] = &[("path", "/search"), ("method", "GET")];
const GOLD: &[(&str, &str)] = &[("plan", "gold")];

fn imported(more: &[&str]) -> (Folder, Server) {
    let folder = Folder::new();
    folder.write("shop.yaml", SHOP);
    let mut command = tollgate();
    command.envs([("LIMIT_RESPONSE_HEADERS_ENABLED", "true"), ("RESPONSE_DYNAMIC_METADATA", "true")]);
    let path = folder.root().to_str().expect("text").to_owned();
    let server = Server::start_by(
        command,
        &[&["--grpc", "127.0.0.1:0", "--import", "envoy-ratelimit", &path], more].concat(),
    );
    (folder, server)
}

#[tokio::test]
async fn the_imported_limits_decide_on_every_descriptor() {
    let (_folder, server) = imported(&[]);
    let wire = Wire::open(&server).await;
    let call =
        async |descriptors: &[&[(&str, &str)]]| wire.call(request(descriptors)).await.expect("an answer");

    let first = call(&[SEARCH, USER, &[("unknown", "1")]]).await;
    assert_eq!(statuses(&first), [(OK, 9), (OK, 2), (OK, 0)]);
    const DAY: i32 = 4;
    const YEAR: i32 = 6;
    let limits = first.statuses.iter().map(|status| status.current_limit.clone());
    let limits: Vec<_> =
        limits.map(|limit| limit.map(|it| (it.requests_per_unit, it.unit, it.name))).collect();
    assert_eq!(limits, [Some((10, DAY, String::new())), Some((3, YEAR, "each-user".to_owned())), None]);
    let names: Vec<&str> = first.response_headers_to_add.iter().map(|header| &*header.key).collect();
    assert_eq!(names, ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"]);
    assert_eq!(first.response_headers_to_add[1].value, "2");

    // The level of the last entry counts, and what pays replaces the limit of its user.
    assert_eq!(statuses(&call(&[&[("path", "/search")]]).await), [(OK, 0)]);
    assert_eq!(statuses(&call(&[USER, GOLD]).await)[1], (OK, u32::MAX));
    let _ = (call(&[USER]).await, call(&[USER]).await);
    let denied = call(&[SEARCH, USER]).await;
    assert_eq!(denied.overall_code, OVER_LIMIT);
    assert_eq!(statuses(&denied)[1], (OVER_LIMIT, 0));
    assert_eq!(statuses(&call(&[SEARCH]).await), [(OK, 8)], "the denial took nothing");

    // Both protocols have one count.
    let body = r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "alice"}]}]}"#;
    assert_eq!(server.post("/json", body).status, 429);
}

#[tokio::test]
async fn dynamic_metadata_is_that_of_the_files() {
    let (_folder, server) = imported(&[]);
    let response = Wire::open(&server).await.call(request(&[USER])).await.expect("an answer");
    let metadata = response.dynamic_metadata.expect("metadata");
    let member =
        |of: &prost_types::Struct, name: &str| of.fields.get(name).and_then(|value| value.kind.clone());
    assert_eq!(member(&metadata, "domain"), Some(Kind::StringValue("shop".to_owned())));
    let Some(Kind::StructValue(own)) = member(&metadata, "metadata") else { panic!("{metadata:?}") };
    let Some(Kind::StructValue(team)) = member(&own, "team") else { panic!("{own:?}") };
    assert_eq!(member(&team, "pager"), Some(Kind::BoolValue(true)));
}

#[tokio::test]
async fn units_are_given_back_and_descriptors_bring_limits() {
    let (_folder, server) = imported(&[]);
    let wire = Wire::open(&server).await;
    let call = async |change: fn(&mut RateLimitRequest)| {
        let mut request = request(&[USER]);
        change(&mut request);
        wire.call(request).await.map(|response| statuses(&response)).map_err(|status| status.code())
    };
    assert_eq!(call(|request| request.hits_addend = 3).await, Ok(vec![(OK, 0)]));
    let back = |request: &mut RateLimitRequest| {
        (request.descriptors[0].hits_addend, request.descriptors[0].is_negative_hits) = (Some(2), true);
    };
    assert_eq!(call(back).await.map(|statuses| statuses[0].0), Ok(OK));
    assert_eq!(call(|request| request.hits_addend = 2).await, Ok(vec![(OK, 0)]));
    assert_eq!(call(|_| ()).await, Ok(vec![(OVER_LIMIT, 0)]));

    let brought = |request: &mut RateLimitRequest| {
        const HOUR: i32 = 3;
        request.descriptors[0].limit = Some(RateLimitOverride { requests_per_unit: 5, unit: HOUR });
    };
    assert_eq!(call(brought).await, Ok(vec![(OK, 4)]));
    let unknown = |request: &mut RateLimitRequest| {
        request.descriptors[0].limit = Some(RateLimitOverride { requests_per_unit: 5, unit: 9 });
    };
    assert_eq!(call(unknown).await, Err(Code::InvalidArgument));
    assert_eq!(call(|request| request.domain.clear()).await, Err(Code::InvalidArgument));
}
