package peers

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// tryTimeout bounds one try of a small request. The peer may have to find the leader
	// first.
	tryTimeout = 10 * time.Second
	// maxOrder bounds a response, in bytes. User data is its largest part.
	maxOrder  = 8 << 20
	firstWait = time.Second
	maxWait   = 10 * time.Second
)

// ErrOver means that the cluster no longer accepts this installer's token: the attempt was
// canceled, has timed out, or was replaced by another one. Then nothing may be written.
var ErrOver = errors.New("the install session is over")

// Config configures a Client.
type Config struct {
	URL    string // base URL, from the kernel command line
	Token  string // of the session
	HTTP   *http.Client
	Logger *slog.Logger // default: none
}

// Client makes requests to the peers. It is safe for concurrent use.
type Client struct {
	token string
	http  *http.Client
	log   *slog.Logger

	mu      sync.Mutex
	servers []string // the one that answered last comes first
}

// New validates the configuration. It sends nothing.
func New(cfg Config) (*Client, error) {
	base, err := baseURL(cfg.URL)
	if err != nil {
		return nil, err
	}
	if cfg.Token == "" {
		return nil, errors.New("find the install token: none found: " +
			"set holdfast.token= on the kernel command line")
	}
	return &Client{
		token:   cfg.Token,
		http:    cmp.Or(cfg.HTTP, http.DefaultClient),
		log:     cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)),
		servers: []string{base},
	}, nil
}

func baseURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", fmt.Errorf("find the cluster: %q is not a base URL: "+
			"set holdfast.url=http://peer:7401 on the kernel command line", s)
	}
	return strings.TrimSuffix(u.Scheme+"://"+u.Host+u.Path, "/"), nil
}

// Know adds servers to the list. It skips those that are not base URLs.
func (c *Client) Know(servers []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range servers {
		if base, err := baseURL(s); err == nil && !slices.Contains(c.servers, base) {
			c.servers = append(c.servers, base)
		}
	}
}

// Servers returns the base URLs. The server that answered last comes first.
func (c *Client) Servers() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.servers)
}

func (c *Client) prefer(server string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := slices.Index(c.servers, server); i > 0 {
		c.servers = slices.Insert(slices.Delete(c.servers, i, i+1), 0, server)
	}
}

// Order fetches the work order. It retries until a peer answers, the session is over
// (ErrOver) or the context ends.
func (c *Client) Order(ctx context.Context) (Order, error) {
	var o Order
	body, err := c.persist(ctx, http.MethodGet, "/api/v1/install", "", nil)
	if err != nil {
		return o, fmt.Errorf("fetch the work order: %w", err)
	}
	if err := json.Unmarshal(body, &o); err != nil {
		return o, fmt.Errorf("read the work order: %w", err)
	}
	c.Know(o.Servers)
	return o, nil
}

// Report sends a report. It retries until a peer has accepted it.
func (c *Client) Report(ctx context.Context, to string, r Report) error {
	return c.report(ctx, c.persist, to, r)
}

// ReportOnce sends a report to each peer in turn, without retries, because another report will
// follow.
func (c *Client) ReportOnce(ctx context.Context, to string, r Report) error {
	return c.report(ctx, c.round, to, r)
}

type asking func(ctx context.Context, method, path, kind string, body []byte) ([]byte, error)

func (c *Client) report(ctx context.Context, ask asking, to string, r Report) error {
	body, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("write a report: %w", err)
	}
	to = pathOf(to, "/api/v1/install/report")
	if _, err := ask(ctx, http.MethodPost, to, "application/json", body); err != nil {
		return fmt.Errorf("report %s: %w", r.Status, err)
	}
	return nil
}

// SendLog sends the part of the log at an offset to each peer in turn, without retries.
func (c *Client) SendLog(ctx context.Context, to string, offset int64, text []byte) error {
	path := fmt.Sprintf("%s?offset=%d", pathOf(to, "/api/v1/install/log"), offset)
	if _, err := c.round(ctx, http.MethodPost, path, "text/plain; charset=utf-8", text); err != nil {
		return fmt.Errorf("send the log: %w", err)
	}
	return nil
}

// pathOf returns the path of a URL in the order, which is valid on every server.
func pathOf(s, otherwise string) string {
	u, err := url.Parse(s)
	if err != nil || u.Path == "" {
		return otherwise
	}
	return u.EscapedPath()
}

// persist tries all peers, with pauses, until one answers or refuses the request
// permanently.
func (c *Client) persist(ctx context.Context, method, path, kind string, body []byte) ([]byte, error) {
	wait := firstWait
	for {
		answer, err := c.round(ctx, method, path, kind, body)
		if final := (refusal{}); err == nil || ctx.Err() != nil || errors.Is(err, ErrOver) || errors.As(err, &final) {
			return answer, err
		}
		c.log.Warn("no peer answers, will retry", "path", path, "error", err)
		t := time.NewTimer(wait/2 + rand.N(wait/2)) //nolint:gosec // spreads installers, is not a secret
		select {
		case <-ctx.Done():
			t.Stop()
			return nil, fmt.Errorf("%w (last: %w)", context.Cause(ctx), err)
		case <-t.C:
		}
		wait = min(2*wait, maxWait)
	}
}

// round tries each peer once.
func (c *Client) round(ctx context.Context, method, path, kind string, body []byte) ([]byte, error) {
	var errs []error
	for _, server := range c.Servers() {
		answer, err := c.try(ctx, method, server+path, kind, body)
		if err == nil {
			c.prefer(server)
			return answer, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if final := (refusal{}); errors.Is(err, ErrOver) || errors.As(err, &final) {
			return nil, err
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// transient reports whether a retry may change a 4xx status.
func transient(code int) bool {
	switch code {
	case http.StatusNotFound, http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusConflict:
		return true
	}
	return false
}

// refusal is a response that a retry would not change.
type refusal struct {
	status string
	text   string
}

func (r refusal) Error() string { return fmt.Sprintf("the cluster answered %s: %s", r.status, r.text) }

// try sends a request to one peer. Its errors do not contain the token.
func (c *Client) try(ctx context.Context, method, to, kind string, body []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("create the request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxOrder))
	if err != nil {
		return nil, fmt.Errorf("read the response of %s: %w", to, err)
	}
	text := strings.TrimSpace(string(answer[:min(len(answer), 300)]))
	switch code := resp.StatusCode; {
	case code < 300:
		return answer, nil
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusGone:
		return nil, fmt.Errorf("%w: %s answered %s: %s", ErrOver, to, resp.Status, text)
	case code < 500 && !transient(code):
		return nil, refusal{status: resp.Status, text: text}
	}
	return nil, fmt.Errorf("ask %s: %s: %s", to, resp.Status, text)
}
