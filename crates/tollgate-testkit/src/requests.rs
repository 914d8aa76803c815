//! One table of requests on which the service, `explain` and the middleware of every server must decide alike.
//!
//! Requests run in this order on one store, because some depend on the usage of others. Each one could be misread: in
//! its method, its path, the address of its client, or an attribute that is looked up.

/// The policy file. The files in the same folder follow below.
pub const LIMITS: &str = include_str!("requests.yaml");

/// Files in the same folder as the policy file, by name.
pub const BESIDE: [(&str, &str); 3] = [
    ("tenants.csv", "globex,300/1d@first_hit\n\"Smith, Jones & Co\",200/1d@first_hit\n"),
    ("banned.txt", "198.51.100.0/24 # all of it\n"),
    ("thieves.txt", "2001:db8:bad::/48\n192.0.2.66\n"),
];

/// The attributes of requests other than `method`, `path` and `ip`.
pub const ATTRIBUTES: [&str; 10] =
    ["user", "plan", "tenant", "sender", "agent", "tokens", "bytes", "grant", "roles", "quota"];

/// A request, and its expected outcome.
#[derive(Debug, Clone, Copy)]
pub struct ExampleRequest {
    /// The method.
    pub method: &'static str,
    /// The path, as the client sends it.
    pub path: &'static str,
    /// The address of the client, in the spelling of its sender.
    pub ip: &'static str,
    /// Further attributes. A repeated name makes a list.
    pub attributes: &'static [(&'static str, &'static str)],
    /// The status of the answer if the service behind does not choose it; 200 if the request is admitted.
    pub status: u16,
    /// The quotas that apply, in the order of the file.
    pub quotas: &'static [ExpectedState],
}

/// A quota, and its state after the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpectedState {
    /// The policy.
    pub policy: &'static str,
    /// Its limit for this request.
    pub limit: u64,
    /// Its remaining units.
    pub left: u64,
    /// The cost of the request.
    pub cost: u64,
}

const fn one(policy: &'static str, limit: u64, left: u64) -> ExpectedState {
    ExpectedState { policy, limit, left, cost: 1 }
}

const fn many(policy: &'static str, limit: u64, left: u64, cost: u64) -> ExpectedState {
    ExpectedState { policy, limit, left, cost }
}

const fn by(
    ip: &'static str,
    method: &'static str,
    path: &'static str,
    quotas: &'static [ExpectedState],
) -> ExampleRequest {
    ExampleRequest { method, path, ip, attributes: &[], status: 200, quotas }
}

const fn asked(method: &'static str, path: &'static str, quotas: &'static [ExpectedState]) -> ExampleRequest {
    by("192.0.2.1", method, path, quotas)
}

const fn with(
    path: &'static str,
    attributes: &'static [(&'static str, &'static str)],
    quotas: &'static [ExpectedState],
) -> ExampleRequest {
    ExampleRequest { attributes, ..asked("POST", path, quotas) }
}

const fn refused(
    status: u16,
    path: &'static str,
    attributes: &'static [(&'static str, &'static str)],
) -> ExampleRequest {
    ExampleRequest { status, ..with(path, attributes, &[]) }
}

impl ExampleRequest {
    /// Returns the further attributes by name, each with all its texts.
    pub fn values(&self) -> impl Iterator<Item = (&'static str, Vec<&'static str>)> {
        let names =
            ATTRIBUTES.into_iter().filter(|name| self.attributes.iter().any(|(other, _)| other == name));
        names.map(|name| {
            let texts = self.attributes.iter().filter(move |(other, _)| *other == name);
            (name, texts.map(|(_, text)| *text).collect())
        })
    }
}

