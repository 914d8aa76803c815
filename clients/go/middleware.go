package tollgate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"unicode/utf8"
)

// The service refuses attributes of more than 1,024 bytes, and what it refuses is admitted by clients that are open. So
// a client must not choose a longer key: above this length, its digest is sent.
const maxKey = 256

// KeyFunc returns what a request is counted by, such as the id of its user. The key functions of httprate have this
// type. An error or an empty key is a mistake of the app, and the request is answered 500: it cannot be counted.
type KeyFunc func(*http.Request) (string, error)

// LimitOption is an option of [Client.Middleware] and [Client.Limiter].
type LimitOption func(*Limiter)

// By counts requests by a key, which is sent as this attribute. Policies name it in their key. Give several to send
// several attributes. Without one, requests are counted [ByIP]. The attribute "ip" has to be an address.
func By(attribute string, key KeyFunc) LimitOption {
	return func(l *Limiter) {
		if key == nil {
			panic(fmt.Sprintf("tollgate: the key of the attribute %q is nil", attribute))
		}
		l.keys = append(l.keys, limitKey{attribute: attribute, key: key})
	}
}

// ByKey counts requests by a key, which is sent as the attribute "key".
func ByKey(key KeyFunc) LimitOption {
	return By("key", key)
}

// ByIP counts requests by the address of the connection, which is sent as the attribute "ip". The service counts an IPv6
// /64 as one client. Behind a proxy, this is the proxy: use [By] with a function that reads the header which your proxy
// sets, and returns one address of it.
func ByIP() LimitOption {
	return By("ip", func(r *http.Request) (string, error) {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil {
			return "", fmt.Errorf("the connection has no IP address")
		}
		return peer.Addr().String(), nil
	})
}

// Named gives all requests this name. Without it, the name is the template of the route, such as "GET /items/{id}", and
// the middleware has to be around the handler of a route.
func Named(name string) LimitOption {
	return func(l *Limiter) {
		if err := Attributes(nil).validFor(name); err != nil {
			panic(err.Error())
		}
		l.name = func(*http.Request) string { return name }
	}
}

// NamedBy takes the name from a function of the request. It must return names that you wrote, and never a path: each new
// name starts new counters.
func NamedBy(name func(*http.Request) string) LimitOption {
	return func(l *Limiter) { l.name = name }
}

// CostOf takes the cost from a function of the request. Default: 1.
func CostOf(cost func(*http.Request) int64) LimitOption {
	return func(l *Limiter) { l.cost = cost }
}

// Headers passes the limit headers of the service's answer on, also on admitted requests. The policy chooses their
// format.
func Headers() LimitOption {
	return func(l *Limiter) { l.headers = true }
}

// Denied answers denied requests in your own way. Retry-After, Cache-Control and the limit headers are set before.
// status is what the middleware would answer.
func Denied(answer func(w http.ResponseWriter, r *http.Request, decision Decision, status int)) LimitOption {
	return func(l *Limiter) { l.denied = answer }
}

// Limiter decides about requests of a server. [Client.Middleware] is a Limiter in front of a handler; use it directly
// where a framework has no [net/http.Handler].
type Limiter struct {
	client  *Client
	keys    []limitKey
	name    func(*http.Request) string
	cost    func(*http.Request) int64
	headers bool
	denied  func(http.ResponseWriter, *http.Request, Decision, int)
}

type limitKey struct {
	attribute string
	key       KeyFunc
}

// Middleware checks each request, and answers those that are denied: 429 and a problem (RFC 9457) with Retry-After, or
// 503 if the client denies because the service does not answer.
//
//	limit := tg.Middleware(tollgate.Named("search"), tollgate.ByIP(), tollgate.Headers())
//	http.Handle("GET /search", limit(search))
//
// The policies decide which attributes count, and so whether the requests of all clients are counted together.
//
// # Panics
//
// As [Client.Limiter] does.
func (c *Client) Middleware(options ...LimitOption) func(http.Handler) http.Handler {
	limiter := c.Limiter(options...)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if limiter.Admit(w, r, r.Pattern) {
				next.ServeHTTP(w, r)
			}
		})
	}
}

// Limiter returns what decides inside of a middleware.
//
// # Panics
//
// If an option is wrong, as [http.ServeMux.Handle] does: [By] with the attribute "action", with a name that the service
// refuses, or twice with the same one, and [Named] with an empty name or one of more than 1,024 bytes.
func (c *Client) Limiter(options ...LimitOption) *Limiter {
	limiter := &Limiter{client: c, denied: WriteDenial}
	for _, option := range options {
		option(limiter)
	}
	if len(limiter.keys) == 0 {
		ByIP()(limiter)
	}
	if err := limiter.valid(); err != nil {
		panic(err.Error())
	}
	return limiter
}

func (l *Limiter) valid() error {
	attributes := make(Attributes, len(l.keys))
	for _, from := range l.keys {
		if _, twice := attributes[from.attribute]; twice {
			return fmt.Errorf("tollgate: the attribute %q has two keys", from.attribute)
		}
		attributes[from.attribute] = ""
	}
	return attributes.validFor("any")
}

// Named says whether an option names the checks, so that Admit needs no route.
func (l *Limiter) Named() bool {
	return l.name != nil
}

