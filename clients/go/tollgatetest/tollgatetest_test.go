package tollgatetest_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	tollgate "github.com/tollgate-rs/tollgate/clients/go"
	"github.com/tollgate-rs/tollgate/clients/go/tollgatetest"
)

// app is what a user's program would have.
func app(tg *tollgate.Client) http.Handler {
	limit := tg.Middleware(tollgate.Named("search"), tollgate.ByIP())
	return limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
}

func TestADeniedNameIsAnswered429(t *testing.T) {
	service := tollgatetest.New(t)
	handler := app(service.Client(t))
	ask := func() *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest("GET", "/", nil))
		return answer
	}

	if answer := ask(); answer.Code != 200 {
		t.Errorf("got %d", answer.Code)
	}
	service.Deny("search", 30*time.Second)
	if answer := ask(); answer.Code != 429 || answer.Header().Get("Retry-After") != "30" {
		t.Errorf("got %d", answer.Code)
	}
	service.Allow("search")
	service.Fail(true)
	if answer := ask(); answer.Code != 200 {
		t.Errorf("got %d", answer.Code)
	}
	calls := service.Calls()
	if len(calls) != 3 || calls[0].Name != "search" || calls[0].Attributes["ip"] != "192.0.2.1" || calls[0].Cost != 1 {
		t.Errorf("got %+v", calls)
	}
}

func TestTheFakeAnswersCountsAsTheServiceDoes(t *testing.T) {
	service := tollgatetest.New(t)
	tg, ctx := service.Client(t), context.Background()
	asked := tollgate.CountRequest{
		Policy: "p", Quotas: []string{"5/1m@first_hit"}, Attributes: tollgate.Attributes{"user": "alice"}, Block: "1m",
	}
	free, err := tg.Count(ctx, asked)
	if err != nil || free.Allowed != tollgate.Some(true) || free.Blocked != tollgate.Some(false) {
		t.Errorf("got %+v, %v", free, err)
	}
	service.Deny("p", 5*time.Second)
	blocked, err := tg.Count(ctx, asked)
	if err != nil || blocked.Allowed != tollgate.Some(false) || blocked.Blocked != tollgate.Some(true) ||
		blocked.BlockAfter != tollgate.Some(5*time.Second) {
		t.Errorf("got %+v, %v", blocked, err)
	}
	asked.Operation = tollgate.OperationReset
	reset, err := tg.Count(ctx, asked)
	if err != nil || reset.Allowed.Present || reset.Blocked != tollgate.Some(false) || reset.Used != tollgate.Some[int64](0) {
		t.Errorf("got %+v, %v", reset, err)
	}
}

func TestTheFakeAnswersEveryOperation(t *testing.T) {
	service := tollgatetest.New(t)
	tg, ctx := service.Client(t), context.Background()
	hold, err := tg.Hold(ctx, "export", nil, tollgate.Cost(5))
	if err != nil || !hold.Allowed {
		t.Fatalf("got %+v, %v", hold, err)
	}
	renewal, _ := hold.Renew(ctx)
	settlement, _ := hold.Settle(ctx, 3)
	if renewal.Status != tollgate.StatusRenewed || settlement.Status != tollgate.StatusSettled {
		t.Errorf("got %v, %v", renewal, settlement)
	}
	service.Deny("p", 0)
	key := tollgate.Attributes{"user": "alice"}
	denied, _ := tg.Count(ctx, tollgate.CountRequest{Policy: "p", Quotas: []string{"5/1m"}, Attributes: key})
	bare, _ := tg.Count(ctx, tollgate.CountRequest{Policy: "p", Window: "1m", Attributes: key})
	if denied.Allowed != tollgate.Some(false) || bare.Allowed.Present || bare.Failure != "" {
		t.Errorf("got %+v, %+v", denied, bare)
	}
	all, err := tg.CountAll(ctx, []tollgate.CountRequest{
		{Policy: "p", Quotas: []string{"5/1m"}, Attributes: key},
		{Policy: "q", Quotas: []string{"5/1m"}, Attributes: key, Cost: tollgate.Some[int64](2)},
	})
	if err != nil || all[0].Allowed != tollgate.Some(false) || all[1].Allowed != tollgate.Some(true) {
		t.Errorf("got %+v, %v", all, err)
	}
	calls := service.Calls()
	if last := calls[len(calls)-1]; last.Operation != "count" || last.Name != "q" || last.Cost != 2 {
		t.Errorf("got %+v", last)
	}
	if len(tg.Failures()) != 0 {
		t.Errorf("failures %v", tg.Failures())
	}
}
