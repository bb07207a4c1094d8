package rest

import (
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
	// DefaultTimeout bounds one try: a peer itself waits up to 8 s for a leader before it answers
	// 503. Long before that another peer is asked as well.
	DefaultTimeout = 10 * time.Second
	// dialTimeout bounds connecting: a host that is gone does not cost a whole try.
	dialTimeout = 3 * time.Second
	// MaxBody is how much of an answer is read.
	MaxBody = 1 << 20
)

// Config says whom to talk to, and how.
type Config struct {
	// URLs are the base URLs of one or more peers, "https://peer-1:7401". Any peer takes any call.
	URLs []string
	// Tokens give the bearer token of each request. Nil: none is sent.
	Tokens Tokens
	// AllowPlaintext lets a token go over http:// to an address that is not loopback.
	AllowPlaintext bool
	// TLS is used for https. Nil: the roots of the system.
	TLS *tls.Config
	// Transport replaces the one that is made from TLS. It is not closed.
	Transport http.RoundTripper
	// Timeout bounds each try. Zero: DefaultTimeout.
	Timeout time.Duration
	// UserAgent is sent with each request.
	UserAgent string
}

// Peers asks one peer after the other until one answers, and a second one when the first takes
// long. It is safe for concurrent use.
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

// New checks the addresses. Nothing is connected yet.
func New(cfg Config) (*Peers, error) {
	p := &Peers{tokens: cfg.Tokens, timeout: cfg.Timeout, userAgent: cfg.UserAgent}
	if p.timeout <= 0 {
		p.timeout = DefaultTimeout
	}
	if p.tokens == nil {
		p.tokens = StaticToken("")
	}
	secret := cfg.Tokens != nil && cfg.Tokens != StaticToken("") && !cfg.AllowPlaintext
	for _, s := range cfg.URLs {
		u, err := parseBase(s)
		if err != nil {
			return nil, err
		}
		p.bases = append(p.bases, u)
	}
	if secret {
		if err := p.RequireSecret(); err != nil {
			return nil, err
		}
	}
	if len(p.bases) == 0 {
		return nil, errors.New("no address: give one or more base URLs, e.g. https://peer-1:7401")
	}
	// Where all clients have the same list, each begins elsewhere in it.
	p.order = hedge.NewOrder(len(p.bases), rand.IntN(len(p.bases)))
	transport := cfg.Transport
	if transport == nil {
		p.owned = NewTransport(cfg.TLS)
		transport = p.owned
	}
	// A token stays with the address that it was meant for, so no redirect is followed.
	p.http = &http.Client{Transport: transport, CheckRedirect: NoRedirect}
	return p, nil
}

// RequireSecret refuses addresses where everybody could read along.
func (p *Peers) RequireSecret() error {
	for _, u := range p.bases {
		if Plaintext(u) {
			return fmt.Errorf("use address %s: refusing to send a token over http to another machine: use https, or allow it", u)
		}
	}
	return nil
}

// Close ends idle connections.
func (p *Peers) Close() {
	if p.owned != nil {
		p.owned.CloseIdleConnections()
	}
}

// NoRedirect makes a redirect an answer like any other.
func NoRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// NewTransport returns a transport with a bound on connecting. It speaks HTTP/1.1 only: there, a
// request that timed out takes its connection with it, while one of HTTP/2 to a host that is gone
// would be used again and again.
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
		// The error of url.Parse repeats the whole text, password included.
		return nil, errors.New("use address: it is no URL: write it as https://peer-1:7401")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("use address %q: it is no base URL: write it as https://peer-1:7401", u.Redacted())
	}
	if u.User != nil {
		return nil, fmt.Errorf("use address %q: it holds a password: give the token instead", u.Redacted())
	}
	return u, nil
}

// Plaintext reports whether what is sent to a URL can be read on a network.
func Plaintext(u *url.URL) bool {
	if u.Scheme != "http" || u.Hostname() == "localhost" {
		return false
	}
	ip, err := netip.ParseAddr(u.Hostname())
	return err != nil || !ip.IsLoopback()
}
