package workload

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// tap is the connection of one client of a lease, over all its incarnations. It records
// each request and its response, and can be cut and frozen. It is an http.RoundTripper,
// below the SDK's retries.
type tap struct {
	base  http.RoundTripper
	peers map[string]int // by host:port
	since func() time.Duration

	mu       sync.Mutex
	requests []Request
	life     context.Context // of the current incarnation; it ends when the process is killed
	still    chan struct{}   // closed while the process is not frozen
}

func newTap(t Target, rec *Recorder) *tap {
	// The transport is like the SDK's own: dial timeouts, HTTP/1.1.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	w := &tap{peers: map[string]int{}, since: rec.Since, life: context.Background(),
		base: &http.Transport{
			TLSClientConfig:     t.TLS,
			DialContext:         dialer(),
			TLSHandshakeTimeout: 3 * time.Second,
			MaxIdleConnsPerHost: 2,
			Protocols:           protocols,
		}}
	for n, u := range t.URLs {
		w.peers[hostOf(u)] = n
	}
	return w
}

var errKilled = errors.New("this process was killed")

// begin starts another incarnation. The returned function cut ends it: requests in progress
// are given up, and no more are sent.
func (t *tap) begin() (cut func()) {
	life, end := context.WithCancelCause(context.Background())
	t.mu.Lock()
	defer t.mu.Unlock()
	t.life = life
	return func() { end(errKilled) }
}

// freeze holds responses back until thaw is called.
func (t *tap) freeze() (thaw func()) {
	still := make(chan struct{})
	t.mu.Lock()
	defer t.mu.Unlock()
	t.still = still
	return func() { close(still) }
}

func (t *tap) seen() []Request {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]Request(nil), t.requests...)
}

// RoundTrip implements http.RoundTripper.
func (t *tap) RoundTrip(req *http.Request) (*http.Response, error) {
	t.mu.Lock()
	life, still := t.life, t.still
	t.mu.Unlock()
	if still != nil {
		select {
		case <-still:
		case <-life.Done():
		case <-req.Context().Done():
		}
	}
	if life.Err() != nil { // an error that the SDK does not retry
		return &http.Response{StatusCode: http.StatusGone, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
	}
	body, err := readAll(req.Body)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	defer cancel(nil)
	defer context.AfterFunc(life, func() { cancel(errKilled) })()
	var sent atomic.Bool
	out := req.Clone(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}))
	out.Body, out.ContentLength, out.RequestURI = io.NopCloser(bytes.NewReader(body)), int64(len(body)), ""

	request := Request{Peer: t.peers[req.URL.Host], Call: t.since()}
	resp, err := t.base.RoundTrip(out)
	var answer []byte
	if err == nil {
		answer, err = readAll(resp.Body) // only a complete response counts
	}
	request.Return = t.since()
	known := request.reads(req.URL.Path, body, answer)
	request.classify(resp, answer, err, sent.Load())
	switch {
	case err != nil:
		request.Why = err.Error()
	case request.Outcome != OK:
		request.Why = string(answer[:min(len(answer), 200)])
	}
	if known {
		t.mu.Lock()
		t.requests = append(t.requests, request)
		t.mu.Unlock()
	}
	if err != nil {
		return nil, fmt.Errorf("ask peer %d: %w", request.Peer, err)
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(answer)), int64(len(answer))
	return resp, nil
}

// maxBody is larger than any of these requests and responses.
const maxBody = 4 << 20

func readAll(r io.ReadCloser) ([]byte, error) {
	if r == nil {
		return nil, nil
	}
	defer func() { _ = r.Close() }()
	return io.ReadAll(io.LimitReader(r, maxBody))
}

// classify sets the known outcome of the request. After a dial error the request never
// left, unless some of it was sent: then net/http has retried it on another connection.
func (t *Request) classify(resp *http.Response, answer []byte, err error, sent bool) {
	var dial *net.OpError
	var said struct {
		ErrorCode string `json:"error_code"`
	}
	switch {
	case errors.As(err, &dial) && dial.Op == "dial" && !sent:
		t.Outcome = NotApplied
	case err != nil:
		t.Outcome = Unknown
	default:
		t.Status = resp.StatusCode
		switch {
		case t.Status < 300:
			t.Outcome = OK
		case t.Status < 500, json.Unmarshal(answer, &said) == nil && said.ErrorCode == "machine_not_found":
			t.Outcome = Refused
		default: // the specification of machines uses 500 for everything
			t.Outcome = Unknown
		}
	}
}

// reads sets the kind and the id of a request, by its path, and reports whether it is
// relevant. The three APIs have their ids in different places.
func (t *Request) reads(path string, body, answer []byte) bool {
	var in struct {
		MachineID string `json:"machine_id"`
		PoolID    string `json:"pool_id"`
		ID        string `json:"id"`
	}
	_ = json.Unmarshal(body, &in)
	const services = "/api/v1/management/discovery/"
	switch path = strings.TrimSuffix(path, "/"); {
	case path == "/api/v1/machine/register":
		t.Kind, t.ID = Register, in.MachineID
	case path == "/api/v1/machine/keepalive":
		t.Kind, t.ID = Heartbeat, in.MachineID
	case path == "/v2/pools/register":
		t.Kind, t.ID = Register, in.PoolID
	case strings.HasPrefix(path, "/v2/pools/") && strings.HasSuffix(path, "/heartbeat"):
		t.Kind, t.ID = Heartbeat, in.PoolID
	case strings.HasPrefix(path, "/v2/pools/") && strings.HasSuffix(path, "/deregister"):
		t.Kind, t.ID = Deregister, in.PoolID
	case path == services+"register":
		var out struct {
			Data struct {
				ID string `json:"id"`
			} `json:"data"`
		}
		_ = json.Unmarshal(answer, &out)
		t.Kind, t.ID, t.New = Register, in.ID, in.ID == ""
		if out.Data.ID != "" {
			t.ID = out.Data.ID
		}
	case path == services+"ping":
		t.Kind, t.ID = Heartbeat, strings.TrimSpace(string(body))
	case strings.HasPrefix(path, services+"update/"):
		t.Kind, t.ID = Heartbeat, strings.TrimPrefix(path, services+"update/")
	case path == services+"deregister":
		t.Kind, t.ID = Deregister, in.ID
	case strings.HasSuffix(path, "/token"):
		t.Kind = Token
	default:
		return false
	}
	return true
}
