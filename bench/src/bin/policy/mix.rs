//! Policies in the proportions that files have, and requests that two of them apply to.

use std::fmt::Write as _;

/// A file of policies, the same rules for limitador, and requests.
#[derive(Debug)]
pub(crate) struct Mix {
    pub(crate) file: String,
    /// Conditions in limitador's language, one rule each.
    #[cfg_attr(not(feature = "limitador"), expect(dead_code, reason = "limitador was not built"))]
    pub(crate) expressions: Vec<String>,
    pub(crate) requests: Vec<Request>,
}

/// Attributes, all of them in every request.
#[derive(Debug)]
pub(crate) struct Request(pub(crate) [(&'static str, String); 4]);

/// Requests, each for policies of its own: more than any cache of a core holds the policies of.
const REQUESTS: usize = 8_192;

/// Policies that no index finds, in files of every size: as they are written, and for limitador.
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
    /// So many policies, of which 80 % match a text, 15 % the beginning of one and 5 % a network, and ten more that
    /// no index finds. To each request one of the texts applies, and one of the others.
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
            // limitador knows no networks; the beginning of the text finds those of whole bytes.
            let (a, b) = (number / 256, number % 256);
            add(format!("ip: {{ cidr: 10.{a}.{b}.0/24 }}"), format!("ip.startsWith('10.{a}.{b}.')"));
        }
        for (condition, expression) in UNINDEXABLE {
            add(condition.to_owned(), expression.to_owned());
        }

        let request = |number: usize| {
            // A step that is prime to all sizes visits all of them in no order.
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

    /// Adds a policy for everybody with a table of so many users, all those of the requests among them.
    pub(crate) fn add_table(&mut self, values: usize) {
        self.file += "  - name: table\n    key: [user]\n    quotas: [5/1m]\n";
        if values == 0 {
            return;
        }
        self.file += "    overrides:\n      by: user\n      values:\n";
        for number in 0..values {
            // Some lists, as plans have them. Writing into a string does not fail.
            let _ =
                writeln!(self.file, "        user-{}: [{}/1m]", number * 7_919 % values, 10 + number % 100);
        }
    }
}
