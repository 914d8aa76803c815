//! Every known format, with the lines of its documentation.

use tollgate_logs::{Error, Field, Format, Instant, Options, Precision};

use crate::{log, read_all, requests};

pub(crate) struct Case {
    pub(crate) format: &'static str,
    instant: Instant,
    precision: Precision,
    pub(crate) text: &'static str,
    requests: &'static [&'static str],
}

pub(crate) const CASES: &[Case] = &[
    Case {
        format: "common",
        instant: Instant::Unknown,
        precision: Precision::Seconds,
        text: r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326
"#,
        requests: &["2000-10-10T20:55:36.5Z 127.0.0.1 GET /apache_pb.gif 200 2326 user=frank"],
    },
    Case {
        format: "combined",
        instant: Instant::Unknown,
        precision: Precision::Seconds,
        text: r#"127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] "GET /a?b=c?d HTTP/1.0" 304 0 "-" "-"
2001:db8::1 - a b [c [10/Oct/2000:13:55:37 -0700] "GET /\x22q\x22 HTTP/2.0" 200 1 "https://a.example/" "Mozilla \"5\" \\"
::1 - - [10/Oct/2000:13:55:38 -0700] "\x16\x03\x01" 400 157 "-" "-"
h.example - - [10/Oct/2000:13:55:39 -0700] "-" 408 - "-" "-"
"#,
        requests: &[
            "2000-10-10T20:55:36.5Z 127.0.0.1 GET /a?b=c?d 304 0",
            r#"2000-10-10T20:55:37.5Z 2001:db8::1 GET /\"q\" 200 1 user=a b [c agent=Mozilla \"5\" \\ referer=https://a.example/"#,
            "2000-10-10T20:55:38.5Z ::1 - - 400 157",
            "2000-10-10T20:55:39.5Z h.example - - 408 -",
        ],
    },
    Case {
        format: "nginx-main",
        instant: Instant::End,
        precision: Precision::Seconds,
        text: r#"10.0.0.1 - - [23/Nov/2026:16:00:00 +0100] "POST /x HTTP/1.1" 200 5 "-" "curl/7.88.1" "192.0.2.1, 10.0.0.2"
"#,
        requests: &["2026-11-23T15:00:00.5Z 10.0.0.1 POST /x 200 5 agent=curl/7.88.1"],
    },
    Case {
        format: "ingress-nginx",
        instant: Instant::EndWithDuration,
        precision: Precision::Seconds,
        text: r#"192.0.2.7 - - [23/Nov/2026:16:00:10 +0000] "GET / HTTP/2.0" 200 615 "-" "curl/8" 33 2.250 [default-web-80] [] 10.42.0.7:80 615 2.249 200 0123abcd
"#,
        requests: &["2026-11-23T16:00:08.5Z 192.0.2.7 GET / 200 615 agent=curl/8"],
    },
    Case {
        format: "apache-vhost",
        instant: Instant::Begin,
        precision: Precision::Seconds,
        text: r#"a.example:443 192.0.2.7 - - [23/Nov/2026:16:00:10 +0000] "GET / HTTP/1.1" 200 615 "-" "curl/8"
"#,
        requests: &["2026-11-23T16:00:10.5Z 192.0.2.7 GET / 200 615 host=a.example agent=curl/8"],
    },
    Case {
        format: "traefik",
        instant: Instant::Begin,
        precision: Precision::Seconds,
        text: r#"192.0.2.7 - - [23/Nov/2026:16:00:10 +0000] "GET /a?b HTTP/1.1" 200 615 "-" "curl/8" 17 "web@docker" "http://10.0.0.5:80" 12ms
"#,
        requests: &["2026-11-23T16:00:10.5Z 192.0.2.7 GET /a?b 200 615 agent=curl/8"],
    },
    Case {
        format: "envoy",
        instant: Instant::Begin,
        precision: Precision::Millis,
        text: r#"[2016-04-15T20:17:00.310Z] "POST /api/v1/locations HTTP/2" 204 - 154 0 226 100 "192.0.2.9" "nsq2http" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "locations" "tcp://10.0.2.1:80"
"#,
        requests: &[
            "2016-04-15T20:17:00.31Z 192.0.2.9 POST /api/v1/locations 204 0 host=locations agent=nsq2http",
        ],
    },
    Case {
        format: "istio",
        instant: Instant::Begin,
        precision: Precision::Millis,
        text: r#"[2020-11-25T21:26:18.409Z] "GET /status/418 HTTP/1.1" 418 - via_upstream - "-" 0 135 3 1 "-" "curl/7.73.0-DEV" "84961386-6d84-929d-98bd-c5aee93b5c88" "httpbin:8000" "127.0.0.1:80" inbound|8000|| 127.0.0.1:41854 10.44.1.27:80 10.44.1.23:37652 outbound default
"#,
        requests: &[
            "2020-11-25T21:26:18.409Z 10.44.1.23 GET /status/418 418 135 host=httpbin:8000 agent=curl/7.73.0-DEV",
        ],
    },
    Case {
        format: "alb",
        instant: Instant::Begin,
        precision: Precision::Micros,
        text: r#"http 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 10.0.0.1:80 0.000 0.001 0.000 200 200 34 366 "GET http://www.example.com:80/ HTTP/1.1" "curl/7.46.0" - - arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067 "Root=1-58337262-36d228ad5d99923122bbe354" "-" "-" 0 2018-07-02T22:22:48.364000Z "forward" "-" "-" "10.0.0.1:80" "200" "-" "-"
h2 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 [2001:db8::1]:48160 - -1 -1 -1 502 - 5 257 "GET https://10.0.2.105:773?a=b HTTP/2.0" "-" ECDHE TLSv1.2 - "Root=1" "api.example.com" "session-reused" 1 2018-07-02T22:22:49.364000Z "forward" "-" "-" "-" "-" "-" "-" TID_new
grpcs 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.0.2.7:48160 10.0.0.1:80 0.001 0.002 0.000 200 200 5 257 "POST https://api.example.com:443/a HTTP/2.0" "-" ECDHE TLSv1.2 - "Root=1" "api.example.com" "-" 1 2018-07-02T22:22:50.364000Z "waf,forward" "-" "-" "10.0.0.1:80" "200" "-" "-" TID_1234abcd "other.example" "/b?c" "TransformSuccess"
"#,
        requests: &[
            "2018-07-02T22:22:48.364Z 192.168.131.39 GET / 200 366 host=www.example.com:80 agent=curl/7.46.0",
            "2018-07-02T22:22:49.364Z 2001:db8::1 GET /?a=b 502 257 host=10.0.2.105:773",
            "2018-07-02T22:22:50.364Z 192.0.2.7 POST /a 200 257 host=api.example.com:443",
        ],
    },
    Case {
        format: "elb",
        instant: Instant::Begin,
        precision: Precision::Micros,
        text: r#"2015-05-13T23:39:43.945958Z my-loadbalancer 192.168.131.39:2817 10.0.0.1:80 0.000073 0.001048 0.000057 200 200 0 29 "GET http://www.example.com:80/x HTTP/1.1" "curl/7.38.0" - -
"#,
        requests: &[
            "2015-05-13T23:39:43.945958Z 192.168.131.39 GET /x 200 29 host=www.example.com:80 agent=curl/7.38.0",
        ],
    },
    Case {
        format: "caddy",
        instant: Instant::EndWithDuration,
        precision: Precision::Micros,
        text: r#"{"level":"info","ts":1646861400.1,"msg":"server running","name":"srv0"}
{"level":"info","ts":1646861401.5241024,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"127.0.0.1","remote_port":"41342","client_ip":"192.0.2.1","proto":"HTTP/2.0","method":"GET","host":"localhost","uri":"/a\"?b=\u003c","headers":{"User-Agent":["curl/7.82.0"],"Accept":["*/*"],"X-Api-Key":["k"]},"tls":{"resumed":false}},"bytes_read":0,"user_id":"","duration":0.000929675,"size":10900,"status":200,"resp_headers":{"Server":["Caddy"]}}
{"level":"error","ts":1646861401.6,"logger":"http.log.error","msg":"no upstream","request":{"remote_ip":"127.0.0.1","method":"GET","host":"localhost","uri":"/"},"duration":0.1,"status":502}
"#,
        requests: &[
            "2022-03-09T21:30:01.523172Z 192.0.2.1 GET /a\\\"?b=< 200 10900 host=localhost agent=curl/7.82.0",
        ],
    },
    Case {
        format: "traefik-json",
        instant: Instant::Begin,
        precision: Precision::Micros,
        text: r#"{"ClientAddr":"192.0.2.7:50000","ClientHost":"192.0.2.7","ClientUsername":"-","DownstreamContentSize":615,"DownstreamStatus":200,"Duration":1234567,"RequestHost":"a.example","RequestMethod":"GET","RequestPath":"/a?b=c","StartLocal":"2026-11-23T17:00:00.123456789+01:00","StartUTC":"2026-11-23T16:00:00.123456789Z","request_User-Agent":"curl/8","time":"2026-11-23T16:00:00Z"}
"#,
        requests: &["2026-11-23T16:00:00.123456Z 192.0.2.7 GET /a?b=c 200 615 host=a.example agent=curl/8"],
    },
    Case {
        format: "envoy-json",
        instant: Instant::Begin,
        precision: Precision::Millis,
        text: r#"{"start_time":"2026-11-23T16:00:00.250Z","method":"GET","path":"/a","response_code":200,"bytes_sent":5,"duration":3,"downstream_remote_address":"192.0.2.7:4711","x_forwarded_for":null,"authority":"a.example","user_agent":"curl/8"}
"#,
        requests: &["2026-11-23T16:00:00.25Z 192.0.2.7 GET /a 200 5 host=a.example agent=curl/8"],
    },
    // Istio's JSON inside of a mesh, by its documentation.
    Case {
        format: "envoy-json",
        instant: Instant::Begin,
        precision: Precision::Millis,
        text: r#"{"authority":"httpbin:8000","bytes_received":0,"bytes_sent":135,"connection_termination_details":null,"downstream_local_address":"10.44.1.27:80","downstream_remote_address":"10.44.1.23:37652","duration":3,"method":"GET","path":"/status/418","protocol":"HTTP/1.1","request_id":"84961386-6d84-929d-98bd-c5aee93b5c88","requested_server_name":"outbound_.8000_._.httpbin.foo.svc.cluster.local","response_code":418,"response_code_details":"via_upstream","response_flags":"-","route_name":"default","start_time":"2020-11-25T21:26:18.409Z","upstream_cluster":"inbound|8000||","upstream_host":"127.0.0.1:80","upstream_local_address":"127.0.0.1:41854","upstream_service_time":"1","upstream_transport_failure_reason":null,"user_agent":"curl/7.73.0-DEV","x_forwarded_for":null}
"#,
        requests: &[
            "2020-11-25T21:26:18.409Z 10.44.1.23 GET /status/418 418 135 host=httpbin:8000 agent=curl/7.73.0-DEV",
        ],
    },
    // Envoy Gateway's default, by its documentation.
    Case {
        format: "envoy-json",
        instant: Instant::Begin,
        precision: Precision::Millis,
        text: r#"{"start_time":"2026-11-23T16:00:00.250Z","method":"GET","x-envoy-origin-path":"/a?b=c","protocol":"HTTP/1.1","response_code":200,"response_flags":"-","response_code_details":"via_upstream","connection_termination_details":null,"upstream_transport_failure_reason":null,"bytes_received":0,"bytes_sent":446,"duration":3,"x-envoy-upstream-service-time":null,"x-forwarded-for":"192.0.2.7","user-agent":"curl/8","x-request-id":"b4","":"-",":authority":"www.example.com","upstream_host":"10.244.0.7:3000","upstream_cluster":"httproute/default/backend/rule/0","upstream_local_address":"10.244.0.8:50000","downstream_local_address":"10.244.0.8:10080","downstream_remote_address":"192.0.2.7:4711","requested_server_name":null,"route_name":"httproute/default/backend/rule/0/match/0/www_example_com"}
"#,
        requests: &["2026-11-23T16:00:00.25Z 192.0.2.7 GET /a?b=c 200 446 host=www.example.com agent=curl/8"],
    },
    // Amazon's API Gateway: what the console suggests for REST and for HTTP.
    Case {
        format: "api-gateway",
        instant: Instant::Begin,
        precision: Precision::Seconds,
        text: r#"{ "requestId":"a1", "extendedRequestId":"b2=", "ip": "192.0.2.7", "caller":"-", "user":"-", "requestTime":"23/Nov/2026:16:00:00 +0000", "httpMethod":"GET","resourcePath":"/pets/{id}", "status":"200","protocol":"HTTP/1.1", "responseLength":"615" }
{ "requestId":"a2", "ip": "2001:db8::1", "requestTime":"23/Nov/2026:16:00:01 +0000", "httpMethod":"GET","routeKey":"GET /pets", "status":"404","protocol":"HTTP/1.1", "responseLength":"23" }
{ "requestId":"a3", "ip": "192.0.2.8", "requestTime":"23/Nov/2026:16:00:02 +0000", "httpMethod":"POST","routeKey":"$default", "status":"200","protocol":"HTTP/1.1", "responseLength":"-" }
"#,
        requests: &[
            "2026-11-23T16:00:00.5Z 192.0.2.7 GET /pets/{id} 200 615",
            "2026-11-23T16:00:01.5Z 2001:db8::1 GET /pets 404 23",
            "2026-11-23T16:00:02.5Z 192.0.2.8 POST - 200 -",
        ],
    },
    Case {
        format: "common",
        instant: Instant::Unknown,
        precision: Precision::Seconds,
        text: r#"192.0.2.7 AIDAEXAMPLE me [23/Nov/2026:16:00:00 +0000] "GET /pets/{id} HTTP/1.1" 200 615 a1 b2=
192.0.2.7 - - [23/Nov/2026:16:00:01 +0000] "GET GET /pets HTTP/1.1" 404 23 a2
192.0.2.8 - - [23/Nov/2026:16:00:02 +0000] "POST $default HTTP/1.1" 200 - a3
"#,
        requests: &[
            "2026-11-23T16:00:00.5Z 192.0.2.7 GET /pets/{id} 200 615 user=me",
            "2026-11-23T16:00:01.5Z 192.0.2.7 GET /pets 404 23",
            "2026-11-23T16:00:02.5Z 192.0.2.8 POST - 200 -",
        ],
    },
    Case {
        format: "api-gateway-csv",
        instant: Instant::Begin,
        precision: Precision::Seconds,
        text: "192.0.2.7,-,me,23/Nov/2026:16:00:00 +0000,GET,/pets/{id},HTTP/1.1,200,615,a1,b2=\n\
            2001:db8::1,-,-,23/Nov/2026:16:00:01 +0000,POST,/pets,HTTP/2.0,201,-,a2,b3=\n",
        requests: &[
            "2026-11-23T16:00:00.5Z 192.0.2.7 GET /pets/{id} 200 615 user=me",
            "2026-11-23T16:00:01.5Z 2001:db8::1 POST /pets 201 -",
        ],
    },
    Case {
        format: "api-gateway-http-csv",
        instant: Instant::Begin,
        precision: Precision::Seconds,
        text: "192.0.2.7,23/Nov/2026:16:00:00 +0000,GET,GET /pets,HTTP/1.1,200,615,a1\n\
            192.0.2.8,23/Nov/2026:16:00:01 +0000,POST,$default,HTTP/2.0,201,-,a2\n",
        requests: &[
            "2026-11-23T16:00:00.5Z 192.0.2.7 GET /pets 200 615",
            "2026-11-23T16:00:01.5Z 192.0.2.8 POST - 201 -",
        ],
    },
    Case {
        format: "cloudflare",
        instant: Instant::Begin,
        precision: Precision::Micros,
        text: r#"{"ClientIP":"89.163.242.206","ClientRequestHost":"www.example.com","ClientRequestMethod":"GET","ClientRequestURI":"/static/img/testimonial-hipster.png","EdgeEndTimestamp":1506702504461999900,"EdgeResponseBytes":69045,"EdgeResponseStatus":200,"EdgeStartTimestamp":1506702504433000200,"RayID":"3a6050bcbe121a87"}
"#,
        requests: &[
            "2017-09-29T16:28:24.433Z 89.163.242.206 GET /static/img/testimonial-hipster.png 200 69045 host=www.example.com",
        ],
    },
    Case {
        format: "google",
        instant: Instant::Begin,
        precision: Precision::Micros,
        text: r#"{"httpRequest":{"latency":"0.12s","remoteIp":"192.0.2.7","requestMethod":"GET","requestSize":"100","requestUrl":"https://a.example/x?y","responseSize":"500","status":200,"userAgent":"curl/8"},"timestamp":"2026-11-23T16:00:00.123456Z"}
"#,
        requests: &["2026-11-23T16:00:00.123456Z 192.0.2.7 GET /x?y 200 500 host=a.example agent=curl/8"],
    },
    Case {
        format: "json",
        instant: Instant::EndWithDuration,
        precision: Precision::Millis,
        text: r#"{"msec":"1795449600.250","remote_addr":"192.0.2.7","request":"GET /a HTTP/1.1","status":"200","body_bytes_sent":"5","request_time":"0.050","http_user_agent":"","remote_user":""}
"#,
        requests: &["2026-11-23T16:00:00.2Z 192.0.2.7 GET /a 200 5"],
    },
    Case {
        format: "haproxy in syslog",
        instant: Instant::Begin,
        precision: Precision::Millis,
        text: r#"Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html?a HTTP/1.1"
Feb  6 12:14:15 haproxy[14389]: 2001:db8::1:33318 [06/Feb/2009:12:14:14.657] fe~ be/<NOSRV> -1/-1/-1/-1/0 400 +187 - - PR-- 1/1/0/0/0 0/0 "<BADREQ>"
<134>Feb  6 12:14:16 haproxy[14389]: 10.0.1.2:33319 [06/Feb/2009:12:14:15.000] fe be/s 0/0/0/-1/9 -1 0 - - CD-- 1/1/0/0/0 0/0 "GET /#22 HTTP/1.1"
"#,
        requests: &[
            "2009-02-06T11:14:14.655Z 10.0.1.2 GET /index.html?a 200 2750",
            "2009-02-06T11:14:14.657Z 2001:db8::1 - - 400 187",
            r#"2009-02-06T11:14:15Z 10.0.1.2 GET /\" - 0"#,
        ],
    },
    Case {
        format: "w3c",
        instant: Instant::EndWithDuration,
        precision: Precision::Seconds,
        text: "#Version: 1.0\n\
            #Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) \
            cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol \
            cs-bytes time-taken\n\
            2019-12-04\t21:02:31\tLAX1\t392\t192.0.2.100\tGET\td111.cloudfront.net\t/index.html\t200\t-\t\
            Mozilla/5.0%20(Windows)\ta=%20\t-\tHit\tSOX4==\twww.example.com\thttps\t23\t0.001\n",
        requests: &[
            "2019-12-04T21:02:31.5Z 192.0.2.100 GET /index.html?a=%20 200 392 host=www.example.com agent=Mozilla/5.0 (Windows)",
        ],
    },
    Case {
        format: "w3c",
        instant: Instant::EndWithDuration,
        precision: Precision::Seconds,
        text: "#Software: Microsoft Internet Information Services 10.0\r\n\
            #Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) sc-status time-taken\r\n\
            2026-11-23 16:00:10 10.0.0.1 GET /a - 80 DOMAIN\\me 192.0.2.7 Mozilla/5.0+(X) 200 2500\r\n\
            #Fields: date time c-ip cs-method cs-uri-stem sc-status time-taken\r\n\
            2026-11-23 16:00:20 192.0.2.8 GET /b+c 404 0\r\n",
        requests: &[
            r"2026-11-23T16:00:08.5Z 192.0.2.7 GET /a 200 - user=DOMAIN\\me agent=Mozilla/5.0 (X)",
            "2026-11-23T16:00:20.5Z 192.0.2.8 GET /b+c 404 -",
        ],
    },
    Case {
        format: "csv",
        instant: Instant::Unknown,
        precision: Precision::Millis,
        text: "Timestamp,Client_IP,Method,Path,Status,User_Agent\n\
            2026-11-23T16:00:00.250Z,192.0.2.7,GET,/a?b=1,200,\"a \"\"quoted\"\", agent\"\n\
            Timestamp,Client_IP,Method,Path,Status,User_Agent\n\
            1795449601.5,192.0.2.8,GET,/,,-\n",
        requests: &[
            r#"2026-11-23T16:00:00.25Z 192.0.2.7 GET /a?b=1 200 - agent=a \"quoted\", agent"#,
            "2026-11-23T16:00:01.5Z 192.0.2.8 GET / - -",
        ],
    },
    Case {
        format: "tsv",
        instant: Instant::Unknown,
        precision: Precision::Seconds,
        text: "time\tip\tmethod\turl\n2026-11-23 16:00:00+01:00\t192.0.2.7\tGET\thttps://a.example/x\n",
        requests: &["2026-11-23T15:00:00.5Z 192.0.2.7 GET /x - - host=a.example"],
    },
];

