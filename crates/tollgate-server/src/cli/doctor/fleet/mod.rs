//! `tollgate doctor --fleet`: whether all replicas of a service have the same limits.
//!
//! `addresses` looks up names, `replica` asks one replica, `report` says what all of them answered, and `patience` is the
//! time for all of this.

mod addresses;
mod patience;
mod replica;
mod report;

use futures_util::StreamExt as _;
use futures_util::stream;
use tokio::time::sleep;

use self::addresses::ReplicaAddress;
use self::patience::Patience;
use self::replica::Replica;
use self::report::{ExpectedFleet, FleetReport};
use crate::args::{ClientTlsArgs, DoctorArgs, ServiceAddress};
use crate::cli::client::{ClientError, ServiceClient};

/// The most replicas that are asked at the same time.
const MAX_ASKED: usize = 128;

/// For addresses without TLS: certificates are for the other ones.
const NO_TLS: ClientTlsArgs = ClientTlsArgs { ca: None, client_cert: None, client_key: None };

/// Asks all replicas, again and again if they are to be waited for. Returns the report, and the exit status.
///
/// # Errors
///
/// If a certificate cannot be used.
pub async fn compare(args: &DoctorArgs) -> Result<(String, u8), ClientError> {
    let fleet = &args.fleet;
    let services = fleet.fleet.iter().map(|server| {
        let tls = if server.has_tls() { &fleet.tls } else { &NO_TLS };
        Ok((server, ServiceClient::new(server, tls)?))
    });
    let services = services.collect::<Result<Vec<_>, ClientError>>()?;
    let expected = ExpectedFleet { generation: fleet.generation, replicas: fleet.replicas.map(usize::from) };
    let patience = Patience::new(fleet.wait);
    let ask = async || FleetReport::new(ask_all(&services, &patience).await, expected);

    let mut report = ask().await;
    while !report.is_in_step() && patience.is_enough_for_a_round() {
        sleep(Patience::PAUSE).await;
        report = ask().await;
    }
    let text = if args.json { report.json() } else { report.readable() };
    Ok((text, report.exit_status()))
}

/// Asks the replicas at all addresses of these services. Their names are looked up each time, because replicas come and
/// go.
async fn ask_all(services: &[(&ServiceAddress, ServiceClient)], patience: &Patience) -> Vec<Replica> {
    let addresses = addresses::of_all(services, patience).await;
    let ask = |address: ReplicaAddress| async { Replica::ask(address, patience).await };
    stream::iter(addresses).map(ask).buffered(MAX_ASKED).collect().await
}
