package login

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// Issuer is an issuer as a peer describes it.
type Issuer struct {
	URL, ClientID, Audience string
	Scopes                  []string
}

// ErrNoDevice is the error of Device if the issuer has no device flow.
var ErrNoDevice = errors.New("the issuer has no device flow")

// Flow is a sign-in with an issuer.
type Flow struct {
	issuer Issuer
	oauth  oauth2.Config
}

// New returns a sign-in. It reads the issuer's discovery document.
func New(ctx context.Context, i Issuer) (*Flow, error) {
	u, err := url.Parse(i.URL)
	if err != nil || u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return nil, fmt.Errorf("sign in with %q: want https: over http anybody on the way could take the sign-in", i.URL)
	}
	ctx = withClient(ctx)
	p, err := oidc.NewProvider(ctx, i.URL)
	if err != nil {
		return nil, fmt.Errorf("read the discovery document of %s: %w", i.URL, err)
	}
	var doc struct {
		Scopes []string `json:"scopes_supported"`
	}
	scopes := slices.Clone(i.Scopes)
	if p.Claims(&doc) == nil && slices.Contains(doc.Scopes, oidc.ScopeOfflineAccess) &&
		!slices.Contains(scopes, oidc.ScopeOfflineAccess) {
		scopes = append(scopes, oidc.ScopeOfflineAccess) // for a refresh token
	}
	f := &Flow{issuer: i, oauth: oauth2.Config{ClientID: i.ClientID, Endpoint: p.Endpoint(), Scopes: scopes}}
	f.oauth.Endpoint.AuthStyle = oauth2.AuthStyleInParams // of a public client
	return f, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Prompt is what a person needs to confirm a device.
type Prompt struct {
	URL, Complete, Code string // Complete contains the code, or is empty
	Until               time.Time
}

// Device signs in with a code that the person enters in a browser on any machine. It blocks
// until the person has done so, or the code has expired.
func (f *Flow) Device(ctx context.Context, show func(Prompt)) (Saved, error) {
	if f.oauth.Endpoint.DeviceAuthURL == "" {
		return Saved{}, ErrNoDevice
	}
	ctx = withClient(ctx)
	d, err := f.oauth.DeviceAuth(ctx)
	if err != nil {
		return Saved{}, f.refused("begin the device flow with", err)
	}
	show(Prompt{URL: d.VerificationURI, Complete: d.VerificationURIComplete, Code: d.UserCode, Until: d.Expiry})
	t, err := f.oauth.DeviceAccessToken(ctx, d)
	if err != nil {
		return Saved{}, f.refused("sign in with", err)
	}
	return f.saved(t)
}

func (f *Flow) saved(t *oauth2.Token) (Saved, error) {
	return Saved{Issuer: f.issuer.URL, ClientID: f.issuer.ClientID, TokenURL: f.oauth.Endpoint.TokenURL,
		Audience: f.issuer.Audience}.with(t)
}

// refused returns the error of a request, with a remedy.
func (f *Flow) refused(action string, err error) error {
	remedy := "ask its administrator"
	var code string
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		code = e.ErrorCode
	}
	switch code {
	case "access_denied":
		return fmt.Errorf("%s %s: it was denied there", action, f.issuer.URL)
	case "expired_token":
		return fmt.Errorf("%s %s: the code has expired: %w", action, f.issuer.URL, context.DeadlineExceeded)
	case "invalid_client", "unauthorized_client":
		remedy = fmt.Sprintf("an admin enables this flow for the client %s there, or run: holdfast login --browser",
			f.issuer.ClientID)
	case "invalid_scope":
		remedy = fmt.Sprintf("an admin allows the scopes %q for the client %s there", f.oauth.Scopes, f.issuer.ClientID)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s %s: time is up: %w", action, f.issuer.URL, context.DeadlineExceeded)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s %s: %w", action, f.issuer.URL, context.Canceled)
	}
	return fmt.Errorf("%s %s: %w: %s", action, f.issuer.URL, cause(err), remedy)
}
