//! The addresses of replicas.

use std::collections::HashSet;
use std::net::SocketAddr;

use futures_util::future::join_all;
use tokio::net::lookup_host;
use tokio::time::timeout;

use super::patience::Patience;
use crate::args::ServiceAddress;
use crate::cli::client::ServiceClient;

/// The most addresses that are asked. A name may have any number of them.
const MAX_ADDRESSES: usize = 500;

/// Where a replica may be asked, or why nobody can be asked there.
#[derive(Debug)]
pub(super) struct ReplicaAddress {
    /// The address; the name, if it has none.
    pub(super) address: String,
    /// The name that has the address, if it was looked up.
    pub(super) name: Option<String>,
    pub(super) service: Result<ServiceClient, String>,
}

/// Returns the addresses of all services in order, each once. What is beyond the bound is one entry that says so.
pub(super) async fn of_all(
    services: &[(&ServiceAddress, ServiceClient)],
    patience: &Patience,
) -> Vec<ReplicaAddress> {
    let found =
        join_all(services.iter().map(|(server, service)| of_service(server, service, patience))).await;
    let mut addresses: Vec<ReplicaAddress> = found.into_iter().flatten().collect();
    let mut known = HashSet::new();
    addresses.retain(|found| known.insert(found.address.clone()));
    let count = addresses.len();
    if count > MAX_ADDRESSES {
        addresses.truncate(MAX_ADDRESSES);
        let error = format!("not asked: there are {count} addresses, and at most {MAX_ADDRESSES} are asked");
        let address = format!("{} more", count - MAX_ADDRESSES);
        addresses.push(ReplicaAddress { address, name: None, service: Err(error) });
    }
    addresses
}

async fn of_service(
    server: &ServiceAddress,
    service: &ServiceClient,
    patience: &Patience,
) -> Vec<ReplicaAddress> {
    let known = |address: String| vec![ReplicaAddress { address, name: None, service: Ok(service.clone()) }];
    let authority = match server {
        ServiceAddress::Unix(path) => return known(path.to_string()),
        ServiceAddress::Url(url) => url.authority.as_str(),
    };
    if authority.parse::<SocketAddr>().is_ok() {
        return known(authority.to_owned());
    }
    let limit = patience.for_a_question();
    let looked_up = timeout(limit, lookup_host(authority)).await;
    let failure = match looked_up {
        Ok(Ok(addresses)) => {
            let mut addresses: Vec<SocketAddr> = addresses.collect();
            addresses.sort_unstable();
            addresses.dedup();
            if !addresses.is_empty() {
                let found = |address: SocketAddr| ReplicaAddress {
                    address: address.to_string(),
                    name: Some(authority.to_owned()),
                    service: Ok(service.at(address)),
                };
                return addresses.into_iter().map(found).collect();
            }
            "the name has no address".to_owned()
        }
        Ok(Err(error)) => format!("the name cannot be looked up: {error}"),
        Err(_) => format!("the name was not looked up within {limit:?}"),
    };
    vec![ReplicaAddress { address: authority.to_owned(), name: None, service: Err(failure) }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{ClientTlsArgs, ServerUrl};

    #[tokio::test]
    async fn a_name_has_all_its_addresses_and_what_is_too_much_is_said() {
        let tls = ClientTlsArgs { ca: None, client_cert: None, client_key: None };
        let server = |authority: &str| {
            ServiceAddress::Url(ServerUrl { tls: false, authority: authority.parse().unwrap() })
        };
        let found = async |servers: &[ServiceAddress]| {
            let services: Vec<_> =
                servers.iter().map(|server| (server, ServiceClient::new(server, &tls).unwrap())).collect();
            of_all(&services, &Patience::new(None)).await
        };
        let servers = ["10.0.0.1:80", "10.0.0.1:80", "[::1]:80", "localhost:80"];
        let one = found(&servers.map(server)).await;
        let addresses: Vec<&str> = one.iter().map(|found| found.address.as_str()).collect();
        assert_eq!(addresses.get(..2), Some(&["10.0.0.1:80", "[::1]:80"][..]));
        assert!(addresses.contains(&"127.0.0.1:80"), "{addresses:?}");
        assert!(one.iter().skip(2).all(|found| found.name.as_deref() == Some("localhost:80")));

        let many: Vec<ServiceAddress> =
            (0..502).map(|number| server(&format!("10.0.{}.{}:80", number / 256, number % 256))).collect();
        let found = found(&many).await;
        assert_eq!(found.len(), 501);
        let last = found.last().unwrap();
        assert_eq!((last.address.as_str(), last.service.is_err()), ("2 more", true));
    }
}
