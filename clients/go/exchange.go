package tollgate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

const (
	maxAnswer = 1 << 20
	// The service refuses longer requests.
	maxRequest = 64 << 10
	// How often a request with the id of a hold is sent again after its connection broke.
	maxRepeats = 2
)

// request is a call of the service.
type request struct {
	path string
	body []byte
	// The service recognizes a repeat, by the id of a hold.
	repeatable bool
	// What no line of a log may show.
	attributes Attributes
	hold       string
}

// answer is what the service sent.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// reply is what an answer is read into. read fails if the answer is another one.
type reply interface {
	read(body []byte) error
}

// exchange asks the service and reads its answer. It returns the failure if there is no such answer; it returns an error
// if the request is longer than the service takes, or if ctx was cancelled by the caller.
func (c *Client) exchange(ctx context.Context, asked request, to reply) (answer, *failure, error) {
	if len(asked.body) > maxRequest {
		return answer{}, nil, fmt.Errorf("tollgate: the request has %d bytes, more than %d", len(asked.body), maxRequest)
	}
	if err := ctx.Err(); err != nil {
		return answer{}, nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var got answer
	var failed *failure
	for sent := 0; ; sent++ {
		got, failed = c.send(bounded, asked.path, asked.body)
		if failed == nil {
			failed = got.decode(to)
			break
		}
		if errors.Is(ctx.Err(), context.Canceled) {
			return answer{}, nil, ctx.Err()
		}
		if bounded.Err() != nil {
			failed = &failure{kind: FailureTimeout, detail: "no whole answer within the timeout"}
			break
		}
		broken := failed.kind == FailureConnection && !failed.unsent
		if !asked.repeatable || !broken || sent == maxRepeats {
			break
		}
	}
	if failed != nil {
		failed.mask(append(asked.attributes.texts(), asked.hold, c.token)...)
		c.failures.add(*failed)
	}
	return got, failed, nil
}

// send sends a request once. The transport sends it again only if nothing of it was written: it is a POST without an
// Idempotency-Key.
func (c *Client) send(ctx context.Context, path string, body []byte) (answer, *failure) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, &failure{kind: FailureRefused, detail: "the request cannot be made", unsent: true}
	}
	request.Header = http.Header{
		"Content-Type": {"application/json"},
		"User-Agent":   {"tollgate-go/" + Version},
	}
	if c.token != "" {
		request.Header["Authorization"] = []string{"Bearer " + c.token}
	}
	c.trace(ctx, request.Header)
	// A round trip follows no redirect and keeps no cookie.
	response, err := c.transport.RoundTrip(request)
	if err != nil {
		return answer{}, failureOfTrip(err)
	}
	defer response.Body.Close()
	if response.StatusCode < 200 {
		// The body of 101 is the connection, which ctx does not bound.
		return answer{}, &failure{kind: FailureInvalid, detail: fmt.Sprintf("status %d without an answer", response.StatusCode)}
	}
	if response.ContentLength > maxAnswer {
		return answer{}, tooLong()
	}
	read, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if len(read) > maxAnswer {
		return answer{}, tooLong()
	}
	if err != nil {
		return answer{}, failureOfBody(err)
	}
	return answer{status: response.StatusCode, header: response.Header, body: read}, nil
}

func tooLong() *failure {
	return &failure{kind: FailureInvalid, detail: "the answer is longer than 1 MiB"}
}

// failureOfTrip is about an answer that did not begin. net/http does not tell an answer that ends early from bytes that
// are no HTTP, and its error may repeat these bytes, so it goes into a log only if it is one of the network.
func failureOfTrip(err error) *failure {
	var network *net.OpError
	if errors.As(err, &network) {
		return &failure{kind: FailureConnection, detail: network.Error(), unsent: network.Op == "dial"}
	}
	if errors.Is(err, io.EOF) || strings.HasSuffix(err.Error(), "server closed idle connection") {
		return &failure{kind: FailureConnection, detail: "the connection was closed before an answer"}
	}
	return &failure{kind: FailureConnection, detail: "the connection broke, or the answer is no HTTP"}
}

func failureOfBody(err error) *failure {
	var network net.Error
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.As(err, &network) {
		return &failure{kind: FailureConnection, detail: "the connection broke within the answer"}
	}
	return &failure{kind: FailureInvalid, detail: "the body of the answer is no HTTP"}
}

// decode reads the body. If it is no answer, the status tells the kind of the failure.
func (got answer) decode(to reply) *failure {
	if err := to.read(got.body); err == nil {
		return nil
	}
	switch {
	case got.status >= 500:
		failed := problem(got)
		failed.kind = FailureUnavailable
		return failed
	case got.status >= 300:
		failed := problem(got)
		failed.kind = FailureRefused
		return failed
	default:
		return &failure{kind: FailureInvalid, detail: fmt.Sprintf("status %d without an answer of the service", got.status)}
	}
}

// problem is what the service says is wrong.
func problem(got answer) *failure {
	var body struct {
		Detail string `json:"detail"`
		Reason string `json:"reason"`
	}
	if err := json.Unmarshal(got.body, &body); err != nil {
		return &failure{detail: fmt.Sprintf("status %d", got.status)}
	}
	failed := failure{detail: fmt.Sprintf("status %d: %s", got.status, body.Detail), received: true}
	switch body.Reason {
	case "store_unavailable", "outcome_unknown", "store_full":
		failed.closed = got.status == http.StatusServiceUnavailable
	}
	return &failed
}
