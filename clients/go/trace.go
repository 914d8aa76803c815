package tollgate

import (
	"context"
	"net/http"
)

const (
	traceParent = "Traceparent"
	traceState  = "Tracestate"
)

type traceKey struct{}

type traceContext struct {
	parent, state string
}

// WithTrace returns a context whose calls send this trace context to the service. The middleware does this with the
// headers of each request. With OpenTelemetry, set [Options.Inject] instead.
func WithTrace(ctx context.Context, traceparent, tracestate string) context.Context {
	return context.WithValue(ctx, traceKey{}, traceContext{parent: traceparent, state: tracestate})
}

func (c *Client) trace(ctx context.Context, header http.Header) {
	given, _ := ctx.Value(traceKey{}).(traceContext)
	if c.inject != nil {
		injected := http.Header{}
		c.inject(ctx, injected)
		if parent := injected.Get(traceParent); parent != "" {
			given = traceContext{parent: parent, state: injected.Get(traceState)}
		}
	}
	if !isHeaderValue(given.parent) {
		return
	}
	header[traceParent] = []string{given.parent}
	if isHeaderValue(given.state) {
		header[traceState] = []string{given.state}
	}
}

// isHeaderValue says whether a text may be sent as a header. A trace context comes from callers, and the transport
// would refuse the whole request because of it.
func isHeaderValue(text string) bool {
	if text == "" || len(text) > 1024 {
		return false
	}
	for _, char := range []byte(text) {
		if char < 0x20 || char > 0x7e {
			return false
		}
	}
	return true
}
