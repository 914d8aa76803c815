package tollgate

import (
	"fmt"
	"log/slog"
)

// The settings have a token, and reservations have attributes and the id of a hold. Nothing of these is for a log, so
// they print without them.

// String returns the settings without the token.
func (o Options) String() string {
	token := "none"
	if o.Token != "" {
		token = "***"
	}
	address := o.URL
	if _, err := parseAddress(address); err != nil && address != "" {
		// It may have a password.
		address = "***"
	}
	return fmt.Sprintf("tollgate.Options{URL: %q, Token: %s, Timeout: %v}", address, token, o.Timeout)
}

// GoString returns what String does.
func (o Options) GoString() string { return o.String() }

// LogValue returns what String does.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }

// String returns the address and the timeout, and no token.
func (c *Client) String() string {
	if c == nil {
		return "tollgate.Client(nil)"
	}
	return fmt.Sprintf("tollgate.Client{URL: %q, Timeout: %v}", c.base, c.timeout)
}

// GoString returns what String does.
func (c *Client) GoString() string { return c.String() }

// LogValue returns what String does.
func (c *Client) LogValue() slog.Value { return slog.StringValue(c.String()) }

// String returns the decision, without the attributes and the id of the hold.
func (r *Reservation) String() string {
	if r == nil {
		return "tollgate.Reservation(nil)"
	}
	return fmt.Sprintf("tollgate.Reservation{%+v}", r.Decision)
}

// GoString returns what String does.
func (r *Reservation) GoString() string { return r.String() }

// LogValue returns what String does.
func (r *Reservation) LogValue() slog.Value { return slog.StringValue(r.String()) }
