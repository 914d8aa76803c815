package tollgate_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tollgate "github.com/tollgate-rs/tollgate/clients/go"
)

// rawServer answers on raw sockets, so that the tests see each byte and each connection. It stands for no service: it
// breaks HTTP in ways that no service does.
type rawServer struct {
	url         string
	requests    atomic.Int64
	connections atomic.Int64
	mutex       sync.Mutex
	bodies      []string
}

// listen serves each request with what answer returns. An empty text closes the connection without an answer, CLOSE at
// the end of one closes it after the answer.
func listen(t *testing.T, answer func(number int64) string) *rawServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &rawServer{url: "http://" + listener.Addr().String()}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			server.connections.Add(1)
			go server.serve(connection, answer)
		}
	}()
	return server
}

func (s *rawServer) serve(connection net.Conn, answer func(int64) string) {
	defer connection.Close()
	reader := bufio.NewReader(connection)
	for {
		request, err := http.ReadRequest(reader)
		if err != nil {
			return
		}
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return
		}
		s.mutex.Lock()
		s.bodies = append(s.bodies, request.URL.Path+" "+string(body))
		s.mutex.Unlock()
		text := answer(s.requests.Add(1))
		if text == "" {
			return
		}
		text, closes := strings.CutSuffix(text, "CLOSE")
		if _, err := io.WriteString(connection, text); err != nil || closes {
			return
		}
	}
}

func httpAnswer(status int, body string) string {
	return fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
}

const admitted = `{"allowed":true,"policy":"p","quota":"5/1m","limit":5,"used":1,"remaining":4,"reset_after_ms":1000,"source":"store"}`

func client(t *testing.T, options tollgate.Options) *tollgate.Client {
	t.Helper()
	if options.Timeout == 0 {
		// A busy machine may take longer than the default.
		options.Timeout = 10 * time.Second
	}
	if options.Logger == nil {
		options.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	tg, err := tollgate.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tg.Close)
	return tg
}

