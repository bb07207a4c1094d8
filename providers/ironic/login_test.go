package ironic_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/providers"
	"github.com/holdfast-metal/holdfast/providers/ironic"
	"github.com/holdfast-metal/holdfast/providers/ironic/ironictest"
)

func TestLogins(t *testing.T) {
	t.Parallel()
	const secret = "hush-hush"
	byUser := ironictest.Config{Username: "admin", Password: secret}
	byApp := ironictest.Config{AppID: "app-1", AppKey: secret}
	for name, tt := range map[string]struct {
		server ironictest.Config
		auth   string
		login  login
		class  providers.Class
	}{
		"none":          {ironictest.Config{}, "none", login{}, ""},
		"missing login": {byUser, "none", login{}, providers.Auth},
		"basic":         {byUser, "http_basic", login{Username: "admin", Password: secret}, ""},
		"basic, wrong": {byUser, "http_basic", login{Username: "admin", Password: secret + "!"},
			providers.Auth},
		"basic, without a password": {byUser, "http_basic", login{Username: "admin"}, providers.Unsupported},
		"keystone":                  {byUser, "keystone", login{Username: "admin", Password: secret}, ""},
		"keystone, wrong": {byUser, "keystone", login{Username: "admin", Password: secret + "!"},
			providers.Auth},
		"application credential":         {byApp, "keystone", login{AppID: "app-1", AppSecret: secret}, ""},
		"application credential, wrong":  {byApp, "keystone", login{AppID: "app-2", AppSecret: secret}, providers.Auth},
		"application credential, halved": {byApp, "keystone", login{AppID: "app-1"}, providers.Unsupported},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := ironictest.New(t, tt.server)
			s.Add(ironictest.Node{Name: "n1"})
			c := ironic.Config{Auth: tt.auth, Endpoint: s.URL + "/v1/"}
			if tt.auth != "none" {
				c.CredentialsRef = "ironic"
			}
			if tt.auth == "keystone" {
				c.AuthURL, c.Endpoint, c.Project, c.Region = s.URL+"/identity/v3", "", "metal", "r1"
			}
			tt.login.Version = "ironic/1"
			var log bytes.Buffer
			p := newProvider(t, c, ironic.Deps{Credentials: &tt.login, Log: slog.New(slog.NewTextHandler(&log, nil))})
			m := machine("n1", "")
			var err error
			for range 4 {
				_, err = p.PowerState(t.Context(), m)
			}
			if tt.class == "" && err != nil || tt.class != "" && (err == nil || providers.ClassOf(err) != tt.class) {
				t.Fatalf("got %v, want class %q", err, tt.class)
			}
			if strings.Contains(log.String(), secret) || err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("got the secret in %v, %s", err, log.String())
			}
			most := 2 // a refused account is tried twice
			if tt.class == "" && tt.auth == "keystone" {
				most = 1
			}
			if n := s.Logins(); n > most && (tt.class != "" || tt.auth != "http_basic") {
				t.Errorf("got %d logins, want at most %d", n, most)
			}
			if tt.class != providers.Auth || tt.auth == "none" {
				return
			}
			// A new version of the secret is tried at once.
			tt.login = login{Username: "admin", Password: secret, AppID: "app-1", AppSecret: secret, Version: "ironic/2"}
			if tt.server.AppID == "" {
				tt.login.AppID = ""
			}
			if _, err := p.PowerState(t.Context(), m); err != nil {
				t.Errorf("login with a new secret: %v", err)
			}
		})
	}
}

func TestMissingSecret(t *testing.T) {
	t.Parallel()
	p := newProvider(t, ironic.Config{Endpoint: "http://127.0.0.1:1", Auth: "http_basic", CredentialsRef: "other"},
		ironic.Deps{Credentials: &login{}})
	if _, err := p.PowerState(t.Context(), machine("n1", "")); providers.ClassOf(err) != providers.Transient ||
		!strings.Contains(err.Error(), `secret "other" not found`) {
		t.Errorf("got %v, want class transient and the name of the secret", err)
	}
}

