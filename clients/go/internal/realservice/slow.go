package realservice

import (
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Network is a way to a service that can be slow.
type Network struct {
	// URL is the address of the service over this network.
	URL   string
	delay atomic.Int64
}

// Slow returns a network in front of a service. It passes bytes on at once until it is given a delay.
func Slow(t testing.TB, service *Service) *Network {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	network := &Network{URL: "http://" + listener.Addr().String()}
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", strings.TrimPrefix(service.URL, "http://"))
			if err != nil {
				_ = near.Close()
				continue
			}
			go network.pass(near, far)
			go network.pass(far, near)
		}
	}()
	return network
}

// Delay delays all bytes from now on.
func (n *Network) Delay(delay time.Duration) {
	n.delay.Store(int64(delay))
}

func (n *Network) pass(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		count, err := from.Read(buffer)
		time.Sleep(time.Duration(n.delay.Load()))
		if count > 0 {
			if _, err := to.Write(buffer[:count]); err != nil {
				return
			}
		}
		if err != nil && err != io.EOF || count == 0 {
			return
		}
	}
}
