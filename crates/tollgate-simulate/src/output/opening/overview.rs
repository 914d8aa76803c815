//! What a log holds, if there is no policy: how many requests, from whom, and what limit would be safe.

use crate::output::number::{about, counted, grouped, lasting};
use crate::output::share::percent;
use crate::quoted::code;
use crate::report::{Report, RouteReport};

pub(super) fn overview(report: &Report) -> [String; 3] {
    let about = about(report.one_client_in);
    let requests = counted(report.requests, "request");
    let clients = counted(report.clients, "client");
    let routes = counted(report.routes.len() as u64, "route");
    let length = lasting(report.seconds);
    let what = format!("The log has {requests} from {about}{clients} on {routes}, in {length}.");
    [what, busiest(report), limit(report)]
}

fn busiest(report: &Report) -> String {
    let share = |requests| format!("{} ({})", grouped(requests), percent(requests, report.requests));
    let client = report.busiest_clients.first().filter(|_| report.one_client_in == 1);
    let client = client.map(|client| format!("the busiest client sent {}", share(client.requests)));
    let route = report.routes.first();
    let route = route
        .map(|route| format!("the busiest route is {} with {}", code(&route.title()), share(route.requests)));
    let parts: Vec<String> = client.into_iter().chain(route).collect();
    let text = parts.join(", and ");
    match text.strip_prefix("the") {
        Some(rest) => format!("The{rest}."),
        None => text,
    }
}

/// The limit for the busiest route that has one.
fn limit(report: &Report) -> String {
    let has_limit = |route: &&RouteReport| route.suggested.is_some();
    let Some((route, suggested)) =
        report.routes.iter().find(has_limit).and_then(|route| Some((route, route.suggested.as_ref()?)))
    else {
        return "No route has enough clients in this log for a limit that is known to be safe.".to_owned();
    };
    let set_by = suggested.set_by.as_ref();
    let remark = set_by
        .map_or_else(String::new, |set_by| format!(" It is {}.", set_by.remark("client", &suggested.window)));
    format!(
        "With 95 % confidence, a limit of {}/{} on {} denies at most 1 client in {}; in this log, it would deny {} of {}.{remark}",
        grouped(suggested.limit),
        suggested.window,
        code(&route.title()),
        grouped((1.0 / suggested.budget).round() as u64),
        grouped(suggested.denied),
        counted(route.requests, "request")
    )
}
