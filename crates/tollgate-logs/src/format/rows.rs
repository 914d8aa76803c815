//! The formats that are known, as data.

use super::json::Objects;
use super::scanner::Tail;
use super::table::Style;
use super::template::Template;
use super::{Format, FormatError, FormatShape, apache, nginx};
use crate::escape::Escape;
use crate::meaning::{API_GATEWAY, CADDY, CLOUDFLARE, ENVOY, FieldNames, GOOGLE, TRAEFIK, USUAL};
use crate::plan::Dialect;

/// A known format.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    text: LineSyntax,
    /// Whether it can be told from others by its lines.
    pub(crate) is_detected: bool,
    /// A field, and the value that it has in lines about requests of the server itself.
    own: Option<(&'static str, &'static [u8])>,
}

enum LineSyntax {
    /// In the syntax of `log_format`, with variables of our own (`$peer`, `$begin_clf`) for other servers. What is
    /// not in the table of meanings is skipped. More fields may follow, except of HAProxy.
    Nginx(&'static str, Escape),
    /// In the syntax of `LogFormat`. More fields may follow.
    Apache(&'static str),
    Objects(Objects),
    Table(Style),
}

impl Row {
    pub(crate) fn format(&self) -> Result<Format, FormatError> {
        let shape = match &self.text {
            LineSyntax::Nginx(text, escape) => {
                let tail = if *escape == Escape::Hash { Tail::Nothing } else { Tail::More };
                FormatShape::Template(Template { own: self.own, ..nginx::template(text, *escape, tail)? })
            }
            LineSyntax::Apache(text) => FormatShape::Template(apache::template(text, Tail::More)?),
            LineSyntax::Objects(objects) => FormatShape::Objects(*objects),
            LineSyntax::Table(style) => FormatShape::Table(*style),
        };
        Ok(Format { name: self.name.to_owned(), shape })
    }

    const fn new(name: &'static str, text: LineSyntax) -> Self {
        Self { name, text, is_detected: true, own: None }
    }

    const fn by_name(self) -> Self {
        Self { is_detected: false, ..self }
    }

    const fn without(self, field: &'static str, value: &'static [u8]) -> Self {
        Self { own: Some((field, value)), ..self }
    }
}

const fn objects(names: FieldNames, header: fn(&str) -> Option<String>) -> LineSyntax {
    LineSyntax::Objects(Objects { dialect: Dialect { names, header }, only: None, is_open: false })
}

const USUAL_OBJECTS: LineSyntax = LineSyntax::Objects(Objects {
    dialect: Dialect { names: USUAL, header: nginx::DIALECT.header },
    only: None,
    is_open: true,
});

const CADDY_OBJECTS: LineSyntax = LineSyntax::Objects(Objects {
    dialect: Dialect { names: CADDY, header: |name| Some(format!("/request/headers/{}/0", capitals(name))) },
    // An error of a handler is logged with the same fields once more.
    only: Some(("/msg", b"handled request")),
    is_open: false,
});

/// `x-api-key` as Go writes it: `X-Api-Key`.
fn capitals(header: &str) -> String {
    let words = header.split('-').map(|word| {
        let mut word = word.to_ascii_lowercase();
        if let Some(first) = word.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        word
    });
    words.collect::<Vec<_>>().join("-")
}

/// All known formats. Of those that read a log, the first is taken: so longer ones stand before those that they begin
/// with.
pub(crate) const ROWS: &[Row] = &[
    Row::new("caddy", CADDY_OBJECTS),
    Row::new("traefik-json", objects(TRAEFIK, |name| Some(format!("/request_{}", capitals(name))))),
    Row::new("envoy-json", objects(ENVOY, |name| Some(name.to_ascii_lowercase().replace('-', "_")))),
    Row::new("api-gateway", objects(API_GATEWAY, |_| None)),
    Row::new("cloudflare", objects(CLOUDFLARE, |name| Some(format!("/RequestHeaders/{}", name.to_ascii_lowercase())))),
    Row::new("google", objects(GOOGLE, |_| None)),
    Row::new("json", USUAL_OBJECTS),
    Row::new("w3c", LineSyntax::Table(Style::W3c)),
    // <https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-access-logs.html>. What it
    // has got since, up to the transformed host and path, comes after these.
    Row::new(
        "alb",
        LineSyntax::Nginx(
            r#"$type $end $elb $peer $target $t1 $t2 $t3 $status $s2 $received $bytes_sent "$request" "$http_user_agent" $cipher $protocol $group "$trace" "$domain" "$certificate" $priority $begin_iso"#,
            Escape::Backslash,
        ),
    ),
    // What the console of Amazon's API Gateway suggests as CSV, for REST and for HTTP. Its CLF is `common`.
    Row::new(
        "api-gateway-csv",
        LineSyntax::Nginx(
            "$remote_addr,$caller,$remote_user,$begin_clf,$request_method,$uri,$protocol,$status,$bytes_sent,$id,$extended_id",
            Escape::None,
        ),
    ),
    Row::new(
        "api-gateway-http-csv",
        LineSyntax::Nginx(
            "$remote_addr,$begin_clf,$request_method,$route_key,$protocol,$status,$bytes_sent,$id",
            Escape::None,
        ),
    ),
    Row::new(
        "elb",
        LineSyntax::Nginx(
            r#"$begin_iso $elb $peer $backend $t1 $t2 $t3 $status $s2 $received $bytes_sent "$request" "$http_user_agent" $cipher $protocol"#,
            Escape::Backslash,
        ),
    ),
    // The last quote belongs to the request: it is missing where HAProxy has cut off a line of more than 1,024 bytes.
    Row::new(
        "haproxy",
        LineSyntax::Nginx(
            r#"$peer [$begin_clf] $frontend $backend $timers $status $bytes_sent $c1 $c2 $state $connections $rest"$request"#,
            Escape::Hash,
        ),
    )
    // What its scripts ask other servers is logged with the requests of clients.
    .without("frontend", b"<HTTPCLIENT>"),
    // <https://istio.io/latest/docs/tasks/observability/logs/access-log/>. The client is third from the end: inside
    // of a mesh, there is no X-Forwarded-For.
    Row::new(
        "istio",
        LineSyntax::Nginx(
            r#"[$begin_iso] "$request" $status $flags $details $end "$failure" $received $bytes_sent $duration $upstream_time "$http_x_forwarded_for" "$http_user_agent" "$id" "$http_host" "$upstream" $upstream_cluster $upstream_local $local $peer $requested_host $route"#,
            Escape::None,
        ),
    ),
    // The default of Envoy, whose last entry of X-Forwarded-For is the address that it has heard from:
    // <https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage#default-format-string>.
    Row::new(
        "envoy",
        LineSyntax::Nginx(
            r#"[$begin_iso] "$request" $status $flags $received $bytes_sent $duration $upstream_time "$http_x_forwarded_for" "$http_user_agent" "$id" "$http_host" "$upstream""#,
            Escape::None,
        ),
    ),
    Row::new(
        "traefik",
        LineSyntax::Nginx(
            r#"$remote_addr - $remote_user [$begin_clf] "$request" $status $bytes_sent "$http_referer" "$http_user_agent" $number "$router" "$server" ${duration}ms"#,
            Escape::Backslash,
        ),
    ),
    Row::new(
        "ingress-nginx",
        LineSyntax::Nginx(
            r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" $request_length $request_time [$upstream] [$alternative] $address"#,
            Escape::Backslash,
        ),
    ),
    Row::new(
        "nginx-main",
        LineSyntax::Nginx(
            r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" "$http_x_forwarded_for""#,
            Escape::Backslash,
        ),
    ),
    Row::new(
        "apache-vhost",
        LineSyntax::Apache(r#"%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i""#),
    ),
    Row::new(
        "nginx-combined",
        LineSyntax::Nginx(
            r#"$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent""#,
            Escape::Backslash,
        ),
    )
    .by_name(),
    Row::new(
        "apache-combined",
        LineSyntax::Apache(r#"%h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i""#),
    )
    .by_name(),
    Row::new(
        "combined",
        LineSyntax::Nginx(
            r#"$remote_addr $ident $remote_user [$some_clf] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent""#,
            Escape::Backslash,
        ),
    ),
    Row::new("apache-common", LineSyntax::Apache(r#"%h %l %u %t "%r" %>s %b"#)).by_name(),
    Row::new(
        "common",
        LineSyntax::Nginx(
            r#"$remote_addr $ident $remote_user [$some_clf] "$request" $status $body_bytes_sent"#,
            Escape::Backslash,
        ),
    ),
    Row::new("csv", LineSyntax::Table(Style::Separated(b','))),
    Row::new("tsv", LineSyntax::Table(Style::Separated(b'\t'))),
];