// Admit says whether a request may pass. If not, it has written the answer. route is the template of the matched route,
// which names the check if no option does.
func (l *Limiter) Admit(w http.ResponseWriter, r *http.Request, route string) bool {
	name := route
	if l.name != nil {
		name = l.name(r)
	}
	if name == "" {
		l.wrong(w, r, errors.New("the request has no name: use tollgate.Named, or put the middleware around the handler of a route"))
		return false
	}
	attributes := make(Attributes, len(l.keys))
	for _, from := range l.keys {
		key, err := from.key(r)
		if err != nil || key == "" {
			// The error may have the key in it.
			l.wrong(w, r, fmt.Errorf("there is no key for the attribute %q", from.attribute))
			return false
		}
		if from.attribute == "ip" {
			// The service refuses what is no address, and then a client that is open would admit the request.
			address, err := netip.ParseAddr(key)
			if err != nil {
				l.wrong(w, r, errors.New(`the key for the attribute "ip" is no address`))
				return false
			}
			key = address.Unmap().WithZone("").String()
		}
		attributes[from.attribute] = BoundedKey(key)
	}
	var options []CheckOption
	if l.cost != nil {
		options = append(options, Cost(l.cost(r)))
	}
	decision, err := l.client.Check(withTraceOf(r), name, attributes, options...)
	if err != nil {
		l.wrong(w, r, err)
		return false
	}
	if l.headers {
		maps.Copy(w.Header(), decision.Header)
	}
	if decision.Allowed {
		return true
	}
	status := denialStatus(decision)
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	if wait, ok := retryAfter(decision); ok {
		header.Set("Retry-After", strconv.FormatInt(wait, 10))
	} else {
		header.Del("Retry-After")
	}
	l.denied(w, r, decision, status)
	return false
}

// wrong answers a request that cannot be checked: its client is gone, or the app is wrong.
func (l *Limiter) wrong(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		writePlainProblem(w, http.StatusServiceUnavailable, "the request was cancelled")
		return
	}
	l.client.failures.logger.ErrorContext(r.Context(), "tollgate: a request cannot be checked, and is answered 500",
		slog.String("error", err.Error()))
	writePlainProblem(w, http.StatusInternalServerError, "the request cannot be checked against its limits")
}

func writePlainProblem(w http.ResponseWriter, status int, detail string) {
	writeProblem(w, problemBody{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail})
}

// WriteDenial answers with a problem (RFC 9457), as the middleware does by default.
func WriteDenial(w http.ResponseWriter, _ *http.Request, decision Decision, status int) {
	if decision.Failure != "" {
		writeProblem(w, problemBody{Title: "Rate limiter unavailable", Status: status})
		return
	}
	body := problemBody{
		Type:   "https://iana.org/assignments/http-problem-types#quota-exceeded",
		Title:  "Quota exceeded",
		Status: status,
		Detail: "waiting does not help",
	}
	if wait, ok := retryAfter(decision); ok {
		body.Detail = "retry in " + strconv.FormatInt(wait, 10) + " s"
	}
	if decision.Policy != "" {
		body.ViolatedPolicies = []string{decision.Policy}
	}
	writeProblem(w, body)
}

type problemBody struct {
	Type             string   `json:"type,omitempty"`
	Title            string   `json:"title"`
	Status           int      `json:"status"`
	Detail           string   `json:"detail,omitempty"`
	ViolatedPolicies []string `json:"violated-policies,omitempty"`
}

func writeProblem(w http.ResponseWriter, problem problemBody) {
	body, _ := json.Marshal(problem)
	header := w.Header()
	header.Set("Content-Type", "application/problem+json")
	header.Set("Cache-Control", "no-store")
	header.Del("Content-Length")
	w.WriteHeader(problem.Status)
	_, _ = w.Write(append(body, '\n'))
}

// denialStatus is the status of the service's answer if it is one of an error: a policy can replace 429.
func denialStatus(decision Decision) int {
	if decision.Failure != "" {
		return http.StatusServiceUnavailable
	}
	if decision.Status >= 400 && decision.Status <= 599 {
		return decision.Status
	}
	return http.StatusTooManyRequests
}

// retryAfter is the time to wait in whole seconds, rounded up and at least 1.
func retryAfter(decision Decision) (int64, bool) {
	if wait, ok := decision.RetryAfter.Get(); ok {
		return max(1, int64(math.Ceil(wait.Seconds()))), true
	}
	return 1, decision.Reason == ReasonInFlight
}

// BoundedKey returns a key that the service accepts, whatever a client sends: one above 256 bytes, or one that is not
// UTF-8, becomes its SHA-256. The middleware does this with its keys.
func BoundedKey(key string) string {
	if len(key) <= maxKey && utf8.ValidString(key) {
		return key
	}
	digest := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(digest[:])
}

// withTraceOf passes the trace context of a request on, unless the context has one already.
func withTraceOf(r *http.Request) context.Context {
	ctx := r.Context()
	parent := r.Header.Get(traceParent)
	if parent == "" || ctx.Value(traceKey{}) != nil {
		return ctx
	}
	return WithTrace(ctx, parent, r.Header.Get(traceState))
}
