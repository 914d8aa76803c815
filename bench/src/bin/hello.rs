//! The floor of `http`: a bare hyper server that answers `hello` to everything, once it has read the body. It has the
//! service's allocator and the service's settings of hyper, so what the service costs beside it is its own work.

use std::convert::Infallible;
use std::net::SocketAddr;

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> Result<()> {
    let address: SocketAddr = std::env::args().nth(1).context("usage: hello ADDRESS")?.parse()?;
    let listener = TcpListener::bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let mut builder = http1::Builder::new();
        // As in the service's `http/connection.rs`.
        builder.header_read_timeout(None).half_close(true).max_buf_size(32 * 1024).writev(false);
        // An error is a client that has gone.
        tokio::spawn(builder.serve_connection(TokioIo::new(stream), service_fn(answer)));
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let _body = request.into_body().collect().await;
    Ok(Response::new(Full::new(Bytes::from_static(b"hello"))))
}
