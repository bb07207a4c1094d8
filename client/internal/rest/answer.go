package rest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Answer is the response of a server.
type Answer struct {
	URL        string
	Status     int
	Body       []byte
	RetryAfter time.Duration // requested by the server; zero if not
}

// OK reports whether the status is 2xx.
func (a *Answer) OK() bool { return a.Status >= 200 && a.Status < 300 }

// Err returns nil if the status is 2xx, and a StatusError otherwise. It truncates and
// quotes the server's text.
func (a *Answer) Err() error {
	if a.OK() {
		return nil
	}
	return &StatusError{URL: a.URL, Status: a.Status, Message: a.message(), RetryAfter: a.RetryAfter}
}

// StatusError is an answer whose status is not 2xx.
type StatusError struct {
	URL        string
	Status     int
	Message    string // from the body, may be empty
	RetryAfter time.Duration
}

// Error implements error.
func (e *StatusError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("%s answered %d %s", e.URL, e.Status, http.StatusText(e.Status))
	}
	return fmt.Sprintf("%s answered %d: %q", e.URL, e.Status, e.Message)
}

// Status returns the HTTP status of an error, or 0 if there was no answer.
func Status(err error) int {
	if e, ok := errors.AsType[*StatusError](err); ok {
		return e.Status
	}
	return 0
}

// RetryAfter returns the wait requested by the response in err, or zero.
func RetryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*StatusError](err); ok {
		return e.RetryAfter
	}
	return 0
}

// maxRetryAfter bounds the wait that a server can request, so that an hour sent by mistake
// does not lose its clients.
const maxRetryAfter = time.Minute

func retryAfter(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n <= 0 {
		return 0
	}
	return min(time.Duration(n)*time.Second, maxRetryAfter)
}

// message returns the readable text in an error body of any of these APIs.
func (a *Answer) message() string {
	var members map[string]json.RawMessage
	text := ""
	if json.Unmarshal(a.Body, &members) == nil {
		for _, name := range []string{"message", "detail", "error_description", "error"} {
			if json.Unmarshal(members[name], &text) == nil && text != "" {
				break
			}
		}
	}
	if text == "" {
		text = string(a.Body)
	}
	return Shorten(strings.TrimSpace(text))
}

// maxMessage bounds the server's text in an error.
const maxMessage = 200

// Shorten returns the beginning of a server's text, for an error.
func Shorten(text string) string {
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return text
}

// Duration returns the time in a JSON number, which may be written as a string. It returns zero if
// there is none, and at most a day.
func Duration(raw json.RawMessage, unit time.Duration) time.Duration {
	var n json.Number
	if json.Unmarshal(raw, &n) != nil {
		return 0
	}
	f, err := n.Float64()
	if err != nil || !(f > 0) {
		return 0
	}
	return time.Duration(min(f*float64(unit), float64(24*time.Hour)))
}
