package auth

import (
	"errors"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
)

// The limits of HTTP requests.
const (
	// MaxBody is the maximum size of a request body in bytes. Reading more of it returns
	// an *http.MaxBytesError, which handlers answer with 413.
	MaxBody     = 1 << 20
	bodyTimeout = 30 * time.Second // for the whole body
)

// ErrorWriter writes the response to a refused call, in the format of the API that the route
// belongs to. The status is 401, 403, 429 or 503 from the gate, 404 or 405 from
// Otherwise, and 400 or 500 from httpjson. It may show err.Message to the client.
type ErrorWriter func(w http.ResponseWriter, r *http.Request, status int, err *Error)

// Route is one route of a Mux.
type Route struct {
	Pattern string // POST /api/v1/machine/register
	Rule    Rule
}

// Mux is an http.ServeMux that accepts no route without a rule.
type Mux struct {
	g      *Gate
	mux    *http.ServeMux
	routes *[]Route
	bare   *http.ServeMux // the routes alone, to find out if a path has other methods
	cookie cookie         // may contain a token
}

// cookie is a cookie that may contain a token. Without a name it is not used.
type cookie struct {
	name string
	open func(value string) (Cookie, bool)
}

// of returns the content of a request's cookie, or nil.
func (c *cookie) of(r *http.Request) (*Cookie, *Error) {
	if c.name == "" {
		return nil, nil
	}
	sent, err := r.Cookie(CookieName(r, c.name))
	if err != nil {
		return nil, nil //nolint:nilerr // the request has no such cookie
	}
	content, ok := c.open(sent.Value)
	if !ok {
		return nil, unauthenticated(ReasonTokenExpired, "the session has expired: sign in again")
	}
	return &content, nil
}

// CookieName returns the name of a cookie of this host. With TLS it has the prefix __Host-, so that
// neither another host of the domain nor a page without TLS can set it.
func CookieName(r *http.Request, name string) string {
	if r.TLS != nil {
		return "__Host-" + name
	}
	return name
}

// NewMux returns a mux without routes.
func (g *Gate) NewMux() *Mux {
	return &Mux{g: g, mux: http.NewServeMux(), routes: new([]Route), bare: http.NewServeMux()}
}

// WithCookie returns a Mux for adding routes that users open in a browser. On those
// routes a request without an Authorization header may carry its token in that cookie.
// Browsers send cookies with the requests of other sites too, so the handlers must check
// that a request comes from one of their own pages. Open returns the content of a
// cookie's value, and whether the cookie is valid. With TLS the name has the prefix __Host-, with
// which a browser accepts a cookie only from this host, over TLS.
func (m *Mux) WithCookie(name string, open func(value string) (Cookie, bool)) *Mux {
	c := *m
	c.cookie = cookie{name: name, open: open}
	return &c
}

// Routes returns all routes that were added.
func (m *Mux) Routes() []Route { return *m.routes }

// ServeHTTP implements http.Handler. A path with double slashes or dot segments is served as the
// path without them. ServeMux would redirect it, and clients in the field do not follow redirects,
// or repeat the request without its body or token. Browsers must not guess the type of an answer,
// and pages of other sites cannot embed one.
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
	m.mux.ServeHTTP(w, cleaned(r))
}

// cleaned returns the request with a clean path.
func cleaned(r *http.Request) *http.Request {
	is := r.URL.EscapedPath()
	if r.Method == http.MethodConnect || !strings.Contains(is, "//") && !strings.Contains(is, "/.") {
		return r
	}
	clean := path.Clean("/" + is)
	if strings.HasSuffix(is, "/") && clean != "/" {
		clean += "/"
	}
	plain, err := url.PathUnescape(clean)
	if clean == is || err != nil {
		return r
	}
	own := *r
	u := *r.URL
	u.Path, u.RawPath = plain, clean
	own.URL = &u
	return &own
}

// Handle adds a route: "GET /readyz". It panics if the pattern is bad or the rule allows
// no caller. ErrorWriter may be nil: then a refusal is one line of text.
//
// The handler gets a context with the caller, and a body of at most MaxBody bytes that
// must arrive within 30 s, unless the rule allows an upload. It uses that context for gRPC
// calls within this process. The rule of the route decides only whether a caller may use
// the route; the rule of the RPC checks the request.
func (m *Mux) Handle(pattern string, rule Rule, writeError ErrorWriter, h http.Handler) {
	if !rule.set() {
		panic("route " + strconv.Quote(pattern) + " has no rule that allows a caller")
	}
	if writeError == nil {
		writeError = writeText
	}
	*m.routes = append(*m.routes, Route{Pattern: pattern, Rule: rule})
	m.mux.Handle(pattern, m.g.guard(pattern, rule, writeError, m.cookie, h))
	m.bare.Handle(pattern, h)
}

// HandleFunc is Handle for a function.
func (m *Mux) HandleFunc(pattern string, rule Rule, writeError ErrorWriter, h http.HandlerFunc) {
	m.Handle(pattern, rule, writeError, h)
}

