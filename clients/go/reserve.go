package tollgate

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// The length of a hold that the service takes by default.
const defaultLength = time.Minute

// ReserveOption is an option of [Client.Reserve] and [Client.Hold].
type ReserveOption interface {
	ofReserve(*reserveCall)
}

type (
	unitsOption   int
	expiresOption time.Duration
)

// Units is how many units in flight a reservation takes, from 0 to 1000. Default: 1.
func Units(units int) ReserveOption { return unitsOption(units) }

// ExpiresAfter is how long a hold lives from its last renewal, from 1 ms to 1 h, in whole milliseconds. Default: a
// minute, or less if a limit in flight says so.
func ExpiresAfter(length time.Duration) ReserveOption { return expiresOption(length) }

func (c costOption) ofReserve(call *reserveCall)  { call.cost = int64(c) }
func (u unitsOption) ofReserve(call *reserveCall) { call.units = int(u) }
func (e expiresOption) ofReserve(call *reserveCall) {
	call.expiresAfter = optional((*time.Duration)(&e))
}

type reserveCall struct {
	cost         int64
	units        int
	expiresAfter Optional[time.Duration]
}

// valid returns what is wrong with a reservation.
func (c reserveCall) valid() error {
	if c.units < 0 || c.units > maxUnits {
		return fmt.Errorf("tollgate: %d units in flight are not from 0 to %d", c.units, maxUnits)
	}
	length, given := c.expiresAfter.Get()
	if given && (length < time.Millisecond || length > time.Hour || length%time.Millisecond != 0) {
		return fmt.Errorf("tollgate: ExpiresAfter %v is not in whole milliseconds from 1 ms to 1 h", length)
	}
	return validCost(c.cost)
}

func (c reserveCall) body(name string, attributes Attributes, id string) []byte {
	body := appendAttributes([]byte(`{"attributes":`), name, attributes)
	if c.cost != 1 {
		body = fmt.Appendf(body, `,"cost":%d`, c.cost)
	}
	if c.units != 1 {
		body = fmt.Appendf(body, `,"units":%d`, c.units)
	}
	if length := c.expiresAfter.Or(defaultLength); length != defaultLength {
		body = fmt.Appendf(body, `,"expires_after":"%dms"`, length.Milliseconds())
	}
	return fmt.Appendf(body, `,"id":"%s"}`, id)
}

// HoldStatus is what has become of a hold.
type HoldStatus string

const (
	// StatusRenewed says that the hold lives on.
	StatusRenewed HoldStatus = "renewed"
	// StatusLost says that the units in flight of the hold are gone; its work should stop.
	StatusLost HoldStatus = "lost"
	// StatusExpired says that the hold had ended, or is unknown; its charge stays.
	StatusExpired HoldStatus = "expired"
	// StatusEnded says that the hold was settled.
	StatusEnded HoldStatus = "ended"
	// StatusSettled says that the hold has ended at its cost.
	StatusSettled HoldStatus = "settled"
	// StatusGone says that nothing counts the hold.
	StatusGone HoldStatus = "gone"
)

// Settlement is the answer to a renewal or a settlement. Status is empty if there was a failure.
type Settlement struct {
	Status  HoldStatus
	Failure FailureKind
}

// ErrDenied says that a denied reservation has nothing to renew or to settle.
var ErrDenied = errors.New("tollgate: the reservation was denied, so there is nothing to renew or settle")

// Reservation holds an estimated cost and units in flight, if its decision is allowed. [Client.Hold] returns one that
// renews and settles itself.
type Reservation struct {
	Decision
	client     *Client
	attributes Attributes
	hold       string // empty if nothing counts it
	estimate   int64

	mutex        sync.Mutex
	expiresAfter time.Duration
	settled      Optional[int64] // the cost of the last settlement, which may have had no answer
	ended        bool
}

