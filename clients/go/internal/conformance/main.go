// Command conformance lets `cargo xtask conformance` play the contract of clients against this package. It reads one
// JSON object a line from standard input, and answers each with one line; docs/clients.md lists them.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	tollgate "github.com/tollgate-rs/tollgate/clients/go"
)

// A command with 200 parallel calls is far shorter.
const maxLine = 16 << 20

// command is one line of the input.
type command struct {
	Do             string         `json:"do"`
	URL            *string        `json:"url"`
	Token          string         `json:"token"`
	TimeoutMs      *int64         `json:"timeout_ms"`
	OnFailure      string         `json:"on_failure"`
	Closed         []string       `json:"closed"`
	Name           string         `json:"name"`
	Attributes     map[string]any `json:"attributes"`
	Cost           *int64         `json:"cost"`
	Traceparent    string         `json:"traceparent"`
	Tracestate     string         `json:"tracestate"`
	Units          *int           `json:"units"`
	ExpiresAfterMs *int64         `json:"expires_after_ms"`
	SleepMs        int64          `json:"sleep_ms"`
	Settle         *int64         `json:"settle"`
	Fail           bool           `json:"fail"`
	ReleaseOnError bool           `json:"release_on_error"`
	Policy         string         `json:"policy"`
	Quotas         []string       `json:"quotas"`
	Window         string         `json:"window"`
	Operation      string         `json:"operation"`
	Used           *int64         `json:"used"`
	Block          string         `json:"block"`
	OnStoreFailure string         `json:"on_store_failure"`
	Calls          []command      `json:"calls"`
}

// driver has the client and the hold that commands are about.
type driver struct {
	client *tollgate.Client
	lines  *logLines

	mutex sync.Mutex
	hold  *tollgate.Reservation
}

func main() {
	var driver driver
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, maxLine)
	output := json.NewEncoder(os.Stdout)
	output.SetEscapeHTML(false)
	for input.Scan() {
		var asked command
		var answer any
		if err := json.Unmarshal(input.Bytes(), &asked); err != nil {
			answer = failed(err)
		} else {
			answer = driver.answer(context.Background(), asked)
		}
		if err := output.Encode(answer); err != nil {
			fmt.Fprintln(os.Stderr, "conformance:", err)
			os.Exit(1)
		}
	}
	if err := input.Err(); err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func failed(err error) map[string]any {
	return map[string]any{"error": err.Error()}
}

func (d *driver) answer(ctx context.Context, asked command) any {
	if asked.Do == "start" {
		if err := d.start(asked); err != nil {
			return failed(err)
		}
		return map[string]any{}
	}
	if d.client == nil {
		return failed(errors.New("the first command is start"))
	}
	if asked.Traceparent != "" {
		ctx = tollgate.WithTrace(ctx, asked.Traceparent, asked.Tracestate)
	}
	switch asked.Do {
	case "check":
		return decided(d.client.Check(ctx, asked.Name, attributes(asked.Attributes), asked.checkOptions()...))
	case "peek":
		return decided(d.client.Peek(ctx, asked.Name, attributes(asked.Attributes), asked.checkOptions()...))
	case "wait":
		timeout := milliseconds(asked.TimeoutMs, 0)
		return decided(d.client.Wait(ctx, timeout, asked.Name, attributes(asked.Attributes), asked.checkOptions()...))
	case "reserve":
		made, err := d.client.Reserve(ctx, asked.Name, attributes(asked.Attributes), asked.reserveOptions()...)
		if err != nil {
			return failed(err)
		}
		d.setHold(made)
		return decided(made.Decision, nil)
	case "renew", "settle", "release":
		return d.end(ctx, asked)
	case "hold":
		return d.scope(ctx, asked)
	case "count":
		return d.count(ctx, asked)
	case "parallel":
		return map[string]any{"answers": d.parallel(ctx, asked.Calls)}
	case "failures":
		return d.client.Failures()
	case "logs":
		return map[string]any{"lines": d.lines.all()}
	}
	return failed(fmt.Errorf("unknown command %q", asked.Do))
}

