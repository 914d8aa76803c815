//! The meanings of formats' fields.

use crate::attribute::TimeForm;
use crate::field::Instant;

/// The meaning of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The client's address, perhaps with a port: `[2001:db8::1]:80`, `192.0.2.1:80`.
    Address,
    /// The client's address and always a port, also `2001:db8::1:80`.
    Peer,
    /// `X-Forwarded-For`, or a JSON array of its lines. Its last entry is the address where a line has no other.
    Forwarded,
    /// `GET /path?query HTTP/1.1`
    RequestLine,
    Method,
    /// `/path?query`, or a whole URL.
    Target,
    Path,
    /// `GET /pets/{id}`, or `$default`, which is no path.
    Route,
    Query,
    Host,
    User,
    UserAgent,
    Referer,
    Status,
    Sent,
    Time(TimeForm, Instant),
    /// A day and a time of the day, in UTC, that make one time.
    Date,
    Clock,
    Duration(DurationUnit),
}

/// The unit of a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DurationUnit {
    Seconds,
    Millis,
    Micros,
    Nanos,
    /// Whole numbers are milliseconds, as IIS writes them, and others seconds, as CloudFront does.
    OfW3c,
}

impl Meaning {
    pub(crate) const TIME: u32 = 1;

    /// What is known once a field with this meaning has been read. Of two fields for the same, the one is taken that
    /// stands first in the table of its format.
    pub(crate) const fn covers(&self) -> u32 {
        const ADDRESS: u32 = 1 << 1;
        const METHOD: u32 = 1 << 2;
        const PATH: u32 = 1 << 3;
        const QUERY: u32 = 1 << 4;
        match self {
            Self::Time(..) => Self::TIME,
            Self::Address | Self::Peer => ADDRESS,
            Self::RequestLine => METHOD | PATH | QUERY,
            Self::Method => METHOD,
            Self::Target => PATH | QUERY,
            Self::Path | Self::Route => PATH,
            Self::Query => QUERY,
            Self::Host => 1 << 5,
            Self::User => 1 << 6,
            Self::UserAgent => 1 << 7,
            Self::Referer => 1 << 8,
            Self::Status => 1 << 9,
            Self::Sent => 1 << 10,
            Self::Date => 1 << 11,
            Self::Clock => 1 << 12,
            Self::Duration(_) => 1 << 13,
            Self::Forwarded => 1 << 14,
        }
    }
}

/// Names of fields and what they mean; of several for the same, the first is taken.
pub(crate) type FieldNames = &'static [(&'static str, Meaning)];

use Instant::{Begin, End, Unknown};
use Meaning::*;
use TimeForm::{Any, Clf, Iso, Unix};

/// Variables of nginx, and after them some of our own for the fixed formats of others.
pub(crate) const NGINX: FieldNames = &[
    ("msec", Time(Unix, End)),
    ("time_iso8601", Time(Iso, End)),
    ("time_local", Time(Clf, End)),
    ("remote_addr", Address),
    ("remote_user", User),
    ("request", RequestLine),
    ("request_method", Method),
    ("request_uri", Target),
    ("uri", Path),
    ("document_uri", Path),
    ("args", Query),
    ("query_string", Query),
    // Both variables, one after the other.
    ("is_args$args", Query),
    ("host", Host),
    ("http_host", Host),
    ("server_name", Host),
    ("http_user_agent", UserAgent),
    ("http_referer", Referer),
    ("http_x_forwarded_for", Forwarded),
    ("status", Status),
    ("bytes_sent", Sent),
    ("body_bytes_sent", Sent),
    ("request_time", Duration(DurationUnit::Seconds)),
    // Of other servers.
    ("begin_clf", Time(Clf, Begin)),
    ("begin_iso", Time(Iso, Begin)),
    ("some_clf", Time(Clf, Unknown)),
    ("peer", Peer),
    ("route_key", Route),
];

