package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/client/internal/hedge"
)

// Request is a POST. Every one of these APIs can be asked twice for the same thing: what is sent
// again after a try whose outcome is unknown, or to another peer while one is at work on it, says
// the same as before.
type Request struct {
	Path string // begins with a slash
	Body []byte
	JSON bool // sets the Content-Type; otherwise none is sent
	// Final says of an answer that is not one of success that another peer would say the same.
	Final func(*Answer) bool
	// OneByOne is for the request that makes something new each time it is taken: another peer is
	// asked only after one has failed.
	OneByOne bool
}

// Answer is what a server said.
type Answer struct {
	URL        string
	Status     int
	Body       []byte
	RetryAfter time.Duration // what it asked for; zero: nothing
}

// OK reports whether the status is one of success.
func (a *Answer) OK() bool { return a.Status >= 200 && a.Status < 300 }

// Err returns nil for an answer of success, and otherwise what it says. The text of the server is
// cut and quoted.
func (a *Answer) Err() error {
	if a.OK() {
		return nil
	}
	return &StatusError{URL: a.URL, Status: a.Status, Message: a.message(), RetryAfter: a.RetryAfter}
}

// StatusError is an answer that is not one of success.
type StatusError struct {
	URL        string
	Status     int
	Message    string // of the body, for people; may be empty
	RetryAfter time.Duration
}

// Error implements error.
func (e *StatusError) Error() string {
	if e.Message == "" {
		return fmt.Sprintf("%s answered %d %s", e.URL, e.Status, http.StatusText(e.Status))
	}
	return fmt.Sprintf("%s answered %d: %q", e.URL, e.Status, e.Message)
}

// Status returns the status of the answer behind an error, 0 if there was no answer.
func Status(err error) int {
	if e, ok := errors.AsType[*StatusError](err); ok {
		return e.Status
	}
	return 0
}

// maxMessage is how much of a server's text an error repeats.
const maxMessage = 200

// message finds the text for people in any of the error bodies of these APIs.
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
	text = strings.TrimSpace(text)
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "…"
	}
	return text
}

// Post asks one peer after the other, each at most once (twice where a new token is at hand), until
// one gives an answer that another would give too: the next one when one has failed, and, unless
// the request is OneByOne, also when it takes long (package hedge). If none does, it returns the
// last answer, or the errors of all when no peer has answered. The next request begins with the
// peer that answered well, or with another one.
func (p *Peers) Post(ctx context.Context, req Request) (*Answer, error) {
	// Without a token there is nobody to ask.
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
		return r.give()
	}
	late := hedge.Race(ctx, &p.pace, len(order), func(ctx context.Context, i int) tried {
		a, err := p.ask(ctx, order[i], req)
		return tried{a, err}
	}, func(i int, t tried) bool { return p.judge(ctx, order[i], &r, t) })
	for _, i := range late {
		p.order.Late(order[i])
	}
	return r.give()
}

// tried is what one peer has brought.
type tried struct {
	answer *Answer
	err    error
}

// reply is what is known so far.
type reply struct {
	req    Request
	answer *Answer
	errs   []error
}

func (r *reply) give() (*Answer, error) {
	if r.answer != nil {
		return r.answer, nil
	}
	return nil, errors.Join(r.errs...)
}

// judge notes what a peer has brought, and says whether that is the end of it.
func (p *Peers) judge(ctx context.Context, at int, r *reply, t tried) bool {
	if t.err != nil {
		r.errs = append(r.errs, t.err)
	} else if r.answer = t.answer; t.answer.OK() || r.req.Final != nil && r.req.Final(t.answer) {
		return true
	}
	if ctx.Err() != nil {
		return true
	}
	// Once for all the requests that failed there.
	p.order.Leave(at)
	return t.err == nil && !elsewhere(t.answer.Status)
}

// elsewhere says of a status that another peer may give another one: this one is ill or overloaded,
// or is no peer at all but something in front of it; or it lags behind and does not know the token
// or the id yet.
func elsewhere(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusRequestTimeout, http.StatusTooManyRequests:
		return true
	}
	return status >= 500 || status < 400
}

// ask asks one peer, and once more when it refused a token that can be renewed.
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
		// A caller in a hurry still gets to ask everybody.
		timeout = min(timeout, time.Until(end)/time.Duration(len(p.bases)))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %s", timeout.Round(time.Millisecond)))
	defer cancel()
	// Not JoinPath: it would clean away a trailing slash and unescape ids.
	url := p.bases[at].String() + req.Path
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(req.Body))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	if req.JSON {
		r.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if p.userAgent != "" {
		r.Header.Set("User-Agent", p.userAgent)
	}
	if !req.OneByOne {
		// Lets net/http send it again by itself when a connection that was used before has ended,
		// which is not to be told from a request that was taken and not answered. An empty list is
		// not sent.
		r.Header["Idempotency-Key"] = nil
	}
	resp, err := p.http.Do(r)
	if err != nil {
		return nil, because(ctx, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxBody+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", url, because(ctx, err))
	}
	if len(body) > MaxBody {
		return nil, fmt.Errorf("read the answer of %s: it is longer than %d bytes", url, MaxBody)
	}
	return &Answer{URL: url, Status: resp.StatusCode, Body: body, RetryAfter: retryAfter(resp.Header)}, nil
}

// because puts the reason why the context ended in place of "context deadline exceeded".
func because(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() != nil {
		return fmt.Errorf("%w (%w)", err, context.Cause(ctx))
	}
	return err
}

// maxRetryAfter bounds what a server can ask for: whoever sends an hour by mistake loses no
// clients.
const maxRetryAfter = time.Minute

func retryAfter(h http.Header) time.Duration {
	n, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || n <= 0 {
		return 0
	}
	return min(time.Duration(n)*time.Second, maxRetryAfter)
}

// RetryAfter returns how long the answer behind an error asked to wait, zero if it did not.
func RetryAfter(err error) time.Duration {
	if e, ok := errors.AsType[*StatusError](err); ok {
		return e.RetryAfter
	}
	return 0
}
