package ironic

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/httpbasic"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/noauth"

	"github.com/holdfast-metal/holdfast/providers"
)

// Login is a user with a password, or an application credential. Version changes with the values.
type Login struct {
	Username  string
	Password  string
	AppID     string // of an application credential
	AppSecret string
	Version   string
}

// Credentials reads logins by the name of their secret.
type Credentials interface {
	Login(ctx context.Context, ref string) (Login, error)
}

// session is a login at Ironic's API, shared by all nodes.
type session struct {
	*gophercloud.ServiceClient
	login Login
	fresh bool // not used yet
}

// After two refused logins no more are tried for a while, because some systems lock the account at
// the third.
const (
	maxRefused = 2
	refusedFor = 10 * time.Minute
)

// door logs in, once for all waiting callers.
type door struct {
	cfg         Config
	credentials Credentials
	http        *http.Client
	turn        chan struct{} // held during a login

	mu      sync.Mutex
	session *session
	refused int    // consecutive refused logins
	with    string // version of the refused secret
	until   time.Time
}

// open returns the session. It logs in if there is none.
func (d *door) open(ctx context.Context) (*session, error) {
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	d.mu.Lock()
	s := d.session
	d.mu.Unlock()
	if s != nil {
		return s, nil
	}
	var l Login
	if d.cfg.Auth != AuthNone {
		var err error
		if l, err = d.credentials.Login(ctx, d.cfg.CredentialsRef); err != nil {
			// A retry may help: the secret may be stored later, or another leader may have its key.
			return nil, fmt.Errorf("log in to Ironic: %w", err)
		}
		if err := d.allow(l); err != nil {
			return nil, err
		}
	}
	c, err := d.client(ctx, l)
	if err != nil {
		if status(err) == http.StatusUnauthorized {
			d.refuse(l)
			err = refusal(l, d.cfg)
		}
		return nil, err
	}
	if err := negotiate(ctx, c); err != nil {
		return nil, err
	}
	s = &session{ServiceClient: c, login: l, fresh: true}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.session = s
	return s, nil
}

// client returns a client that is logged in. It only sends requests to keystone.
func (d *door) client(ctx context.Context, l Login) (c *gophercloud.ServiceClient, err error) {
	switch d.cfg.Auth {
	case AuthBasic:
		if l.Username == "" || l.Password == "" {
			return nil, lacking(d.cfg.CredentialsRef, "username and password")
		}
		c, err = httpbasic.NewBareMetalHTTPBasic(httpbasic.EndpointOpts{
			IronicEndpoint:     d.cfg.Endpoint,
			IronicUser:         l.Username,
			IronicUserPassword: l.Password,
		})
	case AuthKeystone:
		c, err = d.keystone(ctx, l)
	default:
		c, err = noauth.NewBareMetalNoAuth(noauth.EndpointOpts{IronicEndpoint: d.cfg.Endpoint})
	}
	if err != nil {
		return nil, err
	}
	c.HTTPClient = *d.http
	// All resources are below v1, whether or not the address includes it.
	base := strings.TrimSuffix(strings.TrimSuffix(c.Endpoint, "/"), "/v1")
	c.Endpoint, c.ResourceBase = base+"/", base+"/v1/"
	return c, nil
}

// keystone gets a token. gophercloud must not renew it by itself: it would do so in the middle of
// an effect, without counting refusals.
func (d *door) keystone(ctx context.Context, l Login) (*gophercloud.ServiceClient, error) {
	pc, err := openstack.NewClient(d.cfg.AuthURL)
	if err != nil {
		return nil, fmt.Errorf("read auth_url: %w", err)
	}
	pc.HTTPClient = *d.http
	o := &gophercloud.AuthOptions{IdentityEndpoint: d.cfg.AuthURL}
	switch {
	case l.AppID != "" && l.AppSecret != "":
		o.ApplicationCredentialID, o.ApplicationCredentialSecret = l.AppID, l.AppSecret
	case l.Username != "" && l.Password != "":
		o.Username, o.Password, o.DomainName = l.Username, l.Password, d.cfg.UserDomain
		if d.cfg.SystemScope {
			o.Scope = &gophercloud.AuthScope{System: true}
		} else if d.cfg.Project != "" {
			o.Scope = &gophercloud.AuthScope{ProjectName: d.cfg.Project, DomainName: d.cfg.ProjectDomain}
		}
	default:
		return nil, lacking(d.cfg.CredentialsRef,
			"username and password, or application_credential_id and application_credential_secret")
	}
	if err := openstack.AuthenticateV3(ctx, pc, o, gophercloud.EndpointOpts{}); err != nil {
		return nil, err
	}
	if d.cfg.Endpoint != "" {
		return &gophercloud.ServiceClient{
			ProviderClient: pc,
			Endpoint:       gophercloud.NormalizeURL(d.cfg.Endpoint),
			Type:           "baremetal",
		}, nil
	}
	c, err := openstack.NewBareMetalV1(pc, gophercloud.EndpointOpts{
		Region:       d.cfg.Region,
		Availability: gophercloud.Availability(d.cfg.Interface),
	})
	if err != nil {
		return nil, providers.Errorf(providers.Unsupported, "find Ironic in the catalog of keystone",
			"%w: set endpoint, region or interface", err)
	}
	return c, nil
}

func lacking(ref, what string) error {
	return providers.Errorf(providers.Unsupported, "log in to Ironic", "secret %q lacks %s", ref, what)
}

// refusal returns the error for a refused login, without the response, which may repeat the
// credentials.
func refusal(l Login, c Config) error {
	return providers.Errorf(providers.Auth, "log in to Ironic",
		"refused with version %s of secret %q", l.Version, c.CredentialsRef)
}

func (d *door) allow(l Login) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refused < maxRefused || d.with != l.Version || time.Now().After(d.until) {
		return nil
	}
	return providers.Errorf(providers.Auth, "log in to Ironic",
		"not tried: it was refused %d times; change secret %q, or wait until %s",
		d.refused, d.cfg.CredentialsRef, d.until.UTC().Format(time.RFC3339))
}

func (d *door) refuse(l Login) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.with != l.Version || time.Now().After(d.until) {
		d.refused = 0
	}
	d.refused, d.with, d.until = d.refused+1, l.Version, time.Now().Add(refusedFor)
}

// leave drops a session that Ironic no longer accepts.
func (d *door) leave(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.session == s {
		d.session = nil
	}
}

// welcome records that Ironic has accepted a session.
func (d *door) welcome(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.fresh {
		s.fresh, d.refused = false, 0
	}
}

// rejected handles a 401. It returns nil for a session that was accepted before: it has expired,
// and the caller logs in again. A new session was refused.
func (d *door) rejected(s *session) error {
	d.leave(s)
	d.mu.Lock()
	fresh := s.fresh
	d.mu.Unlock()
	if !fresh {
		return nil
	}
	if d.cfg.Auth == AuthNone {
		return providers.Errorf(providers.Auth, "connect to Ironic",
			"it requires a login: set auth to http_basic or keystone")
	}
	d.refuse(s.login)
	return refusal(s.login, d.cfg)
}

var errNoIronic = errors.New("no Ironic API")
