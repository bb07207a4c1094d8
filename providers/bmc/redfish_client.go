package bmc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
)

// maxBody bounds a response of a Redfish service, in bytes.
const maxBody = 8 << 20

// redfishClient is the client of one Redfish service (DSP0266), for all machines behind it. It uses
// one session.
type redfishClient struct {
	base    string // scheme and authority
	http    *http.Client
	gate    *access.Gate
	timeout time.Duration // of one request
	verify  time.Duration // until a change reads back
	login   loginDeps
	heard   atomic.Bool  // the service accepted a connection since the last check
	alone   sync.RWMutex // read-locked by requests, locked to repeat one after its session expired

	mu      sync.Mutex
	session *session
	flight  *flight // login under way
	lost    bool    // a login got no answer: there may be an unknown session
	closed  bool
	root    *serviceRoot // as last read
	work    sync.WaitGroup
}

// loginDeps are the dependencies of logins.
type loginDeps struct {
	account func(ctx context.Context) (Account, error)
	refused *access.Logins
	begin   func(ctx context.Context) error                   // records, before a login, that a session may follow
	begun   func() bool                                       // such a login is recorded, but not its result
	noted   func(ctx context.Context, path string, more bool) // records the open session; more: there may be others
	ended   func(ctx context.Context, path string)            // deletes that record
	former  func() string                                     // session left open by an earlier leader
	quirks  func() access.Quirks
}

// request is one HTTP request.
type request struct {
	method string
	path   string
	body   any
	match  string // If-Match
	auth   func(*http.Request)
}

func (r request) writes() bool { return r.method != http.MethodGet && r.method != http.MethodHead }

// answer is a response, read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// decode parses the body.
func (a *answer) decode(v any) error {
	if err := json.Unmarshal(a.body, v); err != nil {
		return access.Disagree("the service returned unexpected JSON: %w", err)
	}
	return nil
}

// do sends a request within the session. If the session has expired (401: nothing was done), do
// repeats the request with no other one under way. A service that ends sessions early could
// otherwise end the new session too. An account only counts as refused if its newest session is.
func (c *redfishClient) do(ctx context.Context, r request) (*answer, error) {
	c.alone.RLock()
	a, gone, err := c.try(ctx, r)
	c.alone.RUnlock()
	if gone == nil {
		return a, err
	}
	c.alone.Lock()
	defer c.alone.Unlock()
	for try := 0; try < 2 && !gone.basic; try++ { // another request may have used up the first session
		next, expired, err := c.try(ctx, r)
		if expired == nil {
			return next, err
		}
		gone = expired
	}
	return nil, access.RefusedAs(gone.account, err)
}

// try sends a request within the session. If the service no longer knows the session, try drops and
// returns it.
func (c *redfishClient) try(ctx context.Context, r request) (*answer, *session, error) {
	s, err := c.open(ctx)
	if err != nil {
		return nil, nil, err
	}
	r.auth = s.sign
	a, err := c.send(ctx, r)
	if statusOf(err) != http.StatusUnauthorized {
		return a, nil, err
	}
	c.forget(ctx, s)
	if s.basic {
		c.login.refused.Done(s.account, false)
	}
	return nil, s, err
}

// send sends a request, without retries, and reads the response. It enters the gate of the BMC.
func (c *redfishClient) send(ctx context.Context, r request) (*answer, error) {
	leave, err := c.gate.Enter(ctx, r.writes())
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		if !i.Reused { // a reused connection proves nothing about now
			c.heard.Store(true)
		}
	}})
	var body io.Reader
	if r.body != nil {
		b, err := json.Marshal(r.body)
		if err != nil {
			return nil, fmt.Errorf("encode the body of %s %s: %w", r.method, r.path, err)
		}
		body = bytes.NewReader(b)
	}
	req, err := c.request(ctx, r, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("OData-Version", "4.0")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.match != "" {
		req.Header.Set("If-Match", r.match)
	}
	if r.auth != nil {
		r.auth(req)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("%s %s: read the answer: %w", r.method, r.path, err)
	}
	if len(b) > maxBody {
		return nil, access.Disagree("%s %s: the answer is longer than %d bytes", r.method, r.path, maxBody)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return nil, newReply(r.method, r.path, res.StatusCode, b)
	}
	return &answer{status: res.StatusCode, header: res.Header, body: b}, nil
}

// request builds an HTTP request to our BMC. The path comes from the service, possibly before any
// login, and the request carries credentials. So it must not reach another host: appended to
// "https://10.0.0.7", a path of "@host/x" or ".host/x" would.
func (c *redfishClient) request(ctx context.Context, r request, body io.Reader) (*http.Request, error) {
	path := r.path
	if rest, ok := strings.CutPrefix(path, c.base); ok && strings.HasPrefix(rest, "/") {
		path = rest // some services use absolute links
	}
	if !strings.HasPrefix(path, "/") {
		return nil, access.Disagree("the service refers to %q, which is not a path on this BMC: "+
			"not requested, because credentials must not reach another host", access.Clip(r.path, 100))
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("create request for path %q of the service: %w", access.Clip(r.path, 100), err)
	}
	return req, nil
}

// get reads a resource within the session.
func (c *redfishClient) get(ctx context.Context, path string, v any) (*answer, error) {
	a, err := c.do(ctx, request{method: http.MethodGet, path: path})
	if err != nil {
		return nil, err
	}
	if err := a.decode(v); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return a, nil
}

// expect reads a resource that every service has, or that this one has shown before.
func (c *redfishClient) expect(ctx context.Context, path string, v any) (*answer, error) {
	a, err := c.get(ctx, path, v)
	return a, notYet(err)
}

// link is a reference to a resource.
type link struct {
	ID string `json:"@odata.id"`
}

// serviceRoot has the fields we need of /redfish/v1/ (ServiceRoot schema).
type serviceRoot struct {
	Vendor         string
	Product        string
	RedfishVersion string
	Systems        link
	Managers       link
	SessionService link
	Links          struct{ Sessions link }
}

var errNoRedfish = errors.New("no Redfish service")

// service returns the service root. It reads it once, without a login.
func (c *redfishClient) service(ctx context.Context) (*serviceRoot, error) {
	c.mu.Lock()
	root := c.root
	c.mu.Unlock()
	if root != nil {
		return root, nil
	}
	root, err := c.readRoot(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.root = root
	return root, nil
}

// readRoot reads the service root. Some web servers redirect unknown paths to an HTML page.
func (c *redfishClient) readRoot(ctx context.Context) (*serviceRoot, error) {
	a, err := c.send(ctx, request{method: http.MethodGet, path: "/redfish/v1/"})
	var r *reply
	if errors.As(err, &r) && (r.Status/100 == 3 || r.Class() == providers.Unsupported) {
		return nil, access.Answered(fmt.Errorf("%w: %s", errNoRedfish, r.Error()))
	}
	if err != nil {
		return nil, err
	}
	root := new(serviceRoot)
	if err := a.decode(root); err != nil || root.Systems.ID == "" {
		return nil, access.Answered(fmt.Errorf("read /redfish/v1/: %w (no Systems in the answer)", errNoRedfish))
	}
	if root.Links.Sessions.ID == "" && root.SessionService.ID != "" {
		root.Links.Sessions.ID = root.SessionService.ID + "/Sessions"
	}
	return root, nil
}
