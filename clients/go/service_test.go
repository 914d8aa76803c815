package tollgate_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
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

// Two processes of an app ask two services, which count in one Redis.
func TestFiftyParallelRequestsToTwoProcessesAdmitTwenty(t *testing.T) {
	redis := realservice.Redis(t)
	var apps [2]*httptest.Server
	for index := range apps {
		service := realservice.Start(t, "--limit", "20/1h", "--key", "user", "--store", "redis://"+redis)
		tg := client(t, tollgate.Options{URL: service.URL, Timeout: 10 * time.Second})
		limit := tg.Middleware(tollgate.By("user", userOf))
		mux := http.NewServeMux()
		mux.Handle("GET /items/{id}", limit(ok))
		apps[index] = httptest.NewServer(mux)
		t.Cleanup(apps[index].Close)
	}
	admitted, denied := load(t, 50, func(number int) string {
		return fmt.Sprintf("%s/items/%d", apps[number%2].URL, number)
	})
	if admitted != 20 || denied != 30 {
		t.Fatalf("%d admitted, %d denied", admitted, denied)
	}
}

func TestAnAppStaysUpWhileItsServiceIsStoppedAndKilled(t *testing.T) {
	const timeout = 100 * time.Millisecond
	service := realservice.Start(t, "--limit", "1000000/1h", "--key", "user")
	tg := client(t, tollgate.Options{URL: service.URL, Timeout: timeout})
	app := httptest.NewServer(tg.Middleware(tollgate.Named("search"), tollgate.By("user", userOf))(ok))
	t.Cleanup(app.Close)
	var longest atomic.Int64
	var requests atomic.Uint64
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
				if status := get(t, app.URL, "alice"); status != 200 {
					t.Errorf("status %d", status)
					return
				}
				requests.Add(1)
				longest.Store(max(longest.Load(), int64(time.Since(start))))
			}
		}()
	}
	time.Sleep(200 * time.Millisecond)
	if failures := tg.Failures(); len(failures) != 0 {
		t.Errorf("failures %v before any", failures)
	}
	service.Signal(t, syscall.SIGSTOP)
	time.Sleep(500 * time.Millisecond)
	service.Signal(t, syscall.SIGCONT)
	time.Sleep(200 * time.Millisecond)
	stopped := tg.Failures()[tollgate.FailureTimeout]
	service.Signal(t, syscall.SIGKILL)
	time.Sleep(300 * time.Millisecond)
	close(end)
	all.Wait()
	failures := tg.Failures()
	t.Logf("%d requests, failures %v, longest %v", requests.Load(), failures, time.Duration(longest.Load()))
	if stopped == 0 || failures[tollgate.FailureConnection] == 0 {
		t.Errorf("failures %v", failures)
	}
	if longest := time.Duration(longest.Load()); longest > timeout+400*time.Millisecond {
		t.Errorf("a request took %v", longest)
	}
}

func userOf(r *http.Request) (string, error) {
	return r.Header.Get("User"), nil
}

func get(t *testing.T, url, user string) int {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	request.Header.Set("User", user)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Error(err)
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// load sends so many requests at once, and returns how many were admitted and denied.
func load(t *testing.T, requests int, url func(number int) string) (admitted, denied int64) {
	var counts [600]atomic.Int64
	var all sync.WaitGroup
	for number := range requests {
		all.Add(1)
		go func() {
			defer all.Done()
			counts[get(t, url(number), "alice")].Add(1)
		}()
	}
	all.Wait()
	return counts[200].Load(), counts[429].Load()
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
