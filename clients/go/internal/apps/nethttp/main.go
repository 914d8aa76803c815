// The app on net/http, with httprate as the usual limiter.
package main

import (
	"net/http"
	"time"

	"github.com/go-chi/httprate"
	httprateredis "github.com/go-chi/httprate-redis"

	tollgate "github.com/tollgate-rs/tollgate/clients/go"
	"github.com/tollgate-rs/tollgate/clients/go/internal/apps"
)

func main() {
	client := apps.Client()
	limit := client.Middleware(tollgate.Named("search"), tollgate.By("user", apps.UserOf), tollgate.Headers())
	usual := httprate.Limit(1_000_000_000, time.Hour,
		httprate.WithKeyFuncs(apps.UserOf),
		httprateredis.WithRedisLimitCounter(&httprateredis.Config{Client: apps.Redis()}),
	)

	mux := http.NewServeMux()
	mux.HandleFunc("GET /free", apps.Ok)
	mux.Handle("GET /limited", limit(http.HandlerFunc(apps.Ok)))
	mux.Handle("GET /bare", apps.Bare())
	mux.Handle("GET /usual", usual(http.HandlerFunc(apps.Ok)))
	mux.Handle("GET /failures", apps.Failures(client))
	apps.Serve(mux)
}
