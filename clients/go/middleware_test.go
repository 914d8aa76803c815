package tollgate_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	tollgate "github.com/tollgate-rs/tollgate/clients/go"
)

var ok = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })

func ask(handler http.Handler, method, path string, edit ...func(*http.Request)) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, path, nil)
	for _, edit := range edit {
		edit(request)
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	return recorder
}

const quotaExceeded = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Quota exceeded"`

func TestAMiddlewareAnswersDenials(t *testing.T) {
	cases := []struct {
		name       string
		answer     string
		status     int
		retryAfter string
		body       string
	}{
		{"429", httpAnswer(429, `{"allowed":false,"policy":"p","retry_after_ms":1001}`), 429, "2",
			quotaExceeded + `,"status":429,"detail":"retry in 2 s","violated-policies":["p"]}`},
		{"a status of the policy", httpAnswer(403, `{"allowed":false}`), 403, "",
			quotaExceeded + `,"status":403,"detail":"waiting does not help"}`},
		{"a status that is no error", httpAnswer(200, `{"allowed":false,"retry_after_ms":1}`), 429, "1",
			quotaExceeded + `,"status":429,"detail":"retry in 1 s"}`},
		{"in flight", httpAnswer(429, `{"allowed":false,"reason":"in_flight_exceeded"}`), 429, "1",
			quotaExceeded + `,"status":429,"detail":"retry in 1 s"}`},
		{"no answer", "", 503, "", `{"title":"Rate limiter unavailable","status":503}`},
		{"a closed policy", httpAnswer(503, `{"detail":"x","reason":"store_unavailable"}`), 503, "", `{"title":"Rate limiter unavailable","status":503}`},
	}
	for _, example := range cases {
		t.Run(example.name, func(t *testing.T) {
			server := listen(t, func(int64) string { return example.answer })
			tg := client(t, tollgate.Options{URL: server.url, OnFailure: tollgate.Closed})
			answer := ask(tg.Middleware(tollgate.Named("search"))(ok), "GET", "/")
			header := answer.Header()
			if answer.Code != example.status || header.Get("Retry-After") != example.retryAfter {
				t.Fatalf("got %d %v", answer.Code, header)
			}
			if header.Get("Cache-Control") != "no-store" || header.Get("Content-Type") != "application/problem+json" {
				t.Fatalf("got %v", header)
			}
			if answer.Body.String() != example.body+"\n" {
				t.Fatalf("got %s", answer.Body)
			}
		})
	}
}

