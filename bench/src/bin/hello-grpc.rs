//! The floor of `grpc`: tonic's server with a service that reads the request and answers OK. It has the service's
//! allocator and no other settings than tonic's.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use anyhow::Result;
use http::{Request, Response};
use tonic::body::Body;
use tonic::server::{Grpc, NamedService};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;
use tower_service::Service;

use self::messages::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};

/// The messages as the product has them.
#[allow(dead_code, unreachable_pub, clippy::all, reason = "they are generated, and not all are used here")]
#[path = "../../../crates/tollgate-server/src/grpc/messages/mod.rs"]
mod messages;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What tonic generates for a service with one method.
#[derive(Clone)]
struct RateLimitService;

/// What its user writes.
struct ShouldRateLimit;

impl NamedService for RateLimitService {
    const NAME: &'static str = "envoy.service.ratelimit.v3.RateLimitService";
}

impl Service<Request<Body>> for RateLimitService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        if request.uri().path() != "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" {
            return Box::pin(ready(Ok(Status::new(Code::Unimplemented, "").into_http())));
        }
        Box::pin(async move {
            let codec: ProstCodec<RateLimitResponse, RateLimitRequest> = ProstCodec::default();
            Ok(Grpc::new(codec).unary(ShouldRateLimit, request).await)
        })
    }
}

impl Service<tonic::Request<RateLimitRequest>> for ShouldRateLimit {
    type Response = tonic::Response<RateLimitResponse>;
    type Error = Status;
    type Future = Ready<Result<Self::Response, Status>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: tonic::Request<RateLimitRequest>) -> Self::Future {
        const OK: i32 = 1;
        ready(Ok(tonic::Response::new(RateLimitResponse {
            overall_code: OK,
            ..RateLimitResponse::default()
        })))
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let address: SocketAddr = std::env::args().nth(1).unwrap_or_default().parse()?;
    Ok(tonic::transport::Server::builder().add_service(RateLimitService).serve(address).await?)
}
