package tollgate_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	tollgate "github.com/tollgate-rs/tollgate/clients/go"
	"github.com/tollgate-rs/tollgate/clients/go/internal/realservice"
)

const policies = `
policies:
  - { name: search, match: { action: search }, key: [user], quotas: [5/1h], headers: [x-ratelimit, draft-11] }
  - { name: exports, match: { action: export }, key: [user], quotas: [1000/1h, 2~in_flight:30s] }
`

func TestChecksPeeksAndDenials(t *testing.T) {
	service := realservice.Start(t, "--config", realservice.Policies(t, policies))
	tg := client(t, tollgate.Options{URL: service.URL, Timeout: 5 * time.Second})
	ctx, alice := context.Background(), tollgate.Attributes{"user": "alice"}

	decision, err := tg.Check(ctx, "search", alice, tollgate.Cost(4))
	if err != nil || !decision.Allowed || decision.Used != tollgate.Some[int64](4) || decision.Remaining.Or(-1) != 1 {
		t.Fatalf("got %+v, %v", decision, err)
	}
	if decision.Policy != "search" || decision.Quota != "5/1h" || decision.Source != tollgate.SourceStore ||
		decision.Header.Get("X-Ratelimit-Limit") != "5" {
		t.Fatalf("got %+v", decision)
	}
	peek, _ := tg.Peek(ctx, "search", alice, tollgate.Cost(2))
	if peek.Allowed || peek.Status != 200 {
		t.Fatalf("got %+v", peek)
	}
	denied, err := tg.Check(ctx, "search", alice, tollgate.Cost(2))
	if err != nil || denied.Allowed || denied.Status != 429 || denied.Reason != "quota_exceeded" || !denied.RetryAfter.Present {
		t.Fatalf("got %+v, %v", denied, err)
	}
	never, _ := tg.Check(ctx, "search", alice, tollgate.Cost(6))
	if never.Allowed || never.RetryAfter.Present || never.Reason != "cost_exceeds_limit" {
		t.Fatalf("got %+v", never)
	}
	unlimited, _ := tg.Check(ctx, "other", alice)
	if !unlimited.Allowed || unlimited.Limit.Present || unlimited.Source != "" {
		t.Fatalf("got %+v", unlimited)
	}
	if len(tg.Failures()) != 0 {
		t.Fatalf("failures %v", tg.Failures())
	}
}

func TestAHoldIsRenewedSettledAndReleased(t *testing.T) {
	service := realservice.Start(t, "--config", realservice.Policies(t, policies))
	tg := client(t, tollgate.Options{URL: service.URL, Timeout: 5 * time.Second})
	ctx, alice := context.Background(), tollgate.Attributes{"user": "alice"}
	used := func() int64 {
		peek, err := tg.Peek(ctx, "export", alice)
		if err != nil {
			t.Fatal(err)
		}
		return peek.Used.Or(-1)
	}

	hold, err := tg.Hold(ctx, "export", alice, tollgate.Cost(100), tollgate.Units(2), tollgate.ExpiresAfter(300*time.Millisecond))
	if err != nil || !hold.Allowed {
		t.Fatalf("got %+v, %v", hold, err)
	}
	denied, err := tg.Reserve(ctx, "export", alice)
	if err != nil || denied.Allowed || denied.Reason != tollgate.ReasonInFlight || denied.RetryAfter.Present {
		t.Fatalf("got %+v, %v", denied, err)
	}
	// Three lengths without a renewal would have ended it.
	time.Sleep(time.Second)
	if hold.Lost() || hold.Context().Err() != nil {
		t.Fatal("the hold was lost")
	}
	settlement, err := hold.Settle(ctx, 40)
	if err != nil || settlement.Status != tollgate.StatusSettled || used() != 40 || hold.Context().Err() == nil {
		t.Fatalf("got %+v, %v, used %d", settlement, err, used())
	}
	hold.Close()

	t.Run("closed without a settlement, the charge stays", func(t *testing.T) {
		hold, _ := tg.Hold(ctx, "export", alice, tollgate.Cost(10))
		hold.Close()
		if used() != 50 {
			t.Fatalf("used %d", used())
		}
	})
	t.Run("closed on an error, everything is given back", func(t *testing.T) {
		work := func(result error) (err error) {
			hold, err := tg.Hold(ctx, "export", alice, tollgate.Cost(10))
			if err != nil {
				return err
			}
			defer hold.CloseOnError(&err)
			return result
		}
		_ = work(errors.New("failed"))
		if used() != 50 {
			t.Fatalf("used %d", used())
		}
		_ = work(nil)
		if used() != 60 {
			t.Fatalf("used %d", used())
		}
	})
	t.Run("closed after its context was cancelled", func(t *testing.T) {
		cancelled, cancel := context.WithCancel(ctx)
		hold, err := tg.Hold(cancelled, "export", alice, tollgate.Cost(10), tollgate.Units(2))
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		hold.Close()
		again, _ := tg.Hold(ctx, "export", alice, tollgate.Cost(0), tollgate.Units(2))
		defer again.Close()
		if !again.Allowed {
			t.Fatal("its units are still in flight")
		}
	})
}