/// Directives of Apache's `LogFormat`, without `%`. Patterns of `%{...}t` are read apart.
pub(crate) const APACHE: FieldNames = &[
    ("{usec}t", Time(Unix, Begin)),
    ("{begin:usec}t", Time(Unix, Begin)),
    ("{msec}t", Time(Unix, Begin)),
    ("{begin:msec}t", Time(Unix, Begin)),
    ("{end:usec}t", Time(Unix, End)),
    ("{end:msec}t", Time(Unix, End)),
    ("t", Time(Clf, Begin)),
    ("{begin}t", Time(Clf, Begin)),
    ("{end}t", Time(Clf, End)),
    ("{sec}t", Time(Unix, Begin)),
    ("{begin:sec}t", Time(Unix, Begin)),
    ("{end:sec}t", Time(Unix, End)),
    ("a", Address),
    ("h", Address),
    ("u", User),
    ("r", RequestLine),
    ("m", Method),
    ("U", Path),
    ("q", Query),
    ("{host}i", Host),
    ("V", Host),
    ("v", Host),
    ("{user-agent}i", UserAgent),
    ("{referer}i", Referer),
    ("{x-forwarded-for}i", Forwarded),
    (">s", Status),
    ("s", Status),
    ("O", Sent),
    ("B", Sent),
    ("b", Sent),
    ("D", Duration(DurationUnit::Micros)),
    ("{us}T", Duration(DurationUnit::Micros)),
    ("{ms}T", Duration(DurationUnit::Millis)),
    ("T", Duration(DurationUnit::Seconds)),
    ("{s}T", Duration(DurationUnit::Seconds)),
];

/// Fields of W3C's extended format, of CloudFront and of IIS.
pub(crate) const W3C: FieldNames = &[
    ("date", Date),
    ("time", Clock),
    ("timestamp", Time(Unix, End)),
    ("c-ip", Address),
    ("cs-username", User),
    ("cs-method", Method),
    ("cs-uri", Target),
    ("cs-uri-stem", Path),
    ("cs-uri-query", Query),
    ("x-host-header", Host),
    ("cs-host", Host),
    ("cs(host)", Host),
    ("cs(user-agent)", UserAgent),
    ("cs(referer)", Referer),
    ("cs(x-forwarded-for)", Forwarded),
    ("x-forwarded-for", Forwarded),
    ("sc-status", Status),
    ("sc-bytes", Sent),
    ("time-taken", Duration(DurationUnit::OfW3c)),
];

/// Names that people give to columns and to fields of JSON lines. Columns may have capitals; JSON may not.
pub(crate) const USUAL: FieldNames = &[
    ("time", Time(Any, Unknown)),
    ("timestamp", Time(Any, Unknown)),
    ("@timestamp", Time(Any, Unknown)),
    ("ts", Time(Any, Unknown)),
    ("time_iso8601", Time(Iso, End)),
    ("time_local", Time(Clf, End)),
    ("msec", Time(Unix, End)),
    ("datetime", Time(Any, Unknown)),
    ("date", Time(Any, Unknown)),
    ("remote_addr", Address),
    ("client_ip", Address),
    ("clientip", Address),
    ("remote_ip", Address),
    ("ip", Address),
    ("client", Address),
    ("remote_user", User),
    ("user", User),
    ("username", User),
    ("request_method", Method),
    ("method", Method),
    ("request", RequestLine),
    ("request_uri", Target),
    ("uri", Target),
    ("url", Target),
    ("path", Target),
    ("args", Query),
    ("query", Query),
    ("query_string", Query),
    ("host", Host),
    ("http_host", Host),
    ("server_name", Host),
    ("http_user_agent", UserAgent),
    ("user_agent", UserAgent),
    ("useragent", UserAgent),
    ("http_referer", Referer),
    ("referer", Referer),
    ("referrer", Referer),
    ("http_x_forwarded_for", Forwarded),
    ("x_forwarded_for", Forwarded),
    ("status", Status),
    ("status_code", Status),
    ("bytes_sent", Sent),
    ("body_bytes_sent", Sent),
    ("bytes", Sent),
    ("size", Sent),
    ("request_time", Duration(DurationUnit::Seconds)),
];

