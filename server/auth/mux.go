package auth

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
)

// The limits of HTTP requests.
const (
	// MaxBody is how many bytes of a body are read: a handler that reads on gets an
	// *http.MaxBytesError, and answers 413.
	MaxBody     = 1 << 20
	bodyTimeout = 30 * time.Second // for the whole body
)

// Words writes the answer to a call that is refused, in the words of the API that the route belongs
// to. Status is 401, 403, 429 or 503 from the gate, 404 or 405 from Otherwise, and 400 or 500 from
// httpjson; err.Message is fit to be shown.
type Words func(w http.ResponseWriter, r *http.Request, status int, err *Error)

// Route is one route of a Mux.
type Route struct {
	Pattern string // POST /api/v1/machine/register
	Rule    Rule
}

// Mux is a http.ServeMux that takes no route without a rule.
type Mux struct {
	g      *Gate
	mux    *http.ServeMux
	routes *[]Route
	twin   *http.ServeMux // the routes alone: it knows what a path without a route lacks
	cookie cookie         // that may bring a token
}

// cookie is one that may bring a token; without a name there is none.
type cookie struct {
	name  string
	token func(value string) (string, bool)
}

// of returns the tokens that a request's cookie brings: one or none.
func (c *cookie) of(r *http.Request) ([]string, *Error) {
	if c.name == "" {
		return nil, nil
	}
	sent, err := r.Cookie(c.name)
	if err != nil {
		return nil, nil //nolint:nilerr // there is no such cookie
	}
	token, ok := c.token(sent.Value)
	if !ok {
		return nil, unauthenticated(ReasonTokenExpired, "this session is over: sign in again")
	}
	return []string{token}, nil
}

// NewMux returns a mux without routes.
func (g *Gate) NewMux() *Mux {
	return &Mux{g: g, mux: http.NewServeMux(), routes: new([]Route), twin: http.NewServeMux()}
}

// WithCookie returns a way to add routes for people in a browser: there a request without an
// Authorization header may bring its token in that cookie. A browser sends cookies whoever asked
// for the request, so these routes see to it themselves that it was one of their own pages. Token
// returns the token that a cookie stands for, and reports whether the cookie is good.
func (m *Mux) WithCookie(name string, token func(value string) (string, bool)) *Mux {
	c := *m
	c.cookie = cookie{name: name, token: token}
	return &c
}

// Routes lists what was handled.
func (m *Mux) Routes() []Route { return *m.routes }

// ServeHTTP implements http.Handler.
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) { m.mux.ServeHTTP(w, r) }

// Handle adds a route: "GET /readyz". A rule that lets nobody in panics, as a bad pattern does.
// Words may be nil: then the refusal is a line of text.
//
// The handler gets a context with the caller, and a body of at most MaxBody bytes that must come
// within 30 s. It makes gRPC calls of this process with that context: the rule of the route is
// about who may come in at all, the RPC's about what they ask for.
func (m *Mux) Handle(pattern string, rule Rule, words Words, h http.Handler) {
	if !rule.set() {
		panic("route " + strconv.Quote(pattern) + " has no rule that lets anybody in")
	}
	if words == nil {
		words = plainWords
	}
	*m.routes = append(*m.routes, Route{Pattern: pattern, Rule: rule})
	m.mux.Handle(pattern, m.g.guard(pattern, rule, words, m.cookie, h))
	m.twin.Handle(pattern, h)
}

// HandleFunc is Handle for a function.
func (m *Mux) HandleFunc(pattern string, rule Rule, words Words, h http.HandlerFunc) {
	m.Handle(pattern, rule, words, h)
}

