package tollgategin_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	tollgate "github.com/tollgate-rs/tollgate/clients/go"
	tollgategin "github.com/tollgate-rs/tollgate/clients/go/gin"
	"github.com/tollgate-rs/tollgate/clients/go/internal/realservice"
	"github.com/tollgate-rs/tollgate/clients/go/tollgatetest"
)

func init() {
	gin.SetMode(gin.TestMode)
}

func userOf(c *gin.Context) (string, error) {
	return c.GetHeader("User"), nil
}

func ok(c *gin.Context) {
	c.String(http.StatusOK, "ok")
}

func TestMain(m *testing.M) {
	realservice.Main(m, func(tg *tollgate.Client) http.Handler {
		router := gin.New()
		router.GET("/items/:id", tollgategin.New(tg, tollgategin.By("user", userOf)), ok)
		return router
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

func TestRoutesNameChecksAndDenialsAbort(t *testing.T) {
	service := tollgatetest.New(t)
	tg := service.Client(t)
	router := gin.New()
	if err := router.SetTrustedProxies([]string{"192.0.2.0/24"}); err != nil {
		t.Fatal(err)
	}
	router.Use(tollgategin.New(tg, tollgategin.ByClientIP()))
	served := 0
	router.GET("/items/:id", func(*gin.Context) { served++ })
	ask := func(path string) *httptest.ResponseRecorder {
		request := httptest.NewRequest(http.MethodGet, path, nil)
		request.Header.Set("X-Forwarded-For", "198.51.100.7")
		answer := httptest.NewRecorder()
		router.ServeHTTP(answer, request)
		return answer
	}
	if answer := ask("/items/7"); answer.Code != 200 || served != 1 {
		t.Errorf("got %d", answer.Code)
	}
	if answer := ask("/nothing"); answer.Code != 404 {
		t.Errorf("got %d", answer.Code)
	}
	service.Deny("/items/:id", 1500*time.Millisecond)
	answer := ask("/items/8")
	if answer.Code != 429 || served != 1 || answer.Header().Get("Retry-After") != "2" {
		t.Errorf("got %d", answer.Code)
	}
	calls := service.Calls()
	if len(calls) != 2 || calls[0].Name != "/items/:id" || calls[0].Attributes["ip"] != "198.51.100.7" {
		t.Errorf("got %+v", calls)
	}
	named := gin.New()
	named.Use(tollgategin.New(tg, tollgate.Named("all")))
	service.Deny("all", 0)
	answer = httptest.NewRecorder()
	named.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/nothing", nil))
	if answer.Code != 429 {
		t.Errorf("got %d", answer.Code)
	}
}

func ExampleNew() {
	tg, err := tollgate.New(tollgate.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tg.Close()

	router := gin.New()
	limit := tollgategin.New(tg, tollgategin.By("user", userOf), tollgate.Headers())
	router.GET("/items/:id", limit, ok)
}
