package apitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// Call is a request and the expected response.
type Call struct {
	Name   string
	Token  string // a name known to New, or "" for none; a value that begins with "=" is the header itself
	Method string
	Path   string
	Body   string
	Status int
	Want   string // the whole body, scrubbed, without the final newline; "*" accepts any
}

// Expect returns a Call.
func Expect(name, token, method, path, body string, status int, want string) Call {
	return Call{Name: name, Token: token, Method: method, Path: path, Body: body, Status: status, Want: want}
}

// Answer is a response.
type Answer struct {
	Status int
	Body   string
	Header map[string][]string
}

// Send makes a request.
func (l *Lab) Send(c Call) Answer {
	req := httptest.NewRequest(c.Method, c.Path, strings.NewReader(c.Body))
	if literal, ok := strings.CutPrefix(c.Token, "="); ok {
		req.Header.Set("Authorization", literal)
	} else if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+l.Secret(c.Token))
	}
	w := httptest.NewRecorder()
	l.Handler.ServeHTTP(w, req)
	return Answer{w.Code, string(bytes.TrimSuffix(w.Body.Bytes(), []byte("\n"))), w.Header()}
}

// Secret returns the value of a token by its name.
func (l *Lab) Secret(token string) string {
	s, ok := l.tokens[token]
	if !ok {
		panic(fmt.Sprintf("there is no token %q", token))
	}
	return s
}

// Run makes requests one after the other and checks status, body and content type. A
// refused request must not change the state.
func (l *Lab) Run(t *testing.T, calls []Call) {
	for _, c := range calls {
		t.Run(c.Name, func(t *testing.T) {
			before := l.Dump()
			got := l.Send(c)
			if got.Status != c.Status {
				t.Errorf("got status %d, want %d", got.Status, c.Status)
			}
			if body := scrub(got.Body); c.Want != "*" && body != c.Want {
				t.Errorf("body:\n got %s\nwant %s", body, c.Want)
			}
			ct, jsonBody := got.Header["Content-Type"], got.Body != "" && got.Status != 405
			if jsonBody && (len(ct) != 1 || ct[0] != "application/json") {
				t.Errorf("content type is %q", ct)
			}
			for status, header := range map[int]string{
				401: "Www-Authenticate",
				405: "Allow",
				429: "Retry-After",
				503: "Retry-After",
			} {
				if got.Status == status && len(got.Header[header]) == 0 {
					t.Errorf("no header %s with status %d", header, status)
				}
			}
			if got.Status >= 300 {
				if diff := cmp.Diff(before, l.Dump()); diff != "" {
					t.Errorf("a refused request changed the state (-before +after):\n%s", diff)
				}
			}
		})
	}
}

// scrub replaces generated ids, which differ from run to run.
func scrub(body string) string {
	for _, r := range []struct{ what, with string }{
		{`"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"`, `"<uuid>"`},
		{`"id":"[0-9a-f]{8}"`, `"id":"<id>"`},
	} {
		body = regexp.MustCompile(r.what).ReplaceAllString(body, r.with)
	}
	return body
}

// Dump returns everything that an API can change, as text.
func (l *Lab) Dump() string {
	v := l.state.View()
	var b strings.Builder
	add := func(kind string, m proto.Message) {
		text, err := prototext.MarshalOptions{}.Marshal(m)
		if err != nil {
			panic(err)
		}
		// prototext varies its blanks on purpose.
		fmt.Fprintf(&b, "%s %s\n", kind, strings.ReplaceAll(string(text), "  ", " "))
	}
	for m := range v.Machines("") {
		add("machine", m)
		for h := range v.History(m.GetMachineId(), 0) {
			add("history", h)
		}
	}
	for p := range v.Pools("") {
		add("pool", p)
	}
	for p := range v.Providers("") {
		add("provider", p)
	}
	for s := range v.Services("") {
		add("service", s)
	}
	for l := range v.Leases() {
		add("lease", l)
	}
	for _, r := range v.Runs("") {
		add("run", r)
	}
	return b.String()
}

// Fuzzed makes a generated request and checks the rules for all of them: the status is one
// of the given ones, the body is JSON, and a refused request changes nothing.
func (l *Lab) Fuzzed(t *testing.T, c Call, statuses ...int) Answer {
	t.Helper()
	before := l.Dump()
	got := l.Send(c)
	if !slices.Contains(statuses, got.Status) {
		t.Errorf("%s %s %q: got status %d: %s", c.Method, c.Path, c.Body, got.Status, got.Body)
	}
	if got.Body != "" && !json.Valid([]byte(got.Body)) {
		t.Errorf("%s %s %q: the answer is not JSON: %q", c.Method, c.Path, c.Body, got.Body)
	}
	if got.Status >= 300 && l.Dump() != before {
		diff := cmp.Diff(before, l.Dump())
		t.Errorf("%s %s %q: refused with %d, but the state changed:\n%s", c.Method, c.Path, c.Body, got.Status, diff)
	}
	return got
}
