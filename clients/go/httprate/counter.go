// Package tollgatehttprate lets github.com/go-chi/httprate count in a Tollgate service.
//
//	limit := httprate.LimitBy(100, time.Minute, key, httprate.WithLimitCounter(tollgatehttprate.NewCounter(tg, "api")))
//
// The service needs --caller-quotas and, with tokens, the scope count.
//
// # Not exact
//
// httprate reads the counter and then adds to it, in two steps. Requests to several processes that read before one of
// them adds are all admitted, whatever counts. [tollgate.Client.Middleware] decides in one step and is exact; it takes
// the same key functions.
//
// # Without an answer
//
// If the client is open for the counter's name, counts without an answer of the service are 0, so requests are admitted.
// If it is closed, they are errors; give httprate an error handler, because its own one answers 428.
package tollgatehttprate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-chi/httprate"

	tollgate "github.com/tollgate-rs/tollgate/clients/go"
)

// ErrNoAnswer says that the service did not answer, and that the client is closed for the name of the counter.
var ErrNoAnswer = errors.New("tollgate: the service did not answer")

// NewCounter returns a counter for [httprate.WithLimitCounter]. Limiters with the same name, window and key share counts.
// Write the name yourself: the service bounds their number.
func NewCounter(client *tollgate.Client, name string) httprate.LimitCounter {
	return &counter{client: client, name: name}
}

// The longest window that the service takes.
const maxWindow = 3653 * 24 * time.Hour

type counter struct {
	client *tollgate.Client
	name   string
	window atomic.Int64 // in nanoseconds
}

// Config takes the window of a limiter. The limit is not needed: httprate compares with it.
func (c *counter) Config(_ int, window time.Duration) {
	c.window.Store(int64(window))
}

func (c *counter) Increment(key string, currentWindow time.Time) error {
	return c.IncrementBy(key, currentWindow, 1)
}

func (c *counter) IncrementBy(key string, currentWindow time.Time, amount int) error {
	if amount < 0 {
		return fmt.Errorf("tollgate: the increment %d is negative", amount)
	}
	asked, err := c.counted(key, currentWindow)
	if err != nil {
		return err
	}
	asked.Cost = tollgate.Some(int64(amount))
	count, err := c.client.Count(context.Background(), asked)
	if err != nil {
		return err
	}
	_, err = c.used(count)
	return err
}

func (c *counter) Get(key string, currentWindow, previousWindow time.Time) (int, int, error) {
	var asked [2]tollgate.CountRequest
	for index, window := range []time.Time{currentWindow, previousWindow} {
		var err error
		if asked[index], err = c.counted(key, window); err != nil {
			return 0, 0, err
		}
		asked[index].Operation = tollgate.OperationGet
	}
	counts, err := c.client.CountAll(context.Background(), asked[:])
	if err != nil {
		return 0, 0, err
	}
	current, err := c.used(counts[0])
	if err != nil {
		return 0, 0, err
	}
	previous, err := c.used(counts[1])
	return current, previous, err
}

// counted names the counter of a window. It lives for two windows from its first unit, so that it is still there while
// its window is the previous one. The start of the window belongs to the key: httprate's windows are aligned to the year
// 1, and those of the service are not.
func (c *counter) counted(key string, window time.Time) (tollgate.CountRequest, error) {
	if key == "" {
		return tollgate.CountRequest{}, errors.New("tollgate: the key is empty")
	}
	length := time.Duration(c.window.Load())
	if length < time.Millisecond || length > maxWindow/2 || length%time.Millisecond != 0 {
		return tollgate.CountRequest{}, fmt.Errorf("tollgate: the window %v of httprate is not in whole milliseconds from 1 ms to %v",
			length, maxWindow/2)
	}
	return tollgate.CountRequest{
		Policy: c.name,
		Attributes: tollgate.Attributes{
			"key":    tollgate.BoundedKey(key),
			"window": strconv.FormatInt(window.UnixMilli(), 10),
		},
		Window: fmt.Sprintf("%dms@first_hit", 2*length.Milliseconds()),
	}, nil
}

// used returns the count, or what stands for it during an outage.
func (c *counter) used(count tollgate.Count) (int, error) {
	if used, ok := count.Used.Get(); ok {
		return int(min(used, math.MaxInt)), nil
	}
	if c.client.OnFailureOf(c.name) == tollgate.Closed {
		return 0, fmt.Errorf("%w (%s)", ErrNoAnswer, count.Failure)
	}
	return 0, nil
}
