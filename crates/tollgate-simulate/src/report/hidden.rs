//! Reports without the names of clients.

use std::collections::BTreeMap;
use std::mem;

use tollgate_policy::Identity;

use crate::fingerprint::hidden;

use super::{ReadReport, Report};
use crate::shortened::is_told_by;

impl Report {
    /// Replaces the names of clients by digests. The same log gives the same digests, but without the log, nobody can
    /// out a name by trying all addresses. Programs and paths that contain the name are left out, and so are clients in
    /// routes. Of lines that could not be read, the shape alone is left.
    pub fn hide_keys(&mut self) {
        self.read.iter_mut().for_each(ReadReport::hide_lines);
        let key = self.fingerprint;
        let newly = self.compared.iter_mut().flat_map(|compared| {
            compared.most_newly_denied.iter_mut().chain(&mut compared.most_newly_allowed)
        });
        for client in self.most_denied.iter_mut().chain(&mut self.most_denied_on_trial).chain(newly) {
            let name = mem::take(&mut client.client);
            let is_told = |attribute, text: &str| is_of(&self.client, attribute) || is_told_by(&name, text);
            client.user_agent = client.user_agent.take().filter(|text| !is_told("user_agent", text));
            client.path = client.path.take().filter(|text| !is_told("path", text));
            client.client = hidden(key, &name);
        }
        for client in &mut self.busiest_clients {
            let name = mem::take(&mut client.client);
            let is_told = |text: &str| is_of(&self.client, "user_agent") || is_told_by(&name, text);
            client.user_agent = client.user_agent.take().filter(|text| !is_told(text));
            client.client = hidden(key, &name);
        }
        let clients = mem::take(&mut self.clients_in_routes);
        for route in &mut self.routes {
            route.route = if is_of(&self.client, "path") {
                hidden(key, &route.route)
            } else {
                without_clients(&route.route, &clients, key)
            };
        }
    }
}

fn without_clients(route: &str, clients: &BTreeMap<String, String>, key: u128) -> String {
    let segments = route.split('/').map(|segment| match clients.get(segment) {
        Some(name) => hidden(key, name),
        None => segment.to_owned(),
    });
    segments.collect::<Vec<_>>().join("/")
}

/// Whether an attribute is a part of the identity.
fn is_of(identity: &Identity, attribute: &str) -> bool {
    match identity {
        Identity::Attribute(name) | Identity::Address(name, _) => **name == *attribute,
        Identity::All(parts) | Identity::FirstOf(parts) => parts.iter().any(|part| is_of(part, attribute)),
        Identity::Global => false,
        // Any attribute may be one.
        _ => true,
    }
}
