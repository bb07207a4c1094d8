package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/holdfast-metal/holdfast/client/internal/hedge"
)

// Request is a POST. All these APIs accept the same request twice: it may be sent again
// after a try whose outcome is unknown, or to another peer at the same time.
type Request struct {
	Path string // begins with a slash
	Body []byte
	json bool // sets the Content-Type, which is not sent otherwise
	// Final reports whether another peer would return the same unsuccessful answer.
	Final func(*Answer) bool
	// OneByOne is set for requests that create something each time they succeed. Another
	// peer is tried only after one has failed.
	OneByOne bool
}

// Post tries one peer after the other, each at most once (twice if its token can be
// renewed), until one returns a final answer. It moves on if a peer fails or, unless the
// request is OneByOne, is slow (package hedge). Without a final answer it returns the last
// answer, or the errors of all peers if none answered. The next request begins with the
// peer that answered, or with another one if none did.
func (p *Peers) Post(ctx context.Context, req Request) (*Answer, error) {
	// Without a token, no peer would accept the request.
	if _, err := p.tokens.Token(ctx); err != nil {
		return nil, err
	}
	order := p.order.List()
	r := reply{req: req}
	if req.OneByOne {
		for _, at := range order {
			if a, err := p.ask(ctx, at, req); p.judge(ctx, at, &r, tried{a, err}) {
				break
			}
		}
		return r.result()
	}
	late := hedge.Race(ctx, &p.pace, len(order), func(ctx context.Context, i int) tried {
		a, err := p.ask(ctx, order[i], req)
		return tried{a, err}
	}, func(i int, t tried) bool { return p.judge(ctx, order[i], &r, t) })
	for _, i := range late {
		p.order.Late(order[i])
	}
	return r.result()
}

// PostJSON is Post with a value as the body.
func (p *Peers) PostJSON(ctx context.Context, req Request, body any) (*Answer, error) {
	var err error
	if req.Body, err = json.Marshal(body); err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	req.json = true
	return p.Post(ctx, req)
}

// tried is the result of one peer.
type tried struct {
	answer *Answer
	err    error
}

// reply collects the results so far.
type reply struct {
	req    Request
	answer *Answer
	errs   []error
}

func (r *reply) result() (*Answer, error) {
	if r.answer != nil {
		return r.answer, nil
	}
	return nil, errors.Join(r.errs...)
}

// judge records the result of a peer and reports whether Post is done.
func (p *Peers) judge(ctx context.Context, at int, r *reply, t tried) bool {
	if t.err != nil {
		r.errs = append(r.errs, t.err)
	} else if r.answer = t.answer; t.answer.OK() || r.req.Final != nil && r.req.Final(t.answer) {
		return true
	}
	if ctx.Err() != nil {
		return true
	}
	// Several failed requests move the peer once.
	p.order.Leave(at)
	return t.err == nil && !otherPeerMay(t.answer.Status)
}

// otherPeerMay reports whether another peer may return a different status. This peer may be
// failing or overloaded, it may be a proxy, or it may lag behind and not know the token or
// id yet.
func otherPeerMay(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	}
	return status >= 500 || status < 400
}

// ask sends the request to one peer, and once more if a refused token can be renewed.
func (p *Peers) ask(ctx context.Context, at int, req Request) (*Answer, error) {
	token, err := p.tokens.Token(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := p.try(ctx, at, req, token)
	if err != nil || answer.Status != http.StatusUnauthorized || !p.tokens.Refused(token) {
		return answer, err
	}
	if token, err = p.tokens.Token(ctx); err != nil {
		return nil, err
	}
	return p.try(ctx, at, req, token)
}

func (p *Peers) try(ctx context.Context, at int, req Request, token string) (*Answer, error) {
	timeout := p.timeout
	if end, ok := ctx.Deadline(); ok && req.OneByOne {
		// A caller with a short deadline can still try every peer.
		timeout = min(timeout, time.Until(end)/time.Duration(len(p.bases)))
	}
	expired := fmt.Errorf("no response within %s", timeout.Round(time.Millisecond))
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, expired)
	defer cancel()
	// Not JoinPath: it would remove a trailing slash and unescape ids.
	url := p.bases[at].String() + req.Path
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(req.Body))
	if err != nil {
		return nil, fmt.Errorf("create the request: %w", err)
	}
	if req.json {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if p.userAgent != "" {
		r.Header.Set("User-Agent", p.userAgent)
	}
	if !req.OneByOne {
		// Lets net/http retry by itself if a reused connection was closed. It cannot tell
		// that from a request that was received but not answered. An empty list is not
		// sent.
		r.Header["Idempotency-Key"] = nil
	}
	resp, err := p.http.Do(r)
	if err != nil {
		return nil, because(ctx, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxBody+1))
	if err != nil {
		return nil, fmt.Errorf("read the response of %s: %w", url, because(ctx, err))
	}
	if len(body) > MaxBody {
		return nil, fmt.Errorf("read the response of %s: longer than %d bytes", url, MaxBody)
	}
	return &Answer{URL: url, Status: resp.StatusCode, Body: body, RetryAfter: retryAfter(resp.Header)}, nil
}

// because adds the cause of the context's end to "context deadline exceeded".
func because(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
	}
	return err
}
