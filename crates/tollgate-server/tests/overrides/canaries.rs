//! The names of users, which are keys, are nowhere but in the clients' own requests.

use tollgate_testkit::servers::Server;

use crate::client::CANARY;
use crate::found::Found;
use crate::world::World;

/// Looks into what both services have answered, show and log, and into the store. Ends the services.
pub(crate) fn search(world: &World, found: &mut Found) {
    let services = &world.services;
    for service in 0..2 {
        for path in ["/metrics", "/v1/policies", "/v1/overrides?limit=1000"] {
            let reply = services.ask_admin(service, "GET", path, None);
            found.expect(reply.status == 200, || format!("{path}: {}", reply.status));
        }
    }
    found.violations.extend(services.leaks().into_iter().map(|leak| format!("a key is in {leak}")));
    for log in services.end_all() {
        let line = log.lines().find(|line| line.contains(CANARY));
        found.expect(line.is_none(), || format!("a key is in the log: {line:?}"));
        found.expect(!log.contains("panicked"), || format!("a panic: {log}"));
    }
    let (mut searched, mut has_overrides) = (0, false);
    for server in world.site.primaries() {
        for (name, value) in contents(server) {
            let texts = value.iter().chain([&name]).map(|bytes| String::from_utf8_lossy(bytes));
            let leak = texts.into_iter().find(|text| text.contains(CANARY));
            found.expect(leak.is_none(), || format!("a key is in the store: {leak:?}"));
            searched += 1;
            has_overrides |= value.iter().any(|field| field.windows(5).any(|text| text == b"drawn"));
        }
    }
    // Their notes show that the search sees what overrides hold. After a loss of all data, there may be none.
    let may_be_empty = world.eras().last().is_some_and(|era| era.kept == 0 && era.begun < era.settled);
    let has_seen_all = searched > 0 && has_overrides || may_be_empty;
    found.expect(has_seen_all, || format!("{searched} names without an override are in the store"));
}

/// All names of a server, and what they hold.
fn contents(server: &Server) -> Vec<(Vec<u8>, Vec<Vec<u8>>)> {
    let names: Vec<Vec<u8>> = server.command(["KEYS", "*"]);
    let contents = names.into_iter().map(|name| {
        let kind: String = server.command([b"TYPE", name.as_slice()]);
        let read = |command: &str, arguments: &[&str]| {
            let arguments = arguments.iter().map(|argument| argument.as_bytes());
            server.command([command.as_bytes(), &name].into_iter().chain(arguments))
        };
        let value: Vec<Vec<u8>> = match kind.as_str() {
            "string" => read("GETRANGE", &["0", "-1"]),
            "hash" => read("HGETALL", &[]),
            "zset" => read("ZRANGE", &["0", "-1"]),
            "set" => read("SMEMBERS", &[]),
            "list" => read("LRANGE", &["0", "-1"]),
            // Its time has come meanwhile.
            "none" => vec![],
            other => panic!("a value of another type: {other}"),
        };
        (name, value)
    });
    contents.collect()
}
