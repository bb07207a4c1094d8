package discovery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/holdfast-metal/holdfast/client/internal/hedge"
	"github.com/holdfast-metal/holdfast/client/internal/rest"
)

const (
	// refreshBefore is how long before its expiry a token is renewed.
	refreshBefore = 30 * time.Second
	wellKnown     = "/.well-known/openid-configuration"
)

// oauth obtains access tokens with the client credentials grant. It implements rest.Tokens.
type oauth struct {
	clientID, secret string
	plaintext        bool // the secret may be sent over http to other machines
	http             *http.Client

	endpoints []endpoint
	order     *hedge.Order // indices into endpoints
	pace      hedge.Pace

	turn    chan struct{} // holds one element while a token is fetched; other callers wait
	token   *oauth2.Token
	renewAt time.Time // zero: never
}

// endpoint is a token endpoint or an issuer.
type endpoint struct {
	base string
	// grant is nil until the kind of endpoint is known.
	grant *clientcredentials.Config
}

func newOAuth(cfg Config, transport http.RoundTripper) (*oauth, error) {
	o := &oauth{
		clientID: cfg.ClientID, secret: cfg.Secret, plaintext: cfg.AllowPlaintext,
		http:  &http.Client{Transport: transport, CheckRedirect: rest.NoRedirect, Timeout: cfg.Timeout},
		order: hedge.NewOrder(len(cfg.TokenEndpoints), 0), turn: make(chan struct{}, 1),
	}
	for _, s := range cfg.TokenEndpoints {
		s = strings.TrimRight(s, "/")
		if err := o.check(s); err != nil {
			return nil, err
		}
		o.endpoints = append(o.endpoints, endpoint{base: s})
	}
	return o, nil
}

// check returns an error if the secret must not be sent to the URL.
func (o *oauth) check(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return errors.New("use token endpoint: not a URL, or it contains a password: use https://issuer/realm")
	}
	if rest.Plaintext(u) && !o.plaintext {
		return fmt.Errorf("use token endpoint %s: refusing to send the secret over http to another machine: "+
			"use https, or allow it", u)
	}
	return nil
}

// Token implements rest.Tokens. A slow endpoint is raced by the next one: an extra token
// does no harm.
func (o *oauth) Token(ctx context.Context) (string, error) {
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-ctx.Done():
		return "", fmt.Errorf("get an access token: %w", context.Cause(ctx))
	}
	if o.token != nil && o.token.AccessToken != "" && (o.renewAt.IsZero() || time.Now().Before(o.renewAt)) {
		return o.token.AccessToken, nil
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, o.http)
	order := o.order.List()
	if token := o.refresh(ctx, &o.endpoints[order[0]]); token != nil {
		o.keep(token)
		return token.AccessToken, nil
	}
	type fetched struct {
		token *oauth2.Token
		err   error
	}
	var token *oauth2.Token
	var errs []error
	late := hedge.Race(ctx, &o.pace, len(order), func(ctx context.Context, i int) fetched {
		token, err := o.fetch(ctx, &o.endpoints[order[i]])
		return fetched{token, err}
	}, func(i int, got fetched) bool {
		if got.err != nil {
			errs = append(errs, got.err)
			o.order.Leave(order[i])
			return false
		}
		token = got.token
		return true
	})
	for _, i := range late {
		o.order.Late(order[i])
	}
	if token == nil {
		return "", fmt.Errorf("get an access token: %w", errors.Join(errs...))
	}
	o.keep(token)
	return token.AccessToken, nil
}

// Refused implements rest.Tokens. A new token may be accepted, so it always returns true.
func (o *oauth) Refused(token string) bool {
	o.turn <- struct{}{}
	defer func() { <-o.turn }()
	if o.token != nil && o.token.AccessToken == token {
		o.token.AccessToken = "" // keep the refresh token
	}
	return true
}

// keep stores a token, to be renewed before its expiry: halfway if it is short-lived.
func (o *oauth) keep(token *oauth2.Token) {
	o.token, o.renewAt = token, time.Time{}
	if !token.Expiry.IsZero() {
		o.renewAt = token.Expiry.Add(-min(refreshBefore, time.Until(token.Expiry)/2))
	}
}

// refresh returns a token for the refresh token, or nil if there is none or it does not
// work soon. Then the credentials are used. The refresh token is sent to one endpoint only,
// and once, because some issuers treat a second use as theft.
func (o *oauth) refresh(ctx context.Context, e *endpoint) *oauth2.Token {
	if o.token == nil || o.token.RefreshToken == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, hedge.First)
	defer cancel()
	old := &oauth2.Token{RefreshToken: o.token.RefreshToken}
	o.token.RefreshToken = ""
	if err := o.find(ctx, e); err != nil {
		return nil
	}
	conf := oauth2.Config{
		ClientID:     o.clientID,
		ClientSecret: o.secret,
		Endpoint:     oauth2.Endpoint{TokenURL: e.grant.TokenURL},
	}
	token, err := conf.TokenSource(ctx, old).Token()
	if err != nil {
		return nil
	}
	return token
}

// find sets e.grant if it is not known yet.
func (o *oauth) find(ctx context.Context, e *endpoint) error {
	if e.grant != nil {
		return nil
	}
	tokenURL, err := o.discover(ctx, e.base)
	if err != nil {
		return err
	}
	// The library detects the authentication style: HTTP Basic first, then form fields.
	e.grant = &clientcredentials.Config{ClientID: o.clientID, ClientSecret: o.secret, TokenURL: tokenURL}
	return nil
}

// fetch obtains a token from one endpoint with the credentials.
func (o *oauth) fetch(ctx context.Context, e *endpoint) (*oauth2.Token, error) {
	if err := o.find(ctx, e); err != nil {
		return nil, err
	}
	token, err := e.grant.Token(ctx)
	if err != nil {
		tokenURL := e.grant.TokenURL
		e.grant = nil // discover again next time, because it may have moved
		return nil, explain(tokenURL, err)
	}
	return token, nil
}

// discover returns the token endpoint of an OIDC issuer. If base is not an issuer, it is
// the token endpoint itself.
func (o *oauth) discover(ctx context.Context, base string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+wellKnown, nil)
	if err != nil {
		return "", fmt.Errorf("make the request: %w", err)
	}
	r.Header.Set("Accept", "application/json")
	resp, err := o.http.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, rest.MaxBody))
	if err != nil {
		return "", fmt.Errorf("read the response of %s%s: %w", base, wellKnown, err)
	}
	if resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests {
		return "", fmt.Errorf("%s%s answered %d", base, wellKnown, resp.StatusCode)
	}
	var doc struct {
		TokenEndpoint string `json:"token_endpoint"`
	}
	if resp.StatusCode != http.StatusOK || json.Unmarshal(body, &doc) != nil || doc.TokenEndpoint == "" {
		return base, nil
	}
	if err := o.check(doc.TokenEndpoint); err != nil {
		return "", fmt.Errorf("read %s%s: %w", base, wellKnown, err)
	}
	return doc.TokenEndpoint, nil
}

// explain shortens an error of package oauth2, which repeats whole pages.
func explain(tokenURL string, err error) error {
	e, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok || e.Response == nil {
		return err
	}
	if e.ErrorCode == "" {
		return fmt.Errorf("%s answered %d", tokenURL, e.Response.StatusCode)
	}
	reason := strings.TrimSpace(e.ErrorCode + " " + e.ErrorDescription)
	return fmt.Errorf("%s answered %d: %q", tokenURL, e.Response.StatusCode, reason)
}
