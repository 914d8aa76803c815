package tollgate

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// ErrHoldLost is the cause of a cancelled [Hold.Context]: the units in flight are not the hold's any more.
var ErrHoldLost = errors.New("tollgate: the hold was lost, expired or ended elsewhere")

// A hold is not renewed more often than this, whatever the service says.
const minRenewal = 5 * time.Millisecond

// Hold is a [Reservation] that is renewed until it is closed.
type Hold struct {
	*Reservation
	parent context.Context
	work   context.Context
	cancel context.CancelCauseFunc
	lost   atomic.Bool
	done   chan struct{}
}

// Hold reserves, and renews the reservation until [Hold.Close]:
//
//	hold, err := tg.Hold(ctx, "export", tollgate.Attributes{"user": user}, tollgate.Cost(1000))
//	if err != nil {
//		return err
//	}
//	defer hold.Close()
//	if !hold.Allowed {
//		return errTooMany
//	}
//	used, err := export(hold.Context())
//	if err != nil {
//		return err
//	}
//	_, err = hold.Settle(ctx, used)
//	return err
//
// # Errors
//
// As for [Client.Reserve].
func (c *Client) Hold(ctx context.Context, name string, attributes Attributes, options ...ReserveOption) (*Hold, error) {
	reservation, err := c.Reserve(ctx, name, attributes, options...)
	if err != nil {
		return nil, err
	}
	hold := &Hold{Reservation: reservation, parent: ctx, done: make(chan struct{})}
	hold.work, hold.cancel = context.WithCancelCause(ctx)
	if reservation.Allowed && reservation.hold != "" {
		go hold.renew()
	} else {
		close(hold.done)
	}
	return hold, nil
}

// Context returns a context that ends with the hold: when it is lost, with the cause [ErrHoldLost], when it is settled
// or closed, or with the context that it was made in. Do the work under it.
func (h *Hold) Context() context.Context {
	return h.work
}

// Lost says whether a renewal found the hold lost, expired or ended. Its units may be another's by now, so the work
// should stop.
func (h *Hold) Lost() bool {
	return h.lost.Load()
}

// Settle ends the hold at its actual cost, as [Reservation.Settle] does, and its renewal. If it has no answer,
// [Hold.Close] settles again at the same cost.
func (h *Hold) Settle(ctx context.Context, cost int64) (Settlement, error) {
	if !h.Allowed {
		return Settlement{}, ErrDenied
	}
	if err := validCost(cost); err != nil {
		return Settlement{}, err
	}
	h.stop()
	return h.Reservation.Settle(ctx, cost)
}

// Release ends the hold and its renewal, and gives everything back.
func (h *Hold) Release(ctx context.Context) (Settlement, error) {
	return h.Settle(ctx, 0)
}

// Close ends the scope of the hold. A hold that was not settled is settled at its estimate: its units in flight are
// free, and its charge stays, because what is unknown stays charged. It waits for the service no longer than the timeout
// of the client, also if the context of the hold was cancelled.
func (h *Hold) Close() {
	h.end(h.estimate)
}

// CloseOnError is [Hold.Close], but gives everything back if the error is not nil:
//
//	func export(ctx context.Context) (err error) {
//		hold, err := tg.Hold(ctx, "export", attributes)
//		if err != nil {
//			return err
//		}
//		defer hold.CloseOnError(&err)
//		...
//	}
func (h *Hold) CloseOnError(err *error) {
	if err != nil && *err != nil {
		h.end(0)
		return
	}
	h.end(h.estimate)
}

func (h *Hold) end(cost int64) {
	h.stop()
	cost, unsettled := h.unsettled(cost)
	if !unsettled {
		return
	}
	// A failure is counted, and no error is possible: the cost is valid and the context is not cancelled.
	_, _ = h.Reservation.Settle(context.WithoutCancel(h.parent), cost)
}

func (h *Hold) stop() {
	h.cancel(nil)
	<-h.done
}

// renew renews whenever a third of the length has passed. A renewal that fails is made again after the next third.
func (h *Hold) renew() {
	defer close(h.done)
	for {
		timer := time.NewTimer(max(h.length()/3, minRenewal))
		select {
		case <-timer.C:
		case <-h.work.Done():
			timer.Stop()
			return
		}
		settlement, err := h.Renew(h.work)
		if err != nil {
			return
		}
		switch settlement.Status {
		case StatusLost, StatusExpired, StatusEnded:
			h.lost.Store(true)
			h.cancel(ErrHoldLost)
			return
		case StatusGone:
			return
		}
	}
}