// guard returns a handler that checks a request against the rule of the route, then calls
// h.
func (g *Gate) guard(pattern string, rule Rule, writeError ErrorWriter, cookie cookie, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.localHost(r, rule.Public); err != nil {
			refuse(w, r, writeError, err)
			return
		}
		if r.Body != nil && r.Body != http.NoBody && !rule.Upload {
			// A slow body must not hold a connection forever. The writers of tests have
			// no deadlines.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(g.body))
			if r.ContentLength < 0 || r.ContentLength > MaxBody { // otherwise the declared length bounds it
				r.Body = http.MaxBytesReader(w, r.Body, MaxBody)
			}
		}
		if rule.Public {
			if err := g.allowPublic(&rule, sourceOf(r.RemoteAddr)); err != nil {
				refuse(w, r, writeError, err)
				return
			}
			h.ServeHTTP(w, r.WithContext(withAddress(r.Context(), sourceOf(r.RemoteAddr))))
			return
		}
		p := g.fromHTTP(r, pattern)
		if len(p.bearer) == 0 {
			var over *Error
			if p.cookie, over = cookie.of(r); over != nil {
				refuse(w, r, writeError, g.judged(over))
				return
			}
			if p.cookie != nil {
				p.bearer = []string{p.cookie.Token}
			}
		}
		read := r.Method == http.MethodGet || r.Method == http.MethodHead
		p.page = read && cookie.name != ""
		c, err := g.admit(r.Context(), &p, read)
		if err == nil {
			err = g.mayEnter(c, &rule, pattern)
		}
		if err == nil && cookie.name == "" {
			err = g.sameSite(r)
		}
		if err == nil {
			h.ServeHTTP(w, r.WithContext(NewContext(r.Context(), c)))
			return
		}
		e, ok := errors.AsType[*Error](err)
		if !ok {
			e = &Error{
				Code: codes.Unavailable, Reason: "NO_LEADER", Retry: time.Second,
				Message: "cannot authenticate the caller: the cluster has no leader now: retry",
			}
		} else if c != nil && !read {
			g.denials.refused(r.Context(), c, "", "", e)
		}
		if c != nil { // the page of a refusal shows the signed-in user
			r = r.WithContext(NewContext(r.Context(), c))
		}
		refuse(w, r, writeError, e)
	})
}

// allowPublic counts a public call against the limits of its address and of all
// addresses.
func (g *Gate) allowPublic(rule *Rule, source string) *Error {
	if g.cfg.Insecure || rule.Unlimited {
		return nil
	}
	err := g.limits.public(source)
	if err != nil {
		g.metrics.refused.WithLabelValues(err.Reason).Inc()
	}
	return err
}

// mayEnter is Authorize for a route. It returns an *Error or nil.
func (g *Gate) mayEnter(c *Caller, rule *Rule, pattern string) error {
	_, err := g.recheck(c, c.seen)
	if err == nil {
		err = rule.allows(c.Identity, nil, pattern)
	}
	if err == nil {
		return nil
	}
	g.metrics.refused.WithLabelValues(err.Reason).Inc()
	return err
}

// sameSite refuses a request that a browser sends for a page of another site. A browser
// adds its client certificate to such a request, and with --insecure no credentials are
// needed. A token in the header proves that the sender knows it, and programs other than
// browsers send neither Sec-Fetch-Site nor Origin. Routes with a cookie have a stricter
// check.
//
// A read is refused too, unless a person follows a link: its answer is not for that page, but it
// costs the peer as much as that of any other call.
func (g *Gate) sameSite(r *http.Request) error {
	crossRead := r.Header.Get("Sec-Fetch-Site") == "cross-site" &&
		(r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document")
	if len(r.Header.Values("Authorization")) > 0 || new(http.CrossOriginProtection).Check(r) == nil && !crossRead {
		return nil
	}
	g.metrics.refused.WithLabelValues(ReasonCrossOrigin).Inc()
	return denied(ReasonCrossOrigin,
		"refuse a request from a page of another site (Origin %.100q): send a token in the `Authorization` header",
		r.Header.Get("Origin"))
}

func refuse(w http.ResponseWriter, r *http.Request, writeError ErrorWriter, e *Error) {
	status := StatusOf(e.Code)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="holdfast"`)
	}
	if e.Retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((e.Retry+time.Second-1)/time.Second)))
	}
	writeError(w, r, status, e)
}

// StatusOf returns the default HTTP status of a code. An API may specify another one.
func StatusOf(c codes.Code) int {
	switch c {
	case codes.OK:
		return http.StatusOK
	case codes.InvalidArgument:
		return http.StatusBadRequest
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.PermissionDenied:
		return http.StatusForbidden
	case codes.NotFound:
		return http.StatusNotFound
	case codes.AlreadyExists, codes.FailedPrecondition, codes.Aborted:
		return http.StatusConflict
	case codes.OutOfRange:
		return http.StatusGone
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

func writeText(w http.ResponseWriter, _ *http.Request, status int, err *Error) {
	http.Error(w, err.Message, status)
}

// TooLarge reports whether reading a body failed because it exceeds MaxBody. The status
// is then 413.
func TooLarge(err error) bool {
	_, ok := errors.AsType[*http.MaxBytesError](err)
	return ok
}
