package tollgate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"
)

// Operation is what a count does with its counter.
type Operation string

const (
	// OperationAdd counts the cost, also past the limit. It is the default.
	OperationAdd Operation = "add"
	// OperationSubtract gives back at most what is used in the open window.
	OperationSubtract Operation = "subtract"
	// OperationGet changes nothing.
	OperationGet Operation = "get"
	// OperationSet sets what is used.
	OperationSet Operation = "set"
	// OperationReset forgets the counter.
	OperationReset Operation = "reset"
)

// A batch of counts has at most this many.
const maxBatch = 100

const maxQuotas = 8

// CountRequest is a count under limits of the caller, for which the service runs with --caller-quotas. The key is all
// attributes together.
type CountRequest struct {
	// Policy is the name under which the counters are kept.
	Policy string
	// Attributes are the key, so there is at least one.
	Attributes Attributes
	// Quotas are 1 to 8 limits, such as "5/1m@first_hit". Give these or Window.
	Quotas []string
	// Window is a window without a limit, such as "1m@first_hit". Give this or Quotas.
	Window string
	// Operation is OperationAdd by default.
	Operation Operation
	// Cost is from 0 to 2^32-1, and 1 if it is absent. For add, subtract and get.
	Cost Optional[int64]
	// Used is the new count; only for OperationSet.
	Used Optional[int64]
	// Block, such as "30s", blocks a key that exceeds its only quota for so long: it counts nothing then. For add, get and
	// reset.
	Block string
	// OnStoreFailure is what add and get answer during an outage of the store, and if the service does not answer.
	// Default: what the client does for the policy's name.
	OnStoreFailure Optional[OnFailure]
}

// Count is the state of a counter after a count.
type Count struct {
	// Allowed is used <= limit for add, and whether the cost would fit for get. It is absent for a bare window and for
	// other operations, unless the client answered by itself.
	Allowed Optional[bool]
	// Policy is the owner of the counter, NAME:caller.
	Policy string
	// Quota decided; with a bare window, Series was counted.
	Quota, Series string
	// The figures are absent during an outage. With a bare window, there is only Used.
	Limit, Used, Remaining Optional[int64]
	// ResetAfter is the time until the window ends.
	ResetAfter Optional[time.Duration]
	// RetryAfter is the time to wait, if not allowed.
	RetryAfter Optional[time.Duration]
	// Blocked says whether the key is blocked. It is absent unless the call named a block.
	Blocked Optional[bool]
	// BlockAfter is the time until the block ends.
	BlockAfter Optional[time.Duration]
	// Start and End are the window that was counted; zero if there is none.
	Start, End time.Time
	// Source says where the answer came from.
	Source Source
	// Failure is the kind of the failure if the service did not answer, and empty otherwise.
	Failure FailureKind
	// Quotas are the states of all quotas, if there are several.
	Quotas []Count
	// Raw is the answer of the service as it came, in JSON.
	Raw json.RawMessage
}

type countBody struct {
	Policy         string     `json:"policy"`
	Attributes     Attributes `json:"attributes"`
	Quotas         []string   `json:"quotas,omitempty"`
	Window         string     `json:"window,omitempty"`
	Operation      Operation  `json:"operation,omitempty"`
	Cost           *int64     `json:"cost,omitempty"`
	Used           *int64     `json:"used,omitempty"`
	Block          string     `json:"block,omitempty"`
	OnStoreFailure string     `json:"on_store_failure,omitempty"`
}

type countReply struct {
	Allowed    *bool   `json:"allowed"`
	Policy     *string `json:"policy"`
	Quota      *string `json:"quota"`
	Series     *string `json:"series"`
	Limit      *int64  `json:"limit"`
	Used       *int64  `json:"used"`
	Remaining  *int64  `json:"remaining"`
	ResetAfter *int64  `json:"reset_after_ms"`
	RetryAfter *int64  `json:"retry_after_ms"`
	Blocked    *bool   `json:"blocked"`
	BlockAfter *int64  `json:"block_after_ms"`
	Window     *struct {
		Start int64 `json:"start"`
		End   int64 `json:"end"`
	} `json:"window"`
	Source *Source      `json:"source"`
	Quotas []countReply `json:"quotas"`
}

