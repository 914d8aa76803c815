//! One service, and how long its requests take.

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use anyhow::{Context as _, Result, ensure};
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{Request, Response, StatusCode};
use tollgate_bench::stopwatch::time_on_core;
use tower_service::Service;

/// Clients that take turns: few enough for the first-level cache.
const CLIENTS: u32 = 256;

pub(crate) trait Subject {
    fn name(&self) -> &'static str;

    /// Nanoseconds on the core. Fails if the service does not admit every request.
    fn nanos_a_request(&mut self, requests: u32) -> Result<f64>;
}

/// A service under a name.
pub(crate) struct Named<S> {
    pub(crate) name: &'static str,
    pub(crate) service: S,
}

impl<S> Subject for Named<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
{
    fn name(&self) -> &'static str {
        self.name
    }

    fn nanos_a_request(&mut self, requests: u32) -> Result<f64> {
        let begun = time_on_core();
        let mut admitted = 0;
        for number in 0..requests {
            let response = self.answer(number % CLIENTS).context("the service is not ready at once")?;
            admitted += u32::from(black_box(response).status() == StatusCode::OK);
        }
        let took = time_on_core() - begun;
        ensure!(admitted == requests, "{} admitted {admitted} of {requests}", self.name);
        Ok(took.as_secs_f64() * 1e9 / f64::from(requests))
    }
}

impl<S> Named<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
{
    fn answer(&mut self, client: u32) -> Option<Response<Body>> {
        let mut context = Context::from_waker(Waker::noop());
        let mut request = Request::new(Body::empty());
        let address = SocketAddr::from((Ipv4Addr::from_bits(0x0a00_0000 + client), 49_152));
        request.extensions_mut().insert(ConnectInfo(address));
        let Poll::Ready(Ok(())) = self.service.poll_ready(&mut context) else { return None };
        match pin!(self.service.call(black_box(request))).poll(&mut context) {
            Poll::Ready(Ok(response)) => Some(response),
            _ => None,
        }
    }
}
