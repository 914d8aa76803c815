package realservice

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	tollgate "github.com/tollgate-rs/tollgate/clients/go"
)

// The variable that makes a test binary the app that asks the service at this address.
const appVariable = "TOLLGATE_TEST_APP"

// Main runs the tests of a package or, in a process that [StartApp] made, its app.
func Main(m *testing.M, app func(*tollgate.Client) http.Handler) {
	url := os.Getenv(appVariable)
	if url == "" {
		os.Exit(m.Run())
	}
	tg, err := tollgate.New(tollgate.Options{URL: url, Timeout: 10 * time.Second})
	if err != nil {
		fail(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fail(err)
	}
	fmt.Printf("app http://%s\n", listener.Addr())
	go func() {
		// The end of the input is the end of the test.
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fail(http.Serve(listener, app(tg)))
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "app:", err)
	os.Exit(1)
}

// StartApp starts the app of [Main] as a process of its own, which asks this service, and returns its address.
func StartApp(t testing.TB, service *Service) string {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), appVariable+"="+service.URL)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err = command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "app "); ok {
			return url
		}
	}
	t.Fatal("the app printed no address")
	return ""
}

// Load sends requests of one user at once, in turn to these apps, and returns how many of them were admitted and denied.
func Load(t testing.TB, requests int, apps ...string) (admitted, denied int64) {
	t.Helper()
	var counts [600]atomic.Int64
	var all sync.WaitGroup
	for number := range requests {
		all.Add(1)
		go func() {
			defer all.Done()
			counts[Get(t, fmt.Sprintf("%s/items/%d", apps[number%len(apps)], number))].Add(1)
		}()
	}
	all.Wait()
	return counts[http.StatusOK].Load(), counts[http.StatusTooManyRequests].Load()
}

// Get sends a request of the user alice and returns the status, or 0 if there is no answer.
func Get(t testing.TB, url string) int {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		t.Error(err)
		return 0
	}
	request.Header.Set("User", "alice")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Error(err)
		return 0
	}
	_ = response.Body.Close()
	return response.StatusCode
}
