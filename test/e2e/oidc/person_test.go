package oidc

import (
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
)

// person has a browser without scripts.
type person struct {
	*testing.T
	web *http.Client
}

func newPerson(t *testing.T, transport http.RoundTripper) *person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &person{T: t, web: &http.Client{Jar: jar, Transport: transport, Timeout: 20 * time.Second}}
}

// page is a page that the person sees.
type page struct {
	url  *url.URL
	code int
	text string
}

// has fails the test if the page lacks a text.
func (p *person) has(got page, code int, texts ...string) {
	p.Helper()
	if got.code != code {
		p.Errorf("%s: got %d, want %d", got.url, got.code, code)
	}
	for _, s := range texts {
		if !strings.Contains(got.text, s) {
			p.Errorf("%s: got no %q in\n%s", got.url, s, got.text)
		}
	}
}

func (p *person) open(address string) page {
	p.Helper()
	r, err := http.NewRequestWithContext(p.Context(), http.MethodGet, address, nil)
	if err != nil {
		p.Fatal(err)
	}
	return p.send(r)
}

// post sends a form from the page that has it.
func (p *person) post(from page, action string, form url.Values) page {
	p.Helper()
	to, err := from.url.Parse(action)
	if err != nil {
		p.Fatal(err)
	}
	r, err := http.NewRequestWithContext(p.Context(), http.MethodPost, to.String(), strings.NewReader(form.Encode()))
	if err != nil {
		p.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", from.url.Scheme+"://"+from.url.Host)
	return p.send(r)
}

func (p *person) send(r *http.Request) page {
	p.Helper()
	resp, err := p.web.Do(r)
	if err != nil {
		p.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		p.Fatal(err)
	}
	return page{url: resp.Request.URL, code: resp.StatusCode, text: string(b)}
}

var (
	hidden = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)
	action = regexp.MustCompile(`<form method="POST" action="([^"]*)"`)
	button = regexp.MustCompile(`href="([^"]*)">Sign in with Example SSO<`)
)

// find returns what an expression finds on a page.
func (p *person) find(in page, e *regexp.Regexp) string {
	p.Helper()
	m := e.FindStringSubmatch(in.text)
	if m == nil {
		p.Fatalf("%s: got no %s in %d\n%s", in.url, e, in.code, in.text)
	}
	return html.UnescapeString(m[1])
}

// authenticate fills in the form of the provider.
func (p *person) authenticate(form page, user, password string) page {
	p.Helper()
	v := url.Values{"username": {user}, "password": {password}}
	for _, m := range hidden.FindAllStringSubmatch(form.text, -1) {
		v.Set(html.UnescapeString(m[1]), html.UnescapeString(m[2]))
	}
	return p.post(form, p.find(form, action), v)
}

// press presses the button of a sign-in page, which leads to the provider.
func (p *person) press(signin page) page {
	p.Helper()
	to, err := signin.url.Parse(p.find(signin, button))
	if err != nil {
		p.Fatal(err)
	}
	return p.open(to.String())
}
