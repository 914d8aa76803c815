//! A service, and the time of its requests.

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use anyhow::{Context as _, Result, ensure};
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::{Request, Response, StatusCode};
use tollgate_bench_harness::stopwatch::time_on_core;
use tower_service::Service;

/// Clients that take turns in a mixed order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clients(u32);

impl Clients {
    /// Few enough for the first-level cache.
    pub(crate) const FEW: Self = Self(256);
    /// So many that no cache holds their counters.
    pub(crate) const MILLION: Self = Self(1_000_000);

    pub(crate) const fn count(self) -> u32 {
        self.0
    }

    /// Returns the next client. The factor shares no divisor with a power of ten, and its steps are large (Knuth's,
    /// 2^32 / phi).
    fn at(self, number: u32) -> u32 {
        (u64::from(number) * 2_654_435_769 % u64::from(self.0)) as u32
    }
}

pub(crate) trait Subject {
    fn name(&self) -> &'static str;

    /// Returns the nanoseconds on the core. Fails if the service does not admit every request.
    fn nanos_a_request(&mut self, clients: Clients, requests: u32) -> Result<f64>;

    /// Sends one request from every client.
    fn meet_all(&mut self, clients: Clients) -> Result<()>;
}

/// A named service.
pub(crate) struct Named<S> {
    name: &'static str,
    service: S,
    /// Continues from round to round, so that all clients come equally often.
    next: u32,
}

impl<S> Named<S>
where
    S: Service<Request<Body>, Response = Response<Body>> + 'static,
{
    pub(crate) fn boxed(name: &'static str, service: S) -> Box<dyn Subject> {
        Box::new(Self { name, service, next: 0 })
    }
}

impl<S> Subject for Named<S>
where
    S: Service<Request<Body>, Response = Response<Body>>,
{
    fn name(&self) -> &'static str {
        self.name
    }

    fn nanos_a_request(&mut self, clients: Clients, requests: u32) -> Result<f64> {
        let begun = time_on_core();
        let mut admitted = 0;
        for _ in 0..requests {
            self.next = self.next.wrapping_add(1);
            let response = self.answer(clients.at(self.next)).context("the service is not ready at once")?;
            admitted += u32::from(black_box(response).status() == StatusCode::OK);
        }
        let took = time_on_core() - begun;
        ensure!(admitted == requests, "{} admitted {admitted} of {requests}", self.name);
        Ok(took.as_secs_f64() * 1e9 / f64::from(requests))
    }

    fn meet_all(&mut self, clients: Clients) -> Result<()> {
        for client in 0..clients.count() {
            self.answer(client).context("the service is not ready at once")?;
        }
        Ok(())
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