// guard stands before a route.
func (g *Gate) guard(pattern string, rule Rule, words Words, cookie cookie, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := g.localHost(r, rule.Public); err != nil {
			refuse(w, r, words, err)
			return
		}
		if r.Body != nil && r.Body != http.NoBody {
			// A body that trickles in must not hold a connection for ever. Writers of tests have no
			// deadlines.
			_ = http.NewResponseController(w).SetReadDeadline(g.now().Add(g.body))
			if r.ContentLength < 0 || r.ContentLength > MaxBody { // else it is held to the length that it has said
				r.Body = http.MaxBytesReader(w, r.Body, MaxBody)
			}
		}
		if rule.Public {
			if err := g.mayAsk(&rule, sourceOf(r.RemoteAddr)); err != nil {
				refuse(w, r, words, err)
				return
			}
			h.ServeHTTP(w, r.WithContext(withAddress(r.Context(), sourceOf(r.RemoteAddr))))
			return
		}
		p := g.fromHTTP(r, pattern)
		if len(p.bearer) == 0 {
			var over *Error
			if p.bearer, over = cookie.of(r); over != nil {
				refuse(w, r, words, over)
				return
			}
		}
		read := r.Method == http.MethodGet || r.Method == http.MethodHead
		c, err := g.admit(r.Context(), &p, read)
		if err == nil {
			err = g.mayEnter(c, &rule, pattern)
		}
		if err == nil && cookie.name == "" {
			err = g.ofOurs(r)
		}
		if err == nil {
			h.ServeHTTP(w, r.WithContext(NewContext(r.Context(), c)))
			return
		}
		e, ok := isRefusal(err)
		if !ok {
			e = &Error{Code: codes.Unavailable, Reason: "NO_LEADER", Message: "the cluster has no leader now that could say who you are: try again", Retry: time.Second}
		} else if c != nil && !read {
			g.denials.refused(r.Context(), c, "", "", e)
		}
		refuse(w, r, words, e)
	})
}

// mayAsk counts a public call against the limits of its address and of all addresses.
func (g *Gate) mayAsk(rule *Rule, source string) *Error {
	if g.cfg.Insecure || rule.Unlimited {
		return nil
	}
	err := g.limits.public(source)
	if err != nil {
		g.metrics.refused.WithLabelValues(err.Reason).Inc()
	}
	return err
}

// mayEnter is Authorize for a route. What it gives is an *Error, or nil.
func (g *Gate) mayEnter(c *Caller, rule *Rule, pattern string) error {
	_, err := g.still(c.Identity, c.seen)
	if err == nil {
		err = rule.allows(c.Identity, nil, pattern)
	}
	if err == nil {
		return nil
	}
	g.metrics.refused.WithLabelValues(err.Reason).Inc()
	return err
}

// ofOurs refuses what a page of another site has a browser send: browsers pick a client certificate
// whoever asks, and --insecure asks for nothing. A token in the header was put there by who knows
// it; programs send neither Sec-Fetch-Site nor Origin. Routes with a cookie have a stricter check.
func (g *Gate) ofOurs(r *http.Request) error {
	if len(r.Header.Values("Authorization")) > 0 || new(http.CrossOriginProtection).Check(r) == nil {
		return nil
	}
	g.metrics.refused.WithLabelValues(ReasonCrossOrigin).Inc()
	return denied(ReasonCrossOrigin, "a page of another site has sent this (Origin %.100q), and nothing was done: what comes from there must have a token in its header `Authorization`", r.Header.Get("Origin"))
}

func refuse(w http.ResponseWriter, r *http.Request, words Words, e *Error) {
	status := StatusOf(e.Code)
	if status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Bearer realm="holdfast"`)
	}
	if e.Retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((e.Retry+time.Second-1)/time.Second)))
	}
	words(w, r, status, e)
}

// StatusOf returns the HTTP status of a refusal.
func StatusOf(c codes.Code) int {
	switch c {
	case codes.Unauthenticated:
		return http.StatusUnauthorized
	case codes.ResourceExhausted:
		return http.StatusTooManyRequests
	case codes.Unavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusForbidden
}

func plainWords(w http.ResponseWriter, _ *http.Request, status int, err *Error) {
	http.Error(w, err.Message, status)
}

// TooLarge reports whether reading a body failed because it has more than MaxBody bytes: the answer
// is 413.
func TooLarge(err error) bool {
	_, ok := errors.AsType[*http.MaxBytesError](err)
	return ok
}
