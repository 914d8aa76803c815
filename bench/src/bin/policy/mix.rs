//! Policies in the proportions of real files, and requests to which two of them apply.

use std::fmt::Write as _;

/// A policy file, the same rules for limitador, and requests.
#[derive(Debug)]
pub(crate) struct Mix {
    pub(crate) file: String,
    /// Conditions in limitador's language, one per rule.
    #[cfg_attr(not(feature = "limitador"), expect(dead_code, reason = "limitador was not built"))]
    pub(crate) expressions: Vec<String>,
    pub(crate) requests: Vec<Request>,
}

/// Attributes; every request has all of them.
#[derive(Debug)]
pub(crate) struct Request(pub(crate) [(&'static str, String); 4]);

/// The number of requests, each with its own policies: more policies than the caches of a core hold.
const REQUESTS: usize = 8_192;

/// Policies that no index covers, in files of every size: as written, and for limitador.
const UNINDEXABLE: [(&str, &str); 10] = [
    ("path: \"*.php\"", "path.endsWith('.php')"),
    ("path: \"*.asp\"", "path.endsWith('.asp')"),
    ("path: \"*/admin\"", "path.endsWith('/admin')"),
    ("path: \"*/wp-login*\"", "path.contains('/wp-login')"),
    ("path: { not: { prefix: / } }", "!path.startsWith('/')"),
    ("tenant: { not: { prefix: tenant- } }", "!tenant.startsWith('tenant-')"),
    ("user: { not: { prefix: user- } }", "!user.startsWith('user-')"),
    ("user: { absent: true }", "user == ''"),
    ("tenant: { absent: true }", "tenant == ''"),
    ("path: { absent: true }", "path == ''"),
];

impl Mix {
    /// Builds this many policies: 80 % match a text, 15 % the beginning of one and 5 % a network. Ten more are covered
    /// by no index. One of the texts applies to each request, and one of the others.
    pub(crate) fn new(policies: usize) -> Self {
        let (texts, prefixes) = (policies * 80 / 100, policies * 15 / 100);
        let networks = policies - texts - prefixes;
        let mut file = "policies:\n".to_owned();
        let mut expressions = Vec::new();
        let mut add = |condition: String, expression: String| {
            let number = expressions.len();
            // Writing into a string does not fail.
            let _ = writeln!(
                file,
                "  - {{ name: p{number}, match: {{ {condition} }}, key: [user], quotas: [5/1m] }}"
            );
            expressions.push(expression);
        };
        for number in 0..texts {
            add(format!("tenant: tenant-{number}"), format!("tenant == 'tenant-{number}'"));
        }
        for number in 0..prefixes {
            let prefix = format!("/api/service-{number}/");
            add(format!("path: \"{prefix}*\""), format!("path.startsWith('{prefix}')"));
        }
        for number in 0..networks {
            // limitador knows no networks; a prefix of the text covers those of whole bytes.
            let (a, b) = (number / 256, number % 256);
            add(format!("ip: {{ cidr: 10.{a}.{b}.0/24 }}"), format!("ip.startsWith('10.{a}.{b}.')"));
        }
        for (condition, expression) in UNINDEXABLE {
            add(condition.to_owned(), expression.to_owned());
        }

        let request = |number: usize| {
            // A step that is coprime to all sizes visits all of them in a mixed order.
            let pick = |among: usize| number * 7_919 % among.max(1);
            let (a, b) = (pick(networks) / 256, pick(networks) % 256);
            let is_in_network = number % 4 == 3;
            Request([
                ("user", format!("user-{number}")),
                ("tenant", format!("tenant-{}", pick(texts))),
                match is_in_network {
                    true => ("path", "/static/index.html".to_owned()),
                    false => ("path", format!("/api/service-{}/items/{number}", pick(prefixes))),
                },
                match is_in_network {
                    true => ("ip", format!("10.{a}.{b}.{}", number % 256)),
                    false => ("ip", format!("192.0.2.{}", number % 256)),
                },
            ])
        };
        let requests = (0..REQUESTS).map(request).collect();
        Self { file, expressions, requests }
    }

    /// Adds a policy for all requests with a table of this many users, which include those of the requests.
    pub(crate) fn add_table(&mut self, values: usize) {
        self.file += "  - name: table\n    key: [user]\n    quotas: [5/1m]\n";
        if values == 0 {
            return;
        }
        self.file += "    overrides:\n      by: user\n      values:\n";
        for number in 0..values {
            // Several lists, like those of plans. Writing into a string does not fail.
            let _ =
                writeln!(self.file, "        user-{}: [{}/1m]", number * 7_919 % values, 10 + number % 100);
        }
    }
}
