//! An Envoy with the listeners, routes and clusters that Envoy Gateway's translator generates for rules.

use std::net::SocketAddr;
use std::path::Path;

use serde_json::{Value, json};

use crate::certificates::{Authority, Identity};
use crate::envoy;
use crate::proxy::Proxy;
use crate::support::folder::Folder;
use crate::xds::rules::{Listener, Route};

const FILTERS: &str = "type.googleapis.com/envoy.extensions.filters";

/// Where Envoy finds the others, and how it shows itself to the limiter.
#[derive(Clone, Copy)]
pub(crate) struct Neighbours<'a> {
    pub(crate) limiter: SocketAddr,
    pub(crate) upstream: SocketAddr,
    /// Envoy's certificate, and the authority of the limiter's.
    pub(crate) tls: Option<(&'a Identity, &'a Authority)>,
}

/// Starts an Envoy that has each listener at its address.
pub(crate) fn start(
    folder: &Folder,
    listeners: &[(Listener, SocketAddr)],
    neighbours: Neighbours<'_>,
) -> Proxy {
    let addresses: Vec<_> = listeners.iter().map(|(_, address)| *address).collect();
    let resources = json!({
        "listeners": listeners.iter().map(|(one, address)| listener(one, *address)).collect::<Vec<_>>(),
        "clusters": [cluster("upstream", neighbours.upstream), limiter(neighbours)],
    });
    envoy::start(folder, &json!({ "static_resources": resources }).to_string(), &addresses)
}

fn listener(listener: &Listener, address: SocketAddr) -> Value {
    let limits = listener.domains().into_iter().map(|domain| {
        json!({ "name": filter_name(listener, domain), "typed_config": {
            "@type": format!("{FILTERS}.http.ratelimit.v3.RateLimit"),
            "domain": domain,
            "disable_x_envoy_ratelimited_header": true,
            "enable_x_ratelimit_headers": "DRAFT_VERSION_03",
            // Envoy Gateway's is 20 ms, for which a debug build may be too slow.
            "timeout": "10s",
            "rate_limit_service": {
                "grpc_service": { "envoy_grpc": { "cluster_name": "ratelimit_cluster" } },
                "transport_api_version": "V3",
            },
        } })
    });
    let filters: Vec<_> = metadata_filters().into_iter().chain(limits).chain([router()]).collect();
    let routes: Vec<_> = listener.routes.iter().map(|one| route(listener, one)).collect();
    let manager = json!({
        "@type": format!("{FILTERS}.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "http",
        "common_http_protocol_options": { "headers_with_underscores_action": "REJECT_REQUEST" },
        "merge_slashes": true,
        "normalize_path": true,
        "path_with_escaped_slashes_action": "UNESCAPE_AND_REDIRECT",
        "server_header_transformation": "PASS_THROUGH",
        "use_remote_address": true,
        // The tests are a proxy that Envoy trusts, so that they can have any address.
        "xff_num_trusted_hops": 1,
        "http_filters": filters,
        "route_config": {
            "name": listener.name,
            "ignore_port_in_host_matching": true,
            "virtual_hosts": [{ "name": listener.name, "domains": ["*"], "routes": routes }],
        },
    });
    json!({
        "name": listener.name,
        "address": socket_address(address),
        "default_filter_chain": {
            "filters": [{ "name": "envoy.filters.network.http_connection_manager", "typed_config": manager }],
        },
    })
}

fn route(listener: &Listener, route: &Route) -> Value {
    let limits = listener.domains().into_iter().filter_map(|domain| {
        let rate_limits = route.rate_limits(listener.name, domain);
        let per_route = json!({
            "@type": format!("{FILTERS}.http.ratelimit.v3.RateLimitPerRoute"),
            "domain": domain,
            "rate_limits": rate_limits,
        });
        (!rate_limits.is_empty()).then(|| (filter_name(listener, domain), per_route))
    });
    let mut to = json!({ "cluster": "upstream" });
    if route.name == "tokens" {
        // Where the upstream's answers tell how many tokens they took.
        to["prefix_rewrite"] = json!("/usage");
    }
    json!({
        "name": route.name,
        "match": { "prefix": format!("/{}", route.name) },
        "route": to,
        "typed_per_filter_config": limits.collect::<serde_json::Map<_, _>>(),
    })
}

fn filter_name(listener: &Listener, domain: &str) -> String {
    let name = "envoy.filters.http.ratelimit";
    if domain == listener.name { name.to_owned() } else { format!("{name}/{domain}") }
}

/// Keeps the costs of requests and answers, and a limit, as metadata.
fn metadata_filters() -> [Value; 3] {
    let number = |key: &str| json!({ "metadata_namespace": "costs", "key": key, "type": "NUMBER" });
    let limit = json!({ "requests_per_unit": 2, "unit": "YEAR" });
    [
        json!({ "name": "envoy.filters.http.header_to_metadata", "typed_config": {
            "@type": format!("{FILTERS}.http.header_to_metadata.v3.Config"),
            "request_rules": [{ "header": "x-cost", "on_header_present": number("request") }],
        } }),
        json!({ "name": "envoy.filters.http.json_to_metadata", "typed_config": {
            "@type": format!("{FILTERS}.http.json_to_metadata.v3.JsonToMetadata"),
            "response_rules": { "rules": [
                { "selectors": [{ "key": "usage" }, { "key": "total_tokens" }], "on_present": number("answer") },
            ] },
        } }),
        json!({ "name": "envoy.filters.http.set_metadata", "typed_config": {
            "@type": format!("{FILTERS}.http.set_metadata.v3.Config"),
            "metadata": [{ "metadata_namespace": "limits", "value": { "plan": limit } }],
        } }),
    ]
}

fn router() -> Value {
    json!({ "name": "envoy.filters.http.router", "typed_config": {
        "@type": format!("{FILTERS}.http.router.v3.Router"), "suppress_envoy_headers": true,
    } })
}

fn limiter(neighbours: Neighbours<'_>) -> Value {
    let options = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";
    let mut limiter = cluster("ratelimit_cluster", neighbours.limiter);
    limiter["typed_extension_protocol_options"] = json!({ options: {
        "@type": format!("type.googleapis.com/{options}"),
        "explicit_http_config": { "http2_protocol_options": {
            "initial_connection_window_size": 1_048_576, "initial_stream_window_size": 65_536,
        } },
    } });
    if let Some((Identity { certificate, key }, authority)) = neighbours.tls {
        let file = |path: &Path| json!({ "filename": path });
        limiter["transport_socket"] = json!({ "name": "envoy.transport_sockets.tls", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext",
            "common_tls_context": {
                "tls_certificates": [{ "certificate_chain": file(certificate), "private_key": file(key) }],
                "tls_params": { "tls_maximum_protocol_version": "TLSv1_3" },
                "validation_context": { "trusted_ca": file(&authority.file) },
            },
        } });
    }
    limiter
}

fn cluster(name: &str, address: SocketAddr) -> Value {
    let endpoint = json!({ "endpoint": { "address": socket_address(address) } });
    json!({
        "name": name,
        "connect_timeout": "10s",
        "type": "STATIC",
        "load_assignment": { "cluster_name": name, "endpoints": [{ "lb_endpoints": [endpoint] }] },
    })
}

fn socket_address(address: SocketAddr) -> Value {
    json!({ "socket_address": { "address": address.ip(), "port_value": address.port() } })
}
