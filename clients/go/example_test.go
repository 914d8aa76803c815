package tollgate_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"time"

	tollgate "github.com/tollgate-rs/tollgate/clients/go"
)

func Example() {
	tg, err := tollgate.New(tollgate.Options{
		URL:   "http://127.0.0.1:8080",
		Names: map[string]tollgate.OnFailure{"login": tollgate.Closed},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer tg.Close()

	decision, err := tg.Check(context.Background(), "login", tollgate.Attributes{"user": "alice"})
	switch wait, ok := decision.RetryAfter.Get(); {
	case err != nil:
		log.Fatal(err)
	case decision.Allowed:
		fmt.Println("welcome")
	case ok:
		fmt.Println("retry in", wait)
	default:
		fmt.Println("denied:", decision.Reason, decision.Failure)
	}
}

func ExampleClient_Middleware() {
	tg, err := tollgate.New(tollgate.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer tg.Close()

	search := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "found")
	})
	limit := tg.Middleware(tollgate.Named("search"), tollgate.ByIP(), tollgate.Headers())
	http.Handle("GET /search", limit(search))
	log.Fatal(http.ListenAndServe("127.0.0.1:3000", nil))
}

func ExampleClient_Hold() {
	tg, err := tollgate.New(tollgate.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer tg.Close()

	export := func(ctx context.Context) (err error) {
		// An estimate of 1000 rows. If the export fails, everything is given back.
		hold, err := tg.Hold(ctx, "export", tollgate.Attributes{"user": "alice"}, tollgate.Cost(1000))
		if err != nil {
			return err
		}
		defer hold.CloseOnError(&err)
		if !hold.Allowed {
			return fmt.Errorf("no room: %s", hold.Reason)
		}
		rows := int64(400) // the work, under hold.Context()
		_, err = hold.Settle(ctx, rows)
		return err
	}
	fmt.Println(export(context.Background()))
}

func ExampleClient_Wait() {
	tg, err := tollgate.New(tollgate.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer tg.Close()

	// A budget of calls to another API, shared by all processes: up to ten seconds until there is room.
	decision, err := tg.Wait(context.Background(), 10*time.Second, "partner-api", nil)
	if err == nil && decision.Allowed {
		fmt.Println("call the API")
	}
}

func ExampleClient_Count() {
	tg, err := tollgate.New(tollgate.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer tg.Close()

	// Limits of the program, not of the service's policies; the service needs --caller-quotas.
	count, err := tg.Count(context.Background(), tollgate.CountRequest{
		Policy:     "downloads",
		Attributes: tollgate.Attributes{"user": "alice"},
		Quotas:     []string{"5/1m@first_hit"},
	})
	if err == nil && count.Allowed.Or(false) {
		fmt.Println("used", count.Used.Or(0))
	}
}
