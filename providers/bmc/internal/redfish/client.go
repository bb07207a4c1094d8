// Package redfish drives machines over Redfish (DSP0266).
//
// It owns the connections to a Redfish service and its session: at most one, recorded so that the
// next leader can end it. An effect is sent in time or not at all, and a change is read back. The
// package must not decide whether Redfish is used, and it retries an effect only if the service has
// said that nothing was done.
package redfish

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/access"
	"github.com/holdfast-metal/holdfast/providers/bmc/internal/redfish/loose"
	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

// maxBody bounds a response of a Redfish service, in bytes.
const maxBody = 8 << 20

// Record stores the sessions that may be open at the BMC, so that the next leader can end them.
type Record interface {
	// Begin records, before a login, that a session may follow. It returns the recorded session,
	// and what else has to be ended.
	Begin(ctx context.Context, l Login) (path string, d Debt, err error)
	// Noted records the open session, and what else has to be ended.
	Noted(ctx context.Context, path string, d Debt)
	// Ended deletes the record of a session.
	Ended(ctx context.Context, path string)
}

// Config is one Redfish service and how to reach it.
type Config struct {
	BMC     access.BMC
	Base    string        // scheme and authority, e.g. "https://10.0.0.7"
	HTTP    *http.Client  // enforces the not-after time (package guard)
	Timeout time.Duration // of one request
	Verify  time.Duration // until a change reads back
	Record  Record
	Now     func() time.Time // dates logins, for this leader and later ones
}

// Client is the client of one Redfish service (DSP0266), for all machines behind it. It uses one
// session. It is safe for concurrent use.
type Client struct {
	cfg   Config
	heard atomic.Bool  // the service accepted a connection since the last Reconnect
	alone sync.RWMutex // read-locked by requests, locked to repeat one after its session expired

	mu      sync.Mutex
	session *session
	flight  *flight // login under way
	debt    Debt    // sessions of earlier logins that are not ended yet
	from    string  // own address of the last connection to the BMC
	closed  bool
	root    *serviceRoot // as last read
	work    sync.WaitGroup
}

// New returns the client of a service. It sends nothing.
func New(c Config) *Client { return &Client{cfg: c} }

// Host returns the driver of a machine behind the service. A service with several systems finds the
// machine by system, a path or an id, or else by its serial number.
func (c *Client) Host(system, serial string) *Host {
	return &Host{c: c, system: system, serial: serial}
}

// Reconnect closes the unused connections. It reports whether the service accepted a connection
// since the last Reconnect.
func (c *Client) Reconnect() (heard bool) {
	heard = c.heard.Swap(false)
	c.cfg.HTTP.CloseIdleConnections()
	return heard
}

// request is one HTTP request.
type request struct {
	method string
	path   string
	body   any
	match  string   // If-Match
	as     *session // nil: without a login
}

// answer is a response, read to its end.
type answer struct {
	status int
	header http.Header
	body   []byte
	sent   time.Time // right before the request was sent
}

// do sends a request within the session. If the session has expired (401: nothing was done), do
// repeats the request with no other one under way. A service that ends sessions early could
// otherwise end the new session too. An account only counts as refused if its newest session is.
func (c *Client) do(ctx context.Context, r request) (*answer, error) {
	c.alone.RLock()
	unlock := c.alone.RUnlock
	defer func() { unlock() }()
	const most = 3 // another request may have used up the second session
	for try := 1; ; try++ {
		s, err := c.open(ctx)
		if err != nil {
			return nil, err
		}
		r.as = s
		a, err := c.send(ctx, r)
		if statusOf(err) != http.StatusUnauthorized {
			return a, err
		}
		c.forget(ctx, s)
		if s.basic {
			c.cfg.BMC.Logins.Done(s.account, false)
		}
		if s.basic || try == most {
			return nil, access.RefusedAs(s.account, err)
		}
		if try == 1 {
			unlock()
			c.alone.Lock()
			unlock = c.alone.Unlock
		}
	}
}

// maxRedirects bounds the redirects of one reading.
const maxRedirects = 3

// send sends a request, without retries, and reads the response. A reading follows redirects on the
// same service, such as those to a path with a slash at its end.
func (c *Client) send(ctx context.Context, r request) (*answer, error) {
	for hop := 0; ; hop++ {
		a, err := c.sendOnce(ctx, r)
		moved, ok := errors.AsType[*reply](err)
		if !ok || moved.To == "" || r.method != http.MethodGet || hop == maxRedirects {
			return a, err
		}
		to, here := c.here(r.path, moved.To)
		if !here || to == r.path {
			return nil, err
		}
		r.path = to
	}
}

// here returns the path of a reference in the answer to a request for a path. ok is false if it
// leads to another service.
func (c *Client) here(path, ref string) (to string, ok bool) {
	base, err := url.Parse(c.cfg.Base + path)
	if err != nil {
		return "", false
	}
	u, err := base.Parse(ref)
	if err != nil || u.Scheme != base.Scheme || !strings.EqualFold(u.Host, base.Host) {
		return "", false
	}
	return u.RequestURI(), true
}