func (d *driver) start(asked command) error {
	if d.client != nil {
		d.client.Close()
	}
	names := map[string]tollgate.OnFailure{}
	for _, name := range asked.Closed {
		names[name] = tollgate.Closed
	}
	onFailure, err := onFailure(asked.OnFailure)
	if err != nil {
		return err
	}
	timeout := milliseconds(asked.TimeoutMs, 0)
	if asked.TimeoutMs != nil && timeout == 0 {
		// The zero value of the option is the default.
		return errors.New("the timeout is 0")
	}
	url := ""
	if asked.URL != nil {
		url = *asked.URL
		if url == "" {
			return errors.New("the URL is empty")
		}
	}
	d.lines = &logLines{}
	d.client, err = tollgate.New(tollgate.Options{
		URL:       url,
		Token:     asked.Token,
		Timeout:   timeout,
		OnFailure: onFailure,
		Names:     names,
		Logger:    slog.New(slog.NewTextHandler(d.lines, nil)),
	})
	return err
}

func (d *driver) setHold(hold *tollgate.Reservation) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.hold = hold
}

func (d *driver) end(ctx context.Context, asked command) any {
	d.mutex.Lock()
	hold := d.hold
	d.mutex.Unlock()
	if hold == nil {
		return failed(errors.New("there is no hold"))
	}
	var settlement tollgate.Settlement
	var err error
	switch {
	case asked.Do == "renew":
		settlement, err = hold.Renew(ctx)
	case asked.Do == "release":
		settlement, err = hold.Release(ctx)
	case asked.Cost == nil:
		err = errors.New("settle needs a cost")
	default:
		settlement, err = hold.Settle(ctx, *asked.Cost)
	}
	if err != nil {
		return failed(err)
	}
	answer := map[string]any{}
	if settlement.Status != "" {
		answer["status"] = settlement.Status
	}
	if settlement.Failure != "" {
		answer["failure"] = settlement.Failure
	}
	return answer
}

// scope opens a hold as a function of a user would.
func (d *driver) scope(ctx context.Context, asked command) any {
	var decision tollgate.Decision
	var lost bool
	err := func() (err error) {
		hold, err := d.client.Hold(ctx, asked.Name, attributes(asked.Attributes), asked.reserveOptions()...)
		if err != nil {
			return err
		}
		if asked.ReleaseOnError {
			defer hold.CloseOnError(&err)
		} else {
			defer hold.Close()
		}
		decision = hold.Decision
		time.Sleep(time.Duration(asked.SleepMs) * time.Millisecond)
		lost = hold.Lost()
		if asked.Settle != nil && hold.Allowed {
			if _, err := hold.Settle(ctx, *asked.Settle); err != nil {
				return err
			}
		}
		if asked.Fail {
			return errWork
		}
		return nil
	}()
	if err != nil && !errors.Is(err, errWork) {
		return failed(err)
	}
	answer := fields(decision)
	answer["lost"] = lost
	return answer
}

var errWork = errors.New("the work failed")

func (d *driver) count(ctx context.Context, asked command) any {
	onStoreFailure, err := onFailure(asked.OnStoreFailure)
	if err != nil {
		return failed(err)
	}
	counted := tollgate.CountRequest{
		Policy:     asked.Policy,
		Attributes: attributes(asked.Attributes),
		Quotas:     asked.Quotas,
		Window:     asked.Window,
		Operation:  tollgate.Operation(asked.Operation),
		Block:      asked.Block,
	}
	if asked.Cost != nil {
		counted.Cost = tollgate.Some(*asked.Cost)
	}
	if asked.Used != nil {
		counted.Used = tollgate.Some(*asked.Used)
	}
	if asked.OnStoreFailure != "" {
		counted.OnStoreFailure = tollgate.Some(onStoreFailure)
	}
	count, err := d.client.Count(ctx, counted)
	switch {
	case err != nil:
		return failed(err)
	case count.Failure != "":
		return map[string]any{"failure": count.Failure}
	default:
		return count.Raw
	}
}