// Count counts under the caller's own limits or window, in one step that is exact over all processes. The service needs
// --caller-quotas and, with tokens, the scope count.
//
// Without an answer, add and get under quotas are allowed or not as OnStoreFailure says, and Failure says why.
//
// # Errors
//
// If the request is wrong, or if ctx was cancelled.
func (c *Client) Count(ctx context.Context, counted CountRequest) (Count, error) {
	body, onFailure, err := c.countBody(counted)
	if err != nil {
		return Count{}, err
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		return Count{}, fmt.Errorf("tollgate: %w", err)
	}
	var to countReply
	asked := request{path: "/v1/count", body: encoded, attributes: counted.Attributes}
	got, failed, err := c.exchange(ctx, asked, &to)
	if err != nil {
		return Count{}, err
	}
	if failed != nil {
		return unanswered(counted, onFailure, failed.kind), nil
	}
	return to.count(got.body), nil
}

// CountAll does up to 100 counts in one request, each by itself and in no particular order.
//
// # Errors
//
// As for [Client.Count], and if there are none or too many, or if their request would be longer than 64 KiB.
func (c *Client) CountAll(ctx context.Context, counted []CountRequest) ([]Count, error) {
	if len(counted) == 0 || len(counted) > maxBatch {
		return nil, fmt.Errorf("tollgate: a batch has %d counts, not from 1 to %d", len(counted), maxBatch)
	}
	bodies := make([]*countBody, len(counted))
	onFailure := make([]OnFailure, len(counted))
	attributes := Attributes{}
	for index, one := range counted {
		var err error
		if bodies[index], onFailure[index], err = c.countBody(one); err != nil {
			return nil, fmt.Errorf("%w (in request %d of the batch)", err, index)
		}
		attributes[fmt.Sprint(index)] = one.Attributes.texts()
	}
	encoded, err := json.Marshal(map[string]any{"requests": bodies})
	if err != nil {
		return nil, fmt.Errorf("tollgate: %w", err)
	}
	to := batchReply{expected: len(counted)}
	asked := request{path: "/v1/count/batch", body: encoded, attributes: attributes}
	_, failed, err := c.exchange(ctx, asked, &to)
	if err != nil {
		return nil, err
	}
	counts := make([]Count, len(counted))
	for index := range counted {
		if failed != nil {
			counts[index] = unanswered(counted[index], onFailure[index], failed.kind)
			continue
		}
		counts[index] = c.entry(counted[index], onFailure[index], to.Counts[index])
	}
	return counts, nil
}

// entry reads one of several answers: a count, or a problem, which has a status of its own.
func (c *Client) entry(counted CountRequest, onFailure OnFailure, raw json.RawMessage) Count {
	var status struct {
		Status int `json:"status"`
	}
	_ = json.Unmarshal(raw, &status)
	var to countReply
	failed := answer{status: status.Status, body: raw}.decode(&to)
	if failed == nil {
		return to.count(raw)
	}
	failed.mask(append(counted.Attributes.texts(), c.token)...)
	c.failures.add(*failed)
	return unanswered(counted, onFailure, failed.kind)
}