// Reserve takes units in flight and charges an estimated cost, if there is room for all of it. Settle it at the actual
// cost. If the service does not answer and the client admits, nothing counts the reservation.
//
// # Errors
//
// As for [Client.Check], and if an option is out of its range.
func (c *Client) Reserve(ctx context.Context, name string, attributes Attributes, options ...ReserveOption) (*Reservation, error) {
	if err := attributes.validFor(name); err != nil {
		return nil, err
	}
	call := reserveCall{cost: 1, units: 1}
	for _, option := range options {
		option.ofReserve(&call)
	}
	if err := call.valid(); err != nil {
		return nil, err
	}
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return nil, fmt.Errorf("tollgate: no random id for a hold: %w", err)
	}
	body := call.body(name, attributes, hex.EncodeToString(id[:]))
	var to decisionReply
	asked := request{path: "/v1/reserve", body: body, repeatable: true, attributes: attributes}
	got, failed, err := c.exchange(ctx, asked, &to)
	if err != nil {
		return nil, err
	}
	made := &Reservation{client: c, attributes: attributes, estimate: call.cost}
	if failed != nil {
		made.Decision = c.answerOf(name, failed)
		return made, nil
	}
	made.Decision = to.of(got)
	made.hold = to.hold
	made.expiresAfter = to.expiresAfter.Or(0)
	return made, nil
}

// Renew starts the length of the hold again.
//
// # Errors
//
// [ErrDenied], or the error of ctx if it was cancelled.
func (r *Reservation) Renew(ctx context.Context) (Settlement, error) {
	var to holdReply
	settlement, err := r.ask(ctx, "/v1/renew", holdBody{Hold: r.hold}, &to)
	if settlement.Status == StatusRenewed {
		r.mutex.Lock()
		r.expiresAfter = milliseconds(to.ExpiresAfter).Or(r.expiresAfter)
		r.mutex.Unlock()
	}
	return settlement, err
}

// Settle ends the hold at its actual cost, from 0 to 2^32-1. Units that were not used are given back; a cost above the
// estimate is charged whether or not there is room. After a failure, it can be repeated at the same cost.
//
// # Errors
//
// [ErrDenied], a cost out of its range, or the error of ctx if it was cancelled.
func (r *Reservation) Settle(ctx context.Context, cost int64) (Settlement, error) {
	if err := validCost(cost); err != nil {
		return Settlement{}, err
	}
	r.mutex.Lock()
	r.settled = Some(cost)
	r.mutex.Unlock()
	settlement, err := r.ask(ctx, "/v1/settle", holdBody{Hold: r.hold, Cost: &cost}, &holdReply{})
	if settlement.Status != "" {
		r.mutex.Lock()
		r.ended = true
		r.mutex.Unlock()
	}
	return settlement, err
}

// Release ends the hold and gives everything back, except what a policy charges at a cost of its own.
//
// # Errors
//
// As for [Reservation.Settle].
func (r *Reservation) Release(ctx context.Context) (Settlement, error) {
	return r.Settle(ctx, 0)
}

type holdBody struct {
	Hold string `json:"hold"`
	Cost *int64 `json:"cost,omitempty"`
}

type holdReply struct {
	Status       *HoldStatus `json:"status"`
	ExpiresAfter *int64      `json:"expires_after_ms"`
}

func (r *holdReply) read(body []byte) error {
	if err := json.Unmarshal(body, r); err != nil {
		return err
	}
	if r.Status == nil {
		return errors.New("tollgate: an answer without a status")
	}
	return nil
}

func (r *Reservation) ask(ctx context.Context, path string, body holdBody, to *holdReply) (Settlement, error) {
	if !r.Allowed {
		return Settlement{}, ErrDenied
	}
	if r.hold == "" {
		return Settlement{Status: StatusGone}, nil
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		return Settlement{}, fmt.Errorf("tollgate: %w", err)
	}
	asked := request{path: path, body: encoded, repeatable: true, attributes: r.attributes, hold: r.hold}
	_, failed, err := r.client.exchange(ctx, asked, to)
	if err != nil {
		return Settlement{}, err
	}
	if failed != nil {
		return Settlement{Failure: failed.kind}, nil
	}
	return Settlement{Status: *to.Status}, nil
}

// unsettled returns the cost at which the end of a scope has to settle: that of a settlement without an answer, because
// another one could be a conflict, or this one.
func (r *Reservation) unsettled(cost int64) (int64, bool) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.settled.Or(cost), r.Allowed && !r.ended
}

func (r *Reservation) length() time.Duration {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.expiresAfter
}
