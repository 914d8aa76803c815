//! Clients that routes name, as `/users/alice` does if clients are users.

use std::collections::{BTreeMap, HashSet};

use percent_encoding::percent_decode_str;
use tollgate_policy::{Attributes, Identity};

use crate::followed::{FollowedClients, digest, name};
use crate::report::RouteReport;

/// The segments of routes that are values of clients, with the names of these. If not all clients are followed, the
/// names next to such a segment are taken for clients, too.
///
/// A client that has several values is known by each of them only if it is among the `listed` names.
pub(crate) fn clients_in_routes(
    routes: &[RouteReport],
    subjects: &FollowedClients,
    listed: &[&str],
) -> BTreeMap<String, String> {
    let listed = listed.iter().flat_map(|name| name.split(", ")).filter_map(|part| part.split_once('='));
    let listed: HashSet<&str> = listed.map(|(_, value)| value).collect();
    let mut attributes = Vec::new();
    add_attributes(subjects.identity(), &mut attributes);
    let name_of = |segment: &str| {
        let value = percent_decode_str(segment).decode_utf8().ok().filter(|value| !value.is_empty())?;
        let client_name = attributes.iter().find_map(|attribute| {
            let request: Attributes<'_> = [(*attribute, &*value)].into_iter().collect();
            let key = subjects.identity().key(&request).ok()?;
            subjects.known(digest(&key))?;
            Some(name(subjects.identity(), &request).into_string())
        });
        client_name.or_else(|| listed.contains(&*value).then(|| value.into_owned()))
    };
    let (mut clients, mut places) = (BTreeMap::new(), HashSet::new());
    for (place, segment) in routes.iter().flat_map(segments) {
        if let Some(name) = name_of(segment) {
            clients.insert(segment.to_owned(), name);
            places.insert(place);
        }
    }
    if subjects.one_in() > 1 {
        let beside = routes.iter().flat_map(segments).filter(|(place, _)| places.contains(place));
        for (_, segment) in beside.filter(|(_, segment)| !segment.starts_with('{') && *segment != "...") {
            clients.entry(segment.to_owned()).or_insert_with(|| segment.to_owned());
        }
    }
    clients
}

/// The segments of a route, each behind the part of the route before it.
fn segments(route: &RouteReport) -> impl Iterator<Item = (&str, &str)> {
    let route = route.route.as_str();
    let starts = route.match_indices('/').map(|(slash, _)| slash + 1);
    starts.filter_map(move |start| {
        let (place, rest) = route.split_at_checked(start)?;
        Some((place, rest.split('/').next()?)).filter(|(_, segment)| !segment.is_empty())
    })
}

fn add_attributes<'i>(identity: &'i Identity, attributes: &mut Vec<&'i str>) {
    match identity {
        Identity::Attribute(name) | Identity::Address(name, _) => attributes.push(name),
        Identity::All(parts) | Identity::FirstOf(parts) => {
            parts.iter().for_each(|part| add_attributes(part, attributes));
        }
        _ => {}
    }
}
