package tollgate

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

// FailureKind says why a call had no answer of the service.
type FailureKind string

const (
	// FailureTimeout is no whole answer within the timeout.
	FailureTimeout FailureKind = "timeout"
	// FailureConnection is no connection, one that broke before the answer was whole, or one whose answer is no HTTP.
	FailureConnection FailureKind = "connection"
	// FailureUnavailable is a status of 500 or above without a decision.
	FailureUnavailable FailureKind = "unavailable"
	// FailureRefused is another status without a decision: the request or the configuration is wrong.
	FailureRefused FailureKind = "refused"
	// FailureInvalid is an answer that is not the service's, or longer than 1 MiB.
	FailureInvalid FailureKind = "invalid"
)

var failureKinds = [...]FailureKind{
	FailureTimeout, FailureConnection, FailureUnavailable, FailureRefused, FailureInvalid,
}

// A detail is for one line of a log.
const maxDetail = 300

// failure is a call without an answer.
type failure struct {
	kind   FailureKind
	detail string
	// Nothing of the request was sent, because there was no connection.
	unsent bool
	// The service refused because of its store, so the call is denied whatever the caller has said.
	closed bool
	// The detail has text that was received. It may repeat what was sent.
	received bool
}

// mask makes the detail fit for a log. In the client's own words, such as the address of a connection, nothing is
// replaced: a key that is 127.0.0.1 would hide where the service is.
func (f *failure) mask(secrets ...string) {
	if !f.received {
		secrets = nil
	}
	f.detail = masked(f.detail, secrets)
}

// failures counts calls without an answer, and logs them once a minute.
type failures struct {
	logger *slog.Logger
	every  time.Duration

	mutex    sync.Mutex
	total    [len(failureKinds)]uint64
	unlogged [len(failureKinds)]uint64
	last     failure
	lastLine time.Time
	timer    *time.Timer
}

// add counts a failure. The first one is logged at once, further ones together at the end of the minute.
func (f *failures) add(failed failure) {
	f.mutex.Lock()
	for index, kind := range failureKinds {
		if kind == failed.kind {
			f.total[index]++
			f.unlogged[index]++
		}
	}
	f.last = failed
	wait := f.every - time.Since(f.lastLine)
	if !f.lastLine.IsZero() && wait > 0 {
		if f.timer == nil {
			f.timer = time.AfterFunc(wait, f.flush)
		}
		f.mutex.Unlock()
		return
	}
	fields := f.take()
	f.mutex.Unlock()
	f.log(fields)
}

// flush logs the failures that no line has named yet.
func (f *failures) flush() {
	f.mutex.Lock()
	fields := f.take()
	f.mutex.Unlock()
	f.log(fields)
}

// take returns what the next line says, or nothing. The mutex is locked.
func (f *failures) take() []slog.Attr {
	if f.timer != nil {
		f.timer.Stop()
		f.timer = nil
	}
	var calls uint64
	var kinds []slog.Attr
	for index, kind := range failureKinds {
		if count := f.unlogged[index]; count > 0 {
			calls += count
			kinds = append(kinds, slog.Uint64(string(kind), count))
		}
	}
	if calls == 0 {
		return nil
	}
	f.unlogged = [len(failureKinds)]uint64{}
	f.lastLine = time.Now()
	fields := append([]slog.Attr{slog.Uint64("calls", calls)}, kinds...)
	return append(fields, slog.String("last", fmt.Sprintf("%s: %s", f.last.kind, f.last.detail)))
}

// log writes a line. It holds no lock: a logger may be slow.
func (f *failures) log(fields []slog.Attr) {
	if len(fields) == 0 {
		return
	}
	level := slog.LevelWarn
	for _, field := range fields {
		if field.Key == string(FailureRefused) {
			// What is refused never heals by itself.
			level = slog.LevelError
		}
	}
	f.logger.LogAttrs(context.Background(), level, "tollgate: calls had no decision of the service", fields...)
}

func (f *failures) counts() map[FailureKind]uint64 {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	counts := map[FailureKind]uint64{}
	for index, kind := range failureKinds {
		if f.total[index] > 0 {
			counts[kind] = f.total[index]
		}
	}
	return counts
}

// masked makes a detail fit for a log: short, on one line, and without the values of attributes and the token.
func masked(detail string, secrets []string) string {
	// A detail that repeats a body has values as JSON writes them.
	for _, secret := range slices.Clone(secrets) {
		quoted := string(appendText(nil, secret))
		secrets = append(secrets, quoted[1:len(quoted)-1], plainJSON(secret))
	}
	// A value may be a part of another one.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, secret := range secrets {
		detail = maskWord(detail, secret)
	}
	detail = strings.Map(func(char rune) rune {
		if unicode.IsControl(char) {
			return ' '
		}
		return char
	}, strings.ToValidUTF8(detail, "?"))
	if len(detail) > maxDetail {
		detail = strings.ToValidUTF8(detail[:maxDetail], "") + "..."
	}
	return detail
}

// plainJSON writes a string as most libraries do, which escape less than encoding/json does by default.
func plainJSON(text string) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text)
	// Without the quotes and the end of the line.
	return out.String()[1 : out.Len()-2]
}

// maskWord replaces a value where it stands as a word of its own: inside of longer words, a short value such as "a" is
// part of the text.
func maskWord(detail, value string) string {
	if value == "" {
		return detail
	}
	var out strings.Builder
	for {
		at := strings.Index(detail, value)
		if at < 0 {
			out.WriteString(detail)
			return out.String()
		}
		before, after := detail[:at], detail[at+len(value):]
		inner := len(value) < 4 && (endsInWord(before) || beginsWithWord(after))
		out.WriteString(before)
		if inner {
			out.WriteString(value)
		} else {
			out.WriteString("***")
		}
		detail = after
	}
}

func endsInWord(text string) bool {
	return text != "" && isWordByte(text[len(text)-1])
}

func beginsWithWord(text string) bool {
	return text != "" && isWordByte(text[0])
}

func isWordByte(char byte) bool {
	return char >= '0' && char <= '9' || char >= 'A' && char <= 'Z' || char >= 'a' && char <= 'z' || char >= 0x80
}
