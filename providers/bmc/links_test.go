package bmc_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/holdfast-metal/holdfast/providers/bmc"
)

// misled returns a BMC whose service root refers to sessions or systems at another host, or that
// redirects there. other counts the requests at that host.
func misled(t *testing.T, root func(other string) string, redirect bool) (url string, other *atomic.Int64) {
	t.Helper()
	other = new(atomic.Int64)
	o := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		other.Add(1)
		w.Header().Set("X-Auth-Token", "t")
		w.Header().Set("Location", "/redfish/v1/SessionService/Sessions/1")
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(o.Close)
	b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/redfish/v1/":
			_, _ = w.Write([]byte(root(strings.TrimPrefix(o.URL, "http://"))))
		case redirect:
			http.Redirect(w, r, o.URL+r.URL.Path, http.StatusTemporaryRedirect)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(b.Close)
	return b.URL, other
}

// Credentials are sent only to the machine's own bmc_endpoint, not to addresses in its answers.
func TestCredentialsStayAtEndpoint(t *testing.T) {
	t.Parallel()
	root := func(sessions, systems string) func(string) string {
		return func(other string) string {
			return strings.NewReplacer("OTHER", other).Replace(`{"Systems":{"@odata.id":"` + systems +
				`"},"Links":{"Sessions":{"@odata.id":"` + sessions + `"}}}`)
		}
	}
	const systems, sessions = "/redfish/v1/Systems", "/redfish/v1/SessionService/Sessions"
	for name, tt := range map[string]struct {
		root     func(string) string
		redirect bool
	}{
		"a link in full":                   {root: root("http://OTHER"+sessions, systems)},
		"a link that makes ours a user":    {root: root("@OTHER"+sessions, systems)},
		"without sessions, in full":        {root: root("", "http://OTHER"+systems)},
		"without sessions, ours as a user": {root: root("", "@OTHER"+systems)},
		"a link without a scheme":          {root: root("//OTHER"+sessions, systems)},
		"a redirect of the login":          {root: root(sessions, systems), redirect: true},
		"a redirect of a read":             {root: root("", systems), redirect: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, other := misled(t, tt.root, tt.redirect)
			p, err := bmc.New(bmc.Config{AllowHTTP: true, Protocol: bmc.Redfish},
				bmc.Deps{Credentials: &accounts{is: bmc.Account{User: "admin", Password: "secret"}}})
			if err != nil {
				t.Fatal(err)
			}
			if state, err := p.PowerState(t.Context(), machine("m-1", url)); err == nil {
				t.Errorf("got power %v, want an error", state)
			}
			if n := other.Load(); n != 0 {
				t.Errorf("got %d requests at another host, want 0", n)
			}
		})
	}
}

// A service may write its links with its own scheme and host.
func TestAbsoluteLinks(t *testing.T) {
	t.Parallel()
	var url string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redfish/v1/":
			_, _ = w.Write([]byte(`{"Systems":{"@odata.id":"` + url + `/redfish/v1/Systems"}}`))
		case "/redfish/v1/Systems":
			_, _ = w.Write([]byte(`{"Members":[{"@odata.id":"` + url + `/redfish/v1/Systems/1"}]}`))
		case "/redfish/v1/Systems/1":
			_, _ = w.Write([]byte(`{"@odata.id":"/redfish/v1/Systems/1","Id":"1","PowerState":"On"}`))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	url = s.URL
	p, err := bmc.New(bmc.Config{AllowHTTP: true, Protocol: bmc.Redfish},
		bmc.Deps{Credentials: &accounts{is: bmc.Account{User: "admin", Password: "secret"}}})
	if err != nil {
		t.Fatal(err)
	}
	if state, err := p.PowerState(t.Context(), machine("m-1", url)); err != nil {
		t.Errorf("got power %v, %v", state, err)
	}
}