fn berlin() -> Options {
    Options { zone: Some(jiff::tz::TimeZone::get("Europe/Berlin").unwrap()), ..Options::default() }
}

#[test]
fn known_formats_are_detected_and_read() {
    for case in CASES {
        let (requests, summary, result) = read_all(vec![log(case.text)], berlin());
        result.unwrap_or_else(|error| panic!("{}: {error}", case.format));
        assert_eq!(requests, case.requests, "{}", case.format);
        let [file] = &summary.files[..] else { panic!("one file") };
        assert_eq!(file.format.as_deref(), Some(case.format));
        assert_eq!(
            (file.instant, file.precision),
            (Some(case.instant), Some(case.precision)),
            "{}",
            case.format
        );
        assert_eq!(file.may_be_sampled, ["cloudflare", "google"].contains(&case.format));
    }
}

/// A sample was replayed as if it were whole where another format read it: with fields that somebody added, under a
/// name in front, in a table, or as a named format.
#[test]
fn samples_are_told_by_their_fields_whatever_reads_them() {
    const OWN: &str = r#""time":"2026-11-23T16:00:00Z","ip":"192.0.2.7","method":"GET","path":"/a","status":200,"bytes":1,"host":"a","user":"b","user_agent":"c","referer":"d","#;
    const GOOGLE: &str = r#""timestamp":"2026-11-23T16:00:00Z","httpRequest":{"requestMethod":"GET","requestUrl":"/a","remoteIp":"192.0.2.7","status":200}"#;
    const CLOUDFLARE: &str = r#""EdgeStartTimestamp":"2026-11-23T16:00:00Z","ClientIP":"192.0.2.7","ClientRequestMethod":"GET","ClientRequestURI":"/a""#;
    const ENVOY: &str = r#""start_time":"2026-11-23T16:00:00Z","downstream_remote_address":"192.0.2.7","x_forwarded_for":"192.0.2.7","method":"GET","path":"/a","authority":"a","user_agent":"b","referer":"c","response_code":200,"bytes_sent":1,"#;
    let named = |format: &str| Options { format: Some(format.parse().unwrap()), ..Options::default() };
    let timed = |time: &str| Options { time: Some(time.parse().unwrap()), ..Options::default() };
    let usual = Options::default;
    let cases = [
        (format!("{{{OWN}{GOOGLE}}}"), usual(), "json"),
        (format!("{{{OWN}{CLOUDFLARE}}}"), usual(), "json"),
        (format!("{{{ENVOY}{GOOGLE}}}"), usual(), "envoy-json"),
        (format!("app-1  | {{{OWN}{GOOGLE}}}"), usual(), "json in compose"),
        (format!("{{{OWN}\"data\" : {{{GOOGLE}}}}}"), usual(), "json"),
        (format!("{{{OWN}{}}}", CLOUDFLARE.to_ascii_lowercase()), usual(), "json"),
        (r#"{"EdgeEndTimestamp":"2026-11-23T16:00:00Z"}"#.into(), timed("/EdgeEndTimestamp:iso"), "json"),
        (format!("{{{OWN}{GOOGLE}}}"), named("json"), "json"),
        (format!("{{{ENVOY}{GOOGLE}}}"), named("envoy-json"), "envoy-json"),
        ("time,ip,httpRequest.requestUrl\n2026-11-23T16:00:00Z,192.0.2.7,/a".into(), usual(), "csv"),
        (
            "\"EdgeStartTimestamp\"\tClientIP\tRayID\r\n2026-11-23T16:00:00Z\t192.0.2.7\tr\r\n".into(),
            timed("EdgeStartTimestamp:iso"),
            "tsv",
        ),
    ];
    let read = |text: &str, options| {
        let (_, summary, _) = read_all(vec![log(text)], options);
        let [file] = &summary.files[..] else { panic!("one file: {text}") };
        (file.format.clone().unwrap_or_default(), file.may_be_sampled)
    };
    for (text, options, format) in cases {
        assert_eq!(read(&text, options), (format.to_owned(), true), "{text}");
    }
    let names =
        r#""note":"\"httpRequest\": \"requestUrl\":","requestUrl":"httpRequest","ClientIP":"192.0.2.7""#;
    let firewall =
        r#""timestamp":1795449600000,"httpRequest":{"clientIp":"192.0.2.7","uri":"/a","httpMethod":"GET"}"#;
    let pasted = r#"log_format a escape=json '{"httpRequest":{"requestMethod":"$request_method","remoteIp":"$remote_addr","time":"$time_iso8601"}}';"#;
    let line =
        r#"{"httpRequest":{"requestMethod":"GET","remoteIp":"192.0.2.7","time":"2026-11-23T16:00:00Z"}}"#;
    for (text, options, format) in [
        (format!("{{{OWN}{names}}}"), usual(), "json"),
        (format!("{{{OWN}{firewall}}}"), usual(), "json"),
        (line.into(), named(pasted), "log_format a"),
        ("time,ip,requestUrl\n2026-11-23T16:00:00Z,192.0.2.7,httpRequest".into(), usual(), "csv"),
    ] {
        assert_eq!(read(&text, options), (format.to_owned(), false), "{text}");
    }
}

#[test]
fn a_format_that_is_named_reads_what_it_detects() {
    for case in CASES {
        let name = case.format.trim_end_matches(" in syslog");
        let options = Options { format: Some(name.parse().unwrap()), ..berlin() };
        assert_eq!(requests(case.text, options), case.requests, "{}", case.format);
    }
    for name in Format::names() {
        assert_eq!(name.parse::<Format>().unwrap().name(), name);
    }
}

/// They were read as requests of clients without an address: those to `/forward-auth`, as many as all others.
#[test]
fn requests_of_haproxys_own_scripts_are_none_of_clients() {
    let text = "-:- [06/Feb/2009:12:14:14.655] <HTTPCLIENT> <HTTPCLIENT>/<HTTPCLIENT> 2/0/0/2/2 200 383 - - ---- 1/0/0/0/0 \
                0/0 {} \"GET http://127.0.0.1:8080/forward-auth HTTP/1.1\"\n\
                10.0.1.2:33317 [06/Feb/2009:12:14:14.655] web app/app 2/0/0/4/6 200 500 - - ---- 1/1/0/0/0 0/0 \"GET /x \
                HTTP/1.1\"\n";
    let (requests, summary, result) = read_all(vec![log(text)], berlin());
    result.unwrap();
    assert_eq!(requests, ["2009-02-06T11:14:14.655Z 10.0.1.2 GET /x 200 500"]);
    assert_eq!((summary.others, summary.unparsed_lines()), (1, 0));
}

#[test]
fn the_server_is_told_by_name_where_lines_are_the_same() {
    let line = r#"192.0.2.7 - - [23/Nov/2026:16:00:10 +0000] "GET / HTTP/1.1" 200 615 "-" "curl/8""#;
    let cases = [
        ("nginx-combined", Instant::End),
        ("apache-combined", Instant::Begin),
        ("combined", Instant::Unknown),
    ];
    for (name, instant) in cases {
        let options = Options { format: Some(name.parse().unwrap()), ..Options::default() };
        let (requests, summary, _) = read_all(vec![log(line)], options);
        assert_eq!(requests, ["2026-11-23T16:00:10.5Z 192.0.2.7 GET / 200 615 agent=curl/8"]);
        assert_eq!(summary.files[0].instant, Some(instant));
    }
}

#[test]
fn formats_of_nginx_are_pasted() {
    let cases = [
        (
            r#"log_format  timed  '$remote_addr - $remote_user [$time_local] "$request" '
                              '$status ${body_bytes_sent}b "$http_x_api_key" $msec $request_time';"#,
            r#"192.0.2.7 - - [23/Nov/2026:16:00:10 +0000] "GET /\x5C HTTP/1.1" 200 615b "k\x22" 1795449600.250 0.050"#,
            r#"2026-11-23T16:00:00.2Z 192.0.2.7 GET /\\ 200 615 0=k\""#,
        ),
        (
            r#"log_format json escape=json '{"time":"$time_iso8601","key":"$http_x_api_key","ip":"$remote_addr","uri":"$request_uri",'
                '"status":$status,"took":$request_time,"m":"$request_method"}';"#,
            r#"{"time":"2026-11-23T17:00:10+01:00","key":"a\"\u0007\\","ip":"::1","uri":"/a?b","status":200,"took":0.000,"m":"GET"}"#,
            r#"2026-11-23T16:00:10.5Z ::1 GET /a?b 200 - 0=a\"\x07\\"#,
        ),
        (
            "log_format bare escape=none \"$time_iso8601|$remote_addr|$http_x_api_key|$status\"",
            r#"2026-11-23T17:00:10+01:00|192.0.2.7|a"\x22|200"#,
            r#"2026-11-23T16:00:10.5Z 192.0.2.7 - - 200 - 0=a\"\\x22"#,
        ),
    ];
    for (format, line, expected) in cases {
        let options = Options {
            format: Some(format.parse().unwrap()),
            attributes: vec!["key=header:X-Api-Key".parse().unwrap()],
            ..Options::default()
        };
        assert_eq!(requests(line, options), [expected], "{format}");
    }
}

#[test]
fn formats_of_apache_are_pasted() {
    let cases = [
        (
            r#"LogFormat "%v:%p %a %l %u %t \"%r\" %>s %O %D \"%{User-Agent}i\" \"%{X-Api-Key}i\"" ours"#,
            r#"a.example:80 192.0.2.7 - - [23/Nov/2026:16:00:10 +0000] "GET / HTTP/1.1" 200 615 99 "curl" "a\"\\\n\xe9""#,
            r#"2026-11-23T16:00:10.5Z 192.0.2.7 GET / 200 615 host=a.example agent=curl 0=a\"\\\n\xe9"#,
        ),
        (
            r#"LogFormat "%{end:usec}t\t%h\t%m\t%U%q\t%s\t%B\t%{us}T\t%{X-Api-Key}i" tabs"#,
            "1795449600250000\t192.0.2.7\tGET\t/a?b=c\t200\t5\t250000\t-",
            "2026-11-23T16:00:00Z 192.0.2.7 GET /a?b=c 200 5 0=-",
        ),
        (
            r#"LogFormat "%{end:usec}t\t%h\t%m\t%U\t%q\t%s\t%B\t%{us}T\t%{X-Api-Key}i" tabs"#,
            "1795449600250000\t192.0.2.7\tGET\t/a\t?b=c\t200\t5\t250000\t-",
            "2026-11-23T16:00:00Z 192.0.2.7 GET /a?b=c 200 5 0=-",
        ),
        (
            "%{%Y-%m-%d %H:%M:%S %z}t %h %>s %!200{X-Api-Key}i",
            "2026-11-23 16:00:10 +0000 192.0.2.7 200 k",
            "2026-11-23T16:00:10.5Z 192.0.2.7 - - 200 - 0=k",
        ),
        (
            r#"LogFormat "%h [%{%d/%b/%Y %T}t.%{msec_frac}t %{%z}t] \"%r\" %{X-Api-Key}i" exact"#,
            r#"192.0.2.7 [23/Nov/2026 17:00:10.250 +0100] "GET / HTTP/1.1" k"#,
            "2026-11-23T16:00:10.25Z 192.0.2.7 GET / - - 0=k",
        ),
    ];
    for (format, line, expected) in cases {
        let options = Options {
            format: Some(format.parse().unwrap()),
            attributes: vec!["key=header:X-Api-Key".parse().unwrap()],
            ..Options::default()
        };
        assert_eq!(requests(line, options), [expected], "{format}");
    }
}

/// Usual formats were refused, because there is nothing between these fields.
#[test]
fn a_path_after_a_host_and_a_query_after_a_path_are_told_by_their_first_byte() {
    let nginx = r#"$time_iso8601 "$request_method $scheme://$host$request_uri $server_protocol" $status"#;
    let parts = "$time_iso8601 $host:$server_port$uri$is_args$query_string|$status";
    let quoted = r#"$time_iso8601 "$http_host$uri$is_args$args" $status"#;
    let apache = r#"%{%Y-%m-%dT%H:%M:%SZ}t "%m %U%q %H" %>s"#;
    let whole = "%{%Y-%m-%dT%H:%M:%SZ}t %V%U%q %>s";
    let at = "2026-11-23T16:00:00Z";
    let cases = [
        (nginx, r#""GET https://a.example/x?y=/ HTTP/2.0" 200"#, "- GET /x?y=/ 200 - host=a.example"),
        (nginx, r#""GET https://a.example/ HTTP/1.1" 200"#, "- GET / 200 - host=a.example"),
        // A request without a target, and OPTIONS.
        (nginx, r#""GET http://a.example- HTTP/1.1" 400"#, "- GET - 400 - host=a.example"),
        (nginx, r#""OPTIONS http://a.example* HTTP/1.1" 200"#, "- OPTIONS * 200 - host=a.example"),
        (parts, "a.example:443/x?y=?|200", "- - /x?y=? 200 - host=a.example"),
        (parts, "a.example:443/x|200", "- - /x 200 - host=a.example"),
        (quoted, r#""a.example/x\x22 y?z" 200"#, r#"- - /x\" y?z 200 - host=a.example"#),
        (quoted, r#""/x" 200"#, "- - /x 200 -"),
        (apache, r#""GET /x?y=z HTTP/1.1" 200"#, "- GET /x?y=z 200 -"),
        (apache, r#""GET /x HTTP/1.1" 200"#, "- GET /x 200 -"),
        (whole, "a.example/x?y 200", "- - /x?y 200 - host=a.example"),
        (whole, "a.example/ 200", "- - / 200 - host=a.example"),
    ];
    for (format, line, expected) in cases {
        let format_of = Some(format.parse().unwrap());
        let options =
            Options { format: format_of, zone: Some(jiff::tz::TimeZone::UTC), ..Options::default() };
        let expected = format!("2026-11-23T16:00:00.5Z {expected}");
        assert_eq!(requests(format!("{at} {line}"), options), [expected], "{format}: {line}");
    }
    for format in ["log_format a '$uri$args'", "log_format a '$uri$request_uri'", "LogFormat \"%h%U\" a"] {
        let error = format.parse::<Format>().unwrap_err().to_string();
        assert!(error.starts_with("there is nothing between"), "{error}");
    }
}

/// Lines of requests for which nginx tried a second upstream could not be read, and 1 % of them refused the log.
#[test]
fn values_of_several_upstreams_are_one_field() {
    let format = r#"$remote_addr [$time_iso8601] $upstream_addr $upstream_status $upstream_response_time $request_time $status "$request""#;
    let cases = [
        "10.0.0.1:80 200 0.001",
        "10.0.0.1:80, 10.0.0.2:80 502, 200 0.001, 0.002",
        "10.0.0.1:80 : 10.0.0.2:80, 10.0.0.3:80 302 : 502, 200 0.001 : 0.000, 0.002",
        "- - -",
    ];
    for upstreams in cases {
        let options = Options { format: Some(format.parse().unwrap()), ..Options::default() };
        let line = format!(r#"192.0.2.7 [2026-11-23T16:00:00Z] {upstreams} 2.000 200 "GET /a HTTP/1.1""#);
        assert_eq!(requests(line, options), ["2026-11-23T15:59:58.5Z 192.0.2.7 GET /a 200 -"], "{upstreams}");
    }
}

#[test]
fn an_invalid_format_says_why() {
    let cases = [
        ("nginx", "unknown format \"nginx\"; expected caddy, "),
        ("log_format", "log_format has no name"),
        ("log_format a '$x", "a quote of the format is never closed"),
        ("log_format a escape=xml '$x'", "unknown escape \"xml\""),
        ("log_format a '$ x'", "expected the name of a variable after $, found \" x\""),
        ("log_format a '$a$b'", "there is nothing between $a and $b"),
        ("LogFormat %h", "a quote of the format is never closed, or the format is not quoted"),
        ("LogFormat \"%h %\" a", "invalid directive \"%\""),
        ("LogFormat \"%h %{a\" a", "invalid directive \"%{a\""),
    ];
    for (format, expected) in cases {
        let error = format.parse::<Format>().unwrap_err().to_string();
        assert!(error.starts_with(expected), "{format}: {error}");
    }
}

#[test]
fn prefixes_of_log_drivers_are_cut_off() {
    let line = r#"192.0.2.7 - - [23/Nov/2026:16:00:10 +0000] "GET / HTTP/1.1" 200 615 "-" "curl/8""#;
    let cases = [
        ("2026-11-23T16:00:11.123456789Z stdout F ", "combined in CRI"),
        ("2026-11-23T16:00:11.123456789+01:00 stderr F ", "combined in CRI"),
        ("web-1  | ", "combined in compose"),
        ("<190>Nov 23 16:00:11 web nginx: ", "combined in syslog"),
        ("Nov  3 16:00:11 web nginx[99]: ", "combined in syslog"),
        ("2026-11-23T16:00:11.123456+01:00 web nginx: ", "combined in syslog"),
        ("<190>1 2026-11-23T16:00:11.123Z web nginx 99 - - ", "combined in syslog"),
    ];
    for (prefix, format) in cases {
        let (requests, summary, _) = read_all(vec![log(format!("{prefix}{line}\n"))], Options::default());
        assert_eq!(requests, ["2026-11-23T16:00:10.5Z 192.0.2.7 GET / 200 615 agent=curl/8"], "{prefix}");
        assert_eq!(summary.files[0].format.as_deref(), Some(format));
    }
}

/// Kubernetes splits lines above 16 KiB. Their parts could not be read.
#[test]
fn parts_of_lines_are_joined() {
    let at = "2026-11-23T16:00:11.1Z";
    let line = |path: &str| {
        format!(r#"192.0.2.7 - - [23/Nov/2026:16:00:10 +0000] "GET /{path} HTTP/1.1" 200 615 "-" "-""#)
    };
    let long = line(&"x".repeat(40_000));
    let (first, rest) = long.split_at(16_384);
    let (second, third) = rest.split_at(16_384);
    let short = line("a");
    let text = [
        format!("{at} stdout F {short}"),
        format!("{at} stdout P {first}"),
        format!("{at} stderr F {short}"),
        format!("{at} stdout P {second}"),
        format!("{at} stdout F {third}"),
        format!("{at} stdout F {short}"),
        // Altogether, it is too long.
        format!("{at} stdout P {first}"),
        format!("{at} stdout P {}", "x".repeat(60_000)),
        format!("{at} stdout F {third}"),
    ];
    let text = text.join("\n") + &format!("\n{at} stdout F {short}").repeat(40);
    let options = Options { max_unparsed: 0.05, ..Options::default() };
    let (requests, summary, result) = read_all(vec![log(text)], options);
    result.unwrap();
    let paths: Vec<usize> = requests.iter().map(|request| request.split(' ').nth(3).unwrap().len()).collect();
    assert_eq!(paths[..4], [2, 2, 40_001, 2]);
    assert_eq!(paths.len(), 4 + 40);
    assert_eq!((summary.others, summary.unparsed_lines()), (4, 1));
    assert_eq!(summary.unparsed[0].reason, "the line is longer than 64 KiB");
}

#[test]
fn attributes_are_taken_from_fields_and_their_parts() {
    let line = r#"{"time":"2026-11-23T16:00:10Z","ip":"10.0.0.2","path":"/a?x=1&api%5Fkey=a%20b+c&api_key=d","status":200,"user":{"id":7,"~/":[null,"z"]},"ok":true,"x_forwarded_for":"203.0.113.9, 192.0.2.1:80, 10.0.0.3"}"#;
    let cases = [
        ("a=json:/user/id", "7"),
        ("a=json:/user/~0~1/1", "z"),
        ("a=json:/user/~0~1/0", "-"),
        ("a=json:/user", "-"),
        ("a=json:/ok", "true"),
        ("a=field:ok", "true"),
        ("a=query:api_key", "a b c"),
        ("a=query:x", "1"),
        ("a=query:y", "-"),
        ("a=xff:", "10.0.0.2"),
        ("a=xff:10.0.0.0/8", "192.0.2.1"),
        ("a=xff:10.0.0.0/8,192.0.2.0/24", "203.0.113.9"),
        ("a=xff:0.0.0.0/0", "203.0.113.9"),
    ];
    for (attribute, expected) in cases {
        let options = Options { attributes: vec![attribute.parse().unwrap()], ..Options::default() };
        let expected = format!(
            "2026-11-23T16:00:10.5Z 10.0.0.2 - /a?x=1&api%5Fkey=a%20b+c&api_key=d 200 - 0={expected}"
        );
        assert_eq!(requests(line, options), [expected], "{attribute}");
    }
}

/// The service refuses a request with an empty entry, and the replay counted it as the proxy.
#[test]
fn an_empty_entry_of_a_proxy_names_no_client() {
    for (forwarded, ip) in [
        ("9.9.9.9,,10.0.0.3", "-"),
        ("9.9.9.9, , 10.0.0.3", "-"),
        ("9.9.9.9,", "-"),
        (",10.0.0.3", "-"),
        (",,9.9.9.9, 10.0.0.3", "9.9.9.9"),
        ("9.9.9.9, unknown", "10.0.0.1"),
        ("-", "10.0.0.1"),
    ] {
        let line = format!(
            r#"10.0.0.1 - - [23/Nov/2026:16:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "-" "{forwarded}""#
        );
        let attributes = vec!["ip=xff:10.0.0.0/8".parse().unwrap()];
        let options = Options { attributes, ..Options::default() };
        let expected = format!("2026-11-23T16:00:00.5Z {ip} GET / 200 5 0={ip}");
        assert_eq!(requests(&line, options), [expected], "{forwarded}");
    }
}

#[test]
fn an_attribute_with_the_name_of_a_field_replaces_it() {
    let line = r#"10.0.0.1 - - [23/Nov/2026:16:00:00 +0000] "GET /?u=me HTTP/1.1" 200 5 "-" "-" "192.0.2.1""#;
    let attributes = ["ip=xff:10.0.0.0/8", "user=query:u"].map(|attribute| attribute.parse().unwrap());
    let options = Options { attributes: attributes.to_vec(), ..Options::default() };
    assert_eq!(
        requests(line, options),
        ["2026-11-23T16:00:00.5Z 192.0.2.1 GET /?u=me 200 5 user=me 0=192.0.2.1 1=me"]
    );
}

/// A path kept its query and an address its port, so no policy matched them.
#[test]
fn an_attribute_with_the_name_of_a_field_is_read_like_it() {
    let cases = [
        ("/a?b=c", "192.0.2.1:443", "/a", "", "192.0.2.1"),
        ("https://h?b=/c", "[2001:db8::1]:443", "/", " host=h", "2001:db8::1"),
        ("https://h/a/?b", "2001:db8::1", "/a/", " host=h", "2001:db8::1"),
        ("*", "client.example", "*", "", "client.example"),
        ("h:443", ":80", "-", " host=h:443", "-"),
        // A client can forge all but the last address.
        ("/", "192.0.2.1:80, 10.0.0.1", "/", "", "192.0.2.1:80, 10.0.0.1"),
    ];
    for (asked, peer, path, host, ip) in cases {
        let line = format!(
            r#"{{"time":"2026-11-23T16:00:00.1Z","method":"GET","uri":"/x?y=z","to":"{asked}","peer":"{peer}"}}"#
        );
        let attributes = ["path=json:/to", "ip=json:/peer"].map(|attribute| attribute.parse().unwrap());
        let options = Options { attributes: attributes.to_vec(), ..Options::default() };
        let expected = format!("2026-11-23T16:00:00.1Z {ip} GET {path}?y=z - -{host} 0={path} 1={ip}");
        assert_eq!(requests(&line, options), [expected], "{asked} {peer}");
    }
    // If the line has no other query, that of the path is used.
    let line = r#"{"time":"2026-11-23T16:00:00.1Z","method":"GET","to":"/a?key=k"}"#;
    let attributes = ["key=query:key", "path=json:/to"].map(|attribute| attribute.parse().unwrap());
    let options = Options { attributes: attributes.to_vec(), ..Options::default() };
    assert_eq!(requests(line, options), ["2026-11-23T16:00:00.1Z - GET /a?key=k - - 0=k 1=/a"]);
}

#[test]
fn an_attribute_that_a_format_cannot_have_is_an_error() {
    let line = r#"192.0.2.7 - - [23/Nov/2026:16:00:10 +0000] "GET / HTTP/1.1" 200 615 "-" "curl/8""#;
    for (attribute, field) in
        [("a=header:X-Api-Key", "http_x_api_key"), ("a=field:nope", "nope"), ("a=json:/a", "json:/a")]
    {
        let options = Options { attributes: vec![attribute.parse().unwrap()], ..Options::default() };
        let (_, _, result) = read_all(vec![log(line)], options);
        let expected = format!("test.log: lines of the format combined have no field {field}");
        assert_eq!(result.unwrap_err().to_string(), expected);
    }
}

#[test]
fn fields_that_are_not_wanted_are_left_out() {
    let options = Options { fields: vec![Field::Path], ..Options::default() };
    assert_eq!(requests(CASES[1].text, options)[1], r#"2000-10-10T20:55:37.5Z - - /\"q\" 200 1"#);
}

#[test]
fn the_time_is_where_the_user_says() {
    let cases = [
        (
            "{\"t\":{\"at\":\"23.11.2026 16:00\"},\"path\":\"/\"}\n",
            "/t/at:%d.%m.%Y %H:%M",
            "2026-11-23T15:00:00.5Z - - / - -",
        ),
        ("{\"epoch\":1795449600123,\"path\":\"/\"}\n", "epoch:unix", "2026-11-23T16:00:00.123Z - - / - -"),
        ("when,path,status\n2026-11-23 16:00:00,/,200\n", "when", "2026-11-23T15:00:00.5Z - - / 200 -"),
        ("When,path,status\n2026-11-23 16:00:00,/,200\n", "When", "2026-11-23T15:00:00.5Z - - / 200 -"),
        (
            "#Fields: Begin cs-uri-stem\n2026-11-23T16:00:00+01:00 /\n",
            "BEGIN",
            "2026-11-23T15:00:00.5Z - - / - -",
        ),
    ];
    for (text, time, expected) in cases {
        let options = Options { time: Some(time.parse().unwrap()), ..berlin() };
        assert_eq!(requests(text, options), [expected], "{time}");
    }
}

/// Such a log was one of Envoy, because method and path have the same names there: it had no address and no status.
#[test]
fn a_time_that_the_user_names_makes_no_other_servers_json() {
    let usual = r#"{"epoch":1795449600,"method":"GET","path":"/x","ip":"192.0.2.1","status":200}"#;
    let envoy = r#"{"epoch":1795449600,"method":"GET","path":"/x","downstream_remote_address":"192.0.2.1:80","response_code":200}"#;
    for (line, format) in [(usual, "json"), (envoy, "envoy-json")] {
        let options = Options { time: Some("epoch:unix".parse().unwrap()), ..Options::default() };
        let (requests, summary, result) = read_all(vec![log(line)], options);
        result.unwrap();
        assert_eq!(requests, ["2026-11-23T16:00:00.5Z 192.0.2.1 GET /x 200 -"]);
        assert_eq!(summary.files[0].format.as_deref(), Some(format));
    }
}

/// Such logs had no known format, whatever else was known of them.
#[test]
fn a_log_without_a_time_is_told_what_is_missing() {
    let csv = "when,path,status\n2026-11-23T16:00:00Z,/,200\n";
    let json = "{\"when\":1795449600,\"method\":\"GET\",\"path\":\"/\"}\n";
    let w3c = "#Fields: c-ip cs-method cs-uri-stem\n192.0.2.1 GET /\n";
    let error = |text: &str, format: Option<&str>, time: Option<&str>| {
        let options = Options {
            format: format.map(|name| name.parse().unwrap()),
            time: time.map(|time| time.parse().unwrap()),
            ..Options::default()
        };
        let (.., result) = read_all(vec![log(text)], options);
        result.unwrap_err().to_string()
    };
    for (text, format) in [(csv, "csv"), (&csv.replace(',', "\t"), "tsv"), (json, "json"), (w3c, "w3c")] {
        let expected = format!(
            "test.log: lines of the format {format} have no field time; in JSON lines and tables, name the field"
        );
        for given in [None, Some(format)] {
            let error = error(text, given, None);
            assert!(error.starts_with(&expected), "{error}");
        }
        let expected = format!("test.log: lines of the format {format} have no field at");
        assert_eq!(error(text, None, Some("at")), expected);
    }
    // No header: its values are nobody's columns.
    let error = error("192.0.2.1,/,200\n192.0.2.2,/,200\n", None, None);
    assert!(error.contains("no known format"), "{error}");
}

/// Lines of JSON whose names nobody knows were no requests, whatever the user said of them. With `--time`, all
/// messages of the program counted as requests, and gates as shares of them.
#[test]
fn attributes_and_a_time_make_unknown_json_a_request() {
    let text = r#"{"ts":1795449600,"src":"192.0.2.1","endpoint":"/x","status":200}
{"ts":1795449601,"message":"started","src":null}
"#;
    let of = |format: Option<&str>, time: Option<&str>, attributes: &[&str]| {
        let options = Options {
            format: format.map(|name| name.parse().unwrap()),
            time: time.map(|time| time.parse().unwrap()),
            attributes: attributes.iter().map(|attribute| attribute.parse().unwrap()).collect(),
            ..Options::default()
        };
        read_all(vec![log(text)], options)
    };
    let attributes = ["ip=json:/src", "path=json:/endpoint"];
    let request = "2026-11-23T16:00:00.5Z 192.0.2.1 - /x 200 - 0=192.0.2.1 1=/x";
    for format in [None, Some("json")] {
        for time in [None, Some("ts:unix")] {
            let (requests, summary, result) = of(format, time, &attributes);
            result.unwrap();
            assert_eq!(requests, [request], "{time:?}");
            assert_eq!((summary.others, summary.files[0].format.as_deref()), (1, Some("json")));
        }
        // `--time` alone, or with what is derived from other fields, makes every line a request.
        for (derived, shown) in [(&[][..], ""), (&["key=query:key"], " 0=-")] {
            let (requests, summary, result) = of(format, Some("ts:unix"), derived);
            result.unwrap();
            let expected = ["00.5Z - - - 200 -", "01.5Z - - - - -"];
            assert_eq!(requests, expected.map(|request| format!("2026-11-23T16:00:{request}{shown}")));
            assert_eq!(summary.others, 0);
        }
        let (.., result) = of(format, None, &["user=json:/nobody"]);
        assert!(matches!(result, Err(Error::UnknownFormat { .. })));
    }
}

#[test]
fn times_without_a_zone_are_an_error_until_one_is_named() {
    let text = CASES.iter().find(|case| case.format.starts_with("haproxy")).unwrap().text;
    let (_, _, result) = read_all(vec![log(text)], Options::default());
    let error = result.unwrap_err();
    assert!(matches!(error, Error::NoZone { .. }));
    assert!(error.to_string().contains("--tz Europe/Berlin"), "{error}");
}

/// The names of one line are expected in the next one too, at the same places.
#[test]
fn fields_of_json_may_come_in_any_order_in_each_line() {
    let extra: Vec<String> = (0..80).map(|number| format!("\"x{number}\":{number}")).collect();
    let mut random = 1_u64;
    let (mut text, mut expected) = (String::new(), Vec::new());
    for second in 0..200_u64 {
        let status = 200 + second % 7;
        let mut fields = vec![
            format!("\"time\":\"2026-11-23T16:{:02}:{:02}Z\"", second / 60, second % 60),
            "\"method\":\"GET\"".to_owned(),
            // Some are written with escapes, and some names begin like others.
            format!("\"{}\":\"/{second}\"", if second % 3 == 0 { "p\\u0061th" } else { "path" }),
            format!("\"status\":{status}"),
            "\"status_\":500".to_owned(),
            // A name at the top means nothing inside, and the object may come twice.
            format!("\"inner\":{{\"status\":1,\"a\":[{{\"ip\":2}},\"path\"],\"user\":\"u{second}\"}}"),
            "\"inner\":{\"x\":{\"user\":3}}".to_owned(),
            "\"ip\":\"192.0.2.1\"".to_owned(),
        ];
        fields.extend(extra.iter().take(if second % 5 == 0 { 80 } else { 2 }).cloned());
        for place in (1..fields.len()).rev() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Runs of lines in one order, as servers write them.
            if second % 10 > 3 {
                fields.swap(place, (random >> 33) as usize % (place + 1));
            }
        }
        text += &format!("{{{}}}\n", fields.join(","));
        let time = format!("2026-11-23T16:{:02}:{:02}.5Z", second / 60, second % 60);
        expected.push(format!("{time} 192.0.2.1 GET /{second} {status} -"));
    }
    assert_eq!(requests(text, Options::default()), expected);
}
