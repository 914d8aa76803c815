package tollgateulule_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	libredis "github.com/redis/go-redis/v9"
	"github.com/ulule/limiter/v3"
	ginlimiter "github.com/ulule/limiter/v3/drivers/middleware/gin"
	redisstore "github.com/ulule/limiter/v3/drivers/store/redis"

	tollgate "github.com/tollgate-rs/tollgate/clients/go"
	"github.com/tollgate-rs/tollgate/clients/go/internal/realservice"
	tollgateulule "github.com/tollgate-rs/tollgate/clients/go/ulule"
)

// What a middleware adds to a request, over one Redis, by one caller and by 32 at once:
//
//	TOLLGATE_BINARY=.../release/tollgate go test -run '^$' -bench Middleware -benchtime 20000x
//
// bare is the request that the middleware makes, by a plain client of net/http that keeps connections and reads the
// answer without decoding it.
func BenchmarkMiddleware(b *testing.B) {
	gin.SetMode(gin.ReleaseMode)
	address := realservice.Redis(b)
	service := realservice.StartOn(b, address, "--limit", "1000000000/1h", "--key", "ip", "--caller-quotas")
	tg, err := tollgate.New(tollgate.Options{URL: service.URL, Timeout: 10 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if failures := tg.Failures(); len(failures) != 0 {
			b.Errorf("failures %v", failures)
		}
	})
	rate := limiter.Rate{Limit: 1_000_000_000, Period: time.Hour}
	client := libredis.NewClient(&libredis.Options{Addr: address, PoolSize: 64})
	b.Cleanup(func() { _ = client.Close() })
	store, err := redisstore.NewStore(client)
	if err != nil {
		b.Fatal(err)
	}
	served := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	withGin := func(middleware gin.HandlerFunc) http.Handler {
		router := gin.New()
		router.Use(middleware)
		router.GET("/", func(*gin.Context) {})
		return router
	}
	middlewares := []middleware{
		{"bare", bare(b, service.URL)},
		{"tollgate", tg.Middleware(tollgate.Named("search"))(served)},
		{"ulule", withGin(ginlimiter.NewMiddleware(limiter.New(store, rate)))},
		{"ulule-over-tollgate", withGin(ginlimiter.NewMiddleware(limiter.New(tollgateulule.NewStore(tg, "bench"), rate)))},
	}
	for _, callers := range []int{1, 32} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) { measure(b, middlewares, callers) })
	}
}

type middleware struct {
	name    string
	handler http.Handler
}

func bare(b *testing.B, url string) http.Handler {
	client := &http.Client{Transport: &http.Transport{
		MaxIdleConns: 64, MaxIdleConnsPerHost: 64, MaxConnsPerHost: 64, DisableCompression: true,
	}}
	body := []byte(`{"attributes":{"action":"search","ip":"192.0.2.1"}}`)
	return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		response, err := client.Post(url+"/v1/check", "application/json", bytes.NewReader(body))
		if err != nil {
			b.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	})
}

// measure sends b.N requests through each middleware, and reports percentiles and requests a second. The middlewares take
// turns, so that a busy machine slows all of them.
func measure(b *testing.B, middlewares []middleware, callers int) {
	const turn = 50
	took := make([][]time.Duration, len(middlewares))
	busy := make([]time.Duration, len(middlewares))
	var mutex sync.Mutex
	for sent := -turn * callers; sent < b.N; sent += turn * callers {
		for index, one := range middlewares {
			var all sync.WaitGroup
			start := time.Now()
			for range callers {
				all.Add(1)
				go func() {
					defer all.Done()
					own := send(b, one.handler, turn)
					mutex.Lock()
					defer mutex.Unlock()
					if sent >= 0 {
						took[index] = append(took[index], own...)
					}
				}()
			}
			all.Wait()
			if sent >= 0 {
				busy[index] += time.Since(start)
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	for index, one := range middlewares {
		slices.Sort(took[index])
		count := len(took[index])
		b.ReportMetric(float64(took[index][count/2].Microseconds()), one.name+"-p50-us")
		b.ReportMetric(float64(took[index][count*99/100].Microseconds()), one.name+"-p99-us")
		b.ReportMetric(float64(count)/busy[index].Seconds(), one.name+"-per-s")
	}
}

func send(b *testing.B, handler http.Handler, requests int) []time.Duration {
	took := make([]time.Duration, requests)
	for index := range took {
		answer, request := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)
		start := time.Now()
		handler.ServeHTTP(answer, request)
		took[index] = time.Since(start)
		if answer.Code != http.StatusOK {
			b.Errorf("status %d", answer.Code)
		}
	}
	return took
}