func TestAHoldThatIsLostCancelsItsContext(t *testing.T) {
	service := realservice.Start(t, "--config", realservice.Policies(t, policies))
	tg := client(t, tollgate.Options{URL: service.URL, Timeout: 5 * time.Second})
	ctx, alice := context.Background(), tollgate.Attributes{"user": "alice"}
	hold, err := tg.Hold(ctx, "export", alice, tollgate.ExpiresAfter(300*time.Millisecond))
	if err != nil || !hold.Allowed {
		t.Fatalf("got %+v, %v", hold, err)
	}
	defer hold.Close()
	reset(t, service.Admin, `{"attributes": {"action": "export", "user": "alice"}}`)
	select {
	case <-hold.Context().Done():
	case <-time.After(5 * time.Second):
		t.Fatal("the context goes on")
	}
	if !hold.Lost() || !errors.Is(context.Cause(hold.Context()), tollgate.ErrHoldLost) {
		t.Fatalf("lost: %v, cause %v", hold.Lost(), context.Cause(hold.Context()))
	}
}

func TestAsksOverAUnixSocket(t *testing.T) {
	service := realservice.StartAt(t, "unix:"+filepath.Join(t.TempDir(), "s"), "--limit", "1/1h")
	tg := client(t, tollgate.Options{URL: service.URL, Timeout: 5 * time.Second})
	for _, allowed := range []bool{true, false} {
		decision, err := tg.Check(context.Background(), "search", nil)
		if err != nil || decision.Allowed != allowed || decision.Failure != "" {
			t.Errorf("got %+v, %v", decision, err)
		}
	}
}

func TestMain(m *testing.M) {
	realservice.Main(m, func(tg *tollgate.Client) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("GET /items/{id}", tg.Middleware(tollgate.By("user", userOf))(ok))
		return mux
	})
}

// Two processes of an app ask two services, which count in one Redis.
func TestFiftyParallelRequestsToTwoProcessesAdmitTwenty(t *testing.T) {
	redis := realservice.Redis(t)
	var apps []string
	for range 2 {
		service := realservice.StartOn(t, redis, "--limit", "20/1h", "--key", "user")
		apps = append(apps, realservice.StartApp(t, service))
	}
	if admitted, denied := realservice.Load(t, 50, apps...); admitted != 20 || denied != 30 {
		t.Errorf("%d admitted, %d denied", admitted, denied)
	}
}

// A service that is stopped, slow or dead makes requests uncounted, but neither slow nor failing.
func TestAnAppStaysUpWhileItsServiceIsStoppedSlowAndKilled(t *testing.T) {
	const timeout = 250 * time.Millisecond
	service := realservice.Start(t, "--limit", "1000000/1h", "--key", "user")
	network := realservice.Slow(t, service)
	tg := client(t, tollgate.Options{URL: network.URL, Timeout: timeout})
	app := httptest.NewServer(tg.Middleware(tollgate.Named("search"), tollgate.By("user", userOf))(ok))
	t.Cleanup(app.Close)

	var requests, longest atomic.Int64
	end := make(chan struct{})
	var all sync.WaitGroup
	for range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			for {
				select {
				case <-end:
					return
				default:
				}
				start := time.Now()
				if status := realservice.Get(t, app.URL); status != 200 {
					t.Errorf("status %d", status)
				}
				requests.Add(1)
				for took := int64(time.Since(start)); ; {
					before := longest.Load()
					if took <= before || longest.CompareAndSwap(before, took) {
						break
					}
				}
			}
		}()
	}
	phase := func(name string, length time.Duration, kind tollgate.FailureKind, begin func()) {
		begin()
		before, sent := tg.Failures(), requests.Load()
		time.Sleep(length)
		failures := tg.Failures()
		var all uint64
		for kind, count := range failures {
			all += count - before[kind]
		}
		served, slowest := requests.Load()-sent, time.Duration(longest.Swap(0))
		t.Logf("%-7s %4d requests, %4d without an answer, longest %v", name, served, all, slowest.Round(time.Millisecond))
		// A busy machine may be late even if the service is well.
		if served == 0 || kind == "" && all > uint64(served)/2 || kind != "" && failures[kind] == before[kind] {
			t.Errorf("%s: %d requests, failures %v", name, served, failures)
		}
		if slowest > timeout+time.Second {
			t.Errorf("%s: a request took %v", name, slowest)
		}
	}
	phase("well", 300*time.Millisecond, "", func() {})
	phase("stopped", 500*time.Millisecond, tollgate.FailureTimeout, func() { service.Signal(t, syscall.SIGSTOP) })
	service.Signal(t, syscall.SIGCONT)
	phase("slow", 500*time.Millisecond, tollgate.FailureTimeout, func() { network.Delay(2 * timeout) })
	network.Delay(0)
	time.Sleep(3 * timeout)
	phase("well", 300*time.Millisecond, "", func() { longest.Store(0) })
	phase("killed", 500*time.Millisecond, tollgate.FailureConnection, func() { service.Signal(t, syscall.SIGKILL) })
	close(end)
	all.Wait()
}

func userOf(r *http.Request) (string, error) {
	return r.Header.Get("User"), nil
}

func reset(t *testing.T, admin, body string) {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, admin+"/v1/reset", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != 200 {
		t.Fatalf("reset: status %d", response.StatusCode)
	}
}