func TestAMiddlewareNamesChecksByRouteAndNeverByPath(t *testing.T) {
	server := listen(t, func(int64) string { return httpAnswer(200, admitted) })
	var log bytes.Buffer
	tg := client(t, tollgate.Options{URL: server.url, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	limit := tg.Middleware(tollgate.ByIP())
	mux := http.NewServeMux()
	mux.Handle("GET /items/{id}", limit(ok))
	if answer := ask(mux, "GET", "/items/7"); answer.Code != 200 {
		t.Fatalf("got %d", answer.Code)
	}
	want := `/v1/check {"attributes":{"action":"GET /items/{id}","ip":"192.0.2.1"}}`
	if sorted(server.bodies[0]) != want {
		t.Fatalf("sent %s", server.bodies[0])
	}
	// Around the mux, the route is not known yet.
	if answer := ask(limit(mux), "GET", "/items/7"); answer.Code != 500 || server.requests.Load() != 1 {
		t.Fatalf("got %d", answer.Code)
	}
	if !strings.Contains(log.String(), "tollgate.Named") {
		t.Fatalf("logged %s", log.String())
	}
	named := tg.Middleware(tollgate.NamedBy(func(*http.Request) string { return "all" }), tollgate.CostOf(func(*http.Request) int64 { return 3 }))
	_ = ask(named(mux), "GET", "/items/7", func(r *http.Request) { r.Header.Set("Traceparent", "00-1-2-01") })
	if sorted(server.bodies[1]) != `/v1/check {"attributes":{"action":"all","ip":"192.0.2.1"},"cost":3}` {
		t.Fatalf("sent %s", server.bodies[1])
	}
}

// The service refuses requests without a key and keys that are too long, and an open client admits what is refused. So
// a client could choose a key that is never counted.
func TestAKeyThatTheServiceWouldRefuseIsNotAdmitted(t *testing.T) {
	server := listen(t, func(int64) string { return httpAnswer(200, admitted) })
	var log bytes.Buffer
	tg := client(t, tollgate.Options{URL: server.url, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	limit := tg.Middleware(tollgate.Named("search"), tollgate.By("user", func(r *http.Request) (string, error) {
		if r.Header.Get("User") == "?" {
			return "", errors.New("unknown")
		}
		return r.Header.Get("User"), nil
	}))
	for _, user := range []string{"", "?"} {
		answer := ask(limit(ok), "GET", "/", func(r *http.Request) { r.Header.Set("User", user) })
		if answer.Code != 500 || !strings.Contains(log.String(), `no key for the attribute`) {
			t.Fatalf("got %d %s", answer.Code, answer.Body)
		}
	}
	for _, user := range []string{strings.Repeat("x", 2000), "\xff"} {
		_ = ask(limit(ok), "GET", "/", func(r *http.Request) { r.Header.Set("User", user) })
	}
	for _, body := range server.bodies {
		if !strings.Contains(body, `"user":"sha256:`) || len(body) > 200 {
			t.Errorf("sent %.300s", body)
		}
	}
	if len(server.bodies) != 2 || server.bodies[0] == server.bodies[1] {
		t.Errorf("sent %d requests", len(server.bodies))
	}
}

// The service refuses an "ip" that is no address, and clients behind some proxies choose what it is.
func TestAnIPIsAnAddress(t *testing.T) {
	server := listen(t, func(int64) string { return httpAnswer(200, admitted) })
	tg := client(t, tollgate.Options{URL: server.url})
	limit := tg.Middleware(tollgate.Named("search"), tollgate.By("ip", func(r *http.Request) (string, error) {
		return r.Header.Get("X-Forwarded-For"), nil
	}))
	from := func(address string) int {
		return ask(limit(ok), "GET", "/", func(r *http.Request) { r.Header.Set("X-Forwarded-For", address) }).Code
	}
	for _, wrong := range []string{"1.2.3.4, 5.6.7.8", "unknown", "1.2.3.4:80", " 1.2.3.4", "", "[::1]", "1.2.3"} {
		if code := from(wrong); code != 500 {
			t.Errorf("%q: got %d", wrong, code)
		}
	}
	for _, right := range []string{"1.2.3.4", "::ffff:1.2.3.4", "fe80::1%eth0"} {
		if code := from(right); code != 200 {
			t.Errorf("%q: got %d", right, code)
		}
	}
	if len(server.bodies) != 3 || !strings.Contains(server.bodies[1], `"ip":"1.2.3.4"`) || !strings.Contains(server.bodies[2], `"ip":"fe80::1"`) {
		t.Errorf("sent %q", server.bodies)
	}
}

func TestWrongOptionsAreRefusedWhenTheMiddlewareIsMade(t *testing.T) {
	tg := client(t, tollgate.Options{URL: "http://127.0.0.1:1"})
	key := func(*http.Request) (string, error) { return "k", nil }
	wrong := map[string][]tollgate.LimitOption{
		"action":       {tollgate.By("action", key)},
		"no attribute": {tollgate.By("", key)},
		"a long one":   {tollgate.By(strings.Repeat("x", 129), key)},
		"no UTF-8":     {tollgate.By("\xff", key)},
		"twice":        {tollgate.By("user", key), tollgate.By("user", key)},
		"ip twice":     {tollgate.ByIP(), tollgate.By("ip", key)},
		"no key":       {tollgate.By("user", nil)},
		"no name":      {tollgate.Named("")},
		"a long name":  {tollgate.Named(strings.Repeat("x", 1025))},
	}
	for name, options := range wrong {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.HasPrefix(text, "tollgate: ") {
					t.Errorf("%s: got %q", name, text)
				}
			}()
			tg.Middleware(options...)
		}()
	}
}

func TestHeadersPassesLimitHeadersOnAndNothingElse(t *testing.T) {
	server := listenHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range []string{"RateLimit", "RateLimit-Policy", "RateLimit-Reset", "X-RateLimit-Limit", "X-Other", "Server"} {
			w.Header().Set(name, name)
		}
		_, _ = io.WriteString(w, admitted)
	})
	tg := client(t, tollgate.Options{URL: server})
	answer := ask(tg.Middleware(tollgate.Named("a"), tollgate.Headers())(ok), "GET", "/")
	header := answer.Header()
	if header.Get("RateLimit") == "" || header.Get("RateLimit-Policy") == "" || header.Get("RateLimit-Reset") == "" ||
		header.Get("X-RateLimit-Limit") == "" || header.Get("X-Other") != "" || header.Get("Server") != "" || len(header) != 5 {
		t.Fatalf("got %v", header)
	}
	if answer := ask(tg.Middleware(tollgate.Named("a"))(ok), "GET", "/"); answer.Header().Get("RateLimit") != "" {
		t.Fatalf("got %v", answer.Header())
	}
}

func TestARequestWhoseClientIsGoneIsNotServed(t *testing.T) {
	tg := client(t, tollgate.Options{URL: "http://127.0.0.1:1"})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	served := false
	handler := tg.Middleware(tollgate.Named("a"))(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served = true }))
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, httptest.NewRequest("GET", "/", nil).WithContext(ctx))
	if served || answer.Code != 503 || len(tg.Failures()) != 0 {
		t.Fatalf("served: %v, %d, failures %v", served, answer.Code, tg.Failures())
	}
}

func TestAConnectionWithoutAnAddressNeedsAKey(t *testing.T) {
	tg := client(t, tollgate.Options{URL: "http://127.0.0.1:1"})
	answer := ask(tg.Middleware(tollgate.Named("a"))(ok), "GET", "/", func(r *http.Request) { r.RemoteAddr = "@" })
	if answer.Code != 500 {
		t.Errorf("got %d", answer.Code)
	}
}

func TestDeniedReplacesTheAnswer(t *testing.T) {
	server := listen(t, func(int64) string { return httpAnswer(429, `{"allowed":false,"retry_after_ms":5000}`) })
	tg := client(t, tollgate.Options{URL: server.url})
	limit := tg.Middleware(tollgate.Named("a"), tollgate.Denied(
		func(w http.ResponseWriter, _ *http.Request, decision tollgate.Decision, status int) {
			http.Error(w, "slow down", status)
		}))
	answer := ask(limit(ok), "GET", "/")
	if answer.Code != 429 || answer.Body.String() != "slow down\n" || answer.Header().Get("Retry-After") != "5" ||
		answer.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("got %d %s %v", answer.Code, answer.Body, answer.Header())
	}
}