// sendOnce sends one request. It enters the gate of the BMC.
func (c *Client) sendOnce(ctx context.Context, r request) (*answer, error) {
	leave, err := c.cfg.BMC.Gate.Enter(ctx, r.method != http.MethodGet)
	if err != nil {
		return nil, err
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		if !i.Reused { // a reused connection proves nothing about now
			c.heard.Store(true)
			c.came(i.Conn.LocalAddr())
		}
	}})
	req, err := c.newHTTPRequest(ctx, r)
	if err != nil {
		return nil, err
	}
	sent := c.cfg.Now()
	res, err := c.cfg.HTTP.Do(req)
	if err != nil {
		return nil, unanswered(ctx, r, err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxBody+1))
	if err != nil {
		return nil, unanswered(ctx, r, fmt.Errorf("%s %s: read the answer: %w", r.method, r.path, err))
	}
	if len(b) > maxBody {
		return nil, access.Disagree("%s %s: the answer is longer than %d bytes", r.method, r.path, maxBody)
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		refused := newReply(r.method, r.path, res.StatusCode, b)
		if res.StatusCode/100 == 3 {
			refused.To = res.Header.Get("Location")
		}
		return nil, refused
	}
	return &answer{status: res.StatusCode, header: res.Header, body: b, sent: sent}, nil
}

// unanswered returns the error of a request without an answer. If a read fails that prepares or
// verifies an effect, the outcome of the effect is not unknown because of it.
func unanswered(ctx context.Context, r request, err error) error {
	if _, effect := providers.NotAfter(ctx); !effect || r.method != http.MethodGet {
		return err
	}
	err = access.Classify("read "+r.path, err, false)
	if providers.ClassOf(err) == providers.Timeout {
		return providers.Errorf(providers.Transient, "read "+r.path, "%w", errors.Unwrap(err))
	}
	return err
}

// newHTTPRequest returns r as an HTTP request to our BMC. The path comes from the service, possibly
// before any login, and the request carries credentials. So it must not reach another host:
// appended to "https://10.0.0.7", a path of "@host/x" or ".host/x" would.
func (c *Client) newHTTPRequest(ctx context.Context, r request) (*http.Request, error) {
	path := r.path
	if rest, ok := strings.CutPrefix(path, c.cfg.Base); ok && strings.HasPrefix(rest, "/") {
		path = rest // some services use absolute links
	}
	if !strings.HasPrefix(path, "/") {
		return nil, access.Disagree("the service refers to %q, which is not a path on this BMC: "+
			"not requested, because credentials must not reach another host", text.Clip(r.path, 100))
	}
	var body io.Reader
	if r.body != nil {
		b, err := json.Marshal(r.body)
		if err != nil {
			return nil, fmt.Errorf("encode the body of %s %s: %w", r.method, r.path, err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.cfg.Base+path, body)
	if err != nil {
		return nil, fmt.Errorf("create request for path %q of the service: %w", text.Clip(r.path, 100), err)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("OData-Version", "4.0")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.match != "" {
		req.Header.Set("If-Match", r.match)
	}
	switch {
	case r.as == nil:
	case r.as.basic:
		req.SetBasicAuth(r.as.account.User, r.as.account.Password)
	default:
		req.Header.Set("X-Auth-Token", r.as.token)
	}
	return req, nil
}

// link is a reference to a resource.
type link struct{ ID string }

// serviceRoot has the fields we need of /redfish/v1/ (ServiceRoot schema).
type serviceRoot struct {
	Vendor         string
	Product        string
	RedfishVersion string
	Systems        link
	Managers       link
	Chassis        link
	SessionService link
	Links          struct{ Sessions link }
}

// ErrNoService is the error for an address at which no Redfish service answers.
var ErrNoService = errors.New("no Redfish service")

// service returns the service root. It reads it once, without a login.
func (c *Client) service(ctx context.Context) (*serviceRoot, error) {
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
func (c *Client) readRoot(ctx context.Context) (*serviceRoot, error) {
	a, err := c.send(ctx, request{method: http.MethodGet, path: "/redfish/v1/"})
	if status := statusOf(err); status/100 == 3 || status/100 == 4 || status == http.StatusNotImplemented {
		return nil, access.Answered(fmt.Errorf("%w: %s", ErrNoService, err.Error()))
	}
	if err != nil {
		return nil, err
	}
	o, err := loose.Parse(a.body)
	root := &serviceRoot{
		Vendor:         o.Text("Vendor"),
		Product:        o.Text("Product"),
		RedfishVersion: o.Text("RedfishVersion"),
		Systems:        link{o.Link("Systems")},
		Managers:       link{o.Link("Managers")},
		Chassis:        link{o.Link("Chassis")},
		SessionService: link{o.Link("SessionService")},
	}
	root.Links.Sessions.ID = o.In("Links").Link("Sessions")
	if err != nil || root.Systems.ID == "" {
		return nil, access.Answered(fmt.Errorf("read /redfish/v1/: %w (no Systems in the answer)", ErrNoService))
	}
	if root.Links.Sessions.ID == "" && root.SessionService.ID != "" {
		root.Links.Sessions.ID = strings.TrimRight(root.SessionService.ID, "/") + "/Sessions"
	}
	return root, nil
}

// Probe returns an error unless a Redfish service answers. It needs no login.
func (c *Client) Probe(ctx context.Context) error {
	_, err := c.readRoot(ctx)
	return err
}

// Vendor returns the vendor and product that the service root reports.
func (c *Client) Vendor() (vendor, product string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.root == nil {
		return "", ""
	}
	return cmp.Or(c.root.Vendor, c.root.Product), c.root.Product
}
