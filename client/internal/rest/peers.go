package rest

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-metal/holdfast/client/internal/hedge"
)

const (
	// DefaultTimeout bounds one try. A peer waits up to 8 s for a leader before it returns
	// 503. Long before that, another peer is tried too.
	DefaultTimeout = 10 * time.Second
	// dialTimeout bounds connecting, so that a host that is gone does not use up a whole
	// try.
	dialTimeout = 3 * time.Second
	// MaxBody bounds the body of a response.
	MaxBody = 1 << 20
)

// Config configures Peers.
type Config struct {
	// URLs are the base URLs of one or more peers, such as "https://peer-1:7401". Any peer
	// accepts any call.
	URLs []string
	// Tokens supplies the bearer token of each request. If nil, none is sent.
	Tokens Tokens
	// AllowPlaintext allows sending a token over http:// to a non-loopback address.
	AllowPlaintext bool
	// TLS is used for https. Nil means the system's roots.
	TLS *tls.Config
	// Transport replaces the transport made from TLS. It is not closed.
	Transport http.RoundTripper
	// Timeout bounds each try. Zero means DefaultTimeout.
	Timeout time.Duration
	// UserAgent is sent with each request.
	UserAgent string
}

// Peers sends a request to one peer after the other until one answers, and to a second one
// if the first is slow. It is safe for concurrent use.
type Peers struct {
	bases     []*url.URL
	tokens    Tokens
	http      *http.Client
	owned     *http.Transport // nil if it is the caller's
	timeout   time.Duration
	userAgent string
	order     *hedge.Order // indices into bases
	pace      hedge.Pace
}

// New validates the addresses. It does not connect yet.
func New(cfg Config) (*Peers, error) {
	none := Tokens(StaticToken(""))
	p := &Peers{tokens: cmp.Or(cfg.Tokens, none), timeout: cfg.Timeout, userAgent: cfg.UserAgent}
	if p.timeout <= 0 {
		p.timeout = DefaultTimeout
	}
	for _, s := range cfg.URLs {
		u, err := parseBase(s)
		if err != nil {
			return nil, err
		}
		p.bases = append(p.bases, u)
	}
	if p.tokens != none && !cfg.AllowPlaintext {
		if err := p.RequireSecret(); err != nil {
			return nil, err
		}
	}
	if len(p.bases) == 0 {
		return nil, errors.New("no address: pass one or more base URLs, e.g. https://peer-1:7401")
	}
	// If all clients have the same list, each starts at a random place in it.
	p.order = hedge.NewOrder(len(p.bases), rand.IntN(len(p.bases)))
	transport := cfg.Transport
	if transport == nil {
		p.owned = NewTransport(cfg.TLS)
		transport = p.owned
	}
	// Redirects are not followed, so that a token stays with its address.
	p.http = &http.Client{Transport: transport, CheckRedirect: NoRedirect}
	return p, nil
}

// RequireSecret returns an error if an address would be contacted over an unencrypted
// network.
func (p *Peers) RequireSecret() error {
	for _, u := range p.bases {
		if Plaintext(u) {
			return fmt.Errorf("use address %s: refusing to send a token over http to another machine: "+
				"use https, or allow it", u)
		}
	}
	return nil
}

// Close closes idle connections.
func (p *Peers) Close() {
	if p.owned != nil {
		p.owned.CloseIdleConnections()
	}
}

// NoRedirect makes the HTTP client return redirects instead of following them.
func NoRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// NewTransport returns a transport with a timeout for connecting. It uses HTTP/1.1 only,
// where a request that times out closes its connection. An HTTP/2 connection to a host that
// is gone would be reused again and again.
func NewTransport(conf *tls.Config) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSClientConfig:     conf.Clone(),
		TLSHandshakeTimeout: dialTimeout,
		MaxIdleConnsPerHost: 2,
		IdleConnTimeout:     90 * time.Second,
		Protocols:           protocols,
	}
}

func parseBase(s string) (*url.URL, error) {
	s = strings.TrimRight(strings.TrimSpace(s), "/")
	u, err := url.Parse(s)
	if err != nil {
		// The error of url.Parse repeats the whole text, including the password.
		return nil, errors.New("use address: not a URL: use the form https://peer-1:7401")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("use address %q: not a base URL: use the form https://peer-1:7401", u.Redacted())
	}
	if u.User != nil {
		return nil, fmt.Errorf("use address %q: it contains a password: use a token instead", u.Redacted())
	}
	return u, nil
}

// Plaintext reports whether requests to a URL can be read on a network.
func Plaintext(u *url.URL) bool {
	if u.Scheme != "http" || u.Hostname() == "localhost" {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err != nil || !ip.IsLoopback()
}
