package tollgate

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	// The service closes idle connections after 120 s. The client is earlier, so that it never writes to a connection
	// that the service is closing.
	idleTimeout = 60 * time.Second
	// The service sends a few limit headers; more than this is no answer of it.
	maxHeaderBytes = 64 << 10
	// The longest path that sun_path of Linux and macOS can hold.
	maxUnixPath = 103
)

// address is where the service listens.
type address struct {
	base   string // such as http://127.0.0.1:8080, without a slash at the end
	socket string // the path of a unix socket, or empty
}

func parseAddress(text string) (address, error) {
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		if !strings.HasPrefix(path, "/") || path == "/" || strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\x00?#") {
			return address{}, fmt.Errorf("tollgate: the URL %q is not unix:/absolute/path", text)
		}
		if len(path) > maxUnixPath {
			return address{}, fmt.Errorf("tollgate: the URL %q has a path of more than %d bytes", text, maxUnixPath)
		}
		return address{base: "http://localhost", socket: path}, nil
	}
	parsed, err := url.Parse(text)
	if err != nil {
		// The text may have a password, so it is not repeated.
		return address{}, fmt.Errorf("tollgate: the URL is not http://HOST:PORT, https://HOST:PORT or unix:/absolute/path")
	}
	port, portErr := strconv.ParseUint(parsed.Port(), 10, 16)
	switch {
	case parsed.Scheme != "http" && parsed.Scheme != "https":
		return address{}, fmt.Errorf("tollgate: the URL begins neither with http:// nor https:// nor unix:/")
	case parsed.User != nil:
		return address{}, fmt.Errorf("tollgate: the URL has a user; a token goes into Options.Token or TOLLGATE_TOKEN")
	case parsed.RawQuery != "" || parsed.ForceQuery:
		return address{}, fmt.Errorf("tollgate: the URL has a query")
	case strings.Contains(text, "#"):
		return address{}, fmt.Errorf("tollgate: the URL has a fragment")
	case parsed.Path != "" && parsed.Path != "/":
		return address{}, fmt.Errorf("tollgate: the URL %q has the path %q", text, parsed.Path)
	case parsed.Hostname() == "":
		return address{}, fmt.Errorf("tollgate: the URL %q has no host", text)
	case !isHost(parsed.Hostname()):
		return address{}, fmt.Errorf("tollgate: the URL %q has a host that is neither a name nor an address", text)
	case portErr != nil || port == 0:
		return address{}, fmt.Errorf("tollgate: the URL %q has no port from 1 to 65535", text)
	}
	return address{base: parsed.Scheme + "://" + parsed.Host}, nil
}

// hostName matches names whose labels neither begin nor end with a hyphen.
var hostName = regexp.MustCompile(`^(?i:[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?\.)*(?i:[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)\.?$`)

func isHost(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil || hostName.MatchString(text)
}

// transport makes the connections of a client. They are of HTTP/1.1: the client's number of connections bounds what it
// asks at once, and a broken connection concerns one call.
func (a address) transport(timeout time.Duration, connections int) *http.Transport {
	dialer := net.Dialer{Timeout: timeout}
	dial := dialer.DialContext
	if a.socket != "" {
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", a.socket)
		}
	}
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            dial,
		TLSHandshakeTimeout:    timeout,
		DisableCompression:     true,
		MaxIdleConns:           connections,
		MaxIdleConnsPerHost:    connections,
		MaxConnsPerHost:        connections,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeaderBytes,
		ForceAttemptHTTP2:      false,
		// Not nil, so HTTP/2 is never offered.
		TLSNextProto: map[string]func(string, *tls.Conn) http.RoundTripper{},
	}
}