func (d *driver) parallel(ctx context.Context, calls []command) []any {
	answers := make([]any, len(calls))
	var all sync.WaitGroup
	for index, asked := range calls {
		all.Add(1)
		go func() {
			defer all.Done()
			answers[index] = d.answer(ctx, asked)
		}()
	}
	all.Wait()
	return answers
}

func (c command) checkOptions() []tollgate.CheckOption {
	if c.Cost == nil {
		return nil
	}
	return []tollgate.CheckOption{tollgate.Cost(*c.Cost)}
}

func (c command) reserveOptions() []tollgate.ReserveOption {
	var options []tollgate.ReserveOption
	if c.Cost != nil {
		options = append(options, tollgate.Cost(*c.Cost))
	}
	if c.Units != nil {
		options = append(options, tollgate.Units(*c.Units))
	}
	if c.ExpiresAfterMs != nil {
		options = append(options, tollgate.ExpiresAfter(milliseconds(c.ExpiresAfterMs, 0)))
	}
	return options
}

// attributes gives lists of strings the type that a program would use, and leaves the rest as JSON has it.
func attributes(read map[string]any) tollgate.Attributes {
	typed := tollgate.Attributes{}
	for name, value := range read {
		typed[name] = value
		list, ok := value.([]any)
		if !ok {
			continue
		}
		texts := make([]string, 0, len(list))
		for _, element := range list {
			if text, ok := element.(string); ok {
				texts = append(texts, text)
			}
		}
		if len(texts) == len(list) {
			typed[name] = texts
		}
	}
	return typed
}

func onFailure(word string) (tollgate.OnFailure, error) {
	switch word {
	case "", "open":
		return tollgate.Open, nil
	case "closed":
		return tollgate.Closed, nil
	}
	return tollgate.Open, fmt.Errorf("%q is neither open nor closed", word)
}

func milliseconds(count *int64, absent time.Duration) time.Duration {
	if count == nil {
		return absent
	}
	return time.Duration(*count) * time.Millisecond
}

func decided(decision tollgate.Decision, err error) any {
	if err != nil {
		return failed(err)
	}
	return fields(decision)
}

func fields(decision tollgate.Decision) map[string]any {
	fields := map[string]any{"allowed": decision.Allowed}
	if decision.Status != 0 {
		fields["status"] = decision.Status
	}
	number(fields, "limit", decision.Limit)
	number(fields, "used", decision.Used)
	number(fields, "remaining", decision.Remaining)
	length(fields, "reset_after_ms", decision.ResetAfter)
	length(fields, "retry_after_ms", decision.RetryAfter)
	word(fields, "reason", decision.Reason)
	word(fields, "policy", decision.Policy)
	word(fields, "quota", decision.Quota)
	word(fields, "source", string(decision.Source))
	word(fields, "failure", string(decision.Failure))
	if decision.Header != nil {
		headers := map[string]string{}
		for name, values := range decision.Header {
			headers[strings.ToLower(name)] = strings.Join(values, ", ")
		}
		fields["headers"] = headers
	}
	return fields
}

func number(fields map[string]any, name string, value tollgate.Optional[int64]) {
	if value.Present {
		fields[name] = value.Value
	}
}

func length(fields map[string]any, name string, value tollgate.Optional[time.Duration]) {
	if value.Present {
		fields[name] = value.Value.Milliseconds()
	}
}

func word(fields map[string]any, name, value string) {
	if value != "" {
		fields[name] = value
	}
}

// logLines keeps what was logged.
type logLines struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (l *logLines) Write(line []byte) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.text.Write(line)
}

func (l *logLines) all() []string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return strings.FieldsFunc(l.text.String(), func(char rune) bool { return char == '\n' })
}
