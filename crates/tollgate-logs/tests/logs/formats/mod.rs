//! Every known format, with the lines of its documentation.

mod attributes;
mod detection;
mod pasted;

use tollgate_logs::{Instant, Options, Precision};

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
