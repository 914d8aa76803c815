// The app on gin, with ulule/limiter as the usual limiter.
package main

import (
	"log"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/ulule/limiter/v3"
	middleware "github.com/ulule/limiter/v3/drivers/middleware/gin"
	"github.com/ulule/limiter/v3/drivers/store/redis"

	tollgate "github.com/tollgate-rs/tollgate/clients/go"
	tollgategin "github.com/tollgate-rs/tollgate/clients/go/gin"
	"github.com/tollgate-rs/tollgate/clients/go/internal/apps"
	tollgateulule "github.com/tollgate-rs/tollgate/clients/go/ulule"
)

func main() {
	client := apps.Client()
	limit := tollgategin.New(client, tollgate.Named("search"), tollgate.By("user", apps.UserOf), tollgate.Headers())
	store, err := redis.NewStore(apps.Redis())
	if err != nil {
		log.Fatal(err)
	}
	rate := limiter.Rate{Period: time.Hour, Limit: 1_000_000_000}
	user := func(c *gin.Context) string { return c.GetHeader("X-User") }
	usual := middleware.NewMiddleware(limiter.New(store, rate), middleware.WithKeyGetter(user))

	counted := limiter.Rate{Period: time.Hour, Limit: apps.Limit()}
	adapter := middleware.NewMiddleware(limiter.New(tollgateulule.NewStore(client, "adapter"), counted), middleware.WithKeyGetter(user))

	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	ok := func(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"ok": true}) }
	router.GET("/free", ok)
	router.GET("/limited", limit, ok)
	router.GET("/bare", gin.WrapH(apps.Bare()))
	router.GET("/usual", usual, ok)
	router.GET("/adapter", adapter, ok)
	router.GET("/failures", gin.WrapH(apps.Failures(client)))
	apps.Serve(router)
}
