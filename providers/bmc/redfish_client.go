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
)

// maxBody bounds an answer of a Redfish service, in bytes.
const maxBody = 8 << 20

// redfishClient speaks to one Redfish service (DSP0266) for all machines behind it, in one session.
type redfishClient struct {
	base    string // scheme and authority
	http    *http.Client
	gate    *gate
	timeout time.Duration // of one request
	verify  time.Duration // how long what was changed may take to read back
	login   loginDeps
	heard   atomic.Bool  // the service has taken a connection since this was last looked at
	alone   sync.RWMutex // held for reading by requests, for writing by one that was sent in a session that had expired

	mu      sync.Mutex
	session *session
	flight  *flight // a login that is under way
	lost    bool    // a login got no answer: there may be a session that we do not know
	closed  bool
	root    *serviceRoot // what it said of itself
	work    sync.WaitGroup
}

// loginDeps are what logging in needs.
type loginDeps struct {
	account func(ctx context.Context) (Account, error)
	refused *logins
	begin   func(ctx context.Context) error                   // remembers that there may be a session soon: who dies before its note leaves it to the next leader
	begun   func() bool                                       // such a login is recorded, and what came of it is not
	noted   func(ctx context.Context, path string, more bool) // remembers the session that is open, and whether there may be more
	ended   func(ctx context.Context, path string)            // forgets it
	former  func() string                                     // the session that an earlier leader left
	quirks  func() Quirks
}

// request is one HTTP request of ours.
type request struct {
	method string
	path   string
	body   any
	match  string // If-Match
	auth   func(*http.Request)
}

func (r request) writes() bool { return r.method != http.MethodGet && r.method != http.MethodHead }

// answer is what came back, read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// decode reads the body.
func (a *answer) decode(v any) error {
	if err := json.Unmarshal(a.body, v); err != nil {
		return disagree("the service answered what is no JSON of that kind: %w", err)
	}
	return nil
}

// do sends a request within the session. When the session has expired (401: nothing was done) it
// sends it again, alone: next to others, it could meet the end of the new session too, on a service
// that ends them early. An account is refused only when its newest session is.
func (c *redfishClient) do(ctx context.Context, r request) (*answer, error) {
	c.alone.RLock()
	a, gone, err := c.try(ctx, r)
	c.alone.RUnlock()
	if gone == nil {
		return a, err
	}
	c.alone.Lock()
	defer c.alone.Unlock()
	for try := 0; try < 2 && !gone.basic; try++ { // the first session may be one that another request has used up
		next, expired, err := c.try(ctx, r)
		if expired == nil {
			return next, err
		}
		gone = expired
	}
	return nil, refusedAs(gone.account, err)
}

// try sends a request within the session. A session that the service does not know any more is
// dropped and returned.
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
		c.login.refused.done(s.account, false)
	}
	return nil, s, err
}

// send sends a request, without retries, and reads the answer. It holds one of the BMC's places
// meanwhile.
func (c *redfishClient) send(ctx context.Context, r request) (*answer, error) {
	leave, err := c.gate.enter(ctx, r.writes())
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		if !i.Reused { // one that was made earlier says nothing of now
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
		return nil, disagree("%s %s: the answer is longer than %d bytes", r.method, r.path, maxBody)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		return nil, newReply(r.method, r.path, res.StatusCode, b)
	}
	return &answer{status: res.StatusCode, header: res.Header, body: b}, nil
}

// request makes an HTTP request to our BMC. Paths come from the service, before anybody has logged
// in even, and what is signed with them must go nowhere else: behind "https://10.0.0.7", a path of
// "@host/x" or ".host/x" would be another host.
func (c *redfishClient) request(ctx context.Context, r request, body io.Reader) (*http.Request, error) {
	path := r.path
	if rest, ok := strings.CutPrefix(path, c.base); ok && strings.HasPrefix(rest, "/") {
		path = rest // some services write links in full
	}
	if !strings.HasPrefix(path, "/") {
		return nil, disagree("the service refers to %q, which is no path on this BMC: not asked, no account goes to another host", clip(r.path, 100))
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+path, body)
	if err != nil {
		return nil, fmt.Errorf("make a request of path %q, which the service gave: %w", clip(r.path, 100), err)
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

// serviceRoot is what we need of /redfish/v1/ (ServiceRoot schema).
type serviceRoot struct {
	Vendor         string
	Product        string
	RedfishVersion string
	Systems        link
	Managers       link
	SessionService link
	Links          struct{ Sessions link }
}

var errNoRedfish = errors.New("there is no Redfish service")

// service reads the service root, which needs no login, once.
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

// readRoot reads it now. Some web servers lead who asks for what they do not have to a page for
// people.
func (c *redfishClient) readRoot(ctx context.Context) (*serviceRoot, error) {
	a, err := c.send(ctx, request{method: http.MethodGet, path: "/redfish/v1/"})
	var r *reply
	if errors.As(err, &r) && (r.Status/100 == 3 || r.class() == providers.Unsupported) {
		return nil, &answered{fmt.Errorf("%w: %s", errNoRedfish, r.Error())}
	}
	if err != nil {
		return nil, err
	}
	root := new(serviceRoot)
	if err := a.decode(root); err != nil || root.Systems.ID == "" {
		return nil, &answered{fmt.Errorf("read /redfish/v1/: %w (no Systems in the answer)", errNoRedfish)}
	}
	if root.Links.Sessions.ID == "" && root.SessionService.ID != "" {
		root.Links.Sessions.ID = root.SessionService.ID + "/Sessions"
	}
	return root, nil
}
