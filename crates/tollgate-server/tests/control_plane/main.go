// A control plane for the tests: go-control-plane's server with one snapshot of limits, as Envoy Gateway has it.
//
// It reads commands from its standard input, one JSON object a line, and ends with it. It writes what happens to its
// standard output in the same form.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"os"
	"sync"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	limits "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/encoding/protojson"
)

// The node whose snapshot is set. Envoy Gateway knows no other.
const node = "envoy-ratelimit"

// The longest line of standard input: a set of many limits.
const longestCommand = 16 << 20

// command sets the limits, or ends all connections.
type command struct {
	Version string `json:"version"`
	// The domains as protobuf's JSON.
	Domains []json.RawMessage `json:"domains"`
	// Further resources as bytes, which need not be valid messages.
	Bytes [][]byte `json:"bytes"`
	// Ends every connection, and changes nothing else.
	Disconnect bool `json:"disconnect"`
}

// event is a line of output. Fields of other kinds of events are left out.
type event struct {
	Event    string         `json:"event"`
	Address  string         `json:"address,omitempty"`
	Stream   int64          `json:"stream,omitempty"`
	Type     string         `json:"type,omitempty"`
	Node     string         `json:"node,omitempty"`
	Metadata map[string]any `json:"metadata,omitempty"`
	Names    []string       `json:"names,omitempty"`
	Version  string         `json:"version"`
	Nonce    string         `json:"nonce"`
	Error    string         `json:"error,omitempty"`
	Set      int            `json:"set,omitempty"`
}

var output sync.Mutex

func (e event) print() {
	line, err := json.Marshal(e)
	if err != nil {
		fail(err)
	}
	output.Lock()
	defer output.Unlock()
	fmt.Printf("%s\n", line)
}

// connections is a listener that can end the connections it has accepted.
type connections struct {
	net.Listener
	mutex sync.Mutex
	open  []net.Conn
}

func (c *connections) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.mutex.Lock()
		defer c.mutex.Unlock()
		c.open = append(c.open, conn)
	}
	return conn, err
}

func (c *connections) end() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, conn := range c.open {
		conn.Close()
	}
	c.open = nil
}

func main() {
	address := flag.String("listen", "127.0.0.1:0", "")
	certificate := flag.String("cert", "", "serve over TLS with this certificate")
	key := flag.String("key", "", "its key")
	authority := flag.String("client-ca", "", "require client certificates of this authority")
	flag.Parse()

	listener, err := net.Listen("tcp", *address)
	if err != nil {
		fail(err)
	}
	open := &connections{Listener: listener}
	var options []grpc.ServerOption
	if *certificate != "" {
		options = append(options, grpc.Creds(serverCredentials(*certificate, *key, *authority)))
	}
	snapshots := cache.NewSnapshotCache(false, cache.IDHash{}, nil)
	control := server.NewServer(context.Background(), snapshots, callbacks())
	service := grpc.NewServer(options...)
	discovery.RegisterAggregatedDiscoveryServiceServer(service, control)
	go func() {
		fail(service.Serve(open))
	}()
	event{Event: "listening", Address: listener.Addr().String()}.print()

	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longestCommand)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			fail(err)
		}
		if c.Disconnect {
			open.end()
			continue
		}
		if err := c.set(snapshots); err != nil {
			fail(err)
		}
	}
	if err := lines.Err(); err != nil {
		fail(err)
	}
}

func (c command) set(snapshots cache.SnapshotCache) error {
	var set []types.Resource
	for _, domain := range c.Domains {
		message := &limits.RateLimitConfig{}
		if err := protojson.Unmarshal(domain, message); err != nil {
			return err
		}
		set = append(set, message)
	}
	for _, bytes := range c.Bytes {
		message := &limits.RateLimitConfig{}
		// Sent as they are.
		message.ProtoReflect().SetUnknown(bytes)
		set = append(set, message)
	}
	snapshot, err := cache.NewSnapshot(c.Version, map[resource.Type][]types.Resource{resource.RateLimitConfigType: set})
	if err != nil {
		return err
	}
	return snapshots.SetSnapshot(context.Background(), node, snapshot)
}

func callbacks() server.CallbackFuncs {
	return server.CallbackFuncs{
		StreamOpenFunc: func(_ context.Context, stream int64, _ string) error {
			event{Event: "open", Stream: stream}.print()
			return nil
		},
		StreamClosedFunc: func(stream int64, _ *core.Node) {
			event{Event: "closed", Stream: stream}.print()
		},
		StreamRequestFunc: func(stream int64, request *discovery.DiscoveryRequest) error {
			event{
				Event: "request", Stream: stream,
				Type:     request.GetTypeUrl(),
				Node:     request.GetNode().GetId(),
				Metadata: request.GetNode().GetMetadata().AsMap(),
				Names:    request.GetResourceNames(),
				Version:  request.GetVersionInfo(),
				Nonce:    request.GetResponseNonce(),
				Error:    request.GetErrorDetail().GetMessage(),
			}.print()
			return nil
		},
		StreamResponseFunc: func(_ context.Context, stream int64, _ *discovery.DiscoveryRequest, response *discovery.DiscoveryResponse) {
			event{
				Event: "response", Stream: stream,
				Version: response.GetVersionInfo(),
				Nonce:   response.GetNonce(),
				Set:     len(response.GetResources()),
			}.print()
		},
	}
}

func serverCredentials(certificate, key, authority string) credentials.TransportCredentials {
	own, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		fail(err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{own}, MinVersion: tls.VersionTLS13}
	if authority != "" {
		pem, err := os.ReadFile(authority)
		if err != nil {
			fail(err)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
		config.ClientCAs = x509.NewCertPool()
		config.ClientCAs.AppendCertsFromPEM(pem)
	}
	return credentials.NewTLS(config)
}

// fail ends the process, because a test cannot go on without its control plane.
func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
