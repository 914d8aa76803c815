// Package apps has what the apps of `cargo xtask prove clients` share. xtask/src/prove_clients/apps.rs says what an app
// answers.
package apps

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	tollgate "github.com/tollgate-rs/tollgate/clients/go"
)

// Client returns the client of an app.
func Client() *tollgate.Client {
	seconds, err := strconv.ParseFloat(os.Getenv("TIMEOUT"), 64)
	if err != nil {
		log.Fatal(err)
	}
	client, err := tollgate.New(tollgate.Options{Timeout: time.Duration(seconds * float64(time.Second))})
	if err != nil {
		log.Fatal(err)
	}
	return client
}

// Limit returns the limit of the adapter.
func Limit() int64 {
	limit, err := strconv.ParseInt(os.Getenv("LIMIT"), 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	return limit
}

// Redis returns a client of the Redis that the service counts in.
func Redis() *redis.Client {
	options, err := redis.ParseURL(os.Getenv("REDIS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	return redis.NewClient(options)
}

// Serve answers until the process is killed.
func Serve(handler http.Handler) {
	log.Fatal(http.ListenAndServe(os.Getenv("LISTEN"), handler))
}

// UserOf returns the user of a request.
func UserOf(r *http.Request) (string, error) {
	if user := r.Header.Get("X-User"); user != "" {
		return user, nil
	}
	return "", fmt.Errorf("the request has no X-User")
}

// Ok answers a request that was admitted.
func Ok(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"ok": true}`)
}

// Failures answers with the counts of a client.
func Failures(client *tollgate.Client) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(client.Failures())
	}
}

// Bare makes a plain request to the service, and then answers: what the client is measured against. It has no bound and
// no answer for failures. It keeps connections alive and parses the answer's JSON.
func Bare() http.HandlerFunc {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	url := os.Getenv("TOLLGATE_URL") + "/v1/check"
	return func(w http.ResponseWriter, r *http.Request) {
		attributes := map[string]string{"user": r.Header.Get("X-User"), "action": "search"}
		body, _ := json.Marshal(map[string]any{"attributes": attributes})
		request, err := http.NewRequestWithContext(r.Context(), http.MethodPost, url, bytes.NewReader(body))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		request.Header.Set("Content-Type", "application/json")
		answer, err := client.Do(request)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		var decision struct {
			Allowed bool `json:"allowed"`
		}
		if err := json.Unmarshal(text, &decision); err != nil || !decision.Allowed {
			http.Error(w, string(text), http.StatusInternalServerError)
			return
		}
		Ok(w, r)
	}
}
