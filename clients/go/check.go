package tollgate

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// CheckOption is an option of [Client.Check], [Client.Peek] and [Client.Wait].
type CheckOption interface {
	ofCheck(*checkCall)
}

// CallOption is an option of checks and of reservations.
type CallOption interface {
	CheckOption
	ReserveOption
}

type costOption int64

// Cost is what the request uses, from 0 to 2^32-1. Default: 1. A check at the cost 0 charges nothing. The cost of a
// reservation is an estimate.
func Cost(units int64) CallOption {
	return costOption(units)
}

func (c costOption) ofCheck(call *checkCall) { call.cost = int64(c) }

type checkCall struct {
	cost int64
}

// Check charges the cost of a request if every quota has room, and returns the decision.
//
// name says what the request does, such as "search". It is sent as the attribute "action", which policies match. Write
// it yourself, or use the template of the matched route; never use the path of a request.
//
// # Errors
//
// If the name, an attribute or the cost is wrong, or if ctx was cancelled. A denial is no error, and neither is a
// service without an answer. The decision that comes with an error admits nothing.
func (c *Client) Check(ctx context.Context, name string, attributes Attributes, options ...CheckOption) (Decision, error) {
	return c.decide(ctx, "/v1/check", name, attributes, options)
}

// Peek answers as a check would, and charges nothing.
//
// # Errors
//
// As for [Client.Check].
func (c *Client) Peek(ctx context.Context, name string, attributes Attributes, options ...CheckOption) (Decision, error) {
	return c.decide(ctx, "/v1/peek", name, attributes, options)
}

// Wait repeats a check until it is admitted, for budgets of outgoing calls. It sleeps exactly as long as the service
// says, but at least 1 ms. If the next attempt would be after the timeout, or after the deadline of ctx, or if waiting does not help, it
// returns the denial at once.
//
// # Errors
//
// As for [Client.Check], and if the timeout is negative. If ctx is cancelled while Wait sleeps, it returns the error of
// ctx; nothing was charged.
func (c *Client) Wait(ctx context.Context, timeout time.Duration, name string, attributes Attributes, options ...CheckOption) (Decision, error) {
	if timeout < 0 {
		return Decision{}, fmt.Errorf("tollgate: the timeout %v of a wait is negative", timeout)
	}
	end := time.Now().Add(timeout)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
		end = deadline
	}
	for {
		decision, err := c.decide(ctx, "/v1/check", name, attributes, options)
		if err != nil || decision.Allowed || decision.Failure != "" {
			return decision, err
		}
		pause, ok := decision.RetryAfter.Get()
		if !ok && decision.Reason == ReasonInFlight {
			pause, ok = time.Second, true
		}
		pause = max(pause, time.Millisecond)
		if !ok || time.Now().Add(pause).After(end) {
			return decision, nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return Decision{}, ctx.Err()
		}
	}
}

func (c *Client) decide(ctx context.Context, path, name string, attributes Attributes, options []CheckOption) (Decision, error) {
	if err := attributes.validFor(name); err != nil {
		return Decision{}, err
	}
	call := checkCall{cost: 1}
	for _, option := range options {
		option.ofCheck(&call)
	}
	if err := validCost(call.cost); err != nil {
		return Decision{}, err
	}
	var to decisionReply
	asked := request{path: path, body: call.body(name, attributes), attributes: attributes}
	got, failed, err := c.exchange(ctx, asked, &to)
	if err != nil {
		return Decision{}, err
	}
	if failed != nil {
		return c.answerOf(name, failed), nil
	}
	return to.of(got), nil
}

func (c checkCall) body(name string, attributes Attributes) []byte {
	body := appendAttributes(append(make([]byte, 0, 128), `{"attributes":`...), name, attributes)
	if c.cost != 1 {
		body = strconv.AppendInt(append(body, `,"cost":`...), c.cost, 10)
	}
	return append(body, '}')
}

// answerOf is the decision of the client itself. If the service refuses because its store is away or full, its policy is
// closed, and an open client must not admit what the policy refuses.
func (c *Client) answerOf(name string, failed *failure) Decision {
	return Decision{
		Allowed: !failed.closed && c.OnFailureOf(name) == Open,
		Source:  SourceClient,
		Failure: failed.kind,
	}
}

func validCost(units int64) error {
	if units < 0 || units > maxCost {
		return fmt.Errorf("tollgate: the cost %d is not from 0 to %d", units, int64(maxCost))
	}
	return nil
}