/// The table.
pub const REQUESTS: &[ExampleRequest] = &[
    // HEAD counts as GET; only `method: HEAD` tells them apart.
    asked("GET", "/methods", &[one("reads", 9000, 8999)]),
    asked("HEAD", "/methods", &[one("reads", 9000, 8998), one("heads", 8000, 7999)]),
    asked("POST", "/methods", &[one("writes", 7000, 6999)]),
    asked("OPTIONS", "/methods", &[one("writes", 7000, 6998)]),
    // A path in an unusual spelling is read as it was sent and normalized, and each policy that matches one counts it.
    asked("GET", "/login", &[one("login", 10, 9)]),
    asked("HEAD", "/login", &[one("login", 10, 8)]),
    asked("POST", "//login", &[one("login", 10, 7)]),
    asked("GET", "/%6Cogin", &[one("login", 10, 6)]),
    asked("GET", "/api/../login", &[one("login", 10, 5), one("api", 30, 29)]),
    asked("GET", "/x%2F..%2flogin", &[one("login", 10, 4)]),
    asked("GET", "/.//%2e/login", &[one("login", 10, 3)]),
    asked("GET", "/../../login", &[one("login", 10, 2)]),
    asked("GET", "/%256Cogin", &[]),
    asked("GET", "/LOGIN", &[]),
    asked("GET", "/login/", &[one("folder", 20, 19)]),
    asked("GET", "/login//", &[one("folder", 20, 18)]),
    asked("GET", "/login/x/..", &[one("folder", 20, 17)]),
    asked("GET", "/login/.", &[one("folder", 20, 16)]),
    asked("GET", "/caf%C3%A9", &[one("coffee", 25, 24)]),
    asked("GET", "/caf%c3", &[]),
    asked("GET", "/./api//users", &[one("api", 30, 28)]),
    asked("GET", "/api/", &[one("api", 30, 27)]),
    asked("GET", "/api", &[]),
    // The same in a nested service, which sees only `/login`.
    asked("GET", "/nested/login", &[one("nested", 110, 109)]),
    asked("GET", "/nested/./login", &[one("nested", 110, 108)]),
    asked("GET", "/nested/x/..//login", &[one("nested", 110, 107)]),
    asked("GET", "/nested/%6cogin", &[one("nested", 110, 106)]),
    asked("GET", "/nested/../login", &[one("login", 10, 1)]),
    // An IPv4-mapped address is that IPv4 address, and an IPv6 address counts by its /64.
    by("192.0.2.7", "GET", "/", &[one("host", 40, 39)]),
    by("::ffff:192.0.2.7", "GET", "/", &[one("host", 40, 38)]),
    by("::FFFF:C000:207", "GET", "/", &[one("host", 40, 37)]),
    by("64:ff9b::192.0.2.7", "GET", "/", &[one("host", 40, 36)]),
    by("2001:DB8:0:0::1", "PUT", "/", &[one("network", 50, 49)]),
    by("2001:db8::ffff", "PUT", "/", &[one("network", 50, 48)]),
    by("2001:db8:0:1::1", "PUT", "/", &[one("network", 50, 49)]),
    ExampleRequest { status: 403, ..by("198.51.100.9", "GET", "/", &[one("banned", 0, 0)]) },
    ExampleRequest { status: 403, ..by("::ffff:198.51.100.9", "GET", "/", &[one("banned", 0, 0)]) },
    // An exempt request needs no key attribute.
    asked("GET", "/healthz", &[]),
    asked("HEAD", "/healthz", &[]),
    ExampleRequest { method: "PUT", ..with("/healthz", &[("user", "alice")], &[one("probes", 130, 129)]) },
    // Nor is it exempt unless both readings of its path are.
    with("/%68ealthz", &[("user", "alice")], &[one("probes", 130, 128)]),
    with("/api/..%2fhealthz", &[("user", "alice")], &[one("probes", 130, 127), one("api", 30, 26)]),
    ExampleRequest { method: "PUT", ..refused(400, "/healthz", &[]) },
    // Costs: the least written cost is 0, and the default is 1.
    with("/tokens", &[("user", "alice"), ("tokens", "7")], &[many("tokens", 500, 493, 7)]),
    with("/tokens", &[("user", "alice"), ("tokens", "0")], &[one("tokens", 500, 492)]),
    with("/tokens", &[("user", "alice"), ("tokens", "050")], &[many("tokens", 500, 442, 50)]),
    refused(400, "/tokens", &[("user", "alice")]),
    refused(400, "/tokens", &[("user", "alice"), ("tokens", "51")]),
    refused(400, "/tokens", &[("user", "alice"), ("tokens", "-1")]),
    with("/uploads", &[("user", "alice"), ("bytes", "9")], &[many("uploads", 600, 591, 9)]),
    with("/uploads", &[("user", "alice"), ("bytes", "0")], &[many("uploads", 600, 591, 0)]),
    with("/uploads", &[("user", "alice")], &[many("uploads", 600, 584, 7)]),
    with("/uploads", &[("user", "alice"), ("bytes", "many")], &[many("uploads", 600, 577, 7)]),
    // Tables and tiers: the counter is the same whatever the limit.
    with("/tenants", &[("tenant", "acme")], &[one("tenants", 700, 699)]),
    with("/tenants", &[("tenant", "globex")], &[one("tenants", 300, 299)]),
    with("/tenants", &[("tenant", "Smith, Jones & Co")], &[one("tenants", 200, 199)]),
    with("/tenants", &[("tenant", "Acme")], &[one("tenants", 70, 69)]),
    with("/tenants", &[("tenant", "own")], &[]),
    with("/plans", &[("user", "alice"), ("plan", "gold")], &[one("plans", 1000, 999)]),
    with("/plans", &[("user", "alice"), ("plan", "none")], &[one("plans", 100, 98)]),
    with("/plans", &[("user", "bob")], &[one("plans", 100, 99)]),
    with("/plans", &[("user", "bob"), ("plan", "none"), ("plan", "gold")], &[one("plans", 1000, 998)]),
    with("/plans", &[("user", "bob"), ("plan", "gold"), ("tenant", "acme")], &[one("plans", 700, 697)]),
    refused(400, "/plans", &[("plan", "gold")]),
    // Expressions, and texts in upper or lower case.
    asked("GET", "/v12/files/a", &[one("files", 140, 139)]),
    asked("GET", "/v1//files", &[one("files", 140, 138)]),
    asked("GET", "/v1/filesystem", &[]),
    asked("GET", "/x/v1/files", &[]),
    with("/tools", &[("agent", "CURL/8.5")], &[one("tools", 60, 59)]),
    with("/tools", &[("agent", "curl/")], &[one("tools", 60, 58)]),
    with("/tools", &[("agent", "libcurl/8.5")], &[]),
    // Requests without a key attribute.
    with("/hooks", &[("sender", "mill")], &[one("hooks", 80, 79)]),
    refused(401, "/hooks", &[]),
    with("/guests", &[("user", "alice")], &[one("guests", 90, 89)]),
    with("/guests", &[], &[]),
    // One of several attributes matches, and two of them count once.
    with("/sign-in", &[], &[one("sign-in", 150, 149)]),
    with("/token", &[("grant", "password")], &[one("sign-in", 150, 148)]),
    with("//sign-in", &[("grant", "password")], &[one("sign-in", 150, 147)]),
    with("/token", &[("grant", "refresh")], &[]),
    asked("GET", "/sign-in", &[]),
    // A test holds for a list if it holds for one of its texts, and `not` if it holds for none.
    with(
        "/roles",
        &[("roles", "admin"), ("roles", "staff-1")],
        &[one("admins", 160, 159), one("staff", 170, 169)],
    ),
    with("/roles", &[("roles", "staff-0"), ("roles", "staff-1")], &[one("others", 180, 179)]),
    with("/roles", &[("roles", "staff-1")], &[one("staff", 170, 168), one("others", 180, 178)]),
    with("/roles", &[], &[one("others", 180, 177)]),
    // A list cannot be part of a key. For a table, the first text that it contains counts.
    with("/role", &[("roles", "admin")], &[one("role", 190, 189)]),
    refused(400, "/role", &[("roles", "admin"), ("roles", "staff-1")]),
    with("/crowd", &[("roles", "c"), ("roles", "b"), ("roles", "a")], &[one("crowd", 230, 229)]),
    with("/crowd", &[("roles", "c"), ("roles", "d")], &[one("crowd", 210, 208)]),
    // A limit from an attribute: the counter is the same whatever the limit.
    with("/own-limit", &[("user", "alice"), ("quota", "200")], &[one("own-limit", 200, 199)]),
    with("/own-limit", &[("user", "alice"), ("quota", "9999")], &[one("own-limit", 250, 248)]),
    with("/own-limit", &[("user", "alice")], &[one("own-limit", 240, 237)]),
    with("/own-limit", &[("user", "alice"), ("quota", "-5")], &[one("own-limit", 240, 236)]),
    with("/own-limit", &[("user", "alice"), ("quota", "7"), ("quota", "8")], &[one("own-limit", 240, 235)]),
    ExampleRequest {
        status: 429,
        ..with("/own-limit", &[("user", "alice"), ("quota", "0")], &[one("own-limit", 0, 0)])
    },
    with("/said-limit", &[("user", "alice"), ("quota", "9")], &[one("said-limit", 9, 8)]),
    refused(400, "/said-limit", &[("user", "alice")]),
    refused(400, "/said-limit", &[("user", "alice"), ("quota", "9.5")]),
    refused(400, "/said-limit", &[("user", "alice"), ("quota", "7"), ("quota", "8")]),
    // Lists for the whole file: allowed ones come first, then denied ones.
    refused(403, "/login", &[("user", "mallory")]),
    refused(403, "/nowhere", &[("roles", "admin"), ("roles", "banned")]),
    with("/nowhere", &[("user", "Mallory")], &[]),
    ExampleRequest { status: 403, ..by("192.0.2.66", "GET", "/login", &[]) },
    ExampleRequest { status: 403, ..by("::ffff:192.0.2.66", "GET", "/login", &[]) },
    ExampleRequest { status: 403, ..by("2001:db8:bad:1::7", "PUT", "/", &[]) },
    by("203.0.113.9", "GET", "/login", &[]),
    with("/login", &[("user", "mallory"), ("agent", "probe/1")], &[]),
    with("/login", &[("user", "alice"), ("agent", "Probe/1")], &[one("login", 10, 0)]),
    with("/healthz", &[("user", "mallory")], &[]),
];
