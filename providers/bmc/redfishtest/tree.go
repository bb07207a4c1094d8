package redfishtest

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Tree is a Redfish service that serves resources as they are, such as those of a real BMC. Any
// login is accepted. A PATCH answers 204 and a POST to an action too, without effect. It is safe
// for concurrent use.
type Tree struct {
	mu       sync.Mutex
	answers  map[string]Answer // by path, without a slash at the end
	named    map[string]bool   // paths that answers have named
	requests []Request
	sessions int
}

// Answer is the answer to a GET, or to a POST if it is stored at "POST path".
type Answer struct {
	Status int // default 200
	Body   string
	Silent bool // the connection breaks instead
}

// Request is a request that a Tree has served.
type Request struct {
	Method, Path string
	Status       int
	Unnamed      bool   // no answer had named the path
	Body         string // of another method than GET
}

// NewTree returns a service with some resources.
func NewTree(resources map[string]string) *Tree {
	t := &Tree{answers: map[string]Answer{}, named: map[string]bool{}}
	t.named[plainPath("/redfish/v1")], t.named["/redfish/v1/SessionService/Sessions"] = true, true
	t.answers["/redfish/v1"] = Answer{Body: `{
		"@odata.id": "/redfish/v1/", "RedfishVersion": "1.6.0",
		"Systems": {"@odata.id": "/redfish/v1/Systems"}, "Managers": {"@odata.id": "/redfish/v1/Managers"},
		"Chassis": {"@odata.id": "/redfish/v1/Chassis"},
		"Links": {"Sessions": {"@odata.id": "/redfish/v1/SessionService/Sessions"}}
	}`}
	for at, body := range resources {
		t.answers[plainPath(at)] = Answer{Body: body}
	}
	return t
}

func plainPath(at string) string {
	at, _, _ = strings.Cut(at, "#")
	at, query, has := strings.Cut(at, "?")
	at = strings.TrimRight(at, "/")
	if has {
		return at + "?" + query
	}
	return at
}

// Set changes the answer at a path, or at "POST path".
func (t *Tree) Set(at string, a Answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answers[plainPath(at)] = a
}

// Requests returns what was served, in order.
func (t *Tree) Requests() []Request {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.requests)
}

// ServeHTTP serves the resources.
func (t *Tree) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sent, _ := io.ReadAll(r.Body) // an aborted request has no answer either
	t.mu.Lock()
	at := plainPath(r.URL.RequestURI())
	a, found := t.answers[at]
	if r.Method != http.MethodGet {
		a, found = t.answers[r.Method+" "+at]
	}
	switch {
	case r.Method == http.MethodPost && strings.HasSuffix(at, "/Sessions") && !found:
		t.sessions++
		session := fmt.Sprint(at, "/", t.sessions)
		w.Header().Set("X-Auth-Token", fmt.Sprint("token", t.sessions))
		w.Header().Set("Location", session)
		t.named[session] = true
		a = Answer{Status: http.StatusCreated, Body: fmt.Sprintf(`{"@odata.id": %q}`, session)}
	case r.Method != http.MethodGet && !found:
		a = Answer{Status: http.StatusNoContent}
	case !found:
		a = Answer{Status: http.StatusNotFound, Body: `{"error": {"code": "Base.1.8.ResourceMissingAtURI"}}`}
	}
	if a.Status == 0 {
		a.Status = http.StatusOK
	}
	t.requests = append(t.requests, Request{r.Method, r.URL.RequestURI(), a.Status, !t.named[at], string(sent)})
	var body any
	d := json.NewDecoder(strings.NewReader(a.Body))
	d.UseNumber() // any number
	if d.Decode(&body) == nil {
		t.learn(body)
	}
	t.mu.Unlock()
	if a.Silent {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.Status)
	_, _ = w.Write([]byte(a.Body))
}

// learn stores all paths that an answer names. The lock is held.
func (t *Tree) learn(v any) {
	switch v := v.(type) {
	case map[string]any:
		for inside := range maps.Values(v) {
			t.learn(inside)
		}
	case []any:
		for _, inside := range v {
			t.learn(inside)
		}
	case string:
		if strings.HasPrefix(v, "/") {
			t.named[plainPath(v)] = true
		}
	}
}
