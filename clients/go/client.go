package tollgate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"time"
)

// Version is the version of this package, as the User-Agent of its requests has it.
const Version = "0.1.0"

const (
	defaultURL         = "http://127.0.0.1:8080"
	defaultTimeout     = 250 * time.Millisecond
	minTimeout         = time.Millisecond
	maxTimeout         = time.Minute
	defaultConnections = 64
	maxConnections     = 65536
)

// OnFailure is what a client answers if the service does not. Its zero value is [Open].
type OnFailure int

const (
	// Open admits what the service did not answer.
	Open OnFailure = iota
	// Closed denies what the service did not answer.
	Closed
)

// Options are the settings of a [Client]. The zero value is usable: it takes the address from TOLLGATE_URL and the
// token from TOLLGATE_TOKEN.
type Options struct {
	// URL is http://HOST:PORT, https://HOST:PORT or unix:/absolute/path. Default: TOLLGATE_URL, then
	// http://127.0.0.1:8080.
	URL string
	// Token is sent with every request. Default: TOLLGATE_TOKEN, then none.
	Token string
	// Timeout bounds every call, from 1 ms to 1 min. Default: 250 ms, which is over twice the time that the service
	// waits for its store, so that its own answers during an outage arrive.
	Timeout time.Duration
	// OnFailure is the answer of the client if the service does not answer. Default: Open.
	OnFailure OnFailure
	// Names has another answer for some names, such as "login": tollgate.Closed.
	Names map[string]OnFailure
	// MaxConnections bounds the connections to the service; a further call waits for one within its timeout.
	// Default: 64.
	MaxConnections int
	// Logger gets one line a minute if calls have no answer. Default: slog.Default().
	Logger *slog.Logger
	// Inject writes the trace context of ctx into header, such as the Inject of a propagator of OpenTelemetry. Only
	// traceparent and tracestate are sent. Default: the context of [WithTrace].
	Inject func(ctx context.Context, header http.Header)
}

// Client asks a Tollgate service. It can be used by many goroutines at once; make one for the whole program.
type Client struct {
	base      string
	token     string
	timeout   time.Duration
	onFailure OnFailure
	names     map[string]OnFailure
	inject    func(context.Context, http.Header)
	transport *http.Transport
	failures  failures
}

// New returns a client. It opens no connection: the service may start later.
//
// # Errors
//
// If an option is invalid; the error names it.
func New(options Options) (*Client, error) {
	text := options.URL
	if text == "" {
		text = os.Getenv("TOLLGATE_URL")
	}
	if text == "" {
		text = defaultURL
	}
	place, err := parseAddress(text)
	if err != nil {
		return nil, err
	}
	token := options.Token
	if token == "" {
		token = os.Getenv("TOLLGATE_TOKEN")
	}
	for _, char := range []byte(token) {
		if char < 0x21 || char > 0x7e {
			return nil, errors.New("tollgate: the token has a character that a header cannot have")
		}
	}
	timeout := options.Timeout
	if timeout == 0 {
		timeout = defaultTimeout
	}
	if timeout < minTimeout || timeout > maxTimeout {
		return nil, fmt.Errorf("tollgate: the timeout %v is not from %v to %v", timeout, minTimeout, maxTimeout)
	}
	connections := options.MaxConnections
	if connections == 0 {
		connections = defaultConnections
	}
	if connections < 0 || connections > maxConnections {
		return nil, fmt.Errorf("tollgate: MaxConnections is %d, not from 1 to %d", connections, maxConnections)
	}
	names := make(map[string]OnFailure, len(options.Names))
	for name, answer := range options.Names {
		if err := answer.valid(); err != nil {
			return nil, fmt.Errorf("%w for the name %q", err, name)
		}
		names[name] = answer
	}
	if err := options.OnFailure.valid(); err != nil {
		return nil, err
	}
	logger := options.Logger
	if logger == nil {
		logger = slog.Default()
	}
	return &Client{
		base:      place.base,
		token:     token,
		timeout:   timeout,
		onFailure: options.OnFailure,
		names:     names,
		inject:    options.Inject,
		transport: place.transport(timeout, connections),
		failures:  failures{logger: logger, every: time.Minute},
	}, nil
}

// Close logs the failures that no line has named yet, and closes idle connections. Calls that run go on, and
// further calls open new connections.
func (c *Client) Close() {
	c.failures.flush()
	c.transport.CloseIdleConnections()
}

// Failures returns how many calls had no answer since the client was made, by kind.
func (c *Client) Failures() map[FailureKind]uint64 {
	return c.failures.counts()
}

// OnFailureOf returns what the client answers for a name if the service does not.
func (c *Client) OnFailureOf(name string) OnFailure {
	if answer, ok := c.names[name]; ok {
		return answer
	}
	return c.onFailure
}

func (o OnFailure) valid() error {
	if o != Open && o != Closed {
		return fmt.Errorf("tollgate: OnFailure is %d, neither Open nor Closed", int(o))
	}
	return nil
}
