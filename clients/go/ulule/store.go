// Package tollgateulule lets github.com/ulule/limiter/v3 count in a Tollgate service, exactly over all processes.
//
//	store := tollgateulule.NewStore(tg, "login")
//	instance := limiter.New(store, rate)
//
// The rest of a program stays: the limiter, its middleware for gin, net/http and fasthttp, and its rates. The service
// needs --caller-quotas and, with tokens, the scope count.
//
// # Without an answer
//
// If the client is open for the store's name, a count without an answer of the service is not Reached, and no error.
// This also protects the middleware of limiter, whose default error handler panics. If the client is closed, the error is
// [ErrNoAnswer]. A reset without an answer is always an error.
package tollgateulule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ulule/limiter/v3"

	tollgate "github.com/tollgate-rs/tollgate/clients/go"
)

// ErrNoAnswer says that the service did not answer, and that the client is closed for the name of the store.
var ErrNoAnswer = errors.New("tollgate: the service did not answer")

const (
	// What the service takes.
	maxLimit  = 1<<40 - 1
	maxPeriod = 3653 * 24 * time.Hour
)

// Store counts in a Tollgate service. It is a [limiter.Store].
type Store struct {
	client *tollgate.Client
	name   string
}

var _ limiter.Store = (*Store)(nil)

// NewStore returns a store whose counters belong to this name, as the prefix of limiter's own stores does. Programs with
// the same name, period and key share a counter. Write the name yourself: the service bounds their number.
func NewStore(client *tollgate.Client, name string) *Store {
	return &Store{client: client, name: name}
}

// Get counts one unit, also past the limit.
func (s *Store) Get(ctx context.Context, key string, rate limiter.Rate) (limiter.Context, error) {
	return s.Increment(ctx, key, 1, rate)
}

// Increment counts units, also past the limit. A negative count gives units back, but no more than the open window has.
func (s *Store) Increment(ctx context.Context, key string, count int64, rate limiter.Rate) (limiter.Context, error) {
	switch {
	case count == 0:
		return s.Peek(ctx, key, rate)
	case count < 0:
		return s.count(ctx, key, rate, tollgate.CountRequest{
			Operation: tollgate.OperationSubtract,
			Cost:      tollgate.Some(-count),
		})
	default:
		return s.count(ctx, key, rate, tollgate.CountRequest{Cost: tollgate.Some(count)})
	}
}

// Peek returns the state and changes nothing.
func (s *Store) Peek(ctx context.Context, key string, rate limiter.Rate) (limiter.Context, error) {
	return s.count(ctx, key, rate, tollgate.CountRequest{Operation: tollgate.OperationGet})
}

// Reset forgets the counter.
func (s *Store) Reset(ctx context.Context, key string, rate limiter.Rate) (limiter.Context, error) {
	return s.count(ctx, key, rate, tollgate.CountRequest{Operation: tollgate.OperationReset})
}

func (s *Store) count(ctx context.Context, key string, rate limiter.Rate, asked tollgate.CountRequest) (limiter.Context, error) {
	if key == "" {
		return limiter.Context{}, errors.New("tollgate: the key is empty")
	}
	if rate.Limit < 0 || rate.Limit > maxLimit {
		return limiter.Context{}, fmt.Errorf("tollgate: the limit %d is not from 0 to %d", rate.Limit, int64(maxLimit))
	}
	if rate.Period < time.Millisecond || rate.Period > maxPeriod || rate.Period%time.Millisecond != 0 {
		return limiter.Context{}, fmt.Errorf("tollgate: the period %v is not in whole milliseconds from 1 ms to %v", rate.Period, maxPeriod)
	}
	asked.Policy = s.name
	asked.Attributes = tollgate.Attributes{"key": tollgate.BoundedKey(key)}
	// limiter's own stores begin a window with the first request of a key.
	asked.Quotas = []string{fmt.Sprintf("%d/%dms@first_hit", rate.Limit, rate.Period.Milliseconds())}
	count, err := s.client.Count(ctx, asked)
	if err != nil {
		return limiter.Context{}, err
	}
	used, counted := count.Used.Get()
	if !counted && !count.Allowed.Or(false) {
		return limiter.Context{}, fmt.Errorf("%w (%s)", ErrNoAnswer, count.Failure)
	}
	return limiter.Context{
		Limit:     rate.Limit,
		Remaining: max(0, rate.Limit-used),
		Reset:     time.Now().Add(count.ResetAfter.Or(rate.Period)).Unix(),
		Reached:   used > rate.Limit,
	}, nil
}
