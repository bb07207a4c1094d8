package fake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/guard"
)

// remoteClient returns a client for thousands of concurrent calls to one host. It has no timeout,
// because contexts have one.
func remoteClient() *http.Client {
	return guard.Client(&http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		MaxIdleConnsPerHost: 4096,
		IdleConnTimeout:     30 * time.Second,
		DisableCompression:  true,
	})
}

// call performs one operation, once. result may be nil.
func (p *Provider) call(
	ctx context.Context, name string, op providers.Op, m providers.Machine, args, result any,
) error {
	what := name + " of " + m.GetMachineId()
	r := request{MachineID: m.GetMachineId(), RunID: op.RunID, Step: op.Step, Attempt: op.Attempt, Epoch: op.Epoch}
	var err error
	if args != nil {
		if r.Args, err = json.Marshal(args); err != nil {
			return providers.Errorf(providers.Unsupported, what, "encode arguments: %w", err)
		}
	}
	body, err := json.Marshal(r)
	if err != nil {
		return providers.Errorf(providers.Unsupported, what, "encode request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.endpoint+"/ops/"+name, bytes.NewReader(body))
	if err != nil {
		return providers.Errorf(providers.Unsupported, what, "create request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if t, ok := providers.NotAfter(ctx); ok {
		req.Header.Set(notAfterHeader, t.UTC().Format(time.RFC3339Nano))
		req.Header.Set(epochHeader, strconv.FormatUint(op.Epoch, 10))
	}
	resp, err := p.client.Do(req)
	if err != nil {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		if late, ok := errors.AsType[*providers.Error](err); ok && late.Class == providers.Late {
			return &providers.Error{Class: providers.Late, Op: what, Err: late.Err}
		}
		return providers.Errorf(lost(err), what, "%w", err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read, or is not needed
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return providers.Errorf(lost(err), what, "read answer: %w", err)
	}
	p.learn(resp.Header.Get(settleHeader))
	if resp.StatusCode != http.StatusOK {
		return refusal(what, resp.StatusCode, answer)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(answer, result); err != nil {
		return providers.Errorf(providers.Unsupported, what, "decode answer: %w", err)
	}
	return nil
}

// lost returns the class of a call that got no answer. If the connection failed, nothing was done;
// otherwise the outcome is unknown.
func lost(err error) providers.Class {
	if o, ok := errors.AsType[*net.OpError](err); ok && o.Op == "dial" {
		return providers.Transient
	}
	return providers.Timeout
}

// refusal decodes an error with its class.
func refusal(what string, status int, body []byte) error {
	var f failure
	if err := json.Unmarshal(body, &f); err != nil || f.Class == "" {
		return providers.Errorf(classOf(status), what, "endpoint returned %d: is it a fake fleet?", status)
	}
	return &providers.Error{Class: f.Class, Op: what, Err: errors.New(strings.TrimPrefix(f.Error, what+": "))}
}

// learn keeps the longest settle time that the fleet has reported.
func (p *Provider) learn(header string) {
	d, err := time.ParseDuration(header)
	if err != nil {
		return
	}
	for {
		old := p.learned.Load()
		if int64(d) <= old || p.learned.CompareAndSwap(old, int64(d)) {
			return
		}
	}
}

// direct calls a handler in this process. The handler continues after the caller has given up, as
// in a server.
type direct struct{ handler http.Handler }

// RoundTrip returns when the handler has returned or the request's context has ended.
func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(r.Body.Close(), r.Context().Err()); err != nil {
		return nil, err
	}
	if err := providers.InTime(r.Context(), r.Method+" "+r.URL.Path); err != nil {
		return nil, err
	}
	in := r.Clone(r.Context())
	in.Body = io.NopCloser(bytes.NewReader(body))
	done := make(chan *recorder, 1)
	go func() {
		w := &recorder{header: make(http.Header), status: http.StatusOK}
		d.handler.ServeHTTP(w, in)
		done <- w
	}()
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case w := <-done:
		return &http.Response{
			Status:        http.StatusText(w.status),
			StatusCode:    w.status,
			Proto:         "HTTP/1.1",
			ProtoMajor:    1,
			ProtoMinor:    1,
			Header:        w.header,
			Body:          io.NopCloser(&w.body),
			ContentLength: int64(w.body.Len()),
			Request:       r,
		}, nil
	}
}

// recorder is an http.ResponseWriter that stores the response.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header         { return w.header }
func (w *recorder) WriteHeader(status int)      { w.status = status }
func (w *recorder) Write(b []byte) (int, error) { return w.body.Write(b) }
