package tollgateulule_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/ulule/limiter/v3"
	ginlimiter "github.com/ulule/limiter/v3/drivers/middleware/gin"
	"github.com/ulule/limiter/v3/drivers/store/tests"

	tollgate "github.com/tollgate-rs/tollgate/clients/go"
	"github.com/tollgate-rs/tollgate/clients/go/internal/realservice"
	tollgateulule "github.com/tollgate-rs/tollgate/clients/go/ulule"
)

func serve(t testing.TB, arguments ...string) *tollgate.Client {
	t.Helper()
	arguments = append([]string{"--limit", "1/1s", "--caller-quotas"}, arguments...)
	return client(t, tollgate.Options{URL: realservice.Start(t, arguments...).URL, Timeout: 30 * time.Second})
}

func client(t testing.TB, options tollgate.Options) *tollgate.Client {
	t.Helper()
	options.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	tg, err := tollgate.New(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tg.Close)
	return tg
}

// The suite that limiter's own stores pass, unmodified from its module. Its concurrent part makes 250,000 requests, which
// take minutes with an unoptimized service, so it runs only where all suites do: with `cargo xtask test --all`, or with
// TOLLGATE_ALL_SUITES=1.
func TestTheSuiteOfLimiter(t *testing.T) {
	t.Run("sequential in memory", func(t *testing.T) {
		tests.TestStoreSequentialAccess(t, tollgateulule.NewStore(serve(t), "sequential"))
	})
	t.Run("sequential in Redis", func(t *testing.T) {
		tests.TestStoreSequentialAccess(t, tollgateulule.NewStore(serve(t, "--store", "redis://"+realservice.Redis(t), "--store-timeout", "10s"), "sequential"))
	})
	t.Run("concurrent in memory", func(t *testing.T) {
		if os.Getenv("TOLLGATE_ALL_SUITES") == "" {
			t.Skip("set TOLLGATE_ALL_SUITES=1 to make 250,000 requests")
		}
		tg := serve(t)
		tests.TestStoreConcurrentAccess(t, tollgateulule.NewStore(tg, "concurrent"))
		if len(tg.Failures()) != 0 {
			t.Errorf("failures %v", tg.Failures())
		}
	})
}

func TestIncrementGivesBackAndResetForgets(t *testing.T) {
	store := tollgateulule.NewStore(serve(t), "limiter")
	ctx, rate := context.Background(), limiter.Rate{Limit: 10, Period: time.Hour}
	steps := []struct {
		name      string
		call      func() (limiter.Context, error)
		remaining int64
		reached   bool
	}{
		{"add 4", func() (limiter.Context, error) { return store.Increment(ctx, "k", 4, rate) }, 6, false},
		{"give 1 back", func() (limiter.Context, error) { return store.Increment(ctx, "k", -1, rate) }, 7, false},
		{"nothing", func() (limiter.Context, error) { return store.Increment(ctx, "k", 0, rate) }, 7, false},
		{"up to the limit", func() (limiter.Context, error) { return store.Increment(ctx, "k", 7, rate) }, 0, false},
		{"past the limit", func() (limiter.Context, error) { return store.Get(ctx, "k", rate) }, 0, true},
		{"give more back than is used", func() (limiter.Context, error) { return store.Increment(ctx, "k", -99, rate) }, 10, false},
		{"another key", func() (limiter.Context, error) { return store.Get(ctx, "other", rate) }, 9, false},
		{"reset", func() (limiter.Context, error) { return store.Reset(ctx, "other", rate) }, 10, false},
	}
	for _, step := range steps {
		got, err := step.call()
		if err != nil || got.Remaining != step.remaining || got.Reached != step.reached || got.Limit != 10 {
			t.Errorf("%s: got %+v, %v", step.name, got, err)
		}
	}
	if got, err := store.Get(ctx, "k", limiter.Rate{Limit: 1, Period: time.Microsecond}); err == nil {
		t.Errorf("got %+v", got)
	}
}

// The service refuses all of these, and an open client would say that nothing is reached.
func TestWhatTheServiceRefusesIsAnError(t *testing.T) {
	tg := serve(t)
	store := tollgateulule.NewStore(tg, "limiter")
	const most = 3653 * 24 * time.Hour
	ctx := context.Background()
	if got, err := store.Get(ctx, "k", limiter.Rate{Limit: 1<<40 - 1, Period: most}); err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
	for name, call := range map[string]func() (limiter.Context, error){
		"no key": func() (limiter.Context, error) { return store.Get(ctx, "", limiter.Rate{Limit: 1, Period: time.Hour}) },
		"a high limit": func() (limiter.Context, error) {
			return store.Get(ctx, "k", limiter.Rate{Limit: 1 << 40, Period: time.Hour})
		},
		"a long period": func() (limiter.Context, error) {
			return store.Get(ctx, "k", limiter.Rate{Limit: 1, Period: most + time.Hour})
		},
	} {
		if got, err := call(); err == nil {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	if len(tg.Failures()) != 0 {
		t.Errorf("failures %v", tg.Failures())
	}
}

func TestWithoutAnAnswerTheClientDecides(t *testing.T) {
	tg := client(t, tollgate.Options{URL: "http://127.0.0.1:1", Names: map[string]tollgate.OnFailure{"login": tollgate.Closed}})
	ctx, rate := context.Background(), limiter.Rate{Limit: 10, Period: time.Hour}
	if got, err := tollgateulule.NewStore(tg, "search").Get(ctx, "k", rate); err != nil || got.Reached || got.Limit != 10 {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := tollgateulule.NewStore(tg, "login").Get(ctx, "k", rate); !errors.Is(err, tollgateulule.ErrNoAnswer) {
		t.Errorf("got %v", err)
	}
	if _, err := tollgateulule.NewStore(tg, "search").Reset(ctx, "k", rate); !errors.Is(err, tollgateulule.ErrNoAnswer) {
		t.Errorf("got %v", err)
	}
}

func TestMain(m *testing.M) {
	realservice.Main(m, func(tg *tollgate.Client) http.Handler {
		gin.SetMode(gin.TestMode)
		router := gin.New()
		store := tollgateulule.NewStore(tg, "app")
		router.Use(ginlimiter.NewMiddleware(limiter.New(store, limiter.Rate{Limit: 20, Period: time.Hour})))
		router.GET("/items/:id", func(c *gin.Context) { c.String(http.StatusOK, "ok") })
		return router
	})
}

// Two processes of an app, with the gin middleware of limiter, ask two services, which count in one Redis.
func TestFiftyParallelRequestsToTwoProcessesAdmitTwenty(t *testing.T) {
	redis := realservice.Redis(t)
	var apps []string
	for range 2 {
		service := realservice.StartOn(t, redis, "--limit", "1/1s", "--caller-quotas")
		apps = append(apps, realservice.StartApp(t, service))
	}
	if admitted, denied := realservice.Load(t, 50, apps...); admitted != 20 || denied != 30 {
		t.Errorf("%d admitted, %d denied", admitted, denied)
	}
}

func ExampleNewStore() {
	tg, err := tollgate.New(tollgate.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tg.Close()
	rate, err := limiter.NewRateFromFormatted("5-M")
	if err != nil {
		fmt.Println(err)
		return
	}
	router := gin.New()
	router.Use(ginlimiter.NewMiddleware(limiter.New(tollgateulule.NewStore(tg, "app"), rate)))
}