/// Caddy's JSON.
pub(crate) const CADDY: FieldNames = &[
    ("/ts", Time(Any, End)),
    ("/request/client_ip", Address),
    ("/request/remote_ip", Address),
    ("/request/remote_addr", Address),
    ("/user_id", User),
    ("/request/method", Method),
    ("/request/uri", Target),
    ("/request/host", Host),
    ("/request/headers/User-Agent/0", UserAgent),
    ("/request/headers/Referer/0", Referer),
    ("/request/headers/X-Forwarded-For", Forwarded),
    ("/status", Status),
    ("/size", Sent),
    ("/duration", Duration(DurationUnit::Seconds)),
];

/// Traefik's JSON.
pub(crate) const TRAEFIK: FieldNames = &[
    ("/StartUTC", Time(Iso, Begin)),
    ("/StartLocal", Time(Iso, Begin)),
    ("/ClientHost", Address),
    ("/ClientAddr", Address),
    ("/ClientUsername", User),
    ("/RequestMethod", Method),
    ("/RequestPath", Target),
    ("/RequestHost", Host),
    ("/RequestAddr", Host),
    ("/request_User-Agent", UserAgent),
    ("/request_Referer", Referer),
    ("/request_X-Forwarded-For", Forwarded),
    ("/DownstreamStatus", Status),
    ("/DownstreamContentSize", Sent),
    ("/Duration", Duration(DurationUnit::Nanos)),
];

/// Envoy's JSON: with the names of its documentation and of Istio's default
/// (<https://istio.io/latest/docs/tasks/observability/logs/access-log/>), of Envoy Gateway's default
/// (<https://gateway.envoyproxy.io/docs/tasks/observability/proxy-accesslog/>), and the time of Contour's.
pub(crate) const ENVOY: FieldNames = &[
    ("/start_time", Time(Iso, Begin)),
    ("/@timestamp", Time(Iso, Begin)),
    ("/downstream_remote_address", Address),
    ("/method", Method),
    ("/path", Target),
    ("/x-envoy-origin-path", Target),
    ("/authority", Host),
    ("/:authority", Host),
    ("/user_agent", UserAgent),
    ("/user-agent", UserAgent),
    ("/referer", Referer),
    ("/x_forwarded_for", Forwarded),
    ("/x-forwarded-for", Forwarded),
    ("/response_code", Status),
    ("/bytes_sent", Sent),
    ("/duration", Duration(DurationUnit::Millis)),
];

/// The JSON that the console of Amazon's API Gateway suggests, for REST
/// (<https://docs.aws.amazon.com/apigateway/latest/developerguide/set-up-access-logging.html>) and for HTTP
/// (<https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-logging.html>).
pub(crate) const API_GATEWAY: FieldNames = &[
    ("/requestTimeEpoch", Time(Unix, Begin)),
    ("/requestTime", Time(Clf, Begin)),
    ("/ip", Address),
    ("/sourceIp", Address),
    ("/user", User),
    ("/httpMethod", Method),
    ("/path", Target),
    ("/resourcePath", Path),
    ("/routeKey", Route),
    ("/domainName", Host),
    ("/userAgent", UserAgent),
    ("/status", Status),
    ("/responseLength", Sent),
];

/// Cloudflare's Logpush of HTTP requests.
pub(crate) const CLOUDFLARE: FieldNames = &[
    ("/EdgeStartTimestamp", Time(Any, Begin)),
    ("/ClientIP", Address),
    ("/ClientRequestMethod", Method),
    ("/ClientRequestURI", Target),
    ("/ClientRequestPath", Path),
    ("/ClientRequestHost", Host),
    ("/ClientRequestUserAgent", UserAgent),
    ("/ClientRequestReferer", Referer),
    ("/EdgeResponseStatus", Status),
    ("/EdgeResponseBytes", Sent),
];

/// The log of load balancers of Google Cloud.
pub(crate) const GOOGLE: FieldNames = &[
    ("/timestamp", Time(Iso, Begin)),
    ("/httpRequest/remoteIp", Address),
    ("/httpRequest/requestMethod", Method),
    ("/httpRequest/requestUrl", Target),
    ("/httpRequest/userAgent", UserAgent),
    ("/httpRequest/referer", Referer),
    ("/httpRequest/status", Status),
    ("/httpRequest/responseSize", Sent),
];
