//! `tollgate doctor --fleet`: whether all replicas of a service enforce the same limits.
//!
//! `addresses` looks up names, `replica` asks one replica, and `report` says what all of them answered.

mod addresses;
mod replica;
mod report;

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::time::{sleep, timeout};

use self::addresses::ReplicaAddress;
use self::replica::Replica;
use self::report::FleetReport;
use crate::args::{DoctorArgs, ServerUrl};
use crate::cli::client::{ClientError, ServiceClient};
use crate::observe::stopwatch::Stopwatch;

/// The most replicas that are asked at the same time.
const MAX_ASKED: usize = 128;

/// The pause between two rounds of questions.
const PAUSE: Duration = Duration::from_millis(500);

/// Asks all replicas, again and again if they are to be waited for. Returns the report, and the exit status.
///
/// # Errors
///
/// If a certificate cannot be used, or needs none.
pub async fn compare(args: &DoctorArgs) -> Result<(String, u8), ClientError> {
    let fleet = &args.fleet;
    let services = fleet.fleet.iter().map(|server| Ok((server, ServiceClient::new(server, &fleet.tls)?)));
    let services = services.collect::<Result<Vec<_>, ClientError>>()?;
    let ask = async || FleetReport::new(ask_all(&services).await, fleet.generation);

    let (wait, waited) = (fleet.wait.unwrap_or_default(), Stopwatch::start());
    let left = || wait.saturating_sub(waited.elapsed());
    let mut report = ask().await;
    while !report.is_in_step() && left() > PAUSE {
        sleep(PAUSE).await;
        // The last round may have no time to end.
        let Ok(later) = timeout(left(), ask()).await else { break };
        report = later;
    }
    let text = if args.json { report.json() } else { report.readable() };
    Ok((text, report.exit_status()))
}

/// Asks the replicas at all addresses of these services. Their names are looked up each time, because replicas come and
/// go.
async fn ask_all(services: &[(&ServerUrl, ServiceClient)]) -> Vec<Replica> {
    let addresses = addresses::of_all(services).await;
    let ask = |address: ReplicaAddress| async { Replica::ask(address).await };
    stream::iter(addresses).map(ask).buffered(MAX_ASKED).collect().await
}
