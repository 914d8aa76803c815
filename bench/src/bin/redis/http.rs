//! The service over HTTP, compared with limitador on the same store and with a bare hyper server. The service runs on
//! core 1, and wrk shares core 0 with the store.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tollgate_bench_harness::service::Service;
use tollgate_bench_harness::wrk::Load;

use crate::cases::Side;
use crate::course::CALLERS;
use crate::figures::Figure;
use crate::store::{DEADLINE, STORE, Store};

const CONNECTIONS: u32 = 64;

/// The peers of our service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer {
    Limitador,
    /// A server that answers without asking a store, for comparison with services that were measured elsewhere.
    Hyper,
}

pub(crate) struct Services {
    ours: Service,
    limitador: Service,
    hyper: Service,
}

impl Services {
    /// Starts the service with a limit that is never reached.
    pub(crate) fn start(store: &Store, binary: &Path) -> Result<Self> {
        let ours = Service::start("ours", CALLERS, |address| {
            let mut command = Command::new(binary);
            command.args(["serve", "--limit", "1000000000/1h", "--key", "user"]);
            command.args(["--listen", &address.to_string(), "--admin-listen", "127.0.0.1:0"]);
            // A failing store must fail the bench.
            command.args(["--store", &store.url(), "--on-store-failure", "closed"]);
            command.args(["--store-timeout", &format!("{}ms", DEADLINE.as_millis())]);
            command
        });
        let this = std::env::current_exe()?;
        let limitador = Service::start("limitador", CALLERS, |address| {
            let mut command = Command::new(this.with_file_name("limitador"));
            command.args([address.to_string(), store.url()]);
            command
        });
        let hyper = Service::start("hyper", CALLERS, |address| {
            let mut command = Command::new(this.with_file_name("hello"));
            command.args([&address.to_string(), "hello"]);
            command
        });
        Ok(Self {
            ours: ours.context("cannot start the service")?,
            limitador: limitador.context("cannot start limitador")?,
            hyper: hyper.context("cannot start the bare server")?,
        })
    }

    pub(crate) fn measure(
        &self,
        side: Side,
        peer: Peer,
        store: &Store,
        length: Duration,
    ) -> Result<Vec<(Figure, f64)>> {
        let (service, requests) = match (side, peer) {
            (Side::Ours, _) => (&self.ours, "check-post"),
            (Side::Peer, Peer::Limitador) => (&self.limitador, "limitador"),
            (Side::Peer, Peer::Hyper) => (&self.hyper, "check-get"),
        };
        let load = Load { requests, connections: CONNECTIONS, core: STORE };
        let (own, store_time, calls) = (service.cpu_time()?, store.cpu_time()?, store.script_calls());
        let figures = load.run(service, length.as_secs().max(1));
        let figures = figures.with_context(|| service.name)?;
        let calls = store.script_calls() - calls;
        // A service without a limit for these requests would be faster.
        let is_counting = match (side, peer) {
            (Side::Ours, _) => calls > 0,
            (Side::Peer, Peer::Limitador) => calls as f64 >= figures.requests,
            (Side::Peer, Peer::Hyper) => true,
        };
        ensure!(
            is_counting,
            "{} called the store {calls} times for {} requests",
            service.name,
            figures.requests
        );
        let micros = |cpu: Duration| cpu.as_secs_f64() * 1e6 / figures.requests;
        Ok(vec![
            (Figure::Rate, figures.requests / (figures.micros / 1e6)),
            (Figure::OwnMicros, micros(service.cpu_time()?.saturating_sub(own))),
            (Figure::StoreMicros, micros(store.cpu_time()?.saturating_sub(store_time))),
            (Figure::Micros, figures.p50_micros),
        ])
    }
}