// An expired session is renewed, and the effect happens once.
func TestExpiredSession(t *testing.T) {
	t.Parallel()
	s := ironictest.New(t, ironictest.Config{Username: "admin", Password: "x"})
	s.Add(ironictest.Node{Name: "n1"})
	p := newProvider(t, ironic.Config{Auth: "keystone", AuthURL: s.URL + "/identity/v3", CredentialsRef: "ironic"},
		ironic.Deps{Credentials: &login{Username: "admin", Password: "x", Version: "1"}})
	m := machine("n1", "")
	if _, err := p.PowerState(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	s.Set(func(f *ironictest.Faults) { f.Expire = true })
	if err := p.SetPower(inTime(t), providers.Op{}, m, providers.ActionHardOff); err != nil {
		t.Fatal(err)
	}
	if n, logins := s.Count("n1 power: power off"), s.Logins(); n != 1 || logins != 2 {
		t.Errorf("got %d presses with %d logins, want 1 with 2", n, logins)
	}
}

func TestMicroversions(t *testing.T) {
	t.Parallel()
	s, p, m := newLab(t, ironictest.Node{})
	if _, err := p.PowerState(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	s.Versions(1, 60) // Ironic is rolled back
	if _, err := p.PowerState(t.Context(), m); err != nil {
		t.Errorf("call after a change of versions: %v", err)
	}
	for name, r := range map[string][2]int{"too old": {1, 55}, "too new": {90, 120}} {
		s, p, m := newLab(t, ironictest.Node{})
		s.Versions(r[0], r[1])
		if _, err := p.PowerState(t.Context(), m); providers.ClassOf(err) != providers.Unsupported ||
			!strings.Contains(err.Error(), "this provider 1.56 to 1.81") {
			t.Errorf("%s: got %v, want class unsupported with the versions", name, err)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"endpoint": "https://ironic:6385"}`: "",
		`{"endpoint": "https://ironic:6385", "auth": "http_basic", "credentials_ref": "ironic", "lock_time": "5s"}`: "",
		`{"auth": "keystone", "auth_url": "https://k:5000/v3", "credentials_ref": "ironic", "project": "metal"}`:    "",
		`{}`:                                                              "endpoint is missing",
		`{"endpoint": "ironic:6385"}`:                                     "endpoint is not an address",
		`{"endpoint": "https://u:secret@i"}`:                              "endpoint is not an address",
		`{"endpoints": "https://i"}`:                                      "endpoints",
		`{"endpoint": "https://i"} {}`:                                    "more than one JSON value",
		`{"endpoint": "https://i", "auth": 1}`:                            "auth",
		`{"endpoint": "https://i", "auth": "oauth"}`:                      `auth is "oauth"`,
		`{"endpoint": "https://i", "auth": "http_basic"}`:                 "needs credentials_ref",
		`{"endpoint": "https://i", "credentials_ref": "x"}`:               "has no effect with auth: none",
		`{"endpoint": "https://i", "auth_url": "https://k"}`:              "auth_url is needed for auth: keystone",
		`{"endpoint": "https://i", "tls": "no"}`:                          `tls is "no"`,
		`{"endpoint": "https://i", "interface": "outer"}`:                 `interface is "outer"`,
		`{"endpoint": "https://i", "settle": "soon"}`:                     "soon",
		`{"endpoint": "https://i", "images": {"default": {}}}`:            "default has no source",
		`{"endpoint": "https://i", "clean_steps": [{"step": "x"}]}`:       "an interface and a step",
		`{"endpoint": "https://i", "tls": "insecure", "ca_file": "/x"}`:   "ca_file has no effect",
		`{"endpoint": "https://i", "system_scope": true, "project": "p"}`: "exclude each other",
	} {
		_, err := ironic.ParseConfig([]byte(text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "secret@")) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