func TestClassifiesAnswersThatAreNone(t *testing.T) {
	cases := []struct {
		name   string
		answer string
		kind   tollgate.FailureKind
	}{
		{"closes", "", tollgate.FailureConnection},
		{"status 500", httpAnswer(500, `{"detail":"x"}`), tollgate.FailureUnavailable},
		{"status 503 of a proxy", httpAnswer(503, `<html>`), tollgate.FailureUnavailable},
		{"status 400", httpAnswer(400, `{"detail":"x"}`), tollgate.FailureRefused},
		{"status 404", httpAnswer(404, `nothing`), tollgate.FailureRefused},
		{"redirect", "HTTP/1.1 302 X\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n", tollgate.FailureRefused},
		{"html", httpAnswer(200, `<html>`), tollgate.FailureInvalid},
		{"no verdict", httpAnswer(200, `{}`), tollgate.FailureInvalid},
		{"a verdict that is a text", httpAnswer(200, `{"allowed":"true"}`), tollgate.FailureInvalid},
		{"two verdicts", httpAnswer(200, `{"allowed":false,"allowed":true}`), tollgate.FailureInvalid},
		{"a verdict in other letters", httpAnswer(200, `{"Allowed":true}`), tollgate.FailureInvalid},
		{"a limit that is a text", httpAnswer(200, `{"allowed":true,"limit":"5"}`), tollgate.FailureInvalid},
		{"nothing", httpAnswer(200, ``), tollgate.FailureInvalid},
		{"a list", httpAnswer(200, `[true]`), tollgate.FailureInvalid},
		{"no HTTP", "SSH-2.0-OpenSSH\r\n\r\nCLOSE", tollgate.FailureConnection},
		{"a header without a colon", "HTTP/1.1 200 X\r\nbroken\r\n\r\nCLOSE", tollgate.FailureConnection},
		{"a length that is none", "HTTP/1.1 200 X\r\nContent-Length: x\r\n\r\nCLOSE", tollgate.FailureConnection},
		{"a coding that is none", "HTTP/1.1 200 X\r\nTransfer-Encoding: x\r\n\r\nCLOSE", tollgate.FailureConnection},
		{"a broken chunk", "HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nCLOSE", tollgate.FailureInvalid},
		{"half a body", "HTTP/1.1 200 X\r\nContent-Length: 900\r\n\r\n{CLOSE", tollgate.FailureConnection},
		{"a byte", "HCLOSE", tollgate.FailureConnection},
		{"half a header", "HTTP/1.1 200 X\r\nContent-Type: appCLOSE", tollgate.FailureConnection},
		{"2 MiB", httpAnswer(200, `{"allowed":true,"x":"`+strings.Repeat("x", 2<<20)+`"}`), tollgate.FailureInvalid},
		{"2 MiB without a length", "HTTP/1.1 200 X\r\n\r\n" + strings.Repeat(" ", 2<<20) + "CLOSE", tollgate.FailureInvalid},
		{"1 MiB of headers", "HTTP/1.1 200 X\r\nA: " + strings.Repeat("x", 1<<20) + "\r\n\r\nCLOSE", tollgate.FailureConnection},
	}
	for _, example := range cases {
		t.Run(example.name, func(t *testing.T) {
			server := listen(t, func(int64) string { return example.answer })
			var log bytes.Buffer
			tg := client(t, tollgate.Options{
				URL: server.url, Timeout: 5 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			decision, err := tg.Check(context.Background(), "search", nil)
			if err != nil {
				t.Fatal(err)
			}
			if decision.Failure != example.kind || !decision.Allowed || decision.Source != tollgate.SourceClient {
				t.Fatalf("got %+v, log %s", decision, log.String())
			}
			if server.requests.Load() != 1 {
				t.Fatalf("the request arrived %d times", server.requests.Load())
			}
			if tg.Failures()[example.kind] != 1 || len(tg.Failures()) != 1 {
				t.Fatalf("counted %v", tg.Failures())
			}
			if strings.Contains(log.String(), "SSH") || strings.Count(log.String(), "\n") != 1 || len(log.String()) > 700 {
				t.Fatalf("logged %d bytes: %.900s", log.Len(), log.String())
			}
			if strings.Contains(log.String(), "level=ERROR") != (example.kind == tollgate.FailureRefused) {
				t.Fatalf("logged at another level: %.900s", log.String())
			}
		})
	}
}

func TestADecisionIsOneWhateverItsStatus(t *testing.T) {
	for _, status := range []int{200, 403, 429, 503} {
		server := listen(t, func(int64) string { return httpAnswer(status, `{"allowed":false,"retry_after_ms":1500,"new":[1]}`) })
		decision, err := client(t, tollgate.Options{URL: server.url}).Check(context.Background(), "search", nil)
		if err != nil || decision.Allowed || decision.Failure != "" || decision.Status != status {
			t.Fatalf("got %+v, %v", decision, err)
		}
		if wait, ok := decision.RetryAfter.Get(); !ok || wait != 1500*time.Millisecond {
			t.Fatalf("got %v", decision.RetryAfter)
		}
	}
}

// A policy that is closed refuses with 503, and an open client would have admitted what it refuses.
func TestAnOpenClientDeniesWhatAClosedPolicyRefuses(t *testing.T) {
	for reason, allowed := range map[string]bool{
		"store_unavailable": false, "outcome_unknown": false, "store_full": false, "other": true,
	} {
		server := listen(t, func(int64) string { return httpAnswer(503, `{"detail":"x","reason":"`+reason+`"}`) })
		tg := client(t, tollgate.Options{URL: server.url})
		check, _ := tg.Check(context.Background(), "a", nil)
		reservation, _ := tg.Reserve(context.Background(), "a", nil)
		if check.Allowed != allowed || reservation.Allowed != allowed || check.Failure != tollgate.FailureUnavailable {
			t.Errorf("%s: got %+v", reason, check)
		}
	}
}

// A kept-alive connection that breaks after a request was written tells nothing about whether the request was counted.
// net/http repeats GET requests there, and POST requests with an Idempotency-Key.
func TestACheckOnAKeptConnectionArrivesOnce(t *testing.T) {
	server := listen(t, func(number int64) string {
		if number == 1 {
			return httpAnswer(200, admitted)
		}
		return ""
	})
	tg := client(t, tollgate.Options{URL: server.url})
	if decision, _ := tg.Check(context.Background(), "search", nil); decision.Failure != "" {
		t.Fatalf("got %+v", decision)
	}
	decision, _ := tg.Check(context.Background(), "search", nil)
	if decision.Failure != tollgate.FailureConnection || server.requests.Load() != 2 || server.connections.Load() != 1 {
		t.Fatalf("got %+v after %d requests", decision, server.requests.Load())
	}
}

func TestAConnectionThatTheServerClosedWhileIdleIsReplaced(t *testing.T) {
	server := listen(t, func(int64) string { return httpAnswer(200, admitted) + "CLOSE" })
	tg := client(t, tollgate.Options{URL: server.url})
	for round := int64(1); round <= 20; round++ {
		decision, _ := tg.Check(context.Background(), "search", nil)
		if decision.Failure != "" || server.requests.Load() != round {
			t.Fatalf("round %d: got %+v after %d requests", round, decision, server.requests.Load())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestHoldsAreRepeatedAtMostTwiceWithTheSameID(t *testing.T) {
	server := listen(t, func(number int64) string {
		switch {
		case number < 3:
			return ""
		case number == 3:
			return httpAnswer(200, `{"allowed":true,"hold":"H","expires_after_ms":60000}`)
		default:
			return ""
		}
	})
	tg := client(t, tollgate.Options{URL: server.url, Timeout: 5 * time.Second})
	reservation, err := tg.Reserve(context.Background(), "export", nil)
	if err != nil || !reservation.Allowed || reservation.Failure != "" {
		t.Fatalf("got %+v, %v", reservation, err)
	}
	if server.bodies[0] != server.bodies[1] || server.bodies[0] != server.bodies[2] || len(server.bodies) != 3 {
		t.Fatalf("sent %q", server.bodies)
	}
	settlement, err := reservation.Settle(context.Background(), 7)
	if err != nil || settlement.Failure != tollgate.FailureConnection || server.requests.Load() != 6 {
		t.Fatalf("got %+v, %v after %d requests", settlement, err, server.requests.Load())
	}
	if server.bodies[5] != `/v1/settle {"hold":"H","cost":7}` {
		t.Fatalf("sent %q", server.bodies[5])
	}
}

func TestAnAnswerThatIsLateIsATimeout(t *testing.T) {
	server := listen(t, func(int64) string {
		time.Sleep(time.Second)
		return httpAnswer(200, admitted)
	})
	tg := client(t, tollgate.Options{URL: server.url, Timeout: 50 * time.Millisecond, OnFailure: tollgate.Closed})
	start := time.Now()
	decision, err := tg.Check(context.Background(), "search", nil)
	if err != nil || decision.Allowed || decision.Failure != tollgate.FailureTimeout || time.Since(start) > 200*time.Millisecond {
		t.Fatalf("got %+v, %v after %v", decision, err, time.Since(start))
	}

	t.Run("also at the deadline of the caller", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		decision, err := client(t, tollgate.Options{URL: server.url}).Check(ctx, "search", nil)
		if err != nil || !decision.Allowed || decision.Failure != tollgate.FailureTimeout {
			t.Fatalf("got %+v, %v", decision, err)
		}
	})
	t.Run("but a cancelled call is the caller's error", func(t *testing.T) {
		tg := client(t, tollgate.Options{URL: server.url})
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(20*time.Millisecond, cancel)
		decision, err := tg.Check(ctx, "search", nil)
		if !errors.Is(err, context.Canceled) || decision.Allowed || len(tg.Failures()) != 0 {
			t.Fatalf("got %+v, %v, %v", decision, err, tg.Failures())
		}
	})
}

func TestAtMost64ConnectionsServe200Calls(t *testing.T) {
	server := listen(t, func(int64) string {
		time.Sleep(10 * time.Millisecond)
		return httpAnswer(200, admitted)
	})
	tg := client(t, tollgate.Options{URL: server.url, Timeout: 5 * time.Second})
	var all sync.WaitGroup
	var failed atomic.Int64
	for range 200 {
		all.Add(1)
		go func() {
			defer all.Done()
			if decision, err := tg.Check(context.Background(), "search", nil); err != nil || decision.Failure != "" {
				failed.Add(1)
			}
		}()
	}
	all.Wait()
	if failed.Load() != 0 || server.connections.Load() > 64 || server.requests.Load() != 200 {
		t.Fatalf("%d failed on %d connections", failed.Load(), server.connections.Load())
	}
}

func TestWhatIsSent(t *testing.T) {
	server := listen(t, func(int64) string { return httpAnswer(200, admitted) })
	tg := client(t, tollgate.Options{URL: server.url})
	ctx := context.Background()
	attributes := tollgate.Attributes{"list": []string{"a", "b"}, "on": true, "text": "<é\n"}
	_, _ = tg.Check(ctx, "search", attributes)
	_, _ = tg.Check(ctx, "search", nil, tollgate.Cost(0))
	_, _ = tg.Peek(ctx, "search", nil, tollgate.Cost(1<<32-1))
	want := []string{
		`/v1/check {"attributes":{"action":"search","list":["a","b"],"on":true,"text":"\u003cé\n"}}`,
		`/v1/check {"attributes":{"action":"search"},"cost":0}`,
		`/v1/peek {"attributes":{"action":"search"},"cost":4294967295}`,
	}
	for index, body := range want {
		if sorted(server.bodies[index]) != body {
			t.Errorf("sent %q, not %q", server.bodies[index], body)
		}
	}
	if len(attributes) != 3 {
		t.Error("the caller's attributes were changed")
	}
}

// sorted orders the fields of a sent body, because maps have no order.
func sorted(sent string) string {
	path, body, _ := strings.Cut(sent, " ")
	var fields struct {
		Attributes any  `json:"attributes"`
		Cost       *int `json:"cost,omitempty"`
	}
	if err := json.Unmarshal([]byte(body), &fields); err != nil {
		return err.Error()
	}
	again, _ := json.Marshal(fields)
	return path + " " + string(again)
}

func TestCountsSayWhatAnOutageMeans(t *testing.T) {
	server := listen(t, func(int64) string { return httpAnswer(200, `{"policy":"p:caller","used":1}`) })
	tg := client(t, tollgate.Options{URL: server.url, Names: map[string]tollgate.OnFailure{"login": tollgate.Closed}})
	ctx := context.Background()
	key := tollgate.Attributes{"a": "b"}
	for _, counted := range []tollgate.CountRequest{
		{Policy: "p", Quotas: []string{"5/1m"}, Cost: tollgate.Some[int64](1), Attributes: key},
		{Policy: "login", Window: "1m", Operation: tollgate.OperationGet, Attributes: key},
		{Policy: "p", Window: "1m", OnStoreFailure: tollgate.Some(tollgate.Closed), Cost: tollgate.Some[int64](3), Attributes: key},
		{Policy: "login", Window: "1m", Operation: tollgate.OperationSet, Used: tollgate.Some[int64](0), Attributes: key},
		{Policy: "p", Quotas: []string{"5/1m"}, Block: "30s", Operation: tollgate.OperationReset, Attributes: key},
	} {
		if count, err := tg.Count(ctx, counted); err != nil || count.Failure != "" || count.Used.Or(0) != 1 {
			t.Errorf("got %+v, %v", count, err)
		}
	}
	want := []string{
		`/v1/count {"policy":"p","attributes":{"a":"b"},"quotas":["5/1m"]}`,
		`/v1/count {"policy":"login","attributes":{"a":"b"},"window":"1m","operation":"get","on_store_failure":"closed"}`,
		`/v1/count {"policy":"p","attributes":{"a":"b"},"window":"1m","cost":3,"on_store_failure":"closed"}`,
		`/v1/count {"policy":"login","attributes":{"a":"b"},"window":"1m","operation":"set","used":0}`,
		`/v1/count {"policy":"p","attributes":{"a":"b"},"quotas":["5/1m"],"operation":"reset","block":"30s"}`,
	}
	for index, body := range want {
		if server.bodies[index] != body {
			t.Errorf("sent %s", server.bodies[index])
		}
	}
}

func TestAHoldIsSettledOnce(t *testing.T) {
	server := listen(t, func(number int64) string {
		if number == 1 {
			return httpAnswer(200, `{"allowed":true,"hold":"H","expires_after_ms":60000}`)
		}
		return httpAnswer(200, `{"status":"settled"}`)
	})
	hold, err := client(t, tollgate.Options{URL: server.url}).Hold(context.Background(), "export", nil, tollgate.Cost(5))
	if err != nil {
		t.Fatal(err)
	}
	if settlement, err := hold.Settle(context.Background(), 3); err != nil || settlement.Status != tollgate.StatusSettled {
		t.Errorf("got %v, %v", settlement, err)
	}
	hold.Close()
	if len(server.bodies) != 2 {
		t.Errorf("sent %q", server.bodies)
	}
}

func attributesOf(number int, value string) tollgate.Attributes {
	attributes := tollgate.Attributes{}
	for index := range number {
		attributes[fmt.Sprint(index)] = value
	}
	return attributes
}

func TestTheLargestRequestIsSent(t *testing.T) {
	server := listen(t, func(int64) string { return httpAnswer(200, admitted) })
	attributes := attributesOf(62, strings.Repeat("x", 900))
	attributes[strings.Repeat("ä", 128)] = make([]string, 64)
	decision, err := client(t, tollgate.Options{URL: server.url}).Check(context.Background(), "a", attributes)
	if err != nil || decision.Failure != "" {
		t.Errorf("got %+v, %v", decision, err)
	}
}

// net/http hands over the connection itself as the body of such an answer, and no timeout ends its reading.
func TestAnAnswerThatSwitchesProtocolsEndsTheCall(t *testing.T) {
	server := listen(t, func(int64) string {
		return "HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"
	})
	tg := client(t, tollgate.Options{URL: server.url, MaxConnections: 1})
	for range 3 {
		done := make(chan tollgate.Decision, 1)
		go func() {
			decision, _ := tg.Check(context.Background(), "a", nil)
			done <- decision
		}()
		select {
		case decision := <-done:
			if decision.Failure != tollgate.FailureInvalid {
				t.Fatalf("got %+v", decision)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("the call hangs")
		}
	}
}

func TestWaitSleepsAlsoIfTheServiceSaysZero(t *testing.T) {
	server := listen(t, func(int64) string { return httpAnswer(429, `{"allowed":false,"retry_after_ms":0}`) })
	decision, err := client(t, tollgate.Options{URL: server.url}).Wait(context.Background(), 20*time.Millisecond, "a", nil)
	if err != nil || decision.Allowed || server.requests.Load() > 21 {
		t.Errorf("got %+v, %v after %d requests", decision, err, server.requests.Load())
	}
}

func TestASettlementWithoutAnAnswerIsRepeatedAtTheEndOfTheScope(t *testing.T) {
	cancelled, cancel := context.WithCancel(context.Background())
	cancel()
	for name, ctx := range map[string]context.Context{"no answer": context.Background(), "cancelled": cancelled} {
		t.Run(name, func(t *testing.T) {
			server := listen(t, func(number int64) string {
				switch {
				case number == 1:
					return httpAnswer(200, `{"allowed":true,"hold":"H","expires_after_ms":60000}`)
				case number == 2 && ctx.Err() == nil:
					return httpAnswer(500, `{}`)
				default:
					return httpAnswer(200, `{"status":"settled"}`)
				}
			})
			hold, err := client(t, tollgate.Options{URL: server.url}).Hold(context.Background(), "export", nil, tollgate.Cost(5))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = hold.Settle(ctx, 3)
			failure := errors.New("the work failed")
			hold.CloseOnError(&failure)
			hold.Close()
			settled := server.bodies[1:]
			want := 2
			if ctx.Err() != nil {
				want = 1
			}
			if len(settled) != want || settled[want-1] != `/v1/settle {"hold":"H","cost":3}` {
				t.Errorf("sent %q", settled)
			}
		})
	}
}

func TestNothingPrintsATokenOrAKey(t *testing.T) {
	const secret = "s3cret"
	server := listen(t, func(int64) string {
		return httpAnswer(200, `{"allowed":true,"hold":"s3cret","expires_after_ms":60000}`)
	})
	options := tollgate.Options{URL: server.url, Token: secret}
	tg := client(t, options)
	hold, err := tg.Hold(context.Background(), "a", tollgate.Attributes{"user": secret})
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []any{options, &options, tg, hold, hold.Reservation, tollgate.Options{URL: "http://a:s3cret@b:1"}} {
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("x", "value", value)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "value", value)
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			fmt.Fprintf(&log, verb, value)
		}
		if strings.Contains(log.String(), secret) {
			t.Errorf("%T prints %s", value, log.String())
		}
	}
}

func TestRefusesWrongCallsBeforeAnythingIsSent(t *testing.T) {
	server := listen(t, func(int64) string { return httpAnswer(200, admitted) })
	tg := client(t, tollgate.Options{URL: server.url})
	ctx := context.Background()
	key := tollgate.Attributes{"a": "b"}
	wrong := map[string]func() error{
		"a number":     func() error { _, err := tg.Check(ctx, "a", tollgate.Attributes{"n": 5}); return err },
		"nil":          func() error { _, err := tg.Check(ctx, "a", tollgate.Attributes{"n": nil}); return err },
		"action twice": func() error { _, err := tg.Check(ctx, "a", tollgate.Attributes{"action": "b"}); return err },
		"no name":      func() error { _, err := tg.Check(ctx, "", nil); return err },
		"no UTF-8":     func() error { _, err := tg.Check(ctx, "a", tollgate.Attributes{"n": "\xff"}); return err },
		"a long text": func() error {
			_, err := tg.Check(ctx, "a", tollgate.Attributes{"n": strings.Repeat("x", 1025)})
			return err
		},
		"a negative cost":  func() error { _, err := tg.Check(ctx, "a", nil, tollgate.Cost(-1)); return err },
		"a huge cost":      func() error { _, err := tg.Check(ctx, "a", nil, tollgate.Cost(1<<32)); return err },
		"too many units":   func() error { _, err := tg.Reserve(ctx, "a", nil, tollgate.Units(1001)); return err },
		"a length of 0":    func() error { _, err := tg.Reserve(ctx, "a", nil, tollgate.ExpiresAfter(0)); return err },
		"negative timeout": func() error { _, err := tg.Wait(ctx, -1, "a", nil); return err },
		"no limit":         func() error { _, err := tg.Count(ctx, tollgate.CountRequest{Policy: "p", Attributes: key}); return err },
		"no key":           func() error { _, err := tg.Count(ctx, tollgate.CountRequest{Policy: "p", Window: "1m"}); return err },
		"nine limits": func() error {
			_, err := tg.Count(ctx, tollgate.CountRequest{Policy: "p", Quotas: make([]string, 9), Attributes: key})
			return err
		},
		"a name without characters": func() error { _, err := tg.Check(ctx, "a", tollgate.Attributes{"": "b"}); return err },
		"a long name": func() error {
			_, err := tg.Check(ctx, "a", tollgate.Attributes{strings.Repeat("ä", 129): "b"})
			return err
		},
		"a long name of a check": func() error { _, err := tg.Check(ctx, strings.Repeat("a", 1025), nil); return err },
		"a long list": func() error {
			_, err := tg.Check(ctx, "a", tollgate.Attributes{"n": make([]string, 65)})
			return err
		},
		"many attributes": func() error { _, err := tg.Check(ctx, "a", attributesOf(64, "")); return err },
		"a long body":     func() error { _, err := tg.Check(ctx, "a", attributesOf(63, strings.Repeat("\n", 1024))); return err },
		"both limits": func() error {
			_, err := tg.Count(ctx, tollgate.CountRequest{Policy: "p", Quotas: []string{"5/1m"}, Window: "1m", Attributes: key})
			return err
		},
		"set without a count": func() error {
			_, err := tg.Count(ctx, tollgate.CountRequest{Policy: "p", Window: "1m", Operation: tollgate.OperationSet, Attributes: key})
			return err
		},
	}
	for name, call := range wrong {
		if err := call(); err == nil || !strings.HasPrefix(err.Error(), "tollgate: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if server.requests.Load() != 0 {
		t.Errorf("%d requests were sent", server.requests.Load())
	}
}

func TestRefusesWrongOptions(t *testing.T) {
	t.Setenv("TOLLGATE_URL", "")
	wrong := []tollgate.Options{
		{URL: "127.0.0.1:8080"},
		{URL: "ftp://127.0.0.1:8080"},
		{URL: "http://127.0.0.1"},
		{URL: "http://127.0.0.1:0"},
		{URL: "http://127.0.0.1:65536"},
		{URL: "http://:8080"},
		{URL: "http://user:hunter2@127.0.0.1:8080"},
		{URL: "http://127.0.0.1:8080/v1"},
		{URL: "http://127.0.0.1:8080?x=1"},
		{URL: "http://127.0.0.1:8080?"},
		{URL: "http://127.0.0.1:8080#"},
		{URL: "http://hunter2:\x7f@h:1"},
		{URL: "unix:relative"},
		{URL: "unix:/"},
		{URL: "http://a..b_-:1"},
		{URL: "unix://host/path"},
		{URL: "unix:/" + strings.Repeat("x", 200)},
		{Token: "a\nb"},
		{Token: "ü"},
		{Timeout: time.Microsecond},
		{Timeout: 2 * time.Minute},
		{Timeout: -1},
		{MaxConnections: -1},
		{OnFailure: 7},
		{Names: map[string]tollgate.OnFailure{"login": 7}},
	}
	for _, options := range wrong {
		if _, err := tollgate.New(options); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%+v: %v", options, err)
		}
	}
	for _, url := range []string{"", "http://127.0.0.1:8080", "https://[::1]:443/", "unix:/run/tollgate.sock"} {
		if _, err := tollgate.New(tollgate.Options{URL: url}); err != nil {
			t.Errorf("%q: %v", url, err)
		}
	}
	t.Setenv("TOLLGATE_URL", "nonsense")
	if _, err := tollgate.New(tollgate.Options{}); err == nil {
		t.Error("TOLLGATE_URL was not read")
	}
}

func TestLogsOneLineAMinuteWithoutValues(t *testing.T) {
	server := listen(t, func(int64) string {
		return httpAnswer(400, `{"detail":"no key for canary-7 and x7 of 7\nwith s3cr3t"}`)
	})
	var log bytes.Buffer
	tg := client(t, tollgate.Options{URL: server.url, Token: "s3cr3t", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for range 500 {
		_, _ = tg.Check(context.Background(), "search", tollgate.Attributes{"user": "canary-7", "n": "7"})
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 {
		t.Fatalf("%d lines", lines)
	}
	if !strings.Contains(log.String(), "no key for *** and x7 of *** with ***") {
		t.Fatalf("logged %s", log.String())
	}
	tg.Close()
	if !strings.Contains(log.String(), "calls=499 refused=499") {
		t.Fatalf("logged %s", log.String())
	}
}

// A first try from the same machine, limited by address, hid where the service was: "dial tcp ***:1: connect".
func TestALogNamesTheServiceWhateverTheKeyIs(t *testing.T) {
	var log bytes.Buffer
	tg := client(t, tollgate.Options{URL: "http://127.0.0.1:1", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	_, _ = tg.Check(context.Background(), "login", tollgate.Attributes{"ip": "127.0.0.1", "user": "refused"})
	if !strings.Contains(log.String(), "127.0.0.1:1: connect: connection refused") {
		t.Errorf("logged %s", log.String())
	}
}

func TestFailuresAtOnceMakeOneLine(t *testing.T) {
	var log bytes.Buffer
	tg := client(t, tollgate.Options{URL: "http://127.0.0.1:1", Logger: slog.New(slog.NewTextHandler(&log, nil))})
	var all sync.WaitGroup
	for range 50 {
		all.Add(1)
		go func() {
			defer all.Done()
			_, _ = tg.Check(context.Background(), "search", nil)
		}()
	}
	all.Wait()
	if lines := strings.Count(log.String(), "\n"); lines != 1 {
		t.Errorf("%d lines: %s", lines, log.String())
	}
	tg.Close()
	if !strings.Contains(log.String(), "connection=1 ") || tg.Failures()[tollgate.FailureConnection] != 50 {
		t.Errorf("%v: %s", tg.Failures(), log.String())
	}
}

func TestTraceContextIsPassedOn(t *testing.T) {
	var header http.Header
	server := listenHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		_, _ = io.WriteString(w, admitted)
	})
	tg := client(t, tollgate.Options{URL: server, Token: "t"})
	ctx := tollgate.WithTrace(context.Background(), "00-1-2-01", "a=b")
	_, _ = tg.Check(ctx, "search", nil)
	if header.Get("traceparent") != "00-1-2-01" || header.Get("tracestate") != "a=b" {
		t.Fatalf("sent %v", header)
	}
	if header.Get("Authorization") != "Bearer t" || header.Get("User-Agent") != "tollgate-go/"+tollgate.Version {
		t.Fatalf("sent %v", header)
	}
	_, _ = tg.Check(context.Background(), "search", nil)
	for _, name := range []string{"Traceparent", "Tracestate", "Idempotency-Key", "Accept-Encoding"} {
		if header.Get(name) != "" {
			t.Errorf("sent %s", name)
		}
	}
	_, err := tg.Check(tollgate.WithTrace(context.Background(), "a\r\nb", ""), "search", nil)
	if err != nil || header.Get("Traceparent") != "" || len(tg.Failures()) != 0 {
		t.Fatalf("got %v, %v", err, tg.Failures())
	}
	injecting := client(t, tollgate.Options{URL: server, Inject: func(_ context.Context, header http.Header) {
		header.Set("traceparent", "00-3-4-01")
		header.Set("baggage", "user=alice")
	}})
	_, _ = injecting.Check(context.Background(), "search", nil)
	if header.Get("Traceparent") != "00-3-4-01" || header.Get("Baggage") != "" {
		t.Fatalf("sent %v", header)
	}
}

func TestWaitSleepsAsLongAsToldAndGivesUpAtOnce(t *testing.T) {
	server := listen(t, func(number int64) string {
		if number == 1 {
			return httpAnswer(429, `{"allowed":false,"retry_after_ms":120}`)
		}
		if number == 2 {
			return httpAnswer(200, admitted)
		}
		return httpAnswer(429, `{"allowed":false,"retry_after_ms":60000}`)
	})
	tg := client(t, tollgate.Options{URL: server.url})
	start := time.Now()
	decision, err := tg.Wait(context.Background(), time.Second, "api", nil)
	if err != nil || !decision.Allowed || time.Since(start) < 120*time.Millisecond {
		t.Fatalf("got %+v, %v after %v", decision, err, time.Since(start))
	}
	start = time.Now()
	decision, err = tg.Wait(context.Background(), time.Second, "api", nil)
	if err != nil || decision.Allowed || time.Since(start) > 500*time.Millisecond {
		t.Fatalf("got %+v, %v after %v", decision, err, time.Since(start))
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err = tg.Wait(ctx, 2*time.Minute, "api", nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
}

func TestAReservationThatNothingCountsSettlesToGone(t *testing.T) {
	tg := client(t, tollgate.Options{URL: "http://127.0.0.1:1", Names: map[string]tollgate.OnFailure{"login": tollgate.Closed}})
	hold, err := tg.Hold(context.Background(), "export", nil)
	if err != nil || !hold.Allowed || hold.Failure != tollgate.FailureConnection {
		t.Fatalf("got %+v, %v", hold, err)
	}
	settlement, err := hold.Settle(context.Background(), 3)
	if err != nil || settlement.Status != tollgate.StatusGone || hold.Lost() || hold.Context().Err() == nil {
		t.Fatalf("got %+v, %v", settlement, err)
	}
	hold.Close()
	denied, err := tg.Hold(context.Background(), "login", nil)
	if err != nil || denied.Allowed {
		t.Fatalf("got %+v, %v", denied, err)
	}
	if _, err := denied.Settle(context.Background(), 3); !errors.Is(err, tollgate.ErrDenied) {
		t.Fatalf("got %v", err)
	}
	denied.Close()
	if tg.Failures()[tollgate.FailureConnection] != 2 {
		t.Fatalf("counted %v", tg.Failures())
	}
}

func listenHTTP(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return "http://" + listener.Addr().String()
}

func TestALogMasksValuesAsJSONWritesThem(t *testing.T) {
	const key = "<a\"b\\c\ténd>"
	for _, quoted := range []string{`<a\"b\\c\ténd>`, `\u003ca\"b\\c\ténd\u003e`} {
		detail, _ := json.Marshal(map[string]string{"detail": `got {"user":"` + quoted + `"}`})
		server := listen(t, func(int64) string { return httpAnswer(502, string(detail)) })
		var log bytes.Buffer
		tg := client(t, tollgate.Options{URL: server.url, Logger: slog.New(slog.NewJSONHandler(&log, nil))})
		_, _ = tg.Check(context.Background(), "a", tollgate.Attributes{"user": key})
		if !strings.Contains(log.String(), "***") || strings.Contains(log.String(), "énd") {
			t.Errorf("logged %s", log.String())
		}
	}
}
