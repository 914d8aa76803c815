//! `cargo run --package tollgate-tower --example hyper`: five a minute for each address, with nothing but hyper.
//!
//! Then, six times: `curl -i http://127.0.0.1:3000/`

use std::convert::Infallible;
use std::error::Error;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tollgate::{Limiter, Quota};
use tollgate_tower::RateLimitLayer;
use tollgate_tower::key::{Peer, PeerAddress};
use tower::Layer;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let layer = RateLimitLayer::new(Limiter::new(Quota::per_minute(5)), PeerAddress::new());
    // The layer wraps a service of tower, and hyper calls its own kind.
    let limited = TowerToHyperService::new(layer.layer(tower::service_fn(hello)));

    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    loop {
        let (stream, peer) = listener.accept().await?;
        let limited = limited.clone();
        let service = service_fn(move |mut request: Request<Incoming>| {
            // The layer counts by address, and hyper does not tell it.
            request.extensions_mut().insert(Peer(peer));
            limited.call(request)
        });
        tokio::spawn(async move {
            if let Err(error) = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await {
                eprintln!("a connection failed: {error}");
            }
        });
    }
}

/// Never called for a request that is denied.
async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("hello\n")))
}