func (c *Client) countBody(counted CountRequest) (*countBody, OnFailure, error) {
	if counted.Policy == "" || len(counted.Policy) > maxTextSize || !utf8.ValidString(counted.Policy) {
		return nil, Open, fmt.Errorf("tollgate: the policy of a count is not UTF-8 of 1 to %d bytes", maxTextSize)
	}
	if len(counted.Attributes) == 0 {
		return nil, Open, errors.New("tollgate: a count has no attributes, which are its key")
	}
	if err := counted.Attributes.valid(maxAttributes); err != nil {
		return nil, Open, err
	}
	if (len(counted.Quotas) == 0) == (counted.Window == "") {
		return nil, Open, errors.New("tollgate: a count needs either Quotas or a Window")
	}
	if len(counted.Quotas) > maxQuotas {
		return nil, Open, fmt.Errorf("tollgate: a count has %d quotas, more than %d", len(counted.Quotas), maxQuotas)
	}
	body := countBody{
		Policy:     counted.Policy,
		Attributes: counted.Attributes,
		Quotas:     counted.Quotas,
		Window:     counted.Window,
	}
	takesCost := false
	switch counted.Operation {
	case "", OperationAdd:
		takesCost = true
	case OperationSubtract, OperationGet:
		takesCost, body.Operation = true, counted.Operation
	case OperationSet, OperationReset:
		body.Operation = counted.Operation
	default:
		return nil, Open, fmt.Errorf("tollgate: there is no operation %q of counts", counted.Operation)
	}
	if units, given := counted.Cost.Get(); given {
		if !takesCost {
			return nil, Open, fmt.Errorf("tollgate: the operation %q takes no cost", counted.Operation)
		}
		if err := validCost(units); err != nil {
			return nil, Open, err
		}
		if units != 1 {
			body.Cost = &units
		}
	}
	used, given := counted.Used.Get()
	if given != (counted.Operation == OperationSet) || used < 0 {
		return nil, Open, errors.New("tollgate: Used is for the operation set alone, which needs it, and at least 0")
	}
	if given {
		body.Used = &used
	}
	if counted.Block != "" {
		knows := counted.Operation == OperationReset || counted.asks()
		if len(counted.Quotas) != 1 || !knows {
			return nil, Open, errors.New("tollgate: a Block needs exactly one quota, and add, get or reset")
		}
		body.Block = counted.Block
	}
	onFailure := counted.OnStoreFailure.Or(c.OnFailureOf(counted.Policy))
	if err := onFailure.valid(); err != nil {
		return nil, Open, err
	}
	if onFailure == Closed && counted.asks() {
		body.OnStoreFailure = "closed"
	}
	return &body, onFailure, nil
}

// asks says whether the operation has an answer to give during an outage.
func (r CountRequest) asks() bool {
	return r.Operation == "" || r.Operation == OperationAdd || r.Operation == OperationGet
}

// read tells a count from a problem, which has no policy.
func (r *countReply) read(body []byte) error {
	if err := json.Unmarshal(body, r); err != nil {
		return err
	}
	if r.Policy == nil {
		return errors.New("tollgate: an answer that is no count")
	}
	return nil
}

// batchReply are the answers to a batch, each of which is a count or a problem.
type batchReply struct {
	Counts   []json.RawMessage `json:"counts"`
	expected int
}

func (r *batchReply) read(body []byte) error {
	if err := json.Unmarshal(body, r); err != nil {
		return err
	}
	if len(r.Counts) != r.expected {
		return errors.New("tollgate: not as many counts as requests")
	}
	return nil
}

func unanswered(counted CountRequest, onFailure OnFailure, kind FailureKind) Count {
	count := Count{Source: SourceClient, Failure: kind}
	if counted.asks() && counted.Window == "" {
		count.Allowed = Some(onFailure == Open)
	}
	return count
}

func (r *countReply) count(raw []byte) Count {
	count := Count{
		Allowed:    optional(r.Allowed),
		Policy:     text(r.Policy),
		Quota:      text(r.Quota),
		Series:     text(r.Series),
		Limit:      optional(r.Limit),
		Used:       optional(r.Used),
		Remaining:  optional(r.Remaining),
		ResetAfter: milliseconds(r.ResetAfter),
		RetryAfter: milliseconds(r.RetryAfter),
		Blocked:    optional(r.Blocked),
		BlockAfter: milliseconds(r.BlockAfter),
		Source:     text(r.Source),
		Raw:        raw,
	}
	if r.Window != nil {
		count.Start, count.End = time.UnixMilli(r.Window.Start), time.UnixMilli(r.Window.End)
	}
	for index := range r.Quotas {
		count.Quotas = append(count.Quotas, r.Quotas[index].count(nil))
	}
	return count
}
