//! The names of users, which are keys, are nowhere but in the clients' own requests.

use crate::client::CANARY;
use crate::found::Found;
use crate::service::Services;

/// Looks into what both services show and log. Ends them.
pub(crate) fn search(services: &Services, found: &mut Found) {
    let mut shown = Vec::new();
    for service in 0..2 {
        for path in ["/metrics", "/v1/policies", "/v1/overrides?limit=1000"] {
            let reply = services.ask_admin(service, "GET", path, None);
            found.expect(reply.status == 200, || format!("{path}: {}", reply.status));
            shown.push((path.to_owned(), String::from_utf8_lossy(&reply.body).into_owned()));
        }
    }
    let logs = services.end_all();
    shown.extend(logs.into_iter().map(|log| ("the log".to_owned(), log)));
    for (place, text) in shown {
        let line = text.lines().find(|line| line.contains(CANARY));
        found.expect(line.is_none(), || format!("{place} has a key: {line:?}"));
        found.expect(!text.contains("panicked"), || format!("{place} has a panic: {text}"));
    }
}
