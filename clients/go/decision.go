package tollgate

import (
	"errors"
	"net/http"
	"strings"
	"time"
)

// Decision is the answer to a check. A denial is a decision too.
type Decision struct {
	// Allowed says whether the request may pass.
	Allowed bool
	// Status is the HTTP status of the service's answer, or 0 if the client answered by itself.
	Status int
	// Limit, Used and Remaining are the figures of the quota that decided; absent if none did. A limit in flight has
	// Held in place of Used.
	Limit, Used, Held, Remaining Optional[int64]
	// ResetAfter is the time until nothing is used, if nothing is charged until then.
	ResetAfter Optional[time.Duration]
	// RetryAfter is the exact time to wait after a denial. If a denial has none, waiting does not help, except with the
	// reason in_flight_exceeded: ask again after a second.
	RetryAfter Optional[time.Duration]
	// Reason says why the request is denied, such as quota_exceeded.
	Reason string
	// Policy and Quota decided; empty if none did.
	Policy, Quota string
	// Source says where the decision came from.
	Source Source
	// Failure is the kind of the failure if the service did not answer, and empty otherwise.
	Failure FailureKind
	// Header has the limit headers of the service's answer, such as RateLimit and X-RateLimit-Limit. The policy chooses
	// their format.
	Header http.Header
}

// Source says where a decision came from.
type Source string

const (
	// SourceStore are the counters.
	SourceStore Source = "store"
	// SourceLocal is an earlier denial that the service remembered.
	SourceLocal Source = "local"
	// SourceFallback is what the policy says for outages of the store.
	SourceFallback Source = "fallback"
	// SourceClient is the client, because the service did not answer.
	SourceClient Source = "client"
)

// ReasonInFlight is the reason of a denial because too many units are in flight.
const ReasonInFlight = "in_flight_exceeded"

// Optional is a value that an answer may lack.
type Optional[T any] struct {
	Value   T
	Present bool
}

// Some returns a value that is present.
func Some[T any](value T) Optional[T] {
	return Optional[T]{Value: value, Present: true}
}

// Get returns the value, and whether there is one.
func (o Optional[T]) Get() (T, bool) {
	return o.Value, o.Present
}

// Or returns the value, or this one if it is absent.
func (o Optional[T]) Or(absent T) T {
	if o.Present {
		return o.Value
	}
	return absent
}

// limitHeaders are those of the service's answer that servers pass on. net/http gives names in their canonical form.
func limitHeaders(all http.Header) http.Header {
	limits := http.Header{}
	for name, values := range all {
		if name == "Ratelimit" || name == "Retry-After" || strings.HasPrefix(name, "Ratelimit-") ||
			strings.HasPrefix(name, "X-Ratelimit-") {
			limits[name] = values
		}
	}
	return limits
}

// decisionReply is the answer to a check or a reservation.
type decisionReply struct {
	decision     Decision
	decided      bool
	hold         string
	expiresAfter Optional[time.Duration]
}

// read takes the fields that a client uses, and ignores others. An answer with two verdicts is none.
func (r *decisionReply) read(body []byte) error {
	if err := fieldsOf(body, r.field); err != nil {
		return err
	}
	if !r.decided {
		return errNoDecision
	}
	return nil
}

func (r *decisionReply) field(name, value []byte) error {
	decision := &r.decision
	switch string(name) {
	case "allowed":
		isBoolean := string(value) == "true" || string(value) == "false"
		if !isBoolean || r.decided {
			return errNoDecision
		}
		decision.Allowed, r.decided = string(value) == "true", true
		return nil
	case "limit":
		return readNumber(&decision.Limit, value)
	case "used":
		return readNumber(&decision.Used, value)
	case "held":
		return readNumber(&decision.Held, value)
	case "remaining":
		return readNumber(&decision.Remaining, value)
	case "reset_after_ms":
		return readMilliseconds(&decision.ResetAfter, value)
	case "retry_after_ms":
		return readMilliseconds(&decision.RetryAfter, value)
	case "reason":
		return readText(&decision.Reason, value)
	case "policy":
		return readText(&decision.Policy, value)
	case "quota":
		return readText(&decision.Quota, value)
	case "source":
		return readText(&decision.Source, value)
	case "hold":
		return readText(&r.hold, value)
	case "expires_after_ms":
		return readMilliseconds(&r.expiresAfter, value)
	}
	return nil
}

var errNoDecision = errors.New("tollgate: not one verdict")

// of returns the decision of an answer.
func (r *decisionReply) of(got answer) Decision {
	r.decision.Status = got.status
	r.decision.Header = limitHeaders(got.header)
	return r.decision
}

func optional[T any](value *T) Optional[T] {
	if value == nil {
		return Optional[T]{}
	}
	return Optional[T]{Value: *value, Present: true}
}

func text[T ~string](value *T) T {
	if value == nil {
		return ""
	}
	return *value
}

// milliseconds reads a time, which is at most what a time.Duration can hold.
func milliseconds(value *int64) Optional[time.Duration] {
	if value == nil {
		return Optional[time.Duration]{}
	}
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return Optional[time.Duration]{Value: time.Duration(max(0, min(*value, most))) * time.Millisecond, Present: true}
}
