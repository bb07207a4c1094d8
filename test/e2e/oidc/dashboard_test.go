package oidc

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

var (
	ended     = regexp.MustCompile(`You are signed out here\. <a href="([^"]*)">`)
	requestID = regexp.MustCompile(`name="id" value="([^"]*)"`)
)

// name returns the name of a person in the cluster.
func (l *lab) name(user string) string {
	return "user:" + user + "@" + strings.TrimPrefix(l.idp.url, "http://")
}

func (l *lab) person(t *testing.T) *person { t.Helper(); return newPerson(t, l.web) }

func testDashboard(t *testing.T, l *lab) {
	l.scene(t, "signs in and out", func(t *testing.T) {
		p := l.person(t)
		signin := p.open(l.home + "/ui/machines?sort=id")
		p.has(signin, http.StatusUnauthorized)
		form := p.press(signin)
		if got := form.url.Scheme + "://" + form.url.Host; got != l.idp.url {
			t.Fatalf("got the form of %s, want %s", got, l.idp.url)
		}
		got := p.authenticate(form, "alice", password)
		p.has(got, http.StatusOK, l.name("alice"), "operator")
		if want := l.home + "/ui/machines?sort=id"; got.url.String() != want {
			t.Errorf("got %s, want the page asked for first, %s", got.url, want)
		}
		out := p.post(got, "/ui/signout", url.Values{})
		p.has(out, http.StatusOK)
		end := p.open(p.find(out, ended))
		p.has(end, http.StatusOK, "signed out")
		p.has(p.open(l.home+"/ui/"), http.StatusUnauthorized)
	})
	l.scene(t, "has no role", func(t *testing.T) {
		p := l.person(t)
		got := p.authenticate(p.press(p.open(l.home+"/ui/")), "nora", password)
		p.has(got, http.StatusForbidden, l.name("nora")+"</b> no role<",
			"(no role) may not open this page: this needs the role viewer: an admin maps a role or group", "oidc_issuers")
	})
	l.scene(t, "wrong password", func(t *testing.T) {
		p := l.person(t)
		form := p.press(p.open(l.home + "/ui/"))
		got := p.authenticate(form, "alice", "guess")
		p.has(got, http.StatusOK, "username or password wrong")
		got = p.open(l.idp.url + "/auth/callback?id=" + p.find(form, requestID)) // as if it was the right one
		p.has(got, http.StatusUnauthorized, "Example SSO refused the sign-in", "Sign in again")
		p.has(p.open(l.home+"/ui/"), http.StatusUnauthorized)
	})
	l.scene(t, "another browser cannot finish it", func(t *testing.T) {
		p, thief := l.person(t), l.person(t)
		var back string
		p.web.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
			if r.URL.Path == "/ui/signin/callback" {
				back = r.URL.String()
				return http.ErrUseLastResponse
			}
			return nil
		}
		p.authenticate(p.press(p.open(l.home+"/ui/")), "alice", password)
		thief.has(thief.open(back), http.StatusUnauthorized, "not begun in this browser")
		p.has(p.open(back), http.StatusOK, l.name("alice"))
	})
	l.scene(t, "wrong client secret", func(t *testing.T) {
		l.write("client-secret", "of-another-client")
		defer l.write("client-secret", clientSecret)
		p := l.person(t)
		got := p.authenticate(p.press(p.open(l.home+"/ui/")), "alice", password)
		p.has(got, http.StatusUnauthorized, "refuses this cluster&#39;s client", "client_secret_file")
		p.has(p.open(l.home+"/ui/"), http.StatusUnauthorized)
	})
}
