// Package tollgatetest has a fake of the service for tests of applications. It counts nothing: the test says which names
// it denies, and reads which calls came.
//
// To test limits themselves, start the real service with --test-clock, whose clock the test moves; docs/test-your-app.md
// in the repository shows both.
package tollgatetest

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	tollgate "github.com/tollgate-rs/tollgate/clients/go"
)

// A request of a client is far shorter.
const maxBody = 1 << 20

// What a denied count says is used: the largest figure of the service.
const mostUsed = 1<<40 - 1

// Service answers as a Tollgate service would that admits everything, except what the test denies.
type Service struct {
	server *httptest.Server

	mutex   sync.Mutex
	denials map[string]time.Duration
	failing bool
	calls   []Call
}

// Call is a request that came.
type Call struct {
	// Operation is check, peek, reserve, renew, settle or count, also for each count of a batch.
	Operation string
	// Name is the name of a check, or the policy of a count; empty for renewals and settlements.
	Name string
	// Attributes are those of the caller, without the name.
	Attributes map[string]any
	// Cost is 1 if the caller gave none.
	Cost int64
}

// New starts a fake service, which ends with the test.
func New(t testing.TB) *Service {
	t.Helper()
	service := &Service{denials: map[string]time.Duration{}}
	service.server = httptest.NewServer(http.HandlerFunc(service.answer))
	t.Cleanup(service.server.Close)
	return service
}

// URL is the address of the service.
func (s *Service) URL() string {
	return s.server.URL
}

// Client returns a client of the service, which is closed with the test. Its timeout is generous, because a test may run
// on a busy machine. Its log is discarded.
func (s *Service) Client(t testing.TB) *tollgate.Client {
	t.Helper()
	client, err := tollgate.New(tollgate.Options{
		URL:     s.URL(),
		Timeout: 10 * time.Second,
		Logger:  slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// Deny denies all further calls of this name, with this time to wait. With 0, waiting does not help. Of counts, only adding
// and reading are denied.
func (s *Service) Deny(name string, retryAfter time.Duration) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.denials[name] = retryAfter
}

// Allow admits this name again.
func (s *Service) Allow(name string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	delete(s.denials, name)
}

// Fail lets all further calls fail with status 500, or work again.
func (s *Service) Fail(failing bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.failing = failing
}

// Calls returns the calls that came so far, in their order.
func (s *Service) Calls() []Call {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return append([]Call(nil), s.calls...)
}

type requestBody struct {
	Attributes map[string]any `json:"attributes"`
	Policy     string         `json:"policy"`
	Quotas     []string       `json:"quotas"`
	Operation  string         `json:"operation"`
	Block      string         `json:"block"`
	Cost       *int64         `json:"cost"`
	Requests   []requestBody  `json:"requests"`
}

func (s *Service) answer(w http.ResponseWriter, r *http.Request) {
	var body requestBody
	if err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(&body); err != nil {
		reply(w, http.StatusBadRequest, map[string]any{"status": 400, "detail": err.Error()})
		return
	}
	operation := strings.TrimPrefix(r.URL.Path, "/v1/")
	if operation != "count/batch" {
		status, answer := s.one(operation, body)
		reply(w, status, answer)
		return
	}
	counts := make([]any, len(body.Requests))
	for index, counted := range body.Requests {
		status, answer := s.one("count", counted)
		if status == http.StatusInternalServerError {
			reply(w, status, answer)
			return
		}
		counts[index] = answer
	}
	reply(w, http.StatusOK, map[string]any{"counts": counts})
}

// one notes a call and answers it.
func (s *Service) one(operation string, body requestBody) (int, map[string]any) {
	call := Call{Operation: operation, Name: body.Policy, Attributes: body.Attributes, Cost: 1}
	if name, ok := body.Attributes["action"].(string); ok && call.Name == "" {
		call.Name = name
		delete(body.Attributes, "action")
	}
	if body.Cost != nil {
		call.Cost = *body.Cost
	}
	s.mutex.Lock()
	s.calls = append(s.calls, call)
	retryAfter, denied := s.denials[call.Name]
	// Other counts ask for no room.
	asks := operation != "count" || body.Operation == "" || body.Operation == "add" || body.Operation == "get"
	denied = denied && asks
	failing := s.failing
	s.mutex.Unlock()
	if failing {
		return http.StatusInternalServerError, map[string]any{"status": 500, "detail": "the test lets calls fail"}
	}
	decision := map[string]any{"allowed": !denied, "policy": call.Name, "source": "store"}
	if denied {
		if operation != "count" {
			decision["reason"] = "quota_exceeded"
		}
		if retryAfter > 0 {
			decision["retry_after_ms"] = retryAfter.Milliseconds()
		}
	}
	status := http.StatusOK
	switch call.Operation {
	case "check", "reserve":
		if denied {
			status = http.StatusTooManyRequests
		} else if call.Operation == "reserve" {
			decision["hold"], decision["expires_after_ms"] = "hold", time.Minute.Milliseconds()
		}
	case "peek":
	case "renew":
		decision = map[string]any{"status": "renewed", "expires_after_ms": time.Minute.Milliseconds()}
	case "settle":
		decision = map[string]any{"status": "settled", "quotas": []any{}}
	case "count":
		// Stores of other limiters read only the figures.
		decision["used"] = 0
		if denied {
			decision["used"] = mostUsed
		}
		if body.Block != "" {
			decision["blocked"] = denied
			if after, known := decision["retry_after_ms"]; known {
				decision["block_after_ms"] = after
			}
		}
		if len(body.Quotas) == 0 || !asks {
			delete(decision, "allowed")
		}
	default:
		status, decision = http.StatusNotFound, map[string]any{"status": 404, "detail": "the fake has no such path"}
	}
	return status, decision
}

func reply(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}
