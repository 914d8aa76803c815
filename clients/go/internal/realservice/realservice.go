// Package realservice starts Tollgate services and Redis servers for tests, on free ports of the loopback interface.
package realservice

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

const startTimeout = 20 * time.Second

// Service is a process of `tollgate serve`.
type Service struct {
	// URL is the address for checks, Admin that of the admin listener.
	URL, Admin string
	process    *os.Process
}

// Start starts the service with these arguments of `serve`, such as a limit, and stops it with the test.
func Start(t testing.TB, arguments ...string) *Service {
	t.Helper()
	return StartAt(t, "127.0.0.1:0", arguments...)
}

// StartOn starts a service that counts in this Redis, and waits for it: a busy machine may take longer than the service
// would, which then admits without counting.
func StartOn(t testing.TB, redis string, arguments ...string) *Service {
	t.Helper()
	return Start(t, append(arguments, "--store", "redis://"+redis, "--store-timeout", "10s")...)
}

// StartAt starts a service with this address for checks.
func StartAt(t testing.TB, listen string, arguments ...string) *Service {
	t.Helper()
	arguments = append([]string{"serve", "--listen", listen, "--admin-listen", "127.0.0.1:0"}, arguments...)
	command := exec.Command(binary(t), arguments...)
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var problems strings.Builder
	command.Stderr = &problems
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	service := &Service{process: command.Process}
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = command.Process.Kill()
		<-ended
	})
	printed := make(chan *Service, 1)
	go func() {
		defer close(ended)
		found := Service{process: command.Process}
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			switch words := strings.Fields(lines.Text()); {
			case len(words) == 2 && words[0] == "checks":
				found.URL = words[1]
			case len(words) == 2 && words[0] == "admin":
				found.Admin = words[1]
				printed <- &found
			}
		}
		_ = command.Wait()
		close(printed)
	}()
	select {
	case found := <-printed:
		if found == nil {
			t.Fatalf("tollgate %s: %s", strings.Join(arguments, " "), problems.String())
		}
		service = found
	case <-time.After(startTimeout):
		t.Fatalf("tollgate %s printed no addresses", strings.Join(arguments, " "))
	}
	return service
}

// Policies writes a policy file for the test and returns its path.
func Policies(t testing.TB, yaml string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tollgate.yaml")
	if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Signal sends a signal to the service.
func (s *Service) Signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := s.process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// Redis starts a Redis server and returns its address, HOST:PORT.
func Redis(t testing.TB) string {
	t.Helper()
	server, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("redis-server is missing: install the package redis-server")
	}
	address := freeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	command := exec.Command(server, "--bind", "127.0.0.1", "--port", port, "--save", "", "--dir", t.TempDir())
	command.Stdout, command.Stderr = io.Discard, io.Discard
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	for end := time.Now().Add(startTimeout); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		connection, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			continue
		}
		_ = connection.SetDeadline(time.Now().Add(time.Second))
		fmt.Fprint(connection, "PING\r\n")
		answer, _ := bufio.NewReader(connection).ReadString('\n')
		_ = connection.Close()
		if answer == "+PONG\r\n" {
			return address
		}
	}
	t.Fatal("redis-server does not answer")
	return ""
}

func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// binary is the service that TOLLGATE_BINARY names, or the one that `cargo build` makes.
func binary(t testing.TB) string {
	t.Helper()
	path := os.Getenv("TOLLGATE_BINARY")
	if path == "" {
		_, source, _, _ := runtime.Caller(0)
		path = filepath.Join(filepath.Dir(source), "../../../../target/debug/tollgate")
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("no service at %s: build it with `cargo build`, or set TOLLGATE_BINARY", path)
	}
	return path
}
