package oidc

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zitadel/oidc/v3/example/server/exampleop"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"
)

const (
	audience     = "holdfast"
	dashboard    = "holdfast-dashboard" // the clients
	commandLine  = "holdfast-cli"
	clientSecret = "client-s3cret"
	password     = "verysecure" // of all people
)

// groups are those of each person.
var groups = map[string][]string{"alice": {"staff", "dc-ops"}, "nora": {"staff"}}

// provider is an OpenID provider on localhost. Its site is not that of a peer on 127.0.0.1.
type provider struct {
	*storage.Storage
	url     string
	lasts   atomic.Int64 // the lifetime of tokens, in seconds
	blocked atomic.Bool  // no token is refreshed
	one     bool         // access tokens are no JWTs, and ID tokens have the claims
}

// newProvider starts a provider, which ends with the test.
func newProvider(t *testing.T, callback string, one bool) *provider {
	t.Helper()
	p := &provider{one: one}
	p.lasts.Store(300)
	p.Storage = storage.NewStorageWithClients(people{}, map[string]*storage.Client{
		dashboard:   storage.WebClient(dashboard, clientSecret, callback),
		commandLine: storage.NativeClient(commandLine, callback, "http://127.0.0.1/callback"),
	})
	srv := httptest.NewUnstartedServer(nil)
	_, port, err := net.SplitHostPort(srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	p.url = "http://localhost:" + port
	srv.Config.Handler = http.Handler(exampleop.SetupServer(p.url, p, slog.New(slog.DiscardHandler), false))
	srv.Start()
	t.Cleanup(srv.Close)
	return p
}

// people are the accounts of the provider. The device flow of the example takes a username as the
// subject, so both are the same.
type people struct{}

func (people) ExampleClientID() string { return "unused" }

func (u people) GetUserByUsername(name string) *storage.User { return u.GetUserByID(name) }

func (people) GetUserByID(id string) *storage.User {
	if groups[id] == nil {
		return nil
	}
	return &storage.User{ID: id, Username: id, Password: password, FirstName: id, LastName: "Example"}
}

// GetClientByClientID returns a client.
func (p *provider) GetClientByClientID(ctx context.Context, id string) (op.Client, error) {
	c, err := p.Storage.GetClientByClientID(ctx, id)
	if err != nil {
		return nil, err
	}
	return client{Client: c, p: p}, nil
}

type client struct {
	op.Client
	p *provider
}

func (c client) AccessTokenType() op.AccessTokenType {
	if c.p.one {
		return op.AccessTokenTypeBearer
	}
	return op.AccessTokenTypeJWT
}

func (c client) IDTokenLifetime() time.Duration { return c.p.lifetime() }

func (c client) GrantTypes() []oidc.GrantType {
	if c.GetID() == commandLine {
		return append(c.Client.GrantTypes(), oidc.GrantTypeDeviceCode)
	}
	return c.Client.GrantTypes()
}

func (p *provider) lifetime() time.Duration { return time.Duration(p.lasts.Load()) * time.Second }

// request is a sign-in with the audience of its tokens.
type request struct {
	*storage.AuthRequest
	audience []string
}

func (r request) GetAudience() []string { return r.audience }

func (p *provider) asked(r op.AuthRequest, err error) (op.AuthRequest, error) {
	if ours, ok := r.(*storage.AuthRequest); ok {
		return request{ours, p.audience(ours.ApplicationID)}, err
	}
	return r, err
}

func (p *provider) audience(client string) []string {
	if p.one {
		return []string{client}
	}
	return []string{client, audience}
}

func (p *provider) AuthRequestByID(ctx context.Context, id string) (op.AuthRequest, error) {
	return p.asked(p.Storage.AuthRequestByID(ctx, id))
}

func (p *provider) AuthRequestByCode(ctx context.Context, code string) (op.AuthRequest, error) {
	return p.asked(p.Storage.AuthRequestByCode(ctx, code))
}

// GetDeviceAuthorizatonState has the name that the library gave it.
func (p *provider) GetDeviceAuthorizatonState(
	ctx context.Context, id, code string,
) (*op.DeviceAuthorizationState, error) {
	s, err := p.Storage.GetDeviceAuthorizatonState(ctx, id, code)
	if err != nil {
		return nil, err
	}
	state := *s
	state.Audience = p.audience(id)
	return &state, nil
}

func (p *provider) CreateAccessToken(ctx context.Context, r op.TokenRequest) (string, time.Time, error) {
	id, _, err := p.Storage.CreateAccessToken(ctx, r)
	return id, time.Now().Add(p.lifetime()), err
}

// CreateAccessAndRefreshTokens records the client of a device, which the example does not.
func (p *provider) CreateAccessAndRefreshTokens(
	ctx context.Context, r op.TokenRequest, current string,
) (access, refresh string, until time.Time, err error) {
	var id string
	switch asked := r.(type) {
	case request:
		id = asked.ApplicationID
	case *op.DeviceAuthorizationState:
		id = asked.ClientID
	}
	if id != "" {
		r = storage.RefreshTokenRequestFromBusiness(&storage.RefreshToken{ApplicationID: id, UserID: r.GetSubject(),
			Audience: r.GetAudience(), Scopes: r.GetScopes(), AuthTime: time.Now()})
	}
	access, refresh, _, err = p.Storage.CreateAccessAndRefreshTokens(ctx, r, current)
	return access, refresh, time.Now().Add(p.lifetime()), err
}

func (p *provider) TokenRequestByRefreshToken(ctx context.Context, token string) (op.RefreshTokenRequest, error) {
	if p.blocked.Load() {
		return nil, errors.New("the account is blocked")
	}
	return p.Storage.TokenRequestByRefreshToken(ctx, token)
}

// GetPrivateClaimsFromScopes returns the claims of access tokens.
func (p *provider) GetPrivateClaimsFromScopes(
	_ context.Context, user, _ string, _ []string,
) (map[string]any, error) {
	return map[string]any{"preferred_username": user, "groups": groups[user]}, nil
}

// SetUserinfoFromRequest sets the claims of ID tokens.
func (p *provider) SetUserinfoFromRequest(
	_ context.Context, info *oidc.UserInfo, r op.IDTokenRequest, _ []string,
) error {
	info.Subject = r.GetSubject()
	if p.one {
		info.PreferredUsername = r.GetSubject()
		info.AppendClaims("groups", groups[r.GetSubject()])
	}
	return nil
}
